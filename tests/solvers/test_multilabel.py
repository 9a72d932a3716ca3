"""The worst of many labels and their sum: against brackets of the optimum, by enumeration, all along."""

import tracemalloc
from functools import cache

import numpy as np
import pytest
from numpy.testing import assert_allclose
from references import minmax_bracket, result_of, worst_label_bracket
from scipy.optimize import minimize

from multikernel.gram import DenseStack
from multikernel.problems.minmax import MinMaxProblem
from multikernel.problems.multilabel import LabelSumProblem, WorstLabelProblem, near_the_largest
from multikernel.problems.weight_sets import LpBall
from multikernel.runtime.monitor import Monitor
from multikernel.solvers.catalogue import find_solver
from multikernel.solvers.common.newton import newton
from multikernel.solvers.mkl.closed_form import closed_form
from multikernel.solvers.mkl.cutting_planes import level_method, silp
from multikernel.solvers.multilabel.level import MOST_CUTS, LabelCuts, label_level, without_smallest
from multikernel.solvers.multilabel.sa import (
    LabelTable,
    MovingKernel,
    label_sa,
    label_sa_vr,
    paper_estimates,
    smoothed,
)
from multikernel.solvers.printed.multilabel import label_mirror_prox, subgradient
from multikernel.svm import CSVM, LabelSVMs
from multikernel.svm.quadratic_program import kernel_times

C = 2.0
# points of the simplex of three kernels
GRID_3 = [np.array([a, b, 5 - a - b]) / 5 for a in range(6) for b in range(6 - a)]


def make_labels(n_labels=4, n_kernels=4, n=30, missing=0.1, seed=0):
    """Gram matrices (F, n, n) and signs (n, M), some of them missing."""
    rng = np.random.default_rng(seed)
    parts = rng.normal(size=(n_kernels, n, 3))
    K = parts @ parts.transpose(0, 2, 1) / 3 + 0.1 * np.eye(n)
    mix = rng.dirichlet(np.ones(n_kernels), size=n_labels)
    target = np.einsum("kf,fn->nk", mix, parts[:, :, 0]) + 0.3 * rng.normal(size=(n, n_labels))
    signs = np.where(target > 0, 1.0, -1.0)
    signs[rng.uniform(size=signs.shape) < missing] = 0.0
    return K, signs


def worst(K, signs, bias=False, dtype=np.float64):
    return WorstLabelProblem(DenseStack(K.astype(dtype)), LabelSVMs(signs, C, bias=bias), memory=1 << 28)


CERTIFIED = {
    "sa-vr": (label_sa_vr, {"random_state": 0}),
    "mirror-prox": (label_mirror_prox, {}),
    "level": (label_level, {}),
}


@cache
def optimum(bias=False, **options):
    """Bracket of the worst label's optimum."""
    problem = worst(*make_labels(**options), bias)
    return worst_label_bracket(problem, result_of(label_level, problem, 1e-9))


@pytest.mark.parametrize("name", CERTIFIED)
@pytest.mark.parametrize("bias", [False, True])
def test_certified_solvers_reach_the_optimum_of_the_worst_label(name, bias):
    solver, options = CERTIFIED[name]
    result = result_of(solver, worst(*make_labels(), bias), 1e-3, **options)
    assert result.converged
    optimum(bias).proves(result.certificate, 1e-3)
    assert abs(result.weights.sum() - 1.0) < 1e-9
    assert result.weights.min() >= 0.0


def test_the_paper_s_algorithm_comes_within_a_percent():
    small = {"n_labels": 3, "n_kernels": 3, "n": 24}
    result = result_of(label_sa, worst(*make_labels(**small)), 1e-4, max_iter=4000, random_state=0)
    optimum(**small).proves(result.certificate, 0.01)


def test_the_paper_s_stop_rule_ends_when_averages_settle_and_proves_nothing():
    problem = worst(*make_labels(n_labels=3, n_kernels=3, n=24))
    result = result_of(label_sa, problem, 1e-9, max_iter=4000, random_state=0, stop="change")
    (row,) = result.history
    assert row["svms"] < 4000
    assert row["svms"] % 3 == 0
    assert result.stopped == "settled"
    assert not result.converged
    # averages a pass over the labels apart, from shorter runs of the same course
    last, before = (
        result_of(label_sa, problem, 1e-9, max_iter=row["svms"] - k, random_state=0).history[-1]["weights"]
        for k in (0, 3)
    )
    assert_allclose(result.weights, last)
    assert 0.0 < np.abs(last - before).sum() <= 0.01


