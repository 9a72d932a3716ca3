"""MKL by Newton steps in the kernel weights, from the curvature of the SVM's optimum [CR08]."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.linalg import solve_triangular

from multikernel.problems.certificate import Certificate
from multikernel.problems.cutting_planes import CuttingPlaneModel, solve_cone_program
from multikernel.problems.minmax import MinMaxProblem
from multikernel.problems.weight_sets import WeightSet
from multikernel.runtime.monitor import Monitor
from multikernel.runtime.threads import one_blas_thread
from multikernel.solvers.common.inner_tolerance import InnerTolerance
from multikernel.solvers.common.subsample import rehearsed_start
from multikernel.svm.cholesky import ridged_cholesky
from multikernel.svm.labels import LabelSVMs
from multikernel.svm.quadratic_program import KernelOperator, as_operator

Vector = NDArray[np.float64]

# Free support vectors beyond which the curvature is taken from a sample of them: while the relative gap is above FINE
# (600 of them cost hardly an iteration more, and a factorisation thirty times less than 2,000), and below it.
ROUGH_FREE, MOST_FREE, FINE = 600, 4000, 1e-4
# Kernels in a quadratic model beside those with a weight: the most promising ones.
MOST_ENTERING = 50
# Ridges on the kernel of free support vectors, relative to its diagonal, and the share of the gap that a quadratic
# model must promise, or the ridge grows.
LEAST_RIDGE, MOST_RIDGE, RIDGE_FACTOR, WORTHWHILE = 1e-10, 1e-2, 100.0, 1e-4
# Share of the gap that an iteration should leave at most, how many may leave more before planes are tried, and the
# level of the projection then. Where weights sum to more than 1 the bound of one alpha stays far off while J falls
# fast, so that a gap that stays is no sign of kinks for longer.
SLOW, KINKED, LEVEL = 0.5, 3, 0.5
KINKED_IF_CAPPED = 8
# Distance from a bound, relative to the largest coefficient, up to which a support vector counts as bounded.
AT_BOUND = 1e-9
# Steps after another method to let one alpha prove the solution.
MOST_POLISHING = 20
# Halvings of a step, and the share of the decrease predicted that is enough.
MOST_HALVINGS, ENOUGH = 8, 1e-3


@dataclass
class Point:
    """Weights with the value of J, and the alpha of the SVM there."""

    weights: Vector
    value: float
    alpha: NDArray


def newton(
    problem: MinMaxProblem,
    monitor: Monitor,
    start: tuple[NDArray, NDArray] | None = None,
    *,
    max_iter: int = 200,
    second_derivatives: Callable[..., NDArray] | None = None,
) -> None:
    """Minimise a quadratic model of J over the set of weights, again and again [CR08, sect. 4].

    While the set A of free support vectors stays, J is smooth in the weights, with gradient ``−½ q(alpha)`` and
    second derivatives ``s_j' P s_k``: s_j are the scores of kernel j on A, and P the inverse of the kernel on A among
    coefficients whose sums are kept. A factorisation on A, which the SVM needs anyway, thus buys a step that
    converges quadratically; steps are halved until J falls. For p = 1 and the capped simplex the planes that touch J
    at the points visited improve the bound, and take over every other iteration where J has kinks (kernels of low
    rank).

    Parameters
    ----------
    problem : MinMaxProblem
        With any weight set that has cones.
    monitor : Monitor
        Judges each iteration; has the result.
    start : (weights, alpha), optional
        Where to start; by default, if samples are many, at the weights of a part of them.
    max_iter : int
        Largest number of points judged, the first included; at least two.
    second_derivatives : callable, optional
        Those of J for problems other than SVMs, called as :func:`curvature`, which is the default.
    """
    weights, alpha = rehearsed_start(problem, monitor, newton) if start is None else start
    derivatives = curvature if second_derivatives is None else second_derivatives
    tol = InnerTolerance(monitor)
    if start is not None:  # maybe the solution already, which an inexact SVM would hide
        tol.value = tol.least
    ridge, previous, by_planes, slow = LEAST_RIDGE, np.inf, False, 0
    has_sum = problem.weight_set.total is not None
    kinked = KINKED if (problem.weight_set.total or 1.0) <= 1.0 else KINKED_IF_CAPPED
    planes = CuttingPlaneModel(problem.n_kernels, problem.weight_set, "lp") if has_sum else None
    best = point = _evaluate(problem, weights, alpha, tol.value)
    for _ in range(max(max_iter - 1, 1)):
        if planes is not None:
            planes.add(*problem.cut(point.alpha), point.alpha)
            if slow >= kinked:  # no single alpha will prove the optimum soon
                monitor.prove(planes.solve()[1], planes.mixture)
        if monitor(point.weights, point.alpha):
            return
        if tol.value > 20.0 * tol.follow():
            point = _evaluate(problem, point.weights, point.alpha, tol.value)
        best = point if point.value <= best.value else best
        gap = monitor.certificate.gap
        slow += gap > SLOW * previous
        by_planes = planes is not None and not by_planes and slow >= kinked and gap > SLOW * previous
        previous = gap
        if by_planes and planes is not None:
            # where J has kinks no quadratic model holds: the planes that touch it do
            level = LEVEL * monitor.certificate.primal + (1.0 - LEVEL) * monitor.bound
            point = _evaluate(problem, planes.project(best.weights, level), best.alpha, tol.value)
            continue
        # 1. the quadratic model on kernels in use or about to be, 2. its minimum in the set
        gradient = -0.5 * problem.quadratic_forms(best.alpha)
        target, ridge = _target(problem, best, gradient, monitor.certificate, ridge, derivatives)
        # 3. as far towards it as J falls
        moved = _search(problem, best, target, gradient, tol.value)
        if moved is None:
            if not tol.tighten():
                monitor.stopped = "rounding"
                return
            best = moved = _evaluate(problem, best.weights, best.alpha, tol.value)
        point = moved
    monitor(point.weights, point.alpha)


def prove_alone(problem: MinMaxProblem, monitor: Monitor) -> None:
    """Go on from a solution that many cuts have proved to one near it whose alpha proves it by itself.

    Users have weights and one alpha, not the cuts. A few Newton steps are enough, except where J has kinks: there the
    solution stays as it was.
    """
    if type(problem) is not MinMaxProblem or monitor.best is None or monitor.stopped != "converged":
        return
    known, best = monitor.bound, monitor.best
    try:
        monitor.forget_bounds()
        if monitor.certificate.relative_gap > monitor.tol:
            newton(problem, monitor, best, max_iter=MOST_POLISHING)
    finally:  # also if time is up
        if not monitor.certificate.relative_gap <= monitor.tol:
            monitor.prove(known)
            monitor.stopped = "converged"


def _evaluate(problem: MinMaxProblem, weights: Vector, warm: NDArray, tol: float) -> Point:
    value, alpha = problem.solve_inner(weights, warm, tol)
    return Point(weights, value, alpha)


def _target(
    problem: MinMaxProblem,
    point: Point,
    gradient: Vector,
    known: Certificate,
    ridge: float,
    derivatives: Callable[..., NDArray],
) -> tuple[Vector, float]:
    """Least point of the quadratic model in the set, and the ridge of its curvature.

    Where kernels are of low rank, coefficients of many samples move as soon as a weight does: second derivatives
    are huge, hold nowhere but at the point itself, and a model with them promises next to nothing. A larger ridge
    looks at J from further off; the line search sees to the rest.
    """
    allowed = problem.weight_set
    chosen = np.arange(len(gradient)) if allowed.total is None else _promising(point.weights, gradient)
    weights, slopes = point.weights[chosen], gradient[chosen]
    ridge = max(ridge / RIDGE_FACTOR, LEAST_RIDGE)
    while True:
        most_free = ROUGH_FREE if known.relative_gap > FINE else MOST_FREE
        H = derivatives(problem, point.weights, point.alpha, chosen, ridge=ridge, most_free=most_free)
        best = _minimise_model(H, slopes, weights, allowed)
        step = best - weights
        promised = -float(slopes @ step + 0.5 * step @ H @ step)
        if promised >= WORTHWHILE * known.gap or ridge >= MOST_RIDGE:
            break
        ridge *= RIDGE_FACTOR
    target = np.zeros_like(point.weights)
    target[chosen] = best
    return target, ridge


def _promising(weights: Vector, gradient: Vector) -> NDArray[np.intp]:
    """Kernels with a weight, and those without that would gain most."""
    used = weights > 0.0
    between = used & (weights < 1.0)
    # the multiplier of the sum at a stationary point; all weights at a bound leave an interval, of which the end
    if between.any():
        level = float(gradient[between] @ weights[between]) / float(weights[between].sum())
    else:
        level = float(gradient[used].max())
    entering = np.flatnonzero(~used & (gradient < level))
    entering = entering[np.argsort(gradient[entering], kind="stable")[:MOST_ENTERING]]
    return np.sort(np.concatenate([np.flatnonzero(used), entering]))


def curvature(
    problem: MinMaxProblem,
    weights: Vector,
    alpha: NDArray,
    chosen: NDArray[np.intp],
    *,
    ridge: float = 1e-10,
    most_free: int = MOST_FREE,
    operator: KernelOperator | None = None,
) -> NDArray[np.float64]:
    """Second derivatives of J for the chosen kernels, summed over labels, shape (len(chosen), len(chosen)).

    ``ridge`` is added to the diagonal of the kernel, relative to its mean; of more than ``most_free`` free support
    vectors a sample is taken. ``operator`` is the kernel of the weights, if not all of it is to be computed.
    """
    operator = as_operator(problem.kernel(weights)) if operator is None else operator
    if not isinstance(problem.inner, LabelSVMs):
        scores = problem.scores(alpha)[chosen]
        return _curvature_of_one(problem.inner, operator, scores, alpha, ridge, most_free)
    parts = (
        _curvature_of_one(svm, operator, scores, column, ridge, most_free)
        for svm, column, scores in zip(problem.inner.svms, alpha.T, problem.scores_by_label(alpha, chosen))
    )
    return sum(parts, start=np.zeros((len(chosen), len(chosen))))


def _curvature_of_one(
    inner, operator, scores: NDArray, alpha: Vector, ridge: float, most_free: int
) -> NDArray[np.float64]:
    """``S'(K⁻¹ − K⁻¹E(E'K⁻¹E)⁻¹E'K⁻¹)S`` on the free support vectors, E the indicators of sums that are kept."""
    box = inner.problem
    # beside the largest coefficient, not the bounds: with huge kernels or a large C all are tiny beside those
    margin = AT_BOUND * np.minimum(box.hi - box.lo, np.abs(alpha).max(initial=0.0))
    free = np.flatnonzero((alpha > box.lo + margin) & (alpha < box.hi - margin))
    if not len(free):
        return np.zeros((len(scores), len(scores)))
    thinning = 1.0
    if len(free) > most_free:
        thinning = len(free) / most_free
        free = free[np.linspace(0, len(free) - 1, most_free).astype(np.intp)]
    K = operator.submatrix(free, free).astype(np.float64)
    K.ravel()[:: len(free) + 1] += ridge * max(float(K.trace()) / len(free), 1e-300)
    E = np.column_stack([np.isin(free, group) for group in box.groups]) if box.groups else np.zeros((len(free), 0))
    E = E[:, E.any(axis=0)]
    right = np.hstack([scores[:, free].T, E.astype(np.float64)])
    with one_blas_thread():
        Y = solve_triangular(ridged_cholesky(K), right, lower=True, check_finite=False)
    S, sums = Y[:, : len(scores)], Y[:, len(scores) :]
    if sums.shape[1]:
        basis = np.linalg.qr(sums)[0]
        S = S - basis @ (basis.T @ S)
    return thinning * (S.T @ S)


