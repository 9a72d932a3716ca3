"""Gram matrices held in memory, or in a memory-mapped file."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from multikernel.gram.base import (
    GramStack,
    Indices,
    compose,
    format_bytes,
    kernel_names,
    parse_memory,
    same_indices,
    support_of,
)
from multikernel.gram.normalization import Step
from multikernel.runtime.clock import over_rows

# Reading scattered columns costs about three times as much an entry as reading whole rows.
GATHER_BELOW = 0.3
# Adding up rows of the support costs about twice as much an entry as products with whole rows.
ROWS_BELOW, CHUNK = 0.5, 2048
# Rows of a matrix of weights that are made at a time: few enough for the cache, many enough for BLAS.
ROWS_AT_ONCE = 64


class DenseStack(GramStack):
    """Gram matrices as one array of shape (F, N, M), or a view on some of its rows, columns and kernels.

    Parameters
    ----------
    array : ndarray or memmap of shape (F, N, M)
        float32 or float64, each matrix contiguous. It is not copied.
    names : sequence of str, optional
        One name per kernel.
    symmetric : bool, optional
        Whether rows and columns are the same samples. By default, whether the matrices are square.
    self_similarity : ndarray of shape (F, N), optional
        ``k_j(x_i, x_i)`` of the row samples of a rectangular stack; cosine normalisation needs it.
    memory : int, optional
        Bytes that a normalised copy may take; a larger one is normalised on the fly.

    Examples
    --------
    >>> import numpy as np
    >>> from multikernel.gram import DenseStack
    >>> stack = DenseStack(np.stack([np.eye(3), np.ones((3, 3))]), names=["identity", "constant"])
    >>> stack
    DenseStack(2 kernels, 3 x 3, float64, 144 bytes in memory)
    >>> stack.combine([1.0, 0.5])[0]
    array([1.5, 0.5, 0.5])
    >>> stack.quadratic_forms([1.0, 1.0, 0.0])
    array([2., 4.])
    """

    stored = True

    def __init__(
        self,
        array: NDArray,
        names: Sequence[str] | None = None,
        *,
        symmetric: bool | None = None,
        self_similarity: NDArray | None = None,
        memory: int | None = None,
    ):
        if array.ndim != 3:
            raise ValueError(f"a DenseStack needs an array of shape (F, rows, columns); got shape {array.shape}.")
        if array.dtype not in (np.float32, np.float64):
            raise TypeError(f"a DenseStack holds float32 or float64; got {array.dtype}. Convert the array first.")
        n_kernels, n_rows, n_columns = array.shape
        self._array = array
        self._rows: Indices | None = None
        self._columns: Indices | None = None
        self._kernels: Indices = np.arange(n_kernels)
        self._self_similarity = self_similarity
        self._owned = False
        self.memory = parse_memory(memory)
        self.symmetric = n_rows == n_columns if symmetric is None else symmetric
        self.names = kernel_names(names, n_kernels)
        self.shape = (n_rows, n_columns, n_kernels)
        self.dtype = array.dtype

    @classmethod
    def owning(cls, array: NDArray, names: Sequence[str], **options) -> DenseStack:
        """A stack on an array that nobody else uses, so that normalising may overwrite it."""
        stack = cls(array, names, **options)
        stack._owned = True
        return stack

    # -- access -------------------------------------------------------------------------------------------------

    def _row_ids(self) -> Indices:
        return np.arange(self.shape[0]) if self._rows is None else self._rows

    def _column_ids(self) -> Indices:
        return np.arange(self.shape[1]) if self._columns is None else self._columns

    def rows(self, indices: ArrayLike) -> NDArray:
        from multikernel.compiled.smo import gather

        ids, columns = self._row_ids()[np.asarray(indices)], self._column_ids()
        block = np.empty((self.n_kernels, len(ids), self.shape[1]), dtype=self.dtype)

        def copy(start: int, stop: int) -> None:
            for k, kernel in enumerate(self._kernels):
                gather(self._array[kernel], ids, columns, block[k], start, stop)

        over_rows(copy, len(ids), work=block.size)
        return block

    def whole(self) -> NDArray | None:
        every = self._rows is None and self._columns is None
        every = every and np.array_equal(self._kernels, np.arange(len(self._array)))
        plain = type(self._array) is np.ndarray and self._array.flags.c_contiguous
        return self._array if every and plain else None

    def matrix(self, kernel: int) -> NDArray:
        if self._rows is None and self._columns is None:
            return self._array[self._kernels[kernel]]
        return super().matrix(kernel)

    def to_array(self) -> NDArray:
        return self.rows(np.arange(self.shape[0]))

    def knows_diagonal(self) -> bool:
        return self.symmetric or self._self_similarity is not None

    def diagonal(self) -> NDArray[np.float64]:
        if self._self_similarity is not None:
            return np.asarray(self._self_similarity, dtype=np.float64)
        self._require_square("diagonal (without self_similarity=)")
        ids = self._row_ids()
        return self._array[self._kernels[:, None], ids, ids].astype(np.float64)

    def _should_narrow(self, n_support: int) -> bool:
        return n_support < GATHER_BELOW * self.shape[1]

    def take(self, rows=None, columns=None, kernels=None) -> DenseStack:
        view = object.__new__(DenseStack)
        view._array, view.dtype, view.memory, view._owned = self._array, self.dtype, self.memory, False
        view._rows = compose(self._rows, rows, self.shape[0])
        view._columns = compose(self._columns, columns, self.shape[1])
        chosen = np.arange(self.n_kernels) if kernels is None else np.asarray(kernels, dtype=np.intp)
        view._kernels = self._kernels[chosen]
        view.names = tuple(self.names[k] for k in chosen)
        view.symmetric = self.symmetric and same_indices(view._rows, view._columns)
        similarity = self._self_similarity
        if similarity is None and self.symmetric and not view.symmetric:
            similarity = self.diagonal()  # rows keep their own k(x, x) when columns are cut away
        if similarity is not None:
            similarity = similarity[chosen] if rows is None else similarity[chosen][:, np.asarray(rows)]
        view._self_similarity = similarity
        n_rows = self.shape[0] if rows is None else len(np.asarray(rows))
        n_columns = self.shape[1] if columns is None else len(np.asarray(columns))
        view.shape = (n_rows, n_columns, len(chosen))
        if view.symmetric:
            view.checked = self.checked  # what holds for all samples holds for some
        return view

    # -- the four operations, at memory speed ---------------------------------------------------------------------

    def combine(self, weights: ArrayLike, dtype: DTypeLike | None = None, out: NDArray | None = None) -> NDArray:
        from multikernel.compiled import gram as compiled

        weights = self._check_weights(weights)
        used = np.flatnonzero(weights)
        array, kernels, weights = self._array, self._kernels[used], weights[used]
        out, ids, width = self._room(dtype, out), self._row_ids(), array.shape[2]
        half = self.symmetric and self._rows is None
        few = self._columns is not None and len(self._columns) < GATHER_BELOW * width
        columns = np.empty(0, dtype=np.intp) if self._columns is None else self._columns

        def some(start: int, stop: int) -> None:
            total = np.empty(width)
            if few:
                compiled.combine_gathered(array, kernels, ids, columns, weights, out, total, start, stop)
            else:
                compiled.combine_rows(array, kernels, ids, columns, weights, half, out, total, start, stop)

        over_rows(some, len(ids), work=out.size * len(used))
        if half:
            self._threaded(compiled.mirror_upper, (out,), out.size)
        return out

    def apply(self, alpha: ArrayLike) -> NDArray[np.float64]:
        from multikernel.compiled import gram as compiled

        alpha = self._check_alpha(alpha)
        support = support_of(alpha)
        if alpha.ndim == 2:
            whole = self._rows is None and self._columns is None and self.dtype == np.float64
            if whole and not self._should_narrow(len(support)):
                return np.stack([self._array[kernel] @ alpha for kernel in self._kernels])
            return super().apply(alpha)  # BLAS on double-precision blocks
        out = np.zeros((self.n_kernels, self.shape[0]))
        vector = alpha[support]
        ids = support if self._columns is None else self._columns[support]
        work = self.n_kernels * self.shape[0] * len(ids)
        if self.symmetric and self._rows is None and len(ids) < ROWS_BELOW * self._array.shape[2]:
            # row i is column i: only the rows of the support are read, each from end to end
            over_rows(lambda start, stop: self._add_rows(ids, vector, out, start, stop), self.n_kernels, work=work)
        elif len(ids) < GATHER_BELOW * self._array.shape[2]:
            arguments: tuple = (self._array, self._kernels, self._row_ids(), ids, vector, out)
            self._threaded(compiled.row_dots_gathered, arguments, work)
        else:
            full = np.zeros(self._array.shape[2])
            np.add.at(full, ids, vector)  # a column taken twice counts twice
            self._threaded(compiled.row_dots, (self._array, self._kernels, self._row_ids(), full, out), work)
        return out

    def _add_rows(self, rows: Indices, factors: NDArray, out: NDArray, start: int, stop: int) -> None:
        """``out[j] += Σ_i factors_i K_j[rows_i]`` for the kernels from ``start`` to ``stop``."""
        from multikernel.compiled.smo import weighted_rows

        for j in range(start, stop):
            for first in range(0, out.shape[1], CHUNK):  # so that sums stay in the fastest cache
                last = min(first + CHUNK, out.shape[1])
                weighted_rows(self._array[self._kernels[j]], rows, factors, out[j], first, last)

    def quadratic_forms(self, alpha: ArrayLike) -> NDArray[np.float64]:
        from multikernel.compiled import gram as compiled

        alpha = self._check_alpha(alpha)
        self._require_square("quadratic_forms")
        if alpha.ndim == 2:
            return super().quadratic_forms(alpha)
        support = support_of(alpha)
        function: Any
        if len(support) < GATHER_BELOW * self._array.shape[2] or self._rows is not None:
            function, length = compiled.quadratic_forms_gathered, len(support)
            arguments: tuple = (self._array, self._kernels, self._row_ids()[support], alpha[support])
        else:
            function, length = compiled.quadratic_forms, len(alpha)
            arguments = (self._array, self._kernels, alpha)
        return self._total(
            lambda total, start, stop: function(*arguments, total, start, stop), length, float(len(support)) ** 2
        )

    def summed_forms(self, alpha: NDArray[np.float64]) -> NDArray[np.float64]:
        """As ``inner_products`` with ``alpha alpha'``, on and below its diagonal: one pass however many columns."""
        from multikernel.compiled.gram import inner_products

        alpha = self._check_alpha(alpha)
        self._require_square("summed_forms")
        support = support_of(alpha)
        part, ids = alpha[support], self._row_ids()[support]

        def add(total: NDArray, start: int, stop: int) -> None:
            spread = np.empty(self._array.shape[2])
            for first in range(start, stop, ROWS_AT_ONCE):
                last = min(first + ROWS_AT_ONCE, stop)
                W = part[first:last] @ part[:last].T
                W[:, :first] *= 2.0  # stands for the entries above the diagonal, too
                data = self._array, self._kernels, ids[first:last], ids[:last], W
                inner_products(*data, total, spread, 0, last - first)

        return self._total(add, len(support), float(len(support)) ** 2)

    def inner_products(self, W: NDArray[np.float64]) -> NDArray[np.float64]:
        from multikernel.compiled.gram import inner_products

        arguments = (self._array, self._kernels, self._row_ids(), self._column_ids(), W)

        def add(total: NDArray, start: int, stop: int) -> None:
            inner_products(*arguments, total, np.empty(self._array.shape[2]), start, stop)

        return self._total(add, len(self), float(W.size))

    def _total(self, add: Callable[[NDArray, int, int], None], n_rows: int, n_entries: float) -> NDArray[np.float64]:
        """Sum over ranges of rows, on all cores, of what ``add`` adds to a number for each kernel, shape (F,)."""

        def share(start: int, stop: int) -> NDArray[np.float64]:
            total = np.zeros(self.n_kernels)
            add(total, start, stop)
            return total

        return np.sum(over_rows(share, n_rows, work=self.n_kernels * n_entries), axis=0)

    def _threaded(self, function, arguments: tuple, work: float) -> None:
        over_rows(lambda start, stop: function(*arguments, start, stop), self.shape[0], work=work)

    # -- normalisation ----------------------------------------------------------------------------------------------

    def changed(self, step: Step) -> GramStack:
        if not self._owned and self.nbytes > self.memory:
            return super().changed(step)
        known = self.knows_diagonal()
        similarity = self.diagonal().copy() if known else np.full((self.n_kernels, len(self)), np.nan)
        array = self._own()

        def change(start: int, stop: int) -> None:
            step.apply(array[:, start:stop], similarity[:, start:stop], slice(start, stop))

        over_rows(change, len(self), work=array.size)
        kept = similarity if known and not self.symmetric else None
        return DenseStack.owning(
            array, self.names, symmetric=self.symmetric, self_similarity=kept, memory=self.memory
        )

    def _own(self) -> NDArray:
        """The stack's array if nobody else uses it, which spends the stack; else a copy."""
        if not self._owned:
            return self.to_array()
        array, self._array = self._array, np.empty((0, 0, 0))
        return array

    def _storage(self) -> str:
        where = "memory-mapped" if isinstance(self._array, np.memmap) else "in memory"
        size = self.n_kernels * self._array.shape[1] * self._array.shape[2] * self.dtype.itemsize
        view = "" if self._rows is None and self._columns is None else "view of "
        return f"{view}{format_bytes(size)} {where}"
