"""p-norm Pegasos, which OBSCURE is compared with in its paper [OJC10]."""

from typing import Any

import numpy as np

from multikernel.problems.obscure import ObscureProblem
from multikernel.runtime.clock import late
from multikernel.runtime.monitor import Monitor
from multikernel.solvers.common.newton import Start
from multikernel.solvers.obscure.obscure import (
    GROWTH,
    ScoreTable,
    Solution,
    as_columns,
    epochs_before,
    generator,
    prove,
)


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
