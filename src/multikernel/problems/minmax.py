"""The one structure behind most methods, a minimum over weights of SVMs' optima, and what all with SVMs share."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular

from multikernel.gram import Combination, DenseStack, GramStack, WeightedSum, one_kernel
from multikernel.gram.base import support_of
from multikernel.problems.certificate import UNIT, Certificate, LastValue, Rounding, largest_scores
from multikernel.problems.weight_sets import WeightSet, nearest
from multikernel.runtime.clock import OutOfTime, one_blas_thread
from multikernel.svm.quadratic_program import KernelOperator, as_operator, kernel_times, ridged_cholesky

Vector = NDArray[np.float64]

# How much of the tolerance of an SVM its gap may be, computed from the kernels themselves, before the rounding of the
# combined kernel is to blame.
ROUNDING = 2.0
# Free support vectors beyond which the curvature is taken from a sample of them: roughly (600 of them cost a Newton
# method hardly an iteration more, and a factorisation thirty times less than 2,000), and at best.
ROUGH_FREE, MOST_FREE = 600, 4000
# Distance from a bound, relative to the largest coefficient, up to which a support vector counts as bounded.
AT_BOUND = 1e-9


class SVMProblem:
    """SVMs on a kernel; ``inner`` is the problem in alpha, with several labels the sum of their objectives."""

    def __init__(self, inner: Any):
        self.inner = inner
        self._products = LastValue(self._scores_and_errors)

    def _scores_and_errors(self, weights: NDArray, alpha: NDArray) -> tuple[NDArray, NDArray]:
        """``K(weights) alpha``, and what it may be off by."""
        raise NotImplementedError

    def intercept(self, weights: NDArray, alpha: NDArray) -> Any:
        """The bias with the least loss; one per label."""
        return self.inner.intercept(self._products(weights, alpha)[0])

    def certificate(self, weights: NDArray, alpha: NDArray) -> Certificate:
        """The two bounds at ``weights`` and ``alpha``, and how much of their gap is there because of rounding."""
        primal, dual = self._bounds(weights, alpha, rounded=True)
        plain_primal, plain_dual = self._bounds(weights, alpha, rounded=False)
        return Certificate(primal, dual, rounding=primal - plain_primal + float(np.nan_to_num(plain_dual - dual)))

    def _bounds(self, weights: NDArray, alpha: NDArray, *, rounded: bool) -> tuple[float, float]:
        """Upper and lower bound on the optimum; ``rounded``: such that they hold whatever the rounding."""
        scores, error = self._products(weights, alpha)
        found = self.inner.certificate(scores, alpha, error if rounded else None)
        return found.primal, found.dual


class KernelProblem(SVMProblem):
    """SVMs on one kernel made of a square stack by weights; beyond ``memory`` bytes it is computed when read."""

    def __init__(self, stack: GramStack, inner: Any, memory: int):
        super().__init__(inner)
        self.stack, self.memory = stack, memory
        self.rounding = Rounding(stack)
        self._kernel: tuple[NDArray, Any] | None = None
        # Single precision will do until it is what keeps a solution from its proof.
        self._dtype: type | None = None

    @property
    def n_kernels(self) -> int:
        """Number of kernels F."""
        return self.stack.n_kernels

    def kernel(self, weights: NDArray) -> NDArray | KernelOperator:
        """The kernel of ``weights``, remembered until others are asked for."""
        if self._kernel is None or not np.array_equal(self._kernel[0], weights):
            last = None if self._kernel is None else self._kernel[1]
            combination = self._combination(weights, last if isinstance(last, np.ndarray) else None)
            self._kernel = last = None  # two at once may not fit
            self._kernel = np.array(weights), one_kernel(self.stack, combination, self.memory)
        return self._kernel[1]

    def _combination(self, weights: NDArray, out: NDArray | None) -> Combination:
        return WeightedSum(weights, self._dtype, out)

    def release(self) -> None:
        """Free the memory of the kernel and of the scores asked for last."""
        self._kernel = None
        self._products.forget()

    def solve_inner(self, weights: NDArray, warm: NDArray | None, tol: float) -> tuple[float, NDArray]:
        """Value and alpha of the inner problem on the kernel of ``weights``, to a relative gap ``tol``."""
        try:
            value, alpha = self.inner.solve(self.kernel(weights), warm, tol=tol, warn=False)
        except OutOfTime as end:
            end.reached = None if end.reached is None else (weights, end.reached)
            raise
        return float(np.sum(value)), alpha

    def _scores_and_errors(self, weights: NDArray, alpha: NDArray) -> tuple[NDArray, NDArray]:
        """``K(weights) alpha``, and what it may be off by: each entry of K is a rounded sum, too."""
        if not alpha.any():
            return np.zeros(alpha.shape), np.zeros(alpha.shape)
        terms, dtype = self.n_kernels + int(self.stack.ranks.max(initial=0)) + 1, self._dtype or self.stack.dtype
        return scores_and_errors(self.kernel(weights), alpha, entry_error=terms * float(np.finfo(dtype).eps))

    def sharpen(self) -> bool:
        """Compute scores with less rounding from now on; False if that is done, or would not help."""
        if self.stack.dtype == np.float64 or self._dtype is not None:
            return False
        self._dtype = np.float64
        self.release()
        return True


def scores_and_errors(
    kernel: NDArray | KernelOperator, alpha: NDArray, entry_error: float = 0.0
) -> tuple[NDArray, NDArray]:
    """``kernel @ alpha``, and what it may be off by, given the relative error of the kernel's entries."""
    largest = largest_scores(as_operator(kernel).diagonal(), alpha)
    return kernel_times(kernel, alpha), ((len(support_of(alpha)) + 4) * UNIT + entry_error) * largest


