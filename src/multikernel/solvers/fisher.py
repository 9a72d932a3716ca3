"""Solvers of multiple kernel Fisher discriminant analysis: Newton steps in the kernel weights, and others by name."""

import contextlib
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from multikernel.gram import GramStack
from multikernel.problems.fisher import FisherProblem, fisher_system
from multikernel.problems.svrg_features import FisherFeatures, FisherMoments, FisherSums
from multikernel.problems.weight_sets import LpBall
from multikernel.runtime.clock import map_threads, one_blas_thread
from multikernel.runtime.monitor import Monitor
from multikernel.solvers.common.newton import Start, evaluate, search_towards
from multikernel.solvers.svrg.primal import primal_newton

Vector = NDArray[np.float64]
Score = Callable[[FisherProblem, NDArray, NDArray], float]

NEARLY = 10.0  # gap, in units of tol, below which the curvature of the step before is good enough for one more
LEAST_AGREEMENT = 1e-4  # with the labels, relative to the best kernel's: below, kernels start alike


def fisher_newton(problem: FisherProblem, monitor: Monitor, start: Start = None, *, max_iter: int = 200) -> None:
    """Minimise a quadratic model of J over the ball of weights, again and again.

    ``J(g) = λ tr(H'(K(g) + λI)⁻¹H)`` is smooth and convex, and its second derivatives cost one more product with the
    kernels and a triangular solve, with the factorisation that alpha needs anyway. The model is exact up to third
    order, so steps converge quadratically; they are shortened until J falls. Of a start only the weights are used.
    """
    point = evaluate(problem, aligned_weights(problem) if start is None else start[0], None, 0.0)
    curvature = None
    for _ in range(max_iter):
        if monitor(point.weights, point.alpha):
            return
        # 1. the quadratic model; this near the goal the last curvature will do
        if curvature is None or monitor.certificate.relative_gap > NEARLY * monitor.tol:
            curvature = problem.curvature(point.weights, point.alpha)
        # 2. its minimum over the ball
        target = problem.weight_set.least_point(curvature, point.gradient, point.weights)
        # 3. as far towards it as J falls
        found = search_towards(point, target, 0.0)
        if found is None:  # the model misled: the closed-form weights decrease J as long as anything does
            target = problem.weight_set.weights(point.weights * np.sqrt(problem.quadratic_forms(point.alpha)))
            found = search_towards(point, target, 0.0)
        if found is None:
            monitor.stopped = "rounding"
            return
        if monitor.certificate.relative_gap <= NEARLY * monitor.tol:
            curvature = None  # should the last step not have been enough
        point = found


def aligned_weights(problem: FisherProblem) -> Vector:
    """Weights to start from, by how well each kernel agrees with the labels, ``a_j = ⟨H, K_j H⟩``; shape (F,).

    With a large λ alpha is H / λ, so a_j are the quadratic forms of the solution and the closed-form weights of equal
    ones come next; with a small λ alpha has little to do with H, and a_j count for less. A pass over the kernels that
    saves about one of four or five iterations.
    """
    equal = problem.start()[0]
    if problem.weight_set.is_box:
        return equal
    agreement = problem.squares(problem.targets)
    if not agreement.max() > 0.0:
        return equal
    eigenvalue = float(equal @ problem.stack.diagonal().mean(axis=1))  # the mean one, at equal weights
    share = problem.reg / (problem.reg + eigenvalue)
    agreement = np.maximum(agreement / agreement.max(), LEAST_AGREEMENT)
    return problem.weight_set.weights(equal * agreement ** (0.25 + 0.5 * share))


def solve_fisher(
    problem: FisherProblem | FisherFeatures,
    monitor: Monitor,
    start: Start,
    *,
    run: Callable[..., None],
    max_iter: int,
) -> None:
    """Run a solver from weights of any size; those of another p serve as well."""
    if isinstance(problem, FisherFeatures):
        primal_newton(problem, monitor, None if start is None else problem.repaired(*start), max_iter=max_iter)
        return
    usable = start is not None and not problem.weight_set.is_box and start[0].max(initial=0.0) > 0.0
    begin = (problem.weight_set.snapped(start[0]), problem.start()[1]) if usable and start is not None else None
    run(problem, monitor, begin, max_iter=max_iter)


