"""Multi-epoch SVRG for MKL with the step sizes and numbers of steps of its paper [AOJS16, alg. 1]."""

import contextlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

from multikernel.gram import KernelRows
from multikernel.problems.svrg import SmoothProblem, as_matrix
from multikernel.runtime.clock import OutOfTime, grace
from multikernel.runtime.monitor import Monitor
from multikernel.solvers.common.newton import Start
from multikernel.solvers.obscure.obscure import ENTRIES_AT_ONCE, generator
from multikernel.solvers.svrg.epochs import Steps, largest_curvature
from multikernel.solvers.svrg.iterate import Iterate

# Passes over the samples between two looks at the clock: an epoch may be hundreds of them.
PASSES = 20
# Weights count as at least this share of the largest: one that is zero would stay zero.
FLOOR = 1e-12


def svrg_paper(
    problem: SmoothProblem,
    monitor: Monitor,
    start: Start = None,
    *,
    max_iter: int = 100,
    printed: bool = False,
    random_state: Any = None,
) -> None:
    """Algorithm 1 of [AOJS16] with ε = ``monitor.tol``; the monitor has the result.

    Every kernel has its own step, number of steps and last step, from [AOJS16, eqs. (4)-(6)]. Where the print cannot
    work it is mended: w starts at zero, d at 1/F; L is the largest curvature of a sample's loss under the sum of the
    kernels plus the largest λ̃, which is λ/d_k cut at the loss's share of L; steps are implicit in the regulariser,
    ``w_k <- (w_k - h v) / (1 + h λ/d_k)`` with v the loss's part, because explicit ones diverge where λ/d_k is beyond
    L; the exponent of eq. (4) is 1/(J - j + 1), that of the print being infinite in the last epoch; when J epochs are
    over and ``tol`` is not reached, J more begin.

    Not so if ``printed``: w starts at random, L_k is the curvature under kernel k alone plus λ̃_k, steps are
    explicit, the exponent is 1/(J - j), one in the last epoch, and J epochs are all, whatever gap is certified on
    the way. The error promised in [AOJS16, eq. (7)] is proved for fixed d, which changes once an epoch. Of twelve
    problems (2, 8 and 20 kernels, two of which know the labels; λ = 0.1, 0.01; ε = 1e-3) it holds for the six with
    p = 2, and for one of six with p = 1.25: three end 5 to 10 times as far from the optimum, and in two w grows
    without bound, where d_k is so small that λ/d_k is far beyond L. A run that overflows ends with what was judged
    last.

    History shows w as the algorithm has it, with coefficients for each kernel. At the end, with the weights found,
    one alpha is computed whose objective is at most that of w; its row counts no passes.
    """
    try:
        _epochs(problem, monitor, start, max_iter, generator(random_state), printed)
    except OutOfTime:
        _share_alpha(problem, monitor)
        raise
    _share_alpha(problem, monitor)


def _epochs(
    problem: SmoothProblem, monitor: Monitor, start: Any, max_iter: int, rng: np.random.Generator, printed: bool
) -> None:
    n, n_kernels, monitor.keep_last = len(problem.loss), problem.n_kernels, printed
    weights, coef = np.full(n_kernels, 1.0 / n_kernels), np.zeros((n_kernels, n, problem.loss.n_scores))
    if printed:
        coef = rng.standard_normal(coef.shape) / n
    if start is not None:
        weights = np.array(start[0], dtype=np.float64)
        if np.ndim(start[1]) < 3:  # else coefficients of a checkpoint, which do not belong to the best weights
            coef = weights[:, None, None] * as_matrix(start[1])
    alone = np.array([largest_curvature(problem, unit) for unit in np.eye(n_kernels)])
    curvature = alone if printed else np.full(n_kernels, largest_curvature(problem, np.ones(n_kernels)))
    if not curvature.all():  # kernels of zeros: w = 0 is the solution
        monitor(*problem.start())
        return
    epochs = max(int(np.ceil(np.log(1.0 / min(monitor.tol, 0.5)))), 1)
    steps = BlockSteps(problem)
    block_passes = 0.0  # steps of single kernels, in units of n
    done: list[tuple[NDArray, NDArray]] = []  # h and m of the epochs since J of them began
    for count in range(1, (min(max_iter, epochs) if printed else max_iter) + 1):
        if len(done) == epochs:
            done = []
        convexity = np.minimum(problem.lam / np.maximum(weights, np.finfo(float).tiny), curvature)
        smooth = curvature + (convexity if printed else convexity.max())
        # 3. target, steps, numbers of steps; 17. the work done is assessed again with the present convexity
        worked = np.prod([convergence(convexity, h, m, smooth) for h, m in done], axis=0)
        left = max(epochs - len(done) - printed, 1)
        target = np.clip((monitor.tol / worked) ** (1.0 / left), 1e-3, 0.9)
        h, m = step_size(target, smooth, convexity), step_count(target, smooth / convexity)
        done.append((h, m))
        # 4. last steps; 5.-14. the epoch, with looks at w and d on its way
        last = last_steps(rng, convexity * h, m)
        total = int(last.max())
        shrinkage = h * problem.lam / np.maximum(weights, FLOOR * weights.max())
        keep = 1.0 if printed else 1.0 / (1.0 + shrinkage)
        steps.begin(coef, h * keep, shrinkage * keep, last)
        for first in range(0, total, PASSES * n):
            steps.run(rng.integers(n, size=min(PASSES * n, total - first)), first)
            # 15., 16. w and d
            coef = steps.state.blocks()
            if not np.isfinite(coef).all():
                return
            squares = np.maximum(np.einsum("fnt,fnt->f", problem.scores_of_blocks(coef), coef), 0.0)
            weights = problem.weight_set.weights(np.sqrt(squares))
            monitor.notes = {"passes": problem.passes}
            if first + PASSES * n >= total:
                block_passes += float(last.sum()) / n
                monitor.notes |= {"epoch": count, "block_passes": block_passes}
            if monitor(weights, coef):
                if not printed or monitor.stopped == "callback":
                    return
                monitor.stopped = "iterations"


