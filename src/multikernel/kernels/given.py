"""Kernels that come from elsewhere: distance or kernel matrices, functions, Gaussian-process kernels."""

import numbers
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.sparse import issparse

from multikernel.io.state import array, attributes
from multikernel.kernels.base import DistanceKernel, Kernel, parameters
from multikernel.kernels.quantities import PreparedRows, Quantity, Rows, TrainingSet, Window, take_columns


def _dense(X: Any) -> np.ndarray:
    return X.toarray() if issparse(X) else np.asarray(X)


class GivenValues(Quantity):
    """Rows of a matrix that the caller brings, or of slice f of a stack of shape (n, n_train, F)."""

    def prepare(self, X: Any, dtype: Any) -> Rows:
        X = _dense(X)
        return Rows(X if X.ndim == 2 else X[:, :, self.columns[0]])

    def compute(self, window: Window) -> np.ndarray:
        values = window.X.rows(self).data[window.start : window.stop, window.first :]
        return values.astype(window.X.dtype)

    def subset(self, X: Any, rows: np.ndarray) -> Any:
        return _dense(X)[np.ix_(rows, rows)]

    def mean(self, training: TrainingSet) -> float:
        return float(training.prepared.rows(self).data.mean(dtype=np.float64))


class PairwiseKernel(Kernel):
    """A kernel whose X holds one column per training sample; ``columns`` picks a slice of a stack of them."""

    pairwise = True
    _state = attributes(columns_=array("iu", "selected", least=0))  # a matrix, if there are so many

    def _fit_columns(self, training: TrainingSet) -> None:
        X = _dense(training.X)
        if X.shape[0] != X.shape[1]:
            raise ValueError(
                f"it is fitted on a square matrix of the training samples, shape (n, n) or (n, n, F), not {X.shape}."
            )
        depth = X.shape[2] if X.ndim == 3 else 1
        index: Any = 0 if self.columns is None and depth == 1 else self.columns
        if not isinstance(index, numbers.Integral) or not -depth <= int(index) < depth:
            raise ValueError(
                f"columns={self.columns!r} must be a position among the {depth} matrices of X, which has shape "
                f"{X.shape}."
            )
        self.columns_, self.column_names_ = np.array([int(index) % depth]), None
        self.n_features_in_ = int(X.shape[1])

    def _quantity(self) -> GivenValues:
        return GivenValues(self.columns_)

    def _given_diagonal(self, X: PreparedRows) -> np.ndarray:
        values = X.rows(self._quantity()).data
        if values.shape[0] != values.shape[1]:
            raise ValueError(f"kernel {self.label!r}: a matrix of shape {values.shape} does not hold k(x, x).")
        return np.diagonal(values).astype(np.float64)


@parameters
class FromDistance(PairwiseKernel, DistanceKernel):
    """exp(−D / bandwidth) of a matrix of distances D that the caller brings.

    Positive semi-definite where the distance is conditionally negative definite, as χ², L1 and squared
    Euclidean distances are.

    Parameters
    ----------
    bandwidth : float or str, default="mean"
        A number, "mean" (of all entries of the training matrix), "median" (of its upper triangle) or a multiple.
    columns : int, optional
        Use X[:, :, columns] of X of shape (n, n, F).
    name : str, optional

    Examples
    --------
    >>> import numpy as np
    >>> D = np.array([[0.0, 2.0], [2.0, 0.0]])
    >>> FromDistance().fit(D)(D).round(3)
    array([[1.   , 0.135],
           [0.135, 1.   ]])
    """

    bandwidth: float | str = "mean"

    _short = "distance"

    def _fit_parameters(self, training: TrainingSet) -> None:
        self._refuse_negative(training.prepared.rows(self._quantity()).data)
        super()._fit_parameters(training)

    def _apply(self, values: np.ndarray, out: np.ndarray) -> None:
        with self._named_in_errors():
            self._refuse_negative(values)
        super()._apply(values, out)

    def _refuse_negative(self, values: np.ndarray) -> None:
        if values.size and values.min() < 0:
            raise ValueError(
                f"distances cannot be negative, but the smallest is {values.min():g}. For a matrix of kernel values "
                'use "precomputed".'
            )

    def _diagonal(self, X: PreparedRows) -> np.ndarray:
        return np.exp(-self._given_diagonal(X) / self.bandwidth_)


class Precomputed(PairwiseKernel):
    """A kernel matrix that the caller brings, as it is.

    Parameters
    ----------
    columns : int, optional
        Use X[:, :, columns] of X of shape (n, n, F).
    name : str, optional
    """

    _short = "precomputed"

    def _diagonal(self, X: PreparedRows) -> np.ndarray:
        return self._given_diagonal(X)


