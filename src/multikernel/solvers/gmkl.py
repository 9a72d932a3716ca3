"""Generalised MKL by spectral projected gradient [JVV12]."""

from collections import deque
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from multikernel.problems.gmkl import GeneralizedProblem
from multikernel.runtime.monitor import Monitor
from multikernel.solvers.common.newton import Start

Vector = NDArray[np.float64]

REMEMBERED, RISE = 10, 0.1  # a value must be below the largest of the last ten, and may rise by at most this share
PATIENCE = 5  # steps without a new best value after which to return to the best point
# Share of the predicted decrease that a step must bring, shares by which it is cut if not, and cuts before giving up.
SUFFICIENT, LEAST_CUT, MOST_CUT, CUTS = 1e-4, 0.5, 0.1, 12
FIRST_TOL, SHARE_OF_DECREASE = 1e-2, 0.1  # gap of the first SVM; share of the predicted decrease others may leave
GROWTH = 10.0  # growth of the step where T curves down, and most growth of the largest parameter in one step
LEAST_SCALE = 1e-3  # scale of a parameter, relative to that of the largest
SMALLEST = 1e-3  # share of their first size to which parameters may grow where all are near zero
SCALE, SCALINGS = 4.0, 10  # factor tried on the start, and how many times
FINEST = {4: 1e-7, 8: 1e-10}  # gap below which the rounding of the kernel decides, by the bytes of its numbers
SHORTEST, LONGEST = 1e-8, 1e8  # limits on step lengths, relative to the first


@dataclass
class ParameterPoint:
    """Parameters with the SVM solved for them to a relative gap ``tol``."""

    d: Vector
    alpha: NDArray
    value: float
    tol: float


def spectral_gradient(
    problem: GeneralizedProblem, monitor: Monitor, start: Start = None, *, max_iter: int = 1000
) -> None:
    """Minimise ``T(d)`` over d >= 0 along projected gradients with Barzilai-Borwein step lengths.

    The direction is ``P(d − step M ∇T) − d``, with ``step = s·M⁻¹s / s·y`` from the last change s of d and y of the
    gradient [BMR00], [BMR14, eq. (2)]. A fraction of it is accepted if T ends sufficiently below the largest of the
    last ten values; it is found by quadratic interpolation. SVMs are warm-started, and no more exact than the
    decrease that is predicted for the step deserves, which follows the projected gradient [JVV12]. M is diagonal
    [BZZ09]: small parameters take small steps. [JVV12] does without; where parameters end near zero that usually
    takes several times as many iterations.
    ``max_iter`` is the largest number of points judged, the first included; at least two.
    """
    here = (
        at_best_scale(problem) if start is None else solved(problem, problem.project(start[0]), start[1], FIRST_TOL)
    )
    finest = FINEST[problem.stack.dtype.itemsize]
    gradient = problem.gradient(here.d, here.alpha)
    unit = float(here.d.max())
    first = step = max(unit, 1e-12) / max(np.abs(gradient).max(), 1e-300)
    recent = deque([here.value], maxlen=REMEMBERED)
    best, stale = here, 0
    for _ in range(max(max_iter - 1, 1)):
        if monitor(here.d, here.alpha):
            return
        # 1. direction; the SVM that it rests on may have to be solved again, more exactly
        direction = towards(problem, here.d, gradient, step, unit)
        decrease = -float(gradient @ direction) / max(abs(here.value), 1e-300)
        tol = float(np.clip(SHARE_OF_DECREASE * decrease, finest, FIRST_TOL))
        if here.tol > 3.0 * tol:
            here = solved(problem, here.d, here.alpha, tol)
            gradient = problem.gradient(here.d, here.alpha)
            direction = towards(problem, here.d, gradient, step, unit)
            recent[-1] = here.value
        # 2. nonmonotone line search
        slope = float(gradient @ direction)
        found = search(problem, here, direction, slope, max(recent), tol) if slope < 0.0 else None
        if found is None:
            if here.tol <= finest:
                monitor.stopped = "rounding"
                return
            here, step = solved(problem, here.d, here.alpha, finest), first
            gradient, recent = problem.gradient(here.d, here.alpha), deque([here.value], maxlen=REMEMBERED)
            continue
        # 3. step length
        following = problem.gradient(found.d, found.alpha)
        # where T curves down a multiple of the last step, lest a width leaps to infinity
        change = found.d - here.d
        curvature, length = float(change @ (following - gradient)), float(change @ (change / metric(here.d)))
        step = min(length / curvature, 1e300) if curvature > 0.0 else GROWTH * step
        step = float(np.clip(step, SHORTEST * first, LONGEST * first))
        here, gradient = found, following
        recent.append(here.value)
        # 4. a search that is not monotone may go round in circles: then it goes on from the best point
        best, stale = (here, 0) if here.value < best.value else (best, stale + 1)
        if stale >= PATIENCE:
            here, stale, recent = best, 0, deque([best.value], maxlen=REMEMBERED)
            gradient = problem.gradient(here.d, here.alpha)
    monitor(here.d, here.alpha)


