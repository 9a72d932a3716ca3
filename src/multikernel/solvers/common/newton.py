"""Newton steps in the kernel weights [CR08], and what all outer loops share: steps, a start."""

import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from multikernel.problems.certificate import Certificate
from multikernel.problems.cutting_planes import CuttingPlaneModel
from multikernel.problems.minmax import MinMaxProblem
from multikernel.runtime.clock import OutOfTime, left, time_limit
from multikernel.runtime.monitor import InnerTolerance, Monitor

Vector = NDArray[np.float64]
# Weights and alpha to start from; None for the solver's own choice.
Start = tuple[NDArray, NDArray] | None

MOST_TRIALS, ENOUGH = 8, 1e-3  # trials of a step, and the share of the predicted decrease that is enough
# Samples from which starting with a part of them pays, that part, its least size (fewer give weights that are too
# sparse), how well it is solved (below that, weights depend on the sample), and its share of the remaining time.
LARGE, PART, FEWEST, ROUGH, SHARE_OF_TIME = 3000, 8, 500, 1e-2, 0.25
FINE = 1e-4  # relative gap above which a rough curvature will do
MOST_ENTERING = 50  # kernels in a quadratic model beside those with a weight: the most promising ones
# Ridges on the kernel of free support vectors, relative to its diagonal, and the share of the gap that a quadratic
# model must promise, or the ridge grows.
LEAST_RIDGE, MOST_RIDGE, RIDGE_FACTOR, WORTHWHILE = 1e-10, 1e-2, 100.0, 1e-4
# Share of the gap that an iteration should leave at most, how many may leave more before planes are tried, and the
# level of the projection then. Where weights sum to more than 1 the bound of one alpha stays far off while J falls
# fast, so it takes longer until a gap that stays is a sign of kinks.
SLOW, KINKED, KINKED_IF_CAPPED, LEVEL = 0.5, 3, 8, 0.5
MOST_POLISHING = 20  # steps after another method to let one alpha prove the solution


@dataclass
class WeightPoint:
    """Weights with the value of J, and the alpha of the inner problem there."""

    problem: Any  # min-max, or like it: has solve_inner and quadratic_forms
    weights: NDArray
    value: float
    alpha: NDArray

    @cached_property
    def gradient(self) -> NDArray[np.float64]:
        """Derivatives of J, ``−½ q(alpha)``."""
        return -0.5 * self.problem.quadratic_forms(self.alpha)


def evaluate(problem: Any, weights: NDArray, warm: NDArray | None, tol: float) -> WeightPoint:
    """J at the weights, the inner problem solved to a relative gap ``tol``."""
    return WeightPoint(problem, weights, *problem.solve_inner(weights, warm, tol))


def line_search(point: Any, slope: float, evaluate: Callable[[float, NDArray, float], Any]) -> Any:
    """The first of steps from 1 down that decreases the objective enough; None if none does.

    Points have a value and an alpha. ``evaluate`` makes that of a step, from an alpha to start from and the value
    that is low enough; ``slope`` is the derivative along the step.
    """
    step, alpha = 1.0, point.alpha
    for _ in range(MOST_TRIALS if slope < 0.0 else 0):
        goal = point.value + ENOUGH * step * slope
        trial = evaluate(step, alpha, goal)
        if trial.value <= goal:
            return trial
        alpha = trial.alpha
        # the parabola through value, slope and the trial's value, kept within sane limits
        excess = trial.value - point.value - step * slope
        step *= float(np.clip(-0.5 * slope * step / max(excess, 1e-300), 0.1, 0.5))
    return None


