"""Exactly t kernels: the proof by branch and bound, against brute force and against definitions."""

import heapq
import math
from itertools import combinations

import cvxpy as cp
import numpy as np
import pytest
from mkl_problems import make_kernels
from numpy.testing import assert_allclose
from references import conic_value, result_of
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.exceptions import ConvergenceWarning

from multikernel import CSKLClassifier
from multikernel.gram import DenseStack
from multikernel.kernels import RBF
from multikernel.problems.cskl import SelectionProblem
from multikernel.problems.weight_sets import CappedSimplex
from multikernel.runtime.monitor import Monitor
from multikernel.solvers.cskl.branch_and_bound import Branching, Cuts
from multikernel.solvers.cskl.exact import _Search, exact_selection
from multikernel.svm import CSVM, LabelSVMs, NuSVM


def solve_exactly(K, inner, t, tol=1e-6, **options):
    problem = SelectionProblem(DenseStack(K), inner, CappedSimplex(t), memory=1 << 30)
    return result_of(exact_selection, problem, tol, **options)


def digit_kernels(n_kernels=12, n=150):
    """RBF kernels on pairs of pixels, odd digits against even ones: each knows what no other does."""
    X, y = load_digits(return_X_y=True)
    X = X[:n][:, X[:n].std(axis=0) > 1.0]
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    rng, K = np.random.default_rng(1), []
    for j in range(n_kernels):
        x = X[:, rng.choice(X.shape[1], 2, replace=False)]
        K.append(np.exp(-((x[:, None] - x[None]) ** 2).sum(axis=2) / (0.5, 2.0, 8.0)[j % 3]))
    return np.stack(K), np.where(y[:n] % 2, 1.0, -1.0), 10.0


def brute_force(K, inner, t):
    """The least J over all choices of t kernels; a choice whose dual value is above it cannot have it."""
    rough, warm = {}, None
    for S in combinations(range(len(K)), t):
        value, warm = inner.solve(K[list(S)].sum(axis=0), warm, tol=1e-2)
        rough[S] = float(np.sum(value))
    best = (), math.inf
    for S in sorted(rough, key=rough.__getitem__):
        if rough[S] > best[1]:
            break
        value = float(np.sum(inner.solve(K[list(S)].sum(axis=0), tol=1e-10)[0]))
        best = min(best, (S, value), key=lambda item: item[1])
    return best


@pytest.fixture(scope="module")
def cancer():
    X, y = load_breast_cancer(return_X_y=True)
    X = (X - X.mean(0)) / X.std(0)
    return X[:200], y[:200], [RBF(columns=[j]) for j in range(10)]


@pytest.mark.parametrize("inner", ["C", "nu", "labels"])
@pytest.mark.parametrize("t", [1, 3, 5])
def test_exact_selection_is_that_of_brute_force(inner, t):
    K, signs, C = make_kernels(n_kernels=7, n=30)
    svm = {
        "C": CSVM(signs, C),
        "nu": NuSVM(signs, 0.4),
        "labels": LabelSVMs(np.column_stack([signs, np.roll(signs, 3)]), C),
    }[inner]
    members, value = brute_force(K, svm, t)
    result = solve_exactly(K, svm, t)
    assert result.converged
    assert_allclose(result.certificate.primal, value, rtol=2e-6)
    assert tuple(np.flatnonzero(result.weights)) == members


@pytest.mark.parametrize("t", [1, 3, 6, 11])
@pytest.mark.parametrize("inner", ["C", "nu"])
def test_exact_selection_out_of_twelve_is_that_of_brute_force(inner, t):
    K, signs, C = make_kernels(n_kernels=12, n=24)
    svm = CSVM(signs, C) if inner == "C" else NuSVM(signs, 0.4)
    members, value = brute_force(K, svm, t)
    result = solve_exactly(K, svm, t)
    assert result.converged
    assert_allclose(result.certificate.primal, value, rtol=1e-6)
    assert tuple(np.flatnonzero(result.weights)) == members


