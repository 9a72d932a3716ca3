"""MKL by the level method: cutting planes whose next point stays close to the last [XJKL09]."""

from __future__ import annotations

from numpy.typing import NDArray

from multikernel.minmax import MinMaxProblem
from multikernel.monitor import Monitor
from multikernel.solvers.inexact import InnerTolerance
from multikernel.solvers.masters import CuttingPlaneModel


def level_method(
    problem: MinMaxProblem,
    monitor: Monitor,
    start: tuple[NDArray, NDArray] | None = None,
    *,
    max_iter: int = 500,
    level: float = 0.9,
) -> None:
    """Cutting planes with projections on level sets of the model [XJKL09, algorithm 2].

    The model of J made of its cuts gives a lower bound, the best point visited an upper bound. The next weights are
    the projection of the last on the weights where the model is at most ``level · upper + (1 − level) · lower``, so
    they move no further than the model can be trusted to gain.

    Parameters
    ----------
    problem : MinMaxProblem
        With ``LpBall(1)`` as its weights.
    monitor : Monitor
        Judges each iteration; has the result.
    start : (weights, alpha), optional
        Where to start.
    max_iter : int
        Largest number of SVMs.
    level : float
        Between 0 (the cutting-plane method) and 1 (no progress).
    """
    model = CuttingPlaneModel(problem.n_kernels, 1.0, "lp")
    weights, alpha = problem.start() if start is None else start
    tol = InnerTolerance(monitor)
    for _ in range(max_iter):
        # 1. J and a cut at the weights
        known = model.value(weights) if len(model) else float("-inf")
        value, alpha = problem.solve_inner(weights, alpha, tol.value)
        if value <= known and not tol.tighten():
            monitor.stopped = "rounding"
            return
        model.add(*problem.cut(alpha))
        # 2. bounds: the least value of the model, and the best point so far
        _, lower = model.solve()
        monitor.prove(lower)
        if monitor(weights, alpha):
            return
        tol.follow()
        # 3. the nearest weights on the level set
        upper = monitor.certificate.primal
        weights = model.project(weights, level * upper + (1.0 - level) * monitor.bound)
