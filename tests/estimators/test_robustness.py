"""What users do by mistake, and what happens to a fit from outside: clear words, or the right answer."""

import warnings

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.exceptions import ConvergenceWarning, DataConversionWarning
from sklearn.model_selection import cross_val_score

from multikernel import (
    BestKernelClassifier,
    CGBoostClassifier,
    CSKLClassifierCV,
    GMKLClassifier,
    KernelAverageClassifier,
    LPBetaClassifier,
    MKFDAClassifier,
    MKFDAClassifierCV,
    MKLClassifier,
    ObscureClassifier,
    SVRGMKLClassifier,
    UFOMKLClassifier,
)
from multikernel.gram import gram_stack
from multikernel.io.models import load, save
from multikernel.kernels import RBF, FromDistance, Linear

CLASSIFIERS = [
    CGBoostClassifier,
    GMKLClassifier,
    KernelAverageClassifier,
    LPBetaClassifier,
    MKFDAClassifier,
    MKLClassifier,
    ObscureClassifier,
    UFOMKLClassifier,
]


def small_task(n=30, n_classes=2):
    """Features, precomputed kernels (n, n, F) and labels."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 3))
    distances = ((X[:, None] - X[None]) ** 2).sum(axis=2)
    K = np.stack([X @ X.T, np.exp(-distances), np.exp(-distances / 9)], axis=-1)
    y = np.digitize(X[:, 0] + 0.2 * rng.normal(size=n), np.linspace(-0.5, 0.5, n_classes - 1))
    return X, K, y


@pytest.mark.parametrize("classifier", CLASSIFIERS)
def test_an_interrupt_in_a_callback_leaves_a_usable_flagged_model(classifier):
    _, K, y = small_task(n_classes=3)

    def interrupt(row):
        raise KeyboardInterrupt

    with pytest.warns(ConvergenceWarning, match="it was interrupted"):
        model = classifier("precomputed", tol=1e-12, callback=interrupt).fit(K, y)
    assert not model.converged_
    assert model.n_iter_ >= 1
    assert set(model.predict(K)) <= set(y)


@pytest.mark.parametrize("classifier", CLASSIFIERS)
def test_labels_beside_precomputed_kernels_are_checked_as_beside_features(classifier):
    _, K, y = small_task()
    with pytest.warns(DataConversionWarning, match="column-vector y"):
        column = classifier("precomputed", tol=0.1, random_state=0).fit(K, y[:, None])
    assert_array_equal(column.classes_, np.unique(y))
    with pytest.raises(ValueError, match="y should be a 1d array"):
        classifier("precomputed").fit(K, np.column_stack([y, y]))
    with pytest.raises(ValueError, match="requires y to be passed, but the target y is None"):
        classifier("precomputed").fit(K, None)


@pytest.mark.parametrize("classifier", CLASSIFIERS)
def test_no_samples_and_no_kernels_are_told(classifier):
    _, K, y = small_task()
    with pytest.raises(ValueError, match="there is nothing to learn from"):
        classifier("precomputed").fit(K[:, :, :0], y)
    with pytest.raises(ValueError, match="there is nothing to learn from"):
        classifier("precomputed").fit(K[:0, :0], y[:0])


@pytest.mark.parametrize(
    ("parameter", "value", "message"),
    [
        ("C", "large", "C='large' must be a number"),
        ("C", None, "C=None must be a number"),
        ("C", np.inf, "C=inf must be a number"),
        ("p", "one", "p='one' must be a number"),
        ("tol", "small", "tol='small' must be a number"),
        ("max_iter", 2.5, "max_iter=2.5 must be a whole number"),
        ("max_iter", None, "max_iter=None must be a whole number"),
        ("max_time", "soon", "max_time='soon' must be positive"),
        ("callback", 5, "callback=5 must be a function"),
        ("normalize", 3, "normalize=3 is not a step"),
    ],
)
def test_parameters_of_a_wrong_type_are_named(parameter, value, message):
    _, K, y = small_task()
    with pytest.raises(ValueError, match=message):
        MKLClassifier("precomputed").set_params(**{parameter: value}).fit(K, y)


def test_boosting_on_zero_kernels_divides_by_nothing():
    _, K, y = small_task()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = CGBoostClassifier("precomputed").fit(np.zeros_like(K), y)
    assert_allclose(model.objective_, 2 * min(np.bincount(y)))
    assert model.converged_


WARM_STARTERS = [GMKLClassifier, KernelAverageClassifier, MKFDAClassifier, MKLClassifier, UFOMKLClassifier]


@pytest.mark.parametrize("classifier", WARM_STARTERS)
def test_a_warm_start_on_other_kernels_samples_or_classes_is_a_fit(classifier):
    _, K, y = small_task(n_classes=3)
    model = classifier("precomputed", tol=0.05, warm_start=True, random_state=0).fit(K, y)
    more = np.concatenate([K, K[:, :, :1]], axis=2)
    for kernels, labels in ((more, y), (K, y), (K[:20, :20], y[:20]), (K, y > 0)):
        fresh = classifier("precomputed", tol=0.05, random_state=0).fit(kernels, labels)
        model.fit(kernels, labels)
        assert model.weights_.shape == fresh.weights_.shape
        assert_allclose(model.objective_, fresh.objective_, rtol=0.1)


def test_a_fit_stopped_again_and_again_keeps_its_checkpoint_until_every_task_is_done(tmp_path):
    _, K, y = small_task(n_classes=3)
    parameters = {"weights": "per-class", "tol": 1e-6}
    straight = MKLClassifier("precomputed", **parameters).fit(K, y)
    path, rounds = tmp_path / "state.npz", 0
    while rounds == 0 or path.exists():
        calls = []

        def stop_at_the_second_row(row, calls=calls):
            calls.append(row)
            return len(calls) >= 2

        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model = MKLClassifier("precomputed", checkpoint=path, callback=stop_at_the_second_row, **parameters)
            model.fit(K, y)
        rounds += 1
        assert model.converged_ != path.exists()  # what is not done can be gone on with
        assert rounds < 50
    assert rounds > 1
    assert_allclose(model.objective_, straight.objective_, rtol=1e-6)


def test_ufo_goes_on_with_the_epoch_it_was_stopped_at(tmp_path):
    _, K, y = small_task(n_classes=3)
    model = UFOMKLClassifier("precomputed", tol=1e-9, max_iter=256, random_state=0, checkpoint=tmp_path / "state.npz")
    with pytest.warns(ConvergenceWarning, match="callback"):
        model.set_params(callback=lambda row: row.get("epoch") == 64).fit(K, y)
    with pytest.warns(ConvergenceWarning, match="max_iter"):
        model.set_params(callback=None).fit(K, y)
    assert [row["epoch"] for row in model.history_ if "epoch" in row] == [1, 2, 4, 8, 16, 32, 64, 128, 256]
    assert_allclose(model.objective_, min(row["objective"] for row in model.history_))


def test_a_model_with_a_checkpoint_path_can_be_saved(tmp_path):
    _, K, y = small_task()
    model = KernelAverageClassifier("precomputed", checkpoint=tmp_path / "state.npz").fit(K, y)
    save(model, tmp_path / "model.mkl")
    restored = load(tmp_path / "model.mkl")
    assert restored.checkpoint == str(tmp_path / "state.npz")
    assert_array_equal(restored.decision_function(K), model.decision_function(K))


@pytest.mark.parametrize("classifier", [CGBoostClassifier, MKFDAClassifier, MKLClassifier])
def test_warnings_point_at_the_line_that_called_fit(classifier):
    _, K, y = small_task(n_classes=3)
    with pytest.warns(ConvergenceWarning) as caught:
        classifier("precomputed", tol=1e-12, callback=lambda row: True).fit(K, y)
    assert [warning.filename for warning in caught] == [__file__]


@pytest.mark.filterwarnings("ignore:The least populated class")
def test_the_best_kernel_needs_classes_that_folds_can_keep():
    _, K, _ = small_task()
    with pytest.raises(ValueError, match="every class has only one sample"):
        BestKernelClassifier("precomputed").fit(K[:2, :2], [0, 1])
    with pytest.raises(ValueError, match="trains on samples of class 1 only"):
        BestKernelClassifier("precomputed").fit(K[:3, :3], [0, 1, 1])


def streamed(n_first=20, **parameters):
    """A stream's model after its first samples, and what comes next."""
    X, _, y = small_task(60, n_classes=3)
    kernels = [Linear(), RBF(bandwidth=2.0)]
    model = ObscureClassifier(kernels, **parameters).partial_fit(X[:n_first], y[:n_first], classes=[0, 1, 2])
    return model, X[n_first:], y[n_first:]


