"""Pairwise quantities that kernels are functions of: inner products, squared Euclidean distances, cosines."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from scipy import sparse

from multikernel.kernels.columns import take_columns
from multikernel.kernels.windows import PreparedRows, Rows, Window, in_chunks, take_rows


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

    def terms(self) -> Sequence[tuple[Quantity, float]]:
        """The quantities and weights that this one is a weighted sum of; empty for all but such sums."""
        return ()

    def subset(self, X: Any, rows: np.ndarray) -> Any:
        """The data of some of the training samples."""
        return take_rows(X, rows)

    def closed_form_mean(self, X: PreparedRows) -> float | None:
        """The mean over all n² pairs where it needs no pass over them."""
        return None

    def scale(self, X: PreparedRows) -> float:
        raise ValueError(
            'bandwidth="scale" is defined for RBF and Laplacian kernels only. Use "mean", "median" or a number.'
        )


class InnerProducts(Quantity):
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

    def compute(self, window: Window) -> np.ndarray:
        left, right = window.rows(self)
        return products(left.data[window.start : window.stop], right.data[window.first :])


def products(left: Any, right: Any) -> np.ndarray:
    """left @ right.T as an array, for arrays or CSR matrices."""
    values = left @ right.T
    return values.toarray() if sparse.issparse(values) else values


class RawProducts(Quantity):
    """x·z."""

    def __init__(self, centered: InnerProducts) -> None:
        super().__init__(centered.columns, centered.key)
        self.centered = centered

    def sources(self) -> Sequence[Quantity]:
        return (self.centered,)

    def compute(self, window: Window) -> np.ndarray:
        values = window(self.centered)
        if self.centered.center is None:
            return values
        left, right = window.outer_stats(self.centered, "shift")
        out = np.empty_like(values)
        in_chunks(lambda v, o, a: np.add(v, a + right, out=o), values, out, left)
        return out


class Cosines(Quantity):
    """x·z / (‖x‖‖z‖), 0 where either is zero."""

    def __init__(self, raw: RawProducts) -> None:
        super().__init__(raw.columns, raw.key)
        self.raw = raw

    def sources(self) -> Sequence[Quantity]:
        return self.raw.sources()

    def compute(self, window: Window) -> np.ndarray:
        values = window(self.raw)
        left, right = window.outer_stats(self.raw.centered, "norm")
        inverse_left, inverse_right = (np.divide(1, s, out=np.zeros_like(s), where=s > 0) for s in (left, right))
        values = values * inverse_left * inverse_right + 0.0  # the sum turns -0.0 into 0.0
        if window.square:
            size = window.stop - window.start
            np.fill_diagonal(values[:, :size], (left[:, 0] > 0).astype(values.dtype))
        return values


class SquaredDistances(Quantity):
    """‖x − z‖²."""

    distance = True

    def __init__(self, centered: InnerProducts) -> None:
        super().__init__(centered.columns, centered.key)
        self.centered = centered

    def sources(self) -> Sequence[Quantity]:
        return (self.centered,)

    def compute(self, window: Window) -> np.ndarray:
        values = window(self.centered)
        left, right = window.outer_stats(self.centered, "square")
        out = np.empty_like(values)

        def fill(products: np.ndarray, out: np.ndarray, left: np.ndarray) -> None:
            np.multiply(products, -2, out=out)
            out += left
            out += right
            np.maximum(out, 0, out=out)

        in_chunks(fill, values, out, left)
        return out

    def closed_form_mean(self, X: PreparedRows) -> float:
        rows = X.rows(self.centered)
        center = np.asarray(rows.data.mean(axis=0, dtype=np.float64)).ravel()
        return float(2 * rows.square.mean() - 2 * center @ center)

    def scale(self, X: PreparedRows) -> float:
        return len(self.columns) * column_variance(self.centered, X)


def column_variance(centered: InnerProducts, X: PreparedRows) -> float:
    """Variance of all entries of the selected columns, X.var(), without cancellation for dense data."""
    rows = X.rows(centered)
    data, size = rows.data, len(rows) * len(centered.columns)
    if centered.center is None:
        return float(rows.square.sum() / size - (data.sum(dtype=np.float64) / size) ** 2)
    centers = centered.center - centered.center.mean()
    # within columns, and between them
    return float(rows.square.sum() / size + centers @ centers / len(centers))


class WeightedQuantity(Quantity):
    """A weighted sum of quantities on the same columns, such as the levels of a pyramid."""

    def __init__(self, parts: Sequence[Quantity], weights: Sequence[float]) -> None:
        super().__init__(parts[0].columns, tuple(part.key for part in parts), tuple(weights))
        self.parts, self.weights = parts, weights
        self.distance = all(part.distance for part in parts)  # type: ignore[misc]

    def sources(self) -> Sequence[Quantity]:
        return [source for part in self.parts for source in part.sources()]

    def terms(self) -> Sequence[tuple[Quantity, float]]:
        return list(zip(self.parts, self.weights))

    def compute(self, window: Window) -> np.ndarray:
        total = self.weights[0] * window(self.parts[0])
        for part, weight in zip(self.parts[1:], self.weights[1:]):
            total += weight * window(part)
        return total
