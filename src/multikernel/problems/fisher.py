"""Multiple kernel Fisher discriminant analysis: the best kernel weights for a regularised discriminant [YMBCK10]."""

import copy
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from multikernel.gram.base import GramStack, format_bytes
from multikernel.gram.lowrank import Features
from multikernel.problems.certificate import UNIT, Certificate, LastValue, Rounding
from multikernel.problems.primal import CholeskyFactor, LowRankRidge, Matrix, PrimalProblem, Vector
from multikernel.problems.weight_sets import LpBall
from multikernel.runtime.clock import map_threads, one_blas_thread


def fisher_targets(codes: ArrayLike, n_classes: int, sample_weight: ArrayLike | None = None) -> Matrix:
    """Centred labels H, shape (n, 1) for two classes, else (n, M).

    Two classes: ``1/m₊`` for class 1 and ``−1/m₋`` for class 0 [YMBCK10, eq. (4)]. More: column k is
    ``√(n/m_k) − √(m_k/n)`` for class k and ``−√(m_k/n)`` for the others [YMBCK10, sect. 3.2]. Sample weights count in
    m_k and n. ``codes`` are classes 0 … M−1, each of which must occur.
    """
    codes = np.asarray(codes)
    counts = np.bincount(codes, sample_weight, minlength=n_classes).astype(np.float64)
    if len(counts) != n_classes or not counts.all():
        kind = "a sample" if sample_weight is None else "a sample of positive weight"
        raise ValueError(f"each of the {n_classes} classes needs {kind}; there are {counts.tolist()}.")
    if n_classes == 2:
        return np.where(codes == 1, 1.0 / counts[1], -1.0 / counts[0])[:, None]
    shares = counts / counts.sum()
    return (codes[:, None] == np.arange(n_classes)) / np.sqrt(shares) - np.sqrt(shares)


class FisherSystem:
    """``K(g) + λI`` for changing weights g, K of a square stack and λ = ``reg``; the last factorisation is kept."""

    def __init__(self, stack: GramStack, reg: float):
        if not (reg > 0.0 and np.isfinite(reg)):
            raise ValueError(f"reg={reg!r} must be positive: it keeps the linear system solvable, try 1e-3.")
        self.stack, self.reg, self.rounding = stack, float(reg), Rounding(stack)
        self.features: Features | None = None
        self.combined = LastValue(lambda weights: stack.combine(weights, np.float64))
        self.factor = LastValue(self._factorise)

    def with_reg(self, reg: float) -> Self:
        """The same kernels with another ridge, and the combined kernel as far as it is known."""
        other = copy.copy(self)
        other.reg, other.combined, other.factor = reg, copy.copy(self.combined), LastValue(other._factorise)
        return other

    def prepare(self, weights: NDArray) -> None:
        """Do what systems made by ``with_reg`` would each do for their first weights."""

    def _factorise(self, weights: NDArray) -> Any:
        raise NotImplementedError

    def solve(self, weights: NDArray, right: Matrix) -> Matrix:
        """``(K(g) + λI)⁻¹ right``, shape (n, c)."""
        return self.factor(weights).solve(right)


class DenseSystem(FisherSystem):
    """Kernels as matrices: a Cholesky factorisation of the combined kernel for each set of weights."""

    _last: tuple[Matrix, Matrix] | None = None

    def prepare(self, weights: NDArray) -> None:
        self.combined(weights)

    def _factorise(self, weights: NDArray) -> CholeskyFactor:
        return CholeskyFactor(self.combined(weights), self.reg)

    def scores(self, weights: NDArray, alpha: Matrix) -> Matrix:
        """``K(g) alpha``, shape (n, c)."""
        return self.combined(weights) @ alpha

    def squares(self, alpha: Matrix) -> Vector:
        """``⟨alpha, K_j alpha⟩``, shape (F,)."""
        if alpha.shape[1] == 1:  # the scores will serve the curvature as well
            return np.maximum(self._scores_of_each(alpha)[:, :, 0] @ alpha[:, 0], 0.0)
        return np.maximum(self.stack.summed_forms(alpha), 0.0)  # one pass over the kernels for all columns

    def _scores_of_each(self, alpha: Matrix) -> Matrix:
        """``K_j alpha``, shape (F, n, c); of a single column the last ones are remembered."""
        if alpha.shape[1] > 1:  # narrow products, which BLAS alone does at a third of the speed of memory
            each = [(self.stack.take(kernels=[j]), alpha) for j in range(self.stack.n_kernels)]
            with one_blas_thread():
                return np.concatenate(map_threads(type(self.stack).apply, each))
        if self._last is None or self._last[0] is not alpha:
            self._last = alpha, self.stack.apply(alpha[:, 0])[:, :, None]
        return self._last[1]

    def curvature(self, weights: NDArray, alpha: Matrix) -> Matrix:
        """``⟨K_i alpha, (K(g) + λI)⁻¹ K_j alpha⟩``, shape (F, F)."""
        scores = self._scores_of_each(alpha)
        F, n, c = scores.shape
        white = self.factor(weights).whiten(np.moveaxis(scores, 0, -1).reshape(n, c * F)).reshape(n * c, F)
        return white.T @ white

    def inverse_diagonal(self, weights: NDArray) -> Vector:
        """Diagonal of ``(K(g) + λI)⁻¹``, shape (n,)."""
        return self.factor(weights).inverse_diagonal()


