"""CG-Boost [BZB04]: column generation over kernels, with an SVM as the master problem."""

import numpy as np

from multikernel.problems.cgboost import ColumnProblem
from multikernel.runtime.monitor import Monitor
from multikernel.solvers.common.newton import Start

# Kernels join together with the most violated one if their violation is at least this share of its.
TOGETHER = 0.5


def cg_boost(problem: ColumnProblem, monitor: Monitor, start: Start = None, *, max_iter: int = 1000) -> None:
    """Solve the problem over a growing set of kernels, whose weights are one; an iteration is a master problem."""
    chosen, alpha = problem.start() if start is None else start
    if start is None:
        # without kernels a sample's coefficient is its bound, up to the sums that the biases ask for
        alpha = problem.inner.repair(np.column_stack([svm.signs * svm.upper for svm in problem.inner.svms]))
    # the gap is the master problem's own and that of the kernels left out: an accurate master leaves room for them
    tol = 0.3 * monitor.tol
    for _ in range(max_iter):
        # 1. the most violated of the kernels that are not there yet, and those about as violated
        outside = np.where(np.asarray(chosen) > 0.5, 0.0, problem.violations(alpha).sum(axis=1))
        if outside.max() > 0.0:
            chosen = np.where(outside >= TOGETHER * outside.max(), 1.0, chosen)
        # 2. the master problem
        before, (_, alpha) = alpha, problem.inner.solve(problem.master(chosen), alpha, tol=tol, warn=False)
        if monitor(chosen, alpha):
            return
        if np.all(np.asarray(chosen) > 0.5) or outside.max() <= 0.0:
            if np.array_equal(before, alpha):
                monitor.stopped = "rounding"
                return
            tol *= 0.3
