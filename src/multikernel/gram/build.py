"""From what users have, arrays, lists of matrices, data with kernels, to a Gram stack; from a stack to one kernel."""

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse

from multikernel.gram.base import GramStack, parse_memory, support_of
from multikernel.gram.checks import check_training_stack
from multikernel.gram.dense import DenseStack
from multikernel.gram.lazy import LazyStack
from multikernel.gram.lowrank import LowRankStack
from multikernel.kernels import KernelFamily
from multikernel.runtime.clock import left, over_rows

# Samples from which it is worth estimating what a fit takes, rows that are timed, and seconds that need no warning.
MANY, ROWS, UNREMARKABLE = 5000, 32, 600.0
# A fit with kernels in memory takes about as long as computing them four times.
PASSES_IN_MEMORY = 4


def gram_stack(
    X: Any,
    kernels: Any = "precomputed",
    *,
    memory: int | float | str | None = None,
    dtype: Any = None,
    names: Sequence[str] | None = None,
    psd: str = "raise",
) -> GramStack:
    """Make a square Gram stack, in the storage that fits in ``memory``.

    Parameters
    ----------
    X : array-like
        With ``kernels="precomputed"``: an array of shape (n, n, F), one matrix (n, n), a list, dict or generator of F
        matrices (n, n), arrays or tensors, or a Gram stack. ``np.moveaxis(K, 0, -1)`` of a contiguous (F, n, n)
        array, in memory or memory-mapped, is used without copying. Otherwise data of shape (n, d).
    kernels : "precomputed", list of kernels, or KernelFamily
        Kernels to evaluate on ``X``; a list is fitted on ``X`` first.
    memory : int or str, optional
        Budget in bytes, or as "2GB". Data with kernels become a ``DenseStack`` if that fits, else a
        ``LowRankStack`` if all kernels have explicit features that fit, else a ``LazyStack`` with a cache of
        that size. By default half of the free memory.
    dtype : data type, optional
        float32 or float64; by default float32 for float32 data, else float64.
    names : sequence of str, optional
        Names of precomputed kernels.
    psd : {"raise", "ignore"}
        Whether precomputed kernels that are not positive semi-definite are an error.

    Examples
    --------
    >>> import numpy as np
    >>> from multikernel.gram import gram_stack
    >>> from multikernel.kernels import RBF, Linear
    >>> X = np.random.default_rng(0).normal(size=(50, 3))
    >>> gram_stack(X, [Linear(), RBF()])
    DenseStack(2 kernels, 50 x 50, float64, 39.1 kB in memory)
    >>> gram_stack(X, [Linear(), RBF()], memory="20kB")
    LazyStack(2 kernels, 50 x 50, float64, computed when read, row cache 10.0 kB)
    """
    if isinstance(X, GramStack):
        return X
    if isinstance(kernels, str) and kernels == "precomputed":
        return check_training_stack(precomputed_stack(X, names, dtype=dtype, memory=memory), psd)
    family = kernels if isinstance(kernels, KernelFamily) else fit_family(kernels, X, memory=memory)
    return family_stack(family, X, memory=memory, dtype=dtype)


