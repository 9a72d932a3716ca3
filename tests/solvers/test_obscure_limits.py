"""The primal family at its limits: w = 0 is best, nothing to separate, two samples, stops and resumptions."""

import warnings
from itertools import pairwise

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from references import result_of
from sklearn.exceptions import ConvergenceWarning

from multikernel import ObscureClassifier, UFOMKLClassifier
from multikernel.gram import DenseStack
from multikernel.kernels import RBF, KernelFamily, Linear
from multikernel.problems.obscure import MulticlassHinge, ObscureProblem
from multikernel.solvers.obscure.obscure import obscure
from multikernel.solvers.obscure.sdca import sdca
from multikernel.solvers.printed.obscure import pegasos
from multikernel.solvers.ufo import ufo

ALL = [obscure, pegasos, ufo, sdca]
PROVING = [obscure, ufo, sdca]  # Pegasos as printed has neither a line search nor averages


def contradictory(n_classes, n_points=10):
    """Every point comes with every label, so that nothing can be learnt and w = 0 is best."""
    rng = np.random.default_rng(0)
    kernels = []
    for _ in range(3):
        X = np.repeat(rng.normal(size=(n_points, 3)), n_classes, axis=0)
        D = ((X[:, None] - X) ** 2).sum(-1)
        kernels.append(np.exp(-D / D.mean()))
    return np.stack(kernels), np.tile(np.arange(n_classes), n_points)


def solved(solve, K, y, C=1.0, p=1.25, tol=1e-2, weight=None, cost=None, **options):
    loss = MulticlassHinge(y, int(y.max()) + 1, weight, cost)
    problem = ObscureProblem(DenseStack(K), loss, 1.0 / (C * loss.total_weight), p)
    return result_of(solve, problem, tol, None, random_state=0, **{"max_iter": 2000, **options}), problem


@pytest.mark.parametrize("solve", PROVING)
@pytest.mark.parametrize("n_classes", [2, 3])
def test_a_solution_of_zero_is_proved(solve, n_classes):
    K, y = contradictory(n_classes)
    result, _ = solved(solve, K, y)
    assert result.converged
    assert_allclose(result.certificate.primal, 1.0, atol=1e-2)  # the tolerance that was asked for
    assert result.certificate.dual <= 1.0 + 1e-12


@pytest.mark.parametrize("solve", [obscure, sdca])
def test_a_solution_of_zero_is_proved_at_any_price_of_errors(solve):
    for C in (10.0, 1000.0):
        result, _ = solved(solve, *contradictory(3), C)
        assert result.converged


@pytest.mark.parametrize("solve", PROVING)
@pytest.mark.parametrize("weight", [None, np.arange(20.0)])
def test_kernels_of_zeros_leave_the_loss_of_zero_and_its_proof(solve, weight):
    y = np.arange(20) % 3
    cost = np.array([[0.0, 1.0, 3.0], [2.0, 0.0, 1.0], [1.0, 1.0, 0.0]])
    result, problem = solved(solve, np.zeros((2, 20, 20)), y, weight=weight, cost=cost, tol=1e-6)
    worst = problem.loss.importance @ cost.max(axis=1)[y]
    assert result.converged
    assert_allclose([result.certificate.primal, result.certificate.dual], worst, rtol=1e-6)


@pytest.mark.parametrize("solve", ALL)
def test_costs_of_zero_leave_nothing_to_do(solve):
    K, y = contradictory(2)
    result, _ = solved(solve, K, y, cost=np.zeros((2, 2)))
    assert result.converged
    assert result.certificate.primal == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize("C", [1e-3, 1.0])
def test_samples_without_weight_stay_without_coefficients(C):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(30, 2)), np.arange(30) % 2
    weight = np.where(np.arange(30) < 25, rng.random(30), 0.0)
    result, problem = solved(sdca, (X @ X.T)[None], y, C, weight=weight, tol=1e-12, max_iter=30)
    assert_array_equal(result.alpha[25:], 0.0)
    assert problem.loss.violation(problem.lam * result.alpha) <= 1e-12  # rounding
    assert result.certificate.relative_gap <= 1e-6


def test_coordinates_need_no_sweep_for_each_unit_of_the_price():
    """Kernels of ones bend in no direction but one, where coordinates alone could only take turns."""
    y = np.arange(12) % 2
    result, _ = solved(sdca, np.ones((1, 12, 12)), y, C=1e5, tol=1e-4, max_iter=100)
    assert result.converged
    assert_allclose(result.certificate.dual, 1.0, rtol=1e-4)


def test_a_sample_without_curvature_takes_the_whole_of_its_loss():
    """One sample is zero in all kernels: its loss is lost, and the bound must know it."""
    K, y = contradictory(2, 12)
    K = K.copy()
    y = (np.arange(24) < 12).astype(int)
    K[:, 5], K[:, :, 5] = 0.0, 0.0
    result, _ = solved(sdca, K, y, tol=1e-6)
    assert result.converged


