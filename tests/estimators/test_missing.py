"""Samples that lack whole views: masked kernels are those of the formula in every storage, nothing else changes."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone

import multikernel as mk
from multikernel.gram.normalization import Normalization, mask_factors
from multikernel.io.models import load, save
from multikernel.kernels import RBF, KernelFamily, Linear, Nystroem

KERNELS = [RBF(columns=[0, 1]), Linear(columns=[0, 1]), RBF(columns=[2, 3]), RBF(columns=[4])]


def table(n=80, share=0.25, seed=0, n_classes=2):
    """Views (0, 1), (2, 3) and 4; the class is in the first two; some samples lack one or two of them."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) % n_classes
    X = rng.normal(size=(n, 5))
    X[:, 0] += y
    X[:, 2] += y
    holes = X.copy()
    for view in ([0, 1], [2, 3]):
        holes[np.ix_(rng.random(n) < share, view)] = np.nan
    holes[np.isnan(holes[:, 0]) & np.isnan(holes[:, 2]), 4] = 0.5  # the third view is always there
    return X, holes, y


def masked_by_hand(X, kernels=KERNELS):
    """Kernels of the samples that have the view, zero for others, times √(F / present) on both sides."""
    K = np.zeros((len(kernels), len(X), len(X)))
    present = np.array([~np.isnan(X[:, kernel.columns[0]]) for kernel in kernels])
    for k, kernel in enumerate(kernels):
        own = np.flatnonzero(present[k])
        K[k][np.ix_(own, own)] = KernelFamily.fit([kernel], X[own]).evaluate(X[own])[0]
    factor = np.sqrt(len(kernels) / present.sum(axis=0))
    return K * factor[:, None] * factor


def training_kernels(X, y, **parameters):
    """What solvers see of these samples."""
    model = mk.MKLClassifier(KERNELS, missing="mask", **parameters)
    stack, _ = model._given_stack(X, y)
    return model._normalized(stack)


MODELS = [
    mk.MKLClassifier(KERNELS, p=2.0),
    mk.MKLClassifier(KERNELS, weights="per-class"),
    mk.CSKLClassifier(KERNELS, t=2),
    mk.GMKLClassifier(KERNELS),
    mk.MKFDAClassifier(KERNELS),
    mk.ObscureClassifier(KERNELS, max_iter=20, random_state=0),
    mk.UFOMKLClassifier(KERNELS, max_iter=20, random_state=0),
    mk.SVRGMKLClassifier(KERNELS, random_state=0),
    mk.LPBetaClassifier(KERNELS),
    mk.CGBoostClassifier(KERNELS),
    mk.KernelAverageClassifier(KERNELS),
    mk.BestKernelClassifier(KERNELS),
]
NAMES = [type(model).__name__ for model in MODELS]


def test_masked_kernels_are_those_of_the_formula_and_stay_positive():
    _, X, y = table()
    stack = training_kernels(X, y)
    expected = masked_by_hand(X)
    assert_allclose(stack.to_array(), expected, atol=1e-12)
    for K in expected:
        assert np.linalg.eigvalsh(K).min() > -1e-10


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("model", MODELS, ids=NAMES)
def test_features_and_kernels_by_hand_give_the_same_model(model):
    if isinstance(model, mk.MKFDAClassifier):
        model = clone(model).set_params(normalize=None)
    _, X, y = table()
    features = clone(model).set_params(missing="mask").fit(X, y)
    given = clone(model).set_params(kernels="precomputed").fit(np.moveaxis(masked_by_hand(X), 0, -1), y)
    assert_allclose(
        features.objective_, given.objective_, rtol=1e-8, atol=np.max(features.dual_gap_ + given.dual_gap_)
    )
    assert features.n_missing_ == {
        "columns 0, 1": int(np.isnan(X[:, 0]).sum()),
        "columns 2, 3": int(np.isnan(X[:, 2]).sum()),
        "column 4": 0,
    }


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("model", MODELS, ids=NAMES)
@pytest.mark.parametrize("normalize", [None, "variance", "trace", "cosine", "center"])
def test_without_missing_samples_nothing_changes(model, normalize):
    X, _, y = table()
    model = clone(model).set_params(normalize=normalize)
    a = clone(model).set_params(missing="mask").fit(X, y)
    b = clone(model).fit(X, y)
    assert_array_equal(a.weights_, b.weights_)
    assert_array_equal(a.decision_function(X), b.decision_function(X))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("model", MODELS, ids=NAMES)
