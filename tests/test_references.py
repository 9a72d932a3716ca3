"""The references themselves: planted optima, conic solvers as a second opinion, and candidates that prove nothing."""

import cvxpy as cp
import numpy as np
import pytest
import references
from mkl_problems import make_kernels
from references import (
    Ball,
    Bracket,
    Capped,
    Grouped,
    Penalised,
    conic_group_norm,
    conic_hinge,
    conic_value,
    fisher_bracket,
    hinge_bracket,
    margin_loss,
    minmax_bracket,
    residual_loss,
    result_of,
    root,
    smooth_bracket,
    svm_bracket,
    worst_label_bracket,
)

from multikernel.datasets import make_kernel_problem
from multikernel.gram import DenseStack
from multikernel.problems.certificate import Certificate
from multikernel.problems.fisher import DenseSystem, FisherProblem, fisher_targets
from multikernel.problems.gmkl import GeneralizedProblem, SumOfKernels
from multikernel.problems.losses import HuberLoss, LogisticLoss, SmoothedHinge, SquaredHinge, SquaredLoss
from multikernel.problems.minmax import MinMaxProblem
from multikernel.problems.multilabel import WorstLabelProblem
from multikernel.problems.obscure import MulticlassHinge, ObscureProblem, group_norm
from multikernel.problems.regularizers import L1, Entropy, SquaredL2
from multikernel.problems.svrg import SmoothProblem
from multikernel.problems.vskl import VSKLProblem
from multikernel.problems.weight_sets import CappedSimplex, LpBall
from multikernel.solvers.common.newton import newton
from multikernel.solvers.fisher import fisher_newton
from multikernel.solvers.gmkl import spectral_gradient
from multikernel.solvers.multilabel.level import label_level
from multikernel.solvers.obscure.sdca import sdca
from multikernel.solvers.svrg.primal import smooth_auto
from multikernel.solvers.ufo import ufo
from multikernel.solvers.vskl import group_newton
from multikernel.svm import CSVM, LabelSVMs, NuSVM

MEMORY = 1 << 28
K, SIGNS, C = make_kernels(n=24)
STACK, SVM = DenseStack(K), CSVM(SIGNS, C)
LABELS = np.column_stack([SIGNS, np.roll(SIGNS, 5)])


def solved(solve, problem, tol=1e-8, *arguments, **options):
    return problem, result_of(solve, problem, tol, *arguments, **options)


# -- planted optima, and what proves nothing -----------------------------------------------------------------------


@pytest.mark.parametrize("p", [1.0, 1.5, 3.0])
def test_planted_optima_lie_in_brackets_of_no_width(p):
    planted = make_kernel_problem(p=p, random_state=1)
    found = svm_bracket(planted.K, CSVM(planted.y, planted.C), Ball(p), planted)
    found.encloses(planted.objective, 1e-12)
    assert found.upper - found.lower <= 1e-10 * planted.objective


@pytest.mark.parametrize("change", [{"weights": 0.9}, {"alpha": 0.9}], ids=str)
def test_a_candidate_that_is_not_optimal_leaves_a_wide_bracket(change):
    problem, result = solved(newton, MinMaxProblem(STACK, SVM, LpBall(2.0), MEMORY))
    optimum = minmax_bracket(problem, result)
    for name, factor in change.items():
        setattr(result, name, factor * getattr(result, name))
    result.proof = None
    spoilt = minmax_bracket(problem, result)
    assert spoilt.lower <= optimum.upper
    assert spoilt.upper >= optimum.lower
    with pytest.raises(AssertionError):
        spoilt.proves(result.certificate, 1e-4)


def test_an_alpha_outside_its_bounds_is_refused():
    problem, result = solved(newton, MinMaxProblem(STACK, SVM, LpBall(2.0), MEMORY))
    result.alpha[np.argmax(np.abs(result.alpha))] *= 1.0 + 1e-15 + 1e-9
    with pytest.raises(AssertionError):
        minmax_bracket(problem, result)


@pytest.mark.parametrize(
    "claim", [(1.0, 1.1), (0.9, 0.8), (1.2, 0.8)], ids=["dual above", "primal below", "not optimal"]
)
def test_wrong_claims_are_not_proved(claim):
    with pytest.raises(AssertionError):
        Bracket(1.0, 1.0, 1e-9).proves(Certificate(*claim), 1e-3)


