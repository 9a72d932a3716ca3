"""The proof that comes with every solution: two bounds, what rounding did to them, and values they are made of."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]
# Relative error of one operation.
UNIT = 0.5 * float(np.finfo(np.float64).eps)


@dataclass(frozen=True)
class Certificate:
    """Two bounds on the optimum of a convex problem: ``dual <= optimum <= primal``.

    The problem computes it from a candidate solution, never the solver that is being judged: a solver with a bug gets
    a large gap, not a wrong claim. Both bounds hold in spite of rounding, which made the gap larger by ``rounding``.

    Examples
    --------
    >>> from multikernel.problems.certificate import Certificate
    >>> proof = Certificate(primal=2.0, dual=1.5)
    >>> proof.gap, proof.relative_gap
    (0.5, 0.25)
    """

    primal: float  # upper bound
    dual: float  # lower bound; nan for a problem without a dual
    # relative distance from a stationary point, nan if not measured: all that a problem without a dual can stop by
    stationarity: float = float("nan")
    rounding: float = field(default=0.0, repr=False)  # how much of the gap may be rounding
    resolution: float = field(default=0.0, repr=False)  # gap that counts as none: the optimum can be zero

    @property
    def gap(self) -> float:
        """Distance between the bounds, not below zero (rounding can make it -1e-16)."""
        return max(self.primal - self.dual, 0.0) if self.primal == self.primal else float("nan")

    @property
    def relative_gap(self) -> float:
        """``gap / |primal|``, which ``tol`` is compared with; zero where both are zero."""
        return 0.0 if self.gap <= self.resolution else self.gap / max(abs(self.primal), 1e-300)


def largest_scores(diagonal: Vector, alpha: NDArray) -> NDArray[np.float64]:
    """What ``|K| |alpha|`` is at most, K positive semi-definite: entries are at most ``r_i r_k``, r² the diagonal."""
    roots = np.sqrt(np.maximum(diagonal, 0.0))
    return np.multiply.outer(roots, roots @ np.abs(alpha))


class Rounding:
    """Bounds on rounding errors from the diagonals of the kernels, which cost next to nothing.

    A sum of m products ``K_ik alpha_k`` is off by at most ``m u r_i Σ_k r_k |alpha_k|``, u = 2⁻⁵³ and r the roots of
    the kernel's diagonal, in whatever order it is made. As if in twice the precision it is off by ``m u`` times as
    much, and by u times the sum itself. ``terms`` is how many numbers are added up to make a score, at most; by
    default as many as alpha has, and as make an entry.
    """

    def __init__(self, stack: Any, terms: int | None = None):
        self.stack, self.terms = stack, terms

    @cached_property
    def roots(self) -> NDArray[np.float64]:
        """Roots of the diagonals of the kernels, shape (F, n)."""
        return np.sqrt(np.maximum(self.stack.diagonal(), 0.0))

    def of_scores(self, weights: Vector, alpha: NDArray, sizes: NDArray | None = None) -> NDArray[np.float64]:
        """What ``Σ_j weights_j K_j alpha`` may be off by, shape of alpha.

        ``sizes`` is ``Σ_j weights_j |K_j alpha|`` where that was computed as if in twice the precision.
        """
        largest = largest_scores(weights @ self.roots**2, alpha)
        m, F = self._terms(alpha), len(weights)
        if sizes is None:
            return (m + F) * UNIT * largest
        return (m * UNIT) ** 2 * largest + F * UNIT * sizes

    def of_forms(self, alpha: NDArray, sizes: Vector | None = None) -> NDArray[np.float64]:
        """What ``Σ_labels alpha' K_j alpha`` may be off by, shape (F,).

        ``sizes`` is ``Σ_labels |alpha|'|K_j alpha|`` where that was computed as if in twice the precision.
        """
        squares = ((self.roots @ np.abs(alpha)) ** 2).reshape(len(self.roots), -1).sum(axis=1)
        m = self._terms(alpha) + alpha[0].size
        if sizes is None:
            return 2 * m * UNIT * squares
        return (m * UNIT) ** 2 * squares + m * UNIT * sizes

    def of_shift(self, distance: float | Vector, forms: NDArray) -> NDArray[np.float64]:
        """What ``alpha' K_j alpha`` changes by at most if entries of alpha do, by ``distance`` in all.

        Forms have shape (F,), or (F, T) for T alphas with distances of their own.
        """
        longest = np.multiply.outer(self.roots.max(axis=1), distance)
        return longest * (2.0 * np.sqrt(forms) + longest)

    @staticmethod
    def of_inner(a: NDArray, b: NDArray, off: NDArray) -> NDArray[np.float64]:
        """What ``⟨a, b⟩`` over all but the first axes may be off by if b is, by ``off``."""
        sizes = np.abs(a) * (off + a[0].size * UNIT * np.abs(b))
        return sizes.reshape(len(sizes), -1).sum(axis=1)

    def _terms(self, alpha: NDArray) -> int:
        """Numbers in a sum, and a few operations beside it."""
        if self.terms is not None:
            return self.terms + 4
        used = np.count_nonzero(alpha.reshape(len(alpha), -1).any(axis=1))
        return int(used) + int(self.stack.ranks.max(initial=0)) + 4


class LastValue:
    """A function of arrays that remembers its last value until it is called with others."""

    def __init__(self, function: Callable[..., Any]):
        self.function = function
        self.forget()

    def forget(self) -> None:
        """Free the memory of the value."""
        self._arguments: tuple[NDArray, ...] | None = None
        self._value: Any = None

    def __call__(self, *arguments: NDArray) -> Any:
        if self._arguments is None or not all(map(np.array_equal, self._arguments, arguments)):
            self.forget()  # two values at once may not fit
            self._value = self.function(*arguments)
            self._arguments = tuple(map(np.array, arguments))
        return self._value

    def take_over(self, other: LastValue) -> None:
        """The value of another, which then has it no more."""
        self._arguments, self._value = other._arguments, other._value
        other.forget()
