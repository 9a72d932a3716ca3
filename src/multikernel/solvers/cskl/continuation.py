"""From the solution for one sum of weights to a start for another."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from multikernel.gram import CombinedKernel, WeightedSum
from multikernel.problems.cskl import CappedProblem
from multikernel.problems.minmax import ROUGH_FREE, MinMaxProblem
from multikernel.problems.weight_sets import CappedSimplex
from multikernel.runtime.clock import one_blas_thread
from multikernel.runtime.monitor import Monitor
from multikernel.solvers.common.newton import Start
from multikernel.svm.decomposition import BoundedNewton
from multikernel.svm.quadratic_program import BoxProblem, KernelOperator

Vector = NDArray[np.float64]

# Ratio of the sums from which a step is so long that it starts from weights scaled to the new sum.
FAR = 1.6
# Steps without an SVM at most, and the share of the gap that each must leave at most to be followed by another.
MOST_STEPS, FAST = 4, 0.5


def solve_capped(
    problem: CappedProblem, monitor: Monitor, start: Start, *, run: Callable[..., None], max_iter: int
) -> None:
    """Run a solver; ``start`` may be the solution for another sum of the weights."""
    if start is not None:
        weights, alpha = start[0], problem.inner.repair(start[1])
        if not problem.holds(weights):
            start = follow(problem, monitor, weights, alpha)
            if start is None:
                return
        elif not monitor.history and monitor(weights, alpha):
            return  # nothing left to do: so it is along paths, and for a second fit to the same data
    run(problem, monitor, start, max_iter=max_iter)


def continued(problem: MinMaxProblem, weights: Vector, alpha: NDArray) -> tuple[Vector, NDArray, bool]:
    """Weights and coefficients to start from, given the solution for another sum of the weights.

    The weights minimise, over the set of ``problem``, the quadratic model of J at that solution. With few samples at
    the bound C, J(s·g) is nearly J(g) / s, which no parabola follows far. Where the sum changes by more than half the
    model is therefore that of J at ``s·g``, with gradient and curvature divided by s² and s³.

    Returns weights in the set, feasible coefficients, and whether those could follow: if not, many have come to a
    bound or left it, and it takes an SVM.
    """
    allowed, total = CappedSimplex(float(problem.weight_set.total or 1.0)), float(weights.sum())
    if not total > 0.0:
        return allowed.start(len(weights)), alpha, False
    kernel = CombinedKernel(problem.stack, WeightedSum(weights))  # only blocks of free support vectors are computed
    H = problem.curvature(weights, alpha, np.arange(len(weights)), rough=True, kernel=kernel)
    gradient = -0.5 * problem.quadratic_forms(alpha)
    s = allowed.t / total
    s = s if max(s, 1.0 / s) >= FAR else 1.0
    target = allowed.roughly_least_point(H / s**3, gradient / s**2, s * weights)
    return target, *_followed(problem, target, alpha)


def follow(
    problem: MinMaxProblem, monitor: Monitor, weights: Vector, alpha: NDArray
) -> tuple[Vector, NDArray] | None:
    """Go on from the solution for another sum of the weights as long as that brings the gap down fast.

    A solved SVM in each step would be exact, and cost several times as much. Returns None if the monitor says stop,
    else the best weights and coefficients reached.
    """
    best, least = None, np.inf
    for _ in range(MOST_STEPS):
        weights, alpha, followed = continued(problem, weights, alpha)
        if not followed:
            return weights, alpha
        if monitor(weights, alpha):
            return None
        gap = monitor.history[-1]["relative_gap"]
        if best is None or gap < least:
            best = weights, alpha
        if not gap <= FAST * least:
            break
        least = gap
    return best


def _followed(problem: MinMaxProblem, weights: Vector, alpha: NDArray) -> tuple[NDArray, bool]:
    """Coefficients after a change of the weights: the SVM's on the new kernel while those at a bound stay there.

    For several labels each gets its own. Also whether that is where they are.
    """
    kernel = CombinedKernel(problem.stack, WeightedSum(weights))
    scores = np.tensordot(weights, problem.scores(alpha), axes=1)
    columns = scores.reshape(len(scores), -1).T, alpha.reshape(len(alpha), -1).T
    steps = [_newton_step(svm.problem, kernel, s, a) for svm, s, a in zip(problem.inner.svms, *columns)]
    return np.column_stack([a for a, _ in steps]).reshape(alpha.shape), all(found for _, found in steps)


def _newton_step(box: BoxProblem, kernel: KernelOperator, scores: Vector, alpha: Vector) -> tuple[Vector, bool]:
    """The minimum of (QP) over variables that are free or want to leave their bounds, and whether it was found."""
    loose = box.ordered(box.loose(scores - box.p, alpha)[1])
    if not 1 < len(loose) <= ROUGH_FREE:
        return alpha, False
    split = int(np.isin(loose, box.groups[0]).sum()) if box.groups else 0
    moved = alpha.copy()
    g, b, lo, hi = (part[loose] for part in (scores - box.p, alpha, box.lo, box.hi))
    with one_blas_thread():
        newton = BoundedNewton(kernel.submatrix(loose, loose), g, b, lo, hi, split, len(box.groups))
        moved[loose], exact = newton.step()
    return box.feasible(moved), exact
