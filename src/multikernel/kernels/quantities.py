"""Pairwise quantities that kernels are functions of, computed block by block, once however many kernels need them;
columns cut out of any kind of table.

A *quantity* (inner products, distances, cosines) is what kernels on the same columns share. It turns data into *rows*
once (selected, centred, normalised) and then gives any *window* of its (n, m) matrix from them.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar

import numpy as np
from scipy import sparse

from multikernel.runtime.clock import check, over_rows

BLOCK_BYTES = 8 * 2**20  # one window of float64; a handful exist at any moment
EXACT_MEAN_SAMPLES = 5000
MEDIAN_SAMPLES = 2000


def row_blocks(n_rows: int, n_columns: int) -> Iterator[tuple[int, int]]:
    """Ranges of rows such that a window of all columns stays within ``BLOCK_BYTES``, until time is up."""
    size = max(16, BLOCK_BYTES // (8 * max(n_columns, 1)))
    for start in range(0, n_rows, size):
        check()
        yield start, min(start + size, n_rows)


def in_chunks(function: Callable[..., Any], values: np.ndarray, *others: np.ndarray) -> None:
    """Call an elementwise ``function(values, *others)`` on ranges of rows, on all cores."""
    over_rows(lambda a, b: function(values[a:b], *(o[a:b] for o in others)), len(values), work=10 * values.size)


class Rows:
    """Samples made ready for one quantity: ``data`` and, per sample, some numbers (``stats``)."""

    def __init__(self, data: Any, **stats: np.ndarray) -> None:
        self.data = data
        self.stats = stats
        self._memo: dict[str, Any] = {}

    def __len__(self) -> int:
        return self.data.shape[0]

    def remember(self, name: str, make: Callable[[], Any]) -> Any:
        """Something made of the data on demand, once."""
        if name not in self._memo:
            self._memo[name] = make()
        return self._memo[name]

    def take(self, rows: Any) -> Rows:
        return Rows(self.data[rows], **{name: values[rows] for name, values in self.stats.items()})


class PreparedRows:
    """Data made ready for the kernels of a family, so that many windows of it cost little.

    Made by :meth:`KernelFamily.prepare`; accepted by :meth:`KernelFamily.evaluate` in place of the data.
    """

    def __init__(self, X: Any, dtype: Any = None) -> None:
        self.X = as_data(X)
        self.dtype = working_type(dtype, self.X)
        self._rows: dict[Any, Rows] = {}

    def __len__(self) -> int:
        return self.X.shape[0]

    def rows(self, quantity: Quantity) -> Rows:
        if quantity.key not in self._rows:
            self._rows[quantity.key] = quantity.prepare(self.X, self.dtype)
        return self._rows[quantity.key]

    def clear(self) -> None:
        """Forget what was made ready."""
        self._rows.clear()

    def take(self, rows: Any) -> PreparedRows:
        """The same for some of the samples."""
        part = PreparedRows(take_rows(self.X, rows), self.dtype)
        part._rows = {key: prepared.take(rows) for key, prepared in self._rows.items()}
        return part


def working_type(dtype: Any, X: Any) -> np.dtype:
    """float32 where asked for, or where the data are float32 and nothing is asked; float64 otherwise."""
    if dtype is None:
        dtype = np.float32 if not is_frame(X) and X.dtype == np.float32 else np.float64
    dtype = np.dtype(dtype)
    if dtype not in (np.float32, np.float64):
        raise TypeError(f"Kernels are computed in float32 or float64, not {dtype}.")
    return dtype


class Window:
    """Rows ``start:stop`` of X against rows ``first:`` of Z; ``window(quantity)`` computes each quantity once.

    ``square`` says that Z is X and ``first == start``: the window begins with its diagonal.
    """

    def __init__(
        self, X: PreparedRows, Z: PreparedRows, start: int, stop: int, first: int = 0, *, square: bool = False
    ) -> None:
        self.X, self.Z = X, Z
        self.start, self.stop, self.first, self.square = start, stop, first, square
        self.values: dict[Any, np.ndarray] = {}

    def __call__(self, quantity: Quantity) -> np.ndarray:
        """The quantity in this window, to be read only: others share it."""
        if quantity.key not in self.values:
            values = quantity.compute(self)
            if self.square and quantity.distance:
                np.fill_diagonal(values, 0.0)
            self.values[quantity.key] = values
        return self.values[quantity.key]

    def rows(self, quantity: Quantity) -> tuple[Rows, Rows]:
        return self.X.rows(quantity), self.Z.rows(quantity)

    def outer_stats(self, quantity: Quantity, name: str) -> tuple[np.ndarray, np.ndarray]:
        """The per-sample numbers ``name`` of the window's rows, as a column, and of its columns, as a row."""
        left, right = (rows.stats[name].astype(self.X.dtype) for rows in self.rows(quantity))
        return left[self.start : self.stop, None], right[None, self.first :]

    def mirror(self, matrix: np.ndarray) -> None:
        """Copy what is above the diagonal in a square window below it: exact symmetry, at half the work."""
        start, stop = self.start, self.stop
        block, below = matrix[start:stop, start:stop], len(matrix) - stop
        np.copyto(block, block.T.copy(), where=np.tri(len(block), k=-1, dtype=bool))

        def transpose(first: int, last: int) -> None:
            matrix[stop + first : stop + last, start:stop] = matrix[start:stop, stop + first : stop + last].T

        over_rows(transpose, below, work=len(block) * below)