class MinMaxProblem(KernelProblem):
    """``min over g in G of J(g) = max over alpha in A of  linear(alpha) - ½ Σ_j g_j q_j(alpha)``.

    J is convex, with gradient ``-½ q(alpha*)``. For any g in G and any alpha in A

        linear(alpha) - ½ support_G(q(alpha))  <=  optimum  <=  J(g),

    which is the certificate of every method that solves this problem. Both bounds include what rounding may have done
    to them; where that is most of the gap, ``sharpen`` has scores computed as if in twice the precision.
    """

    def __init__(self, stack: GramStack, inner: Any, weight_set: WeightSet, memory: int):
        super().__init__(stack, inner, memory)
        self.weight_set = weight_set
        self._precise = False
        self.scores = LastValue(self._scores_of_each)
        self._solved: Any = None  # the last solution of the inner problem, and the gap that it may have

    def start(self) -> tuple[NDArray, NDArray]:
        """Weights that favour no kernel, and a feasible alpha."""
        return self.weight_set.start(self.n_kernels), self.inner.start()

    def repaired(self, weights: NDArray, alpha: NDArray) -> tuple[NDArray, NDArray]:
        """The nearest weights of the set, and a feasible alpha near the one given."""
        return nearest(self.weight_set, weights), self.inner.repair(alpha)

    def admitted(self, weights: NDArray, alpha: NDArray) -> tuple[NDArray, NDArray]:
        """A start for this problem from the solution of one with another set."""
        return self.weight_set.snapped(weights), alpha

    def solve_inner(self, weights: NDArray, warm: NDArray | None, tol: float) -> tuple[float, NDArray]:
        value, alpha = super().solve_inner(weights, warm, tol)
        self._solved = alpha, tol * abs(value)
        return value, alpha

    def sample(self, rows: NDArray[np.intp]) -> MinMaxProblem | None:
        """The same problem on some of the samples; None if a class has too few there, or memory is too small."""
        inner = self.inner.sample(rows)
        part = self.stack.take(rows, rows)
        if inner is None:
            return None
        if not part.explicit:
            if part.n_kernels * len(rows) ** 2 * part.dtype.itemsize > self.memory // 8:
                return None
            part = DenseStack.owning(part.to_array(), part.names)
        return MinMaxProblem(part, inner, self.weight_set, self.memory)

    # -- scores and forms -------------------------------------------------------------------------------------------

    def _scores_of_each(self, alpha: NDArray) -> NDArray[np.float64]:
        """``K_j alpha`` of each kernel, shape (F, n) or (F, n, T)."""
        return (self.stack.apply_precisely if self._precise else self.stack.apply)(alpha)

    def scores_by_label(self, alpha: NDArray, kernels: NDArray[np.intp]) -> Iterator[NDArray[np.float64]]:
        """``K_j alpha_t`` of some kernels, shape (len(kernels), n), label by label."""
        yield from np.moveaxis(self.scores(alpha)[kernels].reshape(len(kernels), len(alpha), -1), 2, 0)

    def quadratic_forms(self, alpha: NDArray) -> Vector:
        """``q_j(alpha) = Σ_labels alpha' K_j alpha``, shape (F,)."""
        return np.maximum(self._raw_forms(alpha), 0.0)

    def _raw_forms(self, alpha: NDArray) -> Vector:
        """The same, negative where entries of a kernel are rounded so that it is not positive semi-definite."""
        scores = self.scores(alpha)
        return (scores * alpha).reshape(len(scores), -1).sum(axis=1)

    def _forms_error(self, alpha: NDArray) -> Vector:
        """What the quadratic forms may be off by, shape (F,)."""
        if not self._precise:
            return self.rounding.of_forms(alpha)
        sizes = np.abs(self.scores(alpha) * alpha).reshape(self.n_kernels, -1).sum(axis=1)
        return self.rounding.of_forms(alpha, sizes)

    def _scores_and_errors(self, weights: NDArray, alpha: NDArray) -> tuple[NDArray, NDArray]:
        """``Σ_j weights_j K_j alpha`` from the scores of each kernel, and what it may be off by."""
        scores = self.scores(alpha)
        sizes = np.tensordot(weights, np.abs(scores), axes=1) if self._precise else None
        return np.tensordot(weights, scores, axes=1), self.rounding.of_scores(weights, alpha, sizes)

    def sharpen(self) -> bool:
        """Compute scores as if in twice the precision from now on; False if they are, or if that would not help."""
        if self._precise or not self._can_sharpen:
            return False
        self._precise = True
        self.scores.forget()
        self._products.forget()
        return True

    @property
    def _can_sharpen(self) -> bool:
        """Whether entries of kernels are given: those that are products of features are rounded themselves."""
        return not self.stack.explicit

    # -- bounds -----------------------------------------------------------------------------------------------------

    def cut(self, alpha: NDArray, *, rounded: bool = True) -> tuple[float, Vector]:
        """``linear(alpha)`` and ``q(alpha)``: the plane ``linear − ½ g·q`` that bounds J from below.

        ``rounded``: with room for rounding, so that the plane of a feasible point near alpha is no lower.
        """
        linear, q = float(np.sum(self.inner.linear(alpha))), self.quadratic_forms(alpha)
        if not rounded:
            return linear, q
        moved = self.rounding.of_shift(self.inner.shortfall(alpha), q)
        return linear - self.inner.linear_error(alpha), q + self._forms_error(alpha) + moved

    def lower_bound(self, alpha: NDArray) -> float:
        """``linear(alpha) - ½ support_G(q(alpha))``, rounding included."""
        return self._supported(*self.cut(alpha))

    def _supported(self, linear: float, q: Vector) -> float:
        return linear - 0.5 * self.weight_set.support(q)

    def _bounds(self, weights: NDArray, alpha: NDArray, *, rounded: bool) -> tuple[float, float]:
        scores, error = self._products(weights, alpha)
        primal = self.inner.certificate(scores, alpha, error if rounded else None).primal
        if rounded:
            # no kernel's share of the squared norm is negative, but the rounding of its entries can make it so
            q, forms = self.quadratic_forms(alpha), self._raw_forms(alpha)
            primal += 0.5 * (float(weights @ q) - max(float(weights @ forms), 0.0))
        return primal, self._supported(*self.cut(alpha, rounded=rounded))

    def certificate(self, weights: NDArray, alpha: NDArray) -> Certificate:
        """Upper bound: the primal value of the SVM that ``alpha`` makes on the kernel of ``weights``."""
        found = super().certificate(weights, alpha)
        solved = self._solved is not None and self._solved[0] is alpha
        if solved and self.stack.dtype != np.float64 and self._dtype is None:
            linear, q = self.cut(alpha)
            # further from its optimum than was asked for: kernels are combined in double precision from now on
            if found.primal - (linear - 0.5 * float(weights @ q)) > ROUNDING * self._solved[1]:
                self._dtype, self._kernel = np.float64, None
        if not self._resolution:
            return found
        return replace(found, resolution=self._resolution + (0.0 if self._can_sharpen else found.rounding))

    @cached_property
    def _resolution(self) -> float:
        """Gap that is none: the optimum of ν-SVMs can be zero."""
        return self.inner.resolution(float(self.weight_set.support(self.rounding.roots.max(axis=1) ** 2)))

    # -- curvature --------------------------------------------------------------------------------------------------

    def curvature(
        self,
        weights: NDArray,
        alpha: NDArray,
        chosen: NDArray[np.intp],
        *,
        ridge: float = 1e-10,
        rough: bool = False,
        kernel: KernelOperator | None = None,
    ) -> NDArray[np.float64]:
        """Second derivatives of J for the chosen kernels, summed over labels [CR08, sect. 4].

        While the set A of free support vectors stays, J is smooth in the weights, with second derivatives
        ``s_j' P s_k``: s_j are the scores of kernel j on A, and P the inverse of the kernel on A among coefficients
        whose sums are kept. ``ridge`` is added to the diagonal of that kernel, relative to its mean; of many free
        support vectors a sample is taken, a smaller one if it may be ``rough``. ``kernel`` is that of the weights, if
        not all of it is to be computed.
        """
        operator = as_operator(self.kernel(weights)) if kernel is None else kernel
        columns = zip(self.inner.svms, alpha.reshape(len(alpha), -1).T, self.scores_by_label(alpha, chosen))
        total, most = np.zeros((len(chosen), len(chosen))), ROUGH_FREE if rough else MOST_FREE
        with one_blas_thread():
            for svm, column, scores in columns:
                total += _curvature_of_one(svm, operator, scores, column, ridge, most)
        return total