def test_a_second_solver_answers_where_the_first_gives_up(monkeypatch):
    x = cp.Variable(3)
    problem = cp.Problem(cp.Minimize(cp.norm(x - np.array([1.0, 2.0, 6.0]))), [cp.sum(x) == 3, x >= 0])
    given_up = [("CLARABEL", {"max_iter": 1}), *references.CONIC_SOLVERS[1:]]
    monkeypatch.setattr(references, "CONIC_SOLVERS", given_up)
    assert conic_value(problem) == pytest.approx(np.sqrt(14.0), rel=1e-7)
    monkeypatch.setattr(references, "CONIC_SOLVERS", references.CONIC_SOLVERS[-1:])
    assert conic_value(problem) == pytest.approx(np.sqrt(14.0), rel=1e-7)
    monkeypatch.setattr(references, "CONIC_SOLVERS", given_up[:1])
    with pytest.raises(AssertionError, match="no conic solver"):
        conic_value(problem)


# -- conic solvers agree, on problems that they solve well ---------------------------------------------------------


def conic_svm(K, inner, penalty):
    """max over alpha of linear(alpha) − the conjugate of what weights cost."""
    svms = getattr(inner, "svms", [inner])
    alphas = [cp.Variable(len(svm.signs)) for svm in svms]
    linear, constraints = 0, []
    for svm, alpha in zip(svms, alphas):
        y = cp.multiply(svm.signs, alpha)
        constraints += [y >= 0, y <= svm.upper, cp.sum(alpha) == 0]
        if hasattr(svm, "nu"):
            constraints.append(cp.sum(y) >= svm.nu)
        else:
            linear = linear + cp.sum(y)
    norms = [cp.norm(cp.hstack([root(kernel).T @ alpha for alpha in alphas])) for kernel in K]
    q = cp.square(cp.hstack(norms))
    cost = {
        Ball: lambda: cp.pnorm(q, float(references.dual_exponent(penalty.p)), approx=False) / 2,
        Capped: lambda: (cp.sum_largest(q, 2) + cp.sum_largest(q, 3)) / 4,  # half-way between the two for t = 2.5
        Grouped: lambda: cp.square(sum(cp.max(cp.hstack([norms[k] for k in g])) for g in penalty.groups)) / 2,
        Penalised: lambda: {
            "L1": lambda: 0,
            "SquaredL2": lambda: cp.sum(cp.square(q)) / (8 * penalty.reg),
            "Entropy": lambda: penalty.reg * cp.sum(cp.exp(q / (2 * penalty.reg) - 1)),
        }[penalty.kind](),
    }[type(penalty)]()
    if getattr(penalty, "kind", None) == "L1":
        constraints.append(q <= 2 * penalty.reg)
    return conic_value(cp.Problem(cp.Maximize(linear - cost), constraints))


SVM_PROBLEMS = {
    **{f"p={p}": (newton, lambda p=p: MinMaxProblem(STACK, SVM, LpBall(p), MEMORY)) for p in (1.0, 1.5, 2.0, 1e6)},
    "nu": (newton, lambda: MinMaxProblem(STACK, NuSVM(SIGNS, 0.4), LpBall(2.0), MEMORY)),
    "labels": (newton, lambda: MinMaxProblem(STACK, LabelSVMs(LABELS, C), LpBall(1.5), MEMORY)),
    "capped": (newton, lambda: MinMaxProblem(STACK, SVM, CappedSimplex(2.5), MEMORY)),
    "groups": (group_newton, lambda: VSKLProblem(STACK, SVM, [[0, 3], [1, 4], [2]], MEMORY)),
    **{
        type(r).__name__: (
            spectral_gradient,
            lambda r=r: GeneralizedProblem(STACK, SVM, SumOfKernels(), r, 1.0, MEMORY),
        )
        for r in (L1(), SquaredL2(), Entropy())
    },
}


@pytest.mark.parametrize("name", SVM_PROBLEMS)
def test_a_conic_solver_agrees_on_svms(name):
    solve, make = SVM_PROBLEMS[name]
    problem, result = solved(solve, make())
    found = minmax_bracket(problem, result)
    assert found.upper - found.lower <= 1e-6 * abs(found.upper)
    found.encloses(conic_svm(K, problem.inner, references.penalty_of(problem)), 1e-6)


@pytest.mark.parametrize("bias", [False, True])
def test_a_conic_solver_agrees_on_the_worst_label(bias):
    signs = LABELS * np.where(np.arange(24) % 7, 1.0, 0.0)[:, None]
    problem, result = solved(label_level, WorstLabelProblem(STACK, LabelSVMs(signs, C, bias=bias), MEMORY), 1e-9)
    beta, gamma = cp.Variable(signs.shape), cp.Variable(2, nonneg=True)  # beta_k = gamma_k alpha_k
    y = cp.multiply(signs, beta)
    rules = [y >= 0, cp.multiply(1.0 - np.abs(signs), beta) == 0, cp.sum(gamma) == 1]
    rules += [y[:, k] <= C * gamma[k] for k in range(2)] + [cp.sum(beta, axis=0) == 0] * bias
    forms = [sum(cp.quad_over_lin(root(k).T @ beta[:, t], gamma[t]) for t in range(2)) for k in K]
    value = conic_value(cp.Problem(cp.Maximize(cp.sum(y) - 0.5 * cp.max(cp.hstack(forms))), rules))
    found = worst_label_bracket(problem, result)
    assert found.upper - found.lower <= 1e-4 * found.upper
    found.encloses(value, 1e-6)


