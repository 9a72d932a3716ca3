"""Spatial pyramids: histograms on a grid of cells, compared at several resolutions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from multikernel.io.state import POSITIVE, Maybe, attributes
from multikernel.kernels.base import DistanceKernel, Kernel
from multikernel.kernels.functions import ChiSquared, HistogramIntersection, Laplacian
from multikernel.kernels.histograms import ChiSquaredDistances, Histograms, Intersections, L1Distances
from multikernel.kernels.quantities import Quantity, WeightedQuantity
from multikernel.kernels.windows import PreparedRows, TrainingSet


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
        See :class:`Linear`.

    Examples
    --------
    >>> import numpy as np
    >>> cells = np.array([[1.0, 0, 0, 0], [0, 0, 0, 1.0]])  # 2 x 2 cells of one bin
    >>> SpatialPyramid(levels=(1, 2), base=HistogramIntersection())(cells)
    array([[1. , 0.5],
           [0.5, 1. ]])
    """

    _short = "pyramid"
    _state = attributes(bandwidth_=Maybe(POSITIVE))

    def _check_loaded(self) -> None:
        self._check_base()
        self._check_levels()
        if self.bandwidth is not None and not hasattr(self, "bandwidth_"):
            raise ValueError("bandwidth_ is missing")

    def __init__(
        self,
        *,
        levels: Sequence[int] = (1, 2, 4),
        weights: Sequence[float] | None = None,
        base: Kernel | None = None,
        grid: int | None = None,
        columns: Any = None,
        name: str | None = None,
    ) -> None:
        self.levels, self.weights, self.base, self.grid = levels, weights, base, grid
        self.columns, self.name = columns, name

    @property
    def bandwidth(self) -> Any:
        """The base kernel's bandwidth rule; None where it has none."""
        base = self._base()
        has_bandwidth = hasattr(base, "bandwidth") and not getattr(base, "additive", False)
        return base.bandwidth if has_bandwidth else None

    def _base(self) -> Any:
        return ChiSquared() if self.base is None else self.base

    def _fit_parameters(self, training: TrainingSet) -> None:
        self._check_base()
        self._check_levels()
        if self.bandwidth is not None:
            super()._fit_parameters(training)

    def _check_base(self) -> None:
        base = self._base()
        if not isinstance(base, ChiSquared | Laplacian | HistogramIntersection) or getattr(base, "additive", False):
            raise TypeError(
                f"kernel {self.label!r}: base={base!r} is not a histogram kernel. Use ChiSquared(), Laplacian() "
                "or HistogramIntersection()."
            )
        if base.columns is not None:
            raise ValueError(f"kernel {self.label!r}: give columns to the pyramid, not to its base kernel.")

    def _check_levels(self) -> None:
        levels, grid, d = list(self.levels), self._grid(), len(self.columns_)
        if not levels or any(level < 1 or grid % level for level in levels):
            raise ValueError(f"kernel {self.label!r}: each of levels={levels} must divide grid={grid}.")
        if d % grid**2:
            raise ValueError(
                f"kernel {self.label!r}: {d} columns cannot be cut into {grid} x {grid} cells of equal width; "
                "give grid= the number of cells along each side of the data."
            )
        weights = self.weights
        if weights is not None and (len(weights) != len(levels) or min(weights) < 0 or sum(weights) <= 0):
            raise ValueError(
                f"kernel {self.label!r}: weights={weights!r} must be {len(levels)} numbers, one per level, "
                "none negative and not all zero."
            )

    def _grid(self) -> int:
        return int(max(self.levels) if self.grid is None else self.grid)

    def _level_weights(self) -> list[float]:
        weights = np.ones(len(self.levels)) if self.weights is None else np.asarray(self.weights, float)
        return (weights / weights.sum()).tolist()

    def _level_quantities(self) -> list[Histograms]:
        base = self._base()
        of_kernel: dict[type, Any] = {
            ChiSquared: ChiSquaredDistances,
            Laplacian: L1Distances,
            HistogramIntersection: Intersections,
        }
        quantity = of_kernel[type(base)]
        normalize = getattr(base, "normalize", False)
        return [
            quantity(self.columns_, normalize=normalize, names=self.column_names_, pool=(self._grid(), int(level)))
            for level in self.levels
        ]

    def _quantity(self) -> Quantity:
        levels = self._level_quantities()
        return levels[0] if len(levels) == 1 else WeightedQuantity(levels, self._level_weights())

    def _apply(self, values: np.ndarray, out: np.ndarray) -> None:
        if self.bandwidth is None:
            out[...] = values
        else:
            super()._apply(values, out)

    def _diagonal(self, X: PreparedRows) -> np.ndarray:
        if self.bandwidth is not None:
            return super()._diagonal(X)
        sums = [X.rows(level).sums for level in self._level_quantities()]
        return np.asarray(self._level_weights()) @ np.asarray(sums)

    def _description(self) -> str:
        return f"pyramid({', '.join(map(str, self.levels))}; {self._base()._description()})"
