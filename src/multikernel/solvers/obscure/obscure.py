"""OBSCURE: an online stage, then proximal projected sub-gradient descent [OJC10]; the score table of both."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.blas import daxpy

from multikernel.gram import KernelRows
from multikernel.problems.obscure import ObscureProblem
from multikernel.problems.weight_sets import lp_norm
from multikernel.runtime.clock import ENTRIES_AT_ONCE, OutOfTime, check, grace, late
from multikernel.runtime.monitor import Monitor
from multikernel.solvers.common.newton import Start

# Most epochs of stage 1, and the share of samples that may still have a loss when it ends. With 2 to 32 epochs in all
# (Caltech, 40 classes, 39 kernels, two seeds) a share of 0 ends at 55.5 % for p = 1.5 and 16 epochs, not at 59.4 %,
# one of 0.5 at 67.0 % for p = 1.05, not at 67.8 %; elsewhere one or the other is level or slightly ahead.
ONLINE_EPOCHS, LEFT = 20, 0.2
STARTING_SHARE = 1e-3  # smallest share of the largest weight that a kernel starts stage 2 with
GROWTH = 1.4  # growth of the number of epochs of stage 2 from one look at the solution to the next
# Epochs in the first average of stage 2; the next begin when epochs have doubled, as the average of the last one or
# two is hardly better than the last iterate. From the first shortening on every look begins one.
FIRST_AVERAGE = 4
# From this epoch of stage 2 on, the optimum is taken to be nearer than R by this factor more at every look where the
# average beats the last iterate, unless the objective fell below this share of that at the look before.
FIRST_SHORTENING, NEARER, PROGRESS = 48, 0.5, 0.9
FIRST_BATCH = 16  # rows computed at a time at first: cheaper than single ones, but only if samples need them


def obscure(
    problem: ObscureProblem,
    monitor: Monitor,
    start: Start = None,
    *,
    max_iter: int = 1000,
    eta: float = 2.0,
    random_state: Any = None,
) -> None:
    """Both stages of OBSCURE [OJC10, alg. 1 and alg. 2], the second reweighted.

    Samples come in a fresh random order each epoch. Stage 1 is as printed. Stage 2 as printed pays a factor q in the
    number of steps, because ½‖θ‖_q² bends that much. It is therefore run on

        λ/2 Σ_j ‖w_j‖² / d_j + loss(w)  >=  f(w),  equal at the w that has d_j = (‖w_j‖ / ‖w‖_p)^(2-p),

    whose norm is that of one kernel Σ_j d_j K_j, so that the steps are those for q = 2; the weights d follow w after
    each epoch. From time to time (epochs 1, 2, 3, 4, 5, 7, 9, … of stage 2) it looks at numbers that the score table
    has anyway: the best so far of the last iterate and of the average of θ over the last epochs, each in its best
    length, is the solution, and gives R [OJC10, eq. (10)]; late steps are shorter where the average beats the last
    iterate, which is then much nearer to the optimum than R. An epoch that leaves no loss is followed by the best
    length, too: shrinking by λη/q a step would take for ever where λ is small.

    A start takes the place of stage 1. ``eta`` is the step of stage 1: a larger one is faster, and gives a looser R.
    An iteration is an epoch; solutions are judged at these looks, more rarely where kernels are computed when read.
    """
    rng = generator(random_state)
    state = ScoreTable(problem)
    n, epochs = len(problem.loss), epochs_before(monitor)
    if start is None or not np.any(start[1]):
        epochs += online_stage(state, rng, eta, min(ONLINE_EPOCHS, max_iter), LEFT)
        weights = problem.implied_weights(state.squares)
    else:
        weights = np.array(start[0], dtype=np.float64)
        state.set(problem.q * as_columns(start[1]))
    first = Solution(problem, state.table / problem.q, state.coef / problem.q, weights)
    state.fix(problem.inside(weights, STARTING_SHARE))
    second = SecondStage(problem, state, first, epochs)
    second.resume(monitor)
    if (second.due() or epochs >= max_iter) and second.report(monitor, epochs, stage=1):
        return
    state.scale *= first.scale
    for epoch in range(epochs + 1, max_iter + 1):
        before = state.updates
        try:
            state.proximal(rng.permutation(n), second.radius, state.lengths() / second.nearness)
        except OutOfTime as end:
            second.last()
            end.reached = second.best.weights, second.best.alpha
            raise
        second.remember()
        if state.updates == before:
            state.scale *= second.last().scale
        state.fix(problem.next_weights(state.weights, state.squares))
        ends = epoch == max_iter or late()
        if ends or epoch >= second.next_look:
            second.look(epoch)
            if (ends or second.due(epoch)) and second.report(monitor, epoch, stage=2):
                return


def online_stage(state: ScoreTable, rng: np.random.Generator, eta: float, max_epochs: int, left: float = 0.0) -> int:
    """Stage 1 [OJC10, alg. 1] until an epoch updates at most a share ``left`` of the samples; returns its epochs."""
    n, epochs, updated = len(state.problem.loss), 0, np.inf
    while epochs < max_epochs and updated > left * n:
        before = state.updates
        state.online(rng.permutation(n), eta)
        updated = state.updates - before
        epochs += 1
    state.settle()
    return epochs


def as_columns(alpha: NDArray) -> NDArray[np.float64]:
    """Coefficients (n, M); one signed column of a two-class solution becomes two that sum to zero."""
    alpha = np.asarray(alpha, dtype=np.float64)
    return np.column_stack([-0.5 * alpha, 0.5 * alpha]) if alpha.ndim == 1 else alpha


def epochs_before(monitor: Monitor) -> int:
    """Epochs of the run that a monitor goes on with; none in a run of its own."""
    return max((int(row.get("epoch", 0)) for row in monitor.history), default=0)


def prove(monitor: Monitor, problem: ObscureProblem, solution: Solution, alpha: NDArray) -> None:
    """Have other coefficients than those of the solution prove a bound, with one look at the kernels for both.

    Those of a solution have the length that suits w, which proves little where the best w is short: at w = 0 nothing.
    """
    with monitor.off_the_clock(), contextlib.suppress(OutOfTime), grace():
        problem.squares(solution.alpha, also=alpha)
        monitor.prove(problem.lower_bound(alpha), lambda: alpha)


class SecondStage:
    """What stage 2 knows about its own progress: the best solution, R, the running average, when to look next."""

    def __init__(self, problem: ObscureProblem, state: ScoreTable, first: Solution, epochs: int):
        self.problem, self.state = problem, state
        self.best, self.nearness = first, 1.0
        self._first, self._marked = epochs, np.inf
        self._table, self._coef = np.zeros_like(state.table), np.zeros_like(state.coef)
        self._count, self._renewal, self.next_look = 0, FIRST_AVERAGE, epochs + 1
        self._dual: NDArray | None = None
        # the first epochs of stage 2 undo what stage 1 found before they improve on it: nothing to judge yet, unless
        # epochs are so long that a time limit must be seen
        self._next_report = epochs + (6 if state.kernels.complete else 1)
        self._reported = 0  # updates when the solution was last judged

    def resume(self, monitor: Monitor) -> None:
        """Set the clock of the steps: to zero, or to where the run that is resumed was."""
        rows = [row for row in monitor.history if "step" in row and row.get("stage") == 2]
        if rows:
            self.nearness = float(rows[-1]["nearness"])
            self.state.restart(int(rows[-1]["epoch"]) * len(self.problem.loss), float(rows[-1]["step"]))
        else:
            self.state.restart()

    @property
    def radius(self) -> float:
        """R, the bound on ‖w*‖ that the best solution gives [OJC10, eq. (10)]."""
        return float(np.sqrt(2.0 * max(self.best.objective, 1e-300) / self.problem.lam))

    def remember(self) -> None:
        """Add θ to the running sum: one pass over the table per epoch."""
        for total, new in ((self._table, self.state.table), (self._coef, self.state.coef)):
            daxpy(new.reshape(-1), total.reshape(-1), a=self.state.scale)  # total += scale · new, without a copy
        self._count += 1

    def last(self) -> Solution:
        """The last iterate in its best length, which is the solution if it is the best."""
        self.state.settle()
        return self._consider(0.5 * self.state.scale, self.state.table, self.state.coef)

    def _consider(self, factor: float, table: NDArray, coef: NDArray) -> Solution:
        candidate = Solution(self.problem, factor * table, factor * coef, self.state.weights)
        if candidate.objective < self.best.objective:
            self.best = candidate
        return candidate

    def look(self, epoch: int) -> None:
        """Find the best solution at hand, what follows from it for the steps, and begin a new average in time."""
        last, pays = self.last(), False
        if self._count > 1:
            average = self._consider(0.5 / self._count, self._table, self._coef)
            pays = average.objective < last.objective
        done = epoch - self._first
        if done >= FIRST_SHORTENING and pays and self.best.objective > PROGRESS * self._marked:
            self.nearness *= NEARER
        self._marked = self.best.objective
        # the average of the sub-gradients over these epochs is a dual point: multipliers are frequencies of updates
        self._dual = -self.state.hits * (self.problem.loss.importance[:, None] / (self.problem.lam * self._count))
        if done >= self._renewal:
            self._table[:], self._coef[:], self.state.hits[:], self._count = 0.0, 0.0, 0.0, 0
            self._renewal = min(2 * done, FIRST_SHORTENING)
        self.next_look = self._first + max(done + 1, int(GROWTH * done))

    def due(self, epoch: int = 0) -> bool:
        """Whether to have the solution judged: after twice as many epochs, or as much work as two or three passes."""
        worked = self.state.kernels.complete and self.state.updates - self._reported >= len(self.problem.loss)
        return worked or epoch >= self._next_report

    def report(self, monitor: Monitor, epoch: int, stage: int) -> bool:
        """Have the best solution judged; true if the monitor says stop."""
        self._reported, self._next_report = self.state.updates, max(self._next_report, 2 * epoch - self._first)
        if self._dual is not None:
            prove(monitor, self.problem, self.best, self._dual)
        monitor.notes = {
            "epoch": epoch, "stage": stage, "radius": self.radius, "step": self.state.step, "nearness": self.nearness,
            "updates": self.state.updates, "mistakes": self.state.mistakes,
        }  # fmt: skip
        return monitor(self.best.weights, self.best.alpha)


class ScoreTable:
    """State of a stochastic method, θ = scale · T, as :mod:`multikernel.compiled.score_table` describes it."""

    def __init__(self, problem: ObscureProblem, rows: KernelRows | None = None):
        from multikernel.compiled import score_table as compiled

        self.problem, self.compiled = problem, compiled
        self.kernels = KernelRows(problem.stack, problem.memory) if rows is None else rows
        n, n_classes, n_kernels = len(problem.loss), problem.loss.n_classes, problem.n_kernels
        self.table, self.coef = np.zeros((n_kernels, n_classes, n)), np.zeros((n, n_classes))
        self.squares, self.weights, self.scalars = np.zeros(n_kernels), np.ones(n_kernels), np.zeros(6)
        self.scalars[compiled.SCALE] = 1.0
        # rows that were computed before they were needed: positions in the order, and the coefficients then
        self._batch = FIRST_BATCH
        self._ahead, self._coef_ahead = np.zeros(0, dtype=np.int64), np.zeros((0, n_classes))
        self.q = problem.q  # the norm of θ
        self.combined: NDArray[np.float64] | None = None  # Σ_j weights_j T_j where weights are given, not implied
        self.hits, self._scores = np.zeros((n, n_classes)), np.empty(n_classes)
        self.diagonal = np.ascontiguousarray(problem.stack.diagonal(), dtype=np.float64)
        # a step is on one sample instead of on the mean, so that its weight is n times its share of the loss
        self.importance = problem.loss.importance * n

    # -- steps -------------------------------------------------------------------------------------------------------

    def online(self, order: NDArray, eta: float) -> None:
        """Steps of stage 1 on the samples of ``order``."""
        settings = (eta, 0.0, 0.0, self.problem.q)
        self._run(self.compiled.adding_steps, order, lambda: 1.0 / self.problem.q, (), settings)

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
        self._run(self.compiled.adding_steps, order, factor, (), (1.0, problem.lam, problem.sparsity, problem.q))

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
        # as many as were of use the last time: an update may make a sample wrong that was right
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
        return np.unique(order[self._ahead])

    # -- state -------------------------------------------------------------------------------------------------------

    @property
    def scale(self) -> float:
        """θ = scale · T."""
        return float(self.scalars[self.compiled.SCALE])

    @scale.setter
    def scale(self, value: float) -> None:
        self.scalars[self.compiled.SCALE] = value

    @property
    def norm(self) -> float:
        """‖θ‖_{2,q}."""
        return self.scale * float(self.scalars[self.compiled.NORM])

    @property
    def steps(self) -> float:
        """Steps since the last ``restart``."""
        return float(self.scalars[self.compiled.STEPS])

    @property
    def updates(self) -> int:
        """Steps with a positive loss so far."""
        return int(self.scalars[self.compiled.UPDATES])

    @property
    def mistakes(self) -> int:
        """Steps on which another class scored at least as high as the right one so far."""
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
        norm = max(float(self.weights @ self.squares), 0.0) ** 0.5  # of T in the kernel of given weights
        if self.combined is None:
            threshold = self.problem.sparsity * self.steps
            norm = self.compiled.refresh_weights(self.squares, threshold, self.problem.q, self.weights)
        self.scalars[self.compiled.NORM] = norm

    def fix(self, weights: NDArray) -> None:
        """Give the weights: the norm is now that of the kernel Σ_j weights_j K_j, and ``w_j = weights_j θ_j / 2``."""
        self.weights[:] = weights
        self.combined = np.tensordot(weights, self.table, axes=1)
        self.scale *= 2.0 / self.q
        self.q = 2.0
        self.scalars[self.compiled.NORM] = max(float(self.weights @ self.squares), 0.0) ** 0.5

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
