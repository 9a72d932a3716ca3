"""Solvers of multiple kernel Fisher discriminant analysis: Newton steps in the kernel weights, and others by name."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.optimize import nnls

from multikernel.gram import GramStack
from multikernel.problems.cutting_planes import solve_cone_program
from multikernel.problems.fisher import FisherProblem, fisher_system
from multikernel.problems.weight_sets import LpBall, lp_norm
from multikernel.runtime.monitor import Monitor
from multikernel.runtime.threads import map_threads, one_blas_thread
from multikernel.solvers.mkl.closed_form import closed_form
from multikernel.solvers.mkl.silp import silp

Vector = NDArray[np.float64]
Score = Callable[[FisherProblem, NDArray, NDArray], float]

# Gap, in units of the goal, from which on the curvature of the step before is good enough for one more.
NEARLY = 10.0
# Agreement with the labels, in units of the best kernel's, below which a kernel is not taken for worse at the start.
LEAST_AGREEMENT = 1e-4
# Halvings of a step, and the share of the decrease predicted that is enough.
MOST_HALVINGS, ENOUGH = 8, 1e-3
# Newton steps in the logarithms of the weights before a conic solver takes over, and their longest.
MOST_STEPS, LONGEST_STEP = 40, 2.0
# Least number of mixed discriminants in the curvature, and multiplications that take no time worth saving.
FEWEST_MIXTURES, NOTHING = 4, 1e7


def fisher_newton(
    problem: FisherProblem,
    monitor: Monitor,
    start: tuple[NDArray, NDArray] | None = None,
    *,
    max_iter: int = 200,
) -> None:
    """Minimise a quadratic model of J over the ball of weights, again and again.

    ``J(g) = λ tr(H'(K(g) + λI)⁻¹H)`` is smooth and convex, and its second derivatives cost one more product with the
    kernels and a triangular solve, with the factorisation that alpha needs anyway. The model is exact up to third
    order, so steps converge quadratically; they are halved until J falls.
    """
    weights = aligned_weights(problem) if start is None else start[0]
    value, alpha = problem.solve_inner(weights)
    random = np.random.default_rng(0)
    curvature = None
    for _ in range(max_iter):
        if monitor(weights, alpha):
            return
        # 1. the quadratic model; this near the goal the last curvature will do
        gradient = -0.5 * problem.quadratic_forms(alpha)
        if curvature is None or monitor.certificate.relative_gap > NEARLY * monitor.tol:
            curvature = problem.curvature(weights, mixtures(alpha, problem.n_kernels, random))
        # 2. its minimum over the ball
        target = minimise_model(curvature, gradient, weights, problem.weight_set)
        # 3. as far towards it as J falls
        found = _search(problem, weights, value, target, gradient)
        if found is None:  # the model misled: the closed-form weights decrease J as long as anything does
            target = problem.weight_set.weights(weights * np.sqrt(problem.quadratic_forms(alpha)))
            found = _search(problem, weights, value, target, gradient)
        if found is None:
            monitor.stopped = "rounding"
            return
        if monitor.certificate.relative_gap <= NEARLY * monitor.tol:
            curvature = None  # should the last step not have been enough
        weights, value, alpha = found


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


def mixtures(alpha: NDArray, n_kernels: int, random: np.random.Generator) -> NDArray[np.float64]:
    """Columns whose quadratic forms add up like those of alpha's columns, shape (n, m).

    All columns, unless their products with the kernels would cost more than a factorisation; then as many random sums
    of them, ``alpha @ signs / √m``, as that pays for. The expectation of the forms is right, which is enough for a
    model that only has to show the way.
    """
    n, c = alpha.shape
    m = max(FEWEST_MIXTURES, n // (6 * n_kernels))
    if c <= m or n_kernels * n**2 * c <= NOTHING:
        return alpha
    signs = random.choice([-1.0, 1.0], size=(c, m))
    return alpha @ (signs / np.sqrt(m))


def minimise_model(curvature: NDArray, gradient: Vector, weights: Vector, ball: LpBall) -> Vector:
    """Least point of ``gradient·(h − g) + ½ (h − g)'H(h − g)`` over the ball about 0, with g the weights."""
    scale = max(float(np.abs(gradient).max()), 1e-300)
    H = curvature / scale
    H.ravel()[:: len(H) + 1] += 1e-10 * max(float(H.trace()) / len(H), 1e-12)
    cost = gradient / scale - H @ weights
    if ball.p == 1.0:
        return _on_simplex(H, cost)
    h = None if ball.is_box else _on_sphere(H, cost, ball.p, weights)
    return _in_ball(H, cost, ball) if h is None else h


def _on_sphere(H: NDArray, cost: Vector, p: float, about: Vector) -> Vector | None:
    """Root of ``cost + Hh + μ h^(p−1)`` with ``‖h‖_p = 1, μ > 0``: by convexity the least point of ``_in_ball``.

    Newton steps in ``log h`` and μ, from the weights ``about``; None if they do not get there. A weight that goes to
    zero may leave its residual positive.
    """
    F = len(cost)
    x = np.log(np.maximum(about, 1e-12))
    x -= np.log(lp_norm(np.exp(x), p))
    mu = 0.0
    system = np.zeros((F + 1, F + 1))
    for step in range(MOST_STEPS):
        h = np.exp(x)
        power = h ** (p - 1.0)
        slope = cost + H @ h
        if step == 0:
            mu = max(-float(h @ slope), 1e-12)
        residual, excess = slope + mu * power, float(h @ power) - 1.0
        met = (np.abs(residual) <= 1e-9 * np.abs(slope).max()) | ((residual > 0.0) & (h <= 1e-9))
        if met.all() and abs(excess) <= 1e-9:
            return h / lp_norm(h, p) if mu > 0.0 else None
        system[:F, :F] = h[:, None] * H * h  # rows scaled by h, which makes it symmetric and changes no step
        diagonal = np.einsum("ii->i", system[:F, :F])
        diagonal += mu * (p - 1.0) * h * power
        system[:F, F] = h * power
        system[F, :F] = p * h * power
        try:
            move = np.linalg.solve(system, -np.append(h * residual, excess))
        except np.linalg.LinAlgError:
            return None
        share = min(1.0, LONGEST_STEP / max(float(np.abs(move[:F]).max()), 1e-300))
        x, mu = x + share * move[:F], mu + share * float(move[F])
        if not np.isfinite(x).all():
            return None
    return None


def _on_simplex(H: NDArray, cost: Vector) -> Vector:
    """Least point of ``cost·h + ½ h'Hh`` with ``h ≥ 0, Σ h = 1``, with exact zeros.

    Non-negative least squares of ``R h − t``, with R'R = H and R't = −cost, and of the sum, at a high price. On the
    simplex a constant added to the cost changes nothing; it is chosen so that the sum is not fought against.
    """
    shift = cost - cost.max() - 1.0
    values, vectors = np.linalg.eigh(H)
    roots = np.sqrt(np.maximum(values, 1e-14 * max(float(values[-1]), 1e-300)))
    R, t = roots[:, None] * vectors.T, -(vectors.T @ shift) / roots
    price = 1e4 * max(float(roots[-1]), 1.0)
    h = nnls(np.vstack([R, np.full(len(H), price)]), np.append(t, price))[0]
    return h / h.sum()


def _in_ball(H: NDArray, cost: Vector, ball: LpBall) -> Vector:
    """Least point of ``cost·h + ½ h'Hh`` with ``h ≥ 0, ‖h‖_p ≤ 1``: one power cone a kernel."""
    import clarabel

    F = len(cost)
    if ball.is_box:
        rows, right = sparse.vstack([sparse.identity(F), -sparse.identity(F)]), np.repeat([1.0, 0.0], F)
        x, _ = solve_cone_program(cost, rows.tocsc(), right, [clarabel.NonnegativeConeT(2 * F)], sparse.csc_matrix(H))
        return np.clip(x, 0.0, 1.0)
    # variables (h, z): h ≥ 0, Σ z ≤ 1, and (z_j, 1, h_j) in a power cone, that is h_j^p ≤ z_j
    upper = sparse.vstack(
        [
            sparse.hstack([-sparse.identity(F), sparse.csc_matrix((F, F))]),
            sparse.hstack([sparse.csc_matrix((1, F)), np.ones((1, F))]),
        ]
    )
    triples = sparse.lil_matrix((3 * F, 2 * F))
    triples[3 * np.arange(F), F + np.arange(F)] = -1.0
    triples[3 * np.arange(F) + 2, np.arange(F)] = -1.0
    right = np.concatenate([np.zeros(F), [1.0], np.tile([0.0, 1.0, 0.0], F)])
    cones = [clarabel.NonnegativeConeT(F + 1)] + [clarabel.PowerConeT(1.0 / ball.p)] * F
    P = sparse.block_diag([H, sparse.csc_matrix((F, F))], format="csc")
    x, _ = solve_cone_program(np.append(cost, np.zeros(F)), sparse.vstack([upper, triples]).tocsc(), right, cones, P)
    h = np.maximum(x[:F], 0.0)
    return h / lp_norm(h, ball.p)


def _search(
    problem: FisherProblem, weights: Vector, value: float, target: Vector, gradient: Vector
) -> tuple[Vector, float, NDArray] | None:
    """Weights, J and alpha at the first of the steps 1, ½, ¼, … that decreases J enough; None if none does."""
    direction = target - weights
    slope = float(gradient @ direction)
    if not slope < 0.0:  # also if the target is not a number
        return None
    step = 1.0
    for _ in range(MOST_HALVINGS):
        trial = target if step == 1.0 else weights + step * direction
        reached, alpha = problem.solve_inner(trial)
        if reached <= value + ENOUGH * step * slope:
            return trial, reached, alpha
        step *= 0.5
    return None


FISHER_SOLVERS: dict[str, Callable] = {
    "auto": fisher_newton,  # the fastest that certifies, whatever p: see benchmarks/bench_mkfda.py
    "newton": fisher_newton,
    "sip": silp,
    "sip-taylor": partial(silp, master="taylor"),
    "closed-form": closed_form,
}


def solve_fisher(
    problem: FisherProblem, monitor: Monitor, start: tuple[NDArray, NDArray] | None, solver: str, max_iter: int
) -> None:
    """Run a solver by its name; the monitor has the result.

    Parameters
    ----------
    problem : FisherProblem
    monitor : Monitor
    start : (weights, alpha) or None
        Weights, of any size, to start from; those of another p serve as well.
    solver : {"auto", "newton", "sip", "sip-taylor", "closed-form"}
        "newton": quadratic models. "sip": the paper's semi-infinite program by cutting planes with the norm as it is,
        and "sip-taylor" with the norm expanded as in [YMBCK10, eq. (7)]. "closed-form": linear systems in turn with
        closed-form weights.
    max_iter : int
        Largest number of iterations.
    """
    if solver == "sip-taylor" and (problem.weight_set.p == 1.0 or problem.weight_set.is_box):
        solver = "sip"  # these norms are linear: there is nothing to expand
    begin = None if start is None else scaled_start(start[0], problem.weight_set, zeros=solver != "closed-form")
    state = None if begin is None else (begin, problem.start()[1])
    FISHER_SOLVERS[solver](problem, monitor, state, max_iter=max_iter)


def scaled_start(weights: NDArray, ball: LpBall, *, zeros: bool) -> NDArray | None:
    """Weights scaled to the boundary of the ball; None if they are of no use, such as zeros where none may be."""
    if ball.is_box or not np.isfinite(weights).all() or not weights.max(initial=0.0) > 0.0:
        return None
    if not zeros and not weights.min() > 0.0:
        return None
    return weights / lp_norm(weights, ball.p)


class FisherGrid:
    """All points of a grid on the same training kernels.

    For each λ, p falls from point to point: the weights of the larger p, scaled, are near those of the smaller, and
    at p = ∞ they are known. The kernels, and for low-rank stacks the products of their features, are shared by all
    values of λ, and so is the combined kernel as long as the weights are. A factorisation is not: an
    eigendecomposition, which would serve all λ of the paper's ten, takes as long as 15 Cholesky factorisations at
    n = 680 and 20 at n = 2,000, and from the second iteration on the weights differ.

    Parameters
    ----------
    stack : GramStack
        Training kernels.
    targets : ndarray of shape (n, c)
        Centred labels.
    sample_weight : ndarray of shape (n,)
    ps, regs : ndarray
        The grid.
    memory : int
        Bytes for kernels.

    Attributes
    ----------
    scores, gaps : ndarray of shape (len(ps), len(regs))
    weights : ndarray of shape (len(ps), len(regs), F)
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