def step_size(target: NDArray, smooth: NDArray | float, convexity: NDArray) -> NDArray[np.float64]:
    """h of [AOJS16, eq. (5)]."""
    return 1.0 / (4.0 / target * (smooth - convexity) + 2.0 * smooth)


def step_count(target: NDArray, condition: NDArray) -> NDArray[np.int64]:
    """m of [AOJS16, eq. (5)], the least integer."""
    least = (4.0 * (condition - 1.0) / target + 2.0 * condition) * np.log(
        2.0 / target + (2.0 * condition - 1.0) / (condition - 1.0)
    )
    return np.ceil(least).astype(np.int64)


def convergence(convexity: NDArray, h: NDArray, m: NDArray, smooth: NDArray | float) -> NDArray[np.float64]:
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


class BlockSteps:
    """Steps with a step size, a shrinkage and a number of steps for each kernel."""

    def __init__(self, problem: SmoothProblem):
        self.problem = problem
        self._rows = KernelRows(problem.stack, problem.memory)

    def begin(self, coef: NDArray, step: NDArray, decay: NDArray, stop: NDArray) -> None:
        """Take a snapshot at the coefficients ``coef`` (F, n, T)."""
        self.problem.passes += 2.0  # scores, and the full gradient
        shares = self.problem.scores_of_blocks(coef)
        self.state = Steps(self.problem, shares.sum(axis=0), coef, step, decay, stop)
        self._tables = tuple(
            np.ascontiguousarray(np.moveaxis(part, 2, 1))
            for part in (self.problem.stack.apply(self.state.full), shares)
        )

    def run(self, order: NDArray[np.int64], first: int) -> None:
        """Steps on the samples of ``order``, the first of which is number ``first`` of its epoch."""
        from multikernel.compiled.svrg import kernel_steps

        state, rows = self.state, self._rows
        self.problem.passes += len(order) / len(self.problem.loss)
        for part in rows.parts(order, ENTRIES_AT_ONCE // state.coef.shape[2]):
            kernel_steps(rows.rows, rows.slot, part, first, *state.arguments, *self._tables, *state.state)
            first += len(part)


def _share_alpha(problem: SmoothProblem, monitor: Monitor) -> None:
    """Replace the best solution by one at the same weights with one alpha for all kernels, no worse than it."""
    if monitor.best is None or monitor.best[1].ndim == 2:
        return
    (weights, coef), goal = monitor.best, monitor.certificate.primal
    monitor.best = None  # the form of the solution changes, whatever rounding says about its value
    monitor.notes = {}
    with grace():
        scores = problem.scores_of_blocks(coef).sum(axis=0)
        point = Iterate(problem, weights, -problem.loss.gradient(scores) / problem.lam)
    with contextlib.suppress(OutOfTime):
        for _ in range(100):
            if point.value <= goal or point.gap <= 1e-14 * abs(point.value):
                break
            point.search([point.newton(100), (point.alpha, point.scores)])
            point.differentiate()
    monitor(point.weights, point.alpha)
