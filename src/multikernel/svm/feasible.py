"""Points of {lo <= b <= hi, sums of b over groups fixed}, and weighted quantiles."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]


def project_to_sum(b: Vector, lo: Vector, hi: Vector, total: float) -> Vector:
    """Nearest point to ``b`` in the box with entries that sum to ``total`` (clipped to what the box allows).

    The point is ``clip(b - shift, lo, hi)``; its sum falls with the shift and is linear between the
    breakpoints ``b - hi`` and ``b - lo``.

    Examples
    --------
    >>> import numpy as np
    >>> from multikernel.svm.feasible import project_to_sum
    >>> project_to_sum(np.array([1.0, 0.2]), np.zeros(2), np.ones(2), total=1.0)
    array([0.9, 0.1])
    """
    if len(b) == 0:
        return b
    nearby = b - (math.fsum(b) - total) / len(b)
    if np.all((nearby >= lo) & (nearby <= hi)):
        return nearby
    starts, stops = b - hi, b - lo
    knots = np.concatenate([starts, stops])
    order = np.argsort(knots, kind="stable")
    knots = knots[order]
    # between starts[k] and stops[k] entry k falls at rate one
    slopes = np.cumsum(np.where(order < len(b), 1.0, -1.0))
    fallen = np.concatenate([[0.0], np.cumsum(slopes[:-1] * np.diff(knots))])
    excess = min(max(hi.sum() - total, 0.0), fallen[-1])
    k = int(np.searchsorted(fallen, excess, side="left"))
    if k == 0 or slopes[k - 1] <= 0.0:
        shift = knots[k]
    else:
        shift = knots[k - 1] + (excess - fallen[k - 1]) / slopes[k - 1]
    return np.clip(b - shift, lo, hi)


def settle_sum(b: Vector, lo: Vector, hi: Vector, total: float) -> Vector:
    """Make the entries sum to ``total``, moving those strictly inside the box first.

    Entries at a bound stay there unless the others cannot take the whole difference, so that a warm start
    keeps its support.
    """
    b = np.clip(b, lo, hi)
    for movable in ((b > lo) & (b < hi), b != 0.0, np.ones(len(b), dtype=bool)):
        rest = math.fsum(b[~movable])
        b[movable] = project_to_sum(b[movable], lo[movable], hi[movable], total - rest)
        if abs(math.fsum(b) - total) <= 1e-12 * np.abs(b).sum():
            break
    return absorb_rounding(b, lo, hi, total)


def absorb_rounding(b: Vector, lo: Vector, hi: Vector, total: float) -> Vector:
    """Give what rounding left between the sum and ``total`` to the entry with most room on both sides."""
    error = math.fsum(b) - total
    if error == 0.0 or len(b) == 0:
        return b
    k = int(np.argmax(np.minimum(b - lo, hi - b)))
    b = b.copy()
    b[k] = min(max(b[k] - error, lo[k]), hi[k])
    return b


def weighted_quantile(points: Vector, weights: Vector, mass: float) -> float:
    """Where the weights of the points up to there first reach ``mass``; the middle where that is an interval.

    It minimises Σ weights |.|_+ -like sums: the slope of a piecewise linear convex function is
    ``cumulative weight - mass``.

    Examples
    --------
    >>> import numpy as np
    >>> from multikernel.svm.feasible import weighted_quantile
    >>> weighted_quantile(np.array([3.0, 1.0, 2.0]), np.ones(3), mass=1.5)
    2.0
    >>> weighted_quantile(np.array([3.0, 1.0, 2.0]), np.ones(3), mass=2.0)
    2.5
    """
    used = weights > 0.0
    points, weights = points[used], weights[used]
    if len(points) == 0:
        return 0.0
    order = np.argsort(points, kind="stable")
    cumulative = np.cumsum(weights[order])
    rounding = 1e-12 * cumulative[-1]
    low = min(int(np.searchsorted(cumulative, mass - rounding)), len(points) - 1)
    high = min(int(np.searchsorted(cumulative, mass + rounding)), len(points) - 1)
    return float(0.5 * (points[order[low]] + points[order[high]]))


def fill_sum(lo: Vector, hi: Vector, total: float) -> Vector:
    """Raise the entries from zero to their bounds one after the other until they sum to ``total``.

    Examples
    --------
    >>> import numpy as np
    >>> from multikernel.svm.feasible import fill_sum
    >>> fill_sum(np.zeros(3), np.ones(3), total=1.5)
    array([1. , 0.5, 0. ])
    """
    room = hi if total > 0 else -lo
    filled = np.clip(abs(total) - (np.cumsum(room) - room), 0.0, room)
    return filled if total > 0 else -filled
