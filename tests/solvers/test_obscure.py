"""The primal family: certificates from definitions, solvers against each other, bounds against what happens."""

import warnings
from dataclasses import replace
from functools import cache
from itertools import pairwise

import numpy as np
import pytest
from mkl_problems import make_class_kernels
from numpy.testing import assert_allclose
from references import hinge_bracket, result_of
from scipy.stats import ks_2samp

from multikernel.gram import DenseStack, LazyStack, LowRankStack
from multikernel.kernels import KernelFamily, Linear
from multikernel.problems.obscure import MulticlassHinge, ObscureProblem, group_norm, weight_norm
from multikernel.runtime.monitor import Monitor
from multikernel.solvers.obscure.obscure import ScoreTable, obscure, online_stage
from multikernel.solvers.obscure.sdca import sdca
from multikernel.solvers.printed.obscure import obscure_online, obscure_printed, pegasos
from multikernel.solvers.ufo import ufo


def make_problem(n_classes=3, p=1.25, C=10.0, *, sparsity=0.0, cost=None, weight=None, **options):
    K, y = make_class_kernels(n_classes, **options)
    loss = MulticlassHinge(y, n_classes, weight, cost)
    return ObscureProblem(DenseStack(K), loss, 1.0 / (C * loss.total_weight), p, sparsity=sparsity)


def run(solve, problem, tol=1e-3, **options):
    return result_of(solve, problem, tol, None, random_state=0, **options)


GRID = [(p, C, M) for p in (1.01, 1.05, 1.25, 1.5, 2.0) for C in (1.0, 10.0, 1000.0) for M in (2, 3, 10)]


@pytest.mark.parametrize(("p", "C", "n_classes"), GRID[::4])
def test_coordinate_ascent_reaches_the_optimum(p, C, n_classes):
    problem = make_problem(n_classes, p, C, n=20)
    result = run(sdca, problem, tol=1e-5)
    assert result.converged
    optimum(p, C, n_classes, n=20).proves(result.certificate, 1e-5)


@cache
def optimum(p, C, n_classes, **options):
    """Bracket of the problem's optimum."""
    problem = make_problem(n_classes, p, C, **options)
    return hinge_bracket(problem, run(sdca, problem, tol=1e-6, max_iter=5000))


@pytest.mark.parametrize(("p", "C", "n_classes"), GRID)
def test_coordinate_ascent_closes_the_gap(p, C, n_classes):
    result = run(sdca, make_problem(n_classes, p, C), tol=1e-4, max_iter=2000)
    optimum(p, C, n_classes).proves(result.certificate, 1e-4)
    assert result.certificate.relative_gap <= 1e-4
    assert np.isfinite(result.weights).all()


@pytest.mark.parametrize("solve", [obscure, obscure_printed, obscure_online, pegasos, ufo])
@pytest.mark.parametrize("p", [1.01, 1.25, 2.0])
def test_any_iterate_of_a_stochastic_method_encloses_the_optimum(solve, p):
    problem = make_problem(3, p, 10.0)
    optimum = run(sdca, problem, tol=1e-7, max_iter=5000).certificate
    for epochs in (1, 2, 7):
        proof = run(solve, problem, max_iter=epochs).certificate
        assert proof.dual <= optimum.primal
        assert proof.primal >= optimum.dual


def test_certificate_is_the_formula_written_naively():
    problem = make_problem(3, 1.25, 2.0, sparsity=0.01)
    K, loss, q = problem.stack.to_array(), problem.loss, problem.q
    rng = np.random.default_rng(1)
    alpha, weights = rng.normal(size=(40, 3)), rng.random(4)
    norms = [w * np.sqrt(np.trace(alpha.T @ k @ alpha)) for w, k in zip(weights, K)]
    scores = sum(w * k @ alpha for w, k in zip(weights, K))
    hinge = [max(0.0, *(1 + s[r] - s[y] for r in range(3) if r != y)) for s, y in zip(scores, loss.labels)]
    value = problem.lam / 2 * np.sum(np.power(norms, 1.25)) ** 1.6 + 0.01 * np.sum(norms) + np.mean(hinge)
    assert_allclose(problem.objective(weights, alpha), value)
    dual = loss.feasible(problem.lam * alpha)
    assert loss.violation(dual) <= 1e-15
    cut = [max(np.sqrt(np.trace(dual.T @ k @ dual)) - 0.01, 0.0) for k in K]
    bound = -sum(dual[i, r] for i in range(40) for r in range(3) if r != loss.labels[i])
    bound -= np.sum(np.power(cut, q)) ** (2 / q) / (2 * problem.lam)
    assert problem.lower_bound(alpha) >= bound - 1e-12


