"""What problems in the primal share: solutions are kernel weights and one alpha for all kernels, without a bias."""

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import eigh, lapack

from multikernel.gram import GramStack, KernelRows
from multikernel.gram.lowrank import Features
from multikernel.problems.certificate import UNIT, Rounding, largest_scores
from multikernel.problems.weight_sets import LpBall, lp_norm, nearest
from multikernel.runtime.clock import PANEL, check, cholesky, left

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]
# Smallest share of the largest weight that a kernel can fall to while weights are learnt.
SMALLEST_SHARE = 1e-12


class PrimalProblem:
    """A problem on ``Σ_j weights_j K_j``, which is kept; values that certificates are made of, with their rounding.

    A subclass has a ``weight_set``, and ``scores(weights, alpha)`` and ``squares(alpha)``, which solvers use as well.
    Kernels of the square stack may use ``memory`` bytes.
    """

    weight_set: LpBall
    kernel_dtype: type | None = np.float64  # of the combined kernel; None: that of the stack
    features: Features | None = None  # of all kernels, where products with them take the place of kernels

    def __init__(self, stack: GramStack, memory: int):
        self.stack, self.memory = stack, memory
        self.rounding = Rounding(stack)
        self._precise = False
        self._kernel: tuple[Vector, Matrix] | None = None

    @property
    def n_kernels(self) -> int:
        """Number of kernels F."""
        return self.stack.n_kernels

    def repaired(self, weights: NDArray, alpha: NDArray) -> tuple[NDArray, NDArray]:
        """The nearest weights of the set; any alpha is feasible."""
        return nearest(self.weight_set, weights), alpha

    def inside(self, weights: Vector, floor: float = SMALLEST_SHARE) -> Vector:
        """Weights scaled to the boundary of their set, none below ``floor`` of the largest: zero would stay zero."""
        if self.weight_set.is_box:
            return np.ones(len(weights))
        weights = np.maximum(weights, floor * weights.max(initial=1e-300))
        return weights / lp_norm(weights, self.weight_set.p)

    # -- the kernel ------------------------------------------------------------------------------------------------

    @property
    def fits_combined(self) -> bool:
        """Whether a matrix (n, n) takes at most a quarter of the memory."""
        return len(self.stack) ** 2 * 8 <= self.memory // 4

    def rows(self, weights: NDArray) -> KernelRows:
        """Rows of ``Σ_j weights_j K_j`` for compiled loops: all of them where they fit."""
        whole = self.kernel(weights)[None] if self.fits_combined else None
        return KernelRows(self.stack, self.memory, weights, whole)

    def kernel(self, weights: NDArray) -> Matrix:
        """``Σ_j weights_j K_j``, shape (n, n); the last one is kept."""
        if self._kernel is None or not np.array_equal(self._kernel[0], weights):
            self._kernel = None  # room for the next
            self._kernel = np.array(weights), self.stack.combine(weights, self.kernel_dtype)
        return self._kernel[1]

    def scores(self, weights: NDArray, alpha: Matrix) -> Matrix:
        """``Σ_j weights_j K_j alpha``, shape (n, T)."""
        raise NotImplementedError

    def squares(self, alpha: Matrix) -> Vector:
        """``‖Σ_i alpha_i φ_j(x_i)‖²`` of each kernel, shape (F,)."""
        raise NotImplementedError

    # -- for certificates --------------------------------------------------------------------------------------------

    def sharpen(self) -> bool:
        """Compute as if in twice the precision from now on; False if that is so, or if it would not help."""
        if self._precise or (self.stack.explicit and self.features is None):  # entries are rounded themselves
            return False
        self._precise = True
        return True

    def rounded_scores(self, weights: NDArray, alpha: Matrix) -> tuple[Matrix, Matrix]:
        """``scores``, and what they may be off by."""
        if not self._precise:
            off = self.rounding.of_scores(weights, alpha)
            if self.kernel_dtype is None and self.stack.dtype != np.float64:
                # entries of the sum are rounded once more
                entries = np.finfo(self.stack.dtype).eps
                off = off + entries * largest_scores(weights @ self.rounding.roots**2, alpha)
            return self.scores(weights, alpha), off
        if self.features is not None:
            w, _, off = self._precise_norms(alpha)
            weighted = weights[self.features.owner, None] * w
            return self.features.scores(weighted), (self.rounding.roots * weights[:, None]).T @ off
        products = self.stack.apply_precisely(alpha)
        sizes = np.tensordot(weights, np.abs(products), axes=1)
        return np.tensordot(weights, products, axes=1), self.rounding.of_scores(weights, alpha, sizes)

    def rounded_squares(self, alpha: Matrix) -> tuple[Vector, Vector]:
        """``squares``, and what they may be off by."""
        if not self._precise:
            return self.squares(alpha), self.rounding.of_forms(alpha)
        if self.features is not None:
            _, norms, off = self._precise_norms(alpha)
            return (norms**2).sum(axis=1), (off * (2.0 * norms + off)).sum(axis=1)
        products = self.stack.apply_precisely(alpha)
        forms = np.einsum("fnt,nt->f", products, alpha)
        sizes = np.einsum("fnt,nt->f", np.abs(products), np.abs(alpha))
        return np.maximum(forms, 0.0), self.rounding.of_forms(alpha, sizes)

    def _precise_norms(self, alpha: Matrix) -> tuple[Matrix, Matrix, Matrix]:
        """``Σ_i alpha_i φ(x_i)`` (R, T), the norms of its parts by kernel (F, T), and what those may be off by."""
        assert self.features is not None
        w = self.features.onto(alpha, precise=True)
        norms = np.sqrt(self.features.by_kernel(w**2))
        sizes = self.rounding.roots @ np.abs(alpha)
        return w, norms, (self.features.rank + 8) * UNIT * norms + ((len(alpha) + 4) * UNIT) ** 2 * sizes


def checked_weights(sample_weight: ArrayLike | None, n: int) -> NDArray[np.float64]:
    """Weights of n samples, ones by default; an error if none of them counts."""
    weight = np.ones(n) if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
    if not weight.sum() > 0.0:
        raise ValueError("all sample weights are zero: give at least one sample a positive weight.")
    return weight


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