def box_svm(K, y):
    """alpha, value and q of the SVM without a bias of the samples that have the label, by L-BFGS-B."""
    has, Q = y != 0, K * np.outer(y, y)
    found = minimize(
        lambda a: (0.5 * a @ Q @ a - a.sum(), Q @ a - 1.0), has * 0.5, jac=True, bounds=[(0.0, C * h) for h in has],
        options={"ftol": 1e-15, "gtol": 1e-10, "maxiter": 5000},
    )  # fmt: skip
    return found.x, -found.fun


def algorithm_1(K, signs, seed, n_steps, eta_p, eta_gamma, delta):
    """[BJJ10, alg. 1], its slips mended: the averages of p and γ after each SVM."""
    rng, (s, m) = np.random.RandomState(seed), (len(K), signs.shape[1])
    p, gamma, means = np.full(s, 1 / s), np.full(m, 1 / m), []
    ps, gammas = [], []
    for _ in range(n_steps):
        chances = (1 - delta) * gamma + delta / m
        j = rng.choice(m, p=chances)
        alpha, value = box_svm(np.tensordot(p, K, axes=1), signs[:, j])
        ps.append(p)
        gammas.append(gamma)
        means.append((np.mean(ps, axis=0), np.mean(gammas, axis=0)))
        signed = alpha * signs[:, j]
        p = p * np.exp(eta_p * 0.5 * np.array([signed @ k @ signed for k in K]))
        gamma = gamma * np.exp(eta_gamma * value / chances[j] * (np.arange(m) == j))
        p, gamma = p / p.sum(), gamma / gamma.sum()
    return means


def test_the_printed_algorithm_is_that_of_the_paper_step_by_step():
    K, signs = make_labels(n_labels=3, n_kernels=3, n=24)
    means = algorithm_1(K, signs, seed=3, n_steps=25, eta_p=0.02, eta_gamma=0.005, delta=0.2)
    printed = find_solver("multilabel max", "sa-printed").run
    for svms in (1, 2, 10, 25):
        options = {"eta": (0.02, 0.005), "delta": 0.2, "max_iter": svms}
        (row,) = result_of(printed, worst(K, signs), 1e-9, random_state=3, **options).history
        assert row["svms"] == svms  # and none for judging on the way
        p, gamma = means[svms - 1]
        assert_allclose(row["weights"], p, atol=1e-5)
        assert_allclose(row["label_weights"], gamma, atol=1e-5)


def test_the_printed_stop_fires_at_the_second_svm_with_the_paper_s_steps():
    problem = worst(*make_labels(n_labels=3, n_kernels=3, n=24))
    printed = find_solver("multilabel max", "sa-printed").run
    result = result_of(printed, problem, 1e-9, random_state=0, eta=1e-3, stop="change")
    assert [row["svms"] for row in result.history] == [2]
    assert result.stopped == "settled"
    assert not result.converged


def theorem_1(n, m, s, T, eta, delta, largest):
    """The bound of [BJJ10, theorem 1] on the mean of Δ, its constant d set to one; ``largest`` is λ_0."""
    spread = m**2 / (2 * delta**2) * largest**2 * n**2 * C**4 + n**2 * C**2
    return (np.log(m) + np.log(s)) / (eta * T) + eta * spread


def corollary_1(n, m, s, T, largest):
    """The bound of [BJJ10, corollary 1]: that of theorem 1 with its η and its δ, which is above one."""
    return theorem_1(n, m, s, T, corollary_step(n, m, T), m ** (2 / 3), largest)


def corollary_step(n, m, T):
    return m ** (-1 / 3) / n * np.sqrt(np.log(m) / T)


def best_step(n, m, s, T, delta, largest):
    """η with the least bound of theorem 1."""
    return np.sqrt((np.log(m) + np.log(s)) / (T * theorem_1(n, m, s, np.inf, 1.0, delta, largest)))


