"""Ways to make one kernel of several, and that one kernel as the SVM solvers see it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from multikernel.gram.base import GramStack, support_of

PRODUCT_ADVICE = (
    "It is positive semi-definite for infinitely divisible kernels such as RBF, Laplacian and exponential χ²; "
    'for others it need not be. Use those, or how="mean".'
)


class Combination(Protocol):
    """One kernel out of F."""

    def combine(self, stack: GramStack) -> NDArray:
        """The combined kernel, shape (rows, columns)."""

    def diagonal(self, stack: GramStack) -> NDArray[np.float64]:
        """``k(x, x)`` of the combined kernel for the row samples, shape (rows,)."""


@dataclass(frozen=True)
class WeightedSum:
    """``Σ_j weights_j K_j``: the kernel of every MKL method that is linear in its weights."""

    weights: NDArray[np.float64]
    dtype: type | None = None  # of the sum; that of the stack by default
    out: NDArray | None = None  # memory to use if it is of the right size

    def combine(self, stack: GramStack) -> NDArray:
        return stack.combine(self.weights, self.dtype, self.out)

    def diagonal(self, stack: GramStack) -> NDArray[np.float64]:
        return self.weights @ stack.diagonal()


class NotApplicable(ValueError):
    """The kernels are good, but not for this way of combining them: comparisons leave the method out."""


@dataclass(frozen=True)
class GeometricMean:
    """``(Π_j K_j)^(1/F)``, entry by entry [GN09, sect. 2.1].

    Needs kernels without negative entries. It is positive semi-definite when the kernels are infinitely
    divisible, as ``exp(-distance)`` is, and need not be otherwise.
    """

    def combine(self, stack: GramStack) -> NDArray:
        out = np.empty(stack.shape[:2], dtype=stack.dtype)
        with np.errstate(divide="ignore"):  # a zero entry makes the product zero: exp(-inf)
            for indices, block in stack.blocks():
                _forgive_rounding(block, indices, stack.names)
                out[indices] = np.exp(np.log(block, out=block).mean(axis=0, dtype=np.float64))
        return out

    def diagonal(self, stack: GramStack) -> NDArray[np.float64]:
        with np.errstate(divide="ignore"):
            return np.exp(np.log(stack.diagonal()).mean(axis=0))


def _forgive_rounding(block: NDArray, rows: NDArray, names: tuple[str, ...]) -> None:
    """Set negative entries that rounding can explain to zero, in place; others are an error."""
    if not block.size or block.min() >= 0.0:
        return
    rounding = 100.0 * np.finfo(block.dtype).eps * np.abs(block).max(axis=(1, 2))
    worst = block.min(axis=(1, 2)) + rounding
    if worst.min() < 0.0:
        kernel = int(worst.argmin())
        row, column = np.unravel_index(block[kernel].argmin(), block[kernel].shape)
        raise NotApplicable(
            f"the geometric mean needs kernels without negative entries, but kernels[{kernel}] "
            f'("{names[kernel]}") is {block[kernel].min():.3g} at row {rows[row]}, column {column}. '
            'Use how="mean", or kernels such as RBF.'
        )
    np.maximum(block, 0.0, out=block)


class CombinedKernel:
    """The combined kernel of a stack, computed where it is read, for kernels that do not fit in memory.

    It has the methods of :class:`multikernel.svm.quadratic_program.KernelOperator`.
    """

    def __init__(self, stack: GramStack, combination: Combination):
        self.stack, self.combination = stack, combination
        self.shape = (stack.shape[0], stack.shape[1])

    def diagonal(self) -> NDArray[np.float64]:
        return self.combination.diagonal(self.stack)

    def submatrix(self, rows: NDArray[np.intp], columns: NDArray[np.intp]) -> NDArray:
        return self.combination.combine(self.stack.take(rows, columns))

    def matvec(self, alpha: NDArray[np.float64]) -> NDArray[np.float64]:
        return combined_scores(self.stack, self.combination, alpha)


def combined_scores(stack: GramStack, combination: Combination, alpha: NDArray) -> NDArray[np.float64]:
    """The combined kernel times alpha of shape (columns,) or (columns, T), a bounded block of rows at a time."""
    scores = np.zeros((len(stack), *alpha.shape[1:]))
    support = support_of(alpha)
    if not len(support):
        return scores
    if stack.explicit and isinstance(combination, WeightedSum):
        return np.tensordot(combination.weights, stack.apply(alpha), axes=1)
    narrowed = stack.take(columns=support) if len(support) < stack.shape[1] else stack
    for rows in narrowed.row_blocks():
        scores[rows] = combination.combine(narrowed.take(rows=rows)) @ alpha[support]
    return scores


def one_kernel(stack: GramStack, combination: Combination, memory: int) -> NDArray | CombinedKernel:
    """The combined kernel of a square stack as an array if it takes at most half of ``memory``, else an operator.

    The other half is for the stack itself (a lazy one has its cache there).
    """
    itemsize = np.dtype(getattr(combination, "dtype", None) or stack.dtype).itemsize
    if stack.shape[0] * stack.shape[1] * itemsize <= memory // 2:
        return combination.combine(stack)
    return CombinedKernel(stack, combination)
