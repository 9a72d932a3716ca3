"""Gram matrices that are computed from the data when they are read, with a bounded cache of rows."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from multikernel.gram.base import GramStack, Indices, format_bytes, same_indices
from multikernel.gram.blockwise import BlockwiseStack


class RowCache:
    """Rows of all kernels, as many as fit in a number of bytes; a row that came in stays.

    Scans over all rows and uniformly random rows both hit such a cache in proportion to its size, where a
    least-recently-used one would never hit on a scan. Safe to use from several threads.
    """

    def __init__(self, n_rows: int, n_columns: int, n_kernels: int, dtype: np.dtype, n_bytes: int):
        capacity = min(n_rows, int(n_bytes // max(1, n_columns * n_kernels * dtype.itemsize)))
        self._array = np.empty((n_kernels, capacity, n_columns), dtype=dtype) if capacity else None
        self._slot = np.full(n_rows, -1, dtype=np.intp)
        self._filled = 0
        self._lock = threading.Lock()

    @property
    def n_rows(self) -> int:
        """Rows held now."""
        return self._filled

    def holds(self, indices: Indices) -> NDArray[np.bool_]:
        """Which of these rows are in the cache."""
        return self._slot[indices] >= 0

    def fetch(self, indices: Indices) -> NDArray:
        """Rows that are in the cache, shape (F, b, columns)."""
        assert self._array is not None
        return self._array[:, self._slot[indices]]

    def store(self, indices: Indices, block: NDArray) -> None:
        """Keep as many of these rows as there is room for."""
        if self._array is None or self._filled == self._array.shape[1]:
            return
        with self._lock:
            new = np.flatnonzero(self._slot[indices] < 0)[: self._array.shape[1] - self._filled]
            _, first = np.unique(indices[new], return_index=True)
            new = new[first]
            slots = self._filled + np.arange(len(new))
            self._array[:, slots] = block[:, new]
            self._slot[indices[new]] = slots
            self._filled += len(new)


class LazyStack(GramStack):
    """Kernels evaluated on demand: nothing of size rows x columns is held beyond the cache.

    Parameters
    ----------
    family : KernelFamily
        Fitted kernels.
    X : array-like of shape (rows, d)
        Row samples.
    Z : array-like of shape (columns, d), optional
        Column samples; by default the row samples.
    memory : int
        Bytes that the cache of rows may take; 0 for none.
    dtype : data type
        float32 or float64.

    Examples
    --------
    >>> import numpy as np
    >>> from multikernel.gram import LazyStack
    >>> from multikernel.kernels import KernelFamily, Linear
    >>> X = np.arange(6.0).reshape(3, 2)
    >>> stack = LazyStack(KernelFamily.fit([Linear()], X), X, memory=0)
    >>> stack.rows([2])
    array([[[ 5., 23., 41.]]])
    """

    by_entry = True

    def __init__(self, family: Any, X: Any, Z: Any = None, *, memory: int, dtype: Any = np.float64):
        self.dtype = np.dtype(dtype)
        self._family = family
        # selecting, centring and scaling columns once, not for every block of rows
        self._X = family.prepare(X, self.dtype)
        self._Z = None if Z is None else family.prepare(Z, self.dtype)
        self._rows: Indices = np.arange(len(self._X))
        self.names = tuple(family.names)
        self.symmetric = Z is None
        self.shape = (len(self._X), len(self._columns()), len(family))
        self._cache_bytes = int(memory)
        self._cache = self._new_cache()

    def _new_cache(self) -> RowCache:
        return RowCache(len(self._X), *self.shape[1:], self.dtype, self._cache_bytes)

    def _columns(self) -> Any:
        return self._X if self._Z is None else self._Z

    def rows(self, indices: ArrayLike) -> NDArray:
        ids = self._rows[np.atleast_1d(np.asarray(indices, dtype=np.intp))]
        missing = ~self._cache.holds(ids)
        if missing.all():
            return self._computed(ids)
        block = np.empty((self.n_kernels, len(ids), self.shape[1]), dtype=self.dtype)
        block[:, ~missing] = self._cache.fetch(ids[~missing])
        if missing.any():
            block[:, missing] = self._computed(ids[missing])
        return block

    def _computed(self, ids: Indices) -> NDArray:
        block = self._family.evaluate(self._X.take(ids), self._columns(), dtype=self.dtype)
        self._cache.store(ids, block)
        return block

    def diagonal(self) -> NDArray[np.float64]:
        return np.asarray(self._family.diagonal(self._X.take(self._rows)), dtype=np.float64)

    def _should_narrow(self, n_support: int) -> bool:
        # rows that are in the cache cost less whole than their columns cost to compute
        return n_support < self.shape[1] and self._cache.n_rows < len(self._X)

    def take(self, rows=None, columns=None, kernels=None) -> LazyStack:
        if columns is None and kernels is None:
            return self._take_rows(rows)
        ids = self._rows if rows is None else self._rows[np.asarray(rows, dtype=np.intp)]
        square = self.symmetric and same_indices(rows, columns)
        Z = self._columns() if columns is None else self._columns().take(np.asarray(columns, dtype=np.intp))
        family = self._family if kernels is None else self._family.take(kernels)
        return LazyStack(family, self._X.take(ids), None if square else Z, memory=0, dtype=self.dtype)

    def _take_rows(self, rows: ArrayLike | None) -> LazyStack:
        """Rows of the same stack: they share its cache."""
        if rows is None:
            return self
        view = object.__new__(LazyStack)
        view.__dict__.update(self.__dict__)
        view._rows = self._rows[np.asarray(rows, dtype=np.intp)]
        view.shape = (len(view._rows), *self.shape[1:])
        view._Z, view.symmetric = self._columns(), False
        return view

    def scaled(self, row_factors, column_factors) -> GramStack:
        return BlockwiseStack(self).scaled(row_factors, column_factors)

    def centered(self, column_means, grand_means, chosen, shares=None) -> GramStack:
        return BlockwiseStack(self).centered(column_means, grand_means, chosen, shares)

    def __getstate__(self) -> dict:
        return {key: value for key, value in self.__dict__.items() if key != "_cache"}

    def __setstate__(self, state: dict) -> None:
        self.__dict__.update(state)
        self._cache = self._new_cache()

    def _storage(self) -> str:
        room = "no row cache" if self._cache._array is None else f"row cache {format_bytes(self._cache_bytes)}"
        return f"computed when read, {room}"