@pytest.mark.parametrize("solver", ["obscure", "obscure-printed", "online", "pegasos", "sdca"])
@pytest.mark.parametrize("p", [1.01, 2.0])
def test_two_samples_copies_of_samples_and_huge_prices_are_fitted(solver, p):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", ConvergenceWarning)
        two = ObscureClassifier([RBF(bandwidth=1.0), Linear()], p=p, solver=solver, random_state=0)
        assert_array_equal(two.fit([[0.0], [1.0]], ["a", "b"]).predict([[0.0], [1.0]]), ["a", "b"])
        rng = np.random.default_rng(0)
        X = np.repeat(rng.normal(size=(10, 2)).astype(np.float32), 3, axis=0)
        y = (X[:, 0] > 0).astype(int)
        for C in (1e-8, 1e8):
            model = ObscureClassifier([RBF(), Linear()], p=p, C=C, solver=solver, max_iter=60, random_state=0)
            model.fit(X, y, sample_weight=np.where(y, 1.0, 0.5))
            assert np.isfinite([model.objective_, model.dual_gap_]).all()
            assert np.isfinite(model.decision_function(X)).all()


@pytest.mark.parametrize("solver", ["obscure", "obscure-printed", "pegasos"])
def test_a_run_that_is_resumed_goes_on_with_its_epoch(solver, tmp_path):
    X, y = easy()
    model = ObscureClassifier([RBF(), Linear()], C=10.0, solver=solver, tol=1e-9, max_iter=120, random_state=0)
    model.set_params(checkpoint=tmp_path / "state.npz", callback=lambda row: row["epoch"] >= 40)
    with pytest.warns(ConvergenceWarning, match="callback"):
        model.fit(X, y)
    stopped, history = model.n_iter_, model.history_
    assert 40 <= stopped < 120
    with pytest.warns(ConvergenceWarning, match="max_iter"):
        model.set_params(callback=None).fit(X, y)
    epochs = [row["epoch"] for row in model.history_]
    assert model.n_iter_ == max(epochs) == 120
    assert epochs == sorted(epochs)
    assert len(model.history_) > len(history)
    if solver == "obscure":  # steps go on as they were, they do not begin at their longest
        later = next(row for row in model.history_ if row["epoch"] > stopped)
        assert later["step"] <= history[-1]["step"]


def easy():
    rng = np.random.default_rng(0)
    y = np.arange(60) % 3
    return rng.normal(size=(60, 2)) + 2.5 * rng.normal(size=(3, 2))[y], y


@pytest.mark.parametrize("memory", [None, "20kB"])
@pytest.mark.parametrize("solver", ["obscure", "obscure-printed", "pegasos"])
def test_time_limits_are_seen_although_looks_are_rare(solver, memory):
    X, y = easy()
    model = ObscureClassifier([RBF(), Linear()], C=100.0, solver=solver, tol=1e-12, max_iter=10**7, memory=memory)
    with pytest.warns(ConvergenceWarning, match="max_time"):
        model.set_params(max_time=0.1).fit(X, y)
    assert model.n_iter_ < 10**7


def test_a_fit_without_loss_is_judged_on_the_way():
    """Where every sample is classified with a margin most epochs have no update, and still the gap is looked at."""
    X, y = easy()
    K = KernelFamily.fit([RBF(bandwidth=0.3)], X).evaluate(X)
    result, _ = solved(obscure, K, y, C=1e4, tol=2e-2)
    epochs = [row["epoch"] for row in result.history]
    assert result.converged
    assert epochs[-1] < 2000
    assert max(b - a for a, b in pairwise(epochs)) <= 0.5 * epochs[-1]


def test_warm_starts_survive_streams_and_solutions_of_zero():
    X, y = easy()
    model = ObscureClassifier([RBF(), Linear()], warm_start=True, random_state=0, max_iter=100)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.partial_fit(X[:30], y[:30], classes=[0, 1, 2]).partial_fit(X[30:], y[30:])
        first = model.fit(X, y).objective_
        assert model.fit(X, y).objective_ <= first * 1.01
        zeros = ObscureClassifier("precomputed", warm_start=True, random_state=0)
        for _ in range(2):
            assert_allclose(zeros.fit(np.zeros((6, 6, 1)), [0, 1] * 3).objective_, 1.0)


def test_ufo_is_proved_at_zero_with_sparsity():
    K, y = contradictory(2)
    X = np.moveaxis(K, 0, -1)
    model = UFOMKLClassifier("precomputed", a=10.0, tol=1e-2, random_state=0).fit(X, y)
    assert model.converged_
    assert_allclose(model.objective_, 1.0, rtol=1e-2)
