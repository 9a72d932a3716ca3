"""Each kernel against its definition, symmetry, positive semi-definiteness, value semantics."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.base import clone
from sklearn.gaussian_process.kernels import RBF as GaussianProcessRBF
from sklearn.gaussian_process.kernels import ConstantKernel, WhiteKernel
from sklearn.metrics import pairwise as sklearn_pairwise

from multikernel.kernels import (
    RBF,
    ChiSquared,
    Cosine,
    FromDistance,
    FromFunction,
    FromGaussianProcess,
    HistogramIntersection,
    KernelFamily,
    Laplacian,
    Linear,
    Polynomial,
    Precomputed,
    Sigmoid,
    SpatialPyramid,
    as_kernel,
)


def inner_product(A, B):
    return A @ B.T


def histograms(n_samples, n_bins, seed=0, filled=0.5):
    rng = np.random.default_rng(seed)
    values = rng.gamma(1.0, size=(n_samples, n_bins)) * (rng.random((n_samples, n_bins)) < filled)
    values[:, 0] += 0.1  # no empty histogram
    return values


def chi_squared(x, z):
    total = x + z
    return 0.5 * np.sum(np.where(total > 0, (x - z) ** 2 / np.where(total > 0, total, 1), 0))


def harmonic(x, z):
    total = x + z
    return np.sum(np.where(total > 0, 2 * x * z / np.where(total > 0, total, 1), 0))


def unit(x):
    return x / x.sum()


def pool_2x2_to_1x1(x):
    return x.reshape(4, -1).sum(axis=0)


DEFINITIONS = [
    (Linear(), lambda x, z: x @ z),
    (Polynomial(degree=3, gamma=0.5, coef0=2), lambda x, z: (0.5 * x @ z + 2) ** 3),
    (Polynomial(degree=1, gamma=None, coef0=0), lambda x, z: x @ z / len(x)),
    (Sigmoid(gamma=0.1, coef0=0.3), lambda x, z: np.tanh(0.1 * x @ z + 0.3)),
    (Cosine(), lambda x, z: x @ z / np.sqrt((x @ x) * (z @ z))),
    (RBF(bandwidth=3.0), lambda x, z: np.exp(-np.sum((x - z) ** 2) / 3)),
    (RBF(gamma=0.25), lambda x, z: np.exp(-np.sum((x - z) ** 2) * 0.25)),
    (Laplacian(bandwidth=5.0), lambda x, z: np.exp(-np.abs(x - z).sum() / 5)),
    (ChiSquared(bandwidth=2.0, normalize=False), lambda x, z: np.exp(-chi_squared(x, z) / 2)),
    (ChiSquared(bandwidth=0.5), lambda x, z: np.exp(-chi_squared(unit(x), unit(z)) / 0.5)),
    (ChiSquared(additive=True, normalize=False), harmonic),
    (ChiSquared(additive=True), lambda x, z: harmonic(unit(x), unit(z))),
    (HistogramIntersection(normalize=False), lambda x, z: np.minimum(x, z).sum()),
    (HistogramIntersection(), lambda x, z: np.minimum(unit(x), unit(z)).sum()),
    (FromFunction(function=inner_product), lambda x, z: x @ z),
    (FromGaussianProcess(kernel=GaussianProcessRBF(2.0)), lambda x, z: np.exp(-np.sum((x - z) ** 2) / 8)),
    (
        SpatialPyramid(levels=(1, 2), weights=(1, 3), base=ChiSquared(bandwidth=0.7)),
        lambda x, z: np.exp(
            -(
                0.25 * chi_squared(unit(pool_2x2_to_1x1(x)), unit(pool_2x2_to_1x1(z)))
                + 0.75 * chi_squared(unit(x), unit(z))
            )
            / 0.7
        ),
    ),
    (
        SpatialPyramid(levels=(1, 2), base=HistogramIntersection(normalize=False)),
        lambda x, z: 0.5 * np.minimum(pool_2x2_to_1x1(x), pool_2x2_to_1x1(z)).sum() + 0.5 * np.minimum(x, z).sum(),
    ),
    (
        SpatialPyramid(levels=(1,), grid=2, base=Laplacian(bandwidth=9.0)),
        lambda x, z: np.exp(-np.abs(pool_2x2_to_1x1(x) - pool_2x2_to_1x1(z)).sum() / 9),
    ),
]
KERNELS = [kernel for kernel, _ in DEFINITIONS]
by_label = pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.label)
with_definition = pytest.mark.parametrize(("kernel", "definition"), DEFINITIONS, ids=[k.label for k in KERNELS])


def table_of(definition, X, Z):
    return np.array([[definition(x, z) for z in Z] for x in X])


@with_definition
@pytest.mark.parametrize("filled", [0.9, 0.1], ids=["dense", "mostly zeros"])
def test_kernel_equals_its_definition(kernel, definition, filled):
    X, Z = histograms(15, 12, seed=1, filled=filled), histograms(8, 12, seed=2, filled=filled)
    fitted = clone(kernel).fit(X)
    assert_allclose(fitted(X, Z), table_of(definition, X, Z), rtol=1e-10, atol=1e-12)
    assert_allclose(fitted(X), table_of(definition, X, X), rtol=1e-10, atol=1e-12)


@with_definition
def test_sparse_data_give_the_same_kernel(kernel, definition):
    X, Z = histograms(15, 12, seed=1, filled=0.2), histograms(8, 12, seed=2, filled=0.2)
    if isinstance(kernel, FromGaussianProcess):
        pytest.skip("scikit-learn's Gaussian-process kernels take dense data only")
    fitted = clone(kernel).fit(sparse.csr_matrix(X))
    assert_allclose(fitted(sparse.csr_matrix(X), sparse.csr_matrix(Z)), table_of(definition, X, Z), rtol=1e-9)
    assert_allclose(fitted(sparse.csr_matrix(X)), table_of(definition, X, X), rtol=1e-9)


@by_label
def test_square_matrix_is_exactly_symmetric_with_the_right_diagonal(kernel, monkeypatch):
    monkeypatch.setattr("multikernel.kernels.quantities.BLOCK_BYTES", 16 * 8 * 70)  # several blocks of rows
    X = histograms(70, 12)
    fitted = clone(kernel).fit(X)
    K = fitted(X)
    assert_array_equal(K, K.T)
    assert_allclose(np.diagonal(K), fitted.diagonal(X), rtol=1e-12)
    assert_allclose(K, fitted(X, X.copy()), rtol=1e-9, atol=1e-12)


@by_label
def test_kernels_are_positive_semi_definite_unless_flagged(kernel):
    eigenvalues = np.linalg.eigvalsh(kernel(histograms(60, 12)))
    assert not kernel.psd or eigenvalues[0] >= -1e-12 * eigenvalues[-1]


def test_sigmoid_is_flagged_because_it_can_have_negative_eigenvalues():
    X = np.random.default_rng(0).normal(size=(30, 3))
    assert np.linalg.eigvalsh(Sigmoid(gamma=1.0, coef0=-1.0)(X))[0] < -0.1
    assert not Sigmoid.psd


@by_label
def test_single_precision_stays_single_and_close(kernel):
    X, Z = histograms(40, 12), histograms(30, 12, seed=3)
    single = clone(kernel).fit(X.astype(np.float32))(X.astype(np.float32), Z.astype(np.float32))
    assert single.dtype == np.float32
    double = clone(kernel).fit(X)(X, Z)
    assert_allclose(single, double, rtol=2e-5, atol=2e-6 * np.abs(double).max())


def test_histogram_kernels_agree_with_scikit_learn():
    X = histograms(50, 30, filled=0.3)
    chi2 = -0.5 * sklearn_pairwise.additive_chi2_kernel(X)
    assert_allclose(ChiSquared(bandwidth=1.0, normalize=False)(X), np.exp(-chi2), rtol=1e-12)
    assert_allclose(Laplacian(bandwidth=10.0)(X), sklearn_pairwise.laplacian_kernel(X, gamma=0.1), rtol=1e-12)
    assert_allclose(Polynomial(gamma=None)(X), sklearn_pairwise.polynomial_kernel(X), rtol=1e-12)
    assert_allclose(Sigmoid(gamma=None)(X), sklearn_pairwise.sigmoid_kernel(X, coef0=0), rtol=1e-12)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("metric", ["chi2", "l1", "minimum"])
def test_dense_and_overlap_loops_agree(metric, dtype, monkeypatch):
    kernel = {
        "chi2": ChiSquared(bandwidth=1.0, normalize=False),
        "l1": Laplacian(bandwidth=10.0),
        "minimum": HistogramIntersection(normalize=False),
    }[metric]
    X, Z = (histograms(n, 5000, seed=n, filled=0.01).astype(dtype) for n in (33, 21))
    results = []
    for overlap in (True, False):
        monkeypatch.setattr("multikernel.kernels.histograms._prefer_overlap", lambda *rows, choice=overlap: choice)
        results.append((kernel(X), clone(kernel).fit(X)(X, Z)))
    for with_overlap, without in zip(*results):
        assert_allclose(with_overlap, without, rtol=1e-4 if dtype == np.float32 else 1e-10)


def test_exponential_is_exact_to_a_few_units_in_the_last_place():
    from multikernel.kernels.base import exponential

    for dtype, largest in ((np.float32, 87.0), (np.float64, 708.0)):
        distances = np.linspace(0, largest, 100_000).astype(dtype).reshape(100, -1)
        out = np.empty_like(distances)
        exponential(distances, 1.0, out)
        assert_allclose(out, np.exp(-distances.astype(np.longdouble)).astype(dtype), rtol=3 * np.finfo(dtype).eps)
        extremes = np.array([[0.0, np.inf, 1e30, np.nan]], dtype)
        exponential(extremes, 1.0, extremes_out := np.empty_like(extremes))
        assert_array_equal(extremes_out, np.array([[1, 0, 0, np.nan]], dtype))


@pytest.mark.parametrize("offset", [1e6, -1e7])
def test_a_large_offset_does_not_spoil_distances(offset):
    X = np.random.default_rng(0).normal(size=(40, 5))
    shifted = X + offset
    squared = ((shifted[:, None] - shifted[None]) ** 2).sum(axis=2)
    kernel = RBF(bandwidth="mean").fit(shifted)
    assert_allclose(kernel.bandwidth_, squared.mean(), rtol=1e-9)
    assert_allclose(kernel(shifted), np.exp(-squared / squared.mean()), rtol=1e-9)
    assert_allclose(Linear()(shifted), shifted @ shifted.T, rtol=1e-14)
    assert_allclose(
        RBF(bandwidth=10.0)(shifted, shifted[:7]), RBF(bandwidth=10.0)(X, X[:7]), rtol=1e-7
    )  # X + offset is itself rounded


def test_cosine_of_a_zero_row_is_zero():
    X = np.array([[0.0, 0.0], [1.0, 2.0]])
    assert_array_equal(Cosine()(X)[0], [0.0, 0.0])
    assert_array_equal(Cosine().diagonal(X), [0.0, 1.0])


def test_duplicates_have_unit_similarity():
    X = np.repeat(histograms(5, 12), 2, axis=0)
    for kernel in (RBF(bandwidth=1.0), Laplacian(bandwidth=1.0), ChiSquared(bandwidth=1.0)):
        assert_allclose(kernel(X)[::2, 1::2].diagonal(), 1.0, rtol=1e-13)


def test_features_have_the_kernel_as_their_inner_product():
    X, Z = histograms(20, 6), histograms(9, 6, seed=4)
    for kernel in (Linear(columns=[1, 4]), Cosine(columns=slice(2, 6))):
        fitted = clone(kernel).fit(X)
        assert_allclose(fitted.features(X) @ fitted.features(Z).T, fitted(X, Z), rtol=1e-12, atol=1e-14)
        assert kernel.has_features
        assert fitted.has_features
        assert_allclose(fitted.features(sparse.csr_matrix(X)), fitted.features(X))
        assert not clone(kernel).fit(sparse.csr_matrix(X)).has_features  # as arrays they could be huge


def test_distances_given_as_a_matrix_become_a_kernel():
    rng = np.random.default_rng(0)
    D = rng.random((20, 20, 3))
    D = D + D.transpose(1, 0, 2)
    kernel = FromDistance(columns=1).fit(D)
    assert kernel.pairwise
    assert kernel.bandwidth_ == pytest.approx(D[:, :, 1].mean())
    test = rng.random((4, 20, 3))
    assert_allclose(kernel(test), np.exp(-test[:, :, 1] / D[:, :, 1].mean()))
    assert_allclose(kernel(D), np.exp(-D[:, :, 1] / D[:, :, 1].mean()))
    assert_allclose(kernel.diagonal(D), np.diagonal(kernel(D)))
    median = FromDistance(bandwidth="median").fit(D[:, :, 0])
    assert median.bandwidth_ == pytest.approx(np.median(D[:, :, 0][np.triu_indices(20, 1)]))
    assert_array_equal(Precomputed(columns=2).fit(D)(test), test[:, :, 2])


def test_function_is_called_on_blocks_not_row_by_row():
    sizes = []

    def counted(A, B):
        sizes.append((len(A), len(B)))
        return A @ B.T

    X = histograms(100, 3)
    fitted = as_kernel(counted).fit(X)
    fitted(X[:60], X)
    assert sizes == [(60, 100)]


def test_white_noise_of_a_gaussian_process_kernel_stays_on_the_diagonal():
    X = histograms(10, 3)
    kernel = ConstantKernel(2.0) * GaussianProcessRBF(1.5) + WhiteKernel(0.3)
    assert_allclose(as_kernel(kernel)(X), kernel(X), rtol=1e-12)
    assert_allclose(as_kernel(kernel).diagonal(X), kernel.diag(X))
    assert_allclose(as_kernel(kernel).fit(X)(X, X), kernel(X, X), rtol=1e-12)


@by_label
def test_kernels_are_values(kernel):
    twin = clone(kernel)
    assert twin == kernel
    assert hash(twin) == hash(kernel)
    assert pickle.loads(pickle.dumps(kernel)) == kernel
    assert clone(kernel).set_params(name="another") != kernel
    assert kernel != "rbf"
    X = histograms(12, 12)
    before = repr(kernel.get_params())
    fitted = clone(kernel).fit(X)
    assert fitted == kernel  # fitting changes no parameter
    assert repr(kernel.get_params()) == before
    restored = pickle.loads(pickle.dumps(fitted))
    assert_array_equal(restored(X), fitted(X))


def test_equality_looks_at_columns_of_any_kind():
    assert RBF(columns=[0, 1]) == RBF(columns=np.array([0, 1]))
    assert RBF(columns=slice(0, 2)) == RBF(columns=slice(0, 2))
    assert RBF(columns=slice(0, 2)) != RBF(columns=[0, 1])
    assert RBF() != Laplacian()
    assert len({RBF(bandwidth=1.0), RBF(bandwidth=1.0), RBF(bandwidth=2.0)}) == 2
    first = FromGaussianProcess(kernel=GaussianProcessRBF(1.0))
    assert first == FromGaussianProcess(kernel=GaussianProcessRBF(1.0))
    assert first != FromGaussianProcess(kernel=GaussianProcessRBF(2.0))


def test_nested_parameters_can_be_set():
    pyramid = SpatialPyramid(base=ChiSquared()).set_params(base__bandwidth="2*mean")
    assert pyramid.base.bandwidth == "2*mean"
    process = as_kernel(GaussianProcessRBF(1.0)).set_params(kernel__length_scale=3.0)
    assert process.kernel.length_scale == 3.0


def test_labels_say_what_the_kernel_is():
    assert RBF(bandwidth="0.25*mean", columns="petals").label == "rbf(0.25*mean) on petals"
    assert RBF(gamma=2.0).label == "rbf(gamma=2)"
    assert Polynomial(degree=2, columns=slice(0, 9)).label == "poly(2) on columns 0:9"
    assert ChiSquared(name="colour").label == "colour"
    assert SpatialPyramid(columns=[0]).label == "pyramid(1, 2, 4; chi2(mean)) on column 0"


def test_empty_blocks_are_allowed():
    X = histograms(10, 12)
    for kernel in (RBF(), ChiSquared(), Linear()):
        fitted = clone(kernel).fit(X)
        assert fitted(X[:0], X).shape == (0, 10)
        assert fitted(X, X[:0]).shape == (10, 0)


def test_family_pickles_without_the_training_distances():
    X = histograms(300, 12)
    family = KernelFamily.fit([ChiSquared(), Laplacian()], X)
    expected = family.take(range(2)).evaluate(X)
    restored = pickle.loads(pickle.dumps(family))
    assert len(pickle.dumps(family)) < 10_000
    assert restored.names == family.names
    assert_allclose(restored.evaluate(X), expected, rtol=1e-12)
