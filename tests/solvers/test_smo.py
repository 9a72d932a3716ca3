"""SMO over alpha alone reaches the optimum of ℓp-norm MKL: bracketed, by alternation, planted solutions, KKT."""

import cvxpy as cp
import numpy as np
import pytest
from mkl_problems import make_kernels
from numpy.testing import assert_allclose
from references import conic_value, minmax_bracket, result_of, root

from multikernel.datasets import make_kernel_problem
from multikernel.gram import DenseStack, LazyStack
from multikernel.kernels import RBF, KernelFamily
from multikernel.problems.minmax import MinMaxProblem
from multikernel.problems.weight_sets import CappedSimplex, LpBall, lp_norm
from multikernel.solvers.mkl import smo as module
from multikernel.solvers.mkl.closed_form import closed_form
from multikernel.solvers.mkl.smo import smo_mkl
from multikernel.svm import CSVM, LabelSVMs
from multikernel.svm.binary import NuSVM

MEMORY = 1 << 30
NORMS = [1.1, 1.5, 2.0, 4.0, 10.0]


def solve(problem, tol=1e-5, solver=smo_mkl, **options):
    return result_of(solver, problem, tol, **options)


def solve_kernels(K, signs, p, tol=1e-5, C=2.0, **options):
    problem = MinMaxProblem(DenseStack(K), CSVM(signs, C, **options), LpBall(p), MEMORY)
    return problem, solve(problem, tol)


def kernels(**options):
    return make_kernels(**{"n_kernels": 4, "n": 24, "rank": 3, **options})[:2]


def assert_optimal(problem, result, tol):
    """Feasible, certified, weights on the sphere and the best ones for alpha."""
    minmax_bracket(problem, result).proves(result.certificate, tol)
    assert result.certificate.relative_gap <= tol
    assert problem.inner.violation(result.alpha) == 0.0
    q = problem.stack.quadratic_forms(result.alpha)
    p = problem.weight_set.p
    assert_allclose(lp_norm(result.weights, p), 1.0, rtol=1e-9)
    assert_allclose(result.weights @ q, lp_norm(q, p / (p - 1.0)), rtol=1e-9)


@pytest.mark.parametrize("p", NORMS)
def test_it_reaches_the_optimum(p):
    K, signs = kernels()
    problem, result = solve_kernels(K, signs, p, tol=1e-6)
    assert_optimal(problem, result, 1e-6)


@pytest.mark.parametrize("p", [1.05, *NORMS])
def test_it_agrees_with_the_alternation(p):
    K, signs = kernels(n_kernels=6, n=60, seed=1)
    problem, result = solve_kernels(K, signs, p)
    other = solve(problem, 1e-5, closed_form, max_iter=5000)
    assert other.converged
    assert_optimal(problem, result, 1e-5)
    assert_allclose(result.certificate.primal, other.certificate.primal, rtol=2e-5)


@pytest.mark.parametrize("p", NORMS)
def test_a_planted_solution_is_found(p):
    planted = make_kernel_problem(p=p, random_state=0)
    _, result = solve_kernels(planted.K, planted.y, p, tol=1e-9, C=planted.C)
    assert_allclose(result.certificate.primal, planted.objective, rtol=1e-8)
    # weights are powers 1 / (p - 1) of quadratic forms: for large p a form of 1e-16 instead of 0 shows in them
    power = max(p - 1.0, 1.0)
    assert_allclose(result.weights**power, planted.weights**power, atol=1e-3)


@pytest.mark.parametrize("p", NORMS)
@pytest.mark.parametrize("C", [1e-6, 1e-2, 1e6])
def test_a_tiny_and_a_huge_price_of_errors_are_solved(p, C):
    K, signs = kernels(rank=20)
    problem, result = solve_kernels(K, signs, p, C=C)
    assert_optimal(problem, result, 1e-5)


@pytest.mark.parametrize("p", NORMS)
def test_a_huge_price_on_kernels_that_cannot_separate_is_certified(p):
    K, signs = kernels(rank=2, ridge=1e-6)
    problem, result = solve_kernels(K, signs, p, tol=1e-3, C=1e3)
    assert_optimal(problem, result, 1e-3)


