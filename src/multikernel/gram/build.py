"""From what users have, arrays, lists of matrices, data with kernels, to a Gram stack."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse

from multikernel.gram.base import GramStack, float_type, parse_memory
from multikernel.gram.checks import check_training_stack
from multikernel.gram.stacks import DenseStack, family_stack
from multikernel.kernels import KernelFamily
from multikernel.runtime.clock import over_rows


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
    if not isinstance(kernels, KernelFamily):
        kernels = KernelFamily.fit(kernels, X, keep=parse_memory(memory) // 4)
    return family_stack(kernels, X, memory=memory, dtype=dtype)


def precomputed_stack(
    X: Any,
    names: Sequence[str] | None = None,
    *,
    dtype: Any = None,
    memory: int | float | str | None = None,
    symmetric: bool | None = None,
) -> DenseStack:
    """Dense stack of matrices that users computed, without copying where their layout allows it."""
    if isinstance(X, Mapping):
        names = list(X) if names is None else names
        X = list(X.values())
    if isinstance(X, Iterator) or (isinstance(X, (list, tuple)) and (not X or np.ndim(X[0]) != 1)):
        X = _join_matrices(X)
    array = _as_array(X)
    if array.ndim == 2:
        array = array[:, :, None]
    if array.ndim != 3:
        raise ValueError(f"precomputed kernels have shape {array.shape}: pass (n, n, F) or a list of matrices.")
    if symmetric is not False and array.shape[0] != array.shape[1] == array.shape[2]:  # else n may be F
        raise ValueError(
            f"precomputed kernels have shape {array.shape}, which looks like (F, n, n): pass np.moveaxis(K, 0, -1), "
            "shape (n, n, F). This makes no copy."
        )
    if array.dtype.kind not in "fiub":
        raise TypeError(f"precomputed kernels hold {array.dtype}, not numbers: pass float32 or float64.")
    array = _kernels_first(array, np.dtype(dtype or float_type(array)))
    return DenseStack(array, names, symmetric=symmetric, memory=parse_memory(memory))


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
            raise ValueError(f"kernels[{k}] has shape {array.shape}{others}: pass matrices of the same samples.")
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
