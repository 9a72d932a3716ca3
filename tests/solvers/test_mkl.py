"""Every solver of the ℓp problem: the optimum, bracketed by its definition, on ordinary and awkward problems."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mkl_problems import AWKWARD, make_kernels
from numpy.testing import assert_allclose
from references import reference

from multikernel.datasets import make_kernel_problem
from multikernel.gram import DenseStack
from multikernel.problems.cutting_planes import CuttingPlaneModel
from multikernel.problems.minmax import MinMaxProblem
from multikernel.problems.weight_sets import LpBall, lp_norm
from multikernel.runtime.monitor import Monitor
from multikernel.solvers.catalogue import SOLVERS, fastest, find_solver
from multikernel.solvers.common.newton import evaluate
from multikernel.solvers.mkl.simplemkl import exact_line_search
from multikernel.solvers.printed.taylor_master import TaylorModel
from multikernel.svm import CSVM, LabelSVMs, NuSVM

# solver, p, and the relative gap that it must reach
EXACT = [
    *((name, 1.0) for name in ("simplemkl", "silp", "level", "newton")),
    *((name, p) for name in ("lp", "silp", "newton") for p in (1.1, 2.0, 1e6)),
]
ROUGH = [("group-lasso", 1.0), ("group-lasso", 1.5), ("smo", 1.1), ("smo", 2.0), ("smo", 8.0)]


def solve(K, inner, name, p, tol, **options):
    problem = MinMaxProblem(DenseStack(K), inner, LpBall(p), memory=1 << 30)
    monitor = Monitor(problem, tol=tol)
    SOLVERS["mkl"][name].run(problem, monitor, max_iter=3000, **options)
    return problem, monitor.result()


def check_optimality(problem, result, tol):
    """KKT: the inner problem is solved, the weights are in the set, and they are the best for their alpha."""
    q = problem.quadratic_forms(result.alpha)
    ball = problem.weight_set
    norm = result.weights.max() if ball.is_box else lp_norm(result.weights, ball.p)
    assert result.weights.min() >= 0.0
    assert norm <= 1.0 + 1e-9
    assert problem.inner.violation(result.alpha) <= 1e-12
    # an error of ε in the weights shows as ε here, but as ε² in the objective
    slack = 0.5 * (ball.support(q) - result.weights @ q)
    assert slack <= np.sqrt(tol) * abs(result.certificate.primal)


@pytest.mark.parametrize("case", AWKWARD)
@pytest.mark.parametrize(("name", "p"), EXACT, ids=lambda value: str(value))
def test_the_optimum_is_certified_to_one_millionth(case, name, p):
    K, signs, C = make_kernels(**AWKWARD[case])
    problem, result = solve(K, CSVM(signs, C), name, p, 1e-6)
    assert result.converged
    if name not in ("silp", "level"):  # there all cuts together prove the bound, no single alpha does
        check_optimality(problem, result, 1e-6)
    reference(LpBall(p), **AWKWARD[case]).proves(result.certificate, 1e-6)


@pytest.mark.parametrize("case", AWKWARD)
@pytest.mark.parametrize(("name", "p"), ROUGH, ids=lambda value: str(value))
def test_the_optimum_is_certified_to_one_thousandth(case, name, p):
    K, signs, C = make_kernels(**AWKWARD[case])
    _, result = solve(K, CSVM(signs, C), name, p, 1e-3)
    assert result.converged
    reference(LpBall(p), **AWKWARD[case]).proves(result.certificate, 1e-3)


@settings(max_examples=15, deadline=None, derandomize=True)
@given(
    seed=st.integers(0, 10_000),
    n=st.integers(6, 30),
    n_kernels=st.integers(1, 12),
    rank=st.integers(1, 6),
    p=st.sampled_from([1.0, 1.01, 1.3, 2.0, 3.0, 20.0]),
    log_C=st.floats(-2, 3),
)
def test_auto_reaches_the_optimum_of_random_problems(seed, n, n_kernels, rank, p, log_C):
    options = {"n_kernels": n_kernels, "n": n, "rank": rank, "C": 10.0**log_C, "seed": seed}
    K, signs, C = make_kernels(**options)
    _, result = solve(K, CSVM(signs, C), fastest("mkl", p, n_kernels), p, 1e-6)
    assert result.converged
    reference(LpBall(p), **options).proves(result.certificate, 1e-6)


@pytest.mark.parametrize("p", [1.2, 2.0, 5.0])
def test_cutting_planes_with_an_expanded_norm_reach_the_same_optimum(p):
    K, signs, C = make_kernels()
    _, result = solve(K, CSVM(signs, C), "silp-taylor", p, 1e-6)
    assert result.converged
    reference(LpBall(p)).proves(result.certificate, 1e-6)


@pytest.mark.parametrize("p", [1.0, 1.5])
@pytest.mark.parametrize("name", ["silp", "newton", "group-lasso"])
def test_nu_svms_reach_the_optimum(name, p):
    K, signs, _ = make_kernels(n=40)
    _, result = solve(K, NuSVM(signs, 0.4), name, p, 1e-5)
    assert result.converged
    reference(LpBall(p), nu=0.4, n=40).proves(result.certificate, 1e-5)


@pytest.mark.parametrize(
    ("name", "p"), [("newton", 1.0), ("level", 1.0), ("simplemkl", 1.0), ("lp", 2.0), ("silp", 2.0)]
)
def test_shared_weights_minimise_the_sum_over_labels(name, p):
    K, signs, C = make_kernels()
    signs = np.column_stack([signs, np.sign(K[1][:, 0] + 1e-9), np.roll(signs, 7)])
    problem, result = solve(K, LabelSVMs(signs, C), name, p, 1e-6)
    assert result.converged
    # no other weights do better: J is convex, so small random moves are enough
    rng = np.random.default_rng(0)
    value = problem.solve_inner(result.weights, None, 1e-9)[0]
    for _ in range(20):
        moved = np.maximum(result.weights + 0.05 * rng.normal(size=len(K)), 0.0)
        assert problem.solve_inner(moved / lp_norm(moved, p), None, 1e-9)[0] >= value * (1 - 1e-6)


@pytest.mark.parametrize("name", ["simplemkl", "silp", "level", "newton"])
def test_planted_solutions_are_found(name):
    planted = make_kernel_problem(p=1.0, random_state=3)
    _, result = solve(planted.K, CSVM(planted.y, planted.C), name, 1.0, 1e-6)
    assert_allclose(result.certificate.primal, planted.objective, rtol=1e-6)
    assert_allclose(result.weights, planted.weights, atol=2e-3)


def test_zero_weights_satisfy_the_optimality_conditions_of_the_simplex():
    K, signs, C = make_kernels(n_kernels=12)
    problem, result = solve(K, CSVM(signs, C), "newton", 1.0, 1e-8)
    q = problem.quadratic_forms(result.alpha)
    used = result.weights > 1e-6
    assert 1 < used.sum() < len(K)
    assert_allclose(q[used], q.max(), rtol=1e-3)
    assert (q[~used] <= q.max() * (1 + 1e-6)).all()


def test_weights_become_equal_as_p_grows_and_sparse_as_it_falls_to_one():
    K, signs, C = make_kernels()
    weights = {p: solve(K, CSVM(signs, C), "newton", p, 1e-8)[1].weights for p in (1.0, 1.001, 100.0)}
    assert_allclose(weights[1.001], weights[1.0], atol=5e-3)
    assert_allclose(weights[100.0], 1.0, atol=0.1)
    _, box = solve(K, CSVM(signs, C), "lp", 1e6, 1e-8)
    assert_allclose(box.weights, 1.0)


def test_duplicate_kernels_share_what_one_of_them_would_get():
    K, signs, C = make_kernels()
    _, alone = solve(K, CSVM(signs, C), "newton", 1.0, 1e-7)
    _, doubled = solve(np.concatenate([K, K[:1]]), CSVM(signs, C), "newton", 1.0, 1e-7)
    assert_allclose(doubled.certificate.primal, alone.certificate.primal, rtol=1e-6)
    assert_allclose(doubled.weights[0] + doubled.weights[5], alone.weights[0], atol=2e-3)


def test_curvature_is_the_second_derivative_of_the_optimum():
    K, signs, C = make_kernels(n_kernels=3, n=40, C=1.0)
    problem = MinMaxProblem(DenseStack(K), CSVM(signs, C), LpBall(1.0), memory=1 << 30)
    weights, step = np.array([0.5, 0.3, 0.2]), 1e-5

    def gradient(g):
        return -0.5 * problem.quadratic_forms(problem.solve_inner(g, None, 1e-13)[1])

    differences = [(gradient(weights + step * e) - gradient(weights - step * e)) / (2 * step) for e in np.eye(3)]
    _, alpha = problem.solve_inner(weights, None, 1e-13)
    assert_allclose(problem.curvature(weights, alpha, np.arange(3)), differences, rtol=1e-3)


@pytest.mark.parametrize("size", [1e-9, 1e9])
def test_curvature_follows_the_scale_of_the_kernels(size):
    K, signs, _ = make_kernels(n_kernels=3, n=40)
    weights, chosen = np.array([0.5, 0.3, 0.2]), np.arange(3)
    plain = MinMaxProblem(DenseStack(K), CSVM(signs, C=1e5), LpBall(1.0), memory=1 << 30)
    scaled = MinMaxProblem(DenseStack(size * K), CSVM(signs, C=1e5 / min(size, 1.0)), LpBall(1.0), memory=1 << 30)
    _, alpha = plain.solve_inner(weights, None, 1e-10)
    wanted = plain.curvature(weights, alpha, chosen)
    assert wanted.max() > 0.0
    assert_allclose(scaled.curvature(weights, alpha / size, chosen), wanted / size, rtol=1e-6)


class Barrier:
    """``J(1 − t, t) = size / (1 − t + 1e-9) − slope t``, as where a huge kernel is about to lose its weight."""

    def __init__(self, size, slope):
        self.size, self.slope, self.calls = size, slope, 0

    def solve_inner(self, weights, warm, tol):
        self.calls += 1
        return self.size / (weights[0] + 1e-9) - self.slope * weights[1], weights

    def quadratic_forms(self, weights):
        return 2.0 * np.array([self.size / (weights[0] + 1e-9) ** 2, self.slope])


@pytest.mark.parametrize("root", [0.3, 0.9, 0.99])
def test_line_searches_find_the_root_of_slopes_that_are_huge_at_one_end(root):
    problem = Barrier(size=1.0, slope=1.0 / (1.0 - root) ** 2)
    point, end = (evaluate(problem, np.array([1.0 - t, t]), None, 1e-6) for t in (0.0, 1.0))
    found = exact_line_search(point, end, np.array([-1.0, 1.0]), 1.0, 1e-6)
    assert_allclose(found.weights[1], root, rtol=0.05)
    assert problem.calls <= 16


def test_single_precision_reaches_the_default_tolerance():
    K, signs, C = make_kernels(n=80)
    for name, p in (("newton", 1.0), ("newton", 2.0), ("simplemkl", 1.0), ("lp", 2.0)):
        _, result = solve(K.astype(np.float32), CSVM(signs, C), name, p, 1e-3)
        assert result.converged
        reference(LpBall(p), n=80).encloses(result.certificate.primal, 1.1e-3)


@pytest.mark.parametrize("kind", [CuttingPlaneModel, TaylorModel])
@pytest.mark.parametrize("p", [1.0, 1e6, 1.05, 1.5, 3.0])
def test_master_problems_bound_their_model_from_below_tightly(p, kind):
    rng = np.random.default_rng(0)
    model = kind(6, p)
    for _ in range(5):
        model.add(rng.uniform(0, 1e4), rng.uniform(0, 5e3, size=6))
    weights, bound = model.solve()
    for _ in range(200):
        g = rng.uniform(size=6)
        g = g / (g.max() if p == 1e6 else lp_norm(g, p))
        assert model.value(g) >= bound - 1e-6 * abs(bound)
    assert_allclose(model.value(weights), bound, rtol=1e-7)


@pytest.mark.parametrize("forged", [False, True])
@pytest.mark.parametrize("p", [1.0, 2.0])
def test_cuts_from_a_file_are_proved_before_a_bound_rests_on_them_and_others_are_not(p, forged):
    rng, R = np.random.default_rng(0), 40
    constants, forms = rng.uniform(2.0, 3.0, size=R), rng.gamma(1.0, size=(R, 4))
    straight = CuttingPlaneModel(4, p)
    for constant, q in zip(constants, forms):
        straight.add(constant, q)
    kept = {"constants": constants.copy(), "forms": forms.copy(), "cuts": np.arange(R)[:, None].astype(float)}
    if forged:
        kept["constants"][::2] *= 3.0
        kept["forms"][1::2] *= 0.2
    proved = []

    def prove(rows):
        proved.extend(rows)
        return [(constants[r], forms[r], np.array([float(r)])) for r in rows]

    model = CuttingPlaneModel(4, p)
    model.take_over({**kept, "forms": forms[:, :3]}, (1,), prove)
    assert not len(model)
    model.take_over(kept, (1,), prove)
    weights, value = model.solve()
    assert_allclose(value, straight.solve()[1], rtol=1e-7)
    assert_allclose(weights, straight.solve()[0], atol=1e-4)
    assert len(proved) == len(set(proved))
    assert len(proved) < R // 2 or forged
    assert {int(model.alphas[r][0]) for r in np.flatnonzero(model.multipliers)} <= set(proved)


def test_a_projection_on_a_level_set_is_the_nearest_point_there():
    rng = np.random.default_rng(1)
    model = CuttingPlaneModel(4, 1.0)
    for _ in range(4):
        model.add(rng.uniform(1, 2), rng.uniform(0, 3, size=4))
    start = np.array([0.7, 0.1, 0.1, 0.1])
    _, lower = model.solve()
    level = 0.5 * lower + 0.5 * model.value(start)
    nearest = model.project(start, level)
    assert model.value(nearest) <= level + 1e-8
    for _ in range(2000):
        other = rng.dirichlet(np.ones(4))
        if model.value(other) <= level:
            assert np.linalg.norm(other - start) >= np.linalg.norm(nearest - start) - 1e-8


@pytest.mark.parametrize(
    ("name", "p", "message"),
    [("simplemkl", 2.0, "p = 1 only"), ("lp", 1.0, "p > 1 only"), ("nonsense", 1.0, "not known")],
)
def test_a_solver_that_cannot_solve_the_problem_is_refused_with_advice(name, p, message):
    with pytest.raises(ValueError, match=message):
        find_solver("mkl", name, p=p, n_kernels=5)


@pytest.mark.parametrize(("name", "p"), EXACT)
@pytest.mark.parametrize("problem", ["plain", "more kernels than samples", "duplicate kernels", "huge C"])
def test_the_alpha_of_a_solution_proves_it_alone(name, p, problem):
    K, signs, C = make_kernels(**AWKWARD[problem])
    asked, result = solve(K, CSVM(signs, C), name, p, 1e-3)
    alone = asked.certificate(result.weights, result.alpha)
    assert result.converged
    assert alone.relative_gap <= 1e-3
    assert_allclose(alone.dual, result.certificate.dual, rtol=1e-3)