def test_corollary_1_follows_from_theorem_1_for_no_smoothing_that_is_one():
    """Like m^(1/3) for δ = m^(2/3); for δ ≤ 1, whatever the step, at least like m."""
    n, s, T, largest = 24, 3, 60, 5.0

    def growth(bound):  # exponent of m, a factor sqrt(ln m) aside; where all else is small beside it
        few, many = (bound(m) / np.sqrt(np.log(m)) for m in (10**9, 10**12))
        return np.log(many / few) / np.log(10**3)

    def best(delta):
        return lambda m: theorem_1(n, m, s, T, best_step(n, m, s, T, delta(m), largest), delta(m), largest)

    assert_allclose(growth(lambda m: corollary_1(n, m, s, T, largest)), 1 / 3, atol=0.01)
    assert_allclose(growth(best(lambda m: 1.0)), 1.0, atol=0.01)
    assert_allclose(growth(best(lambda m: m ** (-1 / 3))), 4 / 3, atol=0.01)


@pytest.mark.parametrize("steps", ["best", "corollary"])
def test_theorem_1_and_corollary_1_bound_the_mean_distance_by_far(steps):
    """With δ = m^(-1/3) and the best step for T, and with the corollary's step and δ = 1, its own being none."""
    K, signs = make_labels(n_labels=3, n_kernels=3, n=24, missing=0.0)
    n, m, s, T, delta = 24, 3, 3, 60, 1.0 if steps == "corollary" else 3 ** (-1 / 3)
    largest = max(np.linalg.eigvalsh(k)[-1] for k in K)
    eta, bound = corollary_step(n, m, T), corollary_1(n, m, s, T, largest)
    if steps == "best":
        eta = best_step(n, m, s, T, delta, largest)
        bound = theorem_1(n, m, s, T, eta, delta, largest)
    problem, distances = worst(K, signs), []
    printed = find_solver("multilabel max", "sa-printed").run
    for seed in range(2):
        options = {"eta": float(eta), "delta": float(delta), "max_iter": T, "random_state": seed}
        result = result_of(printed, problem, 1e-12, **options)
        gamma = result.history[-1]["label_weights"]
        values = [sum(g * box_svm(np.tensordot(p, K, axes=1), y)[1] for g, y in zip(gamma, signs.T)) for p in GRID_3]
        distances.append(result.certificate.primal - min(values))
    assert 0.0 < np.mean(distances) <= bound


@pytest.mark.parametrize("name", ["level", "sa-vr"])
def test_many_labels_are_looked_at_rarely(name):
    solver, options = CERTIFIED[name]
    problem, passes = worst(*make_labels(n_labels=30, n_kernels=6, n=40, missing=0.0)), []
    refine = problem.refine
    problem.refine = lambda p, alpha, tol: passes.append(0) or refine(p, alpha, tol)
    result = result_of(solver, problem, 1e-3, **options)
    assert result.converged
    assert len(passes) == len(result.history) <= 12


def test_labels_far_from_the_worst_are_not_needed_for_the_bound():
    K, signs = make_labels(n_labels=6, missing=0.0)
    signs[8:, 3:] = 0.0  # labels with few samples are easy
    problem, p = worst(K, signs), np.full(4, 0.25)
    alpha = problem.solve_labels(p, problem.start()[1], np.arange(6), np.full(6, 1e-9))
    near = problem.contenders(p, alpha)
    values = problem.label_bounds(p, alpha)[1]
    assert 0 < len(near) < 6
    assert values[near].min() >= 0.9 * values.max() > np.delete(values, near).max()
    proof = problem.certificate(p, alpha)
    assert (problem._table[:, np.delete(np.arange(6), near)] == 0.0).all()  # never computed
    assert proof.dual <= problem.lower_bound(alpha) + 1e-9
    assert_allclose(problem.label_weights(alpha, near)[near].sum(), 1.0)


def label_sum():
    K, signs = make_labels()
    return LabelSumProblem(DenseStack(K), LabelSVMs(signs, C, bias=False), memory=1 << 28)


@cache
def sum_optimum():
    problem = label_sum()
    return minmax_bracket(problem, result_of(newton, problem, 1e-9))