def test_a_stream_takes_dense_and_sparse_samples_in_turn():
    model, X, y = streamed()
    expected = model.partial_fit(X, y).decision_function(X)
    model, X, y = streamed()
    model.partial_fit(csr_array(X[:20]), y[:20]).partial_fit(X[20:], y[20:])
    assert_allclose(model.decision_function(X), expected, atol=1e-12)


@pytest.mark.parametrize("eviction", ["oldest", "smallest"])
def test_a_budget_that_is_lowered_is_kept_to(eviction):
    model, X, y = streamed(40)
    assert len(model.support_) > 5
    model.set_params(budget=5, eviction=eviction).partial_fit(X[:1], y[:1])
    assert len(model.support_) <= 5


def test_weights_in_a_stream_are_checked_and_multiplied_with_those_of_classes():
    model, X, y = streamed()
    for weights, message in ((-1.0, "Negative values"), (np.nan, "NaN")):
        with pytest.raises(ValueError, match=message):
            model.partial_fit(X, y, sample_weight=np.full(len(y), weights))
    before = model.decision_function(X)
    assert_array_equal(model.partial_fit(X, y, sample_weight=np.zeros(len(y))).decision_function(X), before)
    with pytest.raises(ValueError, match="class_weight='balanced' depends on future samples"):
        model.set_params(class_weight="balanced").partial_fit(X, y)
    factors = np.array([3.0, 1.0, 0.5])
    by_class = streamed()[0].set_params(class_weight=dict(enumerate(factors))).partial_fit(X, y)
    by_sample = streamed()[0].partial_fit(X, y, sample_weight=factors[y])
    assert_array_equal(by_class.decision_function(X), by_sample.decision_function(X))
    assert np.abs(by_class.decision_function(X) - streamed()[0].partial_fit(X, y).decision_function(X)).max() > 0.1