def solve_moments(
    map: Any, sums: FisherSums, ps: Vector, regs: Vector, tol: float, max_iter: int, advance: Callable[[], None]
) -> tuple[NDArray, NDArray, tuple[NDArray, NDArray]]:
    """A grid on sums of samples: weights (P, R, F), relative gaps (P, R), and all w and centroids side by side."""
    weights, gaps = np.zeros((len(ps), len(regs), len(map.ranks))), np.zeros((len(ps), len(regs)))
    models: dict[tuple[int, int], tuple[NDArray, NDArray]] = {}
    for k, reg in enumerate(regs):
        start: Start = None
        for row in np.argsort(-ps, kind="stable"):
            problem = FisherMoments(map, sums, float(reg), float(ps[row]), tol)
            monitor = Monitor(problem, tol)
            primal_newton(problem, monitor, None if start is None else problem.repaired(*start), max_iter=max_iter)
            result = monitor.result()
            start = result.weights, result.alpha
            weights[row, k], gaps[row, k] = result.weights, result.certificate.relative_gap
            w = result.weights[map.owner, None] * result.alpha.reshape(map.rank, -1)
            models[row, k] = w, problem.centroids(w)
            advance()
    w, centroids = zip(*(models[place] for place in np.ndindex(gaps.shape)))
    return weights, gaps, (np.hstack(w), np.stack(centroids))


class FisherGrid:
    """All points of a grid on the same training kernels.

    For each λ, p falls from point to point: the weights of the larger p, scaled, are near those of the smaller, and
    at p = ∞ they are known. The kernels, and for low-rank stacks the products of their features, are shared by all
    values of λ, and so is the combined kernel as long as the weights are. A factorisation is not: an
    eigendecomposition, which would serve all λ of the paper's ten, takes as long as 15 Cholesky factorisations at
    n = 680 and 20 at n = 2,000, and from the second iteration on the weights differ.

    ``ps`` and ``regs`` are the grid, ``targets`` (n, c) centred labels; ``scores`` and ``gaps`` have an entry for
    each of its points, ``weights`` (…, F) a row.
    """

    def __init__(
        self, stack: GramStack, targets: NDArray, sample_weight: NDArray, ps: NDArray, regs: NDArray, memory: int
    ):
        self.targets, self.sample_weight, self.ps, self.regs = targets, sample_weight, ps, regs
        self.system: Any = fisher_system(stack, float(regs[0]), memory)
        self.scores = np.full((len(ps), len(regs)), np.nan)
        self.gaps = np.full((len(ps), len(regs)), np.nan)
        self.weights = np.zeros((len(ps), len(regs), stack.n_kernels))

    def solve(self, solver: Callable, score: Score, tol: float, n_threads: int, advance: Callable[[], None]) -> None:
        """Solve and score every point; ``advance`` is called after each."""
        self.system.prepare(LpBall(float(self.ps.max())).start(self.weights.shape[2]))  # where every λ begins
        with one_blas_thread() if n_threads > 1 else contextlib.nullcontext():
            jobs = [(k, solver, score, tol, advance) for k in range(len(self.regs))]
            map_threads(self._path, jobs, n_threads)
        self.system = None

    def _path(self, k: int, solver: Callable, score: Score, tol: float, advance: Callable[[], None]) -> None:
        """All p for the λ number k, from large to small."""
        system = self.system.with_reg(float(self.regs[k]))
        start = None
        for row in np.argsort(-self.ps, kind="stable"):
            problem = FisherProblem(system, self.targets, LpBall(float(self.ps[row])), self.sample_weight)
            monitor = Monitor(problem, tol)
            solver(problem, monitor, start)
            result = monitor.result()
            start = result.weights, result.alpha
            self.weights[row, k], self.gaps[row, k] = result.weights, result.certificate.relative_gap
            self.scores[row, k] = score(problem, result.weights, result.alpha)
            advance()
