"""Quantities of histograms, whole or pooled to a pyramid level: χ² and L1 distances, intersections."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from scipy import sparse

from multikernel.kernels.columns import take_columns
from multikernel.kernels.quantities import Quantity
from multikernel.kernels.windows import PreparedRows, Rows, Window
from multikernel.runtime.threads import over_rows

# bins the dense loops visit in the time the overlap loops take for one bin that two rows share, by the size of
# a number in bytes (measured: 17 to 19 in float32, 9 to 16 in float64)
_DENSE_ADVANTAGE = {4: 18.0, 8: 12.0}


class Histograms(Quantity):
    """Sums over bins of a function of two histograms.

    Parameters
    ----------
    columns, names : positions (d,) and, if known, names of the bins
    normalize : bool
        Divide each histogram by its sum (of absolute values) first.
    pool : (grid, level), optional
        The columns hold grid × grid cells of equally many bins, cell after cell; sum them to level × level cells.
    """

    costly = True
    metric: ClassVar[str]
    nonnegative: ClassVar[bool] = True

    def __init__(
        self,
        columns: np.ndarray,
        *,
        normalize: bool,
        names: Sequence[str] | None = None,
        pool: tuple[int, int] | None = None,
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
        if _prefer_overlap(left, right):
            overlap = _overlap(self.metric, left, right, window)
            return self._from_overlap(overlap, *window.outer_stats(self, "sums"))
        return _dense(self.metric, left, right, window)

    def _from_overlap(self, overlap: np.ndarray, left: np.ndarray, right: np.ndarray) -> np.ndarray:
        """The quantity from what the overlap loop returns and the sums of the histograms."""
        raise NotImplementedError


class ChiSquaredDistances(Histograms):
    """½ Σ (a − b)² / (a + b); in terms of the overlap, ½ Σ (a + b) − Σ 2ab / (a + b)."""

    distance = True
    metric = "chi2"

    def _from_overlap(self, overlap: np.ndarray, left: np.ndarray, right: np.ndarray) -> np.ndarray:
        np.subtract(0.5 * (left + right), overlap, out=overlap)
        return np.maximum(overlap, 0, out=overlap)


class HarmonicSums(Quantity):
    """Σ 2ab / (a + b), the additive χ² kernel, from the χ² distance."""

    def __init__(self, distances: ChiSquaredDistances) -> None:
        super().__init__(distances.columns, distances.key)
        self.distances = distances

    def sources(self) -> Sequence[Quantity]:
        return (self.distances,)

    def compute(self, window: Window) -> np.ndarray:
        left, right = window.outer_stats(self.distances, "sums")
        values = 0.5 * (left + right) - window(self.distances)
        return np.maximum(values, 0, out=values)


class L1Distances(Histograms):
    """Σ |a − b|; the values may have any sign."""

    distance = True
    metric = "l1"
    nonnegative = False

    def _from_overlap(self, overlap: np.ndarray, left: np.ndarray, right: np.ndarray) -> np.ndarray:
        np.subtract(left + right, overlap, out=overlap)
        return np.maximum(overlap, 0, out=overlap)

    def scale(self, X: PreparedRows) -> float:
        data, size = X.rows(self).data, X.rows(self).data.shape[0] * len(self.columns)
        if sparse.issparse(data):
            data = data.astype(np.float64)
            return len(self.columns) * float(np.sqrt(max(data.power(2).sum() / size - (data.sum() / size) ** 2, 0)))
        return len(self.columns) * float(data.std(dtype=np.float64))


class Intersections(Histograms):
    """Σ min(a, b)."""

    metric = "minimum"

    def _from_overlap(self, overlap: np.ndarray, left: np.ndarray, right: np.ndarray) -> np.ndarray:
        return overlap


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
    if "filled" not in rows.memo:
        rows.memo["filled"] = np.count_nonzero(rows.data, axis=0).astype(np.float64)
    return rows.memo["filled"]


def _dense(metric: str, left: Rows, right: Rows, window: Window) -> np.ndarray:
    from multikernel.compiled import pairwise

    loop = {"chi2": pairwise.chi2_dense, "l1": pairwise.l1_dense, "minimum": pairwise.minimum_dense}[metric]
    A, B = left.data[window.start : window.stop], right.data[window.first :]
    out = np.empty((len(A), len(B)), A.dtype)
    over_rows(lambda r0, r1: loop(A, B, out, r0, r1), len(A), work=out.size * A.shape[1])
    return out


def _overlap(metric: str, left: Rows, right: Rows, window: Window) -> np.ndarray:
    from multikernel.compiled import pairwise

    loop = {"chi2": pairwise.chi2_overlap, "l1": pairwise.l1_overlap, "minimum": pairwise.minimum_overlap}[metric]
    A, B = _by_rows(left), _by_columns(right)
    starts = np.empty(len(B.indptr) - 1, np.int64)
    pairwise.first_entries(B.indptr, B.indices, window.first, starts)
    out = np.empty((window.stop - window.start, len(right) - window.first), A.dtype)
    arguments = (A.indptr, A.indices, A.data, window.start, starts, B.indptr, B.indices, B.data, window.first, out)
    over_rows(lambda r0, r1: loop(*arguments, np.empty(out.shape[1]), r0, r1), len(out), work=10 * out.size)
    return out


def _by_rows(rows: Rows) -> Any:
    if "csr" not in rows.memo:
        rows.memo["csr"] = _clean(sparse.csr_matrix(rows.data))
    return rows.memo["csr"]


def _by_columns(rows: Rows) -> Any:
    if "csc" not in rows.memo:
        rows.memo["csc"] = _clean(sparse.csc_matrix(_by_rows(rows)))
    return rows.memo["csc"]


def _clean(matrix: Any) -> Any:
    """No stored zeros (0/0 in χ²), no duplicates, sorted, and one index type for the compiled loops."""
    matrix = matrix.copy() if matrix.nnz and not matrix.has_canonical_format else matrix
    matrix.sum_duplicates()
    if matrix.nnz and not matrix.data.all():
        matrix = matrix.copy()
        matrix.eliminate_zeros()
    matrix.indptr, matrix.indices = matrix.indptr.astype(np.int64), matrix.indices.astype(np.int32)
    return matrix