def _minimise_model(H: NDArray, gradient: Vector, weights: Vector, allowed: WeightSet) -> Vector:
    """Least point of ``gradient·(h − g) + ½ (h − g)'H(h − g)`` over the set; exact zeros where it has corners."""
    F = len(gradient)
    scale = max(float(np.abs(gradient).max()), float(np.abs(H).max()), 1e-300)
    P = H / scale
    P.ravel()[:: F + 1] += 1e-9 * max(float(P.trace()) / F, 1e-12)
    rows, right, cones = allowed.cones(F)
    rest = rows.shape[1] - F
    cost = np.append(gradient / scale - P @ weights, np.zeros(rest))
    quadratic = sparse.block_diag([P, sparse.csc_matrix((rest, rest))]) if rest else sparse.csc_matrix(P)
    h, multipliers = solve_cone_program(cost, rows, right, cones, quadratic)
    return allowed.settle(h[:F], multipliers) if h[:F].max() > 0.0 else weights


def _search(problem: MinMaxProblem, point: Point, target: Vector, gradient: Vector, tol: float) -> Point | None:
    """The first of the steps 1, ½, ¼, … that decreases J enough; None if none does."""
    direction = target - point.weights
    slope = float(gradient @ direction)
    if not slope < 0.0:
        return None
    step, alpha = 1.0, point.alpha
    for _ in range(MOST_HALVINGS):
        trial = _evaluate(problem, target if step == 1.0 else point.weights + step * direction, alpha, tol)
        if trial.value <= point.value + ENOUGH * step * slope:
            return trial
        alpha = trial.alpha
        # the parabola through value, slope and the trial's value, kept within sane limits
        excess = trial.value - point.value - step * slope
        step *= float(np.clip(-0.5 * slope * step / max(excess, 1e-300), 0.1, 0.5))
    return None