class LowRankSystem(FisherSystem):
    """Kernels ``K_j = Φ_j Φ_j'`` with R features in all: nothing of size n² is made, and a factorisation is R × R.

    The products of all features are computed once; after that a set of weights costs O(R³ + nRc).
    """

    features: Features

    def __init__(self, stack: GramStack, reg: float):
        super().__init__(stack, reg)
        self.features = stack.features()
        self.rounding = Rounding(stack, self.features.terms)
        self.products = self.features.products()

    def _factorise(self, weights: NDArray) -> LowRankRidge:
        return LowRankRidge(self.features, weights, self.reg, np.ones(len(self.stack)), self.products)

    def scores(self, weights: NDArray, alpha: Matrix) -> Matrix:
        return self.features.scores(weights[self.features.owner, None] * self.features.onto(alpha))

    def squares(self, alpha: Matrix) -> Vector:
        return self.features.by_kernel((self.features.onto(alpha) ** 2).sum(axis=1))

    def curvature(self, weights: NDArray, alpha: Matrix) -> Matrix:
        ridge, total = self.factor(weights), np.zeros((self.stack.n_kernels, self.stack.n_kernels))
        own = self.features.owner[:, None] == np.arange(self.stack.n_kernels)
        for column in self.features.onto(alpha).T:
            parts = own * column[:, None]  # column j: the features of kernel j, so that Φ parts_j = K_j alpha
            image = self.products @ parts
            white = ridge.factor.whiten(ridge.roots * image)
            total += parts.T @ image - white.T @ white
        return 0.5 * (total + total.T) / self.reg

    def inverse_diagonal(self, weights: NDArray) -> Vector:
        ridge = self.factor(weights)
        white = ridge.factor.whiten(ridge.roots * self.features.array.T)
        return (1.0 - (white**2).sum(axis=0)) / self.reg


def fisher_system(stack: GramStack, reg: float, memory: int) -> DenseSystem | LowRankSystem:
    """The cheaper system for a stack; an error if an (n, n) matrix is needed and does not fit in ``memory``."""
    n = len(stack)
    if stack.explicit and stack.ranks.sum() < n:
        return LowRankSystem(stack, reg)
    if 2 * 8 * n**2 > memory:
        raise MemoryError(
            f"Fisher discriminant analysis of {n} samples factorises an (n, n) matrix: {format_bytes(16 * n**2)} "
            f"with its kernel, but memory allows {format_bytes(memory)}. Use kernels with explicit features, such as "
            "Nystroem(kernel=RBF(), rank=200), fewer samples, or raise memory=."
        )
    return DenseSystem(stack, reg)


