"""Multiple kernel Fisher discriminant analysis: the best kernel weights for a regularised discriminant."""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from multikernel.gram.base import GramStack, format_bytes
from multikernel.problems.certificate import Certificate
from multikernel.problems.fisher_system import RegularizedFDA, leave_one_out
from multikernel.problems.weight_sets import LpBall, nearest
from multikernel.runtime.blas import one_blas_thread
from multikernel.runtime.clock import check
from multikernel.runtime.threads import map_threads
from multikernel.svm.cholesky import CholeskyFactor

Matrix = NDArray[np.float64]
# Samples whose features are multiplied between two looks at the clock.
BLOCK = 4096


class System(Protocol):
    """``K(g) + λI`` for changing weights g: what the problem needs of the kernels, however they are stored."""

    def solve(self, weights: NDArray, right: Matrix) -> Matrix:
        """``(K(g) + λI)⁻¹ right``, shape (n, c)."""

    def scores(self, weights: NDArray, alpha: Matrix) -> Matrix:
        """``K(g) alpha``, shape (n, c)."""

    def quadratic_forms(self, alpha: Matrix) -> NDArray[np.float64]:
        """``⟨alpha, K_j alpha⟩``, shape (F,)."""

    def traces(self) -> NDArray[np.float64]:
        """``tr K_j``, shape (F,)."""

    def curvature(self, weights: NDArray, alpha: Matrix) -> Matrix:
        """``⟨K_i alpha, (K(g) + λI)⁻¹ K_j alpha⟩``, shape (F, F)."""

    def inverse_diagonal(self, weights: NDArray) -> NDArray[np.float64]:
        """Diagonal of ``(K(g) + λI)⁻¹``, shape (n,)."""


class DenseSystem:
    """Kernels as matrices: a Cholesky factorisation of the combined kernel for each set of weights.

    Parameters
    ----------
    stack : GramStack
        Training kernels, square.
    reg : float
        The ridge λ.
    """

    def __init__(self, stack: GramStack, reg: float):
        self.stack, self.reg, self.n_kernels = stack, reg, stack.n_kernels
        self._weights: NDArray | None = None
        self._kernel: NDArray = np.empty((0, 0))
        self._factor: CholeskyFactor | None = None
        self._last: tuple[Matrix, Matrix] | None = None

    def combined(self, weights: NDArray) -> NDArray:
        """The combined kernel, kept until the weights change."""
        if self._weights is None or not np.array_equal(self._weights, weights):
            self._kernel = self.stack.combine(weights)
            self._weights, self._factor = np.array(weights), None
        return self._kernel

    def prepare(self, weights: NDArray) -> None:
        """Combine the kernels for weights that systems made by ``with_reg`` will begin with."""
        self.combined(weights)

    def factor(self, weights: NDArray) -> CholeskyFactor:
        """The factorisation, kept likewise."""
        kernel = self.combined(weights)
        if self._factor is None:
            self._factor = CholeskyFactor(kernel, self.reg)
        return self._factor

    def with_reg(self, reg: float) -> DenseSystem:
        """The same kernels with another ridge; the combined kernel is shared."""
        other = DenseSystem(self.stack, reg)
        other._weights, other._kernel = self._weights, self._kernel
        return other

    def solve(self, weights: NDArray, right: Matrix) -> Matrix:
        """``(K(g) + λI)⁻¹ right``, shape (n, c)."""
        return self.factor(weights).solve(right)

    def scores(self, weights: NDArray, alpha: Matrix) -> Matrix:
        """``K(g) alpha``, shape (n, c)."""
        return self.combined(weights) @ alpha

    def quadratic_forms(self, alpha: Matrix) -> NDArray[np.float64]:
        """``⟨alpha, K_j alpha⟩ = ⟨K_j, alpha alpha'⟩``, shape (F,): one pass over the kernels for all columns."""
        if alpha.shape[1] == 1:  # the scores will serve the curvature as well
            return np.maximum(self._scores_of_each(alpha)[:, :, 0] @ alpha[:, 0], 0.0)
        return np.maximum(self.stack.summed_forms(alpha), 0.0)

    def traces(self) -> NDArray[np.float64]:
        """``tr K_j``, shape (F,)."""
        return self.stack.diagonal().sum(axis=1)

    def _scores_of_each(self, alpha: Matrix) -> Matrix:
        """``K_j alpha``, shape (F, n, c); of a single column the last ones are remembered."""
        if alpha.shape[1] > 1:  # narrow products, which BLAS alone does at a third of the speed of memory
            each = [(self.stack.take(kernels=[j]), alpha) for j in range(self.n_kernels)]
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

    def inverse_diagonal(self, weights: NDArray) -> NDArray[np.float64]:
        """Diagonal of ``(K(g) + λI)⁻¹``, shape (n,)."""
        return self.factor(weights).inverse_diagonal()


