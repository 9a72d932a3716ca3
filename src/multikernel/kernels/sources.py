"""Tables that are read a block of rows at a time: memory maps, Parquet, Zarr and Dask, beside arrays in memory."""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Sequence
from copy import copy
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from multikernel.io.files import DataError
from multikernel.runtime.executors import active_client

# Rows of a block where nothing else decides.
BLOCK_ROWS = 16384


class Source:
    """Rows of a table, read when they are needed; pickles hold no rows unless the table is in memory.

    Attributes
    ----------
    shape : tuple of int
        Rows and columns.
    names : list of str or None
        Names of the columns.
    """

    shape: tuple[int, int]
    names: list[str] | None = None

    def read(self, start: int, stop: int) -> Any:
        """Rows ``start:stop`` as an array of numbers or a CSR matrix."""
        raise NotImplementedError

    def ranges(self, size: int = BLOCK_ROWS) -> list[tuple[int, int]]:
        """Where to cut the rows into blocks: where the table is cut already, or every ``size`` rows."""
        return [(start, min(start + size, self.shape[0])) for start in range(0, self.shape[0], size)]

    def part(self, start: int, stop: int) -> Source:
        """A source of the same rows, which read ``start:stop`` alone: what another process needs of it."""
        return self

    def take(self, rows: np.ndarray) -> Any:
        """Some rows, in ascending order, as one array."""
        found, edges = [], self.ranges()
        for start, stop in edges:
            mine = rows[(rows >= start) & (rows < stop)]
            if len(mine):
                found.append(self.read(start, stop)[mine - start])
        return sparse.vstack(found, format="csr") if sparse.issparse(found[0]) else np.concatenate(found)


class ArraySource(Source):
    """An array or a CSR matrix in memory, or a memory map, whose pickle is the name of its file."""

    def __init__(self, X: Any, names: list[str] | None = None, first: int = 0):
        self.X, self.names, self.first = X, names, first
        self.shape = X.shape

    def read(self, start: int, stop: int) -> Any:
        return as_numbers(self.X[start - self.first : stop - self.first], start)

    def part(self, start: int, stop: int) -> Source:
        if isinstance(self.X, np.memmap):
            return self
        part = ArraySource(self.X[start:stop], self.names, start)
        part.shape = self.shape
        return part

    def __getstate__(self) -> dict[str, Any]:
        state = dict(vars(self))
        if isinstance(self.X, np.memmap) and self.X.filename is not None and self.X.flags.forc:
            order = "C" if self.X.flags.c_contiguous else "F"
            state["X"] = (os.fspath(self.X.filename), self.X.dtype, self.X.offset, self.X.shape, order)
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        if isinstance(self.X, tuple):
            name, dtype, offset, shape, order = self.X
            self.X = np.memmap(name, dtype, "r", offset, shape, order)


class PartSource(Source):
    """Some rows of another source, in ascending order, or all; columns as ``transform`` makes them, and unnamed.

    Parameters
    ----------
    source : Source
    rows : ndarray of int, optional
    transform : callable, optional
        Of a block of rows.
    """

    def __init__(self, source: Source, rows: np.ndarray | None = None, transform: Any = None):
        self.source, self.rows, self.transform = source, rows, transform
        self.shape = source.shape[0] if rows is None else len(rows), source.shape[1]

    def read(self, start: int, stop: int) -> Any:
        if self.rows is None:
            block = self.source.read(start, stop)
        else:
            rows = self.rows[start:stop]
            block = self.source.read(rows[0], rows[-1] + 1)[rows - rows[0]]
        return block if self.transform is None else self.transform(block)

    def ranges(self, size: int = BLOCK_ROWS) -> list[tuple[int, int]]:
        return self.source.ranges(size) if self.rows is None else super().ranges(size)