class FisherProblem(PrimalProblem):
    """``min over g ≥ 0, ‖g‖_p ≤ 1 of J(g) = λ tr(H'(K(g) + λI)⁻¹H)``: minus the max-min problem [YMBCK10, eq. (15)].

    With centred labels H of shape (n, c) the inner problem is least squares with a ridge, and alpha so scaled that
    scores are ``K(g) alpha``:

        J(g)  =  min over w of  ‖Φw − H‖² + λ‖w‖²
              =  max over alpha of  λ (2⟨H, alpha⟩ − λ‖alpha‖² − ⟨alpha, K(g) alpha⟩),

    minus the value of [YMBCK10, eqs. (4) and (14)], whose alpha is 2λ times the one used here. J is convex, with
    gradient ``−λ⟨alpha, K_j alpha⟩``. In the form shared by all min-max problems, ``J(g) = max over alpha of
    linear(alpha) − ½ g·q(alpha)``, the forms are ``q_j = 2λ⟨alpha, K_j alpha⟩``. For any alpha and g

        dual objective with support_G(q) for g·q, at the best multiple of alpha   ≤   optimum   ≤
        ‖K(g) alpha − H‖² + λ⟨alpha, K(g) alpha⟩,

    which proves a solution without trusting how it was found.

    Weights s of samples make it ``Σ s_i ‖w·φ_i − h_i‖² + λ‖w‖²``. With D the diagonal matrix of √s that is the same
    problem with DΦ, DKD and DH in the place of Φ, K and H, so everything here is in these terms: kernels come as DKD,
    scores are D times the projections, and the coefficients of the discriminants are D alpha.

    The system has the kernels and λ; ``targets`` (n, c) are centred labels, see :func:`fisher_targets`.
    """

    def __init__(
        self,
        system: DenseSystem | LowRankSystem,
        targets: ArrayLike,
        weight_set: LpBall,
        sample_weight: ArrayLike | None = None,
    ):
        labels = np.array(targets, dtype=np.float64)
        if labels.ndim != 2:
            raise ValueError(f"targets have shape {labels.shape}, expected (n, c): one column per discriminant.")
        super().__init__(system.stack, memory=0)
        self.system, self.reg, self.weight_set = system, system.reg, weight_set
        self.features, self.rounding = system.features, system.rounding
        # diagonal of D (n,), DH (n, c), classes 0 … M−1 (n,), and √s_i where sample i is of a class, else 0 (n, M)
        self.roots = np.ones(len(labels)) if sample_weight is None else np.sqrt(np.asarray(sample_weight, float))
        self.targets = self.roots[:, None] * labels
        self.codes = (labels[:, 0] > 0.0).astype(np.intp) if labels.shape[1] == 1 else labels.argmax(axis=1)
        classes = np.arange(max(labels.shape[1], 2))
        self.member = self.roots[:, None] * (self.codes[:, None] == classes)
        self._squares = LastValue(system.squares)

    def start(self) -> tuple[NDArray, Matrix]:
        """Equal weights, and the alpha of a zero kernel."""
        return self.weight_set.start(self.n_kernels), self.targets / self.reg

    def solve_inner(self, weights: NDArray, warm: NDArray | None = None, tol: float = 0.0) -> tuple[float, Matrix]:
        """J and alpha at ``weights``, the solution of a linear system; nothing else matters."""
        alpha = self.system.solve(weights, self.targets)
        return self.reg * float(np.vdot(self.targets, alpha)), alpha

    def scores(self, weights: NDArray, alpha: Matrix) -> Matrix:
        return self.system.scores(weights, alpha)

    def squares(self, alpha: Matrix) -> Vector:
        return self._squares(alpha)

    def quadratic_forms(self, alpha: Matrix) -> Vector:
        """``q_j = 2λ⟨alpha, K_j alpha⟩``, shape (F,)."""
        return 2.0 * self.reg * self.squares(alpha)

    def curvature(self, weights: NDArray, alpha: Matrix) -> Matrix:
        """Second derivatives of J, ``2λ⟨K_i alpha, (K(g) + λI)⁻¹ K_j alpha⟩``, shape (F, F)."""
        return 2.0 * self.reg * self.system.curvature(weights, alpha)

    # -- what a solution is worth ----------------------------------------------------------------------------------

    def cut(self, alpha: Matrix) -> tuple[float, Vector]:
        """Constant and forms of the plane ``constant − ½ g·q`` below J that touches it where alpha is optimal.

        Rounding included: the constant may be too small and the forms too large, never the reverse.
        """
        agreement, lost, size = self._products(alpha)
        squares, off = self.rounded_squares(alpha)
        return self.reg * (2.0 * (agreement - lost) - size), 2.0 * self.reg * (squares + off)

    def _products(self, alpha: Matrix) -> tuple[float, float, float]:
        """``⟨H, alpha⟩``, what it may be off by, and an upper bound on ``λ‖alpha‖²``."""
        some = (alpha.size + 4) * UNIT
        size = self.reg * float(np.vdot(alpha, alpha)) * (1.0 + some)
        return float(np.vdot(self.targets, alpha)), some * float(np.abs(self.targets * alpha).sum()), size

    def certificate(self, weights: NDArray, alpha: Matrix) -> Certificate:
        """Upper bound: the ridge objective of alpha's discriminants; lower bound: the dual objective."""
        scores, off = self.rounded_scores(weights, alpha)
        rest, off_rest = np.abs(self.targets - scores), off + 2.0 * UNIT * (np.abs(self.targets) + np.abs(scores))
        inner, inner_off = float(np.vdot(alpha, scores)), float(Rounding.of_inner(alpha[None], scores[None], off)[0])
        primal = float((rest**2).sum()) + self.reg * max(inner, 0.0)
        safe = float(((rest + off_rest) ** 2).sum()) + self.reg * max(inner + inner_off, 0.0)
        safe *= 1.0 + (alpha.size + 8) * UNIT
        (agreement, lost, size), (squares, squares_off) = self._products(alpha), self.rounded_squares(alpha)
        dual = self._best_multiple(agreement, size + self.weight_set.support(squares))
        size = (1.0 + 8 * UNIT) * (size + self.weight_set.support(squares + squares_off))
        safe_dual = self._best_multiple(max(abs(agreement) - lost, 0.0), size)
        return Certificate(safe, safe_dual, rounding=safe - primal + dual - safe_dual)

    def _best_multiple(self, agreement: float, size: float) -> float:
        """``max over t of λ(2t⟨H, alpha⟩ − t²(λ‖alpha‖² + form))``; zero if alpha is."""
        return self.reg * agreement**2 / size if size > 0.0 else 0.0

    # -- the model -------------------------------------------------------------------------------------------------

    def coefficients(self, alpha: Matrix) -> Matrix:
        """``D alpha``: what projections of any sample are linear in, shape (n, c)."""
        return self.roots[:, None] * alpha

    def intercept(self, weights: NDArray, alpha: Matrix) -> Matrix:
        """What takes the place of a bias: weighted means of each class in the discriminant space, (M, c)."""
        return (self.member.T @ self.scores(weights, alpha)) / (self.member**2).sum(axis=0)[:, None]

    def leave_one_out(self, weights: NDArray, alpha: Matrix, *, centered: bool) -> Matrix:
        """``−½‖z_i − c_k‖²`` of each sample i to the class centroids, in the model fitted without it, shape (n, M).

        With ``P = (K + λI)⁻¹``, taking sample i out of the system changes alpha_l by ``−P_li alpha_i / P_ii``. The
        projection of sample i becomes ``H_i − alpha_i / P_ii``, and the centroids of the other samples follow from
        sums over the classes of rows of P: exact, without another factorisation. If the kernels were ``centered``,
        they and the labels are centred again without sample i, which the others would give away otherwise: that is
        the system with a free constant, and ``P − P11'P / (1'P1)`` takes the place of P. Kernel weights, the labels'
        values and the scale of the kernels stay. With weights of samples all of this holds for ``(DKD + λI)⁻¹`` and
        D1 in place of 1; sample i leaves with all its weight. Scores of samples without weight mean nothing.
        """
        diagonal = self.system.inverse_diagonal(weights)
        class_sums = self.system.solve(weights, self.member)
        member, roots = self.member, self.roots
        if centered:
            row_sums = class_sums.sum(axis=1)  # PD1, which is D1/λ up to rounding; here the rounding must cancel
            share = row_sums / (roots @ row_sums)
            diagonal = diagonal - row_sums * share
            class_sums = class_sums - row_sums[:, None] * (share @ member)
            alpha = alpha - share[:, None] * (roots @ alpha)
        change = alpha / diagonal[:, None]  # (n, c)
        projections = (self.targets - change) / np.where(roots > 0.0, roots, 1.0)[:, None]
        sums = member.T @ (self.targets - self.reg * alpha)  # (M, c): of the projections in the model of all samples
        scores = np.empty(member.shape)
        for k in range(member.shape[1]):
            own = member[:, k] ** 2
            count, alone = own.sum() - own, (own > 0.0).sum() == (own > 0.0)
            # of H − λ alpha over the class in the model without i, less the share of i itself: alpha_i is 0 there
            total = sums[k] + self.reg * class_sums[:, k, None] * change - member[:, k, None] * self.targets
            centroid = total / np.where(alone, 1.0, count)[:, None]
            scores[:, k] = -0.5 * ((projections - centroid) ** 2).sum(axis=1)
            scores[alone, k] = -np.inf  # nothing is left of the class
        return scores


def class_scores(projections: Matrix, centroids: Matrix) -> Matrix:
    """``z·c_k − ½‖c_k‖²`` for each projection z and centroid c_k, shape (n, M): largest at the nearest centroid."""
    return projections @ centroids.T - 0.5 * (centroids**2).sum(axis=1)
