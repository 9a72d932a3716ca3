"""Gram matrices as products of explicit features: K_j = Φ_j Ψ_j'."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from multikernel.gram.base import GramStack, format_bytes, kernel_names, precise_times, same_indices
from multikernel.runtime.clock import check

# Samples whose features are multiplied at a time: between two looks at the clock, and in sums of so few numbers that
# their rounding stays small however many samples there are.
BLOCK = 1024


class LowRankStack(GramStack):
    """Kernels with explicit features, never multiplied out: an operation costs O(n · rank), not O(n²).

    Exact for linear kernels; an approximation, whose error ``errors`` tells, for Nyström and random Fourier
    features.

    Parameters
    ----------
    row_features : list of F arrays of shape (rows, r_j)
        Features of the row samples.
    column_features : list of F arrays of shape (columns, r_j), optional
        Features of the column samples; by default the rows' own, and the stack is square.
    names : sequence of str, optional
        One name per kernel.
    errors : array of shape (F,), optional
        Relative error of each kernel, ``trace(K - ΦΦ') / trace(K)``; 0 by default.

    Examples
    --------
    >>> import numpy as np
    >>> from multikernel.gram import LowRankStack
    >>> stack = LowRankStack([np.array([[1.0, 0.0], [1.0, 1.0]])], names=["linear"])
    >>> stack.combine([1.0])
    array([[1., 1.],
           [1., 2.]])
    >>> stack
    LowRankStack(1 kernels, 2 x 2, float64, ranks 2 to 2, 32 bytes, largest relative error 0)
    """

    def __init__(
        self,
        row_features: Sequence[NDArray],
        column_features: Sequence[NDArray] | None = None,
        names: Sequence[str] | None = None,
        errors: ArrayLike | None = None,
    ):
        self.row_features = list(row_features)
        self.symmetric = column_features is None
        self.column_features = self.row_features if column_features is None else list(column_features)
        self.dtype = np.result_type(*self.row_features, np.float32)
        self.ranks = np.array([features.shape[1] for features in self.row_features])
        n_kernels = len(self.row_features)
        self.names = kernel_names(names, n_kernels)
        self.errors = np.zeros(n_kernels) if errors is None else np.asarray(errors, dtype=np.float64)
        self.shape = (self.row_features[0].shape[0], self.column_features[0].shape[0], n_kernels)

    @classmethod
    def from_family(cls, family: Any, X: Any, Z: Any = None, dtype: Any = np.float64) -> LowRankStack:
        """Features of a family of fitted kernels, all of which must have them."""
        lacking = [name for name, kernel in zip(family.names, family.kernels) if not kernel.has_features]
        if lacking:
            raise ValueError(
                f"kernels {lacking} have no explicit features: wrap them in Nystroem(kernel=…, rank=…) or "
                "RandomFourier(kernel=…, rank=…), or let memory= choose another storage."
            )
        rows = [np.asarray(kernel.features(X), dtype=dtype) for kernel in family.kernels]
        columns = None if Z is None else [np.asarray(k.features(Z), dtype=dtype) for k in family.kernels]
        errors = [getattr(kernel, "error_", 0.0) for kernel in family.kernels]
        return cls(rows, columns, family.names, errors)

    def features(self, memory: float = np.inf) -> Features:
        return Features(self.row_features, memory)

    def rows(self, indices: ArrayLike) -> NDArray:
        indices = np.asarray(indices, dtype=np.intp)
        block = np.empty((self.n_kernels, len(indices), self.shape[1]), dtype=self.dtype)
        for k, (left, right) in enumerate(zip(self.row_features, self.column_features)):
            np.matmul(left[indices], right.T, out=block[k])
        return block

    def diagonal(self) -> NDArray[np.float64]:
        return np.stack([np.einsum("ir,ir->i", f, f, dtype=np.float64) for f in self.row_features])

    def combine(self, weights: ArrayLike, dtype: DTypeLike | None = None, out: NDArray | None = None) -> NDArray:
        weights = self._check_weights(weights)
        total, used = self._room(dtype, out), np.flatnonzero(weights)
        if not len(used):
            total.fill(0.0)
        for position, k in enumerate(used):
            left, right = (f[k].astype(total.dtype, copy=False) for f in (self.row_features, self.column_features))
            for rows in self.take(kernels=[k]).row_blocks():
                block = total[rows[0] : rows[-1] + 1]
                product = (left[rows] * total.dtype.type(weights[k])) @ right.T
                # no zeros first: fresh memory may take seconds to fill, block by block the clock is heard
                np.add(block, product, out=block) if position else np.copyto(block, product)
        return total

    def apply(self, alpha: ArrayLike) -> NDArray[np.float64]:
        alpha = self._check_alpha(alpha)
        return np.stack([left @ (right.T @ alpha) for left, right in zip(self.row_features, self.column_features)])

    def quadratic_forms(self, alpha: ArrayLike) -> NDArray[np.float64]:
        alpha = self._check_alpha(alpha)
        self._require_square("quadratic_forms")
        return np.stack([((features.T @ alpha) ** 2).sum(axis=0) for features in self.row_features])

    def take(self, rows=None, columns=None, kernels=None) -> LowRankStack:
        chosen = range(self.n_kernels) if kernels is None else np.asarray(kernels, dtype=np.intp)
        if not len(chosen):
            raise ValueError("a LowRankStack needs at least one kernel; none was chosen.")

        def cut(features: list[NDArray], positions: ArrayLike | None) -> list[NDArray]:
            return [features[k] if positions is None else features[k][np.asarray(positions)] for k in chosen]

        square = self.symmetric and same_indices(rows, columns)
        other = None if square else cut(self.column_features, columns)
        names = [self.names[k] for k in chosen]
        return LowRankStack(cut(self.row_features, rows), other, names, self.errors[list(chosen)])

    def scaled(self, row_factors, column_factors) -> LowRankStack:
        rows = (f * c[:, None].astype(f.dtype) for f, c in zip(self.row_features, row_factors))
        columns = (f * c[:, None].astype(f.dtype) for f, c in zip(self.column_features, column_factors))
        return self._with(rows, columns)

    def centered(self, column_means, grand_means, chosen, shares=None) -> LowRankStack:
        weights = [shares] * self.n_kernels if shares is None or shares.ndim == 1 else shares
        means = [np.average(f, axis=0, weights=w) * c for f, c, w in zip(self.column_features, chosen, weights)]
        rows = (f - m.astype(f.dtype) for f, m in zip(self.row_features, means))
        return self._with(rows, (f - m.astype(f.dtype) for f, m in zip(self.column_features, means)))

    def _with(self, rows: Iterable[NDArray], columns: Iterable[NDArray]) -> LowRankStack:
        """The stack with other features; those of columns are not even made where they are those of rows."""
        return LowRankStack(list(rows), None if self.symmetric else list(columns), self.names, self.errors)

    def _storage(self) -> str:
        size = sum(f.nbytes for f in self.row_features)
        return (
            f"ranks {self.ranks.min()} to {self.ranks.max()}, {format_bytes(size)}, "
            f"largest relative error {self.errors.max():.2g}"
        )


class Features:
    """Explicit features of all kernels side by side: products with them do not depend on the number of kernels.

    Parameters
    ----------
    features : list of F arrays of shape (n, r_j)
        Features of the kernels.
    memory : float
        Bytes that a copy in double precision may take: products need it, and converting single precision takes as
        long as they do.

    Attributes
    ----------
    array : ndarray of shape (n, R)
        The features, R = Σ r_j.
    owner : ndarray of shape (R,)
        Kernel that each of them belongs to.
    """

    def __init__(self, features: Sequence[NDArray], memory: float = np.inf):
        self.n_kernels, n = len(features), len(features[0])
        self.owner = np.repeat(np.arange(self.n_kernels), [f.shape[1] for f in features])
        dtype = np.float64 if 8 * n * len(self.owner) <= memory else np.result_type(*features)
        self.array = np.concatenate(features, axis=1, out=np.empty((n, len(self.owner)), dtype=dtype))

    @property
    def rank(self) -> int:
        """Number of features R."""
        return len(self.owner)

    @property
    def terms(self) -> int:
        """Numbers that are added up one after the other to make a score, at most."""
        n = len(self.array)
        return self.rank + min(n, BLOCK + n // BLOCK + 1)

    def onto(self, alpha: NDArray, *, precise: bool = False) -> NDArray[np.float64]:
        """``Σ_i alpha_i φ(x_i)`` for alpha (n, T), shape (R, T); ``precise``: as if in twice the precision."""
        if precise:
            columns = np.ascontiguousarray(self.array.T)[None]
            return np.column_stack([precise_times(columns, column)[0] for column in alpha.T])
        parts = (block.T @ alpha[rows] for rows, block in self._blocks())
        return sum(parts, start=np.zeros((self.rank, alpha.shape[1])))

    def scores(self, w: NDArray) -> NDArray[np.float64]:
        """``φ(x_i)·w`` for w (R, T), shape (n, T)."""
        return np.vstack([block @ w for _, block in self._blocks()])

    def by_kernel(self, values: NDArray) -> NDArray[np.float64]:
        """Sums of ``values`` (R,) or (R, T) over the features of each kernel, shape (F,) or (F, T)."""
        return (self.owner == np.arange(self.n_kernels)[:, None]).astype(np.float64) @ values

    def products(self, weight: NDArray | None = None) -> NDArray[np.float64]:
        """``Σ_i weight_i φ(x_i) φ(x_i)'``, shape (R, R)."""
        total = np.zeros((self.rank, self.rank))
        for rows, block in self._blocks():
            half = block if weight is None else np.sqrt(weight[rows, None]) * block
            total += half.T @ half
        return total

    def _blocks(self) -> Iterator[tuple[slice, NDArray]]:
        """Rows in double precision, few enough at a time that a copy does not matter; until time is up."""
        for start in range(0, len(self.array), BLOCK):
            check()
            rows = slice(start, start + BLOCK)
            yield rows, self.array[rows].astype(np.float64, copy=False)
