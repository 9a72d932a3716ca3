"""Multi-epoch SVRG for MKL with the step sizes and numbers of steps of its paper [AOJS16, alg. 1]."""

from __future__ import annotations

import contextlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

from multikernel.problems.svrg import SmoothProblem, as_matrix
from multikernel.runtime.clock import OutOfTime, grace
from multikernel.runtime.monitor import Monitor
from multikernel.solvers.common.score_table import generator
from multikernel.solvers.svrg.point import Point
from multikernel.solvers.svrg.steps import BlockSteps, largest_curvature

# Passes over the samples between two looks at the clock: an epoch may be hundreds of them.
PASSES = 20
# Weights count as at least this share of the largest: one that is zero would stay zero.
FLOOR = 1e-12


def svrg_paper(
    problem: SmoothProblem,
    monitor: Monitor,
    start: tuple[NDArray, NDArray] | None = None,
    *,
    max_iter: int = 100,
    random_state: Any = None,
) -> None:
    """Algorithm 1 of [AOJS16] with ε = ``monitor.tol``; the monitor has the result.

    Every kernel has its own step, number of steps and last step, from [AOJS16, eqs. (4)-(6)]. What the print leaves
    open: w starts at zero, d at 1/F; L is the largest curvature of a sample's loss under the sum of the kernels plus
    the largest λ̃, which is λ/d_k cut at the loss's share of L; steps are implicit in the regulariser, ``w_k <- (w_k -
    h v) / (1 + h λ/d_k)`` with v the loss's part, because explicit ones diverge where λ/d_k is beyond L; the exponent
    of eq. (4) is 1/(J - j + 1), that of the print being infinite in the last epoch; when J epochs are over and
    ``tol`` is not reached, J more begin.

    History shows w as the algorithm has it, with coefficients for each kernel. At the end, with the weights found,
    one alpha is computed whose objective is at most that of w.

    Parameters
    ----------
    problem : SmoothProblem
    monitor : Monitor
        Judges every epoch, and long epochs on their way.
    start : (weights, alpha), optional
        Where to start.
    max_iter : int
        Largest number of epochs.
    random_state : int, Generator or RandomState, optional
        Samples to step on.
    """
    try:
        _epochs(problem, monitor, start, max_iter, generator(random_state))
    except OutOfTime:
        _share_alpha(problem, monitor)
        raise
    _share_alpha(problem, monitor)


def _epochs(problem: SmoothProblem, monitor: Monitor, start: Any, max_iter: int, rng: np.random.Generator) -> None:
    n, n_kernels = len(problem.loss), problem.n_kernels
    weights, coef = np.full(n_kernels, 1.0 / n_kernels), np.zeros((n_kernels, n, problem.loss.n_scores))
    if start is not None:
        weights = np.array(start[0], dtype=np.float64)
        coef = weights[:, None, None] * as_matrix(start[1])
    curvature = largest_curvature(problem, np.ones(n_kernels))
    if curvature == 0.0:  # kernels of zeros: w = 0 is the solution
        monitor(*problem.start())
        return
    epochs = max(int(np.ceil(np.log(1.0 / min(monitor.tol, 0.5)))), 1)
    steps = BlockSteps(problem)
    block_passes = 0.0  # steps of single kernels, in units of n
    done: list[tuple[NDArray, NDArray]] = []  # h and m of the epochs since J of them began
    for count in range(1, max_iter + 1):
        if len(done) == epochs:
            done = []
        convexity = np.minimum(problem.lam / np.maximum(weights, np.finfo(float).tiny), curvature)
        smooth = curvature + convexity.max()
        # 3. target, steps, numbers of steps; 17. the work done is assessed again with the present convexity
        worked = np.prod([convergence(convexity, h, m, smooth) for h, m in done], axis=0)
        target = np.clip((monitor.tol / worked) ** (1.0 / (epochs - len(done))), 1e-3, 0.9)
        h, m = step_size(target, smooth, convexity), step_count(target, smooth / convexity)
        done.append((h, m))
        # 4. last steps; 5.-14. the epoch
        last = last_steps(rng, convexity * h, m)
        block_passes += float(last.sum()) / n
        keep = 1.0 / (1.0 + h * problem.lam / np.maximum(weights, FLOOR * weights.max()))
        stop = _epoch(problem, monitor, steps, coef, (h * keep, 1.0 - keep, last), rng)
        # 15., 16. w and d
        coef = steps.state.blocks()
        squares = np.maximum(np.einsum("fnt,fnt->f", problem.scores_of_blocks(coef), coef), 0.0)
        weights = problem.weight_set.weights(np.sqrt(squares))
        monitor.notes = {"epoch": count, "passes": problem.passes, "block_passes": block_passes}
        if stop or monitor(weights, coef):
            return