@pytest.mark.parametrize("solver", [newton, silp, level_method])
def test_exact_solvers_reach_the_optimum_of_the_sum(solver):
    sum_optimum().proves(result_of(solver, label_sum(), 1e-7).certificate, 1e-6)


@pytest.mark.parametrize("solver", [closed_form, subgradient])
def test_simple_solvers_come_close_to_the_sum(solver):
    result = result_of(solver, label_sum(), 1e-2, max_iter=400)
    assert result.converged
    sum_optimum().proves(result.certificate, 1e-2)


def test_the_sum_s_bounds_are_those_of_the_general_problem():
    K, signs = make_labels()
    inner = LabelSVMs(signs, C, bias=False)
    lean, plain = (
        LabelSumProblem(DenseStack(K), inner, 1 << 28),
        MinMaxProblem(DenseStack(K), inner, LpBall(1.0), 1 << 28),
    )
    weights = np.array([0.1, 0.4, 0.2, 0.3])
    _, alpha = plain.solve_inner(weights, None, 1e-2)
    assert_allclose(lean.quadratic_forms(alpha), plain.quadratic_forms(alpha))
    a, b = lean.certificate(weights, alpha), plain.certificate(weights, alpha)
    assert_allclose([a.primal, a.dual], [b.primal, b.dual])


@pytest.mark.parametrize("name", [*CERTIFIED, "sa"])
def test_bounds_bracket_the_optimum_at_every_iteration(name):
    best = optimum(seed=1)
    solver, options = CERTIFIED.get(name, (label_sa, {"random_state": 1, "max_iter": 400}))
    problem, seen = worst(*make_labels(seed=1)), []
    judge = problem.certificate
    problem.certificate = lambda p, alpha: seen.append(judge(p, alpha)) or seen[-1]
    result = result_of(solver, problem, 1e-4, **{"max_iter": 60, **options})
    assert len(seen) >= 3
    for proof in seen:
        assert proof.dual <= best.upper
        assert proof.primal >= best.lower
    for row in result.history:  # with bounds proved by other means
        assert row["objective"] - row["gap"] <= best.upper


@pytest.mark.parametrize("name", ["sum newton", "sum silp", "max level", "max sa-vr"])
def test_memory_does_not_grow_by_a_table_of_scores_for_each_kernel(name, monkeypatch):
    for module in ("multikernel.problems.multilabel", "multikernel.gram.base"):
        monkeypatch.setattr(f"{module}.BLOCK_BYTES", 1 << 16)  # blocks are a constant: too large to see past them
    objective, solver = name.split()
    function, options = (
        find_solver(f"multilabel {objective}", solver).run,
        {"random_state": 0} if "sa" in solver else {},
    )
    kind, n, M = LabelSumProblem if objective == "sum" else WorstLabelProblem, 120, 60

    def peak(n_kernels):
        K, signs = make_labels(M, n_kernels, n)
        problem = kind(DenseStack(K), LabelSVMs(signs, C, bias=False), memory=1 << 28)
        result_of(function, problem, 1e-3, max_iter=3, **options)  # what is compiled and kept is off the count
        tracemalloc.start()
        result_of(function, kind(problem.stack, problem.inner, memory=1 << 28), 1e-3, max_iter=3, **options)
        found = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return found

    table = 8 * n * M
    assert peak(40) - peak(10) < 0.5 * 30 * table
    assert peak(40) < 8 * n * n * 8 + 20 * table < 40 * table


@pytest.mark.parametrize("block", [1 << 12, 1 << 25])
def test_scores_and_forms_do_not_depend_on_the_size_of_blocks(block, monkeypatch):
    K, signs = make_labels(n_labels=7)
    lean = LabelSumProblem(DenseStack(K), LabelSVMs(signs, C, bias=False), 1 << 28)
    alpha = np.random.default_rng(0).normal(size=signs.shape)
    monkeypatch.setattr("multikernel.problems.multilabel.BLOCK_BYTES", block)
    assert_allclose(lean.quadratic_forms(alpha), np.einsum("nk,fnm,mk->f", alpha, K, alpha))
    chosen = np.array([3, 1])
    by_label = list(lean.scores_by_label(alpha, chosen))
    assert_allclose(np.stack(by_label, axis=-1), K[chosen] @ alpha)


