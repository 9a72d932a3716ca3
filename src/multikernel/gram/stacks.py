"""Gram matrices in memory, in a file, or computed from the data when they are read; and which of them fits."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from multikernel.gram.base import (
    GramStack,
    Indices,
    compose,
    float_type,
    format_bytes,
    kernel_names,
    parse_memory,
    same_indices,
    support_of,
)
from multikernel.gram.lowrank import LowRankStack
from multikernel.kernels import KernelFamily
from multikernel.runtime.clock import check, left, over_rows

if TYPE_CHECKING:
    from multikernel.gram.normalization import Step

# Reading scattered columns costs about three times as much an entry as reading whole rows.
GATHER_BELOW = 0.3
# Adding up rows of the support costs about twice as much an entry as products with whole rows.
ROWS_BELOW, CHUNK = 0.5, 2048
# Rows of a matrix of weights that are made at a time: few enough for the cache, many enough for BLAS.
ROWS_AT_ONCE = 64
# Bytes of kernel rows that are held for compiled loops when not all of them fit.
LOADED_BYTES = 1 << 28
# Samples from which it is worth estimating what a fit takes, rows that are timed, and seconds that need no warning.
MANY, ROWS, UNREMARKABLE = 5000, 32, 600.0
# A fit with kernels in memory takes about as long as computing them four times.
PASSES_IN_MEMORY = 4


def family_stack(
    family: Any, X: Any, Z: Any = None, *, memory: int | float | str | None = None, dtype: Any = None
) -> GramStack:
    """Stack of a family of fitted kernels between samples ``X`` and ``Z`` (by default ``X`` again)."""
    budget = parse_memory(memory)
    X = X if hasattr(X, "shape") else np.asarray(X)
    dtype = np.dtype(float_type(X) if dtype is None else dtype)
    dense_bytes = len(family) * X.shape[0] * (X if Z is None else Z).shape[0] * dtype.itemsize
    if all(kernel.has_features for kernel in family.kernels):
        stack = LowRankStack.from_family(family, X, Z, dtype)
        if min(sum(f.nbytes for f in stack.row_features), budget) < dense_bytes:
            return stack
    if dense_bytes <= budget:
        array = family.evaluate(X, Z, dtype=dtype)
        similarity = None if Z is None else np.asarray(family.diagonal(X), dtype=np.float64)
        return DenseStack.owning(array, family.names, symmetric=Z is None, self_similarity=similarity, memory=budget)
    # half of the budget is left to the blocks and to the combined kernels that solvers make
    return LazyStack(family, X, Z, memory=budget // 2, dtype=dtype)


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

        A cache whose rows stay is hit in proportion to its size; one that drops the oldest never, on a scan.
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


def remark_on_cost(family: KernelFamily, X: Any, memory: Any, passes: int, who: str) -> str | None:
    """What to say if a fit takes more than ten minutes, or than the time that is left; None if it takes less.

    ``passes`` is about how often ``who`` computes all entries of kernels that do not fit in memory.
    """
    n, budget = X.shape[0], parse_memory(memory)
    if n < MANY or all(getattr(kernel, "has_features", False) for kernel in family.kernels):
        return None
    dtype = np.dtype(float_type(X))
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
