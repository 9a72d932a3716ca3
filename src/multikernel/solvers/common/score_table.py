"""The score table that the stochastic methods step on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from multikernel.gram import KernelRows
from multikernel.problems.obscure import ObscureProblem
from multikernel.problems.weight_sets import lp_norm
from multikernel.runtime.clock import OutOfTime, check

# Rows to compute at a time in the beginning. Several at a time are cheaper than single ones, but only those of
# samples that will need them are of use.
FIRST_BATCH = 16
# Entries of kernel rows that steps go over between two looks at the clock: a fraction of a second.
ENTRIES_AT_ONCE = 10**8


class ScoreTable:
    """State of a stochastic method: θ = scale · T as scores of all samples under each T_j, and as coefficients.

    See :mod:`multikernel.compiled.score_table` for what is kept. The table takes 8·F·M·n bytes.
    """

    def __init__(self, problem: ObscureProblem, rows: KernelRows | None = None):
        from multikernel.compiled import score_table as compiled

        self.problem, self.compiled = problem, compiled
        self.kernels = KernelRows(problem.stack, problem.memory) if rows is None else rows
        n, n_classes, n_kernels = len(problem.loss), problem.loss.n_classes, problem.n_kernels
        self.table = np.zeros((n_kernels, n_classes, n))
        self.coef = np.zeros((n, n_classes))
        self.squares = np.zeros(n_kernels)
        self.weights = np.ones(n_kernels)
        self.scalars = np.zeros(compiled.N_SCALARS)
        # rows that were computed before they were needed: positions in the order, and the coefficients then
        self._batch = FIRST_BATCH
        self._ahead, self._coef_ahead = np.zeros(0, dtype=np.int64), np.zeros((0, n_classes))
        self.scalars[compiled.SCALE] = 1.0
        self.q = problem.q  # the norm of θ
        self.combined: NDArray[np.float64] | None = None  # Σ_j weights_j T_j where weights are given, not implied
        self.hits, self._scores = np.zeros((n, n_classes)), np.empty(n_classes)
        self.diagonal = np.ascontiguousarray(problem.stack.diagonal(), dtype=np.float64)
        # a step is on one sample instead of on the mean, so that its weight is n times its share of the loss
        self.importance = problem.loss.importance * n

    # -- steps -------------------------------------------------------------------------------------------------------

    def online(self, order: NDArray, eta: float) -> None:
        """Steps of stage 1 on the samples of ``order``."""
        self._run(self.compiled.online_steps, order, lambda: 1.0 / self.problem.q, (), (eta, self.problem.q))

    def proximal(self, order: NDArray, radius: float, lengths: NDArray) -> None:
        """Steps of stage 2 on the samples of ``order``; ``lengths`` are those of the sub-gradients."""
        factor = lambda: self.scale / self.q  # noqa: E731
        if self.combined is None:
            settings = (self.problem.lam, self.q, radius)
            self._run(self.compiled.proximal_steps, order, factor, (lengths, self.hits), settings)
        else:
            data = (lengths, self.hits, self.combined, np.empty(len(self.coef)))
            self._run(self.compiled.weighted_steps, order, factor, data, (self.problem.lam, radius))

    def averaging(self, order: NDArray) -> None:
        """Steps of UFO-MKL on the samples of ``order``."""
        problem = self.problem
        factor = lambda: 1.0 / (problem.lam * max(self.steps, 1.0))  # noqa: E731
        self._run(self.compiled.averaging_steps, order, factor, (), (problem.lam, problem.sparsity, problem.q))

    def _run(
        self, steps: Callable[..., int], order: NDArray, factor: Callable[[], float], data: tuple, settings: tuple
    ) -> None:
        """Compiled steps on the samples of ``order``; where a row is missing they go on once it is there."""
        loss, kernels, order = self.problem.loss, self.kernels, np.ascontiguousarray(order, dtype=np.int64)
        at_once = max(1, ENTRIES_AT_ONCE // (len(self.table) * len(loss)))
        position, self._ahead = 0, np.zeros(0, dtype=np.int64)
        try:
            while position < len(order):
                check()
                part = order[: position + at_once]
                position = steps(
                    kernels.rows, kernels.slot, self.diagonal, loss.labels, loss.cost, self.importance, *data,
                    part, position, *settings, self.table, self.coef, self.squares, self.weights, self.scalars,
                    self._scores,
                )  # fmt: skip
                if self.scale < self.compiled.SMALLEST_SCALE:
                    self._unscale()
                if position < len(part) and kernels.slot[order[position]] < 0:
                    kernels.load(self._needed(order, position, factor()))
        except OutOfTime as end:
            self.settle()
            reached = Solution(self.problem, factor() * self.table, factor() * self.coef, self.weights)
            end.reached = reached.weights, reached.alpha
            raise

    def _unscale(self) -> None:
        """Multiply the scale into T, and set it to one."""
        scale, self.scale = self.scale, 1.0
        self.table *= scale
        self.coef *= scale
        self.squares *= scale * scale
        self.scalars[self.compiled.NORM] *= scale
        if self.combined is not None:
            self.combined *= scale

    def _needed(self, order: NDArray, position: int, factor: float) -> NDArray[np.int64]:
        """The sample whose row is missing, and some after it that will need theirs unless their scores change."""
        loss = self.problem.loss
        # as many as were of use the last time: a sample that was right may be wrong after an update, and right again
        met = self._ahead[self._ahead < position]
        if len(met):
            used = (self.coef[order[met]] != self._coef_ahead[: len(met)]).any(axis=1).mean()
            self._batch = 2 * self._batch if used > 0.8 else max(self._batch // 2, 1)
        self._batch = min(self._batch, max(1, self.kernels.capacity // 2))
        found = np.empty(self._batch, dtype=np.int64)
        count = self.compiled.likely_updates(
            self.table, self.weights, factor, loss.labels, loss.cost, self.importance, self.kernels.slot,
            order, position, found, self._scores,
        )  # fmt: skip
        self._ahead = found[:count]
        self._coef_ahead = self.coef[order[self._ahead]]
        return order[self._ahead]

    # -- state -------------------------------------------------------------------------------------------------------

    @property
    def scale(self) -> float:
        """θ = scale · T."""
        return float(self.scalars[self.compiled.SCALE])

    @scale.setter
    def scale(self, value: float) -> None:
        self.scalars[self.compiled.SCALE] = value

    @property
    def steps(self) -> float:
        """Steps since the last ``restart``."""
        return float(self.scalars[self.compiled.STEPS])

    @property
    def updates(self) -> int:
        """Steps with a positive loss, in all."""
        return int(self.scalars[self.compiled.UPDATES])

    @property
    def mistakes(self) -> int:
        """Steps on which another class scored at least as high as the right one, in all."""
        return int(self.scalars[self.compiled.MISTAKES])

    @property
    def step(self) -> float:
        """The step size of stage 2 by its clock."""
        return self.q / max(self.problem.lam * self.steps + self.scalars[self.compiled.PROXIMAL], 1e-300)

    def restart(self, steps: float = 0.0, step: float = np.inf) -> None:
        """Set the clock of the step sizes: steps taken, and the size that they led to if it is known."""
        self.scalars[self.compiled.STEPS] = steps
        self.scalars[self.compiled.PROXIMAL] = max(self.q / step - self.problem.lam * steps, 0.0)

    def settle(self) -> None:
        """Compute norms and weights afresh: updating them a million times adds up rounding errors."""
        self.squares[:] = squares_of(self.table, self.coef)
        if self.combined is not None:
            norm = self._weighted_norm()
        else:
            threshold = self.problem.sparsity * self.steps
            norm = self.compiled.refresh_weights(self.squares, threshold, self.problem.q, self.weights)
        self.scalars[self.compiled.NORM] = norm

    def fix(self, weights: NDArray) -> None:
        """Give the weights: the norm is now that of the kernel Σ_j weights_j K_j, and ``w_j = weights_j θ_j / 2``."""
        self.weights[:] = weights
        self.combined = np.tensordot(weights, self.table, axes=1)
        self.scale *= 2.0 / self.q
        self.q = 2.0
        self.scalars[self.compiled.NORM] = self._weighted_norm()

    def _weighted_norm(self) -> float:
        """The norm of T in the kernel of the weights."""
        return max(float(self.weights @ self.squares), 0.0) ** 0.5

    def set(self, theta: NDArray) -> None:
        """Make ``theta`` (n, M) the coefficients of θ."""
        self.coef[:], self.scale = theta, 1.0
        self.table[:] = np.moveaxis(self.problem.stack.apply(theta), 2, 1) if theta.any() else 0.0
        self.settle()

    def remove(self, i: int) -> None:
        """Take sample i out of θ."""
        if self.kernels.slot[i] < 0:
            self.kernels.load(np.array([i]))
        for r in np.flatnonzero(self.coef[i]):
            self.table[:, r] -= self.coef[i, r] * self.kernels.rows[:, self.kernels.slot[i]]
        self.coef[i] = 0.0
        self.settle()

    def lengths(self) -> NDArray[np.float64]:
        """‖z‖_{2,q} of a step on each sample: sqrt(2) times the q-norm over kernels of sqrt(k_j(x, x))."""
        if self.combined is not None:
            return self.importance * np.sqrt(2.0 * np.maximum(self.weights @ self.diagonal, 0.0))
        root = np.sqrt(np.maximum(self.diagonal, 0.0))
        return np.sqrt(2.0) * self.importance * np.array([lp_norm(column, self.problem.q) for column in root.T])


class Solution:
    """A candidate in its best length, from scores (F, M, n) and coefficients (n, M) of θ; weights may be implied."""

    def __init__(self, problem: ObscureProblem, table: NDArray, alpha: NDArray, weights: NDArray | None = None):
        squares = np.maximum(squares_of(table, alpha), 0.0)
        self.weights = problem.implied_weights(squares) if weights is None else np.array(weights)
        norms = self.weights * np.sqrt(squares)
        scores = np.tensordot(self.weights, table, axes=1).T
        curvature = problem.lam * lp_norm(norms, problem.p) ** 2
        # w in the best length: a line search that costs no kernel
        self.scale = problem.loss.best_scale(scores, curvature, problem.sparsity * float(norms.sum()))
        self.alpha = self.scale * alpha
        self.objective = problem.regulariser(self.scale * norms) + problem.loss.value(self.scale * scores)


def squares_of(table: NDArray, coef: NDArray) -> NDArray[np.float64]:
    """``‖T_j‖²`` out of scores (F, M, n) and coefficients (n, M), shape (F,)."""
    return table.reshape(len(table), -1) @ np.ascontiguousarray(coef.T).reshape(-1)


def generator(random_state: Any) -> np.random.Generator:
    """A NumPy generator out of a seed, a generator, or scikit-learn's idea of a random state."""
    from sklearn.utils import check_random_state

    if isinstance(random_state, np.random.Generator):
        return random_state
    if random_state is None or isinstance(random_state, (int, np.integer)):
        return np.random.default_rng(random_state)
    return np.random.default_rng(check_random_state(random_state).randint(np.iinfo(np.int32).max))