def test_implied_weights_are_both_formulas():
    problem = make_problem(3, 1.3)
    squares = np.random.default_rng(0).random(4)
    weights = problem.implied_weights(squares)
    norms = weights * np.sqrt(squares)  # those of w
    assert_allclose(weights, (norms / np.sum(norms**1.3) ** (1 / 1.3)) ** 0.7)
    # w is the gradient of ½‖θ‖²_{2,q} in the norms
    step = 1e-6
    for j in range(4):
        theta = np.sqrt(squares)
        up, down = theta.copy(), theta.copy()
        up[j] += step
        down[j] -= step
        slope = (np.sum(up**problem.q) ** (2 / problem.q) - np.sum(down**problem.q) ** (2 / problem.q)) / (4 * step)
        assert_allclose(norms[j], slope, rtol=1e-6)


@pytest.mark.parametrize(("p", "C", "n_classes"), GRID)
def test_obscure_comes_within_a_percent_of_the_optimum(p, C, n_classes):
    problem = make_problem(n_classes, p, C)
    best = optimum(p, C, n_classes)
    proof = run(obscure, problem, tol=1e-9, max_iter=2000).certificate
    best.proves(proof, 0.01)
    assert proof.dual >= 0.99 * best.lower  # and nearly proves it


@pytest.mark.parametrize(("p", "C", "n_classes"), GRID[1::5])
def test_obscure_proves_a_gap_of_a_percent_on_other_problems(p, C, n_classes):
    result = run(obscure, make_problem(n_classes, p, C, seed=7), tol=1e-2, max_iter=2000)
    assert result.converged
    assert result.history[-1]["epoch"] < 2000


def test_no_overflow_for_the_largest_exponents():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for scale in (1e-60, 1.0, 1e60):
            K, y = make_class_kernels(3)
            problem = ObscureProblem(DenseStack(scale * K), MulticlassHinge(y, 3), 1e-3 * scale, 1.001)
            for solve in (obscure, pegasos, ufo, sdca):
                result = run(solve, problem, max_iter=3)
                assert np.isfinite(result.weights).all()
                assert np.isfinite(result.alpha).all()
                assert np.isfinite(result.certificate.gap)


def test_p_2_is_the_multiclass_svm_on_the_sum_of_the_kernels():
    problem = make_problem(3, 2.0, 5.0)
    result = run(sdca, problem, tol=1e-7)
    assert_allclose(result.weights, 1.0)
    total = problem.stack.to_array().sum(axis=0)[None]
    alone = ObscureProblem(DenseStack(total), problem.loss, problem.lam, 2.0)
    hinge_bracket(alone, replace(result, weights=np.ones(1))).proves(result.certificate, 1e-6)


def test_crammer_singer_on_linear_features_is_that_of_liblinear():
    from sklearn.svm import LinearSVC

    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 4)) + 1.2 * rng.normal(size=(3, 4))[np.arange(60) % 3]
    y = np.arange(60) % 3
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        svm = LinearSVC(multi_class="crammer_singer", C=0.7, fit_intercept=False, tol=1e-9, max_iter=10**6).fit(X, y)
    problem = ObscureProblem(DenseStack((X @ X.T)[None]), MulticlassHinge(y, 3), 1.0 / (0.7 * 60), 2.0)
    scores = X @ svm.coef_.T
    value = problem.lam / 2 * (svm.coef_**2).sum() + problem.loss.value(scores)
    assert_allclose(run(sdca, problem, tol=1e-8).certificate.primal, value, rtol=1e-6)


