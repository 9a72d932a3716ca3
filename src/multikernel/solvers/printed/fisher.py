"""ℓp MK-FDA as printed: cutting planes with one expansion of the norm an iteration [YMBCK10, table 1]."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from multikernel.problems.fisher import FisherProblem
from multikernel.problems.weight_sets import WeightSet, lp_norm
from multikernel.runtime.monitor import Monitor
from multikernel.solvers.common.newton import Start
from multikernel.solvers.printed.taylor_master import SMALLEST, TaylorModel

Vector = NDArray[np.float64]


class OneExpansion(TaylorModel):
    """The restricted master problem with the norm expanded once, about the weights of the last [YMBCK10, eq. (12)].

    ``about`` are those weights. They fulfil the expansion, not the norm: they may be a little outside of the ball.
    """

    def __init__(self, n_kernels: int, weight_set: WeightSet | float):
        super().__init__(n_kernels, weight_set)
        self.about = self.set.start(n_kernels)

    def _master(self, a: Vector, H: NDArray) -> tuple[Vector, Vector]:
        if self.set.total is not None or self.set.is_box:  # p = 1 is a linear program, as in the paper
            weights, multipliers = super()._master(a, H)
        else:
            weights, multipliers = self._expanded(a, H, np.maximum(self.about, SMALLEST))
        self.about = np.maximum(weights, 0.0)
        return self.about, multipliers


def sip_printed(problem: FisherProblem, monitor: Monitor, start: Start = None, *, max_iter: int = 500) -> None:
    """Table 1 of [YMBCK10], with ε = ``monitor.tol`` in its own stop |1 − S/θ| ≤ ε; the monitor has the result.

    S is the value at the weights, θ that of the master problem they come from. Near the optimum the expansion is
    exact, but a θ that meets S proves nothing as long as it is not: the gap that the monitor certifies tells. Weights
    outside of the ball are judged after they are scaled back. Weights count as at least 1e-8 in an expansion: its
    coefficients are infinite at zero for p < 2.
    """
    model = OneExpansion(problem.n_kernels, problem.weight_set)
    weights, alpha = problem.start() if start is None else start
    model.about, theta = weights, np.inf
    monitor.keep_last = True
    for _ in range(max_iter):
        # 1. the most violated constraint, a linear system
        value, alpha = problem.solve_inner(weights)
        inside = weights / max(1.0, lp_norm(weights, problem.weight_set.p))
        # 2. the stop: both are minus those of the paper
        settled = abs(1.0 - value / theta) <= monitor.tol
        monitor.stopped = "settled" if settled else monitor.stopped
        if monitor(inside, alpha) or settled:
            return
        # 3. the restricted master problem
        model.add(*problem.cut(alpha), alpha)
        monitor.prove(model.solve()[1], model.mixture)
        weights = model.about
        theta = model.value(weights)