@pytest.mark.parametrize("p", [1.1, 2.0, 8.0])
@pytest.mark.parametrize("many", [100, 0], ids=["newton", "alternation"])
def test_where_pairs_of_variables_creep_another_solver_finishes(p, many, monkeypatch):
    monkeypatch.setattr(module, "MANY_KERNELS", many)
    finished = []
    for name in ("newton", "closed_form"):
        solver = getattr(module, name)
        monkeypatch.setattr(module, name, lambda *a, s=solver, **o: finished.append(s.__name__) or s(*a, **o))
    monkeypatch.setattr(module, "PATIENCE", 0)  # no burst is good enough
    monkeypatch.setattr(module, "FEWEST_STEPS", 1)
    K, signs = kernels(n=40, rank=2, ridge=1e-3)
    problem, result = solve_kernels(K, signs, p, tol=1e-4, C=100.0)
    assert finished == ["newton" if many else "closed_form"]
    assert result.certificate.relative_gap <= 1e-4
    assert problem.inner.violation(result.alpha) == 0.0


@pytest.mark.parametrize("p", [1.05, 1.5, 8.0])
def test_equal_kernels_get_equal_weights_and_a_zero_kernel_none(p):
    K, signs = kernels()
    K = np.concatenate([K[:1], K[:1], np.zeros((1, *K.shape[1:])), K[1:]])
    problem, result = solve_kernels(K, signs, p)
    assert_optimal(problem, result, 1e-5)
    assert_allclose(result.weights[0], result.weights[1], rtol=1e-12)
    assert result.weights[2] == 0.0


@pytest.mark.parametrize("p", NORMS)
def test_one_kernel_is_a_plain_svm(p):
    K, signs = kernels(n_kernels=1)
    _, result = solve_kernels(K, signs, p, tol=1e-7)
    value, _ = CSVM(signs, 2.0).solve(K[0], tol=1e-9)
    assert_allclose(result.weights, 1.0)
    assert_allclose(result.certificate.primal, value, rtol=1e-6)


@pytest.mark.parametrize("p", NORMS)
def test_more_kernels_than_samples(p):
    K, signs = kernels(n_kernels=100, n=20, rank=1)
    problem, result = solve_kernels(K, signs, p)
    assert_optimal(problem, result, 1e-5)


@pytest.mark.parametrize("p", NORMS)
def test_unbalanced_classes_and_samples_of_no_class(p):
    K, _ = kernels(n=40)
    signs = np.where(np.arange(40) < 3, 1.0, -1.0)
    signs[10:20] = 0.0
    weight = np.linspace(0.0, 2.0, 40)
    problem, result = solve_kernels(K, signs, p, tol=1e-6, sample_weight=weight, class_weight="balanced")
    assert_optimal(problem, result, 1e-6)
    assert not result.alpha[10:20].any()


def test_no_step_is_possible_with_one_class():
    K, _ = kernels(n=10)
    _, result = solve_kernels(K, np.ones(10), 2.0)
    assert result.certificate.primal == 0.0
    assert not result.alpha.any()


@pytest.mark.parametrize("p", [1.1, 2.0, 8.0])
def test_single_precision_kernels_give_the_double_precision_optimum(p):
    K, signs = kernels(n=80, rank=10)
    problem, result = solve_kernels(K.astype(np.float32), signs, p)
    assert_optimal(problem, result, 1e-5)
    assert_allclose(result.certificate.primal, solve_kernels(K, signs, p)[1].certificate.primal, rtol=3e-5)


@pytest.mark.parametrize("scale", [1e-12, 1e12])
@pytest.mark.parametrize("p", [1.05, 8.0])
def test_the_scale_of_the_kernels_does_not_matter(p, scale):
    K, signs = kernels()
    _, result = solve_kernels(K, signs, p)
    problem, other = solve_kernels(scale * K, signs, p, C=2.0 / scale)
    assert_optimal(problem, other, 1e-5)
    assert_allclose(scale * other.certificate.primal, result.certificate.primal, rtol=2e-5)


@pytest.mark.parametrize("p", [1e6, np.inf])
def test_without_a_bound_on_the_norm_it_is_the_svm_on_the_sum(p):
    K, signs = kernels()
    _, result = solve_kernels(K, signs, p)
    value, _ = CSVM(signs, 2.0).solve(K.sum(axis=0), tol=1e-9)
    assert_allclose(result.weights, 1.0)
    assert_allclose(result.certificate.primal, value, rtol=1e-5)


