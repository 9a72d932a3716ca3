"""Solve the SVMs' quadratic program by decomposition, in bursts that carry nothing over but b.

A burst chooses working sets one after the other, solves (QP) on each, the other variables fixed, and lets the
gradient follow. The next burst computes the gradient afresh from b, so a run resumed from a stored b goes on
as if it had never stopped.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from multikernel.runtime.clock import OutOfTime
from multikernel.svm.interior import interior_point, low_rank_factor
from multikernel.svm.quadratic_program import BoxProblem, DenseOperator, KernelOperator
from multikernel.svm.working_set import WorkingSet

Vector = NDArray[np.float64]
Reached = tuple[Vector, Vector, float]  # b, K @ b, relative gap

# Working sets in a burst, if they leave at most this share of the gap.
ROUNDS, SLOW = 4, 0.3
# If not, a burst takes one more for so many samples before it turns to the interior-point method, which
# costs a multiple of n³.
SAMPLES_A_ROUND = 50
# Share of the objective by which a burst may fall behind the one before.
ROUNDING = 1e-6
# Rows on which scores are compared with K @ b after a burst, and the relative difference that is rounding.
VERIFIED_ROWS, DRIFT = 64, 1e-10
# Bursts without progress after which to stop.
PATIENCE = 5
# Bursts that reach the tolerance by scores they kept up to date, but not by fresh ones: the rest is rounding.
DISPROVED = 2
# Bursts, and the share of the gap that they must not leave: each has tried everything, so more would not help.
CRAWLING = ((10, 0.99), (30, 0.5))
# Most that one working set may reduce the violation: more precision is lost when the next set comes.
FASTEST = 0.003
# Gap in units of the tolerance up to which SMO is tried before a Newton step.
LITTLE = 100.0
# Bounds further away than so many times the largest variable so far are beyond the digits of any sum with it. The
# interior-point method, which starts in the middle of the box, would take most of its steps to come back from there:
# it gets nearer ones.
FAR_BOUND, NEARER_BOUND = 1e20, 1e6
# Up to this many variables the interior-point method takes all of them.
SMALL = 1500


class Progress:
    """Tells when bursts changed neither objective nor gap beyond rounding, or many hardly reduced the gap."""

    def __init__(self) -> None:
        self.values: list[float] = []
        self.gaps: list[float] = []

    def stalled(self, value: float, gap: float) -> bool:
        """Record a burst; True if the last ones brought nothing."""
        self.values.append(value)
        self.gaps.append(gap)
        if len(self.gaps) <= PATIENCE:
            return False
        gained = max(self.values[-PATIENCE:]) - max(self.values[:-PATIENCE])
        if gained <= 1e-13 * abs(value) and min(self.gaps[-PATIENCE:]) > 0.9 * min(self.gaps[:-PATIENCE]):
            return True
        return any(
            len(self.gaps) > bursts and min(self.gaps[-bursts:]) > share * min(self.gaps[:-bursts])
            for bursts, share in CRAWLING
        )


@dataclass
class Decomposition:
    """One solve: the kernel, the rest of (QP), what judges a point, and how far to go."""

    operator: KernelOperator
    problem: BoxProblem
    relative_gap: Callable[[Vector, Vector], float]  # of scores = K @ b, and b
    tol: float
    working_size: int
    entry_error: float = 0.0  # what rounding may have done to an entry of the kernel

    def solve(self, b: Vector, max_iter: int, monitor: Callable[[Vector], bool]) -> tuple[Vector, Vector, float]:
        """Bursts from ``b`` until the gap is small, or the monitor says stop, or nothing moves any more.

        Returns the feasible point, its scores and its gap; ``OutOfTime`` has the feasible point that was reached.
        """
        b = self._reached = self.problem.feasible(b)
        try:
            return self._solve(b, max_iter, monitor)
        except OutOfTime as end:
            end.reached = self.problem.feasible(self._reached)
            raise

    def _solve(self, b: Vector, max_iter: int, monitor: Callable[[Vector], bool]) -> tuple[Vector, Vector, float]:
        scores = self.operator.matvec(b)
        gap = self.relative_gap(scores, b)
        progress, disproved = Progress(), 0
        for burst in range(max_iter):
            if burst:
                # afresh from b: nothing else is carried from burst to burst
                scores = self.operator.matvec(b)
                gap = self.relative_gap(scores, b)
            value = self.value(scores, b)
            if not gap > self.tol or progress.stalled(value, gap):
                break
            claimed = self.burst(b, scores, gap)
            moved, moved_scores, moved_gap = self._verified(*claimed)
            disproved += claimed[2] <= self.tol < moved_gap
            if self.value(moved_scores, moved) < value - ROUNDING * abs(value) or np.array_equal(moved, b):
                break  # no burst makes the objective worse but for rounding: this is as far as it goes
            crawls = moved_gap > 0.5 * gap
            b, scores, gap = moved, moved_scores, moved_gap
            if monitor(b) or not gap > self.tol:
                break
            if disproved >= DISPROVED or (crawls and self._is_drowned(scores, b)):
                break
        return b, scores, gap

    def _is_drowned(self, scores: Vector, b: Vector) -> bool:
        """Whether rounding of the kernel can change the objective by all that it is: bursts then chase noise."""
        return self.entry_error * float(np.abs(b).sum()) ** 2 > abs(self.value(scores, b))

    def _verified(self, b: Vector, scores: Vector, gap: float) -> Reached:
        """The point with scores that are K @ b: computed again if a sample of rows shows that they have drifted."""
        if isinstance(self.operator, DenseOperator):  # elsewhere a block of the support may not fit in memory
            rows = np.unique(np.linspace(0, len(b) - 1, VERIFIED_ROWS).astype(np.intp))
            support = np.flatnonzero(b)
            fresh = self.operator.submatrix(rows, support).astype(np.float64, copy=False) @ b[support]
            if np.abs(fresh - scores[rows]).max(initial=0.0) <= DRIFT * np.abs(scores).max(initial=0.0):
                return b, scores, gap
        scores = self.operator.matvec(b)
        return b, scores, self.relative_gap(scores, b)

    def value(self, scores: Vector, b: Vector) -> float:
        """Dual objective: minus that of (QP)."""
        return float(self.problem.p @ b - 0.5 * b @ scores)

    def burst(self, b: Vector, scores: Vector, gap: float) -> Reached:
        """A few working sets, then the interior-point method if they did not bring the gap down."""
        b = self._reached = b.copy()
        g, start = scores - self.problem.p, gap
        patience = ROUNDS + len(b) // SAMPLES_A_ROUND
        for count in range(1, patience + 1):
            g = self._round(b, g, gap)
            gap = self.relative_gap(g + self.problem.p, b)
            if not gap > 0.5 * self.tol or (count >= ROUNDS and gap <= SLOW * start):
                return self._made_feasible(b, g + self.problem.p, gap)
            if count == 2 * ROUNDS and self._low_rank():
                break  # the interior-point method is cheap
        return self._interior_round(b, g + self.problem.p, gap)

    def _round(self, b: Vector, g: Vector, gap: float) -> Vector:
        """Improve ``b`` in place on one working set; return the gradient there."""
        index, worst = self.problem.working_set(g, b, self.working_size)
        most = len(index) > 0.5 * len(b) and len(b) <= self.working_size
        if most:
            index = self.problem.ordered(np.ones(len(b), dtype=bool))
        work, change = WorkingSet(self.operator, self.problem, index, g, b), np.zeros(len(b))
        try:
            if most and not work.is_settled():
                # many variables still move: find out roughly which will be where
                work.smo(0.1 * worst, len(b))
            else:
                work.solve(self._target(worst, gap), 10, smo_first=gap <= LITTLE * self.tol)
        finally:  # what was reached counts even if time is up
            change[index] = work.b - b[index]
            b[index] = work.b
        if most:
            g = np.empty(len(b))
            g[index] = work.g
            return g
        return g + self.operator.matvec(change)

    def _low_rank(self) -> bool:
        """Whether the kernel among some samples is of low rank, so that the whole probably is, too."""
        n = len(self.problem.p)
        sample = np.unique(np.linspace(0, n - 1, min(n, self.working_size, 400)).astype(np.intp))
        return low_rank_factor(self.operator.submatrix(sample, sample).astype(np.float64)) is not None

    def _target(self, worst: float, gap: float) -> float:
        """KKT violation to reach on a working set: what makes the gap small enough, but not all at once."""
        return worst * min(max(0.3 * self.tol / gap, FASTEST), 0.1)

    def _interior_round(self, b: Vector, scores: Vector, gap: float) -> Reached:
        """The interior-point method on one working set; what came in if that is not better."""
        problem = self.problem
        index, _ = problem.working_set(scores - problem.p, b, self.working_size)
        movable = problem.hi > problem.lo
        if movable.sum() <= min(self.working_size, SMALL):
            index = problem.ordered(movable)
        best = self._made_feasible(b, scores, gap)
        if len(index) < 2:
            return best
        for candidate in self._interior_points(index, b, scores):
            moved = b.copy()
            moved[index] = candidate
            moved = problem.feasible(moved)
            moved_scores = scores + self.operator.matvec(moved - b)
            best = self._better(best, (moved, moved_scores, self.relative_gap(moved_scores, moved)))
        return self._better(best, self._cleaned(index, *best))

    def _better(self, best: Reached, other: Reached) -> Reached:
        """The second if it is no worse or good enough."""
        return other if other[2] <= max(best[2], 0.5 * self.tol) else best

    def _cleaned(self, index: NDArray[np.intp], b: Vector, scores: Vector, gap: float) -> Reached:
        """SMO takes the variables that are nearly at a bound there: an interior point has no exact zeros."""
        work = WorkingSet(self.operator, self.problem, index, scores - self.problem.p, b)
        work.smo(0.0, 4 * len(index))
        work.solve(0.0, 2)
        change = np.zeros(len(b))
        change[index] = work.b - b[index]
        scores = scores + self.operator.matvec(change)
        return self._made_feasible(b + change, scores, self.relative_gap(scores, b + change))

    def _made_feasible(self, b: Vector, scores: Vector, gap: float) -> Reached:
        """``b`` made exactly feasible; scores and gap follow if that moved it by more than rounding."""
        feasible = self.problem.feasible(b)
        change = feasible - b
        if np.abs(change).max() > 1e-12 * np.abs(b).max():
            scores = scores + self.operator.matvec(change)
            gap = self.relative_gap(scores, feasible)
        return feasible, scores, gap

    def _interior_points(self, index: NDArray[np.intp], b: Vector, scores: Vector) -> tuple[Vector, Vector]:
        problem = self.problem
        K = self.operator.submatrix(index, index)
        groups = np.zeros((len(index), len(problem.groups)))
        for k, group in enumerate(problem.groups):
            groups[:, k] = np.isin(index, group)
        # another burst moves them out again if the solution is there
        largest = float(np.abs(b).max(initial=0.0)) or np.inf
        lo, hi = problem.lo[index], problem.hi[index]
        return interior_point(
            K,
            problem.p[index] - (scores[index] - K @ b[index]),
            np.where(lo < -FAR_BOUND * largest, -NEARER_BOUND * largest, lo),
            np.where(hi > FAR_BOUND * largest, NEARER_BOUND * largest, hi),
            groups,
            groups.T @ b[index],
            tol=0.1 * self.tol,
        )