def gradients(problem, p, gamma):
    """Exact gradients of the saddle function, and the cuts behind them."""
    labels = np.arange(problem.n_labels)
    alpha = problem.solve_labels(p, problem.start()[1], labels, np.full(len(labels), 1e-10))
    linear, forms = problem.cuts(alpha, rounded=False)
    return -0.5 * forms @ gamma, linear - 0.5 * p @ forms, linear, forms


@pytest.mark.parametrize("delta", [0.2, 0.7])
def test_both_estimates_are_unbiased_whatever_is_remembered(delta):
    rng = np.random.default_rng(3)
    problem = worst(*make_labels())
    p, gamma = rng.dirichlet(np.ones(4)), rng.dirichlet(np.ones(4))
    in_p, in_gamma, linear, forms = gradients(problem, p, gamma)
    chances = smoothed(gamma, delta)
    table = LabelTable(rng.uniform(0, 50, size=4), rng.uniform(0, 50, size=(4, 4)))
    paper, remembered = [], []
    for j in range(4):
        paper.append(paper_estimates(j, gamma, chances, in_gamma[j], forms[:, j]))
        remembered.append(table.estimates(j, p, gamma, chances, linear[j], forms[:, j]))
    for estimates in (paper, remembered):
        assert_allclose(sum(c * e[0] for c, e in zip(chances, estimates)), in_p, rtol=1e-10)
        assert_allclose(sum(c * e[1] for c, e in zip(chances, estimates)), in_gamma, rtol=1e-10)


def test_a_true_memory_leaves_no_noise():
    problem = worst(*make_labels())
    p, gamma = np.full(4, 0.25), np.array([0.1, 0.2, 0.3, 0.4])
    in_p, in_gamma, linear, forms = gradients(problem, p, gamma)
    table = LabelTable(linear, forms)
    for j in range(4):
        a, b = table.estimates(j, p, gamma, smoothed(gamma, 0.2), linear[j], forms[:, j])
        assert_allclose(a, in_p)
        assert_allclose(b, in_gamma)


@pytest.mark.parametrize("name", CERTIFIED)
def test_one_label_is_multiple_kernel_learning(name):
    K, signs = make_labels(n_labels=1)
    solver, options = CERTIFIED[name]
    result = result_of(solver, worst(K, signs), 1e-4, **options)
    plain = MinMaxProblem(DenseStack(K), CSVM(signs[:, 0], C, bias=False), LpBall(1.0), 1 << 28)
    assert_allclose(result.certificate.primal, result_of(newton, plain, 1e-7).certificate.primal, rtol=1e-4)


def test_label_weights_prove_the_bound():
    problem = worst(*make_labels())
    p = np.full(4, 0.25)
    _, _, linear, forms = gradients(problem, p, p)
    alpha = problem._alpha
    gamma = problem.label_weights(alpha)
    assert_allclose(gamma.sum(), 1.0)
    assert_allclose(gamma @ linear - 0.5 * (forms @ gamma).max(), problem.lower_bound(alpha))
    for other in np.random.default_rng(0).dirichlet(np.ones(4), size=50):
        assert other @ linear - 0.5 * (forms @ other).max() <= problem.lower_bound(alpha) + 1e-9


def test_refining_finds_the_worst_value_without_solving_every_label():
    K, signs = make_labels(n_labels=8, missing=0.0)
    signs[10:, 4:] = 0.0  # labels with few samples are easy
    problem = worst(K, signs)
    p, labels = np.full(4, 0.25), np.arange(8)
    exact = problem.solve_labels(p, problem.start()[1], labels, np.full(8, 1e-10))
    rough = problem.solve_labels(p, problem.start()[1], labels, np.full(8, 0.2))
    refined = problem.refine(p, rough, 1e-6)
    assert_allclose(problem.certificate(p, refined).primal, problem.label_bounds(p, exact)[1].max(), rtol=1e-5)
    assert (refined[:, 4:] == rough[:, 4:]).all()


