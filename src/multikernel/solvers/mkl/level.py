"""MKL by the level method: cutting planes whose next point stays close to the last [XJKL09]."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from multikernel.problems.cutting_planes import CuttingPlaneModel
from multikernel.problems.minmax import MinMaxProblem
from multikernel.runtime.monitor import Monitor
from multikernel.solvers.common.inner_tolerance import InnerTolerance
from multikernel.solvers.mkl.newton import prove_alone


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
        Between 0 (the cutting-plane method) and 1 (no progress). After a step on which the model was right it is at
        most 0.1, as nothing needs to be held back then.
    """
    model = CuttingPlaneModel(problem.n_kernels, 1.0, "lp")
    model.resume(problem, monitor)
    weights, alpha = problem.start() if start is None else start
    tol = InnerTolerance(monitor)
    expected = upper = float("inf")
    if len(model):  # a run that is resumed goes on with its next weights
        monitor.prove(model.solve()[1], model.mixture)
        upper = monitor.certificate.primal
        weights = model.project(weights, level * upper + (1.0 - level) * monitor.bound)
        expected = model.value(weights)
    for _ in range(max_iter):
        # 1. J and a cut at the weights
        value, alpha = problem.solve_inner(weights, alpha, tol.value)
        model.add(*problem.cut(alpha), alpha)
        trusted = upper - value >= RIGHT * (upper - expected)
        # 2. bounds: the least value of the model, and the best point so far
        _, lower = model.solve()
        monitor.prove(lower, model.mixture)
        if monitor(weights, alpha):
            prove_alone(problem, monitor)
            return
        tol.follow()
        # 3. the nearest weights on the level set, a low one where the model has just proved right
        upper = monitor.certificate.primal
        share = min(level, LOW) if trusted else level
        moved = model.project(weights, share * upper + (1.0 - share) * monitor.bound)
        expected = model.value(moved)
        if np.abs(moved - weights).max() <= 1e-15 and not tol.tighten():
            monitor.stopped = "rounding"
            return
        weights = moved


# Share of the decrease that the model promised at which it is trusted, and the level then.
RIGHT, LOW = 0.9, 0.1