class LowRankSystem:
    """Kernels ``K_j = Φ_j Φ_j'`` with R features in all: nothing of size n² is made, and a factorisation is R × R.

    The products of all features are computed once; after that a set of weights costs O(R³ + nRc).

    Parameters
    ----------
    stack : GramStack
        Training kernels, square.
    reg : float
        The ridge λ.
    """

    def __init__(self, stack: GramStack, reg: float):
        self.features = stack.features().array
        self.owner = np.repeat(np.arange(stack.n_kernels), stack.ranks)
        self.n_kernels, self.reg = stack.n_kernels, reg
        self.products = np.zeros((self.features.shape[1], self.features.shape[1]))
        for start in range(0, len(self.features), BLOCK):
            check()
            part = self.features[start : start + BLOCK]
            self.products += part.T @ part
        self._weights = np.empty(0)
        self._factor: CholeskyFactor | None = None

    def with_reg(self, reg: float) -> LowRankSystem:
        """The same kernels with another ridge; features and their products are shared."""
        other = object.__new__(LowRankSystem)
        other.features, other.owner, other.products = self.features, self.owner, self.products
        other.n_kernels, other.reg = self.n_kernels, reg
        other._weights, other._factor = np.empty(0), None
        return other

    def prepare(self, weights: NDArray) -> None:
        """Nothing: the products of the features are there."""

    def _roots(self, weights: NDArray) -> NDArray:
        return np.sqrt(weights)[self.owner][:, None]

    def factor(self, weights: NDArray) -> CholeskyFactor:
        """``D Φ'Φ D + λI`` with D² the weights of the features, factorised; kept until the weights change."""
        if self._factor is None or not np.array_equal(self._weights, weights):
            d = self._roots(weights)
            self._factor = CholeskyFactor(d * self.products * d.T, self.reg)
            self._weights = np.array(weights)
        return self._factor

    def solve(self, weights: NDArray, right: Matrix) -> Matrix:
        """``(right − ΦD (DΦ'ΦD + λI)⁻¹ DΦ' right) / λ``."""
        d = self._roots(weights)
        inside = self.factor(weights).solve(d * (self.features.T @ right))
        return (right - self.features @ (d * inside)) / self.reg

    def scores(self, weights: NDArray, alpha: Matrix) -> Matrix:
        """``K(g) alpha``, shape (n, c)."""
        return self.features @ (weights[self.owner][:, None] * (self.features.T @ alpha))

    def quadratic_forms(self, alpha: Matrix) -> NDArray[np.float64]:
        """``‖Φ_j' alpha‖²``, shape (F,)."""
        squares = ((self.features.T @ alpha) ** 2).sum(axis=1)
        return np.bincount(self.owner, squares, minlength=self.n_kernels).astype(np.float64)

    def traces(self) -> NDArray[np.float64]:
        """``tr K_j = ‖Φ_j‖²``, shape (F,)."""
        return np.bincount(self.owner, self.products.diagonal(), minlength=self.n_kernels).astype(np.float64)

    def curvature(self, weights: NDArray, alpha: Matrix) -> Matrix:
        """``⟨K_i alpha, (K(g) + λI)⁻¹ K_j alpha⟩``, shape (F, F), from products of features alone."""
        d = self._roots(weights)
        factor = self.factor(weights)
        total = np.zeros((self.n_kernels, self.n_kernels))
        own = self.owner[:, None] == np.arange(self.n_kernels)
        for column in (self.features.T @ alpha).T:
            parts = own * column[:, None]  # column j: the features of kernel j, so that Φ parts_j = K_j alpha
            image = self.products @ parts
            white = factor.whiten(d * image)
            total += parts.T @ image - white.T @ white
        return 0.5 * (total + total.T) / self.reg

    def inverse_diagonal(self, weights: NDArray) -> NDArray[np.float64]:
        """Diagonal of ``(K(g) + λI)⁻¹``, shape (n,)."""
        white = self.factor(weights).whiten(self._roots(weights) * self.features.T)
        return (1.0 - (white**2).sum(axis=0)) / self.reg


