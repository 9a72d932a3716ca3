"""An interior-point method for the quadratic program of the SVMs, for kernels on which SMO crawls.

Kernels of low rank with a large C (a linear kernel, many duplicates) make SMO and active-set steps take one
tiny step after another; the number of interior-point steps hardly depends on either.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.lapack import dpotrs, dpstrf

from multikernel.runtime.clock import check
from multikernel.svm.quadratic_program import ridged_cholesky

Vector = NDArray[np.float64]

MOST_STEPS = 80
# Steps that must at least halve the complementarity: where the kernel is positive semi-definite only to rounding the
# path ends before the tolerance, and steps go back and forth.
PATIENCE = 10
RIDGES = 0.0, 1.0  # first and last ridge on its matrices: rooms differ by orders of magnitude, so the first is none


class ShiftedKernel:
    """Solves (K + diag(d)) x = r for many d: by a Cholesky factor, or through a factor of low rank."""

    def __init__(self, K: NDArray):
        self.K = K.astype(np.float64, order="F")
        self.L = low_rank_factor(self.K)

    def times(self, b: NDArray) -> NDArray:
        """K @ b."""
        return self.K @ b if self.L is None else self.L @ (self.L.T @ b)

    def factor(self, d: Vector) -> None:
        """Prepare solves with the diagonal ``d > 0``."""
        self.d = d
        if self.L is not None:
            self.scaled = self.L / d[:, None]
            core = self.L.T @ self.scaled
            core[np.diag_indices_from(core)] += 1.0
            self.cholesky = ridged_cholesky(core, *RIDGES)
        else:
            shifted = self.K.copy(order="F")
            shifted[np.diag_indices_from(shifted)] += d
            self.cholesky = ridged_cholesky(shifted, *RIDGES)

    def solve(self, r: NDArray) -> NDArray:
        """x with (K + diag(d)) x = r, r of shape (m, k), refined once against rounding."""
        x = self._solve(r)
        return x + self._solve(r - ShiftedKernel.times(self, x) - self.d[:, None] * x)

    def _solve(self, r: NDArray) -> NDArray:
        if self.L is None:
            return dpotrs(self.cholesky, r, lower=1)[0]
        inner = dpotrs(self.cholesky, self.scaled.T @ r, lower=1)[0]
        return r / self.d[:, None] - self.scaled @ inner


class TwiceTheKernel(ShiftedKernel):
    """The same for ``[[K, K], [K, K]]``, of which no entry is copied: two variables for each row of K."""

    def times(self, b: NDArray) -> NDArray:
        """The kernel times b, both parts of which get the same."""
        return np.tile(super().times(b.reshape(2, -1).sum(axis=0)), 2)

    def factor(self, d: Vector) -> None:
        """Prepare solves with the diagonal ``d > 0``."""
        self.both = d.reshape(2, -1, 1)
        super().factor(1.0 / (1.0 / self.both).sum(axis=0)[:, 0])

    def solve(self, r: NDArray) -> NDArray:
        """x with parts (r_k − K s) / d_k, where s is their sum."""
        joint = self.d[:, None]
        r = r.reshape(2, len(joint), -1)
        right = joint * (r / self.both).sum(axis=0)
        s = super().solve(right)
        return ((r - (right - joint * s)) / self.both).reshape(2 * len(s), -1)


def low_rank_factor(K: NDArray) -> NDArray | None:
    """L with K = LL' to rounding, by pivoted Cholesky; None if that has more than a quarter of the columns."""
    m = len(K)
    largest = float(K.diagonal().max(initial=0.0))
    if m < 40 or largest <= 0.0:
        return None
    factor, pivots, rank, _ = dpstrf(K, lower=1, tol=1e-14 * largest)
    if rank > m // 4:
        return None
    L = np.empty((m, rank))
    L[pivots - 1] = np.tril(factor[:, :rank])
    return L


@dataclass
class _Iterate:
    """Point, multipliers of the sums, and multipliers of the two bounds (positive)."""

    b: Vector
    sums: Vector
    below: Vector
    above: Vector

    def moved(self, t: float, step: _Iterate) -> _Iterate:
        return _Iterate(
            self.b + t * step.b, self.sums + t * step.sums, self.below + t * step.below, self.above + t * step.above
        )