def square_windows(X: PreparedRows) -> Iterator[Window]:
    """Windows that cover the upper triangle of a square matrix."""
    for start, stop in row_blocks(len(X), len(X)):
        yield Window(X, X, start, stop, start, square=True)


class Quantity:
    """A number for each pair of samples, computed from one set of columns.

    ``key`` says what it is: two kernels whose quantities have equal keys share the values.
    """

    distance: ClassVar[bool] = False  # zero between a sample and itself
    costly: ClassVar[bool] = False  # worth keeping from the fit to the first Gram matrix

    def __init__(self, columns: np.ndarray, *key: Any) -> None:
        self.columns = columns
        self.key = (type(self).__name__, columns.tobytes(), *key)

    def prepare(self, X: Any, dtype: Any) -> Rows:
        raise NotImplementedError

    def compute(self, window: Window) -> np.ndarray:
        """A new array of shape (rows of the window, columns of the window)."""
        raise NotImplementedError

    def sources(self) -> Sequence[Quantity]:
        """The quantities that are computed from rows of data, which this one is made from."""
        return (self,)

    def subset(self, X: Any, rows: np.ndarray) -> Any:
        """The data of some of the training samples."""
        return take_rows(X, rows)

    def mean(self, training: TrainingSet) -> float:
        sample = training.sample(self, EXACT_MEAN_SAMPLES)
        keeping = self.costly and sample is training.prepared and training.has_room()
        total = 0.0
        for window in square_windows(sample):
            values = window(self)
            size = window.stop - window.start
            total += values[:, :size].sum(dtype=np.float64) + 2 * values[:, size:].sum(dtype=np.float64)
            if keeping:
                training.kept.setdefault(self.key, []).append(values)
        return total / len(sample) ** 2

    def median(self, training: TrainingSet) -> float:
        sample = training.sample(self, MEDIAN_SAMPLES)
        if len(sample) < 2:
            return 0.0
        distances = [
            window(self)[np.triu_indices(window.stop - window.start, 1, len(sample) - window.start)]
            for window in square_windows(sample)
        ]
        return float(np.median(np.concatenate(distances)))

    def scale(self, training: TrainingSet) -> float:
        raise ValueError(
            'bandwidth="scale" is defined for RBF and Laplacian kernels only. Use "mean", "median" or a number.'
        )


