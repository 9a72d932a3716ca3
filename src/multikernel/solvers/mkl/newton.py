"""MKL by Newton steps in the kernel weights, from the curvature of the SVM's optimum [CR08]."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from multikernel.problems.certificate import Certificate
from multikernel.problems.cutting_planes import CuttingPlaneModel
from multikernel.problems.minmax import MinMaxProblem
from multikernel.runtime.monitor import Monitor
from multikernel.solvers.common.outer_loop import (
    InnerTolerance,
    Start,
    WeightPoint,
    evaluate,
    line_search,
    start_from_sample,
)

Vector = NDArray[np.float64]

# Relative gap above which a rough curvature will do.
FINE = 1e-4
# Kernels in a quadratic model beside those with a weight: the most promising ones.
MOST_ENTERING = 50
# Ridges on the kernel of free support vectors, relative to its diagonal, and the share of the gap that a quadratic
# model must promise, or the ridge grows.
LEAST_RIDGE, MOST_RIDGE, RIDGE_FACTOR, WORTHWHILE = 1e-10, 1e-2, 100.0, 1e-4
# Share of the gap that an iteration should leave at most, how many may leave more before planes are tried, and the
# level of the projection then. Where weights sum to more than 1 the bound of one alpha stays far off while J falls
# fast, so that a gap that stays is no sign of kinks for longer.
SLOW, KINKED, KINKED_IF_CAPPED, LEVEL = 0.5, 3, 8, 0.5
# Steps after another method to let one alpha prove the solution.
MOST_POLISHING = 20


def newton(problem: MinMaxProblem, monitor: Monitor, start: Start = None, *, max_iter: int = 200) -> None:
    """Minimise a quadratic model of J over the set of weights, again and again [CR08, sect. 4].

    The problem has the curvature of J, which costs a factorisation on the free support vectors, and the set of
    weights the least point of a model: a step that converges quadratically. Steps are shortened until J falls. For
    p = 1 and the capped simplex the planes that touch J at the points visited improve the bound, and take over every
    other iteration where J has kinks (kernels of low rank). Without a start, if samples are many, it begins at the
    weights of a part of them; ``max_iter`` is the largest number of points judged, at least two.
    """
    weights, alpha = start_from_sample(problem, monitor, newton) if start is None else start
    tol = InnerTolerance(monitor)
    if start is not None:  # maybe the solution already, which an inexact SVM would hide
        tol.value = tol.least
    ridge, previous, by_planes, slow = LEAST_RIDGE, np.inf, False, 0
    total = problem.weight_set.total
    kinked = KINKED if total is None or total <= 1.0 else KINKED_IF_CAPPED
    planes = None if total is None else CuttingPlaneModel(problem.n_kernels, problem.weight_set)
    best = point = evaluate(problem, weights, alpha, tol.value)
    for _ in range(max(max_iter - 1, 1)):
        if planes is not None:
            planes.add(*problem.cut(point.alpha), point.alpha)
            if slow >= kinked:  # no single alpha will prove the optimum soon
                monitor.prove(planes.solve()[1], planes.mixture)
        if monitor(point.weights, point.alpha):
            return
        if tol.value > 20.0 * tol.follow():
            point = evaluate(problem, point.weights, point.alpha, tol.value)
        best = point if point.value <= best.value else best
        gap = monitor.certificate.gap
        slow += gap > SLOW * previous
        by_planes = planes is not None and not by_planes and slow >= kinked and gap > SLOW * previous
        previous = gap
        if by_planes and planes is not None:
            # where J has kinks no quadratic model holds: the planes that touch it do
            level = LEVEL * monitor.certificate.primal + (1.0 - LEVEL) * monitor.bound
            point = evaluate(problem, planes.project(best.weights, level), best.alpha, tol.value)
            continue
        # 1. the quadratic model on kernels in use or about to be, 2. its minimum in the set
        target, ridge = _target(problem, best, monitor.certificate, ridge)
        # 3. as far towards it as J falls
        moved = search_towards(best, target, tol.value)
        if moved is None:
            if not tol.tighten():
                return
            best = moved = evaluate(problem, best.weights, best.alpha, tol.value)
        point = moved
    monitor(point.weights, point.alpha)


def search_towards(point: WeightPoint, target: Vector, tol: float) -> WeightPoint | None:
    """A point on the way to ``target`` at which J is low enough; None if there is none."""
    direction = target - point.weights

    def at(step: float, alpha: NDArray, goal: float) -> WeightPoint:
        weights = target if step == 1.0 else point.weights + step * direction
        return evaluate(point.problem, weights, alpha, tol)

    return line_search(point, float(point.gradient @ direction), at)


def prove_by_one_alpha(problem: MinMaxProblem, monitor: Monitor) -> None:
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


def _target(problem: MinMaxProblem, point: WeightPoint, known: Certificate, ridge: float) -> tuple[Vector, float]:
    """Least point of the quadratic model in the set, and the ridge of its curvature.

    Where kernels are of low rank, coefficients of many samples move as soon as a weight does: second derivatives
    are huge, hold nowhere but at the point itself, and a model with them promises next to nothing. A larger ridge
    looks at J from further off; the line search sees to the rest.
    """
    allowed, gradient = problem.weight_set, point.gradient
    chosen = np.arange(len(gradient)) if allowed.total is None else _promising(point.weights, gradient)
    weights, slopes = point.weights[chosen], gradient[chosen]
    ridge = max(ridge / RIDGE_FACTOR, LEAST_RIDGE)
    while True:
        H = problem.curvature(point.weights, point.alpha, chosen, ridge=ridge, rough=known.relative_gap > FINE)
        best = allowed.least_point(H, slopes, weights)
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
    return with_entering(used, gradient - level)


def with_entering(used: NDArray[np.bool_], excess: Vector) -> NDArray[np.intp]:
    """Kernels that are used, and of the others the few that would gain most: by how much, ``excess`` says."""
    entering = np.flatnonzero(~used & (excess < 0.0))
    entering = entering[np.argsort(excess[entering], kind="stable")[:MOST_ENTERING]]
    return np.sort(np.concatenate([np.flatnonzero(used), entering]))
