"""What a Gram stack is: F kernels between two sets of samples, however stored; one kernel out of them; budgets."""

from __future__ import annotations

import os
import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from multikernel.kernels.base import unique_names
from multikernel.runtime.clock import check, over_rows

if TYPE_CHECKING:
    from multikernel.gram.lowrank import Features
    from multikernel.gram.normalization import Step

Indices = NDArray[np.intp]

# Bytes of temporary blocks when a stack is streamed: large enough to amortise calls, small beside any budget.
BLOCK_BYTES = 1 << 25
# Samples of which a kernel (n, n) is no larger than such a block.
FEW_SAMPLES = 2000
UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}


class GramStack(ABC):
    """F Gram matrices between row samples and column samples; immutable.

    Training stacks are square (rows and columns are the same samples), prediction stacks rectangular. ``shape`` is
    (rows, columns, F), that of a precomputed ``X``, so that scikit-learn's splitters can slice a stack as they slice
    an array, ``stack[np.ix_(rows, columns)]``, without a copy. All results that list kernels put them first.

    A subclass provides ``rows``, ``diagonal`` and ``take``; the other operations have a streaming version here, which
    subclasses replace where they can do better.
    """

    names: tuple[str, ...]
    shape: tuple[int, int, int]
    dtype: np.dtype
    symmetric: bool
    stored = False  # whether entries are at hand, in memory or in a file
    checked: str | None = None  # how strictly a training stack has been checked, by its ``psd=``
    by_entry = False  # whether entries are computed when they are read, some of a row without the others
    ranks: NDArray[np.intp] = np.empty(0, dtype=np.intp)  # of each kernel, where they are products of features

    ndim = 3  # as of a precomputed array

    def __len__(self) -> int:
        return self.shape[0]

    @property
    def n_kernels(self) -> int:
        """Number of kernels F."""
        return self.shape[2]

    @property
    def nbytes(self) -> int:
        """Bytes that all matrices take, or would take."""
        return self.shape[0] * self.shape[1] * self.shape[2] * self.dtype.itemsize

    @property
    def explicit(self) -> bool:
        """Whether kernels are products of features, which :meth:`features` gives."""
        return len(self.ranks) > 0

    def features(self, memory: float = np.inf) -> Features:
        """Features of the row samples, all kernels side by side, if ``explicit``.

        ``memory`` is what they may take in double precision: beyond, they stay in that of the stack.
        """
        raise NotImplementedError(f"{self!r} has no explicit features")

    def knows_diagonal(self) -> bool:
        """Whether :meth:`diagonal` is known: a rectangular kernel that users computed does not hold it."""
        return True

    def whole(self) -> NDArray | None:
        """The array (F, rows, columns) that the stack is, if it is one in memory; never a copy."""
        return None

    @abstractmethod
    def rows(self, indices: ArrayLike) -> NDArray:
        """Rows of every kernel, shape (F, b, columns)."""

    @abstractmethod
    def diagonal(self) -> NDArray[np.float64]:
        """``k_j(x_i, x_i)`` of the row samples, shape (F, rows); an error where that is not known."""

    @abstractmethod
    def take(
        self, rows: ArrayLike | None = None, columns: ArrayLike | None = None, kernels: ArrayLike | None = None
    ) -> GramStack:
        """The stack on some rows, columns and kernels (``None``: all of them), sharing storage."""

    def scaled(self, row_factors: NDArray, column_factors: NDArray) -> GramStack:
        """The stack of ``row_factors[j, i] K_j[i, l] column_factors[j, l]``."""
        from multikernel.gram.normalization import Scaling

        return self.changed(Scaling(row_factors, column_factors))

    def centered(
        self, column_means: NDArray, grand_means: NDArray, chosen: NDArray[np.bool_], shares: NDArray | None = None
    ) -> GramStack:
        """The chosen kernels minus row means and ``column_means`` plus ``grand_means``, others as they are.

        ``shares`` (columns,), which sum to one, are the weights of the columns in means; by default all are equal.
        """
        from multikernel.gram.normalization import Centring

        return self.changed(Centring(column_means, grand_means, chosen, shares))

    def changed(self, step: Step) -> GramStack:
        """The stack with its rows changed by ``step``: when they are read, or at once where there is room."""
        from multikernel.gram.normalization import BlockwiseStack

        return BlockwiseStack(self, (step,))

    def row_blocks(self) -> Iterator[Indices]:
        """Cut the rows into ranges whose ``rows(indices)`` take a bounded amount of memory, until time is up."""
        n_rows, n_columns, n_kernels = self.shape
        size = max(1, BLOCK_BYTES // max(1, n_kernels * n_columns * self.dtype.itemsize))
        for start in range(0, n_rows, size):
            check()
            yield np.arange(start, min(start + size, n_rows))

    def blocks(self) -> Iterator[tuple[Indices, NDArray]]:
        """Go over all rows: pairs of row indices and ``rows(indices)``, a bounded block at a time."""
        for indices in self.row_blocks():
            yield indices, self.rows(indices)

    def matrix(self, kernel: int) -> NDArray:
        """One kernel, shape (rows, columns), to be read only: without a copy where it is in memory as it is."""
        return self.take(kernels=[kernel]).to_array()[0]

    def to_array(self) -> NDArray:
        """Everything as one array of shape (F, rows, columns)."""
        n_rows, n_columns, n_kernels = self.shape
        array = np.empty((n_kernels, n_rows, n_columns), dtype=self.dtype)
        for indices, block in self.blocks():
            array[:, indices] = block
        return array

    def combine(self, weights: ArrayLike, dtype: DTypeLike | None = None, out: NDArray | None = None) -> NDArray:
        """``Σ_j weights_j K_j``, shape (rows, columns), in the stack's precision unless ``dtype`` says otherwise.

        ``out`` is overwritten if it has the right shape and precision: fresh memory costs as much as the sum itself.
        """
        weights = self._check_weights(weights)
        used = np.flatnonzero(weights)
        total = self._room(dtype, out)
        if not len(used):
            total.fill(0.0)
            return total
        # no zeros first: fresh memory may take seconds to fill, block by block the clock is heard
        for indices, block in self.take(kernels=used).blocks():
            weighted_sum(block, weights[used], total[indices[0] : indices[-1] + 1])
        return total

    def _room(self, dtype: DTypeLike | None, out: NDArray | None) -> NDArray:
        """Where to write a combined kernel: ``out`` if it fits."""
        dtype = np.dtype(self.dtype if dtype is None else dtype)
        if out is not None and out.shape == self.shape[:2] and out.dtype == dtype:
            return out
        return np.empty(self.shape[:2], dtype=dtype)

    def apply(self, alpha: ArrayLike) -> NDArray[np.float64]:
        """``K_j @ alpha`` for each kernel: shape (F, rows), or (F, rows, T) for alpha of shape (columns, T)."""
        alpha = self._check_alpha(alpha)
        result = np.zeros((self.n_kernels, len(self), *alpha.shape[1:]))
        support, narrowed = support_of(alpha), self
        if not len(support):
            return result
        if self._should_narrow(len(support)):
            narrowed, alpha = self.take(columns=support), alpha[support]
        for indices, block in narrowed.blocks():
            result[:, indices] = times(block, alpha)
        return result

    def apply_precisely(self, alpha: NDArray[np.float64]) -> NDArray[np.float64]:
        """``apply`` as if in twice the precision: several times slower, for where sums cancel."""
        result = np.zeros((self.n_kernels, len(self), *alpha.shape[1:]))
        support = support_of(alpha)
        if not len(support):
            return result
        columns = alpha[support].reshape(len(support), -1).T
        for indices, block in self.take(columns=support).blocks():
            for t, column in enumerate(columns):
                result.reshape(*result.shape[:2], -1)[:, indices, t] = precise_times(block, column)
        return result

    def _should_narrow(self, n_support: int) -> bool:
        """Whether reading only the support's columns is less work than reading whole rows."""
        return n_support < self.shape[1]

    def quadratic_forms(self, alpha: ArrayLike) -> NDArray[np.float64]:
        """``alpha' K_j alpha``: shape (F,), or (F, T) for alpha of shape (n, T). Square stacks only."""
        alpha = self._check_alpha(alpha)
        self._require_square("quadratic_forms")
        support = support_of(alpha)
        if not len(support):
            return np.zeros((self.n_kernels, *alpha.shape[1:]))
        scores = self.take(rows=support).apply(alpha)
        return np.einsum("fi...,i...->f...", scores, alpha[support])

    def inner_products(self, W: NDArray[np.float64]) -> NDArray[np.float64]:
        """``Σ_il W_il K_j[i, l]`` for each kernel, shape (F,), given W of shape (rows, columns)."""
        total = np.zeros(self.n_kernels)
        for indices, block in self.blocks():
            total += np.einsum("fil,il->f", block, W[indices], dtype=np.float64)
        return total

    def summed_forms(self, alpha: NDArray[np.float64]) -> NDArray[np.float64]:
        """``Σ_t alpha_t' K_j alpha_t`` over the columns of alpha (n, T), shape (F,). Square stacks only."""
        return self.quadratic_forms(alpha).sum(axis=1)

    def __getitem__(self, key) -> GramStack:
        keys = key if isinstance(key, tuple) else (key,)
        if len(keys) > 2:
            raise IndexError("a Gram stack is indexed by rows and columns: use stack.take(kernels=…) for kernels.")
        return self.take(*(self._positions(key, axis) for axis, key in enumerate(keys)))

    def _positions(self, key, axis: int) -> Indices:
        """Positions that a slice, an integer, a mask or an index array, open as from ``np.ix_``, stands for."""
        if not isinstance(key, slice):
            key = np.ravel(key)
            key = key.astype(np.intp) if not key.size else key
        return np.arange(self.shape[axis])[key]

    def _check_weights(self, weights: ArrayLike) -> NDArray[np.float64]:
        weights = np.asarray(weights, dtype=np.float64)
        if weights.shape != (self.n_kernels,):
            raise ValueError(f"weights have shape {weights.shape}, but the stack has {self.n_kernels} kernels.")
        return weights

    def _check_alpha(self, alpha: ArrayLike) -> NDArray[np.float64]:
        alpha, n_columns = np.asarray(alpha, dtype=np.float64), self.shape[1]
        if alpha.ndim not in (1, 2) or alpha.shape[0] != n_columns:
            raise ValueError(f"alpha has shape {alpha.shape}: pass ({n_columns},) or ({n_columns}, T).")
        return alpha

    def _require_square(self, operation: str) -> None:
        if not self.symmetric:
            raise ValueError(f"{operation} needs a square stack; this one has rows against other columns, {self!r}.")

    def __repr__(self) -> str:
        n_rows, n_columns, n_kernels = self.shape
        size = f"{n_kernels} kernels, {n_rows} x {n_columns}, {self.dtype.name}"
        return f"{type(self).__name__}({size}, {self._storage()})"

    @abstractmethod
    def _storage(self) -> str:
        """How it is stored, in a few words, for the repr."""


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
    """The combined kernel of a stack, computed where it is read: a ``KernelOperator`` of the SVM engine."""

    def __init__(self, stack: GramStack, combination: Combination):
        self.stack, self.combination = stack, combination
        self.shape = (stack.shape[0], stack.shape[1])

    def diagonal(self) -> NDArray[np.float64]:
        return self.combination.diagonal(self.stack)

    def submatrix(self, rows: NDArray[np.intp], columns: NDArray[np.intp]) -> NDArray:
        return self.combination.combine(self.stack.take(rows, columns))

    def matvec(self, alpha: NDArray[np.float64]) -> NDArray[np.float64]:
        return combined_scores(self.stack, self.combination, alpha)

    def spread(self) -> float:
        """Largest squared distance from the first sample, relative to the largest ``k(x, x)``."""
        diagonal = self.diagonal()
        first = self.submatrix(np.zeros(1, dtype=np.intp), np.arange(self.shape[1]))[0]
        largest = diagonal.max(initial=0.0)
        return float((diagonal + diagonal[0] - 2.0 * first).max() / largest) if largest > 0.0 else np.inf


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


def has_few_features(stack: GramStack) -> bool:
    """Whether explicit features of many samples are so few that a kernel, (n, n), would be much larger than they."""
    return stack.explicit and stack.shape[0] > FEW_SAMPLES and 2 * stack.ranks.sum() <= stack.shape[0]


def one_kernel(stack: GramStack, combination: Combination, memory: int) -> NDArray | CombinedKernel:
    """The combined kernel of a square stack as an array if it takes at most half of ``memory``, else an operator.

    The other half is for the stack itself (a lazy one has its cache there). A few explicit features are less to read
    than the kernel would be; but nearly constant kernels have to be centred, entry by entry.
    """
    if isinstance(combination, WeightedSum) and has_few_features(stack):
        operator = CombinedKernel(stack, combination)
        if operator.spread() > np.finfo(stack.dtype).eps ** 0.25:
            return operator
    itemsize = np.dtype(getattr(combination, "dtype", None) or stack.dtype).itemsize
    if stack.shape[0] * stack.shape[1] * itemsize <= memory // 2:
        return combination.combine(stack)
    return CombinedKernel(stack, combination)


def weighted_sum(block: NDArray, weights: NDArray[np.float64], out: NDArray) -> None:
    """``out = Σ_j weights_j block[j]`` for a block (F, b, m), summed in double precision."""
    from multikernel.compiled.gram import combine_rows

    n_kernels, n_rows, width = block.shape
    everything = np.empty(0, dtype=np.intp)
    arguments = np.ascontiguousarray(block), np.arange(n_kernels), np.arange(n_rows), everything, weights, False, out
    over_rows(lambda a, b: combine_rows(*arguments, np.empty(width), a, b), n_rows, work=block.size)


def times(block: NDArray, alpha: NDArray[np.float64]) -> NDArray[np.float64]:
    """``block[j] @ alpha`` in double precision, for a block (F, b, m) and alpha (m,) or (m, T)."""
    n_kernels, n_rows, width = block.shape
    if alpha.ndim == 2:
        flat = block.reshape(n_kernels * n_rows, width).astype(np.float64, copy=False)
        return (flat @ alpha).reshape(n_kernels, n_rows, alpha.shape[1])
    from multikernel.compiled.gram import row_dots

    out = np.empty((n_kernels, n_rows))
    arguments = np.ascontiguousarray(block), np.arange(n_kernels), np.arange(n_rows), alpha, out
    over_rows(lambda start, stop: row_dots(*arguments, start, stop), n_rows, work=block.size)
    return out


def precise_times(block: NDArray, vector: NDArray[np.float64]) -> NDArray[np.float64]:
    """``block[j] @ vector`` as if in twice the precision, for a block (F, b, m)."""
    from multikernel.compiled.gram import precise_row_dots

    out = np.empty(block.shape[:2])
    arguments = np.ascontiguousarray(block), np.ascontiguousarray(vector), out
    over_rows(lambda start, stop: precise_row_dots(*arguments, start, stop), block.shape[1], work=10 * block.size)
    return out


def support_of(alpha: NDArray) -> Indices:
    """Rows of ``alpha`` that are not all zero."""
    return np.flatnonzero(alpha if alpha.ndim == 1 else alpha.any(axis=1))


def float_type(X: Any) -> type:
    """The precision to compute with: float32 for data of that type, else float64."""
    return np.float32 if getattr(X, "dtype", None) == np.float32 else np.float64


def compose(first: Indices | None, then: ArrayLike | None, length: int) -> Indices | None:
    """Indices that select ``then`` out of the ``length`` that ``first`` selected; ``None`` selects all."""
    if then is None:
        return first
    then = np.asarray(then, dtype=np.intp)
    if then.size and not (-length <= then.min() and then.max() < length):  # compiled loops would not notice
        raise IndexError(f"positions {then.min()} to {then.max()} were asked for, but there are {length} samples.")
    return then if first is None else first[then]


def same_indices(rows: ArrayLike | None, columns: ArrayLike | None) -> bool:
    """Whether two selections pick the same samples in the same order."""
    if rows is None or columns is None:
        return rows is columns
    return np.array_equal(rows, columns)


def format_bytes(count: float) -> str:
    """``format_bytes(3e9) == '2.8 GB'``: for reprs and messages."""
    if count < 1024:
        return f"{count:.0f} bytes"
    unit = "k" if count < UNITS["M"] else "M" if count < UNITS["G"] else "G"
    return f"{count / UNITS[unit.upper()]:.1f} {unit}B"


def parse_memory(memory: int | float | str | None) -> int:
    """A budget in bytes from a number of bytes, a string such as ``"2GB"``, or ``None`` (half the free memory)."""
    if memory is None:
        try:
            return int(os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2)
        except (ValueError, OSError, AttributeError):  # the system does not tell
            return 2 << 30
    if isinstance(memory, str):
        match = re.fullmatch(r"\s*([0-9]*\.?[0-9]+)\s*([kKmMgGtT]?[bB]?)\s*", memory)
        if match is None:
            raise ValueError(f'memory={memory!r} is not a size: write bytes as a number, or a string like "2GB".')
        memory = float(match[1]) * UNITS[match[2].upper().removesuffix("B")]
    if not 0 < memory < float("inf"):
        raise ValueError(f"memory={memory!r} must be positive and finite: give bytes, or a string like '2GB'.")
    return int(memory)


def kernel_names(names: Sequence[str] | None, n_kernels: int) -> tuple[str, ...]:
    """``names`` made unique, or K0, K1, … when there are none."""
    if names is None:
        return tuple(f"K{j}" for j in range(n_kernels))
    if len(names) != n_kernels:
        raise ValueError(f"{len(names)} names were given for {n_kernels} kernels: give one name per kernel.")
    return tuple(unique_names(list(map(str, names))))
