"""SimpleMKL: reduced gradient on the simplex of weights [RBCG08], and on one with caps [GMSB11]."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from multikernel.problems.minmax import MinMaxProblem
from multikernel.runtime.monitor import Monitor
from multikernel.solvers.common.inner_tolerance import InnerTolerance
from multikernel.solvers.mkl.newton import prove_alone

Vector = NDArray[np.float64]

# Evaluations of J in a line search, and the share of the slope at its start that ends it.
MOST_TRIALS, FLAT = 12, 0.05


@dataclass
class Point:
    """Weights with the value of J, the alpha of the SVM there, and the gradient −½ q(alpha)."""

    weights: Vector
    value: float
    alpha: NDArray
    gradient: Vector


def largest_weight(weights: Vector, gradient: Vector) -> int:
    """The pivot of [RBCG08]."""
    return int(np.argmax(weights))


def simplemkl(
    problem: MinMaxProblem,
    monitor: Monitor,
    start: tuple[NDArray, NDArray] | None = None,
    *,
    max_iter: int = 1000,
    pivot: Callable[[Vector, Vector], int] = largest_weight,
) -> None:
    """Reduced gradient with the largest weight as pivot, longest steps while J falls, then a line search.

    The steps are those of [RBCG08, algorithm 1]; the line search looks for a zero of the slope
    ``−½ Σ_j D_j q_j(alpha)`` by false position, which needs fewer SVMs than comparing values of J.

    Parameters
    ----------
    problem : MinMaxProblem
        With weights in [0, 1] of a given sum: ``LpBall(1)``, or ``CappedSimplex(t)`` with a pivot that suits it.
    monitor : Monitor
        Judges each iteration; has the result.
    start : (weights, alpha), optional
        Where to start.
    max_iter : int
        Largest number of points judged, the first included; at least two.
    pivot : callable
        Weights and gradient to the weight that makes up for what the others do.
    """
    weights, alpha = problem.start() if start is None else start
    tol = InnerTolerance(monitor)
    point = evaluate(problem, weights, alpha, tol.value)
    for _ in range(max(max_iter - 1, 1)):
        if monitor(point.weights, point.alpha):
            prove_alone(problem, monitor)
            return
        if tol.value > tol.follow():
            point = evaluate(problem, point.weights, point.alpha, tol.value)
        # 1. reduced gradient: what each weight gains from the pivot
        chosen = pivot(point.weights, point.gradient)
        direction = reduced_gradient(point.weights, point.gradient, chosen)
        # 2. to the border of the simplex as long as J falls, 3. then the best point on the way
        moved = descend(problem, point, direction, chosen, tol.value)
        if moved is point:
            if not tol.tighten():
                monitor.stopped = "rounding"
                return
            moved = evaluate(problem, point.weights, point.alpha, tol.value)
        point = moved
    monitor(point.weights, point.alpha)


def reduced_gradient(weights: Vector, gradient: Vector, pivot: int) -> Vector:
    """The descent direction of [RBCG08, eq. (12)]: it keeps the sum, and weights at zero do not fall.

    Nor do weights at one rise [GMSB11, alg. 3]; on the simplex only the pivot can be at one.

    Examples
    --------
    >>> import numpy as np
    >>> from multikernel.solvers.mkl.simplemkl import reduced_gradient
    >>> reduced_gradient(np.array([0.7, 0.3, 0.0]), np.array([-1.0, -2.0, -0.5]), 0)
    array([-1.,  1.,  0.])
    """
    direction = gradient[pivot] - gradient
    direction[((weights <= 0.0) & (direction < 0.0)) | ((weights >= 1.0) & (direction > 0.0))] = 0.0
    direction[pivot] = 0.0
    direction[pivot] = -direction.sum()
    return direction


def evaluate(problem: MinMaxProblem, weights: Vector, warm: NDArray, tol: float) -> Point:
    """J and its gradient at the weights."""
    value, alpha = problem.solve_inner(weights, warm, tol)
    return Point(weights, value, alpha, -0.5 * problem.quadratic_forms(alpha))


def descend(problem: MinMaxProblem, point: Point, direction: Vector, pivot: int, tol: float) -> Point:
    """The best point along the direction, which bends where a weight reaches a bound; ``point`` if none is better."""
    while True:
        longest, blocked = longest_step(point.weights, direction)
        if blocked < 0:
            return point
        weights = point.weights + longest * direction
        weights[blocked] = 0.0 if direction[blocked] < 0.0 else 1.0
        end = evaluate(problem, np.clip(weights, 0.0, 1.0), point.alpha, tol)
        if not end.value < point.value or end.gradient @ direction > 0.0:
            return line_search(problem, point, end, direction, longest, tol)
        point = end
        # the pivot takes over what the blocked weight would have given or taken
        if blocked == pivot:
            return point
        direction = direction.copy()
        direction[[blocked, pivot]] = 0.0
        direction[pivot] = -direction.sum()  # exactly zero if no other moves: a residue would go a long way


def longest_step(weights: Vector, direction: Vector) -> tuple[float, int]:
    """Step at which the first weight reaches zero or one, and which; -1 if none moves."""
    moving = np.flatnonzero(direction)
    if not len(moving):
        return 0.0, -1
    rest = np.where(direction[moving] < 0.0, weights[moving], 1.0 - weights[moving])
    steps = rest / np.abs(direction[moving])
    first = int(np.argmin(steps))
    return float(steps[first]), int(moving[first])


def line_search(
    problem: MinMaxProblem, point: Point, end: Point, direction: Vector, longest: float, tol: float
) -> Point:
    """Root of the slope of J between ``point`` (negative) and ``end`` (positive), by the Illinois rule.

    Where a trial leaves more than half of the interval, the next halves it: slopes can differ by many orders of
    magnitude, and false position then stays at one end.
    """
    best = end if end.value < point.value else point
    low, high = 0.0, longest
    slope_low, slope_high = float(point.gradient @ direction), float(end.gradient @ direction)
    flat = FLAT * abs(slope_low)
    if slope_low >= 0.0 or slope_high <= 0.0:
        return best
    side, halve = 0, False
    for _ in range(MOST_TRIALS):
        width = high - low
        t = low + width * (0.5 if halve else slope_low / (slope_low - slope_high))
        trial = evaluate(problem, np.clip(point.weights + t * direction, 0.0, 1.0), best.alpha, tol)
        if trial.value < best.value:
            best = trial
        slope = float(trial.gradient @ direction)
        if abs(slope) <= flat:
            break
        if slope < 0.0:
            low, slope_low, slope_high, side = t, slope, (0.5 * slope_high if side < 0 else slope_high), -1
        else:
            high, slope_high, slope_low, side = t, slope, (0.5 * slope_low if side > 0 else slope_low), 1
        halve = high - low > 0.5 * width
    return best
