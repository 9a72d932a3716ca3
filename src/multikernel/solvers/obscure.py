"""OBSCURE: an online stage, then proximal projected sub-gradient descent [OJC10]; and p-norm Pegasos."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from multikernel.groupnorm import GroupNormProblem
from multikernel.monitor import Monitor
from multikernel.solvers.table import ScoreTable, Solution, generator

# Epochs of stage 1, unless one of them passes without an update; at most a quarter of all.
ONLINE_EPOCHS = 20
# From this epoch on, every time their number has doubled, steps are taken as if the optimum were that much nearer.
FIRST_SHORTENING, NEARER = 64, 0.35
# Growth of the number of epochs from one look at the solution to the next.
GROWTH = 1.5


def obscure(
    problem: GroupNormProblem,
    monitor: Monitor,
    start: tuple[NDArray, NDArray] | None = None,
    *,
    max_iter: int = 1000,
    eta: float = 2.0,
    random_state: Any = None,
) -> None:
    """Both stages of OBSCURE [OJC10, alg. 1 and alg. 2]; the monitor has the result.

    Samples come in a fresh random order each epoch. Stage 2 as printed is slow where λ is small: it shrinks w by a
    share λη/q a step, and keeps the R that it was given. So from time to time (epochs 1, 2, 3, 4, 6, 9, … of stage 2,
    and whenever an epoch leaves no loss) it looks at numbers that the score table has anyway:

    - the solution is the best so far of the last iterate and of the average of θ since epochs last doubled, each in
      its best length; an iterate without any loss goes on from its best length;
    - R is computed again from it: [OJC10, eq. (10)] bounds ‖w*‖ by any w;
    - late steps are shorter, because the average is then much nearer to the optimum than R. Early ones are longer
      than the theory's by sqrt(q/2): where few kernels count, the norm curves as one with p = 2 does.

    Parameters
    ----------
    problem : GroupNormProblem
        With ``sparsity`` 0.
    monitor : Monitor
        Judges a better solution when the epochs of stage 2 have grown by half, doubled if kernels are recomputed.
    start : (weights, alpha), optional
        Start stage 2 here instead of running stage 1.
    max_iter : int
        Largest number of epochs of both stages together.
    eta : float
        Step of stage 1: a larger one is faster, and gives a looser R.
    random_state : int, Generator or RandomState, optional
        Order of the samples.
    """
    rng = generator(random_state)
    state = ScoreTable(problem)
    n, q = len(problem.loss), problem.q
    epochs = 0
    if start is None:
        epochs = online_stage(state, rng, eta, min(ONLINE_EPOCHS, max(1, max_iter // 4)))
    else:
        state.set(q * as_columns(start[1]))
    search = Search(problem, state, epochs)
    cheap = state.kernels.complete  # else judging costs as much as an epoch
    if ((cheap or epochs >= max_iter) and search.report(monitor, epochs, stage=1)) or epochs >= max_iter:
        return
    state.scale *= search.last_scale
    state.restart()
    lengths = state.lengths()
    for epoch in range(epochs + 1, max_iter + 1):
        before = state.updates
        state.proximal(rng.permutation(n), search.radius, lengths / search.nearness)
        search.remember()
        if state.updates == before:
            # no loss is left, and shrinking by 1 - lam eta / q a step would take for ever where lam is small
            search.look(epoch)
            state.scale *= search.last_scale
        if epoch >= search.next_look or epoch == max_iter:
            search.look(epoch)
            if search.due(epoch, max_iter) and search.report(monitor, epoch, stage=2):
                return


def pegasos(
    problem: GroupNormProblem,
    monitor: Monitor,
    start: tuple[NDArray, NDArray] | None = None,
    *,
    max_iter: int = 1000,
    random_state: Any = None,
) -> None:
    """p-norm Pegasos [OJC10, sect. 4.1]: stage 2 with steps ``q / (lam t)`` from zero; the monitor has the result.

    Parameters
    ----------
    problem, monitor, max_iter, random_state
        As for :func:`obscure`.
    start : (weights, alpha), optional
        Start here, with the step size of the tenth epoch: the first step of Pegasos multiplies its start by zero.
    """
    rng = generator(random_state)
    state = ScoreTable(problem)
    n = len(problem.loss)
    if start is not None and np.any(start[1]):
        state.set(problem.q * as_columns(start[1]))
        state.restart(steps=10.0 * n)
    search = Search(problem, state, 0, plain=True)
    lengths = state.lengths()
    for epoch in range(1, max_iter + 1):
        state.proximal(rng.permutation(n), np.inf, lengths)
        if epoch >= search.next_look or epoch == max_iter:
            search.look(epoch)
            if search.due(epoch, max_iter) and search.report(monitor, epoch, stage=2):
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


class Search:
    """What stage 2 knows about its own progress: the best solution, R, the running average, when to look next."""

    def __init__(self, problem: GroupNormProblem, state: ScoreTable, epochs: int, *, plain: bool = False):
        self.problem, self.state, self.plain = problem, state, plain
        self.nearness = 1.0 if plain else float(np.sqrt(0.5 * problem.q))
        self._first = epochs
        self._sum = None if plain else (np.zeros_like(state.table), np.zeros_like(state.coef))
        self._count, self._since = 0, 0
        self.next_look = epochs + 1
        # the first epochs of stage 2 undo what stage 1 found before they improve on it: nothing to judge yet, unless
        # epochs are so long that a time limit must be seen
        self._next_report = epochs + (6 if state.kernels.complete and not plain else 1)
        self.radius = float("inf")
        self.best: Solution | None = None
        self._reported: Solution | None = None
        self.last_scale = 1.0
        self.look(epochs)

    def remember(self) -> None:
        """Add θ to the running sum: one pass over the table an epoch."""
        assert self._sum is not None
        self.state.compiled.add_scaled(self._sum[0], self.state.scale, self.state.table)
        self.state.compiled.add_scaled(self._sum[1], self.state.scale, self.state.coef)
        self._count += 1

    def look(self, epoch: int) -> None:
        """Find the best solution at hand and what follows from it for R and for the steps."""
        state, q = self.state, self.problem.q
        state.settle()
        factor = state.scale / q
        last = Solution(self.problem, factor * state.table, factor * state.coef)
        self.last_scale = last.scale
        candidates = [last]
        if self._sum is not None and self._count > 1:
            share = 1.0 / (q * self._count)
            candidates.append(Solution(self.problem, share * self._sum[0], share * self._sum[1]))
        for candidate in candidates:
            if self.best is None or candidate.objective < self.best.objective:
                self.best = candidate
        assert self.best is not None
        self.radius = min(self.radius, float(np.sqrt(2.0 * self.best.objective / self.problem.lam)))
        done = epoch - self._first
        self.next_look = self._first + max(done + 1, int(GROWTH * done))
        if self._sum is not None and done >= 2 * self._since:
            self.nearness *= 1.0 if done < FIRST_SHORTENING else NEARER
            self._sum[0][:], self._sum[1][:] = 0.0, 0.0
            self._count, self._since = 0, done

    def due(self, epoch: int, max_iter: int) -> bool:
        """Whether to have the solution judged, which reads all kernels: rarely where that means computing them."""
        if epoch >= max_iter:
            return True
        if epoch < self._next_report or self.best is self._reported:
            return False
        growth = GROWTH if self.state.kernels.complete else 2.0
        self._next_report = self._first + int(growth * (epoch - self._first))
        return True

    def report(self, monitor: Monitor, epoch: int, stage: int) -> bool:
        """Have the best solution judged; true if the monitor says stop."""
        assert self.best is not None
        self._reported = self.best
        monitor.notes = {
            "epoch": epoch, "stage": stage, "radius": self.radius,
            "updates": self.state.updates, "mistakes": self.state.mistakes,
        }  # fmt: skip
        return monitor(self.best.weights, self.best.alpha)
