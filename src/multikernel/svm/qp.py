"""The quadratic program behind every SVM of the library.

    minimise  ½ b'Kb − p'b   subject to   lo ≤ b ≤ hi,   the sum of b over each group fixed          (QP)

with b the signed dual coefficients: labels are in the bounds and in p only.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from multikernel.svm.feasible import settle_sum

Vector = NDArray[np.float64]
EPSILON = float(np.finfo(np.float64).eps)


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
            if abs(float(b[group].sum()) - total) > 8 * EPSILON * float(np.abs(b[group]).sum()):
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

    def ordered(self, chosen: NDArray[np.bool_]) -> NDArray[np.intp]:
        """Indices of the chosen variables, those of the first group first."""
        if len(self.groups) < 2:
            return np.flatnonzero(chosen)
        return np.concatenate([group[chosen[group]] for group in self.groups])


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
    return problem.ordered(chosen), worst
