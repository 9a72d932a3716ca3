"""Alignment: inner products by definition, the quadratic program solved, invariances, and another implementation."""

from __future__ import annotations

import cvxpy as cp
import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_iris

from multikernel import AlignmentMKLClassifier, gram_stack
from multikernel.gram import DenseStack, LazyStack, LowRankStack, NotApplicable
from multikernel.kernels import RBF, FromFunction, Linear, Nystroem
from multikernel.metrics import kernel_metrics
from multikernel.solvers.alignment import alignments


def problem(seed=0, n=40, F=5, n_classes=3):
    rng = np.random.default_rng(seed)
    y = np.arange(n) % n_classes
    X = rng.normal(size=(n, F)) + np.linspace(0.0, 1.0, F) * y[:, None]
    kernels = [RBF(columns=[j]) if j % 2 else Linear(columns=[j]) for j in range(F)]
    return X, y, np.eye(n_classes)[y], kernels


def by_definition(K, Y, weight=None):
    """M, a and the norm of the target, from repeated samples centred one kernel at a time."""
    copies = np.repeat(np.arange(len(Y)), np.ones(len(Y), dtype=int) if weight is None else weight.astype(int))
    H = np.eye(len(copies)) - 1.0 / len(copies)
    centred = [H @ k[np.ix_(copies, copies)] @ H for k in K]
    T = H @ Y[copies] @ Y[copies].T @ H
    M = np.array([[np.sum(a * b) for b in centred] for a in centred])
    return M, np.array([np.sum(k * T) for k in centred]), np.linalg.norm(T)


@pytest.mark.numerical
@pytest.mark.parametrize("storage", ["dense", "lazy", "features"])
@pytest.mark.parametrize("weighted", [False, True])
def test_inner_products_are_those_of_centred_kernels(storage, weighted):
    X, _, Y, kernels = problem()
    weight = np.random.default_rng(1).integers(0, 4, size=len(X)).astype(float) if weighted else None
    if storage == "features":
        kernels = [Nystroem(kernel=kernel, rank=7) for kernel in kernels]
    stack = gram_stack(X, kernels, memory="3kB" if storage == "lazy" else None)
    assert stack.explicit == (storage == "features")
    found = alignments(stack, Y, weight)
    M, a, norm = by_definition(stack.to_array(), Y, weight)
    assert_allclose(found.gram, M, rtol=1e-9, atol=1e-9 * np.abs(M).max())
    assert_allclose(found.target, a, rtol=1e-9, atol=1e-9 * np.abs(a).max())
    assert_allclose(found.target_norm, norm, rtol=1e-12)
    assert_allclose(found.of_kernels(), a / np.sqrt(np.diagonal(M)) / norm, rtol=1e-9)


@pytest.mark.numerical
@pytest.mark.parametrize("seed", range(5))
def test_alignf_solves_its_program(seed):
    X, _, Y, kernels = problem(seed, F=8)
    found = alignments(gram_stack(X, kernels), Y)
    v = found.joint()
    gradient = 2.0 * (found.gram @ v - found.target)
    scale = np.abs(found.target).max()
    assert v.min() >= 0.0
    assert gradient.min() >= -1e-8 * scale
    assert np.abs(gradient * v).max() <= 1e-8 * scale * v.max()
    u = cp.Variable(8, nonneg=True)
    size = np.diagonal(found.gram).max()
    value = cp.quad_form(u, cp.psd_wrap(found.gram / size)) - 2.0 * u @ found.target / size
    optimum = cp.Problem(cp.Minimize(value)).solve(solver="CLARABEL")
    assert (v @ found.gram @ v - 2.0 * v @ found.target) / size == pytest.approx(optimum, rel=1e-6)
    # no other direction is better aligned
    others = np.random.default_rng(seed).random((200, 8))
    assert max(found.of_weights(w) for w in others) <= found.of_weights(v) + 1e-12


@pytest.mark.parametrize("method", ["alignf", "align"])
def test_scales_and_order_of_kernels_do_not_matter(method):
    X, y, _, kernels = problem()
    K = gram_stack(X, kernels).to_array()
    factors, order = np.array([1e-3, 1.0, 1e4, 7.0, 0.1]), np.array([3, 0, 4, 1, 2])
    model = AlignmentMKLClassifier("precomputed", method=method).fit(DenseStack(K), y)
    scaled = clone(model).fit(DenseStack(K * factors[:, None, None]), y)
    moved = clone(model).fit(DenseStack(np.ascontiguousarray(K[order])), y)
    assert_allclose(scaled.alignments_, model.alignments_, rtol=1e-9)
    expected = model.weights_ / factors
    assert_allclose(scaled.weights_, expected / expected.sum(), rtol=1e-6, atol=1e-12)
    assert_allclose(moved.weights_, model.weights_[order], rtol=1e-6, atol=1e-12)
    assert scaled.alignment_ == pytest.approx(model.alignment_)