def test_sample_weights_count_as_repetitions():
    K, y = make_class_kernels(3, n=30)
    weight = np.arange(30) % 3
    rows = np.repeat(np.arange(30), weight)
    weighted = ObscureProblem(DenseStack(K), MulticlassHinge(y, 3, weight), 0.01, 1.25)
    repeated = ObscureProblem(DenseStack(K[:, rows][:, :, rows].copy()), MulticlassHinge(y[rows], 3), 0.01, 1.25)
    values = [run(sdca, p, tol=1e-7, max_iter=500).certificate.primal for p in (weighted, repeated)]
    assert_allclose(values[0], values[1], rtol=1e-6)
    stochastic = run(obscure, weighted, tol=1e-9, max_iter=500).certificate.primal
    assert stochastic <= 1.01 * values[0]


def test_norms_of_w_and_of_weights_convert_into_each_other():
    for r in (1.0, 1.05, 1.5, 1.99, 2.0):
        assert_allclose(group_norm(weight_norm(r)), r)
    from multikernel.problems.minmax import MinMaxProblem
    from multikernel.problems.weight_sets import LpBall
    from multikernel.solvers.mkl.closed_form import closed_form
    from multikernel.svm import CSVM

    # two classes and no bias: scores of the classes are ± f/2, so that kernels count half
    K, y = make_class_kernels(2)
    problem = ObscureProblem(DenseStack(K), MulticlassHinge(y, 2), 1.0 / 40, 1.25)
    signs = np.where(y == 1, 1.0, -1.0)
    svm = MinMaxProblem(DenseStack(2.0 * K), CSVM(signs, 1.0, bias=False), LpBall(weight_norm(1.25)), 1 << 30)
    monitor = Monitor(svm, 1e-7)
    closed_form(svm, monitor, max_iter=2000)
    value = run(sdca, problem, tol=1e-7, max_iter=2000).certificate.primal
    assert_allclose(value, monitor.certificate.primal / 40, rtol=1e-5)


@pytest.mark.parametrize("cost", [None, np.array([[0.0, 1.0, 3.0], [2.0, 0.0, 1.0], [1.0, 1.0, 0.0]])])
def test_the_best_length_of_a_solution_has_the_smallest_objective(cost):
    rng = np.random.default_rng(0)
    loss = MulticlassHinge(np.arange(30) % 3, 3, rng.random(30), cost)
    scores = rng.normal(size=(30, 3)) + 2.0 * np.eye(3)[loss.labels]
    best = loss.best_scale(scores, 0.3, 0.01)
    objective = [0.15 * t**2 + 0.01 * t + loss.value(t * scores) for t in best * np.linspace(0.0, 3.0, 301)]
    assert 0.15 * best**2 + 0.01 * best + loss.value(best * scores) <= min(objective) + 1e-12


# -- the score table -------------------------------------------------------------------------------------------


def naive_obscure(problem, orders, radius, online, eta=2.0, A=None):
    """Algorithms 1 and 2 as printed, θ_j as coefficients, everything recomputed at each step; and the mistakes."""
    K, y, q, lam = problem.stack.to_array(), problem.loss.labels, problem.q, problem.lam
    A = np.zeros((len(y), problem.loss.n_classes)) if A is None else A
    t, s, mistakes = 0, 0.0, 0
    for i in np.concatenate(orders):
        norms = np.sqrt([np.trace(A.T @ k @ A) for k in K])
        total = np.sum(norms**q) ** (1 / q)
        d = (norms / total) ** (q - 2) if total > 0 else np.ones(len(K))
        scores = sum(w * k[i] @ A for w, k in zip(d, K)) / q
        rival = max((r for r in range(A.shape[1]) if r != y[i]), key=lambda r: scores[r])
        mistakes += scores[rival] >= scores[y[i]]
        z = np.zeros_like(A)
        if 1 + scores[rival] - scores[y[i]] > 0:
            z[i, y[i]], z[i, rival] = 1.0, -1.0
        if online:
            A = A + eta * z
            continue
        t += 1
        length = np.sum([np.trace(z.T @ k @ z) ** (q / 2) for k in K]) ** (1 / q)
        distance = lam * t + s
        s += 0.5 * (np.sqrt(distance**2 + q * (lam / q * total + length) ** 2 / radius**2) - distance)
        step = q / (lam * t + s)
        A = (1 - lam * step / q) * A + step * z
        total = np.sum([np.trace(A.T @ k @ A) ** (q / 2) for k in K]) ** (1 / q)
        A = A * min(1.0, q * radius / total) if total > 0 else A
    return A, mistakes


