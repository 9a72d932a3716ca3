"""Variable sparsity kernel learning: bounds, optimum, special cases, optimality conditions."""

import cvxpy as cp
import numpy as np
import pytest
from mkl_problems import make_kernels
from numpy.testing import assert_allclose
from references import conic_value, minmax_bracket, result_of, root

from multikernel.gram import DenseStack
from multikernel.problems.minmax import MinMaxProblem
from multikernel.problems.vskl import GroupPoint, Groups, VSKLProblem, parse_groups
from multikernel.problems.weight_sets import LpBall
from multikernel.runtime.monitor import Monitor
from multikernel.solvers.mkl.cutting_planes import level_method
from multikernel.solvers.vskl import group_newton, mirror_descent, mirror_step, second_derivatives
from multikernel.svm import CSVM, LabelSVMs
from multikernel.svm.binary import NuSVM

MEMORY = 1 << 30
STRUCTURES = {
    "one group": [[0, 1, 2, 3, 4, 5]],
    "pairs": [[0, 3], [1, 4], [2, 5]],
    "uneven": [[0], [1, 2, 3, 5], [4]],
    "singletons": [[0], [1], [2], [3], [4], [5]],
}
each_structure = pytest.mark.parametrize("groups", STRUCTURES.values(), ids=STRUCTURES.keys())
each_solver = pytest.mark.parametrize("solver", [mirror_descent, group_newton])


def kernels(**options):
    return make_kernels(**{"n_kernels": 6, "ridge": 0.1, **options})[:2]


def make_problem(groups, C=0.3, **options):
    K, signs = kernels(**options)
    return VSKLProblem(DenseStack(K), CSVM(signs, C), groups, MEMORY)


def optimum(problem):
    return minmax_bracket(problem, solve(problem, tol=1e-9))


def solve(problem, solver=group_newton, tol=1e-6, **options):
    return result_of(solver, problem, tol, **options)


@each_solver
@each_structure
def test_solvers_reach_the_optimum(solver, groups):
    problem = make_problem(groups)
    tol = 1e-6 if solver is group_newton else 1e-4
    result = solve(problem, solver, tol)
    assert result.converged
    assert problem.inner.violation(result.alpha) == 0.0
    optimum(problem).proves(result.certificate, tol)


@pytest.mark.parametrize("C", [1e-4, 1e4])
@each_structure
def test_a_tiny_and_a_huge_price_of_errors_are_solved(groups, C):
    problem = make_problem(groups, C=C, rank=20)
    result = solve(problem)
    assert result.converged
    optimum(problem).proves(result.certificate, 1e-6)


@each_structure
def test_the_certificate_brackets_the_optimum_for_any_weights_and_alpha(groups):
    problem = make_problem(groups)
    best = optimum(problem)
    rng = np.random.default_rng(1)
    for scale in np.logspace(-3, 2, 20):
        weights = scale * rng.uniform(size=problem.n_kernels)
        alpha = problem.inner.repair(rng.normal(size=len(problem.stack)))
        certificate = problem.certificate(weights, alpha)
        assert certificate.dual <= best.upper
        assert certificate.primal >= best.lower


def test_the_upper_bound_is_the_objective_of_the_classifier_written_naively():
    problem = make_problem(STRUCTURES["uneven"])
    K = problem.stack.to_array()
    rng = np.random.default_rng(2)
    weights, alpha = 0.01 * rng.uniform(size=6), problem.inner.repair(rng.normal(size=30))
    norms = [weights[k] * np.sqrt(alpha @ K[k] @ alpha) for k in range(6)]
    penalty = 0.5 * max(norms[0], norms[1] + norms[2] + norms[3] + norms[5], norms[4]) ** 2
    scores = sum(weights[k] * K[k] @ alpha for k in range(6))
    biases = np.append(problem.inner.signs - scores, 0.0)  # the loss has its kinks there, so one of them is best
    losses = min(problem.inner.upper @ np.maximum(1 - problem.inner.signs * (scores + b), 0.0) for b in biases)
    assert_allclose(problem.certificate(weights, alpha).primal, penalty + losses, rtol=1e-12)


@each_structure
def test_the_solution_satisfies_the_optimality_conditions(groups):
    problem = make_problem(groups)
    result = solve(problem, tol=1e-9)
    shares, balance = problem.split(result.weights)
    q = problem.quadratic_forms(result.alpha)
    largest = problem.groups.max(q)
    # within a group only kernels with the largest quadratic form have a share; groups weigh by its root
    assert (shares > 0.01).any()
    assert_allclose(q[shares > 0.01], problem.groups.spread(largest)[shares > 0.01], rtol=1e-3)
    assert_allclose(balance, np.sqrt(largest) / np.sqrt(largest).sum(), rtol=1e-3)
    assert_allclose(problem.weights(shares, balance), result.weights, rtol=1e-9)
    # the classifier spends the same norm in every group
    norms = problem.groups.sum(result.weights * np.sqrt(q))
    assert_allclose(norms, norms.max(), rtol=1e-3)