def step_size(target: NDArray, smooth: float, convexity: NDArray) -> NDArray[np.float64]:
    """h of [AOJS16, eq. (5)]."""
    return 1.0 / (4.0 / target * (smooth - convexity) + 2.0 * smooth)


def step_count(target: NDArray, condition: NDArray) -> NDArray[np.int64]:
    """m of [AOJS16, eq. (5)], the least integer."""
    least = (4.0 * (condition - 1.0) / target + 2.0 * condition) * np.log(
        2.0 / target + (2.0 * condition - 1.0) / (condition - 1.0)
    )
    return np.ceil(least).astype(np.int64)


def convergence(convexity: NDArray, h: NDArray, m: NDArray, smooth: float) -> NDArray[np.float64]:
    """c of [AOJS16, eq. (6)], at most one."""
    kept = np.exp(m * np.log1p(-np.minimum(convexity * h, 1.0 - 1e-12)))
    room = 1.0 - 2.0 * smooth * h
    with np.errstate(divide="ignore"):
        rate = kept / ((1.0 - kept) * room) + 2.0 * np.maximum(smooth - convexity, 0.0) * h / room
    return np.where(room > 0.0, np.minimum(rate, 1.0), 1.0)


def last_steps(rng: np.random.Generator, decay: NDArray, m: NDArray) -> NDArray[np.int64]:
    """T_k with ``P(T_k = t) ∝ (1 - decay_k)^(m_k - t)``, t = 1..m_k, by inversion."""
    log = np.log1p(-decay)
    mass = -np.expm1(m * log)
    back = np.floor(np.log1p(-rng.uniform(size=len(m)) * mass) / log).astype(np.int64)
    return np.clip(m - back, 1, m)


def _epoch(problem, monitor, steps, coef, settings, rng) -> bool:
    """The steps of an epoch; true if the monitor, asked on the way, says stop."""
    h, decay, last = settings
    n, total = len(problem.loss), int(last.max())
    steps.begin(coef, h, decay, last)
    for first in range(0, total, PASSES * n):
        steps.run(rng.integers(n, size=min(PASSES * n, total - first)), first)
        if first + PASSES * n < total:
            now = steps.state.blocks()
            squares = np.maximum(np.einsum("fnt,fnt->f", problem.scores_of_blocks(now), now), 0.0)
            monitor.notes = {"passes": problem.passes}
            if monitor(problem.weight_set.weights(np.sqrt(squares)), now):
                return True
    return False


def _share_alpha(problem: SmoothProblem, monitor: Monitor) -> None:
    """Replace the best solution by one at the same weights with one alpha for all kernels, no worse than it."""
    if monitor.best is None or monitor.best[1].ndim == 2:
        return
    (weights, coef), goal = monitor.best, monitor.certificate.primal
    monitor.best = None  # the form of the solution changes, whatever rounding says about its value
    with grace():
        scores = problem.scores_of_blocks(coef).sum(axis=0)
        point = Point(problem, weights, -problem.loss.gradient(scores) / problem.lam)
    with contextlib.suppress(OutOfTime):
        for _ in range(100):
            if point.value <= goal or point.gap <= 1e-14 * abs(point.value):
                break
            point.search([point.newton(100), (point.alpha, point.scores)])
            point.differentiate()
    monitor(point.weights, point.alpha)