@pytest.mark.parametrize("online", [True, False])
def test_score_table_takes_the_steps_of_the_paper(online):
    problem = make_problem(3, 1.5, 2.0, n=12)
    rng = np.random.default_rng(3)
    orders = [rng.permutation(12) for _ in range(4)]
    state = ScoreTable(problem)
    for order in orders:
        if online:
            state.online(order, 2.0)
        else:
            state.proximal(order, 1.5, state.lengths())
    expected, mistakes = naive_obscure(problem, orders, 1.5, online)
    assert_allclose(state.scale * state.coef, expected, atol=1e-12)
    K = problem.stack.to_array()
    assert_allclose(state.table, np.moveaxis(K @ state.coef, 2, 1), atol=1e-12)
    assert_allclose(state.squares, [np.trace(state.coef.T @ k @ state.coef) for k in K])
    assert state.mistakes == mistakes > 0


def naive_w(problem, A):
    """Weights and coefficients of the w that θ stands for, and the R that they prove, line 12 of algorithm 1."""
    K, q = problem.stack.to_array(), problem.q
    norms = np.sqrt([np.trace(A.T @ k @ A) for k in K])
    weights = (norms / np.sum(norms**q) ** (1 / q)) ** (q - 2)
    scores = sum(w * k @ A for w, k in zip(weights, K)) / q
    own = scores[np.arange(len(A)), problem.loss.labels]
    excess = 1 + scores - own[:, None]
    excess[np.arange(len(A)), problem.loss.labels] = 0.0
    length = np.sum((weights * norms / q) ** problem.p) ** (1 / problem.p)
    return weights, A / q, np.sqrt(length**2 + 2 / problem.lam * excess.max(axis=1).mean())


@pytest.mark.parametrize("p", [1.1, 1.5, 2.0])
@pytest.mark.parametrize("solve", [obscure_online, obscure_printed, pegasos])
def test_printed_algorithms_are_those_of_the_paper_step_by_step(solve, p):
    problem, rng = make_problem(3, p, 2.0, n=12, spread=0.5), np.random.default_rng(0)
    draws = [rng.integers(12, size=12) for _ in range(6)]
    if solve is obscure_online:
        theta, _ = naive_obscure(problem, draws, None, online=True)
    elif solve is pegasos:
        theta, _ = naive_obscure(problem, draws, np.inf, online=False)
    else:
        first, _ = naive_obscure(problem, draws[:3], None, online=True)
        radius = naive_w(problem, first)[2]
        theta, _ = naive_obscure(problem, draws[3:], radius, online=False, A=first)
    result = run(solve, problem, tol=1e-12, max_iter=6)
    weights, alpha, radius = naive_w(problem, theta)
    assert_allclose(result.weights, weights, rtol=1e-9)
    assert_allclose(result.alpha, alpha, atol=1e-11)
    assert_allclose(result.certificate.primal, problem.lam * radius**2 / 2, rtol=1e-9)


def test_the_online_stage_ends_when_no_sample_has_a_loss():
    problem = make_problem(3, 1.25, 10.0, spread=4.0)
    result = run(obscure_online, problem, tol=1e-12, max_iter=1000)
    assert problem.loss.value(problem.scores(result.weights, result.alpha)) == 0.0
    assert result.history[-1]["epoch"] < 1000


def test_a_scale_that_gets_tiny_is_multiplied_in():
    problem, order = make_problem(3, 1.5, 2.0, n=12), np.arange(12)
    usual, tiny = ScoreTable(problem), ScoreTable(problem)
    for state in (usual, tiny):
        state.proximal(order, 1.5, state.lengths())
    factor = 1.1e-100 / tiny.scale
    tiny.scale *= factor
    for array in (tiny.table, tiny.coef, tiny.scalars[tiny.compiled.NORM : tiny.compiled.NORM + 1]):
        array /= factor
    tiny.squares /= factor**2
    for state in (usual, tiny):
        state.proximal(order, 1.5, state.lengths())
    assert tiny.scale > 1e-10
    assert_allclose(tiny.scale * tiny.coef, usual.scale * usual.coef, rtol=1e-9)
    assert_allclose(tiny.scale**2 * tiny.squares, usual.scale**2 * usual.squares, rtol=1e-9)


