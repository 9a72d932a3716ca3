"""The baselines do what they say, on features and on precomputed kernels."""

import pickle

import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn import config_context
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_iris, make_classification
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from multikernel import BestKernelClassifier, KernelAverageClassifier, gram_stack
from multikernel.estimators import average, best
from multikernel.gram import DenseStack, LazyStack
from multikernel.kernels import RBF, FromDistance, KernelFamily, Linear, Polynomial, Sigmoid

IRIS_X, IRIS_y = load_iris(return_X_y=True)
BINARY_X, BINARY_y = make_classification(120, 8, n_informative=5, flip_y=0.1, random_state=0)
KERNELS = [RBF(), RBF(bandwidth="4*mean"), Polynomial(degree=2)]


def average_kernel(X, Z=None, kernels=KERNELS):
    return KernelFamily.fit(kernels, X).evaluate(X, Z).mean(axis=0)


def test_average_kernel_svm_reaches_the_optimum_of_svc():
    K = average_kernel(BINARY_X)
    svc = SVC(C=3.0, kernel="precomputed", tol=1e-9).fit(K, BINARY_y)
    coef = svc.dual_coef_[0]
    optimum = np.abs(coef).sum() - 0.5 * coef @ K[np.ix_(svc.support_, svc.support_)] @ coef
    model = KernelAverageClassifier(KERNELS, C=3.0, tol=1e-8).fit(BINARY_X, BINARY_y)
    assert_allclose(model.objective_, optimum, rtol=1e-7)
    assert 0 <= model.dual_gap_ <= 1e-8 * model.objective_
    assert_allclose(model.decision_function(BINARY_X), svc.decision_function(K), atol=1e-3)


def test_product_kernel_is_the_geometric_mean():
    kernels = [RBF(), RBF(bandwidth="0.25*mean"), RBF(columns=[0, 1])]
    family = KernelFamily.fit(kernels, BINARY_X)
    K = np.prod(family.evaluate(BINARY_X), axis=0) ** (1 / 3)
    expected = SVC(kernel="precomputed", tol=1e-9).fit(K, BINARY_y).decision_function(K)
    model = KernelAverageClassifier(kernels, how="product", tol=1e-8).fit(BINARY_X, BINARY_y)
    assert_allclose(model.decision_function(BINARY_X), expected, atol=1e-3)
    assert not hasattr(model, "kernel_contributions")


def test_product_of_kernels_with_negative_entries_is_an_error():
    with pytest.raises(ValueError, match=r'without negative entries, but kernels\[1\] \("linear"\) is -'):
        KernelAverageClassifier([RBF(), Linear()], how="product").fit(BINARY_X, BINARY_y)


def test_the_search_for_the_best_kernel_keeps_to_the_memory_of_the_fit(monkeypatch):
    budgets, original = [], average.one_kernel
    for module in (average, best):
        monkeypatch.setattr(module, "one_kernel", lambda *given: budgets.append(given[2]) or original(*given))
    BestKernelClassifier(KERNELS, cv=2, memory="20kB").fit(IRIS_X, IRIS_y)
    assert len(budgets) == len(KERNELS) + 1
    assert set(budgets) == {20 * 1024}


@pytest.mark.parametrize("normalize", [None, "cosine", "trace", "variance", "center", ["center", "cosine", "trace"]])
def test_normalised_features_equal_normalised_by_hand(normalize):
    train, test = IRIS_X[::2], IRIS_X[1::2]
    model = KernelAverageClassifier(KERNELS, normalize=normalize, C=100.0, tol=1e-7).fit(train, IRIS_y[::2])
    everything = KernelFamily.fit(KERNELS, train).evaluate(np.vstack([train, test]))
    n = len(train)
    for step in [] if normalize is None else np.atleast_1d(normalize):
        inner = everything[:, :n, :n]
        if step == "center":
            rows = everything[:, :, :n].mean(axis=2, keepdims=True)
            everything = everything - rows - rows.transpose(0, 2, 1) + inner.mean(axis=(1, 2), keepdims=True)
        elif step == "cosine":
            scale = 1 / np.sqrt(np.diagonal(everything, axis1=1, axis2=2))
            everything = everything * scale[:, :, None] * scale[:, None, :]
        else:
            trace = np.trace(inner, axis1=1, axis2=2)
            size = trace if step == "trace" else trace / n - inner.mean(axis=(1, 2))
            everything = everything / size[:, None, None]
    K = everything.mean(axis=0)
    reference = KernelAverageClassifier("precomputed", C=100.0, tol=1e-7).fit(K[:n, :n], IRIS_y[::2])
    assert_allclose(model.objective_, reference.objective_, rtol=1e-6)
    scores = reference.decision_function(K[n:, :n])
    assert_allclose(model.decision_function(test), scores, atol=1e-3 * np.abs(scores).max())


