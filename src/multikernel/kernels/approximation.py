"""Kernels with explicit features of finite dimension, k̃(x, z) = φ(x)·φ(z): Nyström and random Fourier features."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from scipy import linalg, sparse
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state

from multikernel.io.state import COUNT, REAL, attributes, optional, part, reals, samples
from multikernel.kernels.base import RBF, ExplicitKernel, Kernel, parameters, resolve_columns
from multikernel.kernels.histograms import Laplacian
from multikernel.kernels.quantities import (
    PreparedRows,
    Products,
    Quantity,
    Rows,
    TrainingSet,
    as_data,
    products,
    row_blocks,
    take_columns,
)

_SAMPLE = 500  # training samples on which random Fourier features are judged
_LARGEST_FOURIER_RANK = 2**15


class FeatureProducts(Products):
    """φ(x)·φ(z) with the features of a fitted kernel."""

    def __init__(self, kernel: ApproximateKernel) -> None:
        super().__init__(kernel.columns_, id(kernel))
        self.kernel = kernel

    def prepare(self, X: Any, dtype: Any) -> Rows:
        return Rows(self.kernel.features(X).astype(dtype, copy=False))


@parameters
class ApproximateKernel(Kernel):
    """Base class of kernels that approximate another one, ``kernel``, by explicit features."""

    kernel: Kernel | None = None
    rank: int = 100
    error: float | None = None
    random_state: Any = 0

    has_features = True
    _state = attributes(kernel_=part(Kernel, features="selected"), rank_=COUNT, error_=REAL)

    @property
    def needs_scaling(self) -> bool:  # type: ignore[override]
        return self.kernel_.needs_scaling

    def _sizes(self) -> dict[str, int]:
        return {**super()._sizes(), "rank": self.rank_}

    def _inner(self) -> Kernel:
        return RBF() if self.kernel is None else self.kernel

    def _fit_columns(self, training: TrainingSet) -> None:
        from multikernel.kernels.family import as_kernel

        self.rank_: int
        self.error_: float
        inner = as_kernel(self._inner())
        if inner.pairwise or not inner.psd:
            raise ValueError(
                f"{inner!r} cannot be approximated; it must be a positive semi-definite function of features."
            )
        if self.columns is not None and inner.columns is not None:
            raise ValueError(f"give columns to {type(self).__name__} or to its kernel, not both.")
        columns = inner.columns if self.columns is None else self.columns
        self._set_columns(resolve_columns(columns, training.X, training.feature_names), training)
        # the inner kernel sees the selected columns only, so that landmarks need no others
        self.kernel_ = clone(inner).set_params(columns=None).fit(self._selected(training.X), self.column_names_)

    def _selected(self, X: Any) -> Any:
        return take_columns(as_data(X), self.columns_, np.float64)

    def _fit_parameters(self, training: TrainingSet) -> None:
        if self.error is not None and not 0 < self.error < 1:
            raise ValueError(f"error={self.error!r} must lie between 0 and 1.")
        if self.error is None and self.rank < 1:
            raise ValueError(f"rank={self.rank!r} must be at least 1.")

    def features(self, X: Any) -> np.ndarray:
        """φ of each row of X (all columns of the training data), shape (n, rank_)."""
        fitted: Any = self._fitted_on(X)
        return fitted._map(fitted._selected(X))

    def _map(self, selected: Any) -> np.ndarray:
        raise NotImplementedError

    def _quantity(self) -> Quantity:
        return FeatureProducts(self)

    def _diagonal(self, X: PreparedRows) -> np.ndarray:
        features = X.rows(self._quantity()).data
        return np.einsum("ij,ij->i", features, features, dtype=np.float64)

    def _description(self) -> str:
        size = f"rank {self.rank}" if self.error is None else f"error {self.error:g}"
        return f"{self._short}({self._inner().label}, {size})"


@parameters
class Nystroem(ApproximateKernel):
    """Nyström features φ(x) = K_LL^(−½) k(L, x) from landmarks L [WS01].

    Parameters
    ----------
    kernel : Kernel, optional
        What to approximate; ``RBF()`` by default.
    rank : int, default=100
        Number of landmarks.
    landmarks : {"uniform", "kmeans", "leverage"}, default="uniform"
        Training samples at random, centres of k-means [ZTK08], or training samples drawn in proportion to their
        ridge leverage [AM15], which a uniform pilot estimates.
    error : float, optional
        Instead of ``rank``: add landmarks until the relative trace error is at most this.
    random_state : int, RandomState or None, default=0
    columns, name
        See :class:`Kernel`; the kernel's own ``columns`` count if none are given here.

    Attributes
    ----------
    error_ : float
        tr(K − K̃) / tr K on the training data.
    rank_ : int
        Dimension of the features: at most the number of landmarks.
    kernel_, landmarks_, transform_
        The fitted kernel, the landmarks and the map from k(x, L) to φ(x). A kernel that has no more features
        of its own than ``rank`` (linear, few columns) is used exactly: ``landmarks_`` and ``transform_`` are None.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).normal(size=(50, 2))
    >>> kernel = Nystroem(kernel=RBF(), error=0.01).fit(X)
    >>> kernel.error_ <= 0.01, kernel.rank_ < 50
    (True, True)
    """

    landmarks: str = "uniform"

    _short = "nystroem"
    _state = attributes(
        landmarks_=optional(samples("landmarks", "selected")), transform_=optional(reals("landmarks", "rank"))
    )

    def _sizes(self) -> dict[str, int]:
        return {**super()._sizes(), "landmarks": 0 if self.landmarks_ is None else self.landmarks_.shape[0]}

    def _check_loaded(self) -> None:
        if (self.landmarks_ is None) != (self.transform_ is None) or not (
            self.transform_ is not None or isinstance(self.kernel_, ExplicitKernel)
        ):
            raise ValueError("landmarks_ or transform_ is missing")

    def _fit_parameters(self, training: TrainingSet) -> None:
        super()._fit_parameters(training)
        choices = {"uniform": _uniform, "kmeans": _kmeans, "leverage": self._by_leverage}
        if self.landmarks not in choices:
            raise ValueError(f"landmarks={self.landmarks!r} must be one of {', '.join(choices)}.")
        X = self._selected(training.X)
        own = len(self.columns_) if isinstance(self.kernel_, ExplicitKernel) else np.inf
        if self.error is None and own <= self.rank:
            self.landmarks_, self.transform_, self.error_, self.rank_ = None, None, 0.0, int(own)
            return
        choose = choices[self.landmarks]
        size = self.rank if self.error is None else 16
        while True:
            size = min(size, X.shape[0])
            self._fit_landmarks(X, choose(X, size, check_random_state(self.random_state)))
            if self.error is None or self.error_ <= self.error or size == X.shape[0]:
                return
            size = size + size // 2

    def _fit_landmarks(self, X: Any, landmarks: Any) -> None:
        self.landmarks_ = landmarks
        eigenvalues, vectors = linalg.eigh(self._against_landmarks(landmarks))
        # directions below rounding would be divided by almost nothing
        keep = eigenvalues > len(eigenvalues) * np.finfo(float).eps * max(eigenvalues[-1], 0.0)
        self.transform_ = vectors[:, keep] / np.sqrt(eigenvalues[keep])
        self.rank_ = int(keep.sum())
        trace = self.kernel_.diagonal(X).sum()
        captured = (self._map(X) ** 2).sum()
        self.error_ = float(max(0.0, 1.0 - captured / trace)) if trace > 0 else 0.0

    def _against_landmarks(self, X: Any) -> np.ndarray:
        from multikernel.kernels.family import KernelFamily

        Z = None if X is self.landmarks_ else self.landmarks_
        return KernelFamily([self.kernel_]).evaluate(X, Z, dtype=np.float64)[0]

    def _map(self, selected: Any) -> np.ndarray:
        if self.transform_ is None:
            return self.kernel_.features(selected)
        features = np.empty((selected.shape[0], self.rank_))
        for start, stop in row_blocks(selected.shape[0], len(self.transform_)):
            features[start:stop] = self._against_landmarks(selected[start:stop]) @ self.transform_
        return features

    def _by_leverage(self, X: Any, size: int, random: np.random.RandomState) -> Any:
        """Sample by ridge leverage l_i = φ_i'(Φ'Φ + λI)⁻¹φ_i + (k_ii − ‖φ_i‖²)/λ, Φ from a uniform pilot."""
        self._fit_landmarks(X, _uniform(X, min(2 * size, X.shape[0]), random))
        features = self._map(X)
        residual = np.maximum(self.kernel_.diagonal(X) - (features**2).sum(axis=1), 0.0)
        covariance = features.T @ features
        # λ: what ``size`` directions leave out, spread over them
        spectrum = linalg.eigvalsh(covariance)[::-1]
        ridge = max((spectrum[size:].sum() + residual.sum()) / size, 1e-12 * spectrum[0])
        inverse = linalg.cho_factor(covariance + ridge * np.eye(len(covariance)))
        leverage = (features * linalg.cho_solve(inverse, features.T).T).sum(axis=1) + residual / ridge
        leverage = np.maximum(leverage, 1e-12 * leverage.max())
        rows = random.choice(X.shape[0], size, replace=False, p=leverage / leverage.sum())
        return X[np.sort(rows)]


def _uniform(X: Any, size: int, random: np.random.RandomState) -> Any:
    # one permutation for all sizes: a larger set contains the smaller ones
    return X[np.sort(random.permutation(X.shape[0])[:size])]


def _kmeans(X: Any, size: int, random: np.random.RandomState) -> Any:
    if size >= X.shape[0]:
        return X
    from sklearn.cluster import MiniBatchKMeans

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # duplicates: fewer distinct centres than asked
        centres = MiniBatchKMeans(size, n_init=1, random_state=random).fit(X).cluster_centers_
    centres = np.ascontiguousarray(centres, dtype=np.float64)
    return sparse.csr_matrix(centres) if sparse.issparse(X) else centres


class RandomFourier(ApproximateKernel):
    """Random Fourier features of RBF or Laplacian kernels, φ(x) = √(2/r) [cos(Wx), sin(Wx)] [RR07].

    Parameters
    ----------
    kernel : RBF or Laplacian, optional
        What to approximate; ``RBF()`` by default.
    rank : int, default=100
        Number of features, rounded up to an even number.
    error : float, optional
        Instead of ``rank``: double the features until the error is at most this.
    random_state, columns, name
        See :class:`Nystroem`.

    Attributes
    ----------
    error_ : float
        ‖K − K̃‖ / ‖K‖ (Frobenius) on at most 500 training samples. The trace is no measure here: k̃(x, x) = 1.
    rank_ : int
    frequencies_ : ndarray of shape (rank_ / 2, d)

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).normal(size=(50, 2))
    >>> RandomFourier(kernel=RBF(), rank=1000).fit(X).features(X).shape
    (50, 1000)
    """

    _short = "fourier"
    _state = attributes(frequencies_=reals("half", "selected"))

    def _sizes(self) -> dict[str, int]:
        return {**super()._sizes(), "half": self.rank_ // 2}

    def _fit_parameters(self, training: TrainingSet) -> None:
        super()._fit_parameters(training)
        if not isinstance(self.kernel_, RBF | Laplacian):
            raise TypeError(
                "random Fourier features exist for RBF and Laplacian kernels, not for "
                f"{type(self.kernel_).__name__}. Use Nystroem."
            )
        X = self._selected(training.X)
        rows = np.random.default_rng(0).permutation(X.shape[0])[:_SAMPLE]
        sample = X[np.sort(rows)]
        exact = self.kernel_(sample)
        rank = self.rank if self.error is None else 64
        while True:
            self._draw(rank)
            features = self._map(sample)
            self.error_ = float(linalg.norm(exact - features @ features.T) / linalg.norm(exact))
            if self.error is None or self.error_ <= self.error:
                return
            if rank >= _LARGEST_FOURIER_RANK:
                break
            rank *= 2
        warnings.warn(
            f"kernel {self.label!r}: {rank} random Fourier features leave a relative error of {self.error_:.2g}, "
            f"above error={self.error:g}. Use Nystroem, or accept a larger error.",
            ConvergenceWarning,
            stacklevel=2,
        )

    def _draw(self, rank: int) -> None:
        random = check_random_state(self.random_state)
        shape = ((rank + 1) // 2, len(self.columns_))
        width = self.kernel_.bandwidth_
        if isinstance(self.kernel_, RBF):  # exp(−‖δ‖²/width) is the transform of N(0, 2/width)
            self.frequencies_ = random.standard_normal(shape) * np.sqrt(2.0 / width)
        else:  # exp(−|δ|/width) of a Cauchy distribution of scale 1/width
            self.frequencies_ = random.standard_cauchy(shape) / width
        self.rank_ = 2 * shape[0]

    def _map(self, selected: Any) -> np.ndarray:
        angles = products(selected, self.frequencies_)
        return np.hstack([np.cos(angles), np.sin(angles)]) * np.sqrt(2.0 / self.rank_)