def _curvature_of_one(
    svm: Any, operator: KernelOperator, scores: NDArray, alpha: Vector, ridge: float, most_free: int
) -> NDArray[np.float64]:
    """``S'(K⁻¹ − K⁻¹E(E'K⁻¹E)⁻¹E'K⁻¹)S`` on the free support vectors, E the indicators of sums that are kept."""
    box = svm.problem
    # beside the largest coefficient, not the bounds: with huge kernels or a large C all are tiny beside those
    margin = AT_BOUND * np.minimum(box.hi - box.lo, np.abs(alpha).max(initial=0.0))
    inside = (alpha > box.lo + margin) & (alpha < box.hi - margin)
    free = np.flatnonzero(inside & (np.abs(alpha) > margin) if box.kink else inside)
    if not len(free):
        return np.zeros((len(scores), len(scores)))
    thinning = max(len(free) / most_free, 1.0)
    if thinning > 1.0:
        free = free[np.linspace(0, len(free) - 1, most_free).astype(np.intp)]
    K = operator.submatrix(free, free).astype(np.float64)
    K.ravel()[:: len(free) + 1] += ridge * max(float(K.trace()) / len(free), 1e-300)
    E = np.column_stack([np.isin(free, group) for group in box.groups]) if box.groups else np.zeros((len(free), 0))
    E = E[:, E.any(axis=0)]
    right = np.hstack([scores[:, free].T, E.astype(np.float64)])
    Y = solve_triangular(ridged_cholesky(K), right, lower=True, check_finite=False)
    S, sums = Y[:, : len(scores)], Y[:, len(scores) :]
    if sums.shape[1]:
        basis = np.linalg.qr(sums)[0]
        S = S - basis @ (basis.T @ S)
    return thinning * (S.T @ S)
