"""MKL by semi-infinite programming: cutting planes [SRSS06; KBSLMZ09]."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from multikernel.problems.cutting_planes import CuttingPlaneModel
from multikernel.problems.minmax import MinMaxProblem
from multikernel.runtime.monitor import Monitor
from multikernel.solvers.common.inner_tolerance import InnerTolerance
from multikernel.solvers.mkl.newton import prove_alone


def silp(
    problem: MinMaxProblem,
    monitor: Monitor,
    start: tuple[NDArray, NDArray] | None = None,
    *,
    max_iter: int = 500,
    master: str | None = None,
    chunking: bool = False,
) -> None:
    """Alternate an SVM, which yields the most violated cut, with a master problem over all cuts so far.

    Each alpha bounds J from below by a plane, ``J(g) ≥ linear(alpha) − ½ g·q(alpha)``. The master problem finds the
    weights that are best for the planes known [SRSS06, eq. (12)]; its value is a lower bound on the optimum. Once
    that has proved a solution, Newton steps bring it to where its own alpha does, too.

    Parameters
    ----------
    problem : MinMaxProblem
        With an ``LpBall`` or ``CappedSimplex`` of :mod:`multikernel.problems.weight_sets`.
    monitor : Monitor
        Judges each iteration; has the result.
    start : (weights, alpha), optional
        Where to start.
    max_iter : int
        Largest number of cuts.
    master : {"lp", "cone", "taylor"}, optional
        By default "lp" for sets with linear borders, else "cone"; see
        :class:`~multikernel.problems.cutting_planes.CuttingPlaneModel`.
    chunking : bool
        Stop each SVM as soon as its alpha makes a cut that is worth a master problem, instead of solving it to the
        end: the interleaved algorithm of [SRSS06, sect. 3.2].
    """
    linear = problem.weight_set.total is not None or getattr(problem.weight_set, "is_box", False)
    model = CuttingPlaneModel(problem.n_kernels, problem.weight_set, master or ("lp" if linear else "cone"))
    weights, alpha = problem.start() if start is None else start
    tol = InnerTolerance(monitor)
    theta = -np.inf
    model.resume(problem, monitor)
    if len(model):  # a run that is resumed goes on with its next weights
        weights, theta = model.solve()
    for _ in range(max_iter):
        # 1. the most violated cut, or with chunking one that is violated enough
        worthwhile = theta + 0.5 * monitor.certificate.gap if chunking and np.isfinite(theta) else np.inf
        _, alpha = problem.solve_inner(weights, alpha, tol.value, enough=worthwhile)
        # 2. the weights that are best for all cuts so far
        model.add(*problem.cut(alpha), alpha)
        visited = weights
        weights, theta = model.solve()
        monitor.prove(theta, model.mixture)
        if monitor(visited, alpha):
            prove_alone(problem, monitor)
            return
        tol.follow()
        if np.abs(weights - visited).max() <= 1e-15 and not tol.tighten():  # nothing new can come from here
            monitor.stopped = "rounding"
            return
