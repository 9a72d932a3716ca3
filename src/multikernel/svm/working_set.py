"""The quadratic program on a few variables: compiled SMO and Newton steps in turn."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.lapack import dpotrs

from multikernel.runtime.clock import check
from multikernel.svm.cholesky import ridged_cholesky
from multikernel.svm.quadratic_program import BoxProblem, DenseOperator, Indices, KernelOperator, project_to_sum

Vector = NDArray[np.float64]

# Free variables for which a Newton step is tried: beyond, one factorisation costs more than SMO needs.
MOST_FREE = 3000
# Time SMO gets for every Newton step, in Newton steps.
SMO_SHARE = 0.5
# While more than this share of the variables want to leave their bounds SMO comes first.
SETTLED = 0.05
# Entries of kernel rows that SMO goes over between two looks at the clock: a quarter of a second.
ENTRIES_AT_ONCE = 10**8
# Changes of the active set tried in a Newton step, and the largest share of variables held (each costs a solve).
MOST_CHANGES, MOST_HELD = 8, 0.25


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
        at_once = max(1, ENTRIES_AT_ONCE // max(m, 1))
        while True:
            check()
            most = min(max_iter, at_once)
            if self.n_groups:
                violation, steps = pair_smo(*common, self.split, self.b, self.g, *np.empty((2, m)), eps, most)
            else:
                violation, steps = single_smo(*common, self.b, self.g, *np.empty((3, m)), eps, most)
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
        split, old, box = int(np.searchsorted(loose, self.split)), self.b[loose], self.box
        new, exact = BoundedNewton(A, self.g[loose], old, box.lo[loose], box.hi[loose], split, self.n_groups).step()
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
    leave the box are then held at the bound they crossed, and those held against their multiplier are let go, until
    nothing changes (a primal-dual active-set method): each held variable costs two triangular solves, not a
    factorisation.
    """

    def __init__(self, A: NDArray, g: Vector, b: Vector, lo: Vector, hi: Vector, split: int, n_groups: int):
        self.A, self.g, self.b, self.lo, self.hi = A, g, b, lo, hi
        slices = {0: (), 1: (slice(0, None),), 2: (slice(0, split), slice(split, None))}[n_groups]
        self.parts = [part for part in slices if len(b[part])]
        self.factor = ridged_cholesky(A)
        self.sums = np.zeros((len(b), len(self.parts)))
        for k, part in enumerate(self.parts):
            self.sums[part, k] = 1.0
        solved = self._solve(np.column_stack([-g, self.sums]))
        self.plain, self.spread = solved[:, 0], solved[:, 1:]
        self.columns: dict[int, Vector] = {}

    def _solve(self, right: NDArray) -> NDArray:
        return dpotrs(self.factor, right, lower=1)[0]

    def _columns(self, held: Indices) -> NDArray:
        """Columns of the inverse of A, remembered."""
        new = [k for k in held.tolist() if k not in self.columns]
        if new:
            units = np.zeros((len(self.b), len(new)))
            units[new, np.arange(len(new))] = 1.0
            self.columns.update(zip(new, self._solve(units).T))
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
            d, multipliers = self.direction(held, np.where(at_top, above[held], below[held]))
            if not np.isfinite(d).all():
                return self.b, False
            first = d if first is None else first
            # a variable held at its upper bound must want up: its multiplier is positive
            right = np.where(at_top, multipliers >= 0.0, multipliers <= 0.0)
            outside = (d < below) | (d > above)
            outside[held] = False
            crossed = np.flatnonzero(outside)
            if right.all() and not len(crossed):
                d[held] = np.where(at_top, above[held], below[held])
                return self._best_end([self._fitted(d)]), True
            at_top = np.concatenate([at_top[right], d[crossed] > above[crossed]])
            held = np.concatenate([held[right], crossed])
            if len(held) > MOST_HELD * len(self.b):
                break
        assert first is not None
        blocked = self._step_to_first_bound(first)
        return self._best_end([self._fitted(blocked * first), self._fitted(first), self._fitted(d)]), False

    def _fitted(self, d: Vector) -> Vector:
        """b + d, moved into the box with its sums kept (rounding, or bounds crossed)."""
        target = np.clip(self.b + d, self.lo, self.hi)
        for part in self.parts:
            target[part] = project_to_sum(target[part], self.lo[part], self.hi[part], float(self.b[part].sum()))
        return target

    def _step_to_first_bound(self, d: Vector) -> float:
        with np.errstate(divide="ignore", invalid="ignore"):
            room = np.where(d > 0.0, (self.hi - self.b) / d, (self.lo - self.b) / d)
        return float(min(room[d != 0.0].min(initial=np.inf), 1.0))

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
