"""Explicit features of all kernels side by side, a block of rows at a time, wherever the rows are."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array, issparse

from multikernel.gram.base import GramStack, format_bytes
from multikernel.gram.normalization import Normalization, inverse_root, mask_factors
from multikernel.io.state import either, flags, only, reals, record
from multikernel.kernels import KernelFamily
from multikernel.kernels.sources import BLOCK_ROWS, ArraySource, Source
from multikernel.runtime.clock import check
from multikernel.runtime.executors import Executor

# Bytes of features that are worked on at a time: they stay in the cache from one product with them to the next.
CHUNK_BYTES = 1 << 21
# Rows that kernels are fitted on: bandwidths and landmarks depend on no more.
FIT_ROWS = 20_000
# A step of the normalisation of features; they know nothing of samples, so that a model does not grow with them.
STEP = either(
    record(step=only("shift"), by=reals("axes")),
    record(step=only("scale"), by=reals("kernels")),
    record(step=only("unit"), chosen=flags("kernels")),
)


class FeatureMap:
    """φ of rows of a table: features of fitted kernels, normalised, zero where a view is missing.

    Parameters
    ----------
    family : KernelFamily
        Fitted kernels, all of which have features.
    steps : list of dict
        Normalisation: shifts of the features, factors of the kernels, or unit length.
    masked : bool
        Whether rows may lack views; see :func:`~multikernel.gram.normalization.mask_factors`.
    dtype : data type
    """

    def __init__(self, family: KernelFamily, steps: Sequence[dict] = (), *, masked: bool = False, dtype: Any = None):
        self.family, self.steps, self.masked, self.dtype = family, list(steps), masked, np.dtype(dtype or np.float64)
        self.ranks = np.array([getattr(k, "rank_", len(k.columns_)) for k in family.kernels])
        self.owner = np.repeat(np.arange(len(family)), self.ranks)
        self.starts = np.append(0, np.cumsum(self.ranks))

    @property
    def rank(self) -> int:
        """Number of features D."""
        return len(self.owner)

    def chunks(self, n_rows: int) -> Iterator[slice]:
        """Ranges of rows whose features stay in the cache, until time is up."""
        size = max(64, CHUNK_BYTES // (self.dtype.itemsize * max(self.rank, 1)))
        for start in range(0, n_rows, size):
            check()
            yield slice(start, min(start + size, n_rows))

    def __call__(self, X: Any, first: int = 0) -> NDArray:
        """Features (n, D) of rows X, the first of which is number ``first`` of its table."""
        out, gone = self.unmasked(X, first)
        return out if gone is None else out * self.mask(gone)

    def mask(self, gone: NDArray[np.bool_]) -> NDArray:
        """Factors (n, D) of features where views ``gone`` (F, n) are missing."""
        return mask_factors(gone).T.astype(self.dtype)[:, self.owner]

    def unmasked(self, X: Any, first: int = 0) -> tuple[NDArray, NDArray[np.bool_] | None]:
        """The same with arbitrary features where a view is missing, and where that is, (F, n) or None."""
        gone = self._missing(X, first)
        if gone is not None and (lonely := np.flatnonzero(gone.all(axis=0))).size:
            raise ValueError(
                f"{len(lonely)} samples have no view at all, the first at row {first + lonely[0]}: leave them out."
            )
        X = X if gone is None else np.where(np.isnan(X), X.dtype.type(0.0), X)
        out, columns = np.empty((X.shape[0], self.rank), dtype=self.dtype), self.family.columns_read
        if columns is not None and not issparse(X):  # one copy for all kernels, however many
            out[:] = X[:, columns]
        else:
            for k, kernel in enumerate(self.family.kernels):
                out[:, self.starts[k] : self.starts[k + 1]] = kernel.features(X)
        for step in self.steps:
            self.apply(step, out)
        return out, gone

    def _missing(self, X: Any, first: int) -> NDArray[np.bool_] | None:
        values = X.data if issparse(X) else X
        if np.isfinite(values.sum(dtype=np.float64)):
            return None
        if self.masked and not issparse(X) and not np.isinf(X).any():
            return self.family.missing(X)
        bad = ~np.isfinite(values)
        rows = np.unique(X.nonzero()[0][bad]) if issparse(X) else np.flatnonzero(bad.any(axis=1))
        if not len(rows):  # a sum that overflows
            return None
        raise ValueError(
            f"X contains NaN or infinity in {len(rows)} of the rows {first} to {first + X.shape[0]}, the first in "
            f"row {first + rows[0]}: impute or leave out these samples. With missing='mask' a sample may lack views."
        )

    def apply(self, step: dict, features: NDArray) -> None:
        """One step of the normalisation, in place."""
        kind = str(step["step"])
        if kind == "shift":
            features -= step["by"].astype(features.dtype)
        elif kind == "scale":
            features *= step["by"][self.owner].astype(features.dtype)
        else:
            norms = np.sqrt(self.squares(features))
            factors = np.where(step["chosen"] & (norms > 0.0), 1.0 / np.where(norms > 0.0, norms, 1.0), 1.0)
            features *= factors[:, self.owner].astype(features.dtype)

    def squares(self, features: NDArray) -> NDArray[np.float64]:
        """``‖φ_j(x_i)‖²``, shape (n, F)."""
        return self.by_kernel((features.astype(np.float64) ** 2).T).T

    def by_kernel(self, values: NDArray) -> NDArray[np.float64]:
        """Sums of ``values`` (D,) or (D, T) over the features of each kernel, shape (F,) or (F, T)."""
        if len(self.ranks) == self.rank:
            return np.asarray(values, dtype=np.float64)
        sums = np.add.reduceat(values, np.minimum(self.starts[:-1], self.rank - 1), axis=0)
        return np.where((self.ranks > 0).reshape(-1, *[1] * (values.ndim - 1)), sums, 0.0)


@dataclass(frozen=True)
class Block:
    """Some rows, where they are: what reads them, and their features if these are kept."""

    source: Any  # Source, or the rows themselves
    start: int
    stop: int
    map: FeatureMap
    kept: NDArray | None = None
    gone: NDArray[np.bool_] | None = None  # (n, F): views that are missing, as long as what is kept is not masked
    loss: Any = None

    def __len__(self) -> int:
        return self.stop - self.start

    def rows(self) -> Any:
        """The rows of the table."""
        return self.source.read(self.start, self.stop) if isinstance(self.source, Source) else self.source

    def chunks(self) -> Iterator[tuple[slice, NDArray]]:
        """Features of ranges of rows, small enough for the cache."""
        for part, features, gone in self.unmasked():
            yield part, features if gone is None else features * self.map.mask(gone)

    def unmasked(self) -> Iterator[tuple[slice, NDArray, NDArray[np.bool_] | None]]:
        """The same as they are before missing views are masked, and which are, (F, n) or None."""
        rows: Any = self.rows() if self.kept is None else None
        for part in self.map.chunks(len(self)):
            if self.kept is None:
                yield part, *self.map.unmasked(rows[part], self.start + part.start)
            else:
                yield part, self.kept[part], None if self.gone is None else self.gone[part].T

    def with_kept(self, kept: NDArray | None = None) -> Block:
        """The block with its features computed and kept, in memory that may be given; the rows are forgotten."""
        kept = np.empty((len(self), self.map.rank), dtype=self.map.dtype) if kept is None else kept
        gone = np.zeros((len(self), len(self.map.ranks)), dtype=bool) if self.map.masked else None
        for part, features, missing in self.unmasked():
            kept[part] = features
            if gone is not None and missing is not None:
                gone[part] = missing.T
        return replace(self, source=None, kept=kept, gone=gone)


def make_block(source: Any, start: int, stop: int, map: FeatureMap, keep: bool, kept: NDArray | None = None) -> Block:
    """A block, by whoever will work on it."""
    block = Block(source, start, stop, map)
    return block.with_kept(kept) if keep else block


def _normalised(block: Block, map: FeatureMap, new: list[dict], in_place: bool) -> Block:
    """The block after more steps of the normalisation, the last of those of the map."""
    if block.kept is None:
        return replace(block, map=map)
    kept = block.kept if in_place else block.kept.copy()
    for part in map.chunks(len(block)):
        for step in new:
            map.apply(step, kept[part])
    return replace(block, map=map, kept=kept)


def _masked(block: Block, in_place: bool) -> Block:
    """The block with features that are kept masked."""
    if block.kept is None or block.gone is None:
        return block
    kept = block.kept if in_place else block.kept.copy()
    for part in block.map.chunks(len(block)):
        if block.gone[part].any():
            kept[part] *= block.map.mask(block.gone[part].T)
    return replace(block, kept=kept, gone=None)


def _statistics(block: Block, weight: NDArray | None) -> tuple[NDArray, ...]:
    """Sums of features (D,), of their squares by kernel (F,) and of weights (F,), and the largest squares (F,).

    Samples count with their weights, and not at all for kernels that they lack.
    """
    m = block.map
    sums, squares, total, largest = (np.zeros(k) for k in (m.rank, len(m.ranks), len(m.ranks), len(m.ranks)))
    for part, features, gone in block.unmasked():
        own = np.ones(len(features)) if weight is None else weight[part]
        if gone is not None:
            features = np.where(gone.T[:, m.owner], features.dtype.type(0.0), features)
        size = m.squares(features)
        sums += own @ features
        squares += own @ size
        total += own.sum() if gone is None else own @ ~gone.T
        largest = np.maximum(largest, size.max(axis=0, initial=0.0))
    return sums, squares, total, largest


def _columns_of(block: Block, columns: NDArray[np.intp], map: FeatureMap) -> Block:
    kept = np.concatenate([features[:, columns] for _, features in block.chunks()])
    return replace(block, source=None, map=map, kept=kept)


def _rows_of(block: Block, rows: NDArray[np.intp]) -> NDArray:
    if block.kept is not None or not len(rows):
        return np.empty((0, block.map.rank), block.map.dtype) if block.kept is None else block.kept[rows]
    return block.map(block.rows()[rows], block.start)


class FeatureBlocks:
    """Training samples as explicit features in blocks of rows, kept if there is room, else made again in each pass.

    It takes the place of a square Gram stack for solvers that work in the space of the features.

    Parameters
    ----------
    source : Source
    map : FeatureMap
    executor : Executor
    memory : float
        Bytes that kept features may take, in each process that has some.
    """

    def __init__(self, source: Source, map: FeatureMap, executor: Executor | None = None, memory: float = np.inf):
        self.source, self.map, self.executor = source, map, executor or Executor()
        self.names, self.n_kernels = tuple(map.family.names), len(map.family)
        room = memory * len(set(getattr(self.executor, "places", [""])))
        self.nbytes = source.shape[0] * map.rank * map.dtype.itemsize
        self.keeps = self.nbytes <= room
        self.ranges = source.ranges(max(256, min(BLOCK_ROWS, -(-source.shape[0] // 8))))
        self.whole: NDArray | None = None
        self.blocks = self.executor.make(self._parts())
        self.statistics = self._read(None)

    def _parts(self) -> list[tuple[Callable[..., Block], tuple]]:
        shared = self.executor.share(self.map)
        rows: Sequence[Any] = [self.source.part(*edge) for edge in self.ranges]
        if not self.executor.local and hasattr(self.source, "X") and hasattr(self.source.X, "to_delayed"):
            rows = self.executor.client.compute(list(self.source.X.to_delayed().ravel()))  # type: ignore[attr-defined]
        return [
            (make_block, (part, *edge, shared, self.keeps, place))
            for part, edge, place in zip(rows, self.ranges, self._places())
        ]

    def _places(self) -> list[NDArray | None]:
        """Where blocks put features that are kept in this process: parts of one array."""
        if not (self.keeps and self.executor.local):
            return [None] * len(self.ranges)
        self.whole = np.empty((len(self), self.map.rank), dtype=self.map.dtype)
        return [self.whole[a:b] for a, b in self.ranges]

    def __len__(self) -> int:
        return self.source.shape[0]

    @property
    def shape(self) -> tuple[int, int, int]:
        """Rows, features and kernels: as of a stack whose columns are features."""
        return len(self), self.map.rank, self.n_kernels

    def __repr__(self) -> str:
        where = "kept" if self.keeps else "made in each pass"
        return (
            f"FeatureBlocks({self.n_kernels} kernels, {len(self)} rows in {len(self.ranges)} blocks, "
            f"{self.map.dtype}, {self.map.rank} features, {format_bytes(self.nbytes)} {where})"
        )

    def _read(self, weight: NDArray | None) -> tuple[NDArray, ...]:
        """``_statistics`` of all rows."""
        own = [None if weight is None else weight[a:b] for a, b in self.ranges]
        sums, squares, total, largest = zip(*self.executor.collect(_statistics, self.blocks, own=own))
        return sum(sums), sum(squares), sum(total), np.max(largest, axis=0)

    @property
    def largest(self) -> NDArray[np.float64]:
        """The largest ``k_j(x, x)``, shape (F,)."""
        return self.statistics[3]

    def normalise(self, steps: Any, weight: NDArray | None = None) -> list[dict]:
        """Fit a normalisation, a pass for each step, and apply it; the steps in terms of features.

        They mean what those of :class:`~multikernel.gram.Normalization` do.
        """
        if weight is not None:
            self.statistics = self._read(weight)
        for name, chosen in Normalization(steps).plan(self.names):
            self._apply(self._step(name, chosen, weight))
            self.statistics = self._read(weight)
        if self.map.masked:
            self.blocks = self.executor.map(_masked, self.blocks, self.executor.local)
        return self.map.steps

    def _step(self, name: str, chosen: NDArray[np.bool_], weight: NDArray | None) -> list[dict]:
        sums, squares, total, largest = self.statistics
        if name == "cosine":
            return [{"step": np.array("unit"), "chosen": chosen}]
        share = np.maximum(total, np.finfo(float).tiny)
        mean, size = sums / share[self.map.owner], squares / share
        rounding = 100.0 * np.finfo(self.map.dtype).eps
        variance = size - self.map.by_kernel(mean**2)
        if name == "center":
            alive = np.where(chosen & (variance <= rounding * largest), 0.0, 1.0)
            shift = {"step": np.array("shift"), "by": np.where(chosen[self.map.owner], mean, 0.0)}
            return [shift] if alive.all() else [shift, {"step": np.array("scale"), "by": alive}]
        if name == "trace":
            size = size * (len(self) if weight is None else weight.sum())
        else:
            size = np.where(variance <= rounding * np.abs(size), 0.0, variance)
        return [{"step": np.array("scale"), "by": np.where(chosen, inverse_root(size), 1.0)}]

    def _apply(self, new: list[dict]) -> None:
        m = self.map
        self.map = FeatureMap(m.family, [*m.steps, *new], masked=m.masked, dtype=m.dtype)
        self.blocks = self.executor.map(
            _normalised, self.blocks, self.executor.share(self.map), new, self.executor.local
        )

    def take(self, rows: NDArray[np.intp], columns: Any = None) -> GivenBlocks:
        """Some of the samples, their features in this process; as of a Gram stack of the same samples twice."""
        if self.whole is not None:
            everything = len(rows) == len(self) and bool((np.diff(rows) == 1).all())
            return GivenBlocks(self.whole if everything else self.whole[rows], self.map, self.statistics)
        order = np.argsort(rows, kind="stable")
        ascending = rows[order]
        own = [ascending[(ascending >= a) & (ascending < b)] - a for a, b in self.ranges]
        found = np.empty((len(rows), self.map.rank), dtype=self.map.dtype)
        found[order] = np.concatenate(self.executor.collect(_rows_of, self.blocks, own=own))
        return GivenBlocks(found, self.map, self.statistics)

    def kernels(self, chosen: NDArray[np.intp]) -> FeatureBlocks:
        """The samples with the features of some kernels, which are kept; in ascending order."""
        part, m = copy(self), self.map
        part.map = FeatureMap(m.family.take(chosen), dtype=m.dtype)  # normalised and masked they are already
        part.names, part.n_kernels, part.keeps, part.whole = tuple(part.map.family.names), len(chosen), True, None
        columns = np.flatnonzero(np.isin(m.owner, chosen))
        sums, *of_kernels = self.statistics
        part.statistics = sums[columns], *(numbers[chosen] for numbers in of_kernels)
        part.blocks = self.executor.map(_columns_of, self.blocks, columns, self.executor.share(part.map))
        return part


class GivenBlocks(FeatureBlocks):
    """Features in memory, such as those of a sample of rows; ``statistics`` are those of the samples it is from."""

    def __init__(self, features: NDArray, map: FeatureMap, statistics: tuple[NDArray, ...]):
        self.statistics = statistics
        self.source, self.map, self.executor, self.keeps = ArraySource(features), map, Executor(), True
        self.names, self.n_kernels, self.nbytes = tuple(map.family.names), len(map.family), features.nbytes
        size = max(256, min(BLOCK_ROWS, -(-len(features) // 8)))
        self.ranges, self.whole = self.source.ranges(size), features
        self.blocks = [Block(None, a, b, map, features[a:b]) for a, b in self.ranges]

    def axes(self) -> FeatureAxes:
        """The samples against the axes of the feature space."""
        return FeatureAxes(self.features, self.map.owner, self.names)

    @property
    def features(self) -> NDArray:
        """The array (n, D)."""
        return self.source.X  # type: ignore[attr-defined]


class FeatureAxes(GramStack):
    """New samples against the axes of the feature space: column k of kernel j is its feature k, zero if not its own.

    Coefficients of axes are those of features, so that a model in terms of features predicts as one in terms of
    samples does.

    Examples
    --------
    >>> import numpy as np
    >>> from multikernel.gram.features import FeatureAxes
    >>> stack = FeatureAxes(np.array([[1.0, 2.0, 3.0]]), np.array([0, 0, 1]), ["a", "b"])
    >>> stack.apply(np.array([1.0, 1.0, 1.0])).ravel(), stack.combine([1.0, 10.0])
    (array([3., 3.]), array([[ 1.,  2., 30.]]))
    """

    symmetric = False

    def __init__(self, features: NDArray, owner: NDArray[np.intp], names: Sequence[str]):
        self.array, self.owner, self.names = features, owner, tuple(names)
        self.dtype, self.shape = features.dtype, (*features.shape, len(self.names))

    def rows(self, indices: ArrayLike) -> NDArray:
        block = np.zeros((self.n_kernels, len(np.asarray(indices)), self.shape[1]), dtype=self.dtype)
        block[self.owner, :, np.arange(self.shape[1])] = self.array[np.asarray(indices)].T
        return block

    def diagonal(self) -> NDArray[np.float64]:
        return self._summed(self.array.astype(np.float64).T ** 2)

    def _summed(self, values: NDArray) -> NDArray[np.float64]:
        """Sums of rows (D, …) by kernel."""
        places = self.owner, np.arange(len(self.owner))
        return csr_array((np.ones(len(self.owner)), places), shape=(self.n_kernels, len(self.owner))) @ values

    def combine(self, weights: ArrayLike, dtype: Any = None, out: NDArray | None = None) -> NDArray:
        return (self.array * self._check_weights(weights)[self.owner]).astype(dtype or self.dtype, copy=False)

    def apply(self, alpha: ArrayLike) -> NDArray[np.float64]:
        alpha = np.asarray(alpha, dtype=np.float64)
        columns = alpha[:, None] if alpha.ndim == 1 else alpha
        parts = np.stack([self._summed(self.array.T * column[:, None]) for column in columns.T], axis=-1)
        return parts[..., 0] if alpha.ndim == 1 else parts

    def take(self, rows=None, columns=None, kernels=None) -> FeatureAxes:
        array = self.array if rows is None else self.array[np.asarray(rows)]
        chosen = slice(None) if columns is None else np.asarray(columns)
        array, owner = array[:, chosen], self.owner[chosen]
        if kernels is None:
            return FeatureAxes(array, owner, self.names)
        place = np.full(self.n_kernels, -1)
        place[np.asarray(kernels)] = np.arange(len(kernels))
        array = np.where(place[owner] >= 0, array, array.dtype.type(0.0))
        return FeatureAxes(array, np.maximum(place[owner], 0), [self.names[k] for k in kernels])

    def _storage(self) -> str:
        return f"{self.shape[1]} features, {format_bytes(self.array.nbytes)}"