def start_from_sample(
    problem: Any, monitor: Monitor, solve: Callable[[MinMaxProblem, Monitor], None]
) -> tuple[NDArray, NDArray]:
    """Weights of the problem on an eighth of the samples, at least 500, to a gap of 1 %; a feasible alpha for all.

    An iteration there costs a sixty-fourth of one on all samples, of which it saves about half. C is scaled so that
    the loss keeps its share in the objective.
    """
    weights, alpha = problem.start()
    # problems that are more than this one have weights, or a memory, of their own
    if type(problem) is not MinMaxProblem or problem.n_kernels == 1 or problem.weight_set.is_box:
        return weights, alpha
    n = len(problem.stack)
    rows = np.sort(np.random.default_rng(0).permutation(n)[: max(n // PART, FEWEST)])
    smaller = problem.sample(rows) if n >= LARGE else None
    if smaller is None:
        return weights, alpha
    watcher = Monitor(smaller, max(ROUGH, monitor.tol))
    with contextlib.suppress(OutOfTime), time_limit(SHARE_OF_TIME * left()):
        solve(smaller, watcher)
    return (weights if watcher.best is None else watcher.best[0]), alpha


def newton(problem: Any, monitor: Monitor, start: Start = None, *, max_iter: int = 200) -> None:
    """Minimise a quadratic model of J over the set of weights, again and again [CR08, sect. 4].

    The problem, min-max or like it, has the curvature of J, at the cost of a factorisation, and the set of weights
    the least point of a model: a step that converges quadratically. Steps are shortened until J falls. For p = 1 and
    the capped simplex the planes that touch J at the points visited improve the bound, and take over every other
    iteration where J has kinks (kernels of low rank). Without a start it begins at the weights of a sample, if
    samples are many; ``max_iter`` is the largest number of points judged, at least two.
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
            constant, q = problem.cut(point.alpha)
            planes.add(constant, q, point.alpha)
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


def predicted(problem: MinMaxProblem, weights: Vector, alpha: NDArray) -> tuple[Vector, NDArray]:
    """Weights and alpha to start from, given the solution for another set of weights.

    J does not depend on the set: its quadratic model at that solution holds here, too. As sets differ in size the
    model is that at ``s·weights``, on the border of this one. With few samples at the bound C, ``J(s·g)`` is nearly
    ``J(g) / s``: gradient and curvature are divided by s² and s³, alpha by s.
    """
    on_border = problem.weight_set.snapped(weights)
    s = float(on_border.sum() / weights.sum())
    H = problem.curvature(weights, alpha, np.arange(problem.n_kernels), ridge=LEAST_RIDGE, rough=True)
    gradient = -0.5 * problem.quadratic_forms(alpha)
    return problem.weight_set.least_point(H / s**3, gradient / s**2, on_border), problem.inner.repair(alpha / s)


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


def _target(problem: Any, point: WeightPoint, known: Certificate, ridge: float) -> tuple[Vector, float]:
    """Least point of the quadratic model in the set, and the ridge of its curvature.

    Where kernels are of low rank, coefficients of many samples move as soon as a weight does: second derivatives
    are huge, hold nowhere but at the point itself, and a model with them promises next to nothing. A larger ridge
    looks at J from further off; the line search sees to the rest.
    """
    allowed, gradient, chosen = problem.weight_set, point.gradient, np.arange(len(point.weights))
    if allowed.total is not None:
        used = point.weights > 0.0
        between = used & (point.weights < 1.0)
        # the multiplier of the sum at a stationary point; all weights at a bound leave an interval, of which the end
        level = float(gradient[used].max())
        if between.any():
            level = float(gradient[between] @ point.weights[between]) / float(point.weights[between].sum())
        chosen = with_entering(used, gradient - level)
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


def with_entering(used: NDArray[np.bool_], excess: Vector) -> NDArray[np.intp]:
    """Kernels that are used, and of the others the few that would gain most: by how much, ``excess`` says."""
    entering = np.flatnonzero(~used & (excess < 0.0))
    entering = entering[np.argsort(excess[entering], kind="stable")[:MOST_ENTERING]]
    return np.sort(np.concatenate([np.flatnonzero(used), entering]))
