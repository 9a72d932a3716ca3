"""A stack seen through scaling and centring that are applied to each block of rows as it is read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from multikernel.gram.base import GramStack, compose, same_indices


class Step(Protocol):
    """A change of blocks of rows as they are read."""

    def apply(self, block: NDArray, self_similarity: NDArray, rows: NDArray | slice) -> None:
        """Change a block (F, b, columns) of the given rows, and the self-similarities of those rows, in place."""

    def take(self, rows: NDArray | slice, kernels: NDArray | slice, columns: NDArray | slice) -> Step:
        """The same on some rows and kernels, and columns if an entry does not depend on others."""


@dataclass(frozen=True)
class Scaling:
    """Row factors (F, rows) and column factors (F, columns)."""

    row_factors: NDArray
    column_factors: NDArray

    def apply(self, block: NDArray, self_similarity: NDArray, rows: NDArray | slice) -> None:
        for matrix, row_factors, column_factors in zip(block, self.row_factors[:, rows], self.column_factors):
            matrix *= row_factors[:, None].astype(block.dtype)
            matrix *= column_factors[None, :].astype(block.dtype)
        self.rescale(self_similarity, rows)

    def rescale(self, self_similarity: NDArray, rows: NDArray | slice) -> None:
        """Change the self-similarities of the given rows, in place."""
        self_similarity *= self.row_factors[:, rows] ** 2

    def take(self, rows: NDArray | slice, kernels: NDArray | slice, columns: NDArray | slice) -> Scaling:
        return Scaling(self.row_factors[kernels][:, rows], self.column_factors[kernels][:, columns])


@dataclass(frozen=True)
class Centring:
    """Column means (F, columns), grand means (F,), which kernels to centre (F,), and the columns' shares in means.

    The centre in feature space is the mean of the column samples, which must all be there: the mean over a row of a
    block is the inner product of its sample with that mean.
    """

    column_means: NDArray
    grand_means: NDArray
    chosen: NDArray
    shares: NDArray | None = None

    def apply(self, block: NDArray, self_similarity: NDArray, rows: NDArray | slice) -> None:
        for k in np.flatnonzero(self.chosen):
            shares = self.shares
            row_means = block[k].mean(axis=1, dtype=np.float64) if shares is None else block[k] @ shares
            block[k] -= row_means[:, None].astype(block.dtype)
            block[k] -= (self.column_means[k] - self.grand_means[k])[None, :].astype(block.dtype)
            self_similarity[k] += self.grand_means[k] - 2.0 * row_means

    def take(self, rows: NDArray | slice, kernels: NDArray | slice, columns: NDArray | slice) -> Centring:
        # row means are those of the block itself, with all its columns
        return Centring(self.column_means[kernels], self.grand_means[kernels], self.chosen[kernels], self.shares)


class BlockwiseStack(GramStack):
    """A stack that is normalised while it is read: for kernels that are too large to be stored normalised.

    A centred row depends on all its columns, so columns are chosen after the steps have been applied; where all
    steps are scalings, before: nothing else is computed.
    """

    def __init__(self, base: GramStack, steps: tuple[Step, ...] = ()):
        self._base = base
        self._steps = steps
        self.by_entry = base.by_entry and self._scalings() is not None
        self._columns: NDArray | None = None
        self._similarity: NDArray | None = None
        self.names, self.shape, self.dtype, self.symmetric = base.names, base.shape, base.dtype, base.symmetric

    def _normalised(self, indices: NDArray) -> tuple[NDArray, NDArray]:
        block = self._base.rows(indices)
        if self._similarity is None:  # once for all blocks: a lazy stack computes it from all samples
            try:
                self._similarity = self._base.diagonal().astype(np.float64)
            except ValueError:  # a rectangular stack without self-similarities: no later step can ask for them
                self._similarity = np.full((self._base.n_kernels, len(self._base)), np.nan)
        similarity = self._similarity[:, indices]
        for step in self._steps:
            step.apply(block, similarity, indices)
        return block, similarity

    def _scalings(self) -> list[Scaling] | None:
        """The steps, if all of them change an entry without looking at others in its row."""
        scalings = [step for step in self._steps if isinstance(step, Scaling)]
        return scalings if len(scalings) == len(self._steps) else None

    def rows(self, indices: ArrayLike) -> NDArray:
        block, _ = self._normalised(np.asarray(indices))
        return block if self._columns is None else block[:, :, self._columns]

    def diagonal(self) -> NDArray[np.float64]:
        similarity = self._base.diagonal().astype(np.float64)  # raises when there is none
        if (scalings := self._scalings()) is not None:  # no row need be read
            for step in scalings:
                step.rescale(similarity, slice(None))
            return similarity
        return np.concatenate([self._normalised(rows)[1] for rows in self._base.row_blocks()], axis=1)

    def take(self, rows=None, columns=None, kernels=None) -> BlockwiseStack:
        some_rows = slice(None) if rows is None else np.asarray(rows, dtype=np.intp)
        some_kernels = slice(None) if kernels is None else np.asarray(kernels, dtype=np.intp)
        if columns is not None and self._columns is None and self._scalings() is not None:
            some_columns = np.asarray(columns, dtype=np.intp)
            steps = tuple(step.take(some_rows, some_kernels, some_columns) for step in self._steps)
            return BlockwiseStack(self._base.take(rows=rows, columns=some_columns, kernels=kernels), steps)
        steps = tuple(step.take(some_rows, some_kernels, slice(None)) for step in self._steps)
        view = BlockwiseStack(self._base.take(rows=rows, kernels=kernels), steps)
        view._columns = compose(self._columns, columns, self.shape[1])
        n_columns = self.shape[1] if columns is None else len(np.asarray(columns))
        view.shape = (view.shape[0], n_columns, view.shape[2])
        view.symmetric = self.symmetric and same_indices(rows, columns)
        return view

    def changed(self, step: Step) -> BlockwiseStack:
        if self._columns is not None:
            return BlockwiseStack(self, (step,))
        return BlockwiseStack(self._base, (*self._steps, step))

    def _storage(self) -> str:
        return f"normalised on the fly from {self._base!r}"