def fda_system(stack: GramStack, reg: float, memory: int) -> DenseSystem | LowRankSystem:
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


class FDAProblem:
    """``min over g ≥ 0, ‖g‖_p ≤ 1 of J(g) = λ tr(H'(K(g) + λI)⁻¹H)``: minus the max-min problem [YMBCK10, eq. (15)].

    The optimum over alpha of S(alpha, g) is −J(g), so maximising it is minimising J, which is convex, with gradient
    ``−λ⟨alpha, K_j alpha⟩``. In the form shared by all min-max problems,
    ``J(g) = max over alpha of linear(alpha) − ½ g·q(alpha)``, the forms are ``q_j = 2λ⟨alpha, K_j alpha⟩``. For any
    alpha and g

        dual objective with support_G(q) for g·q, at the best multiple of alpha   ≤   optimum   ≤
        ‖K(g) alpha − H‖² + λ⟨alpha, K(g) alpha⟩,

    which proves a solution without trusting how it was found.

    Parameters
    ----------
    system : DenseSystem or LowRankSystem
        The kernels.
    inner : RegularizedFDA
        Targets and λ.
    weight_set : LpBall
        The set of weights.
    """

    def __init__(self, system: DenseSystem | LowRankSystem, inner: RegularizedFDA, weight_set: LpBall):
        self.system, self.inner, self.weight_set = system, inner, weight_set
        self._last: tuple[NDArray, NDArray] | None = None

    @property
    def n_kernels(self) -> int:
        """Number of kernels F."""
        return self.system.n_kernels

    def start(self) -> tuple[NDArray, Matrix]:
        """Equal weights, and the alpha of a kernel that is zero."""
        return self.weight_set.start(self.n_kernels), self.inner.start()

    def settled(self, weights: NDArray, alpha: Matrix) -> tuple[NDArray, Matrix]:
        """The nearest weights of the set; any alpha is feasible."""
        return nearest(self.weight_set, weights), alpha

    def solve_inner(
        self, weights: NDArray, warm: NDArray | None = None, tol: float = 0.0, enough: float = np.inf
    ) -> tuple[float, Matrix]:
        """J and alpha at ``weights``: a linear system, so that only ``weights`` matter."""
        alpha = self.system.solve(weights, self.inner.targets)
        return self.inner.value(alpha), alpha

    def quadratic_forms(self, alpha: Matrix) -> NDArray[np.float64]:
        """``q_j = 2λ⟨alpha, K_j alpha⟩``, shape (F,); the last ones are remembered."""
        if self._last is None or self._last[0] is not alpha:
            self._last = alpha, 2.0 * self.inner.reg * self.system.quadratic_forms(alpha)
        return self._last[1]

    def cut(self, alpha: Matrix) -> tuple[float, NDArray[np.float64]]:
        """Constant and forms of the plane ``constant − ½ g·q`` below J that touches it where alpha is optimal."""
        return self.inner.linear(alpha), self.quadratic_forms(alpha)

    def curvature(self, weights: NDArray, alpha: Matrix) -> Matrix:
        """Second derivatives of J, ``2λ⟨K_i alpha, (K(g) + λI)⁻¹ K_j alpha⟩``, shape (F, F)."""
        return 2.0 * self.inner.reg * self.system.curvature(weights, alpha)

    def certificate(self, weights: NDArray, alpha: Matrix) -> Certificate:
        """Upper bound: the ridge objective of alpha's discriminants; lower bound: the dual objective."""
        largest = self.weight_set.support(self.quadratic_forms(alpha)) / (2.0 * self.inner.reg)
        primal = self.inner.primal(self.system.scores(weights, alpha), alpha)
        return Certificate(primal, self.inner.dual(alpha, largest))

    def intercept(self, weights: NDArray, alpha: Matrix) -> Matrix:
        """What takes the place of a bias: means of the samples of each class in the discriminant space, (M, c)."""
        return self.inner.centroids(self.system.scores(weights, alpha))

    def leave_one_out(self, weights: NDArray, alpha: Matrix, *, centered: bool) -> Matrix:
        """Class scores of each training sample from the model without it, shape (n, M), in closed form.

        ``centered`` says whether all kernels were centred on these samples.
        """
        diagonal = self.system.inverse_diagonal(weights)
        sums = self.system.solve(weights, self.inner.member)
        return leave_one_out(self.inner, alpha, diagonal, sums, centered=centered)
