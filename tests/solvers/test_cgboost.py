"""CG-Boost: the mixture of kernel columns against its definition, its certificate, and scikit-learn's tools."""

from dataclasses import replace

import numpy as np
import pytest
from mkl_problems import AWKWARD, make_kernels
from numpy.testing import assert_allclose, assert_array_equal
from references import Ball, result_of, svm_bracket
from sklearn.datasets import load_iris
from sklearn.exceptions import ConvergenceWarning

from multikernel import CGBoostClassifier, gram_stack
from multikernel.gram import DenseStack
from multikernel.kernels import RBF, Linear
from multikernel.problems.cgboost import ColumnProblem
from multikernel.runtime.clock import OutOfTime
from multikernel.solvers.cgboost import cg_boost
from multikernel.svm import LabelSVMs


def optimum(K, signs, C, weight=None):
    """Bracket of the primal: columns as features make the kernel K_j², and no kernel is left out."""
    K = K.astype(np.longdouble)
    svms = LabelSVMs(signs.reshape(len(signs), -1), C, sample_weight=weight)
    result = solved(ColumnProblem(DenseStack(K.astype(float)), svms), 1e-9)
    return svm_bracket(K @ K, svms, Ball(np.inf), replace(result, weights=np.ones(len(K))))


def solved(problem, tol):
    return result_of(cg_boost, problem, tol)


@pytest.mark.parametrize("case", AWKWARD)
def test_the_optimum_is_reached(case):
    K, signs, C = make_kernels(**AWKWARD[case])
    result = solved(ColumnProblem(DenseStack(K), LabelSVMs(signs[:, None], C)), 1e-6)
    assert result.converged
    optimum(K, signs, C).proves(result.certificate, 1e-6)


def test_the_certificate_holds_at_any_point():
    K, signs, C = make_kernels()
    problem = ColumnProblem(DenseStack(K), LabelSVMs(signs[:, None], C))
    best = optimum(K, signs, C)
    rng = np.random.default_rng(0)
    for _ in range(30):
        alpha = problem.inner.repair(rng.normal(size=(len(signs), 1)) * rng.uniform(0.0, 0.1))
        proof = problem.certificate(rng.integers(0, 2, size=len(K)), alpha)
        assert proof.dual <= best.upper
        assert proof.primal >= best.lower


def test_kernels_join_by_violation_and_the_negligible_never_do():
    K, signs, C = make_kernels()
    K = K * np.array([1.0, 1e-3, 1.0, 1e-3, 1e-3])[:, None, None]
    result = solved(ColumnProblem(DenseStack(K), LabelSVMs(signs[:, None], C)), 1e-2)
    assert result.converged
    assert_array_equal(result.weights, [1.0, 0.0, 1.0, 0.0, 0.0])
    optimum(K, signs, C).proves(result.certificate, 1e-2)
    joined = [row["weights"].sum() for row in result.history]
    assert joined == sorted(joined)


def test_more_kernels_than_one_round_takes_are_added_round_by_round():
    K, signs, C = make_kernels()
    K = K * np.array([1.0, 0.3, 0.1, 0.03, 0.01])[:, None, None]
    result = solved(ColumnProblem(DenseStack(K), LabelSVMs(signs[:, None], C)), 1e-8)
    assert result.converged
    assert result.n_iter >= 4
    bounds = [row["objective"] - row["gap"] for row in result.history]
    assert all(np.diff(bounds) >= -1e-12)


def test_the_sum_over_tasks_is_the_objective():
    X, y = load_iris(return_X_y=True)
    K = gram_stack(X[::5], [Linear(), RBF(bandwidth=1.0)]).to_array()
    model = CGBoostClassifier("precomputed", C=0.05, tol=1e-6).fit(np.moveaxis(K, 0, -1), y[::5])
    optimum(K, np.where(y[::5, None] == np.arange(3), 1.0, -1.0), 0.05).encloses(model.objective_, 1e-6)
    assert 0.0 <= model.dual_gap_ <= 1e-6 * model.objective_
    norms = np.sqrt((model.dual_coef_**2).sum(axis=(1, 2)))
    assert_allclose(model.weights_, norms / norms.sum())


