"""OBSCURE and the Pegasos it is compared with, step by step as printed [OJC10, alg. 1, alg. 2 and sect. 4.1].

Samples are drawn at random, with replacement; an epoch is n draws. What is judged is the last iterate as it stands,
and that is what they return: no averages, no line search, nothing learnt on the way but R.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from multikernel.problems.obscure import ObscureProblem
from multikernel.runtime.clock import late
from multikernel.runtime.monitor import Monitor
from multikernel.solvers.common.newton import Start
from multikernel.solvers.obscure.obscure import (
    GROWTH,
    ONLINE_EPOCHS,
    ScoreTable,
    as_columns,
    epochs_before,
    generator,
)


def obscure_printed(
    problem: ObscureProblem, monitor: Monitor, start: Start = None, *, max_iter: int = 1000, eta: float = 2.0,
    method: str = "obscure", random_state: Any = None,
) -> None:  # fmt: skip
    """OBSCURE: stage 1 [OJC10, alg. 1], then stage 2 from its θ within its R [OJC10, alg. 2].

    The paper leaves open how long stage 1 takes: here until no sample has a loss, 20 epochs or half of all at most. A
    start takes its place. The method "online" is stage 1 alone, until no training sample has a loss; "pegasos" is
    p-norm Pegasos [OJC10, sect. 4.1], stage 2 from zero with steps ``q / (lam t)``, from a start those of the tenth
    epoch at least: the first step of Pegasos multiplies its start by zero.
    """
    walk = Walk(problem, monitor, start, random_state)
    if method == "online":
        walk.online(max_iter, eta)
    elif method == "pegasos":
        walk.batch(max_iter, np.inf, 0.0 if start is None else 10.0 * len(problem.loss))
    elif start is not None or not walk.online(min(ONLINE_EPOCHS, max(1, max_iter // 2)), eta):
        walk.batch(max_iter, walk.radius())


obscure_online = partial(obscure_printed, method="online")
pegasos = partial(obscure_printed, method="pegasos")


class Walk:
    """θ on its way through both stages; an epoch that is judged is a row of the history."""

    def __init__(self, problem: ObscureProblem, monitor: Monitor, start: Start, random_state: Any):
        self.problem, self.monitor, self.rng = problem, monitor, generator(random_state)
        self.state, self.epoch = ScoreTable(problem), epochs_before(monitor)
        monitor.keep_last = True
        if start is not None:
            self.state.set(problem.q * as_columns(start[1]))

    def online(self, last: int, eta: float) -> bool:
        """Stage 1 up to epoch ``last``; true if the monitor says stop."""
        return self._epochs(last, lambda draws: self.state.online(draws, eta), lambda: self._loss() == 0.0, stage=1)

    def batch(self, last: int, radius: float, steps: float = 0.0) -> None:
        """Stage 2 up to epoch ``last``, after so many steps at least, or after those of the run that is resumed."""
        rows = [row for row in self.monitor.history if row.get("stage") == 2]
        if rows:
            self.state.restart(max(steps, float(rows[-1]["steps"])), float(rows[-1]["step"]))
        else:
            self.state.restart(steps)
        step = partial(self.state.proximal, radius=radius, lengths=self.state.lengths())
        self._epochs(last, step, lambda: False, stage=2, radius=radius)

    def _epochs(self, last: int, step: Callable[..., None], is_over: Callable[[], bool], **notes: float) -> bool:
        """Epochs up to ``last``, judged now and then as judging reads all kernels; true if the monitor says stop."""
        n, due, ends = len(self.problem.loss), self.epoch + 1, False
        while self.epoch < last and not ends:
            step(self.rng.integers(n, size=n))
            self.epoch += 1
            ends = self.epoch == last or late() or is_over()
            if ends or self.epoch >= due:
                due = max(self.epoch + 1, int(GROWTH * self.epoch))
                if self._judge(**notes):
                    return True
        return False

    def radius(self) -> float:
        """R, a bound on the norm of the optimum from the value of w [OJC10, eq. (10)]."""
        return float(np.sqrt((self.state.norm / self.problem.q) ** 2 + 2.0 / self.problem.lam * self._loss()))

    def _loss(self) -> float:
        scores = np.tensordot(self.state.weights, self.state.table, axes=1).T
        return self.problem.loss.value(self.state.scale / self.problem.q * scores)

    def _judge(self, **notes: float) -> bool:
        """Have w judged as it is; true if the monitor says stop."""
        state = self.state
        state.settle()
        self.monitor.notes = {
            **notes, "epoch": self.epoch, "steps": state.steps, "step": state.step,
            "updates": state.updates, "mistakes": state.mistakes,
        }  # fmt: skip
        return self.monitor(state.weights, state.scale / self.problem.q * state.coef)
