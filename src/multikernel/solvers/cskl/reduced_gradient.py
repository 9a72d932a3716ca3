"""CSKL: weights between 0 and 1 that sum to t, by reduced gradients or linear programs for directions [GMSB11]."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from multikernel.problems.minmax import MinMaxProblem
from multikernel.problems.weight_sets import CappedSimplex
from multikernel.runtime.monitor import Monitor
from multikernel.solvers.common.inner_tolerance import InnerTolerance
from multikernel.solvers.mkl.newton import newton, prove_alone
from multikernel.solvers.mkl.silp import silp
from multikernel.solvers.mkl.simplemkl import Point, evaluate, line_search, longest_step, simplemkl

Vector = NDArray[np.float64]


def central_weight(weights: Vector, gradient: Vector) -> int:
    """The pivot of [GMSB11, alg. 2]: the weight nearest to one half.

    Where no weight lies between its bounds, as at every choice of t kernels, the paper's pivot could not move. There
    it is the weight at 1 that is worth least: all others gain from it, so that the direction stays in the set.

    Examples
    --------
    >>> import numpy as np
    >>> from multikernel.solvers.cskl.reduced_gradient import central_weight
    >>> central_weight(np.array([1.0, 0.6, 0.4, 0.0]), np.zeros(4))
    1
    >>> central_weight(np.array([1.0, 1.0, 0.0]), np.array([-3.0, -1.0, -2.0]))
    1
    """
    nearest = int(np.argmin(np.abs(weights - 0.5)))
    if 0.0 < weights[nearest] < 1.0:
        return nearest
    return int(np.argmax(np.where(weights >= 1.0, gradient, -np.inf)))


def capped_reduced_gradient(
    problem: MinMaxProblem,
    monitor: Monitor,
    start: tuple[NDArray, NDArray] | None = None,
    *,
    max_iter: int = 1000,
) -> None:
    """Reduced gradients with the most central weight as pivot [GMSB11, alg. 1 to 3].

    As printed, algorithm 1 stops at once (it goes on while the change is *small*), algorithm 3 has a wrong sign,
    and the weights are to minimise a function of an alpha that is held, which goes back and forth between choices of
    t kernels. Here J is minimised with alpha solved anew at each trial, and the direction sums to zero.

    Parameters
    ----------
    problem : MinMaxProblem
        With a :class:`~multikernel.problems.weight_sets.CappedSimplex`.
    monitor : Monitor
        Judges each iteration; has the result.
    start : (weights, alpha), optional
        Where to start.
    max_iter : int
        Largest number of points judged, the first included; at least two.
    """
    simplemkl(problem, monitor, start, max_iter=max_iter, pivot=central_weight)


def lp_direction(
    problem: MinMaxProblem,
    monitor: Monitor,
    start: tuple[NDArray, NDArray] | None = None,
    *,
    max_iter: int = 1000,
    away: bool = True,
) -> None:
    """Directions by a linear program, each followed by a line search [GMSB11, eq. (4.21), its bounds in order].

    The program ``min φ·D, Σ D = 0, −γ ≤ D ≤ 1 − γ`` is solved by the t kernels with the smallest φ, less γ. Alone
    it converges like one over the number of iterations, because every direction shrinks all weights that are
    not chosen. ``away`` therefore starts from the *worst* choice with the same zeros and ones as γ, not from γ:
    weights then move from where they are worth least to where they are worth most, and convergence is much faster.

    Parameters
    ----------
    problem : MinMaxProblem
        With a :class:`~multikernel.problems.weight_sets.CappedSimplex`.
    monitor : Monitor
        Judges each iteration; has the result.
    start : (weights, alpha), optional
        Where to start.
    max_iter : int
        Largest number of points judged, the first included; at least two.
    away : bool
        Whether directions lead away from the worst choice; False is the paper's program.
    """
    weights, alpha = problem.start() if start is None else start
    allowed = CappedSimplex(float(problem.weight_set.total or 1.0))
    tol = InnerTolerance(monitor)
    point = evaluate(problem, weights, alpha, tol.value)
    for _ in range(max(max_iter - 1, 1)):
        if monitor(point.weights, point.alpha):
            prove_alone(problem, monitor)
            return
        if tol.value > tol.follow():
            point = evaluate(problem, point.weights, point.alpha, tol.value)
        # 1. the direction, 2. the best point on it
        best = allowed.vertex(-point.gradient)
        moved = point
        if away:
            moved = _along(problem, point, best - worst_choice(point.weights, point.gradient), tol.value)
        if moved is point:
            moved = _along(problem, point, best - point.weights, tol.value)
        if moved is point:
            if not tol.tighten():
                monitor.stopped = "rounding"
                return
            moved = evaluate(problem, point.weights, point.alpha, tol.value)
        point = moved
    monitor(point.weights, point.alpha)


def _along(problem: MinMaxProblem, point: Point, direction: Vector, tol: float) -> Point:
    """The best point on the way to the border of the set; ``point`` if none is better."""
    # exactly zero in sum: a residue of two choices that are the same to rounding would go a long way
    direction[np.argmax(np.abs(direction))] -= direction.sum()
    longest, blocked = longest_step(point.weights, direction)
    if blocked < 0 or not point.gradient @ direction < 0.0:
        return point
    border = point.weights + longest * direction
    border[blocked] = np.round(border[blocked])
    end = evaluate(problem, np.clip(border, 0.0, 1.0), point.alpha, tol)
    return line_search(problem, point, end, direction, longest, tol)


def worst_choice(weights: Vector, gradient: Vector) -> Vector:
    """Weights with the same sum, zeros and ones, and the largest ``gradient · g``.

    Examples
    --------
    >>> import numpy as np
    >>> from multikernel.solvers.cskl.reduced_gradient import worst_choice
    >>> worst_choice(np.array([0.0, 0.5, 0.25, 0.25]), np.array([0.0, -3.0, -1.0, -2.0]))
    array([0., 0., 1., 0.])
    """
    worst = np.where(weights >= 1.0, 1.0, 0.0)
    between = np.flatnonzero((weights > 0.0) & (weights < 1.0))
    rest = float(weights[between].sum())
    if len(between) and rest > 0.0:
        worst[between] = CappedSimplex(min(rest, len(between))).vertex(gradient[between])
    return worst


CAPPED_SOLVERS: dict[str, Callable[..., None]] = {
    "auto": newton,
    "newton": newton,
    "reduced-gradient": capped_reduced_gradient,
    "lp": lp_direction,
    "silp": silp,
}
