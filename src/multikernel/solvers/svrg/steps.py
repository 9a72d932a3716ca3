"""Epochs of variance-reduced steps on a kernel, or on explicit features."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from multikernel.gram import KernelRows
from multikernel.problems.svrg import SmoothProblem
from multikernel.runtime.clock import check
from multikernel.solvers.common.score_table import ENTRIES_AT_ONCE
from multikernel.solvers.obscure.sdca import CombinedRows

Matrix = NDArray[np.float64]


class Steps:
    """What compiled steps read and write besides kernels, for B blocks that shrink and stop each on its own.

    Parameters
    ----------
    problem : SmoothProblem
    scores : ndarray of shape (n, T)
        Scores at the snapshot.
    coef : ndarray of shape (B, n, T)
        Coefficients at the snapshot.
    step, decay, stop : sequences of length B
        Step size, share by which a step shrinks w, and number of steps, of each block.
    """

    def __init__(
        self,
        problem: SmoothProblem,
        scores: Matrix,
        coef: NDArray,
        step: ArrayLike,
        decay: ArrayLike,
        stop: ArrayLike,
    ):
        loss = problem.loss
        snapshot = np.ascontiguousarray(loss.derivative(scores))
        self.full = loss.importance[:, None] * snapshot  # coefficients of the loss's part of the full gradient
        self.coef = np.array(coef, order="C")
        self.scale, self.drift = np.ones(len(coef)), np.zeros(len(coef))
        self.scratch = np.empty((3, snapshot.shape[1]))
        self.arguments = (
            loss.code, loss.width, loss.smoothness, loss.targets, len(loss) * loss.importance, snapshot,
            np.asarray(step, dtype=np.float64), np.asarray(decay, dtype=np.float64), np.asarray(stop, dtype=np.int64),
        )  # fmt: skip

    @property
    def state(self) -> tuple[NDArray, NDArray, NDArray, NDArray]:
        """Arrays that the steps change."""
        return self.coef, self.scale, self.drift, self.scratch

    def blocks(self) -> NDArray[np.float64]:
        """Coefficients of each block as they stand, shape (B, n, T)."""
        return self.scale[:, None, None] * self.coef + self.drift[:, None, None] * self.full


def largest_curvature(problem: SmoothProblem, weights: NDArray) -> float:
    """Bound on the curvature of any one sample's loss, times n, under the kernel at ``weights``."""
    diagonal = weights @ problem.stack.diagonal()
    return problem.loss.smoothness * float((len(problem.loss) * problem.loss.importance * diagonal).max(initial=0.0))