def test_duplicates_constants_and_zero_kernels():
    X, y, _, kernels = problem()
    K = gram_stack(X, kernels).to_array()
    K = np.stack([K[0], K[0], K[1], np.ones_like(K[0]), np.zeros_like(K[0])])
    for method in ("alignf", "align"):
        model = AlignmentMKLClassifier("precomputed", method=method).fit(DenseStack(K), y)
        assert np.isfinite(model.weights_).all()
        assert_allclose(model.alignments_[3:], 0.0, atol=1e-6)
        assert model.weights_[4] == 0.0
    nothing = AlignmentMKLClassifier("precomputed").fit(DenseStack(K[3:]), y)
    assert_allclose(nothing.weights_.sum(), 1.0)


@pytest.mark.numerical
@pytest.mark.parametrize("constant", [0.1, 1.0 / 3.0, 0.7, 1e8 + 0.1])
def test_a_kernel_that_is_constant_but_for_rounding_gets_no_weight(constant):
    X, y, _, kernels = problem(n=33)
    K = gram_stack(X, kernels).to_array()
    K[1] = constant
    for method in ("alignf", "align"):
        model = AlignmentMKLClassifier("precomputed", method=method).fit(DenseStack(K), y)
        assert model.weights_[1] == model.alignments_[1] == 0.0
    feature = np.full((33, 1), np.sqrt(constant))
    found = alignments(LowRankStack([feature, X[:, :2]]), y[:, None].astype(float))
    assert found.independent()[0] == 0.0
    assert found.sizes[0] == pytest.approx(33 * constant)
    assert found.sizes[1] == pytest.approx(np.linalg.norm(X[:, :2] @ X[:, :2].T))


@pytest.mark.parametrize("method", ["alignf", "align", "cka"])
def test_where_nothing_is_aligned_weights_are_equal(method):
    X, y, _, kernels = problem()
    K = gram_stack(X, kernels).to_array()
    model = AlignmentMKLClassifier("precomputed", method=method)
    assert_allclose(clone(model).fit(DenseStack(np.zeros_like(K)), y).weights_, 0.2)
    assert_allclose(model.fit(DenseStack(K), y, sample_weight=(y == 1).astype(float)).weights_, 0.2)


def test_kernels_that_are_not_kept_are_computed_once():
    X, y, Y, _ = problem(n=200)
    computed = []

    def kernel(A, B):
        computed.append(len(A) * len(B))
        return A @ B.T

    stack = gram_stack(X, [FromFunction(function=kernel), RBF()], memory="20kB")
    assert isinstance(stack, LazyStack)
    computed.clear()
    alignments(stack, Y)
    assert sum(computed) <= 200 * (200 + 64)  # and a few columns for rough means
    computed.clear()
    kernel_metrics(stack, y)
    assert sum(computed) <= 200 * (200 + 64 + 32)  # and blocks on the diagonal


def test_unconstrained_weights_are_those_of_mklpy():
    """The weights of CKA of MKLpy 0.6 on four kernels of breast cancer, up to their length."""
    from sklearn.metrics.pairwise import linear_kernel, rbf_kernel

    X, y = load_breast_cancer(return_X_y=True)
    X = ((X - X.mean(axis=0)) / X.std(axis=0))[:150]
    K = np.stack([*(rbf_kernel(X, X, g) for g in (0.001, 0.01, 0.1)), linear_kernel(X, X) / 30])
    found = alignments(DenseStack(K), np.where(y[:150] == 1, 1.0, -1.0)[:, None])
    M, a, _ = by_definition(K, np.where(y[:150] == 1, 1.0, -1.0)[:, None])
    expected = np.linalg.solve(M, a)
    assert_allclose(found.unconstrained(), expected, rtol=1e-5)
    assert found.of_weights(expected) >= found.of_weights(found.joint()) - 1e-12
    with pytest.raises(NotApplicable, match="alignf"):
        AlignmentMKLClassifier("precomputed", method="cka").fit(DenseStack(K), y[:150])


def test_the_svm_is_the_one_on_the_weighted_kernel():
    from sklearn.svm import SVC

    X, y = load_iris(return_X_y=True)
    X, y = X[y > 0], y[y > 0]
    stack = gram_stack(X, [RBF(columns=[0, 1]), RBF(columns=[2, 3])])
    model = AlignmentMKLClassifier("precomputed", C=3.0, tol=1e-8).fit(stack, y)
    K = stack.combine(model.weights_)
    reference = SVC(C=3.0, kernel="precomputed", tol=1e-8).fit(K, y)
    assert_allclose(model.decision_function(stack), reference.decision_function(K), atol=1e-4)
