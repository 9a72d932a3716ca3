"""Nyström and random Fourier features: exact where they should be, honest about their error elsewhere."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.base import clone

from multikernel.kernels import RBF, ChiSquared, Cosine, KernelFamily, Laplacian, Linear, Nystroem, RandomFourier

X = np.random.default_rng(0).normal(size=(120, 4))
Z = np.random.default_rng(1).normal(size=(30, 4))
LANDMARKS = ["uniform", "kmeans", "leverage"]


@pytest.mark.parametrize("landmarks", LANDMARKS)
@pytest.mark.parametrize("kernel", [RBF(), Laplacian(), RBF(columns=[1, 2])])
def test_nystroem_is_exact_at_full_rank(kernel, landmarks):
    fitted = Nystroem(kernel=kernel, rank=120, landmarks=landmarks).fit(X)
    exact = clone(kernel).fit(X)
    assert_allclose(fitted(X), exact(X), atol=1e-7)
    assert_allclose(fitted(Z, X), exact(Z, X), atol=1e-6)
    assert fitted.error_ < 1e-9


@pytest.mark.parametrize("landmarks", LANDMARKS)
def test_error_is_the_relative_trace_error(landmarks):
    fitted = Nystroem(kernel=RBF(bandwidth="0.3*mean"), rank=25, landmarks=landmarks).fit(X)
    K, approximate = fitted.kernel_(X), fitted(X)
    assert fitted.error_ == pytest.approx(np.trace(K - approximate) / np.trace(K), rel=1e-6)
    assert 0.01 < fitted.error_ < 0.5
    assert fitted.rank_ == fitted.features(X).shape[1] == 25
    assert np.linalg.eigvalsh(K - approximate)[0] > -1e-10  # a Nyström approximation lies below the kernel


@pytest.mark.parametrize("landmarks", LANDMARKS)
def test_rank_grows_to_the_error_asked_for(landmarks):
    ranks = []
    for error in (0.2, 0.02):
        fitted = Nystroem(kernel=RBF(), error=error, landmarks=landmarks).fit(X)
        assert fitted.error_ <= error
        ranks.append(fitted.rank_)
    assert ranks[0] < ranks[1] < 120


@pytest.mark.parametrize("kernel", [Linear(), Cosine(), Linear(columns=[0, 2])])
@pytest.mark.parametrize("convert", [np.asarray, sparse.csr_matrix])
def test_nystroem_of_a_kernel_with_few_features_is_exact(kernel, convert):
    fitted = Nystroem(kernel=kernel, rank=4).fit(convert(X))
    assert fitted.error_ == 0.0
    assert_allclose(fitted(convert(Z), convert(X)), clone(kernel).fit(X)(Z, X), rtol=1e-10, atol=1e-12)
    assert fitted.rank_ == fitted.features(convert(Z)).shape[1] <= 4


def test_leverage_finds_a_rare_cluster_that_uniform_sampling_misses():
    rng = np.random.default_rng(0)
    crowd, rare = rng.normal(scale=0.01, size=(480, 2)), 5 + rng.normal(size=(20, 2))
    data = np.vstack([crowd, rare])
    errors = {
        landmarks: np.mean(
            [
                Nystroem(kernel=RBF(bandwidth=1.0), rank=15, landmarks=landmarks, random_state=seed).fit(data).error_
                for seed in range(5)
            ]
        )
        for landmarks in ("uniform", "leverage")
    }
    assert errors["leverage"] < 0.7 * errors["uniform"]


def test_sparse_histograms_can_be_approximated():
    counts = sparse.random(60, 200, density=0.1, format="csr", random_state=0)
    for landmarks in LANDMARKS:
        fitted = Nystroem(kernel=ChiSquared(), rank=60, landmarks=landmarks).fit(counts)
        assert_allclose(fitted(counts), ChiSquared()(counts), atol=1e-7)


@pytest.mark.parametrize("kernel", [RBF(), Laplacian()])
def test_random_fourier_features_approach_the_kernel(kernel):
    errors = [RandomFourier(kernel=kernel, rank=rank).fit(X).error_ for rank in (100, 10_000)]
    assert errors[1] < 0.3 * errors[0]
    fitted = RandomFourier(kernel=kernel, rank=20_000).fit(X)
    assert_allclose(fitted(Z, X), clone(kernel).fit(X)(Z, X), atol=0.05)
    assert_allclose(fitted.diagonal(Z), 1.0)
    K, approximate = clone(kernel)(X), fitted(X)
    assert fitted.error_ == pytest.approx(np.linalg.norm(K - approximate) / np.linalg.norm(K))


def test_random_fourier_reaches_the_error_asked_for_or_warns(monkeypatch):
    assert RandomFourier(error=0.1).fit(X).error_ <= 0.1
    monkeypatch.setattr("multikernel.kernels.approximation._LARGEST_FOURIER_RANK", 128)
    with pytest.warns(UserWarning, match=r"128 random Fourier features leave a relative error"):
        RandomFourier(error=0.001).fit(X)


@pytest.mark.parametrize("kernel", [Nystroem(rank=20), RandomFourier(rank=21)])
def test_approximations_behave_like_other_kernels(kernel):
    family = KernelFamily.fit([kernel, Linear()], X)
    fitted = family.kernels[0]
    assert fitted.has_features
    K = family.evaluate(Z, X)[0]
    assert_allclose(fitted.features(Z) @ fitted.features(X).T, K, rtol=1e-10, atol=1e-13)
    assert_array_equal(family.evaluate(X)[0], family.evaluate(X)[0].T)
    assert_allclose(family.diagonal(X)[0], np.diagonal(family.evaluate(X)[0]), rtol=1e-12)
    assert_array_equal(clone(kernel).fit(X)(Z, X), K)  # the same random state, the same features
    assert clone(kernel) == kernel
    assert_array_equal(pickle.loads(pickle.dumps(fitted))(Z, X), fitted(Z, X))
    assert fitted.features(X.astype(np.float32)).shape == (120, fitted.rank_)
    assert kernel.get_params()["kernel"] is None