def test_one_group_is_l1_mkl():
    problem = make_problem(STRUCTURES["one group"])
    plain = MinMaxProblem(problem.stack, problem.inner, LpBall(1.0), MEMORY)
    monitor = Monitor(plain, tol=1e-6)
    level_method(plain, monitor)
    result = solve(problem)
    assert monitor.result().converged
    assert_allclose(result.certificate.primal, monitor.result().certificate.primal, rtol=3e-6)
    assert_allclose(result.weights.sum(), 1.0)
    assert result.weights.min() == 0.0


def test_singletons_have_the_dual_with_the_squared_sum_of_roots():
    problem = make_problem(STRUCTURES["singletons"])
    n, signs = len(problem.stack), problem.inner.signs
    alpha = cp.Variable(n)
    roots = sum(cp.norm(root(k).T @ alpha) for k in problem.stack.to_array())
    y = cp.multiply(signs, alpha)
    limits = [y >= 0, y <= problem.inner.C, cp.sum(alpha) == 0]
    optimum = conic_value(cp.Problem(cp.Maximize(cp.sum(y) - 0.5 * cp.square(roots)), limits))
    result = solve(problem)
    assert_allclose(result.certificate.dual, optimum, rtol=2e-6)
    assert (result.weights > 0.0).all()


@each_solver
def test_kernels_of_zeros_and_equal_kernels_do_no_harm(solver):
    K, signs = kernels()
    K = np.concatenate([K, K[:1], np.zeros((2, *K.shape[1:]))])
    # kernel 6 equals kernel 0, kernel 7 is zero beside others, kernel 8 is a group of its own
    problem = VSKLProblem(DenseStack(K), CSVM(signs, 0.3), [[0, 1, 6], [2, 3, 7], [4, 5], [8]], MEMORY)
    tol = 1e-6 if solver is group_newton else 1e-4
    result = solve(problem, solver, tol)
    assert result.converged
    assert not result.weights[7:].any()
    optimum(problem).proves(result.certificate, tol)


@each_solver
def test_groups_whose_kernels_lack_rank_may_be_left_with_nothing_to_explain(solver):
    # single features: at the optimum some Σ alpha_i x_i are zero, and those groups spend less norm than others
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 5))
    signs = np.where(X[:, 0] + 0.3 * X[:, 1] + 0.5 * rng.normal(size=40) > 0, 1.0, -1.0)
    K = np.einsum("ik,jk->kij", X, X)
    problem = VSKLProblem(DenseStack(K), CSVM(signs, 1.0), [[k] for k in range(5)], MEMORY)
    tol = 1e-5 if solver is group_newton else 1e-3
    result = solve(problem, solver, tol)
    assert result.converged
    q = problem.quadratic_forms(result.alpha)
    assert np.sqrt(q.min()) < 1e-2 * np.sqrt(q.max())
    minmax_bracket(problem, result).proves(result.certificate, tol)


def test_labels_share_weights():
    K, signs = kernels()
    other = np.where(np.random.default_rng(5).normal(size=len(signs)) > 0, 1.0, -1.0)
    other[:4] = 0.0
    inner = LabelSVMs(np.column_stack([signs, other]), 0.3)
    problem = VSKLProblem(DenseStack(K), inner, STRUCTURES["pairs"], MEMORY)
    result = solve(problem)
    assert result.converged
    assert result.alpha.shape == (30, 2)
    assert problem.intercept(result.weights, result.alpha).shape == (2,)
    optimum(problem).proves(result.certificate, 1e-6)


def test_an_svm_without_bias_and_one_with_nu_are_certified():
    K, signs = kernels()
    for inner in (CSVM(signs, 0.3, bias=False), NuSVM(signs, nu=0.4)):
        problem = VSKLProblem(DenseStack(K), inner, STRUCTURES["pairs"], MEMORY)
        result = solve(problem, tol=1e-5)
        assert result.converged
        optimum(problem).proves(result.certificate, 1e-5)


def test_single_precision_kernels_are_solved():
    K, signs = kernels(n=60)
    results = [
        solve(VSKLProblem(DenseStack(K.astype(dtype)), CSVM(signs, 0.3), STRUCTURES["pairs"], MEMORY), tol=1e-4)
        for dtype in (np.float32, np.float64)
    ]
    assert all(result.converged for result in results)
    assert_allclose(results[0].certificate.primal, results[1].certificate.primal, rtol=2e-4)


@each_solver
def test_a_start_is_used(solver):
    problem = make_problem(STRUCTURES["pairs"])
    result = solve(problem, tol=1e-6)
    assert solve(problem, solver, 1e-3, start=(result.weights, result.alpha)).n_iter <= 2


