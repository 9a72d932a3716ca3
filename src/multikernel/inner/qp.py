"""The quadratic program behind every SVM of the library, solved by decomposition.

    minimise  ½ b'Kb − p'b   subject to   lo ≤ b ≤ hi,   the sum of b over each group fixed          (QP)

with b the signed dual coefficients. A burst chooses a working set, solves (QP) on it, the others fixed, and
nothing but b survives it: the gradient is computed afresh from b, so a run resumed from b goes on as if it
had never stopped.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from multikernel.inner.feasible import settle_sum
from multikernel.inner.interior import interior_point
from multikernel.inner.newton import newton_step
from multikernel.inner.operators import DenseOperator, KernelOperator

Vector = NDArray[np.float64]

# Free variables for which a Newton step is tried: beyond, one factorisation costs more than SMO needs.
MOST_FREE = 3000


@dataclass(frozen=True)
class BoxProblem:
    """Data of (QP) without its kernel.

    Parameters
    ----------
    p, lo, hi : ndarray of shape (n,)
        Linear term and bounds.
    groups : tuple of ndarray of int
        Indices of the variables whose sum is fixed: none, one or two groups, which cover all variables.
    totals : tuple of float
        The sums.
    """

    p: Vector
    lo: Vector
    hi: Vector
    groups: tuple[NDArray[np.intp], ...]
    totals: tuple[float, ...]

    def feasible(self, b: Vector) -> Vector:
        """A feasible point near ``b``, with exactly kept bounds and sums right to rounding."""
        b = np.clip(b, self.lo, self.hi)
        for group, total in zip(self.groups, self.totals):
            b[group] = settle_sum(b[group], self.lo[group], self.hi[group], total)
        return b

    def violations(self, g: Vector, b: Vector) -> tuple[Vector, float]:
        """How far each variable is from optimal given the middle multiplier, and the worst pair's violation.

        Negative for a variable that is rightly at its bound, by its distance from changing.
        """
        up = np.where(b < self.hi, -g, -np.inf)
        down = np.where(b > self.lo, g, -np.inf)
        if not self.groups:
            each = np.maximum(up, down)
            return each, max(float(each.max(initial=0.0)), 0.0)
        each, worst = np.full(len(b), -np.inf), 0.0
        for group in self.groups:
            top, bottom = up[group].max(initial=-np.inf), down[group].max(initial=-np.inf)
            if not np.isfinite(top + bottom):
                continue
            middle = 0.5 * (top - bottom)
            each[group] = np.maximum(up[group] - middle, down[group] + middle)
            worst = max(worst, float(top + bottom))
        return each, worst


class WorkingSet:
    """(QP) restricted to some variables, their block of K copied so that it is contiguous.

    Parameters
    ----------
    K : ndarray of shape (m, m)
        Block of the kernel, rows and columns in the order of ``index``.
    problem : BoxProblem
        The whole problem.
    index : ndarray of shape (m,)
        The variables, those of the first group first.
    g, b : ndarray of shape (n,)
        Gradient and point of the whole problem.
    """

    def __init__(self, K: NDArray, problem: BoxProblem, index: NDArray[np.intp], g: Vector, b: Vector):
        self.K, self.index, self.n_groups = K, index, len(problem.groups)
        self.split = len(index)
        if self.n_groups == 2:
            self.split = int(np.isin(index, problem.groups[0], assume_unique=True).sum())
        self.diagonal = K.diagonal().astype(np.float64)
        # curvatures below this are rounding or not PSD; 1e-12 as in libsvm, but relative to the kernel
        self.tau = 1e-12 * (float(self.diagonal.max(initial=0.0)) or 1.0)
        self.lo, self.hi = problem.lo[index], problem.hi[index]
        self.b, self.g = b[index].copy(), g[index].copy()

    def free(self) -> NDArray[np.intp]:
        """Variables strictly between their bounds."""
        return np.flatnonzero((self.b > self.lo) & (self.b < self.hi))

    def smo(self, eps: float, max_iter: int) -> float:
        """Run compiled SMO to a KKT violation of ``eps``; return the violation reached."""
        from multikernel.compiled.smo import pair_smo, single_smo

        common = (self.K, self.diagonal, self.tau, self.lo, self.hi)
        if self.n_groups:
            violation, _ = pair_smo(*common, self.split, self.b, self.g, eps, max_iter)
        else:
            violation, _ = single_smo(*common, self.b, self.g, eps, max_iter)
        return violation

    def newton(self, free: NDArray[np.intp]) -> bool:
        """One Newton step on the free variables; True if no bound stopped it."""
        from multikernel.compiled.smo import gather, weighted_rows

        A = np.empty((len(free), len(free)), dtype=self.K.dtype)
        gather(self.K, free, free, A, 0, len(free))
        split = int(np.searchsorted(free, self.split))
        old = self.b[free]
        new, whole = newton_step(A, self.g[free], old, self.lo[free], self.hi[free], split, self.n_groups)
        self.b[free] = new
        weighted_rows(self.K, free, new - old, self.g, 0, len(self.g))
        return whole

    def solve(self, eps: float, rounds: int) -> None:
        """Alternate SMO, which finds out which variables are free, with Newton steps on those.

        SMO gets as much time as the Newton step takes, or more: early on it moves many variables to and from their bounds,
        which a Newton step cannot; near the end one Newton step does what SMO would need very many steps for.
        """
        for _ in range(rounds):
            n_free = len(self.free())
            if self.smo(eps, self._smo_steps_worth_a_newton_step(n_free)) <= eps:
                return
            free = self.free()
            for _ in range(MOST_NEWTON_STEPS):
                if not 1 < len(free) <= MOST_FREE or self.newton(free):
                    break
                free = self.free()

    def _smo_steps_worth_a_newton_step(self, n_free: int) -> int:
        newton_seconds = n_free**3 / 3 / 1e10 + n_free * (n_free + len(self.b)) * 1e-9
        smo_seconds = 3e-7 + 2e-9 * len(self.b)
        return int(max(len(self.b), SMO_SHARE * newton_seconds / smo_seconds))


MOST_NEWTON_STEPS = 1
SMO_SHARE = 2.0


def choose(problem: BoxProblem, g: Vector, b: Vector, size: int) -> tuple[NDArray[np.intp], float]:
    """Working set, first group first, and the worst violation.

    Every variable that may still move; where that is more than ``size``, those that most want to, half of
    them upwards and half downwards, since a pair needs one of each.
    """
    each, worst = problem.violations(g, b)
    chosen = each > -0.5 * worst
    if chosen.sum() > size:
        up, down = np.where(b < problem.hi, -g, -np.inf), np.where(b > problem.lo, g, -np.inf)
        chosen = np.zeros(len(b), dtype=bool)
        groups = problem.groups or (np.arange(len(b)),)
        quota = max(size // (2 * len(groups)), 1)
        for group in groups:
            for wish in (up[group], down[group]):
                order = np.argsort(-wish, kind="stable")[:quota]
                chosen[group[order[wish[order] > -np.inf]]] = True
    parts = problem.groups if len(problem.groups) == 2 else (np.arange(len(b)),)
    return np.concatenate([part[chosen[part]] for part in parts]), worst


def solve_qp(
    operator: KernelOperator,
    problem: BoxProblem,
    b: Vector,
    relative_gap: Callable[[Vector, Vector], float],
    *,
    tol: float,
    max_iter: int,
    working_size: int,
    monitor: Callable[[Vector], bool] | None = None,
) -> tuple[Vector, Vector, float]:
    """Bursts until ``relative_gap(scores, b) <= tol``, or the monitor says stop, or nothing moves any more.

    Returns
    -------
    b, scores : ndarray of shape (n,)
        Feasible point and K @ b.
    gap : float
        Relative duality gap there.
    """
    b = problem.feasible(b)
    scores = _finite(operator.matvec(b))
    gap = relative_gap(scores, b)
    for _ in range(max_iter):
        if gap <= tol:
            break
        before = b
        b = problem.feasible(_burst(operator, problem, b, scores, relative_gap, tol, working_size))
        scores = operator.matvec(b)
        gap = relative_gap(scores, b)
        if (monitor is not None and monitor(b)) or np.array_equal(b, before):
            break
    return b, scores, gap


def _finite(scores: Vector) -> Vector:
    return scores


def _burst(
    operator: KernelOperator,
    problem: BoxProblem,
    b: Vector,
    scores: Vector,
    relative_gap: Callable[[Vector, Vector], float],
    tol: float,
    working_size: int,
) -> Vector:
    """A few working sets, one after the other, the gradient following along."""
    b, g = b.copy(), scores - problem.p
    start = gap = relative_gap(scores, b)
    for _ in range(ROUNDS):
        index, worst = choose(problem, g, b, working_size)
        if len(index) > 0.5 * len(b) and isinstance(operator, DenseOperator) and len(problem.groups) < 2:
            # most variables still move: SMO on the kernel where it lies, and no finish worth its price
            work = WorkingSet(operator.K, problem, np.arange(len(b)), g, b)
            work.smo(0.1 * worst, len(b))
            b, g = work.b, work.g
            continue
        work = WorkingSet(operator.submatrix(index, index), problem, index, g, b)
        work.solve(0.03 * worst, 10)
        change = np.zeros(len(b))
        change[index] = work.b - b[index]
        b[index] = work.b
        g += operator.matvec(change)
        gap = relative_gap(g + problem.p, b)
        if gap <= 0.5 * tol:
            return b
    if gap > SLOW * start:
        return _interior_burst(operator, problem, b, g, relative_gap, tol, working_size)
    return b


def _interior_burst(
    operator: KernelOperator,
    problem: BoxProblem,
    b: Vector,
    g: Vector,
    relative_gap: Callable[[Vector, Vector], float],
    tol: float,
    working_size: int,
) -> Vector:
    """Solve one working set by the interior-point method; ``b`` itself if that is not better."""
    index, _ = choose(problem, g, b, working_size)
    movable = np.flatnonzero(problem.hi > problem.lo)
    if len(movable) <= min(working_size, SMALL):
        index = movable
    if len(index) < 2:
        return b
    K = operator.submatrix(index, index)
    groups = np.column_stack([np.isin(index, group) for group in problem.groups] or [np.empty((len(index), 0))])
    inside, snapped = interior_point(
        K,
        K @ b[index] - g[index],
        problem.lo[index],
        problem.hi[index],
        groups.astype(np.float64),
        groups.T.astype(np.float64) @ b[index],
        tol=0.1 * tol,
    )
    best, best_gap = b, relative_gap(g + problem.p, b)
    for candidate in (inside, snapped):
        moved = b.copy()
        moved[index] = candidate
        moved = problem.feasible(moved)
        gap = relative_gap(g + operator.matvec(moved - b) + problem.p, moved)
        if gap <= max(best_gap, 0.5 * tol):
            best, best_gap = moved, gap
    return best


# Below this share of the gap gone in a burst SMO is not getting anywhere.
SLOW = 0.3
SMALL = 1500


ROUNDS = 4
