"""Kernels of histograms, whole or in a pyramid of cells, and the χ² and L1 distances and overlaps behind them."""

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from scipy import sparse

from multikernel.kernels.base import DistanceKernel, Kernel, parameters
from multikernel.kernels.quantities import (
    Derived,
    PreparedRows,
    Quantity,
    Rows,
    TrainingSet,
    WeightedQuantity,
    Window,
    take_columns,
)
from multikernel.runtime.clock import over_rows

# bins the dense loops visit in the time the overlap loops take for one bin that two rows share, by the size of
# a number in bytes (measured: 17 to 19 in float32, 9 to 16 in float64)
_DENSE_ADVANTAGE = {4: 18.0, 8: 12.0}


class Histograms(Quantity):
    """Sums over bins of a function of two histograms, divided by their sums (of absolute values) if ``normalize``.

    ``names`` are those of the bins, for messages. With ``pool=(grid, level)`` the columns hold grid × grid cells of
    equally many bins, cell after cell, which are summed to level × level cells.
    """

    costly = True
    metric: ClassVar[str]
    share: ClassVar[float | None] = None  # times both sums, minus the overlap; None where it is the overlap itself
    nonnegative: ClassVar[bool] = True

    def __init__(
        self, columns: np.ndarray, *, normalize: bool, names: Any = None, pool: tuple[int, int] | None = None
    ) -> None:
        if pool is not None and pool[0] == pool[1]:
            pool = None  # nothing to sum: the same values as the cells themselves
        super().__init__(columns, bool(normalize), pool)
        self.normalize, self.names, self.pool = normalize, names, pool

    def prepare(self, X: Any, dtype: Any) -> Rows:
        data = take_columns(X, self.columns, dtype)
        if self.nonnegative:
            self._refuse_negative(data)
        if self.pool is not None:
            data = pooled(data, *self.pool)
        sums = np.asarray(abs(data).sum(axis=1, dtype=np.float64)).ravel()
        if self.normalize:
            factors = 1.0 / np.maximum(sums, 1e-12)
            if sparse.issparse(data):
                data = sparse.csr_matrix(sparse.diags(factors) @ data, dtype=dtype)
            else:
                data = (data * factors[:, None]).astype(dtype, copy=False)
            sums = sums * factors
        return Rows(data, sums=sums)

    def _refuse_negative(self, data: Any) -> None:
        if data.shape[0] == 0 or data.min() >= 0:
            return
        entries = data.toarray() if sparse.issparse(data) else data
        column = int(np.flatnonzero((entries < 0).any(axis=0))[0])
        row = int(np.flatnonzero(entries[:, column] < 0)[0])
        name = self.names[column] if self.names is not None else int(self.columns[column])
        raise ValueError(
            f"Histograms cannot be negative: column {name!r} is {entries[row, column]:g} in row {row}. "
            "Shift or rescale the data, or use a kernel for signed data such as RBF or Laplacian."
        )

    def compute(self, window: Window) -> np.ndarray:
        left, right = window.rows(self)
        if not _prefer_overlap(left, right):
            return self._over_all_bins(left, right, window)
        overlap = self._over_shared_bins(left, right, window)
        if self.share is None:
            return overlap
        of_rows, of_columns = window.outer_stats(self, "sums")
        np.subtract(self.share * (of_rows + of_columns), overlap, out=overlap)
        return np.maximum(overlap, 0, out=overlap)

    def _over_all_bins(self, left: Rows, right: Rows, window: Window) -> np.ndarray:
        from multikernel.compiled import gram as compiled

        metric = getattr(compiled, self.metric)
        A, B = left.data[window.start : window.stop], right.data[window.first :]
        out = np.empty((len(A), len(B)), A.dtype)
        over_rows(lambda r0, r1: compiled.dense(metric, A, B, out, r0, r1), len(A), work=out.size * A.shape[1])
        return out

    def _over_shared_bins(self, left: Rows, right: Rows, window: Window) -> np.ndarray:
        from multikernel.compiled import gram as compiled

        A = left.remember("csr", lambda: _clean(sparse.csr_matrix(left.data)))
        B = right.remember("csc", lambda: _clean(sparse.csc_matrix(right.data)))
        starts = np.empty(len(B.indptr) - 1, np.int64)
        compiled.first_entries(B.indptr, B.indices, window.first, starts)
        out = np.empty((window.stop - window.start, len(right) - window.first), A.dtype)
        sparse_data = A.indptr, A.indices, A.data, window.start, starts, B.indptr, B.indices, B.data, window.first
        data = (getattr(compiled, self.metric), *sparse_data, out)
        over_rows(
            lambda r0, r1: compiled.overlap(*data, np.empty(out.shape[1]), r0, r1), len(out), work=10 * out.size
        )
        return out


class ChiSquaredDistances(Histograms):
    """½ Σ (a − b)² / (a + b); in terms of the overlap, ½ Σ (a + b) − Σ 2ab / (a + b)."""

    distance, metric, share = True, "CHI2", 0.5


