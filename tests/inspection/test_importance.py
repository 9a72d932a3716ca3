"""Importance of views: permuted contributions are permuted data, p-values are calibrated, duplicates as told."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import kstest
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import multikernel as mk
from multikernel.inspection import explain, view_importance
from multikernel.inspection.importance import holm, permutation_p_value
from multikernel.inspection.views import Parts, find_views
from multikernel.kernels import RBF, Linear, join_views, kernel_grid

KERNELS = [RBF(columns=[0, 1]), Linear(columns=[0, 1]), RBF(columns=[2, 3]), RBF(columns=[4])]


def planted(n=150, n_classes=3, seed=0):
    """Columns 0 and 1 know the class, column 2 a little, 3 and 4 nothing."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) % n_classes
    X = rng.normal(size=(n, 5))
    X[:, :2] += 1.5 * y[:, None]
    X[:, 2] += 0.3 * (y == 1)
    return X, y


MODELS = [
    mk.MKLClassifier(KERNELS, p=2.0),
    mk.MKLClassifier(KERNELS, weights="per-class"),
    mk.MKLClassifier(KERNELS, multi_class="ovo"),
    mk.CSKLClassifier(KERNELS, t=2),
    mk.GMKLClassifier(KERNELS),
    mk.MKFDAClassifier(KERNELS),
    mk.ObscureClassifier(KERNELS, max_iter=20, random_state=0),
    mk.UFOMKLClassifier(KERNELS, max_iter=20, random_state=0),
    mk.SVRGMKLClassifier(KERNELS),
    mk.LPBetaClassifier(KERNELS),
    mk.CGBoostClassifier(KERNELS),
    mk.KernelAverageClassifier(KERNELS),
    mk.KernelAverageClassifier([RBF(columns=[0, 1]), RBF(columns=[2, 3])], how="product"),
    mk.MKLClassifier(KERNELS, normalize="cosine"),
    mk.MKLClassifier(KERNELS, normalize="center"),
]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("model", MODELS, ids=lambda model: type(model).__name__)
@pytest.mark.parametrize("n_classes", [2, 3])
def test_permuted_contributions_are_those_of_permuted_columns(model, n_classes):
    X, y = planted(n_classes=n_classes)
    model = model.fit(X[:90], y[:90])
    X = X[90:]
    order = np.random.default_rng(1).permutation(len(X))
    shuffled = X.copy()
    shuffled[:, :2] = X[order, :2]
    parts, kernels = Parts(model, X), next(iter(find_views(model).values()))
    assert_allclose(parts.permuted(kernels).decision_function(X), model.decision_function(X), atol=1e-10)
    changed = parts.permuted(kernels, order)
    assert_allclose(changed.decision_function(X), model.decision_function(shuffled), atol=1e-10)
    assert_array_equal(changed.predict(X), model.predict(shuffled))
    assert np.ptp(model.decision_function(X) - changed.decision_function(X)) > 1e-3


def test_precomputed_kernels_are_views_of_their_own():
    X, y = planted()
    stack = mk.gram_stack(X, KERNELS)
    array = np.moveaxis(stack.to_array(), 0, -1)
    model = mk.MKLClassifier("precomputed", p=2.0).fit(array[np.ix_(range(90), range(90))], y[:90])
    test = array[90:, :90]
    result = view_importance(model, test, y[90:], random_state=0)
    assert list(result.names) == list(model.kernel_names_)
    both = view_importance(model, test, y[90:], {"useful": [0, 1], "rest": [2, 3]}, random_state=0)
    assert both.importances_mean[0] > 0.2
    assert both.p_values[0] < 0.05
    refit = view_importance(model, array[:90, :90], y[:90], ["a", "a", "b", "c"], "refit", 3, random_state=0)
    assert refit.importances_mean[0] > 0.1 > abs(refit.importances_mean[2])


