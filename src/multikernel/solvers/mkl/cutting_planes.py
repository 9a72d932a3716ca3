"""MKL by cutting planes: semi-infinite programming [SRSS06; KBSLMZ09], and the level method [XJKL09]."""

import numpy as np

from multikernel.problems.cutting_planes import CuttingPlaneModel
from multikernel.problems.minmax import MinMaxProblem
from multikernel.runtime.monitor import InnerTolerance, Monitor
from multikernel.solvers.common.newton import Start, prove_by_one_alpha

# Level of the projection: between 0 (cutting planes) and 1 (no progress). After a step on which the model kept this
# share of the decrease that it promised, nothing needs to be held back, and the level is low.
LEVEL, RIGHT, LOW = 0.9, 0.9, 0.1


def silp(
    problem: MinMaxProblem,
    monitor: Monitor,
    start: Start = None,
    *,
    max_iter: int = 500,
    master: type[CuttingPlaneModel] = CuttingPlaneModel,
) -> None:
    """Alternate an SVM, which yields the most violated cut, with a master problem over all cuts so far.

    Each alpha bounds J from below by a plane, ``J(g) ≥ linear(alpha) − ½ g·q(alpha)``. The master problem finds the
    weights that are best for the planes known [SRSS06, eq. (12)]; its value is a lower bound on the optimum. Once
    that has proved a solution, Newton steps bring it to where its own alpha does, too.
    """
    model = master(problem.n_kernels, problem.weight_set)
    weights, alpha = problem.start() if start is None else start
    tol = InnerTolerance(monitor)
    model.resume(problem, monitor)
    if len(model):  # a run that is resumed goes on with its next weights
        weights, _ = model.solve()
    for _ in range(max_iter):
        # 1. the most violated cut
        _, alpha = problem.solve_inner(weights, alpha, tol.value)
        # 2. the weights that are best for all cuts so far
        model.add(*problem.cut(alpha), alpha)
        visited = weights
        weights, theta = model.solve()
        monitor.prove(theta, model.mixture)
        if monitor(visited, alpha):
            prove_by_one_alpha(problem, monitor)
            return
        tol.follow()
        if np.abs(weights - visited).max() <= 1e-15 and not tol.tighten():  # nothing new can come from here
            return


def level_method(problem: MinMaxProblem, monitor: Monitor, start: Start = None, *, max_iter: int = 500) -> None:
    """Cutting planes with projections on level sets of the model, for weights that sum to one [XJKL09, algorithm 2].

    The model of J made of its cuts gives a lower bound, the best point visited an upper bound. The next weights are
    the projection of the last on the weights where the model is at most a level between them, so they move no further
    than the model can be trusted to gain.
    """
    model = CuttingPlaneModel(problem.n_kernels, 1.0)
    model.resume(problem, monitor)
    weights, alpha = problem.start() if start is None else start
    tol = InnerTolerance(monitor)
    expected = upper = float("inf")
    if len(model):  # a run that is resumed goes on with its next weights
        monitor.prove(model.solve()[1], model.mixture)
        upper = monitor.certificate.primal
        weights = model.project(weights, LEVEL * upper + (1.0 - LEVEL) * monitor.bound)
        expected = model.value(weights)
    for _ in range(max_iter):
        # 1. J and a cut at the weights
        value, alpha = problem.solve_inner(weights, alpha, tol.value)
        model.add(*problem.cut(alpha), alpha)
        trusted = upper - value >= RIGHT * (upper - expected)
        # 2. bounds: the least value of the model, and the best point so far
        monitor.prove(model.solve()[1], model.mixture)
        if monitor(weights, alpha):
            prove_by_one_alpha(problem, monitor)
            return
        tol.follow()
        # 3. the nearest weights on the level set, a low one where the model has just proved right
        upper, share = monitor.certificate.primal, LOW if trusted else LEVEL
        moved = model.project(weights, share * upper + (1.0 - share) * monitor.bound)
        expected = model.value(moved)
        if np.abs(moved - weights).max() <= 1e-15 and not tol.tighten():
            return
        weights = moved
