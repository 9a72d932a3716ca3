"""The quadratic program behind every SVM of the library: its kernel, its box, and the feasible points.

    minimise  ½ b'Kb − p'b + kink ‖b‖₁   subject to   lo ≤ b ≤ hi,   the sum of b over each group fixed      (QP)

with b the signed dual coefficients: labels are in the bounds and in p only. Regression has a kink, at zero, where
variables rest as they do at a bound.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from multikernel.gram import CombinedKernel
from multikernel.gram.base import BLOCK_BYTES
from multikernel.runtime.clock import cholesky, over_rows

Vector = NDArray[np.float64]
Indices = NDArray[np.intp]
EPSILON = float(np.finfo(np.float64).eps)

# Largest squared distance between samples, relative to the kernel's largest entry, that leaves so few digits of it
# that an SVM on the kernel as it stands cannot be solved to the usual tolerances.
NEARLY_CONSTANT = 1e-8


@runtime_checkable
class KernelOperator(Protocol):
    """A symmetric kernel of shape (n, n) that need not be in memory."""

    shape: tuple[int, int]

    def diagonal(self) -> Vector:
        """Diagonal, shape (n,)."""

    def submatrix(self, rows: Indices, columns: Indices) -> NDArray:
        """Block K[rows][:, columns]."""

    def matvec(self, alpha: Vector) -> Vector:
        """K @ alpha, in double precision; entries of alpha that are zero should cost nothing."""


class DenseOperator:
    """A kernel in memory, float32 or float64, read row by row (it is symmetric) and only where alpha is not zero."""

    def __init__(self, K: NDArray, *, threads: bool = True):
        K = np.asarray(K)
        if K.ndim != 2 or K.shape[0] != K.shape[1]:
            raise ValueError(f"An SVM needs a square kernel, got shape {K.shape}. Pass the training kernel, (n, n).")
        self.K = np.ascontiguousarray(K, dtype=np.float32 if K.dtype == np.float32 else np.float64)
        self.threads = threads
        self._diagonal = self.K.diagonal().astype(np.float64)
        self.shape = self.K.shape

    def diagonal(self) -> Vector:
        return self._diagonal

    def submatrix(self, rows: Indices, columns: Indices) -> NDArray:
        from multikernel.compiled.smo import gather

        out = np.empty((len(rows), len(columns)), dtype=self.K.dtype)
        self._over_rows(lambda a, b: gather(self.K, rows, columns, out, a, b), len(rows), out.size)
        return out

    def matvec(self, alpha: Vector) -> Vector:
        from multikernel.compiled.smo import weighted_rows

        rows = np.flatnonzero(alpha)
        weights, out = alpha[rows], np.zeros(self.shape[0])
        # each column is summed in the same order whatever the number of threads: the result never depends on it
        self._over_rows(lambda a, b: weighted_rows(self.K, rows, weights, out, a, b), out.size, out.size * len(rows))
        return out

    def _over_rows(self, function: Callable[[int, int], None], n_rows: int, work: int) -> None:
        # threads cost tens of microseconds to start
        over_rows(function, n_rows, work=work / 20 if self.threads else 0)

    def is_far_from_origin(self) -> bool:
        """Whether the kernel is nearly constant: samples lie much closer to each other than to the origin."""
        if not self.shape[0]:
            return False
        distances = self._diagonal + self._diagonal[0] - 2.0 * self.K[0]  # squared, from the first sample
        return bool(distances.max() < NEARLY_CONSTANT * self._diagonal.max())

    def centred(self) -> DenseOperator:
        """The kernel centred in feature space, which changes nothing but the bias where coefficients sum to zero.

        Far from the origin (unscaled measurements, very wide kernels) differences between samples drown in rounding;
        about their mean they do not.
        """
        means = self.K.mean(axis=1, dtype=np.float64)
        centred = self.K - means[:, None]
        centred -= (means - means.mean())[None, :]
        return DenseOperator(((centred + centred.T) / 2).astype(self.K.dtype), threads=self.threads)


def as_operator(K: NDArray | KernelOperator) -> KernelOperator:
    """Wrap an array in a :class:`DenseOperator`; return anything else that has the methods as it is."""
    if not isinstance(K, np.ndarray) and isinstance(K, KernelOperator):
        return K
    return DenseOperator(K)


def kernel_times(kernel: NDArray | KernelOperator, alpha: NDArray) -> NDArray[np.float64]:
    """``kernel @ alpha`` in double precision, for alpha of shape (n,) or (n, T)."""
    if isinstance(kernel, CombinedKernel):
        return kernel.matvec(alpha)
    if isinstance(kernel, np.ndarray) and kernel.dtype == np.float64:
        return kernel @ alpha
    if isinstance(kernel, np.ndarray):
        out = np.empty(alpha.shape)
        size = max(1, BLOCK_BYTES // (8 * len(alpha)))
        for start in range(0, len(alpha), size):
            out[start : start + size] = kernel[start : start + size].astype(np.float64) @ alpha
        return out
    columns = alpha.reshape(len(alpha), -1).T
    return np.column_stack([kernel.matvec(np.ascontiguousarray(column)) for column in columns]).reshape(alpha.shape)


@dataclass(frozen=True)
class BoxProblem:
    """(QP) without its kernel: p, lo and hi of shape (n,), and groups of variables whose sums are ``totals``.

    There are none, one or two groups, which cover all variables; with a kink there is one, and 0 is in the box.
    """

    p: Vector
    lo: Vector
    hi: Vector
    groups: tuple[Indices, ...]
    totals: tuple[float, ...]
    kink: float = 0.0

    def linear(self, b: Vector) -> float:
        """``p'b − kink ‖b‖₁``: minus the objective without its quadratic part."""
        return float(self.p @ b) - (self.kink * float(np.abs(b).sum()) if self.kink else 0.0)

    def wishes(self, g: Vector, b: Vector) -> tuple[Vector, Vector]:
        """How fast the objective falls if a variable goes up, and down; −inf where it cannot; g = Kb − p."""
        up, down = np.where(b < self.hi, -g, -np.inf), np.where(b > self.lo, g, -np.inf)
        if self.kink:
            up += np.where(b < 0.0, self.kink, -self.kink)
            down += np.where(b > 0.0, self.kink, -self.kink)
        return up, down

    def feasible(self, b: Vector) -> Vector:
        """A feasible point near ``b``, with exactly kept bounds and sums right to rounding."""
        b = np.clip(b, self.lo, self.hi)
        for group, total in zip(self.groups, self.totals):
            if abs(float(b[group].sum()) - total) > 8 * EPSILON * float(np.abs(b[group]).sum()):
                b[group] = with_sum(b[group], self.lo[group], self.hi[group], total)
        return b

    def violations(self, g: Vector, b: Vector) -> tuple[Vector, float]:
        """How far each variable is from optimal given the middle multiplier, and the worst pair's violation.

        Negative for a variable that is rightly at its bound, by its distance from changing.
        """
        up, down = self.wishes(g, b)
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

    def working_set(self, g: Vector, b: Vector, size: int) -> tuple[Indices, float]:
        """Variables to work on, first group first, and the worst violation.

        Every variable that may still move; where that is more than ``size``, those that most want to, half of
        them upwards and half downwards, since a pair needs one of each.
        """
        each, worst = self.violations(g, b)
        chosen = each > -0.5 * worst
        if chosen.sum() > size:
            up, down = self.wishes(g, b)
            chosen = np.zeros(len(b), dtype=bool)
            groups = self.groups or (np.arange(len(b)),)
            quota = max(size // (2 * len(groups)), 1)
            for group in groups:
                for wish in (up[group], down[group]):
                    order = np.argsort(-wish, kind="stable")[:quota]
                    chosen[group[order[wish[order] > -np.inf]]] = True
        return self.ordered(chosen), worst

    def loose(self, g: Vector, b: Vector) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Which variables are free, and which are free or want to leave their bounds."""
        free = (b > self.lo) & (b < self.hi)
        if self.kink:
            free &= b != 0.0
        up, down = self.wishes(g, b)
        for group in self.groups:
            if free[group].any():
                level = np.median(up[group][free[group]])
                up[group] -= level
                down[group] += level
        return free, free | (up > 0.0) | (down > 0.0)

    def smooth_part(self, g: Vector, b: Vector) -> tuple[Vector, Vector, Vector]:
        """Gradient and bounds on the side of the kink where each variable is, or wants to go to from zero."""
        if not self.kink:
            return g, self.lo, self.hi
        up, down = self.wishes(g, b)
        level = 0.5 * (up.max() - down.max())
        positive = (b > 0.0) | ((b == 0.0) & (-g >= level))
        lo, hi = np.where(positive, 0.0, self.lo), np.where(positive, self.hi, 0.0)
        return g + np.where(positive, self.kink, -self.kink), lo, hi

    def ordered(self, chosen: NDArray[np.bool_]) -> Indices:
        """Indices of the chosen variables, those of the first group first."""
        if len(self.groups) < 2:
            return np.flatnonzero(chosen)
        return np.concatenate([group[chosen[group]] for group in self.groups])

    def part(self, index: Indices) -> BoxProblem:
        """The problem of some variables, those of the first group first; their sums are what they are."""
        groups: tuple[Indices, ...] = (np.arange(len(index)),) * min(len(self.groups), 1)
        if len(self.groups) == 2:
            split = int(np.isin(index, self.groups[0], assume_unique=True).sum())
            groups = groups[0][:split], groups[0][split:]
        totals = (np.nan,) * len(groups)
        return BoxProblem(self.p[index], self.lo[index], self.hi[index], groups, totals, self.kink)


def project_to_sum(b: Vector, lo: Vector, hi: Vector, total: float) -> Vector:
    """Nearest point to ``b`` in the box with entries that sum to ``total`` (clipped to what the box allows).

    The point is ``clip(b - shift, lo, hi)``; its sum falls with the shift and is linear between the breakpoints
    ``b - hi`` and ``b - lo``. Sums are of such points, never of breakpoints: with bounds far beyond the entries,
    those would be nothing but rounding.
    """
    if len(b) == 0:
        return b
    nearby = b - (math.fsum(b) - total) / len(b)
    if np.all((nearby >= lo) & (nearby <= hi)):
        return nearby

    def lacking(shift: float) -> float:
        return total - float(np.clip(b - shift, lo, hi).sum())

    starts, stops = b - hi, b - lo
    knots = np.sort(np.concatenate([starts, stops]))
    k = min(bisect_left(knots, 0.0, key=lacking), len(knots) - 1)
    left, right = knots[max(k - 1, 0)], knots[k]
    falling = np.count_nonzero((starts <= left) & (stops >= right))
    nearest = min(left, right, key=abs)
    shift = nearest - lacking(nearest) / falling if left < right and falling else right
    return np.clip(b - shift, lo, hi)


def with_sum(b: Vector, lo: Vector, hi: Vector, total: float) -> Vector:
    """Make the entries sum to ``total``, moving those strictly inside the box first: a warm start keeps its support.

    What rounding leaves goes to the entry with most room on both sides.
    """
    b = np.clip(b, lo, hi)
    for movable in ((b > lo) & (b < hi) & (b != 0.0), b != 0.0, np.ones(len(b), dtype=bool)):
        rest = math.fsum(b[~movable])
        b[movable] = project_to_sum(b[movable], lo[movable], hi[movable], total - rest)
        if abs(math.fsum(b) - total) <= 1e-12 * np.abs(b).sum():
            break
    if len(b):
        k = int(np.argmax(np.where(b != 0.0, np.minimum(b - lo, hi - b), -1.0)))
        b[k] = min(max(b[k] - (math.fsum(b) - total), lo[k]), hi[k])
    return b


def fill_sum(lo: Vector, hi: Vector, total: float) -> Vector:
    """Raise the entries from zero to their bounds one after the other until they sum to ``total``."""
    room = hi if total > 0 else -lo
    filled = np.clip(abs(total) - (np.cumsum(room) - room), 0.0, room)
    return filled if total > 0 else -filled


def weighted_quantile(points: Vector, weights: Vector, mass: float) -> float:
    """Where the weights of the points up to there first reach ``mass``; the middle where that is an interval.

    There ``Σ weights |x − points|₊ − mass x`` is least.
    """
    used = weights > 0.0
    points, weights = points[used], weights[used]
    if len(points) == 0:
        return 0.0
    order = np.argsort(points)
    cumulative = np.cumsum(weights[order])
    rounding = 1e-12 * cumulative[-1]
    low = min(int(np.searchsorted(cumulative, mass - rounding)), len(points) - 1)
    high = min(int(np.searchsorted(cumulative, mass + rounding)), len(points) - 1)
    return float(0.5 * (points[order[low]] + points[order[high]]))


def ridged_cholesky(A: NDArray, least: float = 1e-14, most: float = 1e18) -> NDArray[np.float64]:
    """Lower Cholesky factor of A with the smallest ridge in a geometric sequence that makes it succeed.

    ``least`` and ``most`` are the first and the last one tried, relative to the mean of the diagonal.
    """
    size, ridge = float(A.trace()) / len(A), least
    size = size if size > 1e-280 else 1.0  # beside nothing any ridge is small, and a tiny one overflows
    while ridge <= most:
        shifted = A.astype(np.float64, order="F")
        shifted.ravel(order="K")[:: len(A) + 1] += ridge * size
        factor, failed = cholesky(shifted)
        if not failed:
            return factor
        ridge = max(100.0 * ridge, 1e-15)
    raise np.linalg.LinAlgError("the kernel is not positive semi-definite")