def test_best_kernel_is_the_one_that_cross_validates_best():
    noise = np.random.default_rng(0).normal(size=(len(IRIS_X), 2))
    X = np.hstack([noise, IRIS_X])
    kernels = [RBF(columns=[0, 1], name="noise"), RBF(columns=[4, 5], name="petals"), RBF(columns=[2], name="length")]
    model = BestKernelClassifier(kernels, C=10.0).fit(X, IRIS_y)
    alone = [cross_val_score(KernelAverageClassifier([kernel], C=10.0), X, IRIS_y, cv=5).mean() for kernel in kernels]
    assert model.kernel_names_[model.best_index_] == "petals"
    assert_allclose(model.kernel_scores_, alone, atol=0.03)
    assert_array_equal(model.weights_, [0, 1, 0])
    assert model.n_kernels_ == 1


def test_common_attributes_have_their_shapes():
    model = KernelAverageClassifier(KERNELS).fit(IRIS_X, IRIS_y)
    assert model.weights_.shape == (3,)
    assert list(model.kernel_names_) == ["rbf(mean)", "rbf(4*mean)", "poly(2)"]
    assert model.objective_.shape == model.dual_gap_.shape == model.intercept_.shape == (3,)
    assert model.dual_coef_.shape == (3, len(model.support_))
    assert model.n_kernels_ == 3
    assert model.converged_
    assert model.n_iter_ >= 1
    assert set(model.history_[0]) == {
        "problem", "iteration", "time", "objective", "gap", "relative_gap", "weights"
    }  # fmt: skip
    assert isinstance(KernelAverageClassifier(KERNELS).fit(BINARY_X, BINARY_y).objective_, float)


def test_string_labels_and_class_order():
    names = np.array(["virginica", "setosa", "versicolor"])[IRIS_y]
    model = KernelAverageClassifier(KERNELS).fit(IRIS_X, names)
    assert_array_equal(model.classes_, ["setosa", "versicolor", "virginica"])
    assert model.score(IRIS_X, names) > 0.9
    assert model.predict(IRIS_X[:1])[0] == "virginica"


def test_grid_search_over_kernels_and_C_on_features():
    search = GridSearchCV(
        make_pipeline(StandardScaler(), KernelAverageClassifier()),
        {
            "kernelaverageclassifier__C": [0.1, 10.0],
            "kernelaverageclassifier__kernels": [[Linear()], [RBF(), RBF(bandwidth="4*mean")]],
        },
        cv=3,
        error_score="raise",
    ).fit(IRIS_X, IRIS_y)
    assert search.best_score_ > 0.9
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()


@pytest.mark.parametrize("form", ["array", "stack", "lazy"])
def test_grid_search_slices_precomputed_kernels(form):
    family = KernelFamily.fit([RBF(columns=[0, 1]), RBF(columns=[2, 3])], IRIS_X)
    K = family.evaluate(IRIS_X)
    X = {"array": np.moveaxis(K, 0, -1), "stack": DenseStack(K), "lazy": LazyStack(family, IRIS_X, memory=0)}[form]
    search = GridSearchCV(KernelAverageClassifier("precomputed"), {"C": [0.1, 10.0]}, cv=3, error_score="raise")
    search.fit(X, IRIS_y)
    reference = [
        cross_val_score(SVC(C=C, kernel="precomputed"), K.mean(axis=0), IRIS_y, cv=3).mean() for C in (0.1, 10.0)
    ]
    assert_allclose(search.cv_results_["mean_test_score"], reference, atol=0.05)


