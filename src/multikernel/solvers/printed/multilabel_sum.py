"""ML-MKL-Sum: subgradient descent on the sum of all labels' SVMs, as the method was first compared [BJJ10]."""

from __future__ import annotations

import numpy as np

from multikernel.problems.minmax import MinMaxProblem
from multikernel.runtime.monitor import Monitor
from multikernel.solvers.common.newton import InnerTolerance, Start

# Length of the first move of the weights.
FIRST_MOVE = 0.2


def subgradient(problem: MinMaxProblem, monitor: Monitor, start: Start = None, *, max_iter: int = 1000) -> None:
    """Projected steps against the gradient ``−½ q(alpha)``, every label's SVM solved in each [BJJ10, sect. 2].

    It is what the paper compares with, and is here for that: other solvers of the same problem need far fewer SVMs.
    Step t moves the weights by ``0.2 / sqrt(t)`` before they are projected.
    """
    weights, alpha = problem.start() if start is None else start
    tol = InnerTolerance(monitor)
    for t in range(1, max_iter + 1):
        # 1. all SVMs at the weights
        _, alpha = problem.solve_inner(weights, alpha, tol.value)
        if monitor(weights, alpha):
            return
        tol.follow()
        # 2. a step, and back into the set
        q = problem.quadratic_forms(alpha)
        descent = q - q.mean()  # on a simplex the mean does nothing but lengthen the gradient
        step = FIRST_MOVE / (np.sqrt(t) * max(float(np.linalg.norm(descent)), 1e-300))
        weights = problem.weight_set.project(weights + step * descent)
        weights = weights / weights.sum() if weights.sum() > 0.0 else problem.weight_set.start(problem.n_kernels)
