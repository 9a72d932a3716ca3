"""Newton steps that respect bounds: the exact minimum over a box, when the active set is nearly known."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.lapack import dpotrs

from multikernel.svm.feasible import project_to_sum
from multikernel.svm.ridge import cholesky

Vector = NDArray[np.float64]

# Changes of the active set tried in one step, and the largest share of variables held (each costs a solve).
MOST_CHANGES = 8
MOST_HELD = 0.25


class BoundedNewton:
    """Minimise ½ d'Ad + g'd over  lo ≤ b + d ≤ hi,  the sums of d over one or two groups zero.

    A is factored once. Variables that leave the box are then held at the bound they crossed, and those held
    against their multiplier are let go, until nothing changes (a primal-dual active-set method): each held variable
    costs two triangular solves, not a factorisation.

    Parameters
    ----------
    A : ndarray of shape (m, m)
        Symmetric positive semi-definite; the smallest ridge that lets it be factored is added.
    g, b, lo, hi : ndarray of shape (m,)
        Gradient at b, point, bounds.
    split : int
        Where the second group starts.
    n_groups : {0, 1, 2}
        How many sums are held.
    """

    def __init__(self, A: NDArray, g: Vector, b: Vector, lo: Vector, hi: Vector, split: int, n_groups: int):
        self.A, self.g, self.b, self.lo, self.hi = A, g, b, lo, hi
        slices = {0: (), 1: (slice(0, None),), 2: (slice(0, split), slice(split, None))}[n_groups]
        self.parts = [part for part in slices if len(b[part])]
        self.factor = ridged_cholesky(A)
        sums = np.zeros((len(b), len(self.parts)))
        for k, part in enumerate(self.parts):
            sums[part, k] = 1.0
        self.sums = sums
        solved = self._solve(np.column_stack([-g, sums]))
        self.plain, self.spread = solved[:, 0], solved[:, 1:]
        self.columns: dict[int, Vector] = {}

    def _solve(self, right: NDArray) -> NDArray:
        return dpotrs(self.factor, right, lower=1)[0]

    def _columns(self, held: NDArray[np.intp]) -> NDArray:
        """Columns of the inverse of A, remembered."""
        new = [k for k in held.tolist() if k not in self.columns]
        if new:
            units = np.zeros((len(self.b), len(new)))
            units[new, np.arange(len(new))] = 1.0
            solved = self._solve(units)
            self.columns.update(zip(new, solved.T))
        return np.array([self.columns[k] for k in held.tolist()]).reshape(len(held), len(self.b)).T

    def direction(self, held: NDArray[np.intp], ends: Vector) -> tuple[Vector, Vector]:
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


def ridged_cholesky(A: NDArray) -> NDArray:
    """Cholesky factor of A, with the smallest ridge in a geometric sequence that makes it succeed."""
    size = float(A.trace()) / len(A)
    ridge = 1e-14 * size if size > 1e-280 else 1.0  # beside nothing any ridge is small, and a tiny one overflows
    while True:
        shifted = A.astype(np.float64, order="F")
        shifted.ravel(order="K")[:: len(A) + 1] += ridge
        factor, failed = cholesky(shifted)
        if not failed:
            return factor
        ridge *= 100.0
