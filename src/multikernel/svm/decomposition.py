"""Solve the SVMs' quadratic program by decomposition, in bursts that carry nothing over but b.

A burst chooses working sets one after the other, solves (QP) on each, the other variables fixed, and lets the
gradient follow. The next burst computes the gradient afresh from b, so a run resumed from a stored b goes on
as if it had never stopped.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.lapack import dpotrs

from multikernel.runtime.clock import ENTRIES_AT_ONCE, OutOfTime, check
from multikernel.svm.interior import interior_point, low_rank_factor
from multikernel.svm.quadratic_program import (
    BoxProblem,
    DenseOperator,
    Indices,
    KernelOperator,
    project_to_sum,
    ridged_cholesky,
)

Vector = NDArray[np.float64]
Reached = tuple[Vector, Vector, float]  # b, K @ b, relative gap

# A burst ends after so many working sets if they left at most this share of the gap. If not, it goes on for one more
# per 50 samples before it turns to the interior-point method, which costs a multiple of n³.
ROUNDS, SLOW, SAMPLES_A_ROUND = 4, 0.3, 50
ROUNDING = 1e-6  # share of the objective by which a burst may fall behind the one before
VERIFIED_ROWS, DRIFT = 64, 1e-10  # rows on which scores are compared with K @ b, and the difference that is rounding
PATIENCE = 5  # bursts without progress after which to stop
DISPROVED = 2  # bursts that reach the tolerance by scores they updated, but not by fresh ones: the rest is rounding
CRAWLING = ((10, 0.99), (30, 0.5))  # bursts, and the share of the gap they must not leave: more would not help
FASTEST = 0.003  # most that one working set may reduce the violation: more precision is lost with the next set
# Bounds this many times beyond the largest variable are lost in any sum with it. The interior-point method, which
# starts in the middle of the box, would take most of its steps to come back from there: it gets nearer ones.
FAR_BOUND, NEARER_BOUND = 1e20, 1e6
LITTLE = 100.0  # gap, in units of the tolerance, up to which SMO is tried before a Newton step
SMALL = 1500  # variables up to which the interior-point method takes all of them
MOST_FREE = 3000  # free variables for which a Newton step is tried: beyond, factorising costs more than SMO needs
SMO_SHARE = 0.5  # time that SMO gets per Newton step, in Newton steps
SETTLED = 0.05  # while a larger share of the variables wants to leave its bounds, SMO comes first
MOST_CHANGES, MOST_HELD = 8, 0.25  # changes of the active set in a Newton step, and share of variables held


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
            # where rounding of the kernel can change the objective by all that it is, bursts chase noise
            noise = self.entry_error * float(np.abs(b).sum()) ** 2
            if disproved >= DISPROVED or (crawls and noise > abs(self.value(scores, b))):
                break
        return b, scores, gap

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
        """Minus the objective of (QP)."""
        return self.problem.linear(b) - 0.5 * float(b @ scores)

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
                # what makes the gap small enough, but not all at once
                target = worst * min(max(0.3 * self.tol / gap, FASTEST), 0.1)
                work.solve(target, 10, smo_first=gap <= LITTLE * self.tol)
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
            best = self._better(best, index, candidate)
        # an interior point has no exact zeros: SMO takes the variables that are nearly at a bound there
        work = WorkingSet(self.operator, problem, index, best[1] - problem.p, best[0])
        work.smo(0.0, 4 * len(index))
        work.solve(0.0, 2)
        return self._better(best, index, work.b)

    def _better(self, best: Reached, index: Indices, values: Vector) -> Reached:
        """The point with other values of some variables, if that is no worse or good enough."""
        moved = best[0].copy()
        moved[index] = values
        moved = self.problem.feasible(moved)
        scores = best[1] + self.operator.matvec(moved - best[0])
        gap = self.relative_gap(scores, moved)
        return (moved, scores, gap) if gap <= max(best[2], 0.5 * self.tol) else best

    def _made_feasible(self, b: Vector, scores: Vector, gap: float) -> Reached:
        """``b`` made exactly feasible; scores and gap follow if that moved it by more than rounding."""
        feasible = self.problem.feasible(b)
        change = feasible - b
        if np.abs(change).max() > 1e-12 * np.abs(b).max():
            scores = scores + self.operator.matvec(change)
            gap = self.relative_gap(scores, feasible)
        return feasible, scores, gap

    def _interior_points(self, index: NDArray[np.intp], b: Vector, scores: Vector) -> tuple[Vector, ...]:
        problem = self.problem
        K = self.operator.submatrix(index, index)
        groups = np.zeros((len(index), len(problem.groups)))
        for k, group in enumerate(problem.groups):
            groups[:, k] = np.isin(index, group)
        # another burst moves them out again if the solution is there
        largest = float(np.abs(b).max(initial=0.0)) or np.inf
        lo, hi = problem.lo[index], problem.hi[index]
        lo = np.where(lo < -FAR_BOUND * largest, -NEARER_BOUND * largest, lo)
        hi = np.where(hi > FAR_BOUND * largest, NEARER_BOUND * largest, hi)
        p, totals = problem.p[index] - (scores[index] - K @ b[index]), groups.T @ b[index]
        if not problem.kink:
            return interior_point(K, p, lo, hi, groups, totals, tol=0.1 * self.tol)
        # a smooth program in the positive and the negative part of b
        none, kink = np.zeros(len(index)), problem.kink
        p, lo, hi = np.append(p - kink, p + kink), np.append(none, lo), np.append(hi, none)
        ends = interior_point(K, p, lo, hi, np.tile(groups, (2, 1)), totals, tol=0.1 * self.tol)
        return tuple(end.reshape(2, -1).sum(axis=0) for end in ends)


class WorkingSet:
    """(QP) restricted to the variables ``index``, those of the first group first; g and b are those of all variables.

    Their block of K is copied, so that it is contiguous, but a row at a time, when the row is first needed.
    """

    def __init__(self, operator: KernelOperator, problem: BoxProblem, index: Indices, g: Vector, b: Vector):
        m, self.index, self.box = len(index), index, problem.part(index)
        self.n_groups = len(problem.groups)
        if not isinstance(operator, DenseOperator):
            self.K = self.source = operator.submatrix(index, index)
            self.ready = np.ones(m, dtype=bool)
        elif m == len(b) and self.n_groups < 2:
            self.K = self.source = operator.K
            self.ready = np.ones(m, dtype=bool)
        else:
            self.source, self.K = operator.K, np.empty((m, m), dtype=operator.K.dtype)
            self.ready = np.zeros(m, dtype=bool)
        self.split = len(self.box.groups[0]) if self.n_groups else m
        self.diagonal = operator.diagonal()[index]
        # curvatures below this are rounding or not PSD; 1e-12 as in libsvm, but relative to the kernel
        self.tau = 1e-12 * (float(self.diagonal.max(initial=0.0)) or 1.0)
        self.b, self.g = b[index].copy(), g[index].copy()

    def smo(self, eps: float, max_iter: int) -> float:
        """Run compiled SMO to a KKT violation of ``eps``; return the violation reached."""
        from multikernel.compiled.smo import pair_smo, single_smo

        m, box = len(self.b), self.box
        common = self.source, self.index, self.K, self.ready, self.diagonal, self.tau, box.lo, box.hi
        at_once, state = max(1, ENTRIES_AT_ONCE // max(m, 1)), (self.b, self.g, *np.empty((3, m)))
        while True:
            check()
            most = min(max_iter, at_once)
            if self.n_groups:
                violation, steps = pair_smo(*common, box.kink, self.split, *state[:4], eps, most)
            else:
                violation, steps = single_smo(*common, *state, eps, most)
            max_iter -= steps
            if steps < most or not max_iter:
                return violation

    def _counts(self) -> tuple[int, Indices]:
        """How many variables are free, and which are free or want to leave their bounds."""
        free, loose = self.box.loose(self.g, self.b)
        return int(np.count_nonzero(free)), np.flatnonzero(loose)

    def is_settled(self) -> bool:
        """Whether few variables want to leave their bounds, and a Newton step costs no more than SMO on all."""
        n_free, loose = self._counts()
        few = len(loose) <= min(n_free + SETTLED * len(self.b), MOST_FREE)
        return n_free > 0 and few and self._smo_steps_worth_a_newton_step(n_free) <= len(self.b)

    def newton(self, loose: Indices) -> bool:
        """Minimise over the given variables; True if that was done exactly."""
        from multikernel.compiled.smo import gather, weighted_rows

        missing = loose[~self.ready[loose]]
        for i in missing:
            self.source[self.index[i]].take(self.index, out=self.K[i], mode="clip")
        self.ready[missing] = True
        A = np.empty((len(loose), len(loose)), dtype=self.K.dtype)
        gather(self.K, loose, loose, A, 0, len(loose))
        split, old = int(np.searchsorted(loose, self.split)), self.b[loose]
        g, lo, hi = (part[loose] for part in self.box.smooth_part(self.g, self.b))
        new, exact = BoundedNewton(A, g, old, lo, hi, split, self.n_groups).step()
        self.b[loose] = new
        weighted_rows(self.K, loose, new - old, self.g, 0, len(self.g))
        return exact

    def solve(self, eps: float, rounds: int, *, smo_first: bool = False) -> None:
        """Alternate Newton steps on the variables not held by a bound with SMO, which finds out which those are.

        Early on SMO moves many variables to and from their bounds, which a Newton step cannot; near the end one
        Newton step does what SMO needs very many steps for. So SMO gets about the time of a Newton step, and
        twice as much after each that did not reach the minimum. With ``smo_first`` it gets the first turn, which is
        enough where little is left to do.
        """
        patience = 1
        for turn in range(rounds):
            n_free, loose = self._counts()
            settled = len(loose) <= n_free + SETTLED * len(self.b) and not (smo_first and turn == 0)
            steps = self._smo_steps_worth_a_newton_step(n_free)
            if settled and 1 < len(loose) <= MOST_FREE:
                if self.newton(loose):
                    # nothing is left to gain among these: SMO has to let go the few that now want to leave a bound
                    n_free, loose = self._counts()
                    steps = min(steps, 64 + 4 * (len(loose) - n_free))
                else:
                    patience *= 2
            if self.smo(eps, patience * steps) <= eps:
                return

    def _smo_steps_worth_a_newton_step(self, n_free: int) -> int:
        # a model, not a clock, so that results do not depend on the machine's load
        newton_seconds = n_free**3 / 3 / 1e10 + n_free * (n_free + len(self.b)) * 1e-9
        smo_seconds = 3e-7 + 2e-9 * len(self.b)
        return int(max(len(self.b), SMO_SHARE * newton_seconds / smo_seconds))


class BoundedNewton:
    """Minimise ½ d'Ad + g'd over  lo ≤ b + d ≤ hi,  the sums of d over ``n_groups`` groups zero.

    The second group starts at ``split``. A is factored once, with the smallest ridge that it needs. Variables that
    leave the box are held at the bound they crossed, and those held against their multiplier are let go, until
    nothing changes (a primal-dual active-set method): each held variable costs two triangular solves.
    """

    def __init__(self, A: NDArray, g: Vector, b: Vector, lo: Vector, hi: Vector, split: int, n_groups: int):
        self.A, self.g, self.b, self.lo, self.hi = A, g, b, lo, hi
        slices = {0: (), 1: (slice(0, None),), 2: (slice(0, split), slice(split, None))}[n_groups]
        self.parts = [part for part in slices if len(b[part])]
        self.factor = ridged_cholesky(A)
        self.sums = np.zeros((len(b), len(self.parts)))
        for k, part in enumerate(self.parts):
            self.sums[part, k] = 1.0
        solved = dpotrs(self.factor, np.column_stack([-g, self.sums]), lower=1)[0]
        self.plain, self.spread = solved[:, 0], solved[:, 1:]
        self.columns: dict[int, Vector] = {}

    def _columns(self, held: Indices) -> NDArray:
        """Columns of the inverse of A, remembered."""
        new = [k for k in held.tolist() if k not in self.columns]
        if new:
            units = np.zeros((len(self.b), len(new)))
            units[new, np.arange(len(new))] = 1.0
            self.columns.update(zip(new, dpotrs(self.factor, units, lower=1)[0].T))
        return np.array([self.columns[k] for k in held.tolist()]).reshape(len(held), len(self.b)).T

    def direction(self, held: Indices, ends: Vector) -> tuple[Vector, Vector]:
        """Minimiser with sums zero and d[held] = ends, and the multipliers of the held."""
        H = np.hstack([self.spread, self._columns(held)])
        if H.shape[1] == 0:
            return self.plain, np.zeros(0)
        C_H = np.vstack([self.sums.T @ H, H[held]])
        lacking = np.concatenate([self.sums.T @ self.plain, self.plain[held] - ends])
        multipliers = _solve_small(C_H, lacking)
        return self.plain - H @ multipliers, multipliers[len(self.parts) :]

    def step(self) -> tuple[Vector, bool]:
        """The new point, and whether it is the exact minimum over the box."""
        below, above = self.lo - self.b, self.hi - self.b
        held, at_top = np.zeros(0, dtype=np.intp), np.zeros(0, dtype=bool)
        first = None
        for _ in range(MOST_CHANGES):
            ends = np.where(at_top, above[held], below[held])
            d, multipliers = self.direction(held, ends)
            if not np.isfinite(d).all():
                return self.b, False
            first = d if first is None else first
            # a variable held at its upper bound must want up: its multiplier is positive
            right = np.where(at_top, multipliers >= 0.0, multipliers <= 0.0)
            outside = (d < below) | (d > above)
            outside[held] = False
            crossed = np.flatnonzero(outside)
            if right.all() and not len(crossed):
                d[held] = ends
                return self._best_end([self._fitted(d)]), True
            at_top = np.concatenate([at_top[right], d[crossed] > above[crossed]])
            held = np.concatenate([held[right], crossed])
            if len(held) > MOST_HELD * len(self.b):
                break
        assert first is not None
        with np.errstate(divide="ignore", invalid="ignore"):
            room = np.where(first > 0.0, above / first, below / first)
        blocked = float(min(room[first != 0.0].min(initial=np.inf), 1.0))  # the step to the first bound
        return self._best_end([self._fitted(blocked * first), self._fitted(first), self._fitted(d)]), False

    def _fitted(self, d: Vector) -> Vector:
        """b + d, moved into the box with its sums kept (rounding, or bounds crossed)."""
        target = np.clip(self.b + d, self.lo, self.hi)
        for part in self.parts:
            target[part] = project_to_sum(target[part], self.lo[part], self.hi[part], float(self.b[part].sum()))
        return target

    def _best_end(self, ends: list[Vector]) -> Vector:
        """Where the objective is least on the segments from b to the ends; b where none descends."""
        best, best_change = self.b, 0.0
        for end in ends:
            d = end - self.b
            slope, curvature = float(self.g @ d), float(d @ (self.A @ d))
            if slope >= 0.0:  # uphill by rounding: the least point lies behind b, outside the box
                continue
            t = 1.0 if curvature <= -slope else -slope / curvature
            change = t * slope + 0.5 * t * t * curvature
            if change < best_change:
                best, best_change = (end if t == 1.0 else self.b + t * d), change
        return best


def _solve_small(M: NDArray, right: Vector) -> Vector:
    """Solve M x = right; in the least-squares sense where M is singular."""
    try:
        x = np.linalg.solve(M, right)
    except np.linalg.LinAlgError:
        x = np.full(len(right), np.nan)
    return x if np.isfinite(x).all() else np.linalg.lstsq(M, right, rcond=None)[0]