def mean_margin(model, X, y):
    """A score without ties, and quicker than those of scikit-learn."""
    return float(
        np.mean((2 * y - 1) * np.sign(model.decision_function(X)) * np.sqrt(np.abs(model.decision_function(X))))
    )


def test_p_values_of_noise_are_calibrated_and_signal_is_found():
    """200 problems, noise in the last view: uncorrected p-values are uniform, corrected ones rarely below 5 %."""
    p_noise, corrected, found = [], [], 0
    for seed in range(200):
        rng = np.random.default_rng(seed)
        y = np.arange(80) % 2
        X = rng.normal(size=(80, 4))
        X[:, :2] += 1.5 * y[:, None]
        model = mk.KernelAverageClassifier([RBF(columns=[0, 1]), RBF(columns=[2, 3])]).fit(X[:40], y[:40])
        result = view_importance(model, X[40:], y[40:], scoring=mean_margin, random_state=seed)
        p_noise.append(result.p_values_uncorrected[1])
        corrected.append(result.p_values[1])
        found += result.p_values[0] < 0.05
    assert kstest(p_noise, "uniform").pvalue > 0.01
    assert np.mean(np.array(corrected) > 0.05) >= 0.95
    assert found >= 190


def test_duplicates_share_importance_when_permuted_and_lose_it_when_refitted():
    X, y = planted(n=240, n_classes=2)
    X = np.column_stack([X[:, :2], X[:, :2], X[:, 3:]])
    kernels = [RBF(columns=[0, 1]), RBF(columns=[2, 3]), RBF(columns=[4, 5])]
    model = mk.MKLClassifier(kernels, p=2.0).fit(X[:120], y[:120])
    permuted = view_importance(model, X[120:], y[120:], scoring="roc_auc", random_state=0)
    assert (permuted.p_values[:2] < 0.05).all()
    assert permuted.p_values[2] > 0.05
    assert_allclose(permuted.importances_mean[0], permuted.importances_mean[1], rtol=0.5)
    refit = view_importance(model, X, y, method="refit", scoring="roc_auc", n_repeats=4, random_state=0)
    assert np.abs(refit.importances_mean[:2]).max() < 0.1 * permuted.importances_mean[:2].min()


def test_refit_is_what_refitting_by_hand_gives():
    from sklearn.model_selection import StratifiedShuffleSplit

    X, y = planted()
    model = mk.MKLClassifier(KERNELS, p=2.0, tol=1e-8).fit(X, y)
    result = view_importance(model, X, y, method="refit", n_repeats=3, random_state=5)
    splits = StratifiedShuffleSplit(3, test_size=0.25, random_state=np.random.RandomState(5)).split(X, y)
    for k, (train, test) in enumerate(splits):
        without = mk.MKLClassifier(KERNELS[2:], p=2.0, tol=1e-8).fit(X[train], y[train]).score(X[test], y[test])
        whole = mk.MKLClassifier(KERNELS, p=2.0, tol=1e-8).fit(X[train], y[train]).score(X[test], y[test])
        assert_allclose([result.baseline[k], result.importances[0, k]], [whole, whole - without], atol=1e-12)


def test_pipelines_searches_multilabel_and_regression():
    X, y = planted()
    search = GridSearchCV(
        make_pipeline(StandardScaler(), mk.MKLClassifier(KERNELS)), {"mklclassifier__C": [1.0, 10.0]}, cv=2
    )
    search.fit(X[:90], y[:90])
    result = view_importance(search, X[90:], y[90:], scoring="balanced_accuracy", random_state=0, n_jobs=2)
    assert result.baseline == pytest.approx(mk_score(search, X[90:], y[90:]))
    assert result.p_values[0] < 0.05
    assert view_importance(search, X, y, method="refit", n_repeats=2, random_state=0).importances.shape == (3, 2)
    labels = mk.MultilabelMKLClassifier(KERNELS).fit(X, np.eye(3, dtype=int)[y])
    assert view_importance(labels, X, np.eye(3, dtype=int)[y], random_state=0).importances_mean[0] > 0.2
    regressor = mk.SVRGMKLRegressor(KERNELS).fit(X, X[:, 0])
    assert view_importance(regressor, X, X[:, 0], random_state=0).importances_mean.argmax() == 0


