"""The fitted combination as a kernel: with every normalisation and with missing views, for other estimators."""

import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.cluster import SpectralClustering
from sklearn.datasets import load_iris
from sklearn.decomposition import KernelPCA
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.svm import SVC

import multikernel as mk
from multikernel.io.models import load, save
from multikernel.kernels import RBF, KernelFamily, Linear

X, y = load_iris(return_X_y=True)
KERNELS = [Linear(name="linear"), RBF(columns=[0, 1], bandwidth=1.0), RBF(columns=[2, 3], bandwidth=1.0)]
TRAIN, NEW = np.arange(0, 150, 2), np.arange(1, 150, 2)
CHAINS = [
    None,
    "cosine",
    ["center", "trace"],
    ["cosine", "variance"],
    ["cosine", "center", "cosine"],
    {"linear": ["trace", "center"], "*": "variance"},
]


@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.parametrize("steps", CHAINS, ids=str)
def test_any_two_tables_are_compared_as_training_samples_are(steps, missing):
    holes = X.copy()
    if missing:
        holes[np.ix_(np.arange(0, 150, 5), [0, 1])] = np.nan
        holes[np.ix_(np.arange(2, 150, 5), [2, 3])] = np.nan
    kernels = [RBF(columns=[0, 1], name="linear"), *KERNELS[2:]] if missing else KERNELS
    model = mk.KernelAverageClassifier(kernels, normalize=steps, missing="mask", keep="all").fit(
        holes[TRAIN], y[TRAIN]
    )
    K = model.kernel_(holes[NEW], holes[TRAIN])
    assert_allclose(K, model.transform(holes[NEW]), atol=1e-12)
    assert_allclose(model.kernel_(holes[TRAIN], holes[NEW]), K.T, atol=1e-12)
    between = model.kernel_(holes[NEW])
    assert_allclose(between, between.T, atol=1e-12)
    assert np.linalg.eigvalsh(between).min() > -1e-9
    if steps == "cosine" and not missing:
        assert_allclose(np.diag(between), 1.0)


def test_precomputed_and_sparse_data_and_single_precision():
    family = KernelFamily.fit(KERNELS, X[TRAIN])
    K, new = family.evaluate(X[TRAIN]), family.evaluate(X[NEW], X[TRAIN])
    expected = mk.KernelAverageClassifier(KERNELS, normalize="center").fit(X[TRAIN], y[TRAIN])
    model = mk.KernelAverageClassifier("precomputed", normalize="center").fit(np.moveaxis(K, 0, -1), y[TRAIN])
    assert_allclose(model.transform(np.moveaxis(new, 0, -1)), expected.transform(X[NEW]), atol=1e-8)
    with pytest.raises(AttributeError, match="kernel_ needs features"):
        _ = model.kernel_
    sparse = mk.KernelAverageClassifier(KERNELS, normalize="center").fit(csr_array(X[TRAIN]), y[TRAIN])
    assert_allclose(sparse.kernel_(csr_array(X[NEW]), X[TRAIN]), expected.kernel_(X[NEW], X[TRAIN]), atol=1e-6)
    single = mk.MKLClassifier(KERNELS).fit(X[TRAIN].astype(np.float32), y[TRAIN])
    assert single.transform(X[NEW].astype(np.float32)).dtype == np.float32


def test_other_estimators_use_the_kernel():
    model = mk.MKLClassifier(KERNELS, keep="all")
    assert cross_val_score(make_pipeline(model, SVC(kernel="precomputed")), X, y).mean() > 0.9
    kernel = clone(model).fit(X, y).kernel_
    assert_array_equal(
        SVC(kernel=kernel).fit(X, y).predict(X), SVC(kernel="precomputed").fit(kernel(X), y).predict(kernel(X))
    )
    assert KernelPCA(2, kernel="precomputed").fit_transform(kernel(X)).shape == (150, 2)
    assert len(set(SpectralClustering(3, affinity="precomputed", random_state=0).fit_predict(kernel(X)))) == 3
    assert_array_equal(pickle.loads(pickle.dumps(kernel))(X), kernel(X))


def test_models_keep_support_rows_unless_told_otherwise(tmp_path):
    model = mk.KernelAverageClassifier(KERNELS).fit(X, y)
    assert len(model._X) == len(model.support_) < 150
    assert model.set_params(keep="all").transform(X).shape == (150, len(model.support_))  # until it is fitted again
    table = model.set_output(transform="pandas").fit(X, y).transform(X)
    assert list(table.columns[:2]) == ["kernelaverageclassifier0", "kernelaverageclassifier1"]
    assert table.shape == (150, 150)
    save(model, tmp_path / "model.mkl")
    assert_array_equal(load(tmp_path / "model.mkl").transform(X), table)


def test_there_is_no_kernel_where_there_is_none():
    with pytest.raises(NotFittedError):
        _ = mk.MKLClassifier().kernel_
    with pytest.raises(AttributeError, match="each task has its own, with a row of weights_"):
        _ = mk.MKLClassifier(KERNELS, weights="per-class").fit(X, y).kernel_
    with pytest.raises(AttributeError, match="each has coefficients of its own"):
        _ = mk.LPBetaClassifier(KERNELS).fit(X, y).kernel_
    clipped = mk.MKLClassifier(KERNELS, psd="clip").fit(X, y)
    clipped._clipped = clipped._clipped or {0: np.eye(150)}
    with pytest.raises(AttributeError, match="between training samples only"):
        _ = clipped.kernel_
    with pytest.raises(ValueError, match="keep='all' is not for streams"):
        mk.ObscureClassifier(keep="all").partial_fit(X, y, classes=[0, 1, 2])
    with pytest.raises(ValueError, match="keep='some' is not known"):
        mk.MKLClassifier(keep="some").fit(X, y)
