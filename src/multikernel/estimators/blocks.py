"""Answers about tables that are not in memory: lazily for Dask, block by block for others."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from multikernel.kernels.sources import as_source, is_dask

Method = TypeVar("Method", bound=Callable[..., Any])


def by_blocks(method: Method) -> Method:
    """Decorator of a method of X that answers row by row.

    A Dask array or data frame gives a Dask array, of which nothing is computed yet; a path of Parquet, a Zarr array
    or a memory map is read in blocks.
    """

    @functools.wraps(method)
    def answer(self: Any, X: Any) -> Any:
        if is_dask(X):
            return _lazily(functools.partial(method, self), X)
        found = None if isinstance(X, np.memmap) and not self._on_features else as_source(X)
        if found is None:
            return method(self, X)
        source, _ = found
        names = getattr(self, "feature_names_in_", None)
        if source.names is not None and names is not None and list(names) != source.names:
            raise ValueError(
                f"the columns of X, {source.names[:5]}…, are not those of the training data, {names[:5]}…"
            )
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "X does not have valid feature names")  # which were just compared
            return np.concatenate([method(self, source.read(*edge)) for edge in source.ranges()])

    return answer  # type: ignore[return-value]


def _lazily(function: Callable[[Any], Any], X: Any) -> Any:
    X = X.to_dask_array() if hasattr(X, "to_dask_array") else X
    X = X.rechunk({1: -1})
    one = function(np.zeros((1, X.shape[1]), dtype=X.dtype))
    if one.ndim == 1:
        return X.map_blocks(function, drop_axis=1, dtype=one.dtype, meta=one[:0])
    return X.map_blocks(function, chunks=(X.chunks[0], (one.shape[1],)), dtype=one.dtype, meta=one[:0])
