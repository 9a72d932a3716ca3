"""Evaluate pairwise quantities block by block, each once, however many kernels need it.

Terms: a *quantity* is what kernels on the same columns share (inner products, distances); it turns data into
*rows* once (selected, centred, normalised) and then gives any *window* of its (n, m) matrix from them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from multikernel.kernels.columns import as_table, is_frame, names_of
from multikernel.runtime.clock import check
from multikernel.runtime.threads import over_rows

if TYPE_CHECKING:
    from multikernel.kernels.quantities import Quantity

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
        self.memo: dict[str, Any] = {}  # other layouts of the same data, made on demand

    def __len__(self) -> int:
        return self.data.shape[0]

    def __getattr__(self, name: str) -> np.ndarray:
        try:
            return self.__dict__["stats"][name]
        except KeyError:
            raise AttributeError(name) from None

    def take(self, rows: Any) -> Rows:
        return Rows(self.data[rows], **{name: values[rows] for name, values in self.stats.items()})


class PreparedRows:
    """Data made ready for the kernels of a family, so that many windows of it cost little.

    Made by :meth:`KernelFamily.prepare`; accepted by :meth:`KernelFamily.evaluate` in place of the data.
    """

    def __init__(self, X: Any, dtype: Any = None) -> None:
        self.X = as_table(X)
        self.dtype = working_type(dtype, self.X)
        self._rows: dict[Any, Rows] = {}

    def __len__(self) -> int:
        return self.X.shape[0]

    def rows(self, quantity: Quantity) -> Rows:
        if quantity.key not in self._rows:
            self._rows[quantity.key] = quantity.prepare(self.X, self.dtype)
        return self._rows[quantity.key]

    def take(self, rows: Any) -> PreparedRows:
        """The same for some of the samples."""
        part = PreparedRows(take_rows(self.X, rows), self.dtype)
        part._rows = {key: prepared.take(rows) for key, prepared in self._rows.items()}
        return part


def take_rows(X: Any, rows: Any) -> Any:
    if hasattr(X, "iloc"):
        return X.iloc[rows]
    return X[rows]


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
        left, right = self.rows(quantity)
        dtype = self.X.dtype
        return (
            getattr(left, name)[self.start : self.stop, None].astype(dtype),
            getattr(right, name)[None, self.first :].astype(dtype),
        )


def square_windows(X: PreparedRows) -> Iterator[Window]:
    """Windows that cover the upper triangle of a square matrix."""
    for start, stop in row_blocks(len(X), len(X)):
        yield Window(X, X, start, stop, start, square=True)


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
        """The value of a bandwidth rule for a distance."""
        if (quantity.key, rule) not in self._statistics:
            compute = {"mean": self._mean, "median": self._median, "scale": self._scale}[rule]
            self._statistics[quantity.key, rule] = compute(quantity)
        return self._statistics[quantity.key, rule]

    def _scale(self, quantity: Quantity) -> float:
        return quantity.scale(self.prepared)

    def _mean(self, quantity: Quantity) -> float:
        closed_form = quantity.closed_form_mean(self.prepared)
        if closed_form is not None:
            return closed_form
        if quantity.terms():  # the mean of a weighted sum is the weighted sum of the means
            return float(sum(weight * self.statistic(part, "mean") for part, weight in quantity.terms()))
        sample = self._subsample(quantity, EXACT_MEAN_SAMPLES)
        keeping = sample is self.prepared and self._has_room_for(quantity)
        total = 0.0
        for window in square_windows(sample):
            values = window(quantity)
            size = window.stop - window.start
            total += values[:, :size].sum(dtype=np.float64) + 2 * values[:, size:].sum(dtype=np.float64)
            if keeping:
                self.kept.setdefault(quantity.key, []).append(values)
        return total / len(sample) ** 2

    def _median(self, quantity: Quantity) -> float:
        sample = self._subsample(quantity, MEDIAN_SAMPLES)
        if len(sample) < 2:
            return 0.0
        distances = [
            window(quantity)[np.triu_indices(window.stop - window.start, 1, len(sample) - window.start)]
            for window in square_windows(sample)
        ]
        return float(np.median(np.concatenate(distances)))

    def _subsample(self, quantity: Quantity, size: int) -> PreparedRows:
        n_samples = len(self.prepared)
        if n_samples <= size:
            return self.prepared
        rows = np.sort(np.random.default_rng(0).choice(n_samples, size, replace=False))
        return PreparedRows(quantity.subset(self.X, rows), self.prepared.dtype)

    def _has_room_for(self, quantity: Quantity) -> bool:
        n_samples, itemsize = len(self.prepared), self.prepared.dtype.itemsize
        used = sum(block.nbytes for blocks in self.kept.values() for block in blocks)
        return quantity.costly and used + 0.6 * n_samples**2 * itemsize <= self.keep
