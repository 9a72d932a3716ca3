"""Answers about tables that are not in memory: lazily for Dask, block by block for others."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np

from multikernel.kernels.sources import ParquetSource, as_source, is_dask

Method = TypeVar("Method", bound=Callable[..., Any])


def by_blocks(method: Method) -> Method:
    """Decorator of a method of X that answers row by row.

    A Dask array or data frame gives a Dask array, of which nothing is computed yet; a path of Parquet, a Zarr array
    or a memory map is read in blocks. Columns of data frames and files are found by name, if those of the training
    data had some; there may be others.
    """

    @functools.wraps(method)
    def answer(self: Any, X: Any) -> Any:
        names = getattr(self, "feature_names_in_", None)
        if is_dask(X):
            return _lazily(method, self, X, names)
        found = None if isinstance(X, np.memmap) and not self._on_features else as_source(X)
        if found is None:
            return method(self, X)
        source, _ = found
        if isinstance(source, ParquetSource) and names is not None:
            source = source.with_columns(names)
        if not (edges := source.ranges()):
            raise ValueError("X has no rows.")
        return np.concatenate([_of_block(method, self, source.read(*edge), edge) for edge in edges])

    return answer  # type: ignore[return-value]


def _of_block(method: Callable[..., Any], model: Any, X: Any, rows: Sequence[float] | None = None) -> Any:
    """The answer for some rows of a table, numbers ``rows`` of it, whose columns are known to be right."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "X does not have valid feature names")
        try:
            return method(model, X)
        except ValueError as error:
            if rows is None:
                raise
            raise ValueError(f"in rows {rows[0]} to {rows[1]}: {error}") from error


def _lazily(method: Callable[..., Any], model: Any, X: Any, names: Sequence[str] | None) -> Any:
    if hasattr(X, "to_dask_array"):
        if names is not None:
            if missing := [name for name in names if name not in X.columns]:
                raise ValueError(f"X has no column {missing[0]!r}; its columns are {list(X.columns)[:10]}.")
            X = X[list(names)]
        X = X.to_dask_array()
    X = X.rechunk({1: -1})
    one = _of_block(method, model, np.zeros((1, X.shape[1]), dtype=X.dtype))
    none = one[:0]

    def answer(block: Any, block_info: Any = None) -> Any:
        return _of_block(method, model, block, block_info[0]["array-location"][0]) if block.shape[0] else none

    if one.ndim == 1:
        return X.map_blocks(answer, drop_axis=1, dtype=one.dtype, meta=none)
    return X.map_blocks(answer, chunks=(X.chunks[0], (one.shape[1],)), dtype=one.dtype, meta=none)