def test_parameters_of_kernels_that_have_none_are_told():
    with pytest.raises(ValueError, match=r"kernels\[0\] is 'rbf', which has no parameters"):
        MKLClassifier(["rbf", "linear"]).set_params(kernels__0__bandwidth=2.0)


def test_an_indefinite_kernel_that_was_accepted_can_be_predicted_with():
    _, K, y = small_task()
    distances = -np.log(K[:, :, 1:2])
    K = 1.0 + 0.5 * distances - distances**2 / 40  # ones on the diagonal, more than that beside it, not PSD
    with pytest.raises(ValueError, match="not positive semi-definite"):
        CGBoostClassifier("precomputed").fit(K, y)
    model = CGBoostClassifier("precomputed", psd="ignore").fit(K, y)
    assert_allclose(model.decision_function(K[:5]), model.decision_function(K)[:5])


def test_distances_in_a_stack_are_judged_by_the_kernels_made_of_them():
    _, K, y = small_task()
    stack = gram_stack(K[:, :, 1:])  # similarities: fine as kernels, but no distances
    with pytest.raises(ValueError, match="not positive semi-definite"):
        MKLClassifier([FromDistance(columns=0)]).fit(stack, y)


def test_test_distances_have_all_the_matrices_of_training():
    _, K, y = small_task()
    distances = -np.log(K[:, :, 1:])
    model = MKLClassifier([FromDistance(columns=0), FromDistance(columns=1)]).fit(distances, y)
    with pytest.raises(ValueError, match="the kernels read 2 matrices of distances"):
        model.predict(distances[:3, :, :1])


