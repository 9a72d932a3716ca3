"""Gram matrices that are computed from the data when they are read, and the cache of rows."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from multikernel.gram.base import GramStack, Indices, format_bytes, same_indices
from multikernel.runtime.clock import check

# Bytes of kernel rows that are held for compiled loops when not all of them fit.
LOADED_BYTES = 1 << 28


class RowCache:
    """Rows of all kernels of a stack, as many as fit: row i of kernel j is ``rows[j, slot[i]]``, if ``slot[i] >= 0``.

    ``shape`` is that of the stack, ``n_bytes`` the room for rows, which is never less than that of ``fewest``.
    """

    def __init__(self, shape: tuple[int, int, int], dtype: np.dtype, n_bytes: int, fewest: int = 0):
        n_rows, n_columns, n_kernels = shape
        row_bytes = max(1, n_columns * n_kernels * dtype.itemsize)
        self.capacity = min(n_rows, max(fewest, int(n_bytes // row_bytes)))
        self.rows = np.empty((n_kernels, self.capacity, n_columns), dtype=dtype)
        self.slot = np.full(n_rows, -1, dtype=np.intp)
        self._owner = np.full(self.capacity, -1, dtype=np.intp)  # whose row is in each place
        self._next = 0  # the place that is filled next
        self._lock = threading.Lock()

    def holds(self, indices: Indices) -> NDArray[np.bool_]:
        """Which of these rows are here."""
        return self.slot[indices] >= 0

    def fetch(self, indices: Indices) -> NDArray:
        """Rows that are here, shape (F, b, columns)."""
        return self.rows[:, self.slot[indices]]

    def store(self, indices: Indices, block: NDArray, keep: ArrayLike = ()) -> None:
        """Keep these rows, at most ``capacity``; those that came first make room, but for rows ``keep``."""
        held = self.slot[indices]
        self._owner[held[held >= 0]] = -1
        places = (self._next + np.arange(self.capacity)) % self.capacity
        places = places[np.isin(self._owner[places], keep, invert=True)][: len(indices)]
        self._next = int(places[-1] + 1) % self.capacity
        gone = self._owner[places]
        self.slot[gone[gone >= 0]] = -1
        self.rows[:, places] = block
        self.slot[indices], self._owner[places] = places, indices

    def store_if_room(self, indices: Indices, block: NDArray) -> None:
        """Keep as many of these rows as there is room for without giving up others; safe on several threads.

        Scans over all rows and uniformly random rows both hit a cache whose rows stay in proportion to its size. One
        that drops the oldest would never hit on a scan.
        """
        if not (self._owner < 0).any():
            return
        with self._lock:
            _, first = np.unique(indices, return_index=True)
            new = first[~self.holds(indices[first])][: (self._owner < 0).sum()]
            if len(new):
                self.store(indices[new], block[:, new])


class KernelRows(RowCache):
    """Rows of a square stack for compiled loops: all where they are in memory or fit, else those last loaded.

    With ``weights`` rows of the one kernel ``Σ_j weights_j K_j``, of which ``whole`` is all, if it fits. ``memory``
    is what a copy of the whole stack, or the rows that are here, may take; ``complete`` says whether all are here.
    """

    def __init__(self, stack: GramStack, memory: int, weights: NDArray | None = None, whole: NDArray | None = None):
        self.stack, self.weights = stack, weights
        if weights is None:
            fits = stack.stored and stack.nbytes <= memory // 2
            whole = stack.to_array() if stack.whole() is None and fits else stack.whole()
        self.complete = whole is not None
        if whole is not None:
            self.rows, self.slot, self.capacity = whole, np.arange(len(stack)), len(stack)
        else:
            n_kernels = stack.n_kernels if weights is None else 1
            super().__init__((*stack.shape[:2], n_kernels), stack.dtype, min(memory // 4, LOADED_BYTES), fewest=1)

    def load(self, samples: Indices) -> None:
        """Compute rows, at most ``capacity`` of them; those that came first make room."""
        if self.weights is None:
            self.store(samples, self.stack.rows(samples))
        else:
            self.store(samples, self.stack.take(rows=samples).combine(self.weights)[None])

    def parts(self, order: Indices, n_entries: int) -> Iterator[Indices]:
        """Cut an order of samples into parts of that many entries at most, whose rows are here; until time is up."""
        n_kernels, _, n_columns = self.rows.shape
        size = max(1, min(self.capacity, n_entries // (n_kernels * n_columns)))
        for start in range(0, len(order), size):
            check()
            part = order[start : start + size]
            if not self.complete:
                self.load(np.unique(part))
            yield part


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
        return RowCache((len(self._X), *self.shape[1:]), self.dtype, self._cache_bytes)

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
        self._cache.store_if_room(ids, block)
        return block

    def diagonal(self) -> NDArray[np.float64]:
        return np.asarray(self._family.diagonal(self._X.take(self._rows)), dtype=np.float64)

    def _should_narrow(self, n_support: int) -> bool:
        # rows that are in the cache cost less whole than their columns cost to compute
        return n_support < self.shape[1] and not (self._cache.slot >= 0).all()

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

    def __getstate__(self) -> dict:
        return {key: value for key, value in self.__dict__.items() if key != "_cache"}

    def __setstate__(self, state: dict) -> None:
        self.__dict__.update(state)
        self._cache = self._new_cache()

    def _storage(self) -> str:
        room = f"row cache {format_bytes(self._cache_bytes)}" if self._cache.capacity else "no row cache"
        return f"computed when read, {room}"
