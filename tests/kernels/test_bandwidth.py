"""Bandwidth rules against their definitions, on training data only."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse
from scipy.spatial.distance import pdist, squareform
from sklearn.base import clone
from sklearn.svm import SVC

from multikernel.kernels import RBF, ChiSquared, KernelFamily, Laplacian, SpatialPyramid
from multikernel.kernels.base import parse_bandwidth

RNG = np.random.default_rng(0)
X = RNG.gamma(1.0, size=(60, 16))
UNIT = X / X.sum(axis=1, keepdims=True)


def chi_squared(x, z):
    return 0.5 * np.sum((x - z) ** 2 / (x + z))


DISTANCES = [
    (RBF(), squareform(pdist(X, "sqeuclidean"))),
    (Laplacian(), squareform(pdist(X, "cityblock"))),
    (ChiSquared(), squareform(pdist(UNIT, chi_squared))),
]
distances = pytest.mark.parametrize(("kernel", "D"), DISTANCES, ids=["rbf", "laplacian", "chi2"])


@distances
@pytest.mark.parametrize("convert", [np.asarray, sparse.csr_matrix], ids=["dense", "sparse"])
def test_mean_is_over_all_pairs_with_the_zero_diagonal(kernel, D, convert):
    assert clone(kernel).fit(convert(X)).bandwidth_ == pytest.approx(D.mean(), rel=1e-10)


@distances
def test_median_is_over_pairs_of_different_samples(kernel, D):
    fitted = clone(kernel).set_params(bandwidth="median").fit(X)
    assert fitted.bandwidth_ == pytest.approx(np.median(D[np.triu_indices(60, 1)]), rel=1e-10)


@distances
def test_multiples_scale_a_rule(kernel, D):
    fitted = clone(kernel).set_params(bandwidth="0.25*mean").fit(X)
    assert fitted.bandwidth_ == pytest.approx(0.25 * D.mean(), rel=1e-10)
    assert_allclose(fitted(X), np.exp(-D / (0.25 * D.mean())), rtol=1e-8)


def test_scale_is_that_of_scikit_learn():
    y = np.arange(60) % 2
    gamma = SVC(gamma="scale").fit(X, y)._gamma
    for data in (X, sparse.csr_matrix(X)):
        assert RBF(bandwidth="scale").fit(data).bandwidth_ == pytest.approx(1 / gamma, rel=1e-10)
        assert RBF(gamma="scale").fit(data).bandwidth_ == pytest.approx(1 / gamma, rel=1e-10)
    assert RBF(gamma="scale").label == "rbf(gamma=scale)"
    assert RBF(bandwidth="scale").fit(X + 1e7).bandwidth_ == pytest.approx(1 / gamma, rel=1e-6)
    assert Laplacian(bandwidth="scale").fit(X).bandwidth_ == pytest.approx(16 * X.std())


@pytest.mark.parametrize("rule", ["mean", "median", "scale"])
def test_bandwidth_comes_from_training_data_only(rule):
    train, test = X[:40], 100 * X[40:]
    fitted = RBF(bandwidth=rule).fit(train)
    before = fitted.bandwidth_
    K = fitted(test, train)
    assert fitted.bandwidth_ == before == RBF(bandwidth=rule).fit(train).bandwidth_
    assert_allclose(K, np.exp(-((test[:, None] - train[None]) ** 2).sum(axis=2) / before), atol=1e-12)


@pytest.mark.parametrize("kernel", [RBF(), Laplacian(), ChiSquared(), SpatialPyramid(levels=(1, 2, 4))])
@pytest.mark.parametrize("rule", ["mean", "median"])
def test_identical_samples_get_bandwidth_one(kernel, rule):
    constant = np.ones((6, 16))
    target = "base__bandwidth" if isinstance(kernel, SpatialPyramid) else "bandwidth"
    kernel = clone(kernel)
    if isinstance(kernel, SpatialPyramid):
        kernel.base = ChiSquared()
    fitted = kernel.set_params(**{target: rule}).fit(constant)
    assert fitted.bandwidth_ == 1.0
    assert_allclose(fitted(constant), 1.0)
    assert kernel.fit(constant[:1]).bandwidth_ == 1.0


@pytest.mark.parametrize("rule", ["mean", "median"])
def test_pyramid_bandwidth_is_that_of_the_mean_level_distance(rule):
    levels = [X.reshape(60, 4, 4).sum(axis=(1, 2))[:, None], X]
    D = sum(squareform(pdist(H / H.sum(axis=1, keepdims=True), chi_squared)) for H in levels) / 2
    expected = D.mean() if rule == "mean" else np.median(D[np.triu_indices(60, 1)])
    fitted = SpatialPyramid(levels=(1, 4), base=ChiSquared(bandwidth=rule)).fit(X)
    assert fitted.bandwidth_ == pytest.approx(expected, rel=1e-10)


def test_large_data_are_subsampled_the_same_way_each_time(monkeypatch):
    monkeypatch.setattr("multikernel.kernels.quantities.EXACT_MEAN_SAMPLES", 40)
    monkeypatch.setattr("multikernel.kernels.quantities.MEDIAN_SAMPLES", 30)
    for rule in ("mean", "median"):
        first = Laplacian(bandwidth=rule).fit(X).bandwidth_
        assert first == Laplacian(bandwidth=rule).fit(X).bandwidth_
        assert first != Laplacian(bandwidth=rule).fit(X[:50]).bandwidth_
        D = squareform(pdist(X, "cityblock"))
        assert first == pytest.approx(D.mean(), rel=0.1)
    family = KernelFamily.fit([Laplacian()], X)
    assert_allclose(family.evaluate(X)[0], np.exp(-D / family.kernels[0].bandwidth_), rtol=1e-10)


@pytest.mark.parametrize(
    ("text", "parsed"),
    [
        ("mean", (1.0, "mean")),
        ("2*median", (2.0, "median")),
        (" 1e-2 * scale ", (0.01, "scale")),
        (np.float32(0.5), (0.5, None)),
    ],
)
def test_rules_are_read(text, parsed):
    assert parse_bandwidth(text) == parsed


@pytest.mark.parametrize(
    "bad", ["average", "mean*2", "0*mean", "-1*mean", "nan*mean", "1.2.3*mean", "", 0, -1.0, np.inf]
)
def test_bad_rules_are_refused(bad):
    with pytest.raises(ValueError, match="bandwidth="):
        parse_bandwidth(bad)


@pytest.mark.parametrize("bad", [None, True, [1.0]])
def test_bandwidths_of_the_wrong_type_are_refused(bad):
    with pytest.raises(TypeError, match=r"kernel .*bandwidth="):
        RBF(bandwidth=bad).fit(X)


def test_data_near_the_least_numbers_make_finite_kernels():
    X = 1e-155 * np.random.default_rng(0).normal(size=(20, 4))
    K = RBF(bandwidth="0.25*mean").fit(X)(X)
    assert np.isfinite(K).all()