def test_sparse_kernel_matrices_are_kernels():
    _, K, y = small_task()
    expected = MKLClassifier("precomputed").fit(K[:, :, 1:], y).decision_function(K[:4, :, 1:])
    sparse = [csr_array(K[:, :, 1]), csr_array(K[:, :, 2])]
    model = MKLClassifier("precomputed").fit(sparse, y)
    assert_array_equal(model.decision_function([matrix[:4] for matrix in sparse]), expected)
    one = MKLClassifier("precomputed").fit(sparse[0], y)
    assert_array_equal(one.predict(sparse[0]), one.predict(K[:, :, 1]))


def test_a_function_that_returns_nan_is_not_told_to_rescale():
    X, _, y = small_task()

    def broken(A, B):
        return np.where(A @ B.T > 3.0, np.nan, A @ B.T)

    with pytest.raises(ValueError, match=r"kernels\[0\] \('broken'\) returned \d+ values that are NaN or infinite"):
        MKLClassifier([broken, RBF()]).fit(X, y)


def test_a_checkpoint_that_could_not_be_written_is_refused_before_the_work(tmp_path):
    _, K, y = small_task()
    with pytest.raises(ValueError, match="there is no folder"):
        MKLClassifier("precomputed", checkpoint=tmp_path / "missing" / "state.npz").fit(K, y)


@pytest.mark.parametrize("normalize", [None, "cosine", ("center", "trace")])
@pytest.mark.parametrize("classifier", [CGBoostClassifier, KernelAverageClassifier, MKFDAClassifier, MKLClassifier])
def test_a_model_does_not_change_with_the_data_it_was_fitted_on(classifier, normalize):
    X, _, y = small_task()
    data = X.copy()
    model = classifier([Linear(), RBF()], normalize=normalize).fit(data, y)
    before = model.decision_function(X)
    data[:] = 0.0
    assert_array_equal(model.decision_function(X), before)


@pytest.mark.parametrize("classifier", [ObscureClassifier, UFOMKLClassifier])
@pytest.mark.parametrize("parameters", [{"C": np.inf}, {"lam": np.inf}])
def test_infinite_prices_are_refused(classifier, parameters):
    _, K, y = small_task()
    with pytest.raises(ValueError, match="=inf must be"):
        classifier("precomputed", **parameters).fit(K, y)


@pytest.mark.parametrize(
    ("X", "message"),
    [
        (
            {"a": np.ones((4, 2)), "b": np.ones((4, 3))},
            r"X is a dict of 2 tables: join them with X, columns = .*join_views\(X\)",
        ),
        ([np.eye(4), np.ones((4, 4))], r"X is a list of 2 matrices.*gram_stack\(X\), also to cross_val_score"),
    ],
)
def test_containers_of_tables_are_refused_with_what_to_do(X, message):
    y = np.arange(4) % 2
    model = KernelAverageClassifier([RBF(bandwidth=1.0)]).fit(np.arange(8.0).reshape(4, 2), y)
    for call in (lambda: clone(model).fit(X, y), lambda: model.predict(X)):
        with pytest.raises((TypeError, ValueError), match=message) as caught:
            call()
        assert "\n" not in str(caught.value)


def test_the_advice_on_lists_of_kernels_works():
    X, y = load_iris(return_X_y=True)
    kernels = [X @ X.T, np.exp(-((X[:, None] - X) ** 2).sum(axis=-1))]
    assert cross_val_score(KernelAverageClassifier("precomputed"), gram_stack(kernels), y).mean() > 0.9


def test_distances_taken_for_kernels_are_noticed():
    X, y = load_iris(return_X_y=True)
    D = np.abs(X[:, None] - X).sum(axis=-1)
    with pytest.raises(
        ValueError, match=r"diagonal is zero. If these are distances D, use kernels=\[FromDistance\(\)\]"
    ):
        KernelAverageClassifier("precomputed").fit(D[:, :, None], y)
    assert KernelAverageClassifier([FromDistance()]).fit(D, y).score(D, y) > 0.9


@pytest.mark.parametrize("names", [False, True])
def test_missing_columns_are_told_in_one_line(names):
    wanted = [f"gene{k}" for k in range(200)]
    X = pd.DataFrame(np.random.default_rng(0).normal(size=(10, 5)), columns=wanted[:5])
    told = (
        "no column named 'gene5' nor 194 more of the 200"
        if names
        else "pass a data frame, or choose them by position"
    )
    with pytest.raises(ValueError, match=told) as caught:
        KernelAverageClassifier([RBF(columns=wanted)]).fit(X if names else X.to_numpy(), np.arange(10) % 2)
    assert len(str(caught.value)) < 300
    assert "feature_names=" not in str(caught.value)