def test_distances_are_turned_into_kernels_fold_by_fold():
    views = [IRIS_X[:, :2], IRIS_X[:, 2:]]
    D = np.stack([((v[:, None] - v[None]) ** 2).sum(axis=2) for v in views], axis=-1)
    kernels = [FromDistance(columns=0, name="sepals"), FromDistance(columns=1, name="petals")]
    model = KernelAverageClassifier(kernels).fit(D[::2][:, ::2], IRIS_y[::2])
    same = KernelAverageClassifier([RBF(columns=[0, 1]), RBF(columns=[2, 3])]).fit(IRIS_X[::2], IRIS_y[::2])
    scores = model.decision_function(D[1::2][:, ::2])
    assert_allclose(scores, same.decision_function(IRIS_X[1::2]), atol=1e-6)
    assert cross_val_score(KernelAverageClassifier(kernels), D, IRIS_y, cv=3, error_score="raise").mean() > 0.9
    with pytest.raises(ValueError, match="trained on 75 samples"):
        model.predict(D[1::2])


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_data_frames_select_columns_by_name(frame):
    columns = ["sl", "sw", "pl", "pw"]
    X = frame(dict(zip(columns, IRIS_X.T)))
    kernels = [RBF(columns=["pl", "pw"]), RBF(columns=lambda table: [c for c in table.columns if c.startswith("s")])]
    model = KernelAverageClassifier(kernels).fit(X, IRIS_y)
    reference = KernelAverageClassifier([RBF(columns=[2, 3]), RBF(columns=[0, 1])]).fit(IRIS_X, IRIS_y)
    assert_allclose(model.decision_function(X), reference.decision_function(IRIS_X))
    with pytest.raises(ValueError, match="same order"):
        model.predict(X[columns[::-1]])
    with pytest.raises(ValueError, match="petal"):
        KernelAverageClassifier([RBF(columns=["petal"])]).fit(X, IRIS_y)


def test_sparse_features_are_accepted():
    X = sparse.csr_matrix(np.where(IRIS_X > 3, IRIS_X, 0.0))
    kernels = [Linear(), RBF()]
    model = KernelAverageClassifier(kernels, tol=1e-10).fit(X, IRIS_y)
    reference = KernelAverageClassifier(kernels, tol=1e-10).fit(X.toarray(), IRIS_y)
    assert_allclose(model.decision_function(X), reference.decision_function(X.toarray()), atol=1e-4)


def test_models_are_small_and_survive_pickling():
    X = np.random.default_rng(0).normal(size=(600, 3))
    y = X[:, 0] > 0
    model = KernelAverageClassifier([RBF(), RBF(bandwidth="4*mean")], C=100.0).fit(X, y)
    stored = pickle.dumps(model)
    assert len(stored) < 60_000  # the two Grams would be 5.8 MB
    assert_array_equal(pickle.loads(stored).decision_function(X), model.decision_function(X))
    assert len(model._X) == len(model.support_)
    precomputed = KernelAverageClassifier("precomputed").fit(gram_stack(X, [RBF()]), y)
    assert len(pickle.dumps(precomputed)) < 60_000


def test_clones_do_not_share_fitted_kernels():
    model = KernelAverageClassifier(KERNELS).fit(IRIS_X, IRIS_y)
    assert not hasattr(KERNELS[0], "bandwidth_")
    assert clone(model).get_params()["kernels"] == KERNELS
    with pytest.raises(NotFittedError):
        clone(model).predict(IRIS_X)


def test_sample_weights_equal_repetition_when_kernels_are_fixed():
    kernels = [RBF(bandwidth=5.0), Linear()]
    weight = np.random.default_rng(0).integers(0, 4, size=len(BINARY_y))
    weighted = KernelAverageClassifier(kernels, tol=1e-10).fit(BINARY_X, BINARY_y, sample_weight=weight)
    repeated = KernelAverageClassifier(kernels, tol=1e-10)
    repeated.fit(np.repeat(BINARY_X, weight, axis=0), np.repeat(BINARY_y, weight))
    assert_allclose(weighted.objective_, repeated.objective_, rtol=1e-8)
    assert_allclose(weighted.decision_function(BINARY_X), repeated.decision_function(BINARY_X), atol=1e-5)


