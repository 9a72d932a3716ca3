"""The min-max problem: its certificate brackets the optimum, and closed-form weights reach it."""

import numpy as np
import pytest
from mkl_problems import make_kernels
from numpy.testing import assert_allclose
from references import reference, result_of

from multikernel.datasets import make_kernel_problem
from multikernel.gram import DenseStack
from multikernel.problems.certificate import LastValue
from multikernel.problems.minmax import MinMaxProblem
from multikernel.problems.weight_sets import CappedSimplex, LpBall
from multikernel.runtime.monitor import Monitor
from multikernel.solvers.mkl.closed_form import closed_form
from multikernel.svm import CSVM, LabelSVMs

PLAIN = {"n_kernels": 4, "n": 24, "rank": 3, "C": 2.0}


def make_problem(p):
    K, signs, C = make_kernels(**PLAIN)
    return K, MinMaxProblem(DenseStack(K), CSVM(signs, C), LpBall(p), memory=1 << 30)


@pytest.mark.parametrize("p", [1.1, 1.25, 1.5, 2.0, 4.0, 1e6])
def test_closed_form_weights_reach_the_optimum(p):
    _, problem = make_problem(p)
    result = result_of(closed_form, problem, 1e-6)
    assert result.converged
    assert problem.inner.violation(result.alpha) == 0.0
    q = problem.stack.quadratic_forms(result.alpha)
    assert_allclose(result.weights @ q, problem.weight_set.support(q), rtol=1e-4)
    reference(LpBall(p), **PLAIN).proves(result.certificate, 1e-6)


@pytest.mark.parametrize("p", [1.0, 1.5, 2.0, 1e6])
def test_the_certificate_brackets_the_optimum_for_any_weights_and_alpha(p):
    K, problem = make_problem(p)
    optimum = reference(LpBall(p), **PLAIN)
    rng = np.random.default_rng(1)
    for _ in range(20):
        weights = problem.weight_set.project(rng.uniform(size=problem.n_kernels))
        alpha = problem.inner.repair(rng.normal(size=len(K[0])))
        certificate = problem.certificate(weights, alpha)
        assert certificate.dual <= optimum.upper
        assert certificate.primal >= optimum.lower


@pytest.mark.parametrize("p", [1.5, 2.0, 3.0])
def test_a_planted_solution_is_found(p):
    planted = make_kernel_problem(p=p, random_state=0)
    problem = MinMaxProblem(DenseStack(planted.K), CSVM(planted.y, planted.C), LpBall(p), memory=1 << 30)
    monitor = Monitor(problem, tol=1e-8)
    closed_form(problem, monitor)
    assert_allclose(monitor.result().certificate.primal, planted.objective, rtol=1e-7)
    assert_allclose(monitor.result().weights, planted.weights, atol=1e-3)


def test_gradient_of_the_optimum_is_minus_half_the_quadratic_forms():
    _, problem = make_problem(2.0)
    weights = np.array([0.5, 0.3, 0.7, 0.2])
    _, alpha = problem.solve_inner(weights, None, 1e-12)
    step = 1e-5
    for j, q in enumerate(problem.quadratic_forms(alpha)):
        shift = step * np.eye(4)[j]
        above, below = (problem.solve_inner(weights + s, alpha, 1e-12)[0] for s in (shift, -shift))
        assert_allclose((above - below) / (2 * step), -0.5 * q, rtol=1e-4)


def test_several_labels_are_summed():
    _, single = make_problem(2.0)
    signs = np.column_stack([single.inner.signs, single.inner.signs])
    both = MinMaxProblem(single.stack, LabelSVMs(signs, 2.0), LpBall(2.0), memory=1 << 30)
    results = []
    for problem in (single, both):
        results.append(result_of(closed_form, problem, 1e-7))
    # two equal labels weigh the kernels as one label on kernels twice as large does
    assert results[1].converged
    assert results[1].alpha.shape == signs.shape
    assert_allclose(results[1].alpha[:, 0], results[1].alpha[:, 1], atol=1e-4)
    assert_allclose(results[1].certificate.primal, 2 * results[0].certificate.primal, rtol=1e-5)


def test_weight_sets_without_a_norm_work_too():
    K, problem = make_problem(2.0)
    capped = MinMaxProblem(problem.stack, problem.inner, CappedSimplex(4.0), memory=1 << 30)
    monitor = Monitor(capped, tol=1e-8)
    closed_form(capped, monitor)
    value, _ = CSVM(problem.inner.signs, 2.0).solve(K.sum(axis=0), tol=1e-9)
    assert_allclose(monitor.result().certificate.primal, value, rtol=1e-7)


def test_a_last_value_is_made_anew_only_for_other_arguments():
    asked = []
    double = LastValue(lambda x: asked.append(1) or 2 * x)
    assert double(np.ones(2)) is double(np.ones(2))
    assert double(np.zeros(2)).tolist() == [0.0, 0.0]
    assert len(asked) == 2
    other = LastValue(lambda x: x)
    other.take_over(double)
    assert other(np.zeros(2)).tolist() == [0.0, 0.0]
    assert double(np.zeros(2)) is not None
    assert len(asked) == 3
