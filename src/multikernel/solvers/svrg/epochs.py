"""Epochs of variance-reduced steps on kernels."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from multikernel.problems.svrg import Matrix, SmoothProblem
from multikernel.solvers.obscure.obscure import ENTRIES_AT_ONCE, generator
from multikernel.solvers.svrg.iterate import Direction, Iterate

# How step sizes change after an epoch that lowered the objective, and after one that did not.
GROWTH, CUT = 1.3, 0.4


class Epochs:
    """Epochs over all samples in random order, with a step size that adapts.

    With ``w_j = sqrt(d_j) v_j`` the regulariser is ``lam/2 ‖v‖²``, and a step in v is one in w_j of size ``step ·
    d_j``: that keeps one alpha for all kernels, and on Gram matrices a step costs a row of one kernel, not of F.
    """

    def __init__(self, problem: SmoothProblem, random_state: Any = None):
        self.problem, self.rng = problem, generator(random_state)
        self.size = 1.0  # of a step in units of 1 / L

    def next(self, point: Iterate) -> tuple[Direction, bool]:
        """Coefficients and scores after an epoch from ``point``, and whether they have a lower objective."""
        problem, lam = self.problem, self.problem.lam
        step = min(self.size / (largest_curvature(problem, point.weights) + lam), 0.5 / lam)
        order = self.rng.permutation(len(problem.loss))
        problem.passes += 1.0
        state = Steps(problem, point.scores, point.alpha[None], [step], [step * lam], [len(order)])
        image = point.image - lam * point.scores  # scores of the loss's part of the gradient
        moved = self._steps(point, state, image, order)
        lower = point.value_at(*moved) < point.value
        self.size *= GROWTH if lower else CUT
        return moved, lower

    def _steps(self, point: Iterate, state: Steps, image: Matrix, order: NDArray[np.int64]) -> Direction:
        from multikernel.compiled.svrg import kernel_steps

        rows = self.problem.rows(point.weights)
        table, image_table = (np.array(part.T[None], order="C") for part in (point.scores, image))
        done = 0
        for part in rows.parts(order, ENTRIES_AT_ONCE):
            kernel_steps(rows.rows, rows.slot, part, done, *state.arguments, image_table, table, *state.state)
            done += len(part)
        return state.blocks()[0], state.scale[0] * table[0].T + state.drift[0] * image


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
