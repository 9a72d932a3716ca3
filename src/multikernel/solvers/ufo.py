"""UFO-MKL: regularised dual averaging on an ℓ1 + ℓ2 group norm [OJ11]."""

from typing import Any

import numpy as np

from multikernel.problems.obscure import ObscureProblem
from multikernel.runtime.clock import late
from multikernel.runtime.monitor import Monitor
from multikernel.solvers.common.newton import Start
from multikernel.solvers.obscure.obscure import ScoreTable, Solution, as_columns, epochs_before, generator, prove

# A warm start stands for this many epochs: later steps must not drown it, nor it them.
EPOCHS_OF_A_START = 10


def ufo_norm(n_kernels: int) -> float:
    """The group norm p of UFO-MKL: ``p = q / (q - 1)`` with ``q = 2 ln F``; 2 below three kernels, where q < 2."""
    q = 2.0 * np.log(n_kernels)
    return 2.0 if q < 2.0 else float(q / (q - 1.0))


def ufo(
    problem: ObscureProblem, monitor: Monitor, start: Start = None, *, max_iter: int = 1000, random_state: Any = None
) -> None:
    """UFO-MKL [OJ11, alg. 1]; the monitor has the result.

    θ is the sum of all sub-gradients so far. After t steps ``v_j = max(‖θ_j‖ - sparsity t, 0)`` and
    ``w_j = v_j / (lam t ‖θ_j‖) (v_j / ‖v‖_q)^(q-2) θ_j``, so kernels whose sub-gradients cancel are exactly zero.
    There is no step size to choose. The solution is judged in its best length, as for OBSCURE, whenever the number of
    epochs has doubled. A start counts as the outcome of ten epochs, one that is resumed as that of its own.
    """
    rng = generator(random_state)
    state = ScoreTable(problem)
    n, done = len(problem.loss), 0
    if start is not None and np.any(start[1]):
        done = epochs_before(monitor)
        theta = monitor.kept.get("theta", np.zeros(0))
        exact = theta.shape == state.coef.shape and done > 0
        state.restart(steps=(done if exact else max(done, EPOCHS_OF_A_START)) * n)
        state.set(theta if exact else problem.lam * state.steps * as_columns(start[1]))
        if monitor(start[0], as_columns(start[1])):
            return
    for _ in range(done):
        rng.permutation(n)  # orders of epochs that are over
    monitor.keep = lambda: {"theta": np.array(state.coef)}
    next_look = 1 << done.bit_length()  # the next power of two
    for epoch in range(done + 1, max_iter + 1):
        state.averaging(rng.permutation(n))
        if epoch < min(next_look, max_iter) and not (late() or monitor.overdue()):
            continue
        next_look = 2 * epoch if epoch >= next_look else next_look
        state.settle()
        factor = 1.0 / (problem.lam * state.steps)
        solution = Solution(problem, factor * state.table, factor * state.coef, state.weights)
        prove(monitor, problem, solution, factor * state.coef)  # what was averaged, before its length was chosen
        monitor.notes = {"epoch": epoch, "updates": state.updates, "mistakes": state.mistakes}
        if monitor(solution.weights, solution.alpha):
            return