class _Path:
    """Newton's equations of the central path of one quadratic program."""

    def __init__(self, kernel: ShiftedKernel, p: Vector, lo: Vector, hi: Vector, groups: NDArray, totals: Vector):
        self.kernel, self.p, self.lo, self.hi, self.groups, self.totals = kernel, p, lo, hi, groups, totals

    def start(self) -> _Iterate:
        b = 0.5 * (self.lo + self.hi)
        size = 1.0 + float(np.abs(self.kernel.times(b) - self.p).max())
        return _Iterate(b, np.zeros(self.groups.shape[1]), np.full(len(b), size), np.full(len(b), size))

    def set_point(self, at: _Iterate) -> float:
        """Factor the equations at a point; return its complementarity relative to the objective's value."""
        self.at, self.below, self.above = at, at.b - self.lo, self.hi - at.b
        product = self.kernel.times(at.b)
        self.residual = product - self.p + self.groups @ at.sums - at.below + at.above
        self.lacking = self.groups.T @ at.b - self.totals
        self.complementarity = float(self.below @ at.below + self.above @ at.above)
        return self.complementarity / max(abs(float(self.p @ at.b - 0.5 * at.b @ product)), 1e-300)

    def direction(self, push_below: Vector, push_above: Vector) -> _Iterate:
        """Newton step that changes room * multiplier by the two pushes, to first order."""
        right = -self.residual + push_below / self.below - push_above / self.above
        b = self.kernel.solve(right[:, None])[:, 0]
        sums = np.linalg.lstsq(self.groups.T @ self.spread, self.groups.T @ b + self.lacking, rcond=None)[0]
        b = b - self.spread @ sums
        at = self.at
        return _Iterate(b, sums, (push_below - at.below * b) / self.below, (push_above + at.above * b) / self.above)

    def longest(self, step: _Iterate) -> float:
        """Longest step, up to one, that keeps rooms and multipliers positive."""
        pairs = (self.below, step.b), (self.above, -step.b), (self.at.below, step.below), (self.at.above, step.above)
        return min(1.0, *(float((room[d < 0] / -d[d < 0]).min(initial=np.inf)) for room, d in pairs))

    def step(self) -> _Iterate:
        """Mehrotra's step: where a plain Newton step would lead decides how much to centre and to correct."""
        self.kernel.factor(self.at.below / self.below + self.at.above / self.above)
        self.spread = self.kernel.solve(self.groups) if self.groups.shape[1] else self.groups
        at, mean = self.at, self.complementarity / (2 * len(self.p))
        plain = self.direction(-self.below * at.below, -self.above * at.above)
        t = self.longest(plain)
        reached = at.moved(t, plain)
        left = float((reached.b - self.lo) @ reached.below + (self.hi - reached.b) @ reached.above)
        centre = mean * (max(left, 0.0) / self.complementarity) ** 3
        step = self.direction(
            centre - self.below * at.below - plain.b * plain.below,
            centre - self.above * at.above + plain.b * plain.above,
        )
        return at.moved(0.995 * self.longest(step), step)


def interior_point(
    K: NDArray, p: Vector, lo: Vector, hi: Vector, groups: NDArray, totals: Vector, *, tol: float = 1e-9
) -> tuple[Vector, Vector]:
    """Minimise ½ b'Kb − p'b over lo ≤ b ≤ hi, groups'b = totals, by Mehrotra's predictor-corrector.

    ``groups`` of shape (m, k) has the indicators of the groups whose sums are fixed; ``tol`` is the complementarity
    relative to the objective at which to stop. With two variables for each row of K, first one of each, the kernel is
    ``[[K, K], [K, K]]``. Returns a point strictly inside the box, and the same with entries at
    their bounds where the multipliers say so; the sums of the second are for the caller to put right.
    """
    kernel = ShiftedKernel(K) if len(p) == len(K) else TwiceTheKernel(K)
    path = _Path(kernel, p, lo, hi, groups, totals)
    at, left = path.start(), []
    for _ in range(MOST_STEPS):
        check()
        if path.set_point(at) <= tol:
            break
        left.append(path.complementarity)
        if len(left) > PATIENCE and min(left[-PATIENCE:]) > 0.5 * min(left[:-PATIENCE]):
            break
        try:
            following = path.step()
        except np.linalg.LinAlgError:  # not a convex problem: what was reached is still a feasible point
            break
        inside = (following.b > lo) & (following.b < hi) & (following.below > 0) & (following.above > 0)
        if not inside.all():  # rounding: no room left to move in
            break
        at = following
    return at.b, _snapped(at, lo, hi)


def _snapped(at: _Iterate, lo: Vector, hi: Vector) -> Vector:
    """At a bound where the room is small and the multiplier large, each against its own typical size."""
    size = max(float(np.minimum(at.b - lo, hi - at.b).max()), 1e-300)
    force = max(float(np.maximum(at.below, at.above).max()), 1e-300)
    b = at.b.copy()
    at_lo = (at.b - lo) / size < 1e-3 * at.below / force
    at_hi = (hi - at.b) / size < 1e-3 * at.above / force
    b[at_lo], b[at_hi] = lo[at_lo], hi[at_hi]
    return b