class ZarrSource(Source):
    """A Zarr array, cut where its chunks are."""

    def __init__(self, X: Any):
        if len(shape := getattr(X, "shape", ())) != 2:
            raise ValueError(f"X is a Zarr {type(X).__name__} of shape {shape}: pass an array of rows and columns.")
        self.X, self.shape = X, X.shape

    def read(self, start: int, stop: int) -> Any:
        return as_numbers(np.asarray(self.X[start:stop]), start)

    def ranges(self, size: int = BLOCK_ROWS) -> list[tuple[int, int]]:
        chunk = self.X.chunks[0]
        return super().ranges(max(chunk, size // chunk * chunk))


class ParquetSource(Source):
    """A Parquet file, or all of a folder in the order of their names; cut where row groups are.

    Parameters
    ----------
    path : path
    leave : sequence of str
        Columns that are no features.
    """

    def __init__(self, path: Any, leave: Sequence[str] = ()):
        import pyarrow.parquet as parquet

        self.files = [Path(path)] if Path(path).is_file() else sorted(Path(path).glob("**/*.parquet"))
        if not self.files:
            raise DataError(f"{path} is no Parquet file, nor a folder with one.")
        self.groups: list[tuple[Path, int]] = []
        sizes: list[int] = []
        for file in self.files:
            try:
                opened = parquet.ParquetFile(file)
            except (OSError, ValueError) as error:  # pyarrow's own errors are of these kinds
                raise DataError(f"{file} cannot be read as Parquet: {error}") from None
            if file == self.files[0]:
                self.all_names = list(opened.schema_arrow.names)
            elif (names := list(opened.schema_arrow.names)) != self.all_names:
                odd = sorted(set(names) ^ set(self.all_names)) or ["their order"]
                raise DataError(f"{file} has other columns than {self.files[0]}: {odd[0]!r} differs.")
            for group in range(opened.num_row_groups):
                self.groups.append((file, group))
                sizes.append(opened.metadata.row_group(group).num_rows)
        self._require(leave)
        self.names: list[str] = [name for name in self.all_names if name not in leave]
        self.starts = [0, *accumulate(sizes)]
        self.shape = self.starts[-1], len(self.names)

    def _require(self, names: Sequence[str]) -> None:
        """Raise an error unless the files have these columns."""
        if missing := [name for name in names if name not in self.all_names]:
            folder = self.files[0] if len(self.files) == 1 else self.files[0].parent
            raise DataError(f"{folder} has no column {missing[0]!r}; its columns are {self.all_names[:10]}.")

    def read(self, start: int, stop: int) -> Any:
        return as_numbers(self._table(start, stop, self.names), start, self.names)

    def column(self, name: str) -> np.ndarray:
        """One column of all rows."""
        return self._table(0, self.shape[0], [name])[:, 0]

    def with_columns(self, names: Sequence[str]) -> ParquetSource:
        """The same rows with these columns, in this order."""
        self._require(names)
        chosen = copy(self)
        chosen.names, chosen.shape = list(names), (self.shape[0], len(names))
        return chosen

    def write_rows(self, rows: np.ndarray, path: Any) -> None:
        """Write some rows, in ascending order, with all columns, to a file."""
        import pyarrow
        import pyarrow.parquet as parquet

        parts = []
        for (file, group), (low, high) in zip(self.groups, pairwise(self.starts)):
            mine = rows[(rows >= low) & (rows < high)] - low
            if len(mine):
                parts.append(parquet.ParquetFile(file).read_row_group(group).take(pyarrow.array(mine)))
        parquet.write_table(pyarrow.concat_tables(parts), path)

    def _table(self, start: int, stop: int, names: list[str]) -> np.ndarray:
        import pyarrow.parquet as parquet

        parts = []
        first = bisect_right(self.starts, start) - 1
        for (file, group), low, high in zip(self.groups[first:], self.starts[first:], self.starts[first + 1 :]):
            if low >= stop:
                break
            table = parquet.ParquetFile(file).read_row_group(group, columns=names)
            columns = [table.column(name).to_numpy() for name in names]
            rows = slice(max(start - low, 0), min(stop, high) - low)
            parts.append(np.column_stack([column[rows] for column in columns]))
        return np.concatenate(parts) if parts else np.empty((0, len(names)))

    def ranges(self, size: int = BLOCK_ROWS) -> list[tuple[int, int]]:
        return _merged(list(pairwise(self.starts)), size)


class DaskSource(Source):
    """A Dask array with known chunks; a data frame becomes one, which counts its rows."""

    def __init__(self, X: Any):
        if hasattr(X, "to_dask_array"):
            self.names = [str(name) for name in X.columns]
            X = X.to_dask_array(lengths=True)
        if X.ndim != 2:
            raise ValueError(f"the Dask array has shape {X.shape}: a table has rows and columns.")
        if np.isnan(X.shape).any():
            raise ValueError(
                f"the Dask array has chunks of unknown size, {X.chunks[0][:3]}: call X.compute_chunk_sizes() first."
            )
        self.X = X.rechunk({1: -1})
        self.shape = tuple(int(size) for size in X.shape)  # type: ignore[assignment]

    def read(self, start: int, stop: int) -> Any:
        return as_numbers(_computed(self.X[start:stop]), start)

    def take(self, rows: np.ndarray) -> Any:
        return as_numbers(_computed(self.X[rows]), 0)  # chosen where they are: no other row travels

    def ranges(self, size: int = BLOCK_ROWS) -> list[tuple[int, int]]:
        return list(pairwise([0, *accumulate(int(size) for size in self.X.chunks[0])]))


def _computed(X: Any) -> Any:
    """A Dask array as it is: by the cluster if there is one, which may hold it already, else by this thread."""
    return X.compute(**({} if active_client() is not None else {"scheduler": "synchronous"}))


def _merged(ranges: list[tuple[int, int]], size: int) -> list[tuple[int, int]]:
    """Neighbouring ranges joined as long as they have no more than ``size`` rows."""
    merged: list[tuple[int, int]] = []
    for start, stop in ranges:
        if merged and stop - merged[-1][0] <= size:
            merged[-1] = merged[-1][0], stop
        elif stop > start:
            merged.append((start, stop))
    return merged


def as_numbers(block: Any, start: int, names: Sequence[str] | None = None) -> Any:
    """A block in single or double precision, CSR if sparse; an error that names its rows if these are no numbers."""
    if sparse.issparse(block):
        return block.tocsr()
    block = np.asarray(block)
    if block.dtype in (np.float32, np.float64):
        return block
    for k, column in enumerate(block.T):
        try:
            column.astype(np.float64)
        except (TypeError, ValueError) as error:
            which = k if names is None else repr(names[k])
            rows = f"{start} to {start + len(block)}"
            raise ValueError(f"rows {rows} of column {which} are not all numbers: {error}") from None
    return block.astype(np.float64)


def is_dask(X: Any) -> bool:
    """Whether X is a Dask array or data frame; Dask is not imported."""
    return type(X).__module__.startswith(("dask.array", "dask.dataframe", "dask_expr"))


def as_source(X: Any, y: Any = None) -> tuple[Source, Any] | None:
    """What reads a table in blocks, and its labels in memory; None for tables that are not of that kind.

    A path is that of Parquet. A name for ``y`` is one of its columns, or of those of a Dask data frame, which is then
    no feature. Only types are looked at: of an unknown object nothing may be asked.
    """
    source: Source
    if isinstance(X, Source):
        source = X
    elif isinstance(X, str | os.PathLike):
        named = [y] if isinstance(y, str) else []
        source = ParquetSource(X, named)
        y = source.column(y) if named else y
    elif isinstance(X, np.memmap) and X.ndim == 2:
        source = ArraySource(X)
    elif type(X).__module__.startswith("zarr"):
        source = ZarrSource(X)
    elif is_dask(X):
        if isinstance(y, str) and hasattr(X, "columns"):
            if y not in X.columns:
                raise DataError(f"X has no column {y!r}; its columns are {list(X.columns)[:10]}.")
            X, y = X.drop(columns=y), X[y]
        source = DaskSource(X)
    else:
        return None
    if is_dask(y):
        y = np.asarray(y.compute())
    return source, y
