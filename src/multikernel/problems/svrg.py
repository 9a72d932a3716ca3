"""ℓp-norm MKL with a smooth loss: the problem, its certificate, and its kernel at given weights."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from multikernel.gram import GramStack, WeightedSum, combined_scores
from multikernel.problems.certificate import Certificate, Rounding
from multikernel.problems.losses import SmoothLoss
from multikernel.problems.primal import Matrix, PrimalProblem, Vector
from multikernel.problems.weight_sets import LpBall


class SmoothProblem(PrimalProblem):
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
    >>> from multikernel.problems.losses import SquaredHinge
    >>> problem = SmoothProblem(DenseStack(np.eye(2)[None]), SquaredHinge([1.0, -1.0]), lam=1.0)
    >>> proof = problem.certificate(np.ones(1), np.array([[0.5], [-0.5]]))
    >>> round(proof.primal, 12), round(proof.dual, 12)
    (0.5, 0.5)
    """

    def __init__(self, stack: GramStack, loss: SmoothLoss, lam: float, p: float = 1.5, *, memory: int = 1 << 30):
        super().__init__(stack, memory)
        self.loss, self.lam, self.weight_set = loss, float(lam), LpBall(float(p))
        self._squares: tuple[Matrix, Vector] | None = None
        self.passes = 0.0  # over the samples: products with a kernel, and epochs; certificates do not count

    def start(self) -> tuple[Vector, Matrix]:
        """Equal weights, and alpha = 0."""
        return self.weight_set.start(self.n_kernels), np.zeros((len(self.loss), self.loss.n_scores))

    def intercept(self, weights: NDArray, alpha: NDArray) -> Vector:
        """Zero for every score: the problem has no bias."""
        return np.zeros(self.loss.n_scores)

    # -- what a solution is worth ----------------------------------------------------------------------------------

    def certificate(self, weights: NDArray, alpha: NDArray) -> Certificate:
        """g(w, d) and the bound that the dual point of its scores proves, or ``lam alpha`` if that proves more.

        ``alpha`` may have shape (F, n, T): then kernel j has coefficients of its own, ``w_j = Σ_i alpha_ji
        φ_j(x_i)``.
        """
        passes, shared = self.passes, alpha.ndim < 3
        if shared:
            alpha = as_matrix(alpha)
            scores, off = self.rounded_scores(weights, alpha)
            norms, norms_off = (float(x[0]) for x in _inner(alpha[None], scores[None], off[None]))
        else:
            shares = self.scores_of_blocks(alpha)
            share_off = np.stack([self.rounding.of_scores(unit, a) for unit, a in zip(np.eye(len(alpha)), alpha)])
            scores, off = shares.sum(axis=0), share_off.sum(axis=0)
            norms, norms_off = (_divided(part, weights) for part in _inner(alpha, shares, share_off))
        bound, bound_off = self._bound(-self.loss.gradient(scores))
        if shared and self.own_bound(alpha, scores) > bound:
            bound, bound_off = max((bound, bound_off), self._bound(self.lam * alpha))
        self.passes = passes
        primal = 0.5 * self.lam * norms + self.loss.value(scores)
        rounding = 0.5 * self.lam * norms_off + self.loss.error(scores, off)
        return Certificate(primal + rounding, bound, rounding=rounding + bound_off)

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

    def _bound(self, dual: Matrix) -> tuple[float, float]:
        """D(dual), a lower bound on the optimum, and how much of it was taken off for rounding."""
        if self.loss.feasible(dual) is None:
            return float("-inf"), 0.0
        linear, lost, squares, off = self.dual_parts(dual)
        plain, safe = (self.weight_set.support(forms) / (2.0 * self.lam) for forms in (squares, squares + off))
        return linear - lost - safe, lost + safe - plain

    def dual_parts(self, dual: Matrix) -> tuple[float, float, Vector, Vector]:
        """Dual value of the loss and ``‖θ_j‖²`` of a dual point, each followed by what it may be off by."""
        feasible = self.loss.feasible(dual)
        assert feasible is not None
        squares, off = self.rounded_squares(feasible)
        off = off + self.rounding.of_shift(self.loss.slack * float(np.abs(feasible).sum()), squares)
        return self.loss.dual_value(feasible), self.loss.dual_error(feasible), squares, off

    # -- kernels -----------------------------------------------------------------------------------------------------

    def scores(self, weights: NDArray, alpha: Matrix) -> Matrix:
        """``Σ_j weights_j K_j alpha``, shape (n, T)."""
        self.passes += 1.0
        if self.fits_combined and not self.stack.explicit:
            return self.kernel(weights) @ alpha
        return combined_scores(self.stack, WeightedSum(weights, np.float64), alpha)

    def squares(self, alpha: Matrix) -> Vector:
        """``‖θ_j(alpha)‖²``, shape (F,); the last are kept."""
        if self._squares is None or not np.array_equal(self._squares[0], alpha):
            found = self.stack.summed_forms(alpha)
            self._squares = np.array(alpha), np.maximum(found, 0.0)
        return self._squares[1]


def as_matrix(alpha: NDArray) -> Matrix:
    """Coefficients as a matrix (n, T); one column may come without its axis."""
    alpha = np.asarray(alpha, dtype=np.float64)
    return alpha[:, None] if alpha.ndim == 1 else alpha


def _inner(a: NDArray, b: NDArray, off: NDArray) -> tuple[Vector, Vector]:
    """``⟨a_j, b_j⟩`` of each j, and what that may be off by if b is, by ``off``."""
    return np.einsum("fnt,fnt->f", a, b), Rounding.of_inner(a, b, off)


def _divided(squares: Vector, weights: Vector) -> float:
    """``Σ_j squares_j / weights_j`` with 0/0 = 0."""
    used = squares > 0.0
    with np.errstate(divide="ignore"):
        return float((squares[used] / weights[used]).sum())
