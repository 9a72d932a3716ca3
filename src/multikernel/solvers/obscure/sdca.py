"""Dual coordinate ascent on the group-norm problem: the finisher that closes the gap."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from multikernel.problems.extrapolation import extrapolated_move
from multikernel.problems.obscure import MulticlassHinge, ObscureProblem
from multikernel.runtime.clock import OutOfTime
from multikernel.runtime.monitor import Monitor
from multikernel.solvers.common.newton import Start
from multikernel.solvers.obscure.obscure import ENTRIES_AT_ONCE, as_columns, generator

SHARE_OF_GAP, MAX_SWEEPS = 0.3, 60  # share of the gap that the inner problem may leave; sweeps before weights move
OVERSHOOT, MEMORY, LONGEST = 1.5, 6, np.log(1e4)  # moves of log d: overshoot of the closed form, mixed, longest
SWEEPS_TO_EXTRAPOLATE = 10  # sweeps after which to go on in their direction


def sdca(
    problem: ObscureProblem, monitor: Monitor, start: Start = None, *, max_iter: int = 1000, random_state: Any = None
) -> None:
    """Alternate coordinate ascent on the weights' kernel with closed-form weights; the monitor has the result.

    By duality the problem is a minimum over weights d with ``‖d‖_{p/(2-p)} <= 1`` of the multiclass SVM of [CS01] on
    ``K(d) = Σ_j d_j K_j``. For fixed d, one row of alpha at a time is maximised exactly, an update costing O(nM)
    whatever F; then ``d_j = (‖w_j‖ / ‖w‖_p)^(2-p)``, as in [KBSZ11, eq. (26)], with the last few moves of log d mixed
    [WN11]: near p = 1 that takes a third of the alternations.
    """
    rng = generator(random_state)
    weights, alpha = problem.start() if start is None else start
    weights, alpha = problem.inside(weights), problem.feasible(as_columns(alpha))
    passes = 0  # over the samples: sweeps, and a look at all kernels for the weights
    goal, before = np.inf, np.inf
    memory: list[tuple[NDArray, NDArray]] = []
    for _ in range(max_iter):
        # 1. alpha, weights fixed: no more exact than the weights deserve
        alpha = np.array(alpha, order="C")
        try:
            sweeps = _ascend(problem, weights, alpha, goal, rng)
        except OutOfTime as end:
            end.reached = weights, alpha
            raise
        passes += sweeps + 1
        monitor.notes = {"sweeps": sweeps, "passes": passes}
        if monitor(weights, alpha):
            return
        objective = monitor.history[-1]["objective"]
        goal = min(goal, SHARE_OF_GAP * max(monitor.history[-1]["gap"], monitor.tol * objective))
        # 2. weights, alpha fixed
        best = problem.next_weights(weights, problem.squares(alpha))
        memory = memory[1 - MEMORY :] if objective < before else []
        memory, before = [*memory, (np.log(weights), OVERSHOOT * np.log(best / weights))], objective
        move = np.clip(extrapolated_move(memory, np.sqrt(best)), -LONGEST, LONGEST)
        weights = problem.inside(weights * np.exp(move))


def _ascend(problem: ObscureProblem, weights: NDArray, alpha: NDArray, goal: float, rng: np.random.Generator) -> int:
    """Coordinate ascent on ``alpha``, in place, until the gap on this kernel is at most ``goal``; returns sweeps."""
    from multikernel.compiled.crammer_singer import coordinate_sweep

    loss, n = problem.loss, len(problem.loss)
    rows = problem.rows(weights)
    kernel, slot = rows.rows[0], rows.slot
    scores = np.ascontiguousarray(problem.scores(weights, alpha).T) if alpha.any() else np.zeros(alpha.shape[::-1])
    diagonal = weights @ problem.stack.diagonal()
    caps = loss.importance / problem.lam
    threshold = 0.0
    earlier, scratch = (alpha.copy(), scores.copy()), np.empty((2, loss.n_classes))
    for sweep in range(1, MAX_SWEEPS + 1):
        total = 0.0
        for order in rows.parts(rng.permutation(n), ENTRIES_AT_ONCE):
            for repeat in range(1 if rows.complete else 3):  # rows that had to be computed are worth several looks
                share = coordinate_sweep(
                    kernel, slot, diagonal, loss.labels, loss.cost, caps, order, threshold, alpha, scores, *scratch
                )
                total += share if repeat == 0 else 0.0
        if np.isinf(goal):  # no gap is known yet: by the value of this kernel's dual
            goal = SHARE_OF_GAP * problem.lam * (loss.linear(alpha) - 0.5 * float((alpha * scores.T).sum()))
        if sweep > 1 and problem.lam * total <= goal:
            break
        threshold = max(0.3 * total / n, 0.0)
        # not after the last sweep: a sweep has to settle the rows again, or the gap is worse for it
        if sweep % SWEEPS_TO_EXTRAPOLATE == 0 and sweep < MAX_SWEEPS and rows.complete:
            _extrapolate(loss, kernel, caps, alpha, scores, alpha - earlier[0], scores - earlier[1])
            earlier = alpha.copy(), scores.copy()
    return sweep


def _extrapolate(
    loss: MulticlassHinge, kernel: NDArray, caps: NDArray, alpha: NDArray, scores: NDArray,
    change: NDArray, change_of_scores: NDArray,
) -> None:  # fmt: skip
    """Go on in the direction of the last sweeps, each row as far as it may, as long as the dual rises; in place.

    Along directions in which a kernel does not bend coordinates can only take turns in small steps: two copies of a
    sample with two labels would take as many sweeps as C is large.
    """

    def best_step(direction: NDArray, of_scores: NDArray) -> float:
        slope = loss.linear(direction) - float((direction * scores.T).sum())
        bend = float((direction * of_scores.T).sum())
        return 0.0 if not slope > 0.0 else slope / bend if bend > 0.0 else np.inf

    step = best_step(change, change_of_scores)
    if not step > 0.0:
        return
    own = np.arange(len(alpha)), loss.labels
    room = -alpha
    room[own] += caps
    with np.errstate(divide="ignore", invalid="ignore"):
        limits = np.where(change > 0.0, np.maximum(room, 0.0) / change, np.inf).min(axis=1)
    moving = change.any(axis=1)
    direction = np.where(moving, np.minimum(step, limits), 0.0)[:, None] * change
    support = np.flatnonzero(moving)
    of_scores = direction[support].T @ kernel[support].astype(np.float64, copy=False)
    step = min(best_step(direction, of_scores), 1.0)
    alpha += step * direction
    scores += step * of_scores
