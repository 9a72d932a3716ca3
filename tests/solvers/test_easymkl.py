"""EasyMKL: optimal hulls, weights by their definition, and what the original implementation returns."""

import cvxpy as cp
import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine
from sklearn.metrics.pairwise import laplacian_kernel, linear_kernel, rbf_kernel
from sklearn.preprocessing import minmax_scale, scale

from multikernel import EasyMKLClassifier, gram_stack
from multikernel.kernels import RBF, Linear

# Weights and decisions of EasyMKL(lam=lam, learner=KOMD(lam=lam)) of MKLpy 0.6 on ``cancer()``, tolerance 1e-12.
MKLPY = {
    0.1: ([0.011941, 0.112433, 0.675555, 0.20007], [-0.10221, 0.1081, 0.11358, -0.1665]),
    0.5: ([0.016825, 0.144309, 0.552947, 0.285919], [-0.23525, 0.20085, 0.23149, -0.32484]),
    0.9: ([0.026324, 0.191207, 0.325297, 0.457173], [-0.40461, 0.2756, 0.40267, -0.47324]),
}


# Weights of EasyMKL(lam=0.1) of MKLpy 0.6 on ``problem(name)``, tolerance 1e-12.
MKLPY_WEIGHTS = {
    "irises, one feature each": [0.263236, 0.144708, 0.294709, 0.297348],
    "wines, three blocks": [0.177939, 0.270764, 0.320785, 0.230512],
    "threes and eights, four widths": [0.04304, 0.183607, 0.42425, 0.349103],
    "ten degrees of one kernel": [
        0.013319,
        0.027877,
        0.043859,
        0.061507,
        0.08104,
        0.102624,
        0.126363,
        0.152298,
        0.180424,
        0.210689,
    ],
    "one feature of six": [0.359617, 0.244505, 0.043308, 0.150355, 0.130904, 0.071312],
}


def problem(name):
    """Kernels (F, n, n) and labels."""
    rng = np.random.default_rng(0)
    if name == "irises, one feature each":
        X, y = load_iris(return_X_y=True)
        X, y = scale(X[50:]), y[50:]
        return [rbf_kernel(X[:, [j]], gamma=1.0) for j in range(4)], y
    if name == "wines, three blocks":
        X, y = load_wine(return_X_y=True)
        X, y = scale(X)[y > 0], y[y > 0]
        return [*(laplacian_kernel(X[:, a : a + 4], gamma=0.3) for a in (0, 4, 8)), linear_kernel(X) / 13], y
    if name == "threes and eights, four widths":
        X, y = load_digits(return_X_y=True)
        X, y = X[np.isin(y, (3, 8))] / 16, y[np.isin(y, (3, 8))]
        return [rbf_kernel(X, gamma=g) for g in (0.01, 0.05, 0.2, 1.0)], y
    if name == "ten degrees of one kernel":
        X, y = load_breast_cancer(return_X_y=True)
        X, y = minmax_scale(X)[:300], y[:300]
        X /= np.linalg.norm(X, axis=1)[:, None]
        return [(X @ X.T) ** d for d in range(1, 11)], y
    X = rng.normal(size=(120, 6))
    return [rbf_kernel(X[:, [j]], gamma=0.5) for j in range(6)], X[:, 0] + 0.5 * rng.normal(size=120) > 0


@pytest.mark.parametrize("name", MKLPY_WEIGHTS)
def test_weights_are_those_of_mklpy_on_five_problems(name):
    kernels, y = problem(name)
    model = EasyMKLClassifier("precomputed", lam=0.1).fit(gram_stack(kernels), y)
    assert_allclose(model.weights_, MKLPY_WEIGHTS[name], atol=1e-5)


def kernels_of(A, B):
    return np.stack([*(rbf_kernel(A, B, g) for g in (0.001, 0.01, 0.1)), linear_kernel(A, B) / 30], axis=-1)


def cancer():
    X, y = load_breast_cancer(return_X_y=True)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    order = np.random.default_rng(0).permutation(len(y))
    train, test = order[:200], order[200:260]
    return kernels_of(X[train], X[train]), y[train], kernels_of(X[test], X[train])


