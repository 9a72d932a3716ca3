"""OBSCURE: an online stage, then proximal projected sub-gradient descent [OJC10]; and p-norm Pegasos."""

from __future__ import annotations

import contextlib
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.blas import daxpy

from multikernel.problems.obscure import ObscureProblem
from multikernel.runtime.clock import OutOfTime, grace, late
from multikernel.runtime.monitor import Monitor
from multikernel.solvers.common.newton import Start
from multikernel.solvers.common.score_table import ScoreTable, Solution, generator

# Epochs of stage 1, unless one of them passes without an update; at most a quarter of all.
ONLINE_EPOCHS = 20
# Smallest share of the largest weight that a kernel starts stage 2 with.
STARTING_SHARE = 1e-3
# Growth of the number of epochs of stage 2 from one look at the solution to the next.
GROWTH = 1.4
# Epochs of stage 2 that the first average is of. The next ones begin when epochs have doubled: with few of them an
# average of the last one or two is hardly better than the last iterate. From the first shortening on every look
# begins one.
FIRST_AVERAGE = 4
# From this epoch of stage 2 on, the optimum is taken to be nearer than R by this factor more at every look where the
# average is better than the last iterate, unless the objective fell below this share of that at the look before.
FIRST_SHORTENING, NEARER, PROGRESS = 48, 0.5, 0.9


def obscure(
    problem: ObscureProblem,
    monitor: Monitor,
    start: Start = None,
    *,
    max_iter: int = 1000,
    eta: float = 2.0,
    random_state: Any = None,
) -> None:
    """Both stages of OBSCURE [OJC10, alg. 1 and alg. 2], the second reweighted; the monitor has the result.

    Samples come in a fresh random order each epoch. Stage 1 is as printed. Stage 2 as printed pays a factor q in the
    number of steps, because ½‖θ‖_q² bends that much. It is therefore run on

        λ/2 Σ_j ‖w_j‖² / d_j + loss(w)  >=  f(w),  equal at the w that has d_j = (‖w_j‖ / ‖w‖_p)^(2-p),

    whose norm is that of one kernel Σ_j d_j K_j, so that the steps are those for q = 2; the weights d follow w after
    each epoch. For p = 2 nothing is changed. From time to time (epochs 1, 2, 3, 4, 5, 7, 9, … of stage 2) it looks at
    numbers that the score table has anyway:

    - the solution is the best so far of the last iterate and of the average of θ over the last epochs, each in its
      best length; an epoch that leaves no loss is followed by the best length, too: shrinking by λη/q a step would
      take for ever where λ is small;
    - R is computed again from it: [OJC10, eq. (10)] bounds ‖w*‖ by any w;
    - late steps are shorter where the average beats the last iterate: it is then much nearer to the optimum than R.

    A start takes the place of stage 1. ``eta`` is the step of stage 1: a larger one is faster, and gives a looser R.
    An iteration is an epoch of either stage; the solution is judged at these looks, more rarely where kernels are
    computed when read.
    """
    rng = generator(random_state)
    state = ScoreTable(problem)
    n, epochs = len(problem.loss), epochs_before(monitor)
    if start is None or not np.any(start[1]):
        epochs += online_stage(state, rng, eta, min(ONLINE_EPOCHS, max(1, max_iter // 4)))
        weights = problem.implied_weights(state.squares)
    else:
        weights = np.array(start[0], dtype=np.float64)
        state.set(problem.q * as_columns(start[1]))
    first = Solution(problem, state.table / problem.q, state.coef / problem.q, weights)
    state.fix(problem.inside(weights, STARTING_SHARE))
    second = SecondStage(problem, state, first, epochs)
    second.resume(monitor)
    if (second.worked_enough or epochs >= max_iter) and second.report(monitor, epochs, stage=1):
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


def pegasos(
    problem: ObscureProblem, monitor: Monitor, start: Start = None, *, max_iter: int = 1000, random_state: Any = None
) -> None:
    """p-norm Pegasos [OJC10, sect. 4.1]: stage 2 with steps ``q / (lam t)`` from zero; the monitor has the result.

    From a start steps are those of the tenth epoch, in a run that is resumed of the epoch it had come to: the first
    step of Pegasos multiplies its start by zero.
    """
    rng = generator(random_state)
    state = ScoreTable(problem)
    n, epochs = len(problem.loss), epochs_before(monitor)
    if start is not None and np.any(start[1]):
        state.set(problem.q * as_columns(start[1]))
        state.restart(steps=max(epochs, 10.0) * n)
    best, lengths, next_look, next_report = None, state.lengths(), epochs + 1, epochs + 1
    for epoch in range(epochs + 1, max_iter + 1):
        state.proximal(rng.permutation(n), np.inf, lengths)
        ends = epoch == max_iter or late()
        if not ends and epoch < next_look:
            continue
        next_look = max(epoch + 1, int(GROWTH * epoch))
        state.settle()
        factor = state.scale / problem.q
        solution = Solution(problem, factor * state.table, factor * state.coef)
        best = solution if best is None or solution.objective < best.objective else best
        if not ends and epoch < next_report:
            continue
        next_report = epoch if state.kernels.complete else 2 * epoch
        prove(monitor, problem, best, factor * state.coef)  # λθ/q is the average of the sub-gradients
        monitor.notes = {"epoch": epoch, "stage": 2, "updates": state.updates, "mistakes": state.mistakes}
        if monitor(best.weights, best.alpha):
            return


def online_stage(state: ScoreTable, rng: np.random.Generator, eta: float, max_epochs: int) -> int:
    """Stage 1 [OJC10, alg. 1] until an epoch passes without an update; returns the number of epochs."""
    n = len(state.problem.loss)
    epochs = 0
    quiet = False
    while epochs < max_epochs and not quiet:
        before = state.updates
        state.online(rng.permutation(n), eta)
        quiet = state.updates == before
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
        self._count, self._renewal = 0, FIRST_AVERAGE
        self._dual: NDArray | None = None
        self.next_look = epochs + 1
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
        """Add θ to the running sum: one pass over the table an epoch."""
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

    def due(self, epoch: int) -> bool:
        """Whether to have the solution judged, which reads all kernels: after twice as many epochs, or much work."""
        return epoch >= self._next_report or self.worked_enough

    @property
    def worked_enough(self) -> bool:
        """Whether updates took longer than a judgement does: two or three passes over kernels in memory."""
        return self.state.kernels.complete and self.state.updates - self._reported >= len(self.problem.loss)

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