class FunctionValues(Quantity):
    """What a function of two blocks of rows returns; the kernel's own k(x, x) on the diagonal."""

    def __init__(self, columns: np.ndarray, kernel: Any) -> None:
        super().__init__(columns, id(kernel))
        self.kernel = kernel

    def prepare(self, X: Any, dtype: Any) -> Rows:
        return Rows(take_columns(X, self.columns, dtype))

    def compute(self, window: Window) -> np.ndarray:
        left, right = window.rows(self)
        values = self.kernel._between(left.data[window.start : window.stop], right.data[window.first :])
        values = values.astype(window.X.dtype)
        if window.square:
            self.kernel._check_symmetric(values)
            np.fill_diagonal(values, self.kernel._own(left.data[window.start : window.stop]))
        return values


class FunctionKernel(Kernel):
    """A kernel that calls ``_function()(A, B)`` on two blocks of rows."""

    def _function(self) -> Any:
        raise NotImplementedError

    def _quantity(self) -> FunctionValues:
        return FunctionValues(self.columns_, self)

    def _between(self, A: Any, B: Any) -> np.ndarray:
        values = self._function()(A, B)
        values = values.toarray() if hasattr(values, "toarray") else np.asarray(values)
        if values.shape != (A.shape[0], B.shape[0]):
            raise ValueError(
                f"kernel {self.label!r} returned shape {values.shape} for blocks of {A.shape[0]} and "
                f"{B.shape[0]} rows; it must return one value per pair."
            )
        return values

    def _own(self, A: Any) -> np.ndarray:
        """k(x, x) for each row: the diagonal of small blocks."""
        blocks = [A[start : start + 32] for start in range(0, A.shape[0], 32)]
        return np.concatenate([np.diagonal(self._between(block, block)) for block in blocks])

    def _check_symmetric(self, values: np.ndarray) -> None:
        block = values[:, : values.shape[0]]
        asymmetry = float(np.abs(block - block.T).max())
        if asymmetry > 1e-4 * float(np.abs(block).max()):
            raise ValueError(
                f"kernel {self.label!r} is not symmetric: k(x, z) and k(z, x) differ by up to {asymmetry:g} "
                f"(largest value {np.abs(block).max():g}). Kernels must be symmetric functions."
            )

    def _diagonal(self, X: PreparedRows) -> np.ndarray:
        return self._own(X.rows(self._quantity()).data).astype(np.float64)


@parameters
class FromFunction(FunctionKernel):
    """A function called on two blocks of rows, ``function(A, B) -> (len(A), len(B))``.

    Parameters
    ----------
    function : callable
        It sees the selected columns, as float arrays or CSR matrices, and is called once per block, not per pair.
    columns, name
        See :class:`Kernel`.

    Examples
    --------
    >>> import numpy as np
    >>> def cubic(A, B):
    ...     return (A @ B.T) ** 3
    >>> FromFunction(function=cubic)(np.array([[1.0], [2.0]]))
    array([[ 1.,  8.],
           [ 8., 64.]])
    """

    function: Callable[[Any, Any], np.ndarray] | None = None

    def _function(self) -> Any:
        return self.function

    def _fit_parameters(self, training: TrainingSet) -> None:
        if not callable(self.function):
            raise TypeError(f"function={self.function!r} cannot be called.")

    def _description(self) -> str:
        return getattr(self.function, "__name__", type(self.function).__name__)


@parameters
class FromGaussianProcess(FunctionKernel):
    """A kernel of ``sklearn.gaussian_process.kernels``, with its hyper-parameters as they are.

    Parameters
    ----------
    kernel : sklearn.gaussian_process.kernels.Kernel
    columns, name
        See :class:`Kernel`.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.gaussian_process.kernels import RBF
    >>> FromGaussianProcess(kernel=RBF(length_scale=2.0))(np.array([[0.0], [2.0]])).round(3)
    array([[1.   , 0.607],
           [0.607, 1.   ]])
    """

    kernel: Any = None

    def _function(self) -> Any:
        return self.kernel

    def _fit_parameters(self, training: TrainingSet) -> None:
        if not is_gaussian_process_kernel(self.kernel):
            raise TypeError(f"{self.kernel!r} is not a kernel of sklearn.gaussian_process.kernels.")

    def _check_loaded(self) -> None:
        if not is_gaussian_process_kernel(self.kernel):
            raise ValueError("kernel is not a scikit-learn kernel")
        if not np.isfinite(self._between(*2 * [np.zeros((1, len(self.columns_)))])).all():
            raise ValueError("its values are not finite")

    def _own(self, A: Any) -> np.ndarray:
        return self.kernel.diag(A)  # where a WhiteKernel puts its noise

    def _description(self) -> str:
        return str(self.kernel)


def is_gaussian_process_kernel(candidate: Any) -> bool:
    """Whether an object is a Gaussian-process kernel of scikit-learn, without importing that module in vain."""
    if not hasattr(candidate, "hyperparameters"):
        return False
    from sklearn.gaussian_process.kernels import Kernel as GaussianProcessKernel

    return isinstance(candidate, GaussianProcessKernel)
