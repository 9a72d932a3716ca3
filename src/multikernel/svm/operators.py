"""Kernels as the SVM solvers see them: a diagonal, blocks, and products with a vector."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from multikernel.runtime.threads import over_rows

# Largest squared distance between samples, relative to the kernel's largest entry, that leaves so few digits of it
# that an SVM on the kernel as it stands cannot be solved to the usual tolerances.
NEARLY_CONSTANT = 1e-8


@runtime_checkable
class KernelOperator(Protocol):
    """A symmetric kernel of shape (n, n) that need not be in memory."""

    shape: tuple[int, int]

    def diagonal(self) -> NDArray[np.float64]:
        """Diagonal, shape (n,)."""
        ...

    def submatrix(self, rows: NDArray[np.intp], columns: NDArray[np.intp]) -> NDArray:
        """Block K[rows][:, columns]."""
        ...

    def matvec(self, alpha: NDArray[np.float64]) -> NDArray[np.float64]:
        """K @ alpha, in double precision; entries of alpha that are zero should cost nothing."""
        ...


class DenseOperator:
    """A kernel in memory, read row by row (it is symmetric) and only where alpha is not zero.

    Parameters
    ----------
    K : ndarray of shape (n, n)
        Symmetric, float32 or float64. Single precision is kept as it is; sums are in double precision.
    threads : bool
        Whether to use all cores.

    Examples
    --------
    >>> import numpy as np
    >>> from multikernel.svm.operators import DenseOperator
    >>> DenseOperator(np.array([[2.0, 1.0], [1.0, 3.0]])).matvec(np.array([1.0, 0.0]))
    array([2., 1.])
    """

    def __init__(self, K: NDArray, *, threads: bool = True):
        self.K = _as_kernel_array(K)
        self.threads = threads
        self._diagonal = self.K.diagonal().astype(np.float64)
        self.shape = self.K.shape

    def diagonal(self) -> NDArray[np.float64]:
        """Diagonal as float64, shape (n,)."""
        return self._diagonal

    def submatrix(self, rows: NDArray[np.intp], columns: NDArray[np.intp]) -> NDArray:
        """Contiguous copy of K[rows][:, columns]."""
        from multikernel.compiled.smo import gather

        out = np.empty((len(rows), len(columns)), dtype=self.K.dtype)
        self._over_rows(lambda a, b: gather(self.K, rows, columns, out, a, b), len(rows), out.size)
        return out

    def matvec(self, alpha: NDArray[np.float64]) -> NDArray[np.float64]:
        """K @ alpha from the rows of K where alpha is not zero."""
        from multikernel.compiled.smo import weighted_rows

        rows = np.flatnonzero(alpha)
        weights, out = alpha[rows], np.zeros(self.shape[0])
        # each column is summed in the same order whatever the number of threads: the result never depends on it
        self._over_rows(lambda a, b: weighted_rows(self.K, rows, weights, out, a, b), out.size, out.size * len(rows))
        return out

    def _over_rows(self, function: Callable[[int, int], None], n_rows: int, work: int) -> None:
        # threads cost tens of microseconds to start
        over_rows(function, n_rows, work=work / 20 if self.threads else 0)


def _as_kernel_array(K: NDArray) -> NDArray:
    """Check the shape of a kernel in memory and give it a layout the compiled code accepts."""
    K = np.asarray(K)
    if K.ndim != 2 or K.shape[0] != K.shape[1]:
        raise ValueError(f"An SVM needs a square kernel, got shape {K.shape}. Pass the training kernel, (n, n).")
    dtype = np.float32 if K.dtype == np.float32 else np.float64
    return np.ascontiguousarray(K, dtype=dtype)


def as_operator(K: NDArray | KernelOperator) -> KernelOperator:
    """Wrap an array in a :class:`DenseOperator`; return anything else that has the methods as it is."""
    if not isinstance(K, np.ndarray) and isinstance(K, KernelOperator):
        return K
    return DenseOperator(K)


def is_finite(operator: KernelOperator) -> bool:
    """Whether a kernel in memory has finite entries only; one that is not in memory is believed."""
    return not isinstance(operator, DenseOperator) or bool(np.isfinite(operator.K).all())


def is_far_from_origin(operator: KernelOperator) -> bool:
    """Whether a kernel in memory is nearly constant: samples lie much closer to each other than to the origin."""
    if not isinstance(operator, DenseOperator) or not operator.shape[0]:
        return False
    diagonal = operator.diagonal()
    distances = diagonal + diagonal[0] - 2.0 * operator.K[0]  # squared, from the first sample
    return bool(distances.max() < NEARLY_CONSTANT * diagonal.max())


def without_offset(operator: KernelOperator) -> KernelOperator:
    """A kernel in memory centred in feature space; one that is not in memory as it is.

    Where coefficients sum to zero, adding a function of the row and one of the column to the kernel changes the
    scores by a constant, which the bias takes up, and nothing else. Far from the origin (unscaled measurements, very
    wide kernels) differences between samples drown in rounding; about their mean they do not.
    """
    if not isinstance(operator, DenseOperator):
        return operator
    means = operator.K.mean(axis=1, dtype=np.float64)
    centred = operator.K - means[:, None]
    centred -= (means - means.mean())[None, :]
    return DenseOperator(((centred + centred.T) / 2).astype(operator.K.dtype), threads=operator.threads)
