"""SimpleMKL: reduced gradient on the simplex of weights [RBCG08]; with another pivot on one with caps [GMSB11]."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from multikernel.problems.minmax import MinMaxProblem
from multikernel.runtime.monitor import InnerTolerance, Monitor
from multikernel.solvers.common.newton import Start, WeightPoint, evaluate, prove_by_one_alpha

Vector = NDArray[np.float64]

# Evaluations of J in a line search, and the share of the slope at its start that ends it.
MOST_TRIALS, FLAT = 12, 0.05


def descend(
    problem: MinMaxProblem,
    monitor: Monitor,
    start: Start,
    max_iter: int,
    move: Callable[[WeightPoint, float], WeightPoint],
) -> None:
    """Go from point to point by ``move``, which gets the tolerance of SVMs; it returns its point if none is better.

    ``max_iter`` is the largest number of points judged, the first included; at least two.
    """
    weights, alpha = problem.start() if start is None else start
    tol = InnerTolerance(monitor)
    point = evaluate(problem, weights, alpha, tol.value)
    for _ in range(max(max_iter - 1, 1)):
        if monitor(point.weights, point.alpha):
            prove_by_one_alpha(problem, monitor)
            return
        if tol.value > tol.follow():
            point = evaluate(problem, point.weights, point.alpha, tol.value)
        moved = move(point, tol.value)
        if moved is point:
            if not tol.tighten():
                return
            moved = evaluate(problem, point.weights, point.alpha, tol.value)
        point = moved
    monitor(point.weights, point.alpha)


def simplemkl(problem: MinMaxProblem, monitor: Monitor, start: Start = None, *, max_iter: int = 1000) -> None:
    """Reduced gradient with the largest weight as pivot, longest steps while J falls, then a line search.

    The steps are those of [RBCG08, algorithm 1]; the line search looks for a zero of the slope
    ``−½ Σ_j D_j q_j(alpha)`` by false position, which needs fewer SVMs than comparing values of J.
    """
    descend(problem, monitor, start, max_iter, lambda at, tol: reduced_step(at, int(np.argmax(at.weights)), tol))


def capped_reduced_gradient(
    problem: MinMaxProblem, monitor: Monitor, start: Start = None, *, max_iter: int = 1000
) -> None:
    """Reduced gradients on the capped simplex with the most central weight as pivot [GMSB11, alg. 1 to 3].

    As printed, algorithm 1 stops at once (it goes on while the change is *small*), algorithm 3 has a wrong sign,
    and the weights are to minimise a function of an alpha that is held, which goes back and forth between choices of
    t kernels. Here J is minimised with alpha solved anew at each trial, and the direction sums to zero.
    """
    pivot = central_weight
    descend(problem, monitor, start, max_iter, lambda at, tol: reduced_step(at, pivot(at.weights, at.gradient), tol))


def central_weight(weights: Vector, gradient: Vector) -> int:
    """The pivot of [GMSB11, alg. 2]: the weight nearest to one half.

    Where no weight lies between its bounds, as at every choice of t kernels, the paper's pivot could not move. There
    it is the weight at 1 that is worth least: all others gain from it, so that the direction stays in the set.
    """
    nearest = int(np.argmin(np.abs(weights - 0.5)))
    if 0.0 < weights[nearest] < 1.0:
        return nearest
    return int(np.argmax(np.where(weights >= 1.0, gradient, -np.inf)))


def reduced_gradient(weights: Vector, gradient: Vector, pivot: int) -> Vector:
    """The descent direction of [RBCG08, eq. (12)]: it keeps the sum, and weights at zero do not fall.

    Nor do weights at one rise [GMSB11, alg. 3]; on the simplex only the pivot can be at one.
    """
    direction = gradient[pivot] - gradient
    direction[((weights <= 0.0) & (direction < 0.0)) | ((weights >= 1.0) & (direction > 0.0))] = 0.0
    direction[pivot] = 0.0
    direction[pivot] = -direction.sum()
    return direction


def reduced_step(point: WeightPoint, pivot: int, tol: float, *, until_uphill: bool = True) -> WeightPoint:
    """To the border of the set along the reduced gradient as long as J falls, bending there; then the best point.

    ``until_uphill``: no further than where J begins to rise, even if it is lower at the border.
    """
    direction = reduced_gradient(point.weights, point.gradient, pivot)
    while True:
        longest, blocked = longest_step(point.weights, direction)
        if blocked < 0:
            return point
        end = border_point(point, direction, longest, blocked, tol)
        if not end.value < point.value or (until_uphill and end.gradient @ direction > 0.0):
            return exact_line_search(point, end, direction, longest, tol)
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


def border_point(point: WeightPoint, direction: Vector, longest: float, blocked: int, tol: float) -> WeightPoint:
    """Where the direction leaves the set, exactly at the bound of the weight that is blocked."""
    weights = point.weights + longest * direction
    weights[blocked] = 0.0 if direction[blocked] < 0.0 else 1.0
    return evaluate(point.problem, np.clip(weights, 0.0, 1.0), point.alpha, tol)


def exact_line_search(
    point: WeightPoint, end: WeightPoint, direction: Vector, longest: float, tol: float
) -> WeightPoint:
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
        trial = evaluate(point.problem, np.clip(point.weights + t * direction, 0.0, 1.0), best.alpha, tol)
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