def test_the_best_of_kernels_with_a_loose_relaxation_is_that_of_brute_force():
    K, signs, C = digit_kernels()
    members, value = brute_force(K, CSVM(signs, C), 4)
    result = solve_exactly(K, CSVM(signs, C), 4)
    assert result.converged
    assert_allclose(result.certificate.primal, value, rtol=1e-6)
    assert tuple(np.flatnonzero(result.weights)) == members
    assert result.history[-1]["branches"] > 20


@pytest.mark.parametrize("noise", [0.0, 1e-7, 1e-2])
def test_kernels_that_are_alike_do_not_mislead_the_search(noise):
    K, signs, C = make_kernels(n_kernels=4, n=24)
    rng = np.random.default_rng(0)
    G = rng.normal(size=(12, 24, 2))
    K = np.tile(K, (3, 1, 1)) + noise * G @ G.transpose(0, 2, 1)  # three of each
    for t in (2, 4):
        _, value = brute_force(K, CSVM(signs, C), t)
        result = solve_exactly(K, CSVM(signs, C), t)
        assert result.converged
        assert result.certificate.dual <= value * (1.0 + 1e-9)
        assert_allclose(result.certificate.primal, value, rtol=1e-6)


def test_branches_hold_their_bounds():
    K, signs, C = digit_kernels(n_kernels=10)
    svm = CSVM(signs, C)
    problem = SelectionProblem(DenseStack(K), svm, CappedSimplex(4), memory=1 << 30)
    search = _Search(problem, Monitor(problem, 1e-4))
    search.relax(None)
    master = Branching(search)
    master.begin()
    best = brute_force(K, svm, 4)[1]
    values = {S: svm.solve(K[list(S)].sum(axis=0), tol=1e-8)[0] for S in combinations(range(10), 4)}
    n_seen = 0
    while master.open:
        master._split(heapq.heappop(master.open)[2])
        assert master.least <= best * (1.0 + 1e-9)
        for bound, _, branch in master.open:
            inside, possible = set(branch.inside.tolist()), {*branch.inside.tolist(), *branch.free.tolist()}
            least = min(value for S, value in values.items() if inside <= set(S) <= possible)
            assert bound <= least * (1.0 + 1e-7)
            assert search.bound(branch.inside, branch.free) <= least * (1.0 + 1e-7)
            assert_allclose(branch.weights.sum(), 4.0)
            assert_allclose(branch.weights[branch.inside], 1.0)
            n_seen += 1
    assert n_seen > 10
    assert_allclose(search.value, best, rtol=1e-5)


@pytest.mark.parametrize("rows", [6, 12, 25])
def test_a_proof_cut_short_keeps_a_bound_that_holds(rows, monkeypatch):
    monkeypatch.setattr("multikernel.solvers.cskl.exact.WORK", 1)  # the monitor looks at every SVM
    K, signs, C = digit_kernels()
    best = solve_exactly(K, CSVM(signs, C), 4).certificate.primal
    problem = SelectionProblem(DenseStack(K), CSVM(signs, C), CappedSimplex(4), memory=1 << 30)
    monitor = Monitor(problem, 1e-6, on_record=lambda row, _: row["iteration"] >= rows)
    exact_selection(problem, monitor)
    result = monitor.result()
    assert result.stopped == "callback"
    assert len(np.flatnonzero(result.weights)) == 4
    assert result.certificate.dual <= best * (1.0 + 1e-9)
    assert best <= result.certificate.primal * (1.0 + 1e-6)
    assert result.certificate.gap > 1e-3 * best


@pytest.mark.parametrize("forged", [False, True])
def test_a_proof_goes_on_from_alphas_whatever_else_is_said_of_them(forged, monkeypatch):
    monkeypatch.setattr("multikernel.solvers.cskl.exact.WORK", 1)
    K, signs, C = digit_kernels()
    straight = solve_exactly(K, CSVM(signs, C), 4)
    problem = SelectionProblem(DenseStack(K), CSVM(signs, C), CappedSimplex(4), memory=1 << 30)
    first = Monitor(problem, 1e-6, on_record=lambda row, _: row["iteration"] >= 40)
    first.resumable = True
    exact_selection(problem, first)
    kept, rng = first.keep(), np.random.default_rng(0)
    if forged:  # alphas of other branches, split at kernels that they may not even have
        order = rng.permutation(len(kept["alphas"]))
        kept |= {"alphas": kept["alphas"][order], "pivots": rng.integers(-3, 15, size=len(order)).astype(float)}
    second = Monitor(problem, 1e-6)
    second.resume(first.current, first.best, first.proof, [], 0.0)
    second.kept = kept
    exact_selection(problem, second)
    result = second.result()
    assert result.converged
    assert_allclose(result.certificate.primal, straight.certificate.primal, rtol=1e-6)
    assert result.certificate.dual <= straight.certificate.primal * (1.0 + 1e-9)
    assert result.n_iter < 0.8 * straight.n_iter or forged


