"""Dual coordinate ascent on the group-norm problem: the finisher that closes the gap."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from multikernel.groupnorm import GroupNormProblem
from multikernel.losses import MulticlassHinge
from multikernel.monitor import Monitor
from multikernel.solvers.obscure import as_columns, online_stage
from multikernel.solvers.table import ScoreTable, generator

# Share of the duality gap that the inner problem may leave; sweeps of it before the weights move; how far weights go
# beyond their closed form, which alone converges slowly near p = 1.
SHARE_OF_GAP, MAX_SWEEPS, OVERSHOOT = 0.2, 60, 1.5
# Sweeps after which to go on in their direction.
SWEEPS_TO_EXTRAPOLATE = 10
# Bytes of rows of the combined kernel that are held at a time where the whole does not fit.
BLOCK_BYTES = 1 << 28


def sdca(
    problem: GroupNormProblem,
    monitor: Monitor,
    start: tuple[NDArray, NDArray] | None = None,
    *,
    max_iter: int = 1000,
    eta: float = 2.0,
    random_state: Any = None,
) -> None:
    """Alternate coordinate ascent on the weights' kernel with closed-form weights; the monitor has the result.

    By duality the problem is a minimum over weights d with ``‖d‖_{p/(2-p)} <= 1`` of the multiclass SVM of [CS01] on
    ``K(d) = Σ_j d_j K_j``. For fixed d, one row of alpha at a time is maximised exactly, an update costing O(nM)
    whatever F; then ``d_j = (‖w_j‖ / ‖w‖_p)^(2-p)``, as in [KBSZ11, eq. (26)]. Stage 1 of OBSCURE finds the start.

    Parameters
    ----------
    problem : GroupNormProblem
        With ``sparsity`` 0.
    monitor : Monitor
        Judges each alternation.
    start : (weights, alpha), optional
        Where to start, instead of the online stage.
    max_iter : int
        Largest number of alternations.
    eta : float
        Step of the online stage.
    random_state : int, Generator or RandomState, optional
        Order of the samples.
    """
    rng = generator(random_state)
    passes = 0  # over the samples: epochs, sweeps, and a look at all kernels for the weights
    if start is None:
        weights, alpha, passes = _start(problem, rng, eta)
    else:
        weights, alpha = np.array(start[0]), as_columns(start[1])
    alpha = problem.loss.feasible(problem.lam * alpha) / problem.lam
    weights = problem.inside(weights, 1e-12)
    goal = np.inf
    for _ in range(max_iter):
        # 1. alpha, weights fixed: no more exact than the weights deserve
        alpha, sweeps = _ascend(problem, weights, alpha, goal, rng)
        passes += sweeps + 1
        monitor.notes = {"sweeps": sweeps, "passes": passes}
        if monitor(weights, alpha):
            return
        gap = max(monitor.history[-1]["gap"], monitor.tol * monitor.history[-1]["objective"])
        goal = min(goal, SHARE_OF_GAP * gap)
        # 2. weights, alpha fixed
        _, squares = problem.evaluate(weights, alpha)
        weights = problem.next_weights(weights, squares, OVERSHOOT)


def _start(problem: GroupNormProblem, rng: np.random.Generator, eta: float) -> tuple[NDArray, NDArray, int]:
    """Weights, alpha and epochs of the online stage; weights near its own: those of a high power are noisy."""
    state = ScoreTable(problem)
    epochs = online_stage(state, rng, eta, max_epochs=5)
    norms = np.sqrt(np.maximum(state.squares, 0.0))
    return problem.weight_set.weights(norms), state.coef / problem.q, epochs


def _ascend(
    problem: GroupNormProblem, weights: NDArray, alpha: NDArray, goal: float, rng: np.random.Generator
) -> tuple[NDArray[np.float64], int]:
    """Coordinate ascent from ``alpha`` until the gap on this kernel is at most ``goal``; alpha and sweeps done."""
    from multikernel.compiled.crammer_singer import coordinate_sweep

    loss, n = problem.loss, len(problem.loss)
    rows = CombinedRows(problem, weights)
    alpha = np.array(alpha)
    scores = (
        np.ascontiguousarray(problem.evaluate(weights, alpha)[0].T) if alpha.any() else np.zeros(alpha.shape[::-1])
    )
    diagonal = weights @ problem.stack.diagonal()
    caps = loss.importance / problem.lam
    threshold = 0.0
    earlier = alpha.copy(), scores.copy()
    for sweep in range(1, MAX_SWEEPS + 1):
        total = 0.0
        for order in rows.blocks(rng.permutation(n)):
            kernel, slot = rows.load(order)
            for repeat in range(
                1 if rows.complete else 3
            ):  # rows that had to be computed are worth more than one look
                share = coordinate_sweep(
                    kernel, slot, diagonal, loss.labels, loss.cost, caps, order, threshold, alpha, scores
                )
                total += share if repeat == 0 else 0.0
        if sweep > 1 and problem.lam * total <= goal:
            break
        threshold = max(0.3 * total / n, 0.0)
        # not after the last sweep: a sweep has to settle the rows again, or the gap is worse for it
        if sweep % SWEEPS_TO_EXTRAPOLATE == 0 and sweep < MAX_SWEEPS and rows.complete:
            _extrapolate(loss, kernel, caps, alpha, scores, alpha - earlier[0], scores - earlier[1])
            earlier = alpha.copy(), scores.copy()
    return alpha, sweep


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
    of_scores = (kernel[:, support].astype(np.float64, copy=False) @ direction[support]).T
    step = min(best_step(direction, of_scores), 1.0)
    alpha += step * direction
    scores += step * of_scores


class CombinedRows:
    """Rows of ``K(d)``: the whole matrix where it fits, else a block of rows at a time."""

    def __init__(self, problem: GroupNormProblem, weights: NDArray):
        self.stack, self.weights = problem.stack, weights
        n = len(self.stack)
        size = n * self.stack.dtype.itemsize
        self.complete = problem.fits_combined
        self._slot = np.arange(n) if self.complete else np.full(n, -1, dtype=np.int64)
        self._capacity = n if self.complete else int(np.clip(min(problem.memory // 4, BLOCK_BYTES) // size, 1, n))
        self._rows = problem.kernel(weights) if self.complete else np.empty((0, n), dtype=self.stack.dtype)

    def blocks(self, order: NDArray) -> list[NDArray]:
        """Cut an order of the samples into parts whose rows fit."""
        return [order[k : k + self._capacity] for k in range(0, len(order), self._capacity)]

    def load(self, samples: NDArray) -> tuple[NDArray, NDArray]:
        """Rows (b, n) with those of ``samples`` among them, and the place of each sample's row (n,)."""
        if not self.complete:
            samples = np.sort(samples)
            self._rows = self.stack.take(rows=samples).combine(self.weights)
            self._slot[:] = -1
            self._slot[samples] = np.arange(len(samples))
        return self._rows, self._slot