def mk_score(search, X, y):
    from sklearn.metrics import balanced_accuracy_score

    return balanced_accuracy_score(y, search.predict(X))


def test_names_of_views_and_errors_that_name_what_is_wrong():
    rng = np.random.default_rng(0)
    X, columns = join_views({"rna": rng.normal(size=(40, 3)), "protein": rng.normal(size=(40, 2))})
    y = np.arange(40) % 2
    model = mk.MKLClassifier(kernel_grid(columns)).fit(X, y)
    assert list(find_views(model)) == ["rna", "protein"]
    with pytest.raises(ValueError, match="5 labels for 6 kernels"):
        view_importance(model, X, y, views=list("aabbc"))
    with pytest.raises(ValueError, match="in two views"):
        view_importance(model, X, y, views={"a": [0, 1], "b": [1]})
    with pytest.raises(ValueError, match="'nonsense', which the model has not"):
        view_importance(model, X, y, views={"a": ["nonsense"]})
    with pytest.raises(ValueError, match="method='drop' is not known"):
        view_importance(model, X, y, method="drop")
    alone = mk.MKLClassifier().fit(X, y)
    with pytest.raises(ValueError, match="one view"):
        view_importance(alone, X, y, method="refit")
    with pytest.raises(TypeError, match="no estimator of this library"):
        view_importance(StandardScaler().fit(X), X, y)


def test_p_values_and_holms_correction_by_hand():
    scores = np.linspace(0.0, 1.0, 99)
    assert permutation_p_value(scores, 0.5) == 0.51  # 50 are as good: one is the same
    assert permutation_p_value(scores, -1.0) == 1.0
    assert permutation_p_value(scores, 2.0) == pytest.approx(1e-4)  # and not 1e-8
    assert 1e-4 < permutation_p_value(scores, 1.2) < 0.01
    assert permutation_p_value(np.zeros(99), 1.0) == 0.01
    assert_allclose(holm(np.array([0.02, 0.5, 0.01])), [0.04, 0.5, 0.03])


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "model", [MODELS[0], MODELS[1], MODELS[5], MODELS[9]], ids=lambda model: type(model).__name__
)
def test_explanations_add_up_to_the_decision_function(model, n_classes):
    pd = pytest.importorskip("pandas")
    X, y = planted(n_classes=n_classes)
    frame = pd.DataFrame(X, index=[f"patient {i}" for i in range(len(X))])
    frame.columns = [str(column) for column in frame.columns]
    model = make_pipeline(StandardScaler(), model).fit(X, y)
    table = explain(model, X[:7])
    sums = table.groupby(["sample", "class"], sort=False)["contribution"].sum().to_numpy().reshape(7, -1)
    assert_allclose(sums.squeeze(), model.decision_function(X[:7]), atol=1e-10)
    assert set(table["view"]) == {"columns 0, 1", "columns 2, 3", "column 4", "(intercept)"}
    named = make_pipeline(StandardScaler(), mk.MKLClassifier(KERNELS)).fit(frame, y)
    assert explain(named, frame[:2])["sample"].iloc[0] == "patient 0"


def test_decisions_between_two_of_several_classes_are_named_after_the_winner():
    rng = np.random.default_rng(0)
    y = np.repeat(["a", "b", "c"], 20)
    X = rng.normal(size=(60, 2)) + 4.0 * np.eye(3)[np.repeat(range(3), 20), :2]
    table = explain(mk.KernelAverageClassifier([RBF()], multi_class="ovo").fit(X, y), X[:1])
    sums = table.groupby("class")["contribution"].sum()
    assert list(sums.index) == ["b over a", "c over a", "c over b"]
    assert (sums[["b over a", "c over a"]] < 0).all()  # the sample is of class a
