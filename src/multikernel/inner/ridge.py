"""Kernels plus a ridge, factorised: dense by Cholesky, low-rank in the space of the features."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh, lapack

Matrix = NDArray[np.float64]


class CholeskyFactor:
    """``K + λI`` factorised in double precision.

    A kernel that is indefinite by more than λ, if only by rounding to single precision, has no Cholesky factor. Then
    its negative eigenvalues are set to zero; the certificate, which reads the kernel itself, tells what that changed.

    Parameters
    ----------
    K : ndarray of shape (n, n)
        Symmetric; it is not changed.
    reg : float
        The ridge λ.

    Examples
    --------
    >>> import numpy as np
    >>> from multikernel.inner.ridge import CholeskyFactor
    >>> CholeskyFactor(np.diag([1.0, 3.0]), 1.0).solve(np.ones((2, 1))).ravel()
    array([0.5 , 0.25])
    """

    def __init__(self, K: NDArray, reg: float):
        system = np.array(K, dtype=np.float64, order="C")
        system.ravel()[:: len(K) + 1] += reg
        # the transpose of a symmetric array in C order is the same matrix in the order that LAPACK wants: no copy
        self._factor, failed = lapack.dpotrf(system.T, lower=1, overwrite_a=1, clean=0)
        self._vectors: Matrix | None = None
        if failed:
            values, self._vectors = eigh(np.asarray(K, dtype=np.float64), check_finite=False)
            self._roots = np.sqrt(np.maximum(values, 0.0) + reg)

    def solve(self, right: Matrix) -> Matrix:
        """``(K + λI)⁻¹ right``, shape (n, c)."""
        if self._vectors is not None:
            return self._vectors @ ((self._vectors.T @ right) / self._roots[:, None] ** 2)
        return lapack.dpotrs(self._factor, right, lower=1)[0]

    def whiten(self, right: Matrix) -> Matrix:
        """``R right`` with ``R'R = (K + λI)⁻¹``: inner products of the result are those of the inverse."""
        if self._vectors is not None:
            return (self._vectors.T @ right) / self._roots[:, None]
        return lapack.dtrtrs(self._factor, right, lower=1)[0]

    def inverse_diagonal(self) -> NDArray[np.float64]:
        """Diagonal of ``(K + λI)⁻¹``, shape (n,)."""
        if self._vectors is not None:
            return ((self._vectors / self._roots) ** 2).sum(axis=1)
        return np.diag(lapack.dpotri(self._factor, lower=1)[0]).copy()