@pytest.mark.parametrize(
    ("solve", "p", "sparsity", "width"), [(sdca, 1.25, 0.0, 1e-6), (sdca, 2.0, 0.0, 1e-6), (ufo, 1.5, 0.05, 0.05)]
)
def test_a_conic_solver_agrees_on_the_multiclass_hinge(solve, p, sparsity, width):
    cost = np.array([[0.0, 1.0, 3.0], [2.0, 0.0, 1.0], [1.0, 1.0, 0.0]])
    loss = MulticlassHinge(np.arange(24) % 3, 3, 1.0 + np.arange(24) % 2, cost)
    problem = ObscureProblem(STACK, loss, 1.0 / 48, p, sparsity=sparsity)
    _, result = solved(solve, problem, 1e-7, None, random_state=0, max_iter=3000)
    found = hinge_bracket(problem, result)
    assert found.upper - found.lower <= width * found.upper
    found.encloses(conic_group_norm(K, problem.lam, p, 3, conic_hinge(loss), sparsity)[0], 1e-6)


def huber_of(expression):
    return cp.sum(cp.huber(expression, 0.5))


TARGETS = SIGNS + K[0, 0]
SMOOTH_LOSSES = {
    "logistic": (LogisticLoss(SIGNS), margin_loss, lambda f: cp.sum(cp.logistic(-cp.multiply(SIGNS, f)))),
    "squared_hinge": (SquaredHinge(SIGNS), margin_loss, lambda f: cp.sum_squares(cp.pos(1 - cp.multiply(SIGNS, f)))),
    "smoothed_hinge": (
        SmoothedHinge(SIGNS, width=0.5),
        margin_loss,
        lambda f: huber_of(cp.pos(1 - cp.multiply(SIGNS, f))),
    ),
    "squared": (SquaredLoss(TARGETS), residual_loss, lambda f: cp.sum_squares(f - TARGETS) / 2),
    "huber": (HuberLoss(TARGETS, width=0.5), residual_loss, lambda f: huber_of(f - TARGETS) / 2),
}


@pytest.mark.parametrize("p", [1.0, 1.5])
@pytest.mark.parametrize("name", SMOOTH_LOSSES)
def test_a_conic_solver_agrees_on_smooth_losses(name, p):
    loss, formula, conic = SMOOTH_LOSSES[name]
    _, result = solved(smooth_auto, SmoothProblem(STACK, loss, 1.0 / 24, p), 1e-8, random_state=0, max_iter=2000)
    given = (SIGNS,) if formula is margin_loss else (TARGETS, np.full(24, 1 / 24))
    found = smooth_bracket(K, 1.0 / 24, p, result, formula(name, *given))
    assert found.upper - found.lower <= 1e-6 * found.upper
    value, _ = conic_group_norm(K, 1.0 / 24, group_norm(p), 1, lambda f: conic(f[:, 0]) / 24)
    found.encloses(value, 1e-6)


@pytest.mark.parametrize("p", [1.0, 1.5, 1e6])
def test_a_conic_solver_agrees_on_fisher_s_discriminant(p):
    centre = np.eye(24) - 1.0 / 24
    centred = centre @ K @ centre
    centred /= np.trace(centred, axis1=1, axis2=2)[:, None, None]
    H, reg = fisher_targets(np.arange(24) % 3, 3), 0.01
    problem = FisherProblem(DenseSystem(DenseStack(centred), reg), H, LpBall(p))
    _, result = solved(fisher_newton, problem, 1e-8)
    found = fisher_bracket(centred, H, reg, p, result)
    assert found.upper - found.lower <= 1e-6 * found.upper
    a = cp.Variable(H.shape)
    q = cp.hstack([cp.sum_squares(root(kernel / reg).T @ a) for kernel in centred])
    cost = cp.pnorm(q, float(references.dual_exponent(p)), approx=False)
    value = conic_value(cp.Problem(cp.Maximize(cp.sum(cp.multiply(a, H)) - (cp.sum_squares(a) + cost) / 4)))
    found.encloses(value, 1e-6)