@pytest.mark.parametrize("normalize", [None, "variance", "cosine", "center", ["center", "trace"]])
def test_training_samples_are_predicted_alike_as_new_ones(model, normalize):
    """A new sample equal to a training sample has its row of the training kernel."""
    _, X, y = table(n_classes=3)
    model = clone(model).set_params(missing="mask", normalize=normalize).fit(X, y)
    rows = training_kernels(X, y, normalize=normalize)
    assert_allclose(model._test_stack(X).to_array(), rows.to_array()[:, :, model.support_], atol=1e-10)
    scores = model.decision_function(X)
    assert np.isfinite(scores).all()
    assert_allclose(model.decision_function(X[:5]), scores[:5], atol=1e-9)


def test_statistics_are_those_of_samples_that_have_the_view():
    _, X, _ = table()
    array = mk.gram_stack(np.nan_to_num(X), KERNELS).to_array()
    stack = mk.gram.DenseStack(array)
    missing = np.array([np.isnan(X[:, kernel.columns[0]]) for kernel in KERNELS])
    present = ~missing
    for step, size in (
        ("variance", lambda K: np.trace(K) / len(K) - K.mean()),
        ("trace", lambda K: np.trace(K) / len(K) * len(X)),
    ):
        normalization = Normalization(step)
        got = normalization.fit_apply(stack, missing=missing).to_array()
        for k, K in enumerate(array):
            factor = mask_factors(missing)[k]
            own = K[np.ix_(present[k], present[k])]
            assert_allclose(got[k], factor[:, None] * K / size(own) * factor, atol=1e-12)
    got = Normalization("center").fit_apply(stack, missing=missing).to_array()
    for k, K in enumerate(array):
        own = K[np.ix_(present[k], present[k])]
        centred = own - own.mean(axis=0) - own.mean(axis=1)[:, None] + own.mean()
        factor = mask_factors(missing)[k][present[k]]
        assert_allclose(got[k][np.ix_(present[k], present[k])], factor[:, None] * centred * factor, atol=1e-12)
        assert not got[k][missing[k]].any()


@pytest.mark.parametrize("normalize", [None, "variance", "center", "cosine"])
def test_storages_agree(normalize):
    _, X, y = table()
    dense, lazy = (
        mk.MKLClassifier(KERNELS, p=2.0, missing="mask", normalize=normalize, memory=memory, tol=1e-8).fit(X, y)
        for memory in ("1GB", "20kB")
    )
    assert_allclose(dense.weights_, lazy.weights_, atol=1e-5)
    assert_allclose(dense.decision_function(X), lazy.decision_function(X), atol=1e-5)
    features = [Nystroem(kernel=kernel, rank=200) for kernel in KERNELS]  # as many landmarks as samples
    explicit = mk.MKLClassifier(features, p=2.0, missing="mask", normalize=normalize, tol=1e-8).fit(X, y)
    assert_allclose(dense.weights_, explicit.weights_, atol=1e-4)


@pytest.mark.parametrize("as_stack", [False, True])
def test_precomputed_kernels_with_rows_and_columns_of_nan(as_stack):
    X, holes, y = table()
    train, test = np.arange(60), np.arange(60, 80)
    by_features = mk.MKLClassifier(
        [Linear(columns=[0, 1]), Linear(columns=[2, 3]), Linear(columns=[4])], missing="mask", tol=1e-8
    )
    kernels = by_features.kernels
    X[:, 4] = holes[:, 4]
    K = np.stack([X[:, k.columns] @ X[:, k.columns].T for k in kernels], axis=-1)
    for k, kernel in enumerate(kernels):
        gone = np.isnan(holes[:, kernel.columns[0]])
        K[gone, :, k] = np.nan
        K[:, gone, k] = np.nan
    by_features.fit(holes[train], y[train])
    square, new = K[np.ix_(train, train)], K[np.ix_(test, train)]
    if as_stack:
        square = mk.gram.DenseStack(np.ascontiguousarray(np.moveaxis(square, -1, 0)))
        new = mk.gram.DenseStack(np.ascontiguousarray(np.moveaxis(new, -1, 0)), symmetric=False)
    model = mk.MKLClassifier("precomputed", missing="mask", tol=1e-8).fit(square, y[train])
    assert_allclose(model.weights_, by_features.weights_, atol=1e-6)
    assert_allclose(model.decision_function(new), by_features.decision_function(holes[test]), atol=1e-6)
    assert list(model.n_missing_.values()) == list(by_features.n_missing_.values())
    with pytest.raises(ValueError, match="NaN"):
        mk.MKLClassifier("precomputed").fit(square, y[train])