def test_stored_coefficients_attain_the_objective():
    K, signs, C = make_kernels()
    pairs = np.moveaxis(K, 0, -1)
    model = CGBoostClassifier("precomputed", C=C, tol=1e-6).fit(pairs, signs)
    assert_array_equal(model.support_, np.arange(len(signs)))
    scores = np.einsum("fnm,fm->n", K, model.dual_coef_[:, 0]) + model.intercept_
    assert_allclose(model.decision_function(pairs), scores, atol=1e-9)
    assert_allclose(model.kernel_contributions(pairs).sum(axis=1) + model.intercept_, scores, atol=1e-9)
    value = 0.5 * (model.dual_coef_**2).sum() + C * np.maximum(1 - signs * scores, 0.0).sum()
    assert value == pytest.approx(model.objective_, rel=1e-6)


def test_indefinite_kernels_are_as_good_as_any():
    rng = np.random.default_rng(0)
    K = rng.normal(size=(2, 24, 24))
    K, signs = K + K.transpose(0, 2, 1), np.where(np.arange(24) % 2, 1.0, -1.0)
    model = CGBoostClassifier("precomputed", C=0.1, psd="ignore", tol=1e-6).fit(np.moveaxis(K, 0, -1), signs)
    optimum(K, signs, 0.1).encloses(model.objective_, 1e-6)
    with pytest.raises(ValueError, match="positive semi-definite"):
        CGBoostClassifier("precomputed").fit(np.moveaxis(K, 0, -1), signs)


def test_sample_weights_are_prices_of_their_own():
    K, signs, C = make_kernels()
    weight = np.random.default_rng(0).uniform(0.0, 2.0, size=len(signs))
    model = CGBoostClassifier("precomputed", C=C, tol=1e-6).fit(np.moveaxis(K, 0, -1), signs, sample_weight=weight)
    optimum(K, signs, C, weight).encloses(model.objective_, 1e-6)


@pytest.fixture(scope="module")
def iris():
    X, y = load_iris(return_X_y=True)
    kernels = [Linear(), RBF(columns=[0, 1], bandwidth=1.0), RBF(columns=[2, 3], bandwidth=1.0)]
    return X, y, kernels, np.moveaxis(gram_stack(X, kernels).to_array(), 0, -1)


def test_a_fit_cut_short_says_how_far_it_is(iris):
    X, y, kernels, _ = iris
    kernels = [*kernels, RBF(bandwidth=0.3)]
    with pytest.warns(ConvergenceWarning, match="max_iter was reached"):
        model = CGBoostClassifier(kernels, C=0.01, max_iter=1, tol=1e-6).fit(X, y)
    full = CGBoostClassifier(kernels, C=0.01, tol=1e-6).fit(X, y)
    assert model.objective_ - model.dual_gap_ <= full.objective_ <= model.objective_
    assert not model.converged_


def test_too_little_memory_is_explained(iris):
    X, y, kernels, _ = iris
    with pytest.raises(ValueError, match="needs a matrix of 150 × 150 numbers"):
        CGBoostClassifier(kernels, memory=1000).fit(X, y)


def test_a_price_that_is_not_positive_is_refused(iris):
    X, y, kernels, _ = iris
    with pytest.raises(ValueError, match="C must be a positive number"):
        CGBoostClassifier(kernels, C=0.0).fit(X, y)


def test_a_master_that_was_cut_short_is_made_anew(monkeypatch):
    rng = np.random.default_rng(0)
    A = rng.normal(size=(2, 12, 4))
    stack = DenseStack(A @ A.transpose(0, 2, 1))
    problem = ColumnProblem(stack, LabelSVMs(np.resize([1.0, -1.0], (12, 1))))
    apply, calls = DenseStack.apply, []

    def late(self, alpha):
        calls.append(True)
        if len(calls) == 2:
            raise OutOfTime
        return apply(self, alpha)

    monkeypatch.setattr(DenseStack, "apply", late)
    with pytest.raises(OutOfTime):
        problem.master(np.ones(2))
    K = stack.to_array()
    np.testing.assert_allclose(problem.master(np.ones(2)), K[0] @ K[0] + K[1] @ K[1], rtol=1e-12)
