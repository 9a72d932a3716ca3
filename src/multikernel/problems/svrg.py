"""ℓp-norm MKL with a smooth loss: the problem, its certificate, and its kernel at given weights."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from multikernel.gram import GramStack
from multikernel.gram.combination import WeightedSum, combined_scores
from multikernel.problems.certificate import Certificate
from multikernel.problems.losses.smooth import SmoothLoss
from multikernel.problems.weight_sets import LpBall, nearest
from multikernel.runtime.clock import check

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]
# Samples whose features are copied at a time.
BLOCK = 2048


class SmoothProblem:
    """``min over w, d of  g(w, d) = lam/2 Σ_j ‖w_j‖² / d_j + loss(w)``, d >= 0, ``‖d‖_p <= 1`` [AOJS16, eq. (1)].

    The best d for w is a closed form [AOJS16, eq. (2)], which leaves ``lam/2 ‖w‖²_{2,r} + loss(w)`` with the group
    norm r = 2p/(p+1) of :mod:`multikernel.problems.obscure`. A solution is written as ``w_j = weights_j Σ_i alpha_i
    φ_j(x_i)``, so that scores are ``Σ_j weights_j K_j alpha``. The dual point of its scores f is ``A_i = -c_i
    ℓ'(f_i)``; with θ_j(A) = Σ_i A_i φ_j(x_i)

        D(A) = -Σ_i c_i ℓ*(-A_i / c_i) - 1/(2 lam) ‖(‖θ_j(A)‖²)_j‖_{p/(p-1)}  <=  optimum  <=  g(w, d).

    Parameters
    ----------
    stack : GramStack
        Training kernels, square.
    loss : SmoothLoss
        The loss, with targets and sample weights.
    lam : float
        Factor of the regulariser.
    p : float
        Norm of the kernel weights, at least 1.
    memory : int
        Bytes that solvers may use for kernels.

    Examples
    --------
    >>> import numpy as np
    >>> from multikernel.gram import DenseStack
    >>> from multikernel.problems.svrg import SmoothProblem
    >>> from multikernel.problems.losses.smooth import SquaredHinge
    >>> problem = SmoothProblem(DenseStack(np.eye(2)[None]), SquaredHinge([1.0, -1.0]), lam=1.0)
    >>> proof = problem.certificate(np.ones(1), np.array([[0.5], [-0.5]]))
    >>> proof.primal, proof.dual
    (0.5, 0.5)
    """

    def __init__(self, stack: GramStack, loss: SmoothLoss, lam: float, p: float = 1.5, *, memory: int = 1 << 30):
        self.stack, self.loss, self.lam, self.memory = stack, loss, float(lam), memory
        self.weight_set = LpBall(float(p))
        self._kernel: tuple[Vector, Matrix] | None = None
        self._squares: tuple[Matrix, Vector] | None = None
        self.passes = 0.0  # over the samples: products with a kernel, and epochs; certificates do not count

    @property
    def n_kernels(self) -> int:
        """Number of kernels F."""
        return self.stack.n_kernels

    def start(self) -> tuple[Vector, Matrix]:
        """Equal weights, and alpha = 0."""
        return self.weight_set.start(self.n_kernels), np.zeros((len(self.loss), self.loss.n_scores))

    def settled(self, weights: NDArray, alpha: NDArray) -> tuple[NDArray, NDArray]:
        """The nearest weights of the set; any alpha is feasible."""
        return nearest(self.weight_set, weights), alpha

    def intercept(self, weights: NDArray, alpha: NDArray) -> Vector:
        """Zero for every score: the problem has no bias."""
        return np.zeros(self.loss.n_scores)

    # -- what a solution is worth ----------------------------------------------------------------------------------

    def certificate(self, weights: NDArray, alpha: NDArray) -> Certificate:
        """g(w, d) and the bound that the dual point of its scores proves, or ``lam alpha`` if that proves more.

        ``alpha`` may have shape (F, n, T): then kernel j has coefficients of its own, ``w_j = Σ_i alpha_ji
        φ_j(x_i)``."""
        if alpha.ndim == 3:
            shares = self.scores_of_blocks(alpha)
            norms = np.einsum("fnt,fnt->f", shares, alpha)
            scores, penalty = shares.sum(axis=0), 0.5 * self.lam * penalty_of(norms, weights)
        else:
            alpha, passes = as_matrix(alpha), self.passes
            scores, self.passes = self.scores(weights, alpha), passes
            penalty = 0.5 * self.lam * float(np.vdot(alpha, scores))
        bound = self.lower_bound(-self.loss.gradient(scores))
        if alpha.ndim == 2 and self.own_bound(alpha, scores) > bound:
            bound = max(bound, self.lower_bound(self.lam * alpha))
        return Certificate(penalty + self.loss.value(scores), bound)

    def own_bound(self, alpha: Matrix, scores: Matrix) -> float:
        """What ``lam alpha`` as a dual point could prove at most: its dual value with the weights of ``scores``.

        Of an alpha that solves the dual at fixed weights it proves far more than the dual point of its scores where
        the problem is badly conditioned: that one is as many times less exact. Costs no product with a kernel;
        ``-inf`` where alpha is not within its bounds.
        """
        return self.loss.dual_value(self.lam * alpha) - 0.5 * self.lam * float(np.vdot(alpha, scores))

    def scores_of_blocks(self, alpha: NDArray) -> NDArray[np.float64]:
        """``K_j alpha_j`` for coefficients (F, n, T), shape (F, n, T)."""
        return np.stack([self.stack.take(kernels=[j]).apply(a)[0] for j, a in enumerate(alpha)])

    def lower_bound(self, dual: Matrix) -> float:
        """D(dual), a lower bound on the optimum."""
        value = self.loss.dual_value(dual)
        return value - self.weight_set.support(self.squares(dual)) / (2.0 * self.lam)

    def squares(self, alpha: Matrix) -> Vector:
        """``‖θ_j(alpha)‖²``, shape (F,); the last are kept."""
        if self._squares is None or not np.array_equal(self._squares[0], alpha):
            if self.stack.explicit:
                parts = (self._onto_features(alpha) ** 2).sum(axis=1)
                found = np.add.reduceat(parts, np.cumsum(self.ranks) - self.ranks)
            elif self.stack.stored and self.fits_combined:
                found = self.stack.summed_forms(alpha)
            else:
                found = self.stack.quadratic_forms(alpha).sum(axis=1)
            self._squares = np.array(alpha), np.maximum(found, 0.0)
        return self._squares[1]

    # -- the kernel at given weights ---------------------------------------------------------------------------------

    def scores(self, weights: NDArray, alpha: Matrix) -> Matrix:
        """``Σ_j weights_j K_j alpha``, shape (n, T)."""
        self.passes += 1.0
        if self.stack.explicit:
            return self.from_features(self.vector(weights, alpha))
        if self.fits_combined:
            return self.kernel(weights) @ alpha
        return combined_scores(self.stack, WeightedSum(weights), alpha)

    @property
    def fits_combined(self) -> bool:
        """Whether a matrix (n, n) takes at most a quarter of the memory."""
        return len(self.stack) ** 2 * 8 <= self.memory // 4

    def kernel(self, weights: NDArray) -> Matrix:
        """``Σ_j weights_j K_j``, shape (n, n), in double precision; the last one is kept."""
        if self._kernel is None or not np.array_equal(self._kernel[0], weights):
            self._kernel = None  # room for the next
            self._kernel = np.array(weights), self.stack.combine(weights).astype(np.float64, copy=False)
        return self._kernel[1]

    @cached_property
    def features(self) -> NDArray:
        """Explicit features of all kernels side by side, shape (n, Σ rank).

        In double precision if that takes at most a quarter of the memory: products need it, and converting single
        precision takes as long as they do.
        """
        doubles = 8 * len(self.stack) * int(self.ranks.sum()) <= self.memory // 4
        return self.stack.features(np.float64 if doubles else None)

    @property
    def ranks(self) -> NDArray[np.intp]:
        """Number of explicit features of each kernel."""
        return self.stack.ranks

    def vector(self, weights: NDArray, alpha: Matrix) -> Matrix:
        """w in explicit features, shape (Σ rank, T)."""
        return np.repeat(weights, self.ranks)[:, None] * self._onto_features(alpha)

    def from_features(self, vector: Matrix) -> Matrix:
        """Scores of a w in explicit features, shape (n, T)."""
        return np.vstack([block.astype(np.float64, copy=False) @ vector for _, block in self._feature_blocks()])

    def _onto_features(self, alpha: Matrix) -> Matrix:
        """``Σ_i alpha_i φ(x_i)``, shape (Σ rank, T)."""
        parts = (block.astype(np.float64, copy=False).T @ alpha[rows] for rows, block in self._feature_blocks())
        return sum(parts, start=np.zeros((self.features.shape[1], alpha.shape[1])))

    def _feature_blocks(self) -> Iterator[tuple[slice, NDArray]]:
        """Rows of the features, few enough at a time that a copy in double precision does not matter."""
        size = len(self.features) if self.features.dtype == np.float64 else BLOCK
        for start in range(0, len(self.features), size):
            check()
            rows = slice(start, start + size)
            yield rows, self.features[rows]


def as_matrix(alpha: NDArray) -> Matrix:
    """Coefficients as a matrix (n, T); one column may come without its axis."""
    alpha = np.asarray(alpha, dtype=np.float64)
    return alpha[:, None] if alpha.ndim == 1 else alpha


def penalty_of(squares: Vector, weights: Vector) -> float:
    """``Σ_j ‖w_j‖² / d_j`` with 0/0 = 0."""
    used = squares > 0.0
    with np.errstate(divide="ignore"):
        return float((squares[used] / weights[used]).sum())