def fit_family(
    kernels: Any, X: Any, feature_names: Any = None, *, memory: int | float | str | None = None
) -> KernelFamily:
    """Fit kernels on training data, keeping distances that the stack will need in a quarter of the budget."""
    return KernelFamily.fit(kernels, X, feature_names, keep=parse_memory(memory) // 4)


def family_stack(
    family: Any, X: Any, Z: Any = None, *, memory: int | float | str | None = None, dtype: Any = None
) -> GramStack:
    """Stack of a family of fitted kernels between samples ``X`` and ``Z`` (by default ``X`` again)."""
    budget = parse_memory(memory)
    X = X if hasattr(X, "shape") else np.asarray(X)
    if dtype is None:
        dtype = np.float32 if getattr(X, "dtype", None) == np.float32 else np.float64
    itemsize = np.dtype(dtype).itemsize
    n_rows, n_columns = X.shape[0], (X if Z is None else Z).shape[0]
    explicit = all(kernel.has_features for kernel in family.kernels)
    dense_bytes = len(family) * n_rows * n_columns * itemsize
    if explicit:
        stack = LowRankStack.from_family(family, X, Z, dtype)
        feature_bytes = sum(f.nbytes for f in stack.row_features)
        if feature_bytes < dense_bytes or dense_bytes > budget:
            return stack
    if dense_bytes <= budget:
        array = family.evaluate(X, Z, dtype=dtype)
        similarity = None if Z is None else np.asarray(family.diagonal(X), dtype=np.float64)
        return DenseStack.owning(array, family.names, symmetric=Z is None, self_similarity=similarity, memory=budget)
    # half of the budget is left to the blocks and to the combined kernels that solvers make
    return LazyStack(family, X, Z, memory=budget // 2, dtype=dtype)


def precomputed_stack(
    X: Any,
    names: Sequence[str] | None = None,
    *,
    dtype: Any = None,
    memory: int | float | str | None = None,
    symmetric: bool | None = None,
) -> DenseStack:
    """Dense stack of matrices that users computed, without copying where their layout allows it."""
    if isinstance(X, GramStack):
        raise TypeError("precomputed_stack takes arrays; a Gram stack needs no conversion.")
    if isinstance(X, Mapping):
        names = list(X) if names is None else names
        X = list(X.values())
    if isinstance(X, Iterator) or (isinstance(X, (list, tuple)) and (not X or np.ndim(X[0]) != 1)):
        X = _join_matrices(X)
    array = _as_array(X)
    if array.ndim == 2:
        array = array[:, :, None]
    if array.ndim != 3:
        raise ValueError(
            f"precomputed kernels have shape {array.shape}: pass (n, n, F), rows first and kernels last, one "
            "matrix (n, n), or a list of matrices."
        )
    if array.shape[0] != array.shape[1] == array.shape[2]:
        raise ValueError(
            f"precomputed kernels have shape {array.shape}, which looks like (F, n, n): pass np.moveaxis(K, 0, -1), "
            "shape (n, n, F). This makes no copy."
        )
    if array.dtype.kind not in "fiub":
        raise TypeError(f"precomputed kernels hold {array.dtype}, not numbers: pass float32 or float64.")
    wanted = dtype or (np.float32 if array.dtype == np.float32 else np.float64)
    return DenseStack(
        _kernels_first(array, np.dtype(wanted)), names, symmetric=symmetric, memory=parse_memory(memory)
    )


def _as_array(X: Any) -> NDArray:
    """A matrix or several as an array: of SciPy, NumPy, or tensors, which may be on a device or carry gradients."""
    if issparse(X):
        return X.toarray()
    if hasattr(X, "detach") and hasattr(X, "cpu"):  # torch, which need not be installed
        X = X.detach().cpu()
    return X if isinstance(X, np.ndarray) else np.asarray(X)


def _join_matrices(matrices: Iterable[Any]) -> NDArray:
    """Matrices, read one at a time, as (n, m, F) with kernels first in memory."""
    joined: list[NDArray] = []
    for k, array in enumerate(map(_as_array, matrices)):
        if array.ndim != 2 or array.shape != (joined[0].shape if joined else array.shape):
            others = f", but kernels[0] has {joined[0].shape}" if joined else ""
            raise ValueError(
                f"kernels[{k}] has shape {array.shape}{others}: all matrices must be 2-dimensional "
                "and between the same samples."
            )
        joined.append(array)
    if not joined:
        raise ValueError("an empty list of kernels was given: pass at least one matrix.")
    return np.moveaxis(np.stack(joined), 0, -1)


def _kernels_first(array: NDArray, dtype: np.dtype) -> NDArray:
    """(n, m, F) as a contiguous (F, n, m): the same memory if it was laid out so, else a copy."""
    first = np.moveaxis(array, -1, 0)
    if first.dtype == dtype and first.flags.c_contiguous:
        return first
    out = np.empty(first.shape, dtype=dtype)

    def transpose(start: int, stop: int) -> None:  # a row at a time, which the cache holds: one pass, not F
        for i in range(start, stop):
            out[:, i] = first[:, i]

    over_rows(transpose, array.shape[0], work=array.size)
    return out


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


def remark_on_cost(family: KernelFamily, X: Any, memory: Any, passes: int, who: str) -> str | None:
    """What to say if a fit takes more than ten minutes, or than the time that is left; None if it takes less.

    ``passes`` is about how often ``who`` computes all entries of kernels that do not fit in memory.
    """
    n, budget = X.shape[0], parse_memory(memory)
    if n < MANY or all(getattr(kernel, "has_features", False) for kernel in family.kernels):
        return None
    dtype = np.dtype(np.float32 if X.dtype == np.float32 else np.float64)
    fits = len(family) * n * n * dtype.itemsize <= budget
    passes = PASSES_IN_MEMORY if fits else passes
    one = n * _seconds_per_row(LazyStack(family, X, memory=0, dtype=dtype))
    total, limit = passes * one, min(left(), UNREMARKABLE)
    if total <= limit:
        return None
    than = "ten minutes" if limit == UNREMARKABLE else f"the {_in_words(limit)} left"
    where = "in memory" if fits else "computed when they are read"
    return (
        f"this fit may take {_in_words(total)}, more than {than}: {n:,} samples and {len(family)} kernels, {where}; "
        f"reading all entries once takes about {_in_words(one)}, judging by {ROWS} rows, and {who} needs about "
        f"{passes} such passes. With explicit features, such as Nystroem(kernel=RBF(), rank=200), time grows like n, "
        'and SVRGMKLClassifier makes the most of them: see "Choosing a method" in the documentation.'
    )


def _seconds_per_row(stack: LazyStack) -> float:
    stack.rows(np.arange(2))  # compiles
    started = time.perf_counter()
    stack.rows(np.linspace(0, len(stack) - 1, ROWS).astype(np.intp))
    return (time.perf_counter() - started) / ROWS


def _in_words(seconds: float) -> str:
    """A time in two digits or so."""
    if seconds < 90:
        return f"{seconds:.2g} s" if seconds < 10 else f"{seconds:.0f} s"
    minutes = seconds / 60
    return f"{minutes:.0f} min" if minutes < 90 else f"{minutes / 60:.2g} h"