def test_max_time_ends_a_long_proof(fake_clock):
    K, signs, C = digit_kernels(n_kernels=40, n=300)
    fake_clock.jump_in(Branching, "_split", call=20)
    model = CSKLClassifier("precomputed", t=8, C=C, exact=True, max_time=100.0)
    with pytest.warns(ConvergenceWarning, match="max_time"):
        model.fit(np.moveaxis(K, 0, -1), signs)
    assert model.n_kernels_ == 8
    assert 0.0 < model.selection_gap_ < model.objective_


def test_the_least_point_of_a_quadratic_model_agrees_with_a_conic_solver():
    rng = np.random.default_rng(3)
    for total in (1.0, 2.0, 5.0):
        A = rng.normal(size=(7, 7))
        H, gradient, about = A @ A.T, rng.normal(size=7), CappedSimplex(total).project(rng.uniform(size=7))
        h = cp.Variable(7)
        model = gradient @ (h - about) + 0.5 * cp.quad_form(h - about, H)
        optimum = conic_value(cp.Problem(cp.Minimize(model), [h >= 0, h <= 1, cp.sum(h) == total]))
        found = CappedSimplex(total).roughly_least_point(H, gradient, about)
        assert_allclose(found.sum(), total)
        assert ((found >= 0.0) & (found <= 1.0)).all()
        assert_allclose(gradient @ (found - about) + 0.5 * (found - about) @ H @ (found - about), optimum, atol=1e-4)


@pytest.mark.parametrize("shrinks", [True, False])
def test_cuts_bound_every_choice_of_a_branch_and_are_the_best_of_their_kind(shrinks, monkeypatch):
    monkeypatch.setattr("multikernel.solvers.cskl.branch_and_bound.MOST_CUTS", 4)
    K, signs, C = make_kernels(n_kernels=7, n=30)
    svm = CSVM(signs, C) if shrinks else NuSVM(signs, 0.4)
    problem = SelectionProblem(DenseStack(K), svm, CappedSimplex(3), memory=1 << 30)
    assert problem.shrinks is shrinks
    rng, cuts, latest = np.random.default_rng(0), Cuts(7, 3, shrinks), []
    for _ in range(6):
        latest.append(problem.cut(problem.solve_inner(rng.uniform(size=7), None, 1e-8)[1]))
        cuts.add(*latest[-1])
    choices = list(combinations(range(7), 3))
    for n_inside in range(4):
        members = rng.permutation(7)
        inside, free = members[:n_inside], members[n_inside : 5 if n_inside < 3 else 3]
        within = [S for S in choices if set(inside) <= set(S) <= {*inside, *free}]
        bound = cuts.bound(inside, free, np.inf)
        # of each cut its worst choice, and of these the best
        assert_allclose(bound, max(min(problem.bound(c, q[list(S)].sum()) for S in within) for c, q in latest[-4:]))
        assert bound <= min(svm.solve(K[list(S)].sum(axis=0), tol=1e-10)[0] for S in within) + 1e-9


def test_an_exact_fit_without_time_is_honest(cancer):
    X, y, kernels = cancer
    with pytest.warns(ConvergenceWarning, match="max_time"):
        model = CSKLClassifier(kernels, t=4, C=10.0, exact=True, max_time=1e-3).fit(X, y)
    assert model.n_kernels_ == 4
    assert not model.converged_
    best = CSKLClassifier(kernels, t=4, C=10.0, exact=True).fit(X, y)
    assert best.selection_gap_ <= 1e-3 * best.objective_
    assert model.objective_ - model.selection_gap_ <= best.objective_ <= model.objective_ * (1 + 1e-9)