def test_a_mirror_step_minimises_the_model_with_the_relative_entropy():
    problem = make_problem(STRUCTURES["uneven"])
    rng = np.random.default_rng(3)
    shares = problem.groups.shares(rng.uniform(size=6))
    point = GroupPoint(shares, np.full(3, 1 / 3), problem.inner.start(), 5.0, np.zeros(6))
    gradient, step = rng.normal(size=6), 0.7
    x = cp.Variable(6)
    model = 5.0 + gradient @ (x - shares) + cp.sum(cp.kl_div(x, shares)) / step
    sums = [cp.sum(x[group]) == 1 for group in problem.groups.members]
    optimum = conic_value(cp.Problem(cp.Minimize(model), sums))
    moved, value = mirror_step(problem, point, gradient, step)
    assert_allclose(value, optimum, rtol=1e-7)
    # stationary: the derivative of the model is the same for all kernels of a group
    slopes = gradient + np.log(moved / shares) / step
    assert_allclose(slopes, problem.groups.spread(problem.groups.max(slopes)), rtol=1e-9)


def test_derivatives_of_the_objective_agree_with_differences():
    problem = make_problem(STRUCTURES["uneven"], C=5.0, rank=20)
    shares = problem.groups.shares(np.array([1.0, 1.0, 2.0, 3.0, 1.0, 2.0]))
    level = np.full(3, 1 / 3)
    tol, step = 1e-11, 1e-4
    point = problem.evaluate(shares, level, problem.inner.start(), tol)
    hessian, _ = second_derivatives(problem, point, np.arange(6))

    def gradient(at):
        return -0.5 * at.q / problem.groups.spread(at.balance)

    for i, j in ((1, 2), (3, 5), (5, 1)):
        direction = np.zeros(6)
        direction[i], direction[j] = 1.0, -1.0
        ends = [problem.evaluate(shares + s * direction, level, point.alpha, tol) for s in (step, -step)]
        assert_allclose((ends[0].value - ends[1].value) / (2 * step), gradient(point) @ direction, rtol=1e-4)
        change = (gradient(ends[0]) - gradient(ends[1])) @ direction / (2 * step)
        assert_allclose(direction @ hessian @ direction, change, rtol=1e-2)


def test_groups_are_read_from_positions_names_and_labels():
    names = ["shape", "size", "colour", "texture"]
    expected = [[0, 2], [1, 3]]
    for given in (
        [[0, 2], [1, 3]],
        [[2, 0], (3, "size")],
        [["colour", "shape"], np.array([1, 3])],
        ["a", "b", "a", "b"],
        np.array([7, 3, 7, 3]),
        np.array([[0, 2], [1, 3]]),
    ):
        assert [list(group) for group in parse_groups(given, names)] == expected


@pytest.mark.parametrize(
    ("groups", "message"),
    [
        ([], "groups is empty"),
        ([[0, 1]], r"1 of 3 kernels are in no group, the first: 2 \(\"c\"\)"),
        ([[0, 1], [1, 2]], "more than once"),
        ([[0, 0], [1, 2]], "more than once"),
        ([[0, 1, 2], []], r"groups\[1\] is empty"),
        ([[0, 1], [3]], r"groups\[1\] has position 3"),
        ([[0, 1], [-1]], "position -1"),
        ([[0, 1], ["d"]], 'kernel "d"'),
        ([[0, 1], [2.0]], "2.0"),
        ([[0, 1], 2], r"groups\[1\] is 2"),
        ([0, 1], "2 labels for 3 kernels"),
        ("abc", "1 labels for 3 kernels"),
    ],
)
def test_groups_that_are_no_partition_are_refused(groups, message):
    with pytest.raises(ValueError, match=message):
        parse_groups(groups, ["a", "b", "c"])


def test_operations_by_group_are_what_loops_give():
    groups = Groups([[0, 3], [1], [2, 4]])
    x = np.array([1.0, 0.0, 2.0, 3.0, 2.0])
    assert_allclose(groups.sum(x), [4.0, 0.0, 4.0])
    assert_allclose(groups.max(x), [3.0, 0.0, 2.0])
    assert_allclose(groups.shares(x), [0.25, 1.0, 0.5, 0.75, 0.5])


def test_a_problem_whose_groups_leave_a_kernel_out_is_refused():
    with pytest.raises(ValueError, match="exactly one group"):
        make_problem([[0, 1], [2, 3]])


@pytest.mark.parametrize("size", [1e6, 1e10, 1e14])
def test_newton_takes_as_many_steps_on_huge_kernels_as_on_others(size):
    K, signs = kernels(n=30)
    problem = VSKLProblem(DenseStack(size * K), CSVM(signs, C=10.0), STRUCTURES["pairs"], MEMORY)
    monitor = Monitor(problem, tol=1e-6)
    group_newton(problem, monitor)
    assert monitor.result().converged
    assert monitor.result().n_iter <= 15


def test_steps_that_are_refused_take_one_svm(monkeypatch):
    problem = make_problem(STRUCTURES["pairs"])
    shares, balance = problem.split(problem.start()[0])
    solves, plain = [], problem.solve_inner
    monkeypatch.setattr(problem, "solve_inner", lambda *args: solves.append(1) or plain(*args))
    point = problem.evaluate(shares, balance, problem.start()[1], 1e-9)
    assert len(solves) > 1
    solves.clear()
    problem.evaluate(shares, balance, problem.start()[1], 1e-9, enough=0.5 * point.value)
    assert len(solves) == 1