class Products(Quantity):
    """Inner products of the rows of prepared data."""

    def compute(self, window: Window) -> np.ndarray:
        left, right = window.rows(self)
        return products(left.data[window.start : window.stop], right.data[window.first :])


class InnerProducts(Products):
    """(x − c)·(z − c) with c the training mean, so that distances between samples far from 0 do not cancel.

    Per sample: ``square`` = ‖x − c‖², ``norm`` = ‖x‖ and ``shift`` = x·c − ½‖c‖², which gives back the raw
    product, x·z = (x − c)·(z − c) + shift(x) + shift(z). ``center=None`` (sparse data) means c = 0.
    """

    def __init__(self, columns: np.ndarray, center: np.ndarray | None) -> None:
        super().__init__(columns, None if center is None else center.tobytes())
        self.center = center

    def prepare(self, X: Any, dtype: Any) -> Rows:
        if self.center is None:
            data = sparse.csr_matrix(take_columns(X, self.columns, dtype))
            squares = np.asarray(data.astype(np.float64).power(2).sum(axis=1)).ravel()
            return Rows(data, square=squares, norm=np.sqrt(squares), shift=np.zeros(len(squares)))
        raw = take_columns(X, self.columns)
        raw = raw.toarray() if sparse.issparse(raw) else raw
        data = np.empty(raw.shape, dtype)
        square, norm, shift = np.empty((3, len(raw)))
        half = 0.5 * self.center @ self.center
        size = max(1, 2**20 // max(raw.shape[1], 1))
        for rows in (slice(start, start + size) for start in range(0, len(raw), size)):
            part = raw[rows].astype(np.float64)
            norm[rows] = np.sqrt(np.einsum("ij,ij->i", part, part))
            shift[rows] = part @ self.center - half
            data[rows] = part - self.center
            # of the rounded data: the distances must agree with the products that they are made from
            part = data[rows].astype(np.float64)
            square[rows] = np.einsum("ij,ij->i", part, part)
        return Rows(data, square=square, norm=norm, shift=shift)


def products(left: Any, right: Any) -> np.ndarray:
    """left @ right.T as an array, for arrays or CSR matrices."""
    values = left @ right.T
    return values.toarray() if sparse.issparse(values) else values


class Derived(Quantity):
    """A quantity made from another one, ``source``, and from numbers of each sample."""

    def __init__(self, source: Any) -> None:
        super().__init__(source.columns, source.key)
        self.source = source

    def sources(self) -> Sequence[Quantity]:
        return self.source.sources()


class RawProducts(Derived):
    """x·z, from centred inner products."""

    def compute(self, window: Window) -> np.ndarray:
        values = window(self.source)
        if self.source.center is None:
            return values
        left, right = window.outer_stats(self.source, "shift")
        out = np.empty_like(values)
        in_chunks(lambda v, o, a: np.add(v, a + right, out=o), values, out, left)
        return out


class Cosines(Derived):
    """x·z / (‖x‖‖z‖), 0 where either is zero, from raw products."""

    def compute(self, window: Window) -> np.ndarray:
        values = window(self.source)
        left, right = window.outer_stats(self.source.source, "norm")
        inverse_left, inverse_right = (np.divide(1, s, out=np.zeros_like(s), where=s > 0) for s in (left, right))
        values = values * inverse_left * inverse_right + 0.0  # the sum turns -0.0 into 0.0
        if window.square:
            size = window.stop - window.start
            np.fill_diagonal(values[:, :size], (left[:, 0] > 0).astype(values.dtype))
        return values


class SquaredDistances(Derived):
    """‖x − z‖², from centred inner products."""

    distance = True

    def compute(self, window: Window) -> np.ndarray:
        values = window(self.source)
        left, right = window.outer_stats(self.source, "square")
        out = np.empty_like(values)

        def fill(products: np.ndarray, out: np.ndarray, left: np.ndarray) -> None:
            np.multiply(products, -2, out=out)
            out += left
            out += right
            np.maximum(out, 0, out=out)

        in_chunks(fill, values, out, left)
        return out

    def mean(self, training: TrainingSet) -> float:  # in closed form
        rows = training.prepared.rows(self.source)
        center = np.asarray(rows.data.mean(axis=0, dtype=np.float64)).ravel()
        return float(2 * rows.stats["square"].mean() - 2 * center @ center)

    def scale(self, training: TrainingSet) -> float:
        return len(self.columns) * column_variance(self.source, training.prepared)


def column_variance(centered: InnerProducts, X: PreparedRows) -> float:
    """Variance of all entries of the selected columns, X.var(), without cancellation for dense data."""
    rows = X.rows(centered)
    square, size = rows.stats["square"].sum(), len(rows) * len(centered.columns)
    if centered.center is None:
        return float(square / size - (rows.data.sum(dtype=np.float64) / size) ** 2)
    centers = centered.center - centered.center.mean()
    # within columns, and between them
    return float(square / size + centers @ centers / len(centers))


class WeightedQuantity(Quantity):
    """A weighted sum of quantities on the same columns, such as the levels of a pyramid."""

    def __init__(self, parts: Sequence[Quantity], weights: Sequence[float]) -> None:
        super().__init__(parts[0].columns, tuple(part.key for part in parts), tuple(weights))
        self.parts, self.weights = parts, weights
        self.distance = all(part.distance for part in parts)  # type: ignore[misc]

    def sources(self) -> Sequence[Quantity]:
        return [source for part in self.parts for source in part.sources()]

    def mean(self, training: TrainingSet) -> float:
        return float(sum(w * training.statistic(part, "mean") for part, w in zip(self.parts, self.weights)))

    def compute(self, window: Window) -> np.ndarray:
        total = self.weights[0] * window(self.parts[0])
        for part, weight in zip(self.parts[1:], self.weights[1:]):
            total += weight * window(part)
        return total


class TrainingSet:
    """What kernels are fitted on: the data, and statistics of its distances, each computed once.

    ``keep`` bytes of expensive distances are held back in ``kept`` for the Gram matrix that usually follows.
    """

    def __init__(self, X: Any, feature_names: Any = None, *, dtype: Any = None, keep: int = 0) -> None:
        self.prepared = PreparedRows(X, dtype)
        self.X = self.prepared.X
        self.feature_names = list(feature_names) if feature_names is not None else names_of(self.X)
        if self.feature_names is not None and len(self.feature_names) != self.X.shape[1]:
            raise ValueError(f"{len(self.feature_names)} feature_names for {self.X.shape[1]} columns of X.")
        if self.X.shape[0] == 0:
            raise ValueError("X has no rows; kernels are fitted on training data.")
        self.keep = keep
        self.kept: dict[Any, list[np.ndarray]] = {}
        self._statistics: dict[Any, float] = {}

    def statistic(self, quantity: Quantity, rule: str) -> float:
        """The value of a bandwidth rule, "mean", "median" or "scale", for a distance."""
        if (quantity.key, rule) not in self._statistics:
            self._statistics[quantity.key, rule] = getattr(quantity, rule)(self)
        return self._statistics[quantity.key, rule]

    def sample(self, quantity: Quantity, size: int) -> PreparedRows:
        """At most ``size`` samples, the same ones every time."""
        n_samples = len(self.prepared)
        if n_samples <= size:
            return self.prepared
        rows = np.sort(np.random.default_rng(0).choice(n_samples, size, replace=False))
        return PreparedRows(quantity.subset(self.X, rows), self.prepared.dtype)

    def has_room(self) -> bool:
        """Whether the distances of all pairs, the upper half in blocks, may be kept as well."""
        used = sum(block.nbytes for blocks in self.kept.values() for block in blocks)
        return used + 0.6 * len(self.prepared) ** 2 * self.prepared.dtype.itemsize <= self.keep


def as_data(X: Any) -> Any:
    """Return X as a 2-D array, CSR matrix or data frame (3-D arrays of stacked matrices pass as they are)."""
    if sparse.issparse(X):
        return X.tocsr()
    if is_frame(X):
        return X
    X = np.asarray(X)
    if X.ndim not in (2, 3):
        raise ValueError(
            f"X has {X.ndim} dimension(s), shape {X.shape}; a kernel needs rows and columns. "
            "Use X.reshape(-1, 1) for one column, X.reshape(1, -1) for one sample."
        )
    return X


def is_frame(X: Any) -> bool:
    """Whether X is a pandas or polars data frame (neither library is imported)."""
    return hasattr(X, "columns") and (hasattr(X, "iloc") or hasattr(X, "get_column"))


def is_annotated(X: Any) -> bool:
    """Whether X is AnnData or MuData (neither library is imported)."""
    return hasattr(X, "obs_names") and hasattr(X, "var_names")


def names_of(X: Any) -> list[str] | None:
    """Column names of a data frame; None for anything else, or when they are not all strings."""
    if not is_frame(X):
        return None
    names = list(X.columns)
    return names if all(isinstance(name, str) for name in names) else None


def take_columns(X: Any, columns: np.ndarray, dtype: Any = None) -> Any:
    """The selected columns as a C-contiguous float array, or CSR where X is sparse; no copy where none is needed."""
    contiguous = bool((np.diff(columns) == 1).all())  # a slice needs no copy
    if hasattr(X, "iloc"):
        selected = X.iloc[:, columns].to_numpy()
    elif is_frame(X):
        selected = X[:, columns.tolist()].to_numpy()
    else:
        chosen = slice(int(columns[0]), int(columns[-1]) + 1) if contiguous else columns
        selected = X if contiguous and len(columns) == X.shape[1] else X[:, chosen]
    dtype = dtype or (np.float32 if selected.dtype == np.float32 else np.float64)
    if sparse.issparse(selected):
        return selected.astype(dtype, copy=False)
    try:
        return np.ascontiguousarray(selected, dtype=dtype)
    except (TypeError, ValueError) as error:
        raise TypeError(f"The selected columns {describe(columns.tolist())} are not all numbers: {error}") from None


def take_rows(X: Any, rows: Any) -> Any:
    """Some samples of any kind of data."""
    return X.iloc[rows] if hasattr(X, "iloc") else X[rows]


def describe(columns: Any) -> str:
    """A few words that say which columns are meant: "petals", "columns 0:10", "columns 0, 1, … 4"."""
    if isinstance(columns, str):
        return columns
    if isinstance(columns, slice):
        parts = [columns.start, columns.stop] + ([columns.step] if columns.step is not None else [])
        return "columns " + ":".join("" if part is None else str(part) for part in parts)
    if callable(columns):
        return getattr(columns, "__name__", type(columns).__name__)
    entries = np.atleast_1d(np.asarray(columns)).tolist()
    shown = [str(entry) for entry in entries]
    shown = shown if len(shown) <= 3 else [*shown[:2], "… " + shown[-1]]
    named = bool(entries) and isinstance(entries[0], str)
    return ("" if named else "columns " if len(entries) > 1 else "column ") + ", ".join(shown)


def checksum(X: Any) -> int:
    """A number that tells the content of an array or a sparse matrix from others."""
    if sparse.issparse(X):
        return zlib.crc32(X.data, zlib.crc32(X.indices))
    return zlib.crc32(np.ascontiguousarray(X).data)


def refuse_nonfinite(X: Any, name: str) -> None:
    """An error if X is the reason why a kernel is not finite."""
    values = X.data if sparse.issparse(X) else np.asarray(X)
    bad = ~np.isfinite(values.astype(np.float64))
    if bad.any():
        position = tuple(int(k) for k in np.argwhere(bad)[0])
        where = "" if sparse.issparse(X) else f" at {position}"
        raise ValueError(
            f"X holds {values[position]}{where} ({int(bad.sum())} such values in all), so kernel {name!r} is not "
            "finite. Impute or drop missing values first."
        )
