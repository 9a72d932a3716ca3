"""Kernels that are functions of inner products of features."""

import numbers
from typing import Any

import numpy as np
from scipy import sparse

from multikernel.io.state import COUNT, POSITIVE, REAL, attributes, optional, reals
from multikernel.kernels.base import DistanceKernel, Kernel, parameters, shown
from multikernel.kernels.quantities import (
    Cosines,
    InnerProducts,
    PreparedRows,
    Quantity,
    RawProducts,
    SquaredDistances,
    TrainingSet,
    as_data,
    column_variance,
    in_chunks,
    take_columns,
)


class InnerProductKernel(Kernel):
    """A function of inner products, which are taken about the training mean ``center_`` (None: sparse data)."""

    needs_scaling = True
    center_: np.ndarray | None
    gamma_: float
    _state = attributes(center_=optional(reals("selected")))

    def _fit_columns(self, training: TrainingSet) -> None:
        super()._fit_columns(training)
        data = take_columns(training.X, self.columns_)
        self.center_ = None if sparse.issparse(data) else data.mean(axis=0, dtype=np.float64)

    def _inner(self) -> InnerProducts:
        return InnerProducts(self.columns_, self.center_)

    def _quantity(self) -> Quantity:
        return RawProducts(self._inner())

    def _squared_norms(self, X: PreparedRows) -> np.ndarray:
        return X.rows(self._inner()).stats["norm"] ** 2

    def _fitted_gamma(self, gamma: Any, training: TrainingSet) -> float:
        """A number, 1/d for None, or 1 / (d var(X)) for "scale"."""
        if gamma is None:
            return 1.0 / len(self.columns_)
        if isinstance(gamma, str) and gamma == "scale":
            variance = column_variance(self._inner(), training.prepared)
            return 1.0 / (len(self.columns_) * variance) if variance > 0 else 1.0
        if isinstance(gamma, bool) or not isinstance(gamma, numbers.Real) or not 0 < float(gamma) < np.inf:
            raise ValueError(f"gamma={gamma!r} must be a positive number, None or 'scale'.")
        return float(gamma)

    def _check_coef0(self, coef0: Any, least: float) -> None:
        if isinstance(coef0, bool) or not isinstance(coef0, numbers.Real) or not np.isfinite(float(coef0)):
            raise ValueError(f"coef0={coef0!r} must be a finite number.")
        if float(coef0) < least:
            raise ValueError(
                f"coef0={coef0!r} must be 0 or more: with a negative one the kernel is not positive semi-definite."
            )


class ExplicitKernel(InnerProductKernel):
    """An inner product of the columns themselves: dense data are its features.

    Fitted on sparse data it offers none: as arrays they would be larger than anything the kernel needs.
    """

    @property
    def has_features(self) -> bool:  # type: ignore[override]
        return getattr(self, "center_", True) is not None

    def _dense_columns(self, X: Any) -> np.ndarray:
        data = take_columns(as_data(X), self._fitted_on(X).columns_)
        return data.toarray() if sparse.issparse(data) else data


class Linear(ExplicitKernel):
    """k(x, z) = x·z.

    Parameters
    ----------
    columns, name
        See :class:`Kernel`.

    Examples
    --------
    >>> import numpy as np
    >>> Linear(columns=[0])(np.array([[1.0, 9.0], [2.0, 9.0]]))
    array([[1., 2.],
           [2., 4.]])
    """

    _short = "linear"

    def _diagonal(self, X: PreparedRows) -> np.ndarray:
        return self._squared_norms(X)

    def features(self, X: Any) -> np.ndarray:
        """The selected columns, shape (n, d)."""
        return self._dense_columns(X)


@parameters
class Polynomial(InnerProductKernel):
    """k(x, z) = (gamma x·z + coef0)^degree.

    Parameters
    ----------
    degree : int, default=3
    gamma : float, "scale" or None, default="scale"
        "scale" is 1 / (d var(X)) on the training data, None is 1 / d, d the number of selected columns.
    coef0 : float, default=1
        At least 0: the kernel is not positive semi-definite otherwise.
    columns, name
        See :class:`Kernel`.

    Examples
    --------
    >>> import numpy as np
    >>> Polynomial(degree=2, gamma=1)(np.array([[1.0], [2.0]]))
    array([[ 4.,  9.],
           [ 9., 25.]])
    """

    degree: int = 3
    gamma: float | str | None = "scale"
    coef0: float = 1.0

    _short = "poly"
    _state = attributes(gamma_=POSITIVE, coef0=REAL, degree=COUNT)

    def _fit_parameters(self, training: TrainingSet) -> None:
        if not isinstance(self.degree, numbers.Integral) or self.degree < 1:
            raise ValueError(f"degree={self.degree!r} must be a positive integer.")
        self._check_coef0(self.coef0, least=0.0)
        self.gamma_ = self._fitted_gamma(self.gamma, training)

    def _apply(self, values: np.ndarray, out: np.ndarray) -> None:
        dtype = values.dtype.type
        gamma, coef0, degree = dtype(self.gamma_), dtype(self.coef0), int(self.degree)

        def fill(values: np.ndarray, out: np.ndarray) -> None:
            base = values * gamma
            base += coef0
            out[...] = base
            with np.errstate(over="ignore"):  # the family names the kernel that overflows
                for _ in range(degree - 1):  # a few products cost far less than a general power
                    out *= base

        in_chunks(fill, values, out)

    def _diagonal(self, X: PreparedRows) -> np.ndarray:
        return (self.gamma_ * self._squared_norms(X) + self.coef0) ** self.degree

    def _description(self) -> str:
        return f"poly({self.degree})"