def epoch(
    problem: SmoothProblem,
    weights: NDArray,
    alpha: Matrix,
    scores: Matrix,
    image: Matrix,
    order: NDArray[np.int64],
    step: float,
) -> tuple[Matrix, Matrix]:
    """Steps from ``alpha`` on the samples of ``order`` with weights fixed; the new alpha and its scores.

    With ``w_j = sqrt(d_j) v_j`` the regulariser is ``lam/2 ‖v‖²``, and a step in v is one in w_j of size ``step ·
    d_j``: that keeps one alpha for all kernels, and on Gram matrices a step costs a row of one kernel, not of F.

    Parameters
    ----------
    problem : SmoothProblem
    weights : ndarray of shape (F,)
        Weights d.
    alpha, scores, image : ndarrays of shape (n, T)
        Coefficients of the snapshot, its scores, and the scores of its gradient's coefficients ``c_i ℓ'(f_i)``.
    order : ndarray of int
        Samples to step on.
    step : float
        Step size.
    """
    state = Steps(problem, scores, alpha[None], [step], [step * problem.lam], [len(order)])
    problem.passes += len(order) / len(problem.loss)
    if problem.stack.explicit:
        from multikernel.compiled.svrg import feature_epoch

        both = problem.vector(weights, np.hstack([alpha, state.full]))
        w, base = (np.ascontiguousarray(part.T) for part in np.split(both, 2, axis=1))
        metric = np.repeat(weights, problem.ranks)
        scale, drift, image = 1.0, 0.0, np.ascontiguousarray(image)
        scratch, size = (state.scratch, np.empty(w.shape[1])), max(1, ENTRIES_AT_ONCE // w.size)
        for start in range(0, len(order), size):
            check()
            scale, drift = feature_epoch(
                problem.features, order[start : start + size], *state.arguments[:6], step, step * problem.lam, metric,
                image, w, state.coef[0], scale, drift, *scratch,
            )  # fmt: skip
        state.scale[0], state.drift[0] = scale, drift
        return state.blocks()[0], problem.from_features(np.ascontiguousarray((scale * w + drift * base).T))
    from multikernel.compiled.svrg import kernel_steps

    rows = CombinedRows(problem, weights)  # type: ignore[arg-type]  # a problem with the same kernel() will do
    table, image_table = np.array(scores.T[None], order="C"), np.array(image.T[None], order="C")
    done = 0
    for part in rows.blocks(order):
        kernel, slot = rows.load(part)
        kernel_steps(kernel[None], slot, part, done, *state.arguments, image_table, table, *state.state)
        done += len(part)
    return state.blocks()[0], state.scale[0] * table[0].T + state.drift[0] * image


class BlockSteps:
    """Steps with a step size, a shrinkage and a number of steps for each kernel, as in [AOJS16, alg. 1].

    Parameters
    ----------
    problem : SmoothProblem
    """

    def __init__(self, problem: SmoothProblem):
        self.problem = problem
        low_rank = problem.stack.explicit
        self._rows = None if low_rank else KernelRows(problem.stack, problem.memory)

    def begin(self, coef: NDArray, step: NDArray, decay: NDArray, stop: NDArray) -> Matrix:
        """Take a snapshot at the coefficients ``coef`` (F, n, T); returns its scores (n, T)."""
        problem = self.problem
        problem.passes += 2.0  # scores, and the full gradient
        shares = problem.scores_of_blocks(coef)
        scores = shares.sum(axis=0)
        self.state = Steps(problem, scores, coef, step, decay, stop)
        if self._rows is None:
            ones = np.ones(problem.n_kernels)
            parts = np.repeat(np.arange(problem.n_kernels), problem.ranks)
            bounds = np.concatenate([[0], np.cumsum(problem.ranks)])
            features = problem.features
            w = np.vstack([features[:, a:b].T @ c for a, b, c in zip(bounds, bounds[1:], coef)])
            self._vectors = (np.ones(len(parts)), problem.vector(ones, self.state.full).T.copy(), w.T.copy())
            self._bounds = bounds
        else:
            self._table = np.ascontiguousarray(np.moveaxis(shares, 2, 1))
            self._image = np.ascontiguousarray(np.moveaxis(problem.stack.apply(self.state.full), 2, 1))
        return scores

    def run(self, order: NDArray[np.int64], first: int) -> None:
        """Steps on the samples of ``order``, the first of which is number ``first`` of its epoch."""
        from multikernel.compiled.svrg import feature_steps, kernel_steps

        state, rows = self.state, self._rows
        self.problem.passes += len(order) / len(self.problem.loss)
        size = max(1, ENTRIES_AT_ONCE // (self._vectors[2] if rows is None else self._table).size)
        if rows is not None and not rows.complete:
            size = min(size, rows.capacity)
        for start in range(0, len(order), size):
            check()
            part = order[start : start + size]
            if rows is None:
                features = self.problem.features, self._bounds
                feature_steps(*features, part, first + start, *state.arguments, *self._vectors, *state.state)
                continue
            if not rows.complete:
                rows.load(np.unique(part))
            kernel_steps(
                rows.rows, rows.slot, part, first + start, *state.arguments, self._image, self._table, *state.state
            )