@pytest.mark.parametrize("classifier", CLASSIFIERS)
@pytest.mark.parametrize("weight", [1e300, 1e155, 1e-300])
def test_weights_whose_squares_are_no_numbers_are_refused(classifier, weight):
    _, K, y = small_task()
    with pytest.raises(ValueError, match=r"weights of samples and classes range from .* Scale them"):
        classifier("precomputed").fit(K, y, sample_weight=np.full(len(y), weight))


@pytest.mark.parametrize("classifier", [MKLClassifier, SVRGMKLClassifier, UFOMKLClassifier])
@pytest.mark.parametrize(
    ("parameter", "value"),
    [
        ("C", 10**400),
        ("C", 1e60),
        ("lam", np.inf),
        ("lam", 10**400),
        ("memory", np.inf),
        ("n_jobs", "a"),
        ("n_jobs", 0),
    ],
)
def test_numbers_that_are_none_are_refused_by_name(classifier, parameter, value):
    _, K, y = small_task()
    if parameter not in classifier().get_params():
        return
    with pytest.raises(ValueError, match=f"^{parameter}=.*(must be|is beyond)"):
        classifier("precomputed", **{parameter: value}).fit(K, y)


@pytest.mark.parametrize("place", ["X", "y", "sample_weight", "K"])
def test_masked_entries_are_not_read(place):
    X, K, y = small_task()
    given = {"X": X, "y": y, "sample_weight": np.ones(len(y))}
    if place == "K":
        given["X"] = np.ma.masked_array(K, mask=K > 2.0)
    else:
        given[place] = np.ma.masked_array(given[place], mask=np.zeros(given[place].shape, bool))
        given[place][3] = np.ma.masked
    model = MKLClassifier("precomputed" if place == "K" else [Linear(), RBF()])
    with pytest.raises(ValueError, match=f"{'X' if place == 'K' else place} has .* masked entries"):
        model.fit(**given)
    with pytest.raises(ValueError, match="X has 1 masked entries"):
        MKLClassifier([Linear()]).fit(X, y).predict(
            np.ma.masked_array(X, mask=np.arange(X.size).reshape(X.shape) == 4)
        )


def test_sparse_matrices_of_pairs_are_read_or_refused_by_shape():
    X, K, y = small_task()
    sparse = MKLClassifier(["precomputed"]).fit(csr_array(K[:, :, 1]), y)
    assert_allclose(sparse.objective_, MKLClassifier(["precomputed"]).fit(K[:, :, 1], y).objective_)
    with pytest.raises(ValueError, match="fitted on a square matrix"):
        MKLClassifier(["precomputed"]).fit(csr_array(X), y)


@pytest.mark.parametrize("classifier", [BestKernelClassifier, CSKLClassifierCV, MKFDAClassifierCV])
@pytest.mark.parametrize("test", [np.arange(15, 60), np.arange(-60, -20), np.arange(15, 30) + 0.5])
def test_folds_of_other_samples_are_refused(classifier, test):
    _, K, y = small_task()
    with pytest.raises(ValueError, match="indices outside these 30 samples"):
        classifier("precomputed", cv=[(np.arange(15), test)]).fit(K, y)


def test_two_columns_of_one_name_are_told():
    X, _, y = small_task()
    with pytest.raises(ValueError, match="X has 2 columns named 'a': rename them"):
        MKLClassifier([Linear()]).fit(pd.DataFrame(X, columns=["a", "b", "a"]), y)


@pytest.mark.parametrize("classifier", CLASSIFIERS)
def test_kernels_whose_squares_are_no_numbers_are_refused(classifier):
    _, K, y = small_task()
    K[3, 3, 0] = 1.7e308
    with pytest.raises(ValueError, match=r"has entries of 1\.7e\+308, too large to add up or square: scale it"):
        classifier("precomputed").fit(K, y)