def solve_gmkl(
    problem: GeneralizedProblem, monitor: Monitor, start: Any, *, max_iter: int = 1000, check: bool = True
) -> None:
    """Spectral gradients, and with ``check`` a look at whether the combined kernel at the solution is definite."""
    try:
        spectral_gradient(problem, monitor, start, max_iter=max_iter)
        if check:
            problem.check_definite(monitor.result().weights)
    finally:
        problem.release()


def at_best_scale(problem: GeneralizedProblem) -> ParameterPoint:
    """The problem's start times a power of four: its own scale may be far from that of the kernels and penalty."""
    best = first = solved(problem, *problem.start(), FIRST_TOL)
    for factor in (SCALE, 1.0 / SCALE):
        for _ in range(SCALINGS if best is first else 0):
            there = solved(problem, problem.project(factor * best.d), best.alpha, FIRST_TOL)
            if not there.value < best.value or np.array_equal(there.d, best.d):
                break
            best = there
    return best


def towards(problem: GeneralizedProblem, d: Vector, gradient: Vector, step: float, unit: float) -> Vector:
    """``P(d − step M ∇T) − d``, shortened where a parameter would grow to many times the largest one there is."""
    direction = problem.project(d - step * metric(d) * gradient) - d
    limit = GROWTH * max(float(d.max()), SMALLEST * unit)
    return direction * min(1.0, limit / max(float(direction.max()), 1e-300))


def solved(problem: GeneralizedProblem, d: Vector, warm: NDArray, tol: float) -> ParameterPoint:
    """The point at d."""
    value, alpha = problem.solve_inner(d, warm, tol)
    return ParameterPoint(d, alpha, value, tol)


def search(
    problem: GeneralizedProblem, here: ParameterPoint, direction: Vector, slope: float, largest: float, tol: float
) -> ParameterPoint | None:
    """A point ``here + fraction direction`` that is good enough; ``None`` if there is none."""
    fraction, warm = 1.0, here.alpha
    largest = min(largest, here.value + RISE * abs(here.value))
    for _ in range(CUTS):
        # rounding may leave an entry that should become zero a little beside it
        there = solved(problem, problem.project(here.d + fraction * direction), warm, tol)
        slack = tol * abs(here.value)  # values are known to within the SVMs' gap
        if there.value <= largest + SUFFICIENT * fraction * slope + slack:
            return there
        rise = there.value - here.value - fraction * slope
        best = -0.5 * fraction * slope / rise if np.isfinite(rise) and rise > 0.0 else 0.0
        fraction *= float(np.clip(best, MOST_CUT, LEAST_CUT))
    return None


def metric(d: Vector) -> Vector:
    """Scale of each parameter: its share of the largest one, within bounds.

    T curves like 1/d², so in these units it curves about the same in all parameters.
    """
    return np.clip(d / max(float(d.max(initial=0.0)), 1e-300), LEAST_SCALE, 1.0)