def test_the_squared_regulariser_of_the_paper_has_the_same_solution_at_the_matching_price():
    K, signs = kernels()
    p = 3.0
    problem, result = solve_kernels(K, signs, p, tol=1e-9)
    q = problem.stack.quadratic_forms(result.alpha)
    price = lp_norm(q, p / (p - 1.0)) / 2.0
    alpha = cp.Variable(len(signs))
    forms = cp.hstack([cp.sum_squares(root(k).T @ alpha) for k in K])
    y = cp.multiply(signs, alpha)
    limits = [y >= 0, y <= 2.0, cp.sum(alpha) == 0]
    objective = cp.sum(y) - cp.square(cp.pnorm(forms, p / (p - 1.0))) / (8.0 * price)
    optimum = conic_value(cp.Problem(cp.Maximize(objective), limits))
    ours = problem.inner.linear(result.alpha) - lp_norm(q, p / (p - 1.0)) ** 2 / (8.0 * price)
    assert_allclose(ours, optimum, rtol=1e-6)


def test_a_start_is_used_and_repaired():
    K, signs = kernels(n=60)
    problem, result = solve_kernels(K, signs, 2.0)
    start = result.weights, result.alpha + 1e-9
    assert solve(problem, 1e-4, start=start).n_iter == 1
    assert_optimal(problem, solve(problem, 1e-5, start=(result.weights, np.full(60, 7.0))), 1e-5)


def test_computed_kernels_and_a_small_cache_give_the_dense_answer(monkeypatch):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(150, 3))
    signs = np.where(X[:, 0] * X[:, 1] > 0, 1.0, -1.0)
    family = KernelFamily.fit([RBF(gamma=0.1), RBF(gamma=1.0), RBF(gamma=10.0)], X)
    lazy = LazyStack(family, X, memory=0)
    monkeypatch.setattr(module, "FEWEST_ROWS", 40)
    results = [
        solve(MinMaxProblem(stack, CSVM(signs, 1.0), LpBall(2.0), memory))
        for stack, memory in ((lazy, 0), (DenseStack(lazy.to_array()), MEMORY))
    ]
    assert all(result.converged for result in results)
    assert_allclose(results[0].certificate.primal, results[1].certificate.primal, rtol=2e-5)


def test_cached_rows_are_those_of_the_stack_through_narrowing_and_eviction(monkeypatch):
    monkeypatch.setattr(module, "FEWEST_ROWS", 20)
    K, _ = kernels(n=60)
    cache = module._ActiveRows(DenseStack(K), np.arange(5, 60), n_bytes=0)
    rng = np.random.default_rng(0)
    for subset in (np.arange(5, 60), np.arange(5, 60, 3)):
        cache = cache.narrowed(subset)
        for _ in range(30):
            needed = tuple(rng.choice(len(subset), 2, replace=False))
            cache.load(needed, rng.normal(size=len(subset)))
            assert (cache.slot[list(needed)] >= 0).all()
            for i in np.flatnonzero(cache.slot >= 0):
                assert_allclose(cache.of_variable[cache.slot[i]], K[:, subset[i], subset])
        assert (cache.slot >= 0).sum() == min(20, len(subset))


def test_it_stops_after_the_given_number_of_bursts_with_an_honest_gap():
    K, signs = kernels(n=60)
    problem = MinMaxProblem(DenseStack(K), CSVM(signs, 2.0), LpBall(2.0), MEMORY)
    result = solve(problem, 1e-9, max_iter=3)
    assert (result.n_iter, result.stopped) == (3, "iterations")
    optimum = solve(problem, 1e-9).certificate.primal
    assert result.certificate.dual <= optimum <= result.certificate.primal


@pytest.mark.parametrize(
    ("inner", "weight_set", "advice"),
    [
        (CSVM([1, -1, 1]), LpBall(1.0), "p > 1"),
        (CSVM([1, -1, 1]), CappedSimplex(1.0), "p > 1"),
        (LabelSVMs([[1, -1], [-1, 1], [1, 1]]), LpBall(2.0), 'solver="lp"'),
        (NuSVM([1, -1, 1], nu=0.5), LpBall(2.0), 'solver="lp"'),
        (CSVM([1, -1, 1], bias=False), LpBall(2.0), "with a bias"),
    ],
)
def test_what_it_is_not_made_for_is_refused_with_advice(inner, weight_set, advice):
    problem = MinMaxProblem(DenseStack(np.stack([np.eye(3)] * 2)), inner, weight_set, MEMORY)
    with pytest.raises(ValueError, match=advice):
        solve(problem)