def test_every_storage_takes_the_same_steps():
    rng = np.random.default_rng(0)
    y = np.arange(60) % 3
    X = rng.normal(size=(60, 4)) + rng.normal(size=(3, 4))[y]
    family = KernelFamily.fit([Linear(columns=[0, 1]), Linear(columns=[2, 3])], X)
    stacks = {
        "dense": DenseStack(family.evaluate(X)),
        "view": DenseStack(family.evaluate(np.vstack([X, X]))).take(np.arange(60), np.arange(60)),
        "lazy": LazyStack(family, X, memory=0),
        "cached": LazyStack(family, X, memory=20_000),
        "low rank": LowRankStack.from_family(family, X),
    }
    for solve in (obscure, pegasos, ufo, sdca):
        solutions = {}
        for name, stack in stacks.items():
            # so little memory that a lazy stack has to be read in many blocks
            memory = 1 << 30 if name in ("dense", "view") else 40_000
            problem = ObscureProblem(stack, MulticlassHinge(y, 3), 1.0 / 600, 1.25, memory=memory)
            until = {"tol": 4e-4, "max_iter": 200} if solve is sdca else {"tol": 1e-6, "max_iter": 25}
            solutions[name] = run(solve, problem, **until)
            assert solutions[name].converged or solve is not sdca
        for name in solutions:
            certificate, expected = solutions[name].certificate, solutions["dense"].certificate
            tolerance = 1e-3 if solve is sdca else 1e-9  # rows in blocks are another order of coordinates
            assert_allclose(certificate.primal, expected.primal, rtol=tolerance, err_msg=f"{name} {solve}")
            assert certificate.dual <= expected.primal


def test_float32_kernels_keep_a_double_precision_table():
    K, y = make_class_kernels(3)
    problems = [ObscureProblem(DenseStack(k), MulticlassHinge(y, 3), 0.01, 1.25) for k in (K, K.astype(np.float32))]
    values = [run(obscure, problem, max_iter=20).certificate.primal for problem in problems]
    assert_allclose(values[0], values[1], rtol=1e-4)


def test_the_same_seed_gives_the_same_solution_and_another_one_another():
    problem = make_problem()
    first, again = (run(obscure, problem, max_iter=10) for _ in range(2))
    assert np.array_equal(first.alpha, again.alpha)
    assert not np.array_equal(first.alpha, result_of(obscure, problem, 1e-3, None, random_state=1, max_iter=10).alpha)


@pytest.mark.parametrize("solve", [obscure, pegasos, ufo])
def test_sample_order_changes_the_outcome_no_more_than_the_seed(solve):
    K, y = make_class_kernels(3)
    shuffle = np.random.default_rng(5).permutation(len(y))

    def objectives(K, y):
        problem = ObscureProblem(DenseStack(K), MulticlassHinge(y, 3), 1.0 / 400, 1.25)
        values = []
        for seed in range(40):
            monitor = Monitor(problem, 1e-9)
            solve(problem, monitor, None, max_iter=8, random_state=seed)
            values.append(monitor.certificate.primal)
        return np.array(values)

    ours, theirs = objectives(K, y), objectives(K[:, shuffle][:, :, shuffle].copy(), y[shuffle])
    assert len(np.unique(ours)) > 20
    assert ks_2samp(ours, theirs).pvalue > 0.01  # the same distribution


def test_history_tells_epochs_updates_and_radius():
    problem = make_problem()
    result = run(obscure, problem, tol=1e-9, max_iter=50)
    rows = result.history
    assert rows[0]["stage"] == 1
    assert rows[-1]["epoch"] == 50
    assert all(b["updates"] >= a["updates"] for a, b in pairwise(rows))
    norm = np.sqrt(2 * run(sdca, problem, tol=1e-7, max_iter=500).certificate.dual / problem.lam)
    assert all(row["radius"] >= norm * (1 - 1e-9) for row in rows)  # a bound on ‖w*‖, by (10)
    assert all(b["radius"] <= a["radius"] for a, b in pairwise(rows))


def test_stage_1_separates_separable_data_and_stops():
    problem = make_problem(3, 1.25, 10.0, spread=4.0)
    state = ScoreTable(problem)
    epochs = online_stage(state, np.random.default_rng(0), 2.0, 1000)
    assert epochs < 1000
    scores = np.tensordot(state.weights, state.table, axes=1).T / problem.q
    assert problem.loss.value(scores) == 0.0