def test_remembered_forms_are_those_of_the_kernels():
    K, signs = make_labels()
    problem, rng = worst(K, signs), np.random.default_rng(0)
    alpha = rng.normal(size=signs.shape)
    for change in ([0, 1, 2, 3], [2], [1, 3]):
        alpha[:, change] += rng.normal(size=(30, len(change)))
        assert_allclose(problem.cuts(alpha, rounded=False)[1], np.einsum("nk,fnm,mk->fk", alpha, K, alpha))


def test_the_kernel_is_made_anew_only_when_weights_have_moved():
    problem = worst(*make_labels())
    kernel = MovingKernel(problem, refresh=0.1)
    first = kernel.at(np.full(4, 0.25))
    assert kernel.at(np.array([0.26, 0.25, 0.25, 0.24])) is first
    assert kernel.made == 1
    kernel.at(np.array([0.5, 0.2, 0.2, 0.1]))
    assert kernel.made == 2


def test_single_precision_and_operators_give_the_same_scores():
    K, signs = make_labels()
    alpha = np.random.default_rng(0).normal(size=signs.shape)
    assert_allclose(kernel_times(K[0].astype(np.float32), alpha), K[0] @ alpha, rtol=1e-4, atol=1e-4)
    weights = np.full(4, 0.25)
    streamed = WorstLabelProblem(DenseStack(K), LabelSVMs(signs, C, bias=False), memory=0)
    assert not isinstance(streamed.kernel(weights), np.ndarray)
    assert_allclose(streamed._products(weights, alpha)[0], K.mean(axis=0) @ alpha)


def test_old_cuts_are_forgotten_but_those_that_count():
    cuts, rng = LabelCuts(3), np.random.default_rng(0)
    cuts.add_of(7, 100.0, np.array([1.0, 2.0, 3.0]))  # carries the bound
    for _ in range(2 * MOST_CUTS):
        cuts.add_of(int(rng.integers(5)), 1.0, rng.uniform(size=3))
    _, before = cuts.solve()
    assert len(cuts) < 2 * MOST_CUTS
    assert 7 in cuts.owners
    assert_allclose(cuts.solve()[1], before)


def unbounded(n=30):
    """Labels of which some samples weigh so much that the rounding of their scores is all of the objective."""
    K, signs = make_labels(n=n)
    heavy = 10.0 ** (50.0 * np.random.default_rng(0).integers(0, 2, size=n))
    return WorstLabelProblem(DenseStack(K), LabelSVMs(signs, 1.0, sample_weight=heavy), memory=1 << 30)


def test_labels_are_solved_to_no_less_than_the_tolerance_asked_for(monkeypatch):
    problem = unbounded()
    weights, alpha = problem.start()
    alpha = problem.solve_labels(weights, alpha, np.arange(4), np.full(4, 0.1))
    asked = []
    plain = problem.solve_labels
    monkeypatch.setattr(problem, "solve_labels", lambda *args: asked.append(args[3].min()) or plain(*args))
    problem.refine(weights, alpha, 1e-4)
    assert all(tol >= 1e-4 for tol in asked)


def test_the_level_method_stops_where_no_look_at_the_labels_moves_the_gap():
    rng = np.random.default_rng(0)
    X, signs = rng.normal(size=(40, 3)), rng.choice([-1.0, 1.0], size=(40, 3))
    K = np.exp(-np.array([0.1, 1.0, 10.0])[:, None, None] * ((X[:, None] - X[None]) ** 2).sum(-1))
    heavy = 10.0 ** (50.0 * rng.integers(0, 2, size=40))
    svms = LabelSVMs(signs, 1.0, sample_weight=heavy, bias=False)
    monitor = Monitor(WorstLabelProblem(DenseStack(K), svms, memory=1 << 30), tol=1e-3)
    label_level(monitor.problem, monitor, max_iter=100)
    assert len(monitor.history) <= 20


def test_values_near_the_largest_are_found_whatever_their_sign():
    assert near_the_largest(np.array([1.0, 10.0, 9.5])).tolist() == [1, 2]
    assert near_the_largest(np.array([-1.0, -2.0])).tolist() == [0]


def test_the_smallest_weights_are_left_out_and_the_others_scaled():
    assert_allclose(without_smallest(np.array([0.5, 0.04, 0.46]), 0.05), [0.5 / 0.96, 0.0, 0.46 / 0.96])