@pytest.mark.parametrize("lam", MKLPY)
def test_weights_and_decisions_are_those_of_the_original_implementation(lam):
    K, y, K_test = cancer()
    model = EasyMKLClassifier("precomputed", lam=lam, tol=1e-9).fit(K, y)
    weights, decisions = MKLPY[lam]
    assert_allclose(model.weights_, weights, atol=1e-5)
    assert_allclose(model.decision_function(K_test)[:4], decisions, atol=1e-4)


@pytest.mark.numerical
@pytest.mark.parametrize("lam", [0.0, 0.3, 1.0])
def test_the_program_is_solved_and_weights_follow_from_it(lam):
    K, y, _ = cancer()
    K, y, weight = K[:40, :40], y[:40], np.random.default_rng(1).integers(1, 4, size=40).astype(float)
    signs = np.where(y == 1, 1.0, -1.0)
    gamma = cp.Variable(40, nonneg=True)
    total = cp.psd_wrap((1.0 - lam) * signs[:, None] * K.sum(axis=-1) * signs + lam * np.diag(1.0 / weight))
    sums = [cp.sum(gamma[signs > 0]) == 1, cp.sum(gamma[signs < 0]) == 1]
    optimum = cp.Problem(cp.Minimize(cp.quad_form(gamma, total)), sums).solve(solver="CLARABEL")
    model = EasyMKLClassifier("precomputed", lam=lam, tol=1e-8).fit(K, y, sample_weight=weight)
    assert model.converged_
    assert model.objective_ == pytest.approx(optimum, rel=1e-6)
    assert 0.0 <= model.dual_gap_ <= 1e-8 * model.objective_
    if lam > 0.0:  # the solution is unique
        shares = np.einsum("i,ijf,j->f", signs * gamma.value, K, signs * gamma.value)
        assert_allclose(model.weights_, shares / shares.sum(), atol=1e-4)


def test_whole_weights_are_repeated_samples():
    X, y = load_breast_cancer(return_X_y=True)
    X, y, weight = X[:60] / X.std(axis=0), y[:60], np.random.default_rng(0).integers(0, 3, size=60)
    kernels = [RBF(gamma=0.01), Linear()]
    weighted = EasyMKLClassifier(kernels, tol=1e-9).fit(X, y, sample_weight=weight)
    repeated = EasyMKLClassifier(kernels, tol=1e-9).fit(np.repeat(X, weight, axis=0), np.repeat(y, weight))
    assert_allclose(weighted.weights_, repeated.weights_, atol=1e-6)
    assert_allclose(weighted.decision_function(X), repeated.decision_function(X), rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("multi_class", ["ovr", "ovo"])
def test_every_class_has_the_weights_of_its_binary_problem(multi_class):
    X, y = load_iris(return_X_y=True)
    kernels = [RBF(columns=[j], gamma=1.0) for j in range(4)]
    model = EasyMKLClassifier(kernels, multi_class=multi_class, tol=1e-8).fit(X, y)
    first = EasyMKLClassifier(kernels, tol=1e-8)
    chosen = np.arange(150) if multi_class == "ovr" else np.flatnonzero(y < 2)
    first.fit(X[chosen], y[chosen] == (0 if multi_class == "ovr" else 1))
    assert model.weights_.shape == (3, 4)
    assert_allclose(model.weights_.sum(axis=1), 1.0)
    assert_allclose(model.weights_[0], first.weights_, atol=1e-5)
    assert model.score(X, y) > 0.9


def test_kernels_that_are_not_kept_give_the_same_model():
    X, y = load_breast_cancer(return_X_y=True)
    X, kernels = X / X.std(axis=0), [RBF(gamma=0.01), Linear()]
    kept = EasyMKLClassifier(kernels, tol=1e-7).fit(X, y)
    computed = EasyMKLClassifier(kernels, tol=1e-7, memory="1MB").fit(X, y)
    assert_allclose(computed.weights_, kept.weights_, atol=1e-5)
    assert_allclose(computed.decision_function(X[:9]), kept.decision_function(X[:9]), rtol=1e-3)


def test_a_share_outside_its_range_is_refused():
    K, y, _ = cancer()
    with pytest.raises(ValueError, match=r"lam=1\.5 must be from 0 to 1"):
        EasyMKLClassifier("precomputed", lam=1.5).fit(K, y)


def test_a_class_without_weights_is_refused():
    K, y, _ = cancer()
    with pytest.raises(ValueError, match="only samples of one class have weights"):
        EasyMKLClassifier("precomputed").fit(K, y, sample_weight=(y == 1).astype(float))
