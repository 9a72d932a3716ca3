"""CSKL as printed: reduced gradients [GMSB11, alg. 1 to 3], and linear programs for directions [eq. (4.21)]."""

import numpy as np
from numpy.typing import NDArray

from multikernel.problems.minmax import MinMaxProblem
from multikernel.problems.weight_sets import CappedSimplex
from multikernel.runtime.monitor import SHARE, Monitor
from multikernel.solvers.common.newton import Start, WeightPoint, evaluate
from multikernel.solvers.mkl.simplemkl import border_point, descend, exact_line_search, longest_step, reduced_step

Vector = NDArray[np.float64]


def cskl_printed(problem: MinMaxProblem, monitor: Monitor, start: Start = None, *, max_iter: int = 1000) -> None:
    """Algorithm 1 of [GMSB11] with ε = ``monitor.tol`` of the objective; the monitor has the result.

    Mended are slips that no run could survive: the loop goes on while the change is *large*; J is minimised with
    alpha solved again at each trial; directions sum to zero (the pivot *gains* D_ν in algorithm 2, and D_m has the
    sign of a descent in algorithm 3), and a weight at zero may rise again. Kept are the pivot, the weight nearest to
    one half, which cannot move where all weights are zero or one, and the stop, which proves nothing.
    """
    tol = SHARE * monitor.tol
    point = evaluate(problem, *(problem.start() if start is None else start), tol)
    settled, monitor.keep_last = False, True
    for _ in range(max_iter):
        monitor.stopped = "settled" if settled else monitor.stopped
        if monitor(point.weights, point.alpha) or settled:
            return
        pivot = int(np.argmin(np.abs(point.weights - 0.5)))
        moved = reduced_step(point, pivot, tol, until_uphill=False)
        settled = abs(moved.value - point.value) <= monitor.tol * abs(moved.value)
        point = moved


def lp_direction(
    problem: MinMaxProblem, monitor: Monitor, start: Start = None, *, max_iter: int = 1000, away: bool = True
) -> None:
    """Directions by a linear program, each followed by a line search [GMSB11, eq. (4.21), its bounds in order].

    The program ``min φ·D, Σ D = 0, −γ ≤ D ≤ 1 − γ`` is solved by the t kernels with the smallest φ, less γ. Alone
    it converges like one over the number of iterations, because every direction shrinks all weights that are
    not chosen. ``away`` therefore starts from the *worst* choice with the same zeros and ones as γ, not from γ:
    weights then move from where they are worth least to where they are worth most, and convergence is much faster.
    """
    allowed = CappedSimplex(float(problem.weight_set.total or 1.0))

    def move(point: WeightPoint, tol: float) -> WeightPoint:
        best = allowed.vertex(-point.gradient)
        moved = _along(point, best - worst_choice(point.weights, point.gradient), tol) if away else point
        return _along(point, best - point.weights, tol) if moved is point else moved

    descend(problem, monitor, start, max_iter, move)


def _along(point: WeightPoint, direction: Vector, tol: float) -> WeightPoint:
    """The best point on the way to the border of the set; ``point`` if none is better."""
    # exactly zero in sum: a residue of two choices that are the same to rounding would go a long way
    direction[np.argmax(np.abs(direction))] -= direction.sum()
    longest, blocked = longest_step(point.weights, direction)
    if blocked < 0 or not point.gradient @ direction < 0.0:
        return point
    end = border_point(point, direction, longest, blocked, tol)
    return exact_line_search(point, end, direction, longest, tol)


def worst_choice(weights: Vector, gradient: Vector) -> Vector:
    """Weights with the same sum, zeros and ones, and the largest ``gradient · g``."""
    worst = np.where(weights >= 1.0, 1.0, 0.0)
    between = np.flatnonzero((weights > 0.0) & (weights < 1.0))
    rest = float(weights[between].sum())
    if len(between) and rest > 0.0:
        worst[between] = CappedSimplex(min(rest, len(between))).vertex(gradient[between])
    return worst