def test_new_samples_may_lack_views_that_all_training_samples_had():
    X, _, y = table()
    model = mk.MKLClassifier(KERNELS, p=2.0, missing="mask").fit(X, y)
    alone = X.copy()
    alone[:, 2:] = np.nan  # only the first view is left: its kernels count double
    parts = model.kernel_contributions(X)
    expected = np.sqrt(2.0) * parts[:, :2].sum(axis=1) + model.intercept_
    assert_allclose(model.decision_function(alone), expected, atol=1e-10)


def test_errors_name_views_and_counts():
    X, holes, y = table()
    gone = int(np.isnan(holes[:, 0]).sum())
    with pytest.raises(ValueError, match=rf"NaN: of 80 samples some lack whole views: 'columns 0, 1' of {gone}, "):
        mk.MKLClassifier(KERNELS).fit(holes, y)
    model = mk.MKLClassifier(KERNELS).fit(X, y)
    with pytest.raises(ValueError, match="missing='mask'"):
        model.predict(holes)
    partly = X.copy()
    partly[7, 1] = np.nan
    with pytest.raises(
        ValueError,
        match="some columns of view 'columns 0, 1', but not in all, in 1 of 80 samples, the first at row 7, column 1",
    ):
        mk.MKLClassifier(KERNELS, missing="mask").fit(partly, y)
    nothing = X.copy()
    nothing[3] = np.nan
    with pytest.raises(ValueError, match="1 samples have no view at all, the first at row 3"):
        mk.MKLClassifier(KERNELS, missing="mask").fit(nothing, y)
    with pytest.raises(ValueError, match="missing='drop' is not known"):
        mk.MKLClassifier(KERNELS, missing="drop").fit(X, y)
    never = X.copy()
    never[:, 4] = np.nan
    with pytest.raises(ValueError, match="missing for every sample"):
        mk.MKLClassifier(KERNELS, missing="mask").fit(never, y)


def test_multilabel_regression_and_paths():
    _, X, y = table(n_classes=3)
    labels = mk.MultilabelMKLClassifier(KERNELS, missing="mask").fit(X, np.eye(3, dtype=int)[y])
    assert np.isfinite(labels.decision_function(X)).all()
    regressor = mk.SVRGMKLRegressor(KERNELS, missing="mask").fit(X, y.astype(float))
    assert np.isfinite(regressor.predict(X)).all()
    for search in (
        mk.MKFDAClassifierCV(KERNELS, missing="mask", cv=2),
        mk.CSKLClassifierCV(KERNELS, missing="mask", cv=2),
    ):
        assert search.fit(X, y).score(X, y) > 0.4


def test_streams_take_samples_that_lack_views():
    _, X, y = table(n=120)
    model = mk.ObscureClassifier(KERNELS, missing="mask", random_state=0)
    for start in range(0, 120, 40):
        model.partial_fit(X[start : start + 40], y[start : start + 40], classes=[0, 1])
    scores = model.decision_function(X)
    assert np.isfinite(scores).all()
    at_once = mk.ObscureClassifier(KERNELS, missing="mask", random_state=0)
    at_once.partial_fit(X[:40], y[:40], classes=[0, 1])
    at_once.partial_fit(X[40:], y[40:])
    assert_allclose(at_once.decision_function(X), scores, atol=1e-8)


def test_model_files_keep_it(tmp_path):
    _, X, y = table()
    for normalize in (None, "center"):
        model = mk.MKLClassifier(KERNELS, missing="mask", normalize=normalize).fit(X, y)
        save(model, tmp_path / "model.mkl")
        again = load(tmp_path / "model.mkl")
        assert_array_equal(again.decision_function(X), model.decision_function(X))
        assert again.n_missing_ == model.n_missing_