@parameters
class Sigmoid(InnerProductKernel):
    """k(x, z) = tanh(gamma x·z + coef0); not positive semi-definite in general, and flagged so.

    Parameters
    ----------
    gamma : float, "scale" or None, default="scale"
        As in :class:`Polynomial`.
    coef0 : float, default=0
    columns, name
        See :class:`Kernel`.

    Examples
    --------
    >>> import numpy as np
    >>> Sigmoid(gamma=1)(np.array([[0.0], [1.0]])).round(2)
    array([[0.  , 0.  ],
           [0.  , 0.76]])
    >>> Sigmoid.psd
    False
    """

    gamma: float | str | None = "scale"
    coef0: float = 0.0

    psd = False
    _short = "sigmoid"
    _state = attributes(gamma_=POSITIVE, coef0=REAL)

    def _fit_parameters(self, training: TrainingSet) -> None:
        self._check_coef0(self.coef0, least=-np.inf)
        self.gamma_ = self._fitted_gamma(self.gamma, training)

    def _apply(self, values: np.ndarray, out: np.ndarray) -> None:
        gamma, coef0 = values.dtype.type(self.gamma_), values.dtype.type(self.coef0)
        in_chunks(lambda v, o: np.tanh(v * gamma + coef0, out=o), values, out)

    def _diagonal(self, X: PreparedRows) -> np.ndarray:
        return np.tanh(self.gamma_ * self._squared_norms(X) + self.coef0)


class Cosine(ExplicitKernel):
    """k(x, z) = x·z / (‖x‖‖z‖), 0 where x or z is zero.

    Examples
    --------
    >>> import numpy as np
    >>> Cosine()(np.array([[2.0, 0.0], [3.0, 3.0], [0.0, 0.0]])).round(3)
    array([[1.   , 0.707, 0.   ],
           [0.707, 1.   , 0.   ],
           [0.   , 0.   , 0.   ]])
    """

    _short = "cosine"

    def _quantity(self) -> Quantity:
        return Cosines(RawProducts(self._inner()))

    def _diagonal(self, X: PreparedRows) -> np.ndarray:
        return (self._squared_norms(X) > 0).astype(np.float64)

    def features(self, X: Any) -> np.ndarray:
        """The selected columns divided by their norms (zero rows stay zero), shape (n, d)."""
        data = self._dense_columns(X)
        norms = np.sqrt(np.einsum("ij,ij->i", data, data, dtype=np.float64))
        return data / np.where(norms > 0, norms, 1.0)[:, None].astype(data.dtype)


@parameters
class RBF(DistanceKernel, InnerProductKernel):
    """k(x, z) = exp(−‖x − z‖² / bandwidth).

    Parameters
    ----------
    bandwidth : float or str, default="mean"
        A positive number, a rule, or a multiple of a rule such as "0.25*mean". Rules are fitted on training data:

        - "mean": the mean distance over all n² pairs of samples, the n zeros of a sample with itself included,
          exactly up to 5,000 samples and on a fixed subsample of 5,000 beyond;
        - "median": the median distance over pairs i < j of at most 2,000 samples;
        - "scale": the width that the spread of the columns suggests, d·var(X) for squared Euclidean distances
          (the inverse of scikit-learn's ``gamma="scale"``) and d·std(X) for L1 distances.
    gamma : float or "scale", optional
        1 / bandwidth, as in scikit-learn; instead of ``bandwidth``. "scale" is 1 / (d var(X)) on the training
        data, d the number of selected columns.
    columns, name
        See :class:`Kernel`.

    Attributes
    ----------
    bandwidth_ : float

    Examples
    --------
    >>> import numpy as np
    >>> kernel = RBF(bandwidth="2*mean").fit(np.array([[0.0], [2.0]]))
    >>> kernel.bandwidth_
    4.0
    >>> kernel(np.array([[1.0]]), np.array([[1.0], [3.0]])).round(3)
    array([[1.   , 0.368]])
    """

    bandwidth: float | str = "mean"
    gamma: float | str | None = None

    _short = "rbf"

    def _fit_parameters(self, training: TrainingSet) -> None:
        if self.gamma is None:
            super()._fit_parameters(training)
            return
        if self.bandwidth != "mean":
            raise ValueError(
                f"give bandwidth={self.bandwidth!r} or gamma={self.gamma!r}, not both; gamma is 1 / bandwidth."
            )
        self.bandwidth_ = 1.0 / self._fitted_gamma(self.gamma, training)

    def _quantity(self) -> Quantity:
        return SquaredDistances(self._inner())

    def _description(self) -> str:
        return super()._description() if self.gamma is None else f"rbf(gamma={shown(self.gamma)})"
