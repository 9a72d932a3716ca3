"""ℓp-norm MKL by alternating an SVM with weights in closed form [KBSZ11], for p = 1 group-lasso MKL [XJYKL10]."""

import numpy as np

from multikernel.problems.minmax import MinMaxProblem
from multikernel.runtime.monitor import InnerTolerance, Monitor
from multikernel.solvers.common.newton import Start

# Share of the largest weight that a weight of zero gets at the start: it would stay zero.
REVIVED = 1e-3


def closed_form(problem: MinMaxProblem, monitor: Monitor, start: Start = None, *, max_iter: int = 500) -> None:
    """Alternate the inner problem, weights fixed, with the best weights for its block norms [KBSZ11, eq. (26)].

    With ``w_j = g_j Σ_i alpha_i φ_j(x_i)`` the block norms are ``‖w_j‖ = g_j sqrt(q_j(alpha))``, and the weights that
    minimise ``Σ_j ‖w_j‖² / g_j`` over the set are known in closed form. Each step decreases the primal objective;
    for p > 1 it converges to the optimum, the faster the larger p; for p = 1 it is slow.
    """
    weights, alpha = problem.start() if start is None else start
    weights = np.where(weights > 0.0, weights, REVIVED * weights.max(initial=0.0))
    tol = InnerTolerance(monitor)
    for _ in range(max_iter):
        # 1. inner problem, weights fixed, warm-started; no more exact than the weights are yet
        _, alpha = problem.solve_inner(weights, alpha, tol.value)
        if monitor(weights, alpha):
            return
        tol.follow()
        # 2. weights, alpha fixed
        block_norms = weights * np.sqrt(problem.quadratic_forms(alpha))
        weights = problem.weight_set.weights(block_norms)
