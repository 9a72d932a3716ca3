"""Cholesky factors within a time limit, with the ridge that they need, and of kernels plus a given ridge."""

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh, lapack

from multikernel.gram.lowrank import Features
from multikernel.runtime.clock import check, left

Matrix = NDArray[np.float64]

# Rows from which on a factorisation that is to end in time is made of parts, and the columns of a part. As a whole it
# is a quarter faster.
LARGE, PANEL = 5000, 512


def cholesky(A: Matrix) -> tuple[Matrix, int]:
    """Lower Cholesky factor of A, which is in Fortran order and is overwritten; and 0 unless it failed."""
    n = len(A)
    if n < LARGE or left() == np.inf:
        return lapack.dpotrf(A, lower=1, overwrite_a=1, clean=0)
    for start in range(0, n, PANEL):
        stop = min(start + PANEL, n)
        factor, failed = lapack.dpotrf(A[start:stop, start:stop], lower=1, clean=0)
        if failed:
            return A, start + failed
        A[start:stop, start:stop] = factor
        A[stop:, start:stop] = lapack.dtrtrs(factor, A[stop:, start:stop].T, lower=1)[0].T
        for first in range(stop, n, PANEL):
            check()
            last = min(first + PANEL, n)
            A[first:, first:last] -= (A[first:last, start:stop] @ A[first:, start:stop].T).T
    return A, 0


def ridged_cholesky(A: NDArray, least: float = 1e-14, most: float = 1e18) -> Matrix:
    """Lower Cholesky factor of A with the smallest ridge in a geometric sequence that makes it succeed.

    ``least`` and ``most`` are the first and the last one tried, relative to the mean of the diagonal.
    """
    size, ridge = float(A.trace()) / len(A), least
    size = size if size > 1e-280 else 1.0  # beside nothing any ridge is small, and a tiny one overflows
    while ridge <= most:
        shifted = A.astype(np.float64, order="F")
        shifted.ravel(order="K")[:: len(A) + 1] += ridge * size
        factor, failed = cholesky(shifted)
        if not failed:
            return factor
        ridge = max(100.0 * ridge, 1e-15)
    raise np.linalg.LinAlgError("the kernel is not positive semi-definite")


class CholeskyFactor:
    """``K + reg I`` factorised in double precision; K, of shape (n, n), is not changed.

    A kernel that is indefinite by more than ``reg``, if only by rounding to single precision, has no Cholesky factor.
    Then its negative eigenvalues are set to zero; the certificate, which reads the kernel itself, tells what that
    changed.
    """

    def __init__(self, K: NDArray, reg: float | NDArray):
        system = np.array(K, dtype=np.float64, order="C")
        system.ravel()[:: len(K) + 1] += reg
        # the transpose of a symmetric array in C order is the same matrix in the order that LAPACK wants: no copy
        self._factor, failed = cholesky(system.T)
        self._vectors: Matrix | None = None
        if failed:
            least = float(np.min(reg))
            rest = np.asarray(K, dtype=np.float64) + np.diag(np.full(len(K), reg) - least)
            values, self._vectors = eigh(rest, check_finite=False)
            self._roots = np.sqrt(np.maximum(values, 0.0) + least)

    def solve(self, right: Matrix) -> Matrix:
        """``(K + reg I)⁻¹ right``, shape (n, c)."""
        if self._vectors is not None:
            return self._vectors @ ((self._vectors.T @ right) / self._roots[:, None] ** 2)
        return lapack.dpotrs(self._factor, right, lower=1)[0]

    def whiten(self, right: Matrix) -> Matrix:
        """``R right`` with ``R'R = (K + reg I)⁻¹``: inner products of the result are those of the inverse."""
        if self._vectors is not None:
            return (self._vectors.T @ right) / self._roots[:, None]
        return lapack.dtrtrs(self._factor, right, lower=1)[0]

    def inverse_diagonal(self) -> NDArray[np.float64]:
        """Diagonal of ``(K + reg I)⁻¹``, shape (n,)."""
        if self._vectors is not None:
            return ((self._vectors / self._roots) ** 2).sum(axis=1)
        if left() == np.inf:
            return np.diag(lapack.dpotri(self._factor, lower=1)[0]).copy()
        n, diagonal = len(self._factor), np.empty(len(self._factor))
        for start in range(0, n, PANEL):  # columns of the inverse of the factor, in time
            check()
            units = np.eye(n, min(PANEL, n - start), -start)
            diagonal[start : start + PANEL] = (self.whiten(units) ** 2).sum(axis=0)
        return diagonal


class LowRankRidge:
    """``λ + W K`` with W = diag(bent) and K = Z Z', factorised in the space of Z: features times roots of weights.

    ``products`` (R, R) are ``features.products(bent)``, if they are known.
    """

    def __init__(
        self, features: Features, weights: NDArray, lam: float, bent: NDArray, products: Matrix | None = None
    ):
        self.features, self.lam, self.bent = features, lam, bent
        self.roots = np.sqrt(weights)[features.owner, None]
        products = features.products(bent) if products is None else products
        self.factor = CholeskyFactor(self.roots * products * self.roots.T, lam)

    def solve(self, right: Matrix) -> Matrix:
        """``(λ + W K)⁻¹ right = (right − W Z (λ + Z'W Z)⁻¹ Z' right) / λ``, shape (n, c)."""
        inside = self.factor.solve(self.roots * self.features.onto(right))
        return (right - self.bent[:, None] * self.features.scores(self.roots * inside)) / self.lam

    def form(self, scores: NDArray) -> Matrix:
        """``λ u_j'(λ W⁻¹ + K)⁻¹ u_k`` for u of shape (F, n), shape (F, F)."""
        bent = self.bent * scores
        whitened = self.factor.whiten(self.roots * self.features.onto(bent.T))
        return bent @ scores.T - whitened.T @ whitened