def test_class_weights_multiply_C():
    weight = {0: 2.0, 1: 0.5}
    by_class = KernelAverageClassifier(KERNELS, class_weight=weight).fit(BINARY_X, BINARY_y)
    by_sample = KernelAverageClassifier(KERNELS).fit(
        BINARY_X, BINARY_y, sample_weight=np.where(BINARY_y == 0, 2.0, 0.5)
    )
    assert_array_equal(by_class.dual_coef_, by_sample.dual_coef_)
    assert KernelAverageClassifier(KERNELS, class_weight="balanced").fit(IRIS_X, IRIS_y).converged_


def test_probabilities_come_from_calibration():
    model = CalibratedClassifierCV(KernelAverageClassifier(KERNELS), cv=3).fit(IRIS_X, IRIS_y)
    assert_allclose(model.predict_proba(IRIS_X).sum(axis=1), 1.0)
    assert model.score(IRIS_X, IRIS_y) > 0.9


def test_a_fit_that_is_cut_short_warns_with_its_gap():
    model = KernelAverageClassifier(KERNELS, max_time=1e-9)
    with pytest.warns(
        ConvergenceWarning, match=r"in 3 of 3 problems.*max_time was reached at a relative duality gap of 1,"
    ):
        model.fit(IRIS_X, IRIS_y)
    assert not model.converged_
    assert (model.dual_gap_ > 0).all()
    assert model.predict(IRIS_X).shape == IRIS_y.shape


def test_a_kernel_that_is_not_psd_warns_that_nothing_more_can_be_done():
    K = np.random.default_rng(0).normal(size=(60, 60))
    with pytest.warns(ConvergenceWarning, match="no further progress was possible"):
        KernelAverageClassifier("precomputed", psd="ignore").fit(K + K.T, np.arange(60) % 2)


def test_clipping_drops_the_negative_part_in_training_and_test():
    kernel = Sigmoid(gamma=0.3, coef0=-1.0)
    with pytest.raises(ValueError, match="not positive semi-definite"):
        KernelAverageClassifier([kernel]).fit(BINARY_X, BINARY_y)
    train, test = BINARY_X[:90], BINARY_X[90:]
    model = KernelAverageClassifier([kernel, RBF()], psd="clip", tol=1e-8).fit(train, BINARY_y[:90])
    family = KernelFamily.fit([kernel, RBF()], train)
    K, K_test = family.evaluate(train), family.evaluate(test, train)
    values, vectors = np.linalg.eigh(K[0])
    keep = vectors[:, values > 0] @ vectors[:, values > 0].T
    reference = KernelAverageClassifier("precomputed", tol=1e-8)
    reference.fit(np.stack([keep @ K[0] @ keep, K[1]], axis=-1), BINARY_y[:90])
    expected = reference.decision_function(np.stack([K_test[0] @ keep, K_test[1]], axis=-1))
    assert_allclose(model.decision_function(test), expected, atol=1e-4)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"how": "median"}, "how='median' is not known"),
        ({"multi_class": "all"}, "multi_class='all' is not known"),
        ({"psd": "fix"}, "psd='fix' is not known: use one of 'raise'"),
        ({"tol": 0.0}, "tol=0.0 must be positive"),
        ({"C": -1.0}, "C must be a positive number, got -1.0"),
        ({"max_iter": 0}, "max_iter=0 must be at least 1"),
        ({"normalize": "unit"}, "normalize='unit' is not a step"),
        ({"normalize": {"nose": "cosine"}}, "unknown kernels: \\['nose'\\]"),
        ({"memory": "much"}, "memory='much' is not a size"),
        ({"kernels": []}, "kernels is empty"),
        ({"kernels": ["rfb"]}, "did you mean 'rbf'"),
    ],
)
def test_bad_parameters_are_named(parameters, message):
    with pytest.raises(ValueError, match=message):
        KernelAverageClassifier(**{"kernels": KERNELS, **parameters}).fit(BINARY_X, BINARY_y)


