"""Weights to start from, learnt on a sample of the samples: passes over kernels cost the square of their number."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from multikernel.problems.minmax import MinMaxProblem
from multikernel.runtime.clock import OutOfTime, left, time_limit
from multikernel.runtime.monitor import Monitor

# From how many samples on a rehearsal pays, what part of them takes part, how many at least (fewer give weights that
# are too sparse), and how well it is solved: below that, weights depend on which samples they were.
LARGE, PART, FEWEST, ROUGH = 3000, 8, 500, 1e-2
# Of the time that is left, what it may take.
SHARE_OF_TIME = 0.25


def rehearsed_start(
    problem: MinMaxProblem, monitor: Monitor, solve: Callable[[MinMaxProblem, Monitor], None]
) -> tuple[NDArray, NDArray]:
    """Weights of the problem on an eighth of the samples, at least 500, to a gap of 1 %; a feasible alpha for all.

    An iteration there costs a sixty-fourth of one on all samples, of which it saves about half. C is scaled so that
    the loss keeps its share in the objective. The sample is drawn in the same way every time.

    Parameters
    ----------
    problem : MinMaxProblem
        What to solve.
    monitor : Monitor
        Its tolerance is no tighter than that of the rehearsal.
    solve : callable
        A solver; called with the smaller problem and its monitor.
    """
    weights, alpha = problem.start()
    # problems that are more than this one have weights, or a memory, of their own
    if type(problem) is not MinMaxProblem or problem.n_kernels == 1 or getattr(problem.weight_set, "is_box", False):
        return weights, alpha
    n = len(problem.stack)
    if n < LARGE:
        return weights, alpha
    rows = np.sort(np.random.default_rng(0).permutation(n)[: max(n // PART, FEWEST)])
    smaller = problem.sample(rows)
    if smaller is None:
        return weights, alpha
    watcher = Monitor(smaller, max(ROUGH, monitor.tol))
    with contextlib.suppress(OutOfTime), time_limit(SHARE_OF_TIME * left()):
        solve(smaller, watcher)
    return (weights if watcher.best is None else watcher.best[0]), alpha
