"""What rounding may have done to the scores and quadratic forms that a certificate is made of."""

from __future__ import annotations

from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from multikernel.gram.base import GramStack, support_of
from multikernel.svm.binary import UNIT


class Rounding:
    """Bounds on rounding errors from the diagonals of the kernels, which cost next to nothing.

    Entries of a positive semi-definite kernel are at most ``r_i r_k``, r the roots of its diagonal. A sum of m
    products ``K_ik alpha_k`` is therefore off by at most ``m u r_i Σ_k r_k |alpha_k|``, u = 2⁻⁵³, in whatever order
    it is made. As if in twice the precision it is off by ``m u`` times as much, and by u times the sum itself.

    Parameters
    ----------
    stack : GramStack
        Training kernels, square.
    terms : int, optional
        Numbers added up to make a score, at most; by default as many as alpha has, and as make an entry.

    Examples
    --------
    >>> import numpy as np
    >>> from multikernel.gram import DenseStack
    >>> from multikernel.problems.rounding import Rounding
    >>> rounding = Rounding(DenseStack(np.array([[[1e16, 1e16], [1e16, 1e16]]])))
    >>> rounding.of_scores(np.ones(1), np.array([1.0, -1.0])).round(1)
    array([15.5, 15.5])
    """

    def __init__(self, stack: GramStack, terms: int | None = None):
        self.stack, self.terms = stack, terms

    @cached_property
    def roots(self) -> NDArray[np.float64]:
        """Roots of the diagonals, shape (F, n)."""
        return np.sqrt(np.maximum(self.stack.diagonal(), 0.0))

    def of_scores(self, weights: NDArray, alpha: NDArray, precise: NDArray | None = None) -> NDArray[np.float64]:
        """What ``Σ_j weights_j K_j alpha`` may be off by, shape of alpha.

        ``precise`` are the scores of each kernel where they were computed as if in twice the precision.
        """
        largest = (self.roots * weights[:, None]).T @ self._sizes(alpha)
        m, F = self._terms(alpha), len(weights)
        if precise is None:
            return (m + F) * UNIT * largest
        return (m * UNIT) ** 2 * largest + F * UNIT * np.tensordot(weights, np.abs(precise), axes=1)

    def of_forms(self, alpha: NDArray, precise: NDArray | None = None) -> NDArray[np.float64]:
        """What ``Σ_labels alpha' K_j alpha`` may be off by, shape (F,)."""
        squares = self._of_labels(self._sizes(alpha) ** 2)
        m = self._terms(alpha) + alpha[0].size
        if precise is None:
            return 2 * m * UNIT * squares
        return (m * UNIT) ** 2 * squares + m * UNIT * self._of_labels(np.abs(precise) * np.abs(alpha))

    def of_shift(self, distance: float, forms: NDArray) -> NDArray[np.float64]:
        """What ``alpha' K_j alpha`` changes by at most if entries of alpha do, by ``distance`` in all, shape (F,)."""
        longest = distance * self.roots.max(axis=1)
        return longest * (2.0 * np.sqrt(forms) + longest)

    @staticmethod
    def of_inner(a: NDArray, b: NDArray, off: NDArray) -> NDArray[np.float64]:
        """What ``⟨a, b⟩`` over all but the first axes may be off by if b is, by ``off``."""
        sizes = np.abs(a) * (off + a[0].size * UNIT * np.abs(b))
        return sizes.reshape(len(sizes), -1).sum(axis=1)

    def _sizes(self, alpha: NDArray) -> NDArray[np.float64]:
        """``Σ_k r_k |alpha_k|`` of each kernel, shape (F,) or (F, T)."""
        return self.roots @ np.abs(alpha)

    def _terms(self, alpha: NDArray) -> int:
        """Numbers in a sum, and a few operations beside it."""
        if self.terms is not None:
            return self.terms + 4
        return len(support_of(alpha)) + int(self.stack.ranks.max(initial=0)) + 4

    @staticmethod
    def _of_labels(values: NDArray) -> NDArray[np.float64]:
        return values.reshape(len(values), -1).sum(axis=1)