def test_bad_data_is_named():
    X = BINARY_X.copy()
    X[3, 2] = np.nan
    with pytest.raises(ValueError, match="NaN"):
        KernelAverageClassifier(KERNELS).fit(X, BINARY_y)
    with pytest.raises(ValueError, match="only one class"):
        KernelAverageClassifier(KERNELS).fit(BINARY_X, np.zeros(len(BINARY_X)))
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        KernelAverageClassifier("precomputed").fit(np.eye(5), [0, 1, 0, 1])
    with pytest.raises(ValueError, match="at least one non-zero"):
        KernelAverageClassifier(KERNELS).fit(BINARY_X, BINARY_y, sample_weight=np.zeros(len(BINARY_y)))


@pytest.mark.parametrize("n", [2, 3, 4])
def test_tiny_problems_are_solved(n):
    X, y = np.arange(2.0 * n).reshape(n, 2), np.arange(n) % 2
    model = KernelAverageClassifier(C=1e6).fit(X, y)
    assert model.converged_
    assert BestKernelClassifier(C=1e6, cv=2).fit(np.vstack([X, X]), np.tile(y, 2)).converged_


def test_cosine_on_precomputed_test_kernels_says_what_is_missing():
    K = average_kernel(BINARY_X, kernels=[Linear()])
    model = KernelAverageClassifier("precomputed", normalize="cosine").fit(K, BINARY_y)
    with pytest.raises(ValueError, match="self_similarity"):
        model.predict(K[:5])
    rows = DenseStack(K[None, :5], symmetric=False, self_similarity=np.diag(K)[None, :5])
    assert model.predict(rows).shape == (5,)


def test_kernels_in_another_order_are_matched_by_name():
    petals, sepals = (KernelFamily.fit([RBF(columns=c)], IRIS_X).evaluate(IRIS_X)[0] for c in ([2, 3], [0, 1]))
    model = BestKernelClassifier("precomputed").fit({"petals": petals, "sepals": sepals}, IRIS_y)
    expected = model.predict({"petals": petals, "sepals": sepals})
    assert_array_equal(model.predict({"sepals": sepals, "petals": petals}), expected)
    with pytest.raises(ValueError, match="no entry can exceed"):
        model.predict({"petals": 2 * petals, "sepals": sepals})


def test_parameters_of_single_kernels_can_be_searched():
    model = KernelAverageClassifier([RBF(), Linear()])
    assert model.get_params()["kernels__0__bandwidth"] == "mean"
    search = GridSearchCV(model, {"kernels__0__bandwidth": [1e-4, 2.0]}, cv=3, error_score="raise")
    search.fit(IRIS_X, IRIS_y)
    assert search.best_estimator_.kernels[0].bandwidth in (1e-4, 2.0)
    assert model.kernels[0].bandwidth == "mean"
    with pytest.raises(ValueError, match="names no kernel"):
        model.set_params(kernels__5__bandwidth=1.0)


def test_best_kernel_works_with_metadata_routing():
    with config_context(enable_metadata_routing=True):
        assert BestKernelClassifier([RBF(), Linear()]).fit(IRIS_X, IRIS_y).converged_


@pytest.mark.parametrize("reached", [0, 1])
def test_best_kernel_keeps_to_its_time(fake_clock, reached):
    fake_clock.jump_in(best, "fold_scores", call=reached + 1, seconds=90.0)
    with pytest.warns(ConvergenceWarning, match=f"finished only {reached} of 2 kernels: max_time was nearly used up"):
        model = BestKernelClassifier([RBF(), Linear()], max_time=100.0).fit(IRIS_X, IRIS_y)
    assert model.best_index_ == 0
    assert not model.converged_
    assert model.score(IRIS_X, IRIS_y) > 0.9  # the last fit has the rest of the time


def test_as_many_kernels_as_training_samples_are_no_mistake():
    X, y = np.random.default_rng(0).normal(size=(6, 3)), np.arange(6) % 2
    K = np.stack([np.exp(-g * ((X[:, None] - X) ** 2).sum(axis=2)) for g in np.geomspace(0.01, 1.0, 6)], axis=-1)
    model = KernelAverageClassifier("precomputed").fit(K, y)
    assert_allclose(model.decision_function(K[:2]), model.decision_function(K)[:2])


def test_an_empty_selection_of_a_stack_is_empty():
    assert gram_stack(np.eye(4))[[]].shape == (0, 4, 1)