class HarmonicSums(Derived):
    """Σ 2ab / (a + b), the additive χ² kernel, from the χ² distance."""

    def compute(self, window: Window) -> np.ndarray:
        left, right = window.outer_stats(self.source, "sums")
        values = 0.5 * (left + right) - window(self.source)
        return np.maximum(values, 0, out=values)


class L1Distances(Histograms):
    """Σ |a − b|; the values may have any sign."""

    distance, metric, share, nonnegative = True, "L1", 1.0, False

    def scale(self, training: TrainingSet) -> float:
        data = training.prepared.rows(self).data
        size = data.shape[0] * data.shape[1]
        if sparse.issparse(data):
            data = data.astype(np.float64)
            return len(self.columns) * float(np.sqrt(max(data.power(2).sum() / size - (data.sum() / size) ** 2, 0)))
        return len(self.columns) * float(data.std(dtype=np.float64))


class Intersections(Histograms):
    """Σ min(a, b)."""

    metric = "MINIMUM"


def pooled(data: Any, grid: int, level: int) -> Any:
    """Sum grid × grid cells of histograms, shape (n, grid² w), to level × level cells, (n, level² w)."""
    n_samples, n_columns = data.shape
    width, side = n_columns // grid**2, grid // level
    if sparse.issparse(data):
        cell_row, cell_column, bin_ = np.unravel_index(np.arange(n_columns), (grid, grid, width))
        target = np.ravel_multi_index((cell_row // side, cell_column // side, bin_), (level, level, width))
        ones = np.ones(n_columns, data.dtype)
        pool = sparse.csr_matrix((ones, (np.arange(n_columns), target)), (n_columns, level**2 * width))
        return sparse.csr_matrix(data @ pool)
    cells = data.reshape(n_samples, level, side, level, side, width)
    return np.ascontiguousarray(cells.sum(axis=(2, 4)).reshape(n_samples, -1))


def _prefer_overlap(left: Rows, right: Rows) -> bool:
    """Whether visiting only the bins that two rows share is cheaper than visiting all of them."""
    if sparse.issparse(left.data) or sparse.issparse(right.data):
        return True
    shared = float(_filled(left) @ _filled(right))
    return shared * _DENSE_ADVANTAGE[left.data.itemsize] < len(left) * len(right) * left.data.shape[1]


def _filled(rows: Rows) -> np.ndarray:
    """How many rows are non-zero in each bin."""
    return rows.remember("filled", lambda: np.count_nonzero(rows.data, axis=0).astype(np.float64))


def _clean(matrix: Any) -> Any:
    """No stored zeros (0/0 in χ²), no duplicates, sorted, and one index type for the compiled loops."""
    matrix = matrix.copy()
    matrix.sum_duplicates()
    matrix.eliminate_zeros()
    matrix.indptr, matrix.indices = matrix.indptr.astype(np.int64), matrix.indices.astype(np.int32)
    return matrix


class HistogramKernel(Kernel):
    """A kernel of a quantity of histograms, taken as they are unless a subclass has ``normalize``."""

    _measure: ClassVar[type[Histograms]]
    normalize: Any = False

    def _quantity(self) -> Quantity:
        return self._measure(self.columns_, normalize=self.normalize, names=self.column_names_)


@parameters
class Laplacian(HistogramKernel, DistanceKernel):
    """k(x, z) = exp(−Σ|x_k − z_k| / bandwidth).

    Parameters
    ----------
    bandwidth, columns, name
        See :class:`RBF`.

    Examples
    --------
    >>> import numpy as np
    >>> Laplacian(bandwidth=1)(np.array([[0.0], [2.0]])).round(3)
    array([[1.   , 0.135],
           [0.135, 1.   ]])
    """

    bandwidth: float | str = "mean"

    needs_scaling = True
    _short, _measure = "laplacian", L1Distances


@parameters
class ChiSquared(HistogramKernel, DistanceKernel):
    """k(x, z) = exp(−χ²(x, z) / bandwidth), χ² = ½ Σ (x_k − z_k)² / (x_k + z_k), on histograms [ZMLS07].

    Parameters
    ----------
    bandwidth : float or str, default="mean"
        See :class:`RBF`.
    additive : bool, default=False
        The additive kernel Σ 2 x_k z_k / (x_k + z_k) [VZ12] instead, which has no bandwidth.
    normalize : bool, default=True
        Divide each histogram by its sum first, so that only the shape counts; False takes them as given.
    columns, name
        See :class:`Kernel`.

    Examples
    --------
    >>> import numpy as np
    >>> counts = np.array([[2.0, 2.0], [4.0, 0.0]])
    >>> ChiSquared(additive=True)(counts).round(3)
    array([[1.   , 0.667],
           [0.667, 1.   ]])
    """

    bandwidth: float | str = "mean"
    additive: bool = False
    normalize: bool = True

    _short, _measure = "chi2", ChiSquaredDistances

    def _has_bandwidth(self) -> bool:
        return not self.additive

    def _quantity(self) -> Quantity:
        distances = super()._quantity()
        return HarmonicSums(distances) if self.additive else distances

    def _diagonal(self, X: PreparedRows) -> np.ndarray:
        return X.rows(super()._quantity()).stats["sums"] if self.additive else super()._diagonal(X)

    def _description(self) -> str:
        return "additive chi2" if self.additive else super()._description()


@parameters
class HistogramIntersection(HistogramKernel):
    """k(x, z) = Σ min(x_k, z_k), on histograms [MBM08].

    Parameters
    ----------
    normalize : bool, default=True
        Divide each histogram by its sum first.
    columns, name
        See :class:`Kernel`.

    Examples
    --------
    >>> import numpy as np
    >>> HistogramIntersection(normalize=False)(np.array([[2.0, 2.0], [4.0, 0.0]]))
    array([[4., 2.],
           [2., 4.]])
    """

    normalize: bool = True

    _short, _measure = "intersection", Intersections

    def _diagonal(self, X: PreparedRows) -> np.ndarray:
        return X.rows(self._quantity()).stats["sums"]


@parameters
class SpatialPyramid(DistanceKernel):
    """A kernel of the weighted mean of the distances at several levels of a grid of histograms [LSP06].

    The columns hold grid × grid cells of w bins each, cell after cell, row of cells after row of cells. Level k
    pools them to k × k cells and compares the whole level, as one histogram, with the base kernel's distance:

        k(x, z) = exp(−Σ_l weights_l d_l(x, z) / bandwidth),

    or Σ_l weights_l k_l(x, z) where the base kernel is not made from a distance.

    Parameters
    ----------
    levels : sequence of int, default=(1, 2, 4)
        Each must divide ``grid``.
    weights : sequence of float, optional
        One per level, divided by their sum; equal by default.
    base : ChiSquared, Laplacian or HistogramIntersection, optional
        Distance, normalisation and bandwidth (of the mean distance over levels); ``ChiSquared()`` by default.
    grid : int, optional
        Cells along each side of the data; the largest level by default.
    columns, name
        See :class:`Kernel`.

    Examples
    --------
    >>> import numpy as np
    >>> cells = np.array([[1.0, 0, 0, 0], [0, 0, 0, 1.0]])  # 2 x 2 cells of one bin
    >>> SpatialPyramid(levels=(1, 2), base=HistogramIntersection())(cells)
    array([[1. , 0.5],
           [0.5, 1. ]])
    """

    levels: Sequence[int] = (1, 2, 4)
    weights: Sequence[float] | None = None
    base: Kernel | None = None
    grid: int | None = None

    _short = "pyramid"

    def _base(self) -> Any:
        return ChiSquared() if self.base is None else self.base

    @property
    def bandwidth(self) -> Any:
        """The base kernel's bandwidth, if it has one."""
        return self._base().bandwidth

    def _has_bandwidth(self) -> bool:
        return hasattr(self._base(), "bandwidth")

    def _check_loaded(self) -> None:
        self._check_base()
        self._check_levels()
        super()._check_loaded()

    def _fit_parameters(self, training: TrainingSet) -> None:
        self._check_base()
        self._check_levels()
        super()._fit_parameters(training)

    def _check_base(self) -> None:
        base = self._base()
        if not isinstance(base, HistogramKernel) or getattr(base, "additive", False):
            raise TypeError(
                f"base={base!r} is not a histogram kernel. Use ChiSquared(), Laplacian() or HistogramIntersection()."
            )
        if base.columns is not None:
            raise ValueError("give columns to the pyramid, not to its base kernel.")

    def _check_levels(self) -> None:
        levels, grid, d = list(self.levels), self._grid(), len(self.columns_)
        if not levels or any(level < 1 or grid % level for level in levels):
            raise ValueError(f"each of levels={levels} must divide grid={grid}.")
        if d % grid**2:
            raise ValueError(
                f"{d} columns cannot be cut into {grid} x {grid} cells of equal width; give grid= the number of "
                "cells along each side of the data."
            )
        weights = self.weights
        if weights is not None and (len(weights) != len(levels) or min(weights) < 0 or sum(weights) <= 0):
            raise ValueError(
                f"weights={weights!r} must be {len(levels)} numbers, one per level, none negative and not all zero."
            )

    def _grid(self) -> int:
        return int(max(self.levels) if self.grid is None else self.grid)

    def _level_weights(self) -> list[float]:
        weights = np.ones(len(self.levels)) if self.weights is None else np.asarray(self.weights, float)
        return (weights / weights.sum()).tolist()

    def _level_quantities(self) -> list[Histograms]:
        base, grid = self._base(), self._grid()
        return [
            base._measure(self.columns_, normalize=base.normalize, names=self.column_names_, pool=(grid, int(level)))
            for level in self.levels
        ]

    def _quantity(self) -> Quantity:
        levels = self._level_quantities()
        return levels[0] if len(levels) == 1 else WeightedQuantity(levels, self._level_weights())

    def _diagonal(self, X: PreparedRows) -> np.ndarray:
        if self._has_bandwidth():
            return super()._diagonal(X)
        sums = [X.rows(level).stats["sums"] for level in self._level_quantities()]
        return np.asarray(self._level_weights()) @ np.asarray(sums)

    def _description(self) -> str:
        return f"pyramid({', '.join(map(str, self.levels))}; {self._base()._description()})"
