"""Generalised multiple kernel learning: kernels that depend smoothly on parameters, and a penalty on those."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from multikernel.gram import Combination, DenseStack, GramStack
from multikernel.gram.base import support_of
from multikernel.gram.checks import PRODUCT_ADVICE, check_matrix
from multikernel.kernels.base import exponential
from multikernel.problems.certificate import Certificate, LastValue
from multikernel.problems.minmax import KernelProblem
from multikernel.problems.regularizers import Regularizer, dual_bound, known_or_own
from multikernel.runtime.clock import one_blas_thread

Vector = NDArray[np.float64]

# Where all parameters are near zero, their unit is this share of the largest one at the start.
SMALL_START = 1e-3


class KernelRule(Protocol):
    """One kernel K(d) out of a stack and parameters d >= 0, with its derivative [VB09].

    An object of your own needs ``combine`` and ``gradient``. Optional are ``prepare(stack)``, which returns the
    stack that the other methods want to see, of training or test kernels; and ``start(stack)``, where to begin, which
    also says how many parameters there are (by default one for each kernel, all 1/F).
    """

    def combine(self, stack: GramStack, d: Vector) -> NDArray:
        """K(d), shape (rows, columns); the stack may be rectangular."""

    def gradient(self, stack: GramStack, d: Vector, alpha: NDArray) -> Vector:
        """``Σ_t alpha_t' (∂K/∂d_k) alpha_t`` for each parameter, alpha of shape (n,) or (n, T)."""


@dataclass(frozen=True)
class SumOfKernels:
    """``K(d) = Σ_k d_k K_k``."""

    def combine(self, stack: GramStack, d: Vector) -> NDArray:
        return stack.combine(d)

    def diagonal(self, stack: GramStack, d: Vector) -> Vector:
        return d @ stack.diagonal()

    def gradient(self, stack: GramStack, d: Vector, alpha: NDArray) -> Vector:
        return stack.quadratic_forms(alpha).reshape(stack.n_kernels, -1).sum(axis=1)


@dataclass(frozen=True)
class ProductOfKernels:
    """``K(d) = Π_k K_k^{d_k} = exp(−Σ_k d_k L_k)``, entry by entry, with L_k = −log K_k [VB09].

    With one RBF kernel for each feature, L_k is the squared difference of feature k over its bandwidth, and d_k is
    the inverse width of that feature: zero where it does not matter. The kernels must have positive entries.
    K(d) is positive semi-definite for all d if they are infinitely divisible, as exp(−distance) is. An entry that
    is zero counts as the smallest positive number (1e-38 in single precision, 2e-308 in double).
    """

    def prepare(self, stack: GramStack) -> GramStack:
        """The stack of L_k: in memory if there is room, else computed as it is read."""
        return stack.changed(NegativeLog(stack.names))

    def combine(self, stack: GramStack, d: Vector) -> NDArray:
        exponents = stack.combine(d)
        if exponents.min(initial=0.0) >= 0.0:
            exponential(exponents, 1.0, exponents)
            return exponents
        with np.errstate(over="ignore"):  # the problem refuses parameters whose kernel is not finite
            return np.exp(np.negative(exponents, out=exponents), out=exponents)

    def diagonal(self, stack: GramStack, d: Vector) -> Vector:
        return np.exp(-(d @ stack.diagonal()))

    def gradient(self, stack: GramStack, d: Vector, alpha: NDArray) -> Vector:
        """``−alpha' (L_k ∘ K) alpha``, from the support of alpha only."""
        support = support_of(alpha)
        gradient = np.zeros(stack.n_kernels)
        if not len(support):
            return gradient
        columns = alpha[support].reshape(len(support), -1)
        narrowed = stack.take(support, support)
        for rows in narrowed.row_blocks():
            part = narrowed.take(rows=rows)
            if not part.stored:
                part = DenseStack(part.to_array(), symmetric=False)  # read once, used twice
            weights = self.combine(part, d).astype(np.float64)
            weights *= columns[rows] @ columns.T
            gradient -= part.inner_products(weights)
        return gradient


@dataclass(frozen=True)
class NegativeLog:
    """−log of each entry, as a step of :meth:`~multikernel.gram.GramStack.changed`; none may be negative."""

    names: tuple[str, ...]

    def apply(self, block: NDArray, self_similarity: NDArray, rows: NDArray | slice) -> None:
        limits = np.finfo(block.dtype)
        for name, values in zip(self.names, block):
            lowest = values.min(initial=0.0)
            if lowest < 0.0 and lowest < -100.0 * limits.eps * np.abs(values).max():
                raise ValueError(
                    f'combination="product" needs kernels with positive entries, but kernel "{name}" has '
                    f"{int((values < 0).sum())} negative ones here, the lowest {lowest:.3g}. "
                    'Use combination="sum", or '
                    "kernels such as RBF, Laplacian and exponential χ²; centring also makes entries negative."
                )
            np.maximum(values, limits.tiny, out=values)
            np.negative(np.log(values, out=values), out=values)
        np.negative(np.log(np.maximum(self_similarity, limits.tiny)), out=self_similarity)

    def take(self, rows: NDArray | slice, kernels: NDArray | slice, columns: NDArray | slice) -> NegativeLog:
        """The same on some kernels."""
        return NegativeLog(tuple(np.array(self.names, dtype=object)[kernels]))


@dataclass(frozen=True)
class AtParameters:
    """A rule at given parameters: what solvers and prediction take for a combination of kernels."""

    rule: KernelRule
    d: Vector

    def combine(self, stack: GramStack) -> NDArray:
        """K(d) of a prepared stack."""
        kernel = self.rule.combine(stack, self.d)
        if kernel.shape != stack.shape[:2]:
            raise ValueError(f"{self.rule!r}.combine returned shape {kernel.shape}, expected {stack.shape[:2]}.")
        return kernel

    def diagonal(self, stack: GramStack) -> Vector:
        """Its diagonal: the rule's own, or cut out of small blocks."""
        if hasattr(self.rule, "diagonal"):
            return self.rule.diagonal(stack, self.d)
        blocks = np.array_split(np.arange(len(stack)), -(-len(stack) // 64))
        return np.concatenate([np.diagonal(self.combine(stack.take(b, b))) for b in blocks]).astype(np.float64)


RULES: dict[str, KernelRule] = {"sum": SumOfKernels(), "product": ProductOfKernels()}


def as_rule(candidate: Any) -> KernelRule:
    """A rule from its name, or the user's own object."""
    return known_or_own("combination", candidate, RULES, ("combine(stack, d)", "gradient(stack, d, alpha)"))


def prepared(rule: KernelRule, stack: GramStack) -> GramStack:
    """What the rule wants to see of a stack."""
    prepare: Callable[[GramStack], GramStack] | None = getattr(rule, "prepare", None)
    return stack if prepare is None else prepare(stack)


class GeneralizedProblem(KernelProblem):
    """``min over d >= 0 of T(d) = J(K(d)) + reg r(d)``, J the optimum of an SVM on the kernel K(d) [VB09].

    With alpha the solution of that SVM, T has the derivative ``reg ∂r/∂d_k − ½ alpha' (∂K/∂d_k) alpha``. It is not
    convex in general, and then there is no lower bound: the certificate holds T, ``nan``, and how far the
    point is from a stationary one. For sums of kernels and penalties that are convex, T is convex, and alpha proves
    a bound (:func:`~multikernel.problems.regularizers.dual_bound`). The stack comes as the rule wants to see it
    (:func:`prepared`).
    """

    def __init__(
        self, stack: GramStack, inner: Any, rule: KernelRule, regularizer: Regularizer, reg: float, memory: int
    ):
        super().__init__(stack, inner, memory)
        self.rule, self.regularizer, self.reg = rule, regularizer, reg
        self.lower = float(getattr(regularizer, "lower", 0.0))
        start = getattr(rule, "start", lambda stack: np.full(stack.n_kernels, 1.0 / stack.n_kernels))
        self._start = np.asarray(start(stack), dtype=np.float64)
        # alpha' (∂K/∂d_k) alpha, shape (F,)
        name = f"{rule!r}.gradient"
        self._forms = LastValue(lambda d, alpha: self._checked(name, rule.gradient(stack, d, alpha), d))

    def start(self) -> tuple[Vector, NDArray]:
        """Parameters that favour no kernel, and a feasible alpha."""
        return self.project(self._start), self.inner.start()

    def repaired(self, d: NDArray, alpha: NDArray) -> tuple[NDArray, NDArray]:
        return self.project(d), self.inner.repair(alpha)

    def project(self, d: Vector) -> Vector:
        """Nearest parameters that are allowed."""
        return np.maximum(d, self.lower)

    @property
    def is_sum(self) -> bool:
        """Whether K(d) is linear in d: then there is a lower bound."""
        return isinstance(self.rule, SumOfKernels)

    def check_definite(self, d: Vector) -> None:
        """An error if good kernels have a combination that is not positive semi-definite; sums cannot."""
        kernel = None if self.is_sum else self.kernel(d)
        if isinstance(kernel, np.ndarray):
            with one_blas_thread():
                check_matrix(kernel, f"the combined kernel at weights {np.round(d, 4)}", "raise", PRODUCT_ADVICE)

    def _combination(self, weights: NDArray, out: NDArray | None) -> Combination:
        return super()._combination(weights, out) if self.is_sum else AtParameters(self.rule, weights)

    def sharpen(self) -> bool:
        return self.is_sum and super().sharpen()

    def solve_inner(self, d: Vector, warm: NDArray | None, tol: float) -> tuple[float, NDArray]:
        """T(d) from below and alpha, the SVM solved to a relative gap ``tol``; infinity where K(d) is not finite."""
        kernel = self.kernel(d)
        if isinstance(kernel, np.ndarray) and not np.isfinite(kernel.sum(dtype=np.float64)):
            return np.inf, self.inner.start() if warm is None else warm
        value, alpha = super().solve_inner(d, warm, tol)
        return value + self.reg * self.regularizer.value(d), alpha

    def gradient(self, d: Vector, alpha: NDArray) -> Vector:
        """``∂T/∂d_k`` as alpha sees it, shape (F,)."""
        penalty = self._checked(f"{self.regularizer!r}.gradient", self.regularizer.gradient(d), d)
        return self.reg * penalty - 0.5 * self._forms(d, alpha)

    @staticmethod
    def _checked(name: str, found: Any, d: Vector) -> Vector:
        found = np.asarray(found, dtype=np.float64)
        if found.shape != d.shape or not np.isfinite(found).all():
            raise ValueError(
                f"{name} returned {found!r} at d = {d!r}: expected {len(d)} finite numbers, one per parameter."
            )
        return found

    def _bounds(self, weights: NDArray, alpha: NDArray, *, rounded: bool) -> tuple[float, float]:
        scores, error = self._products(weights, alpha)
        svm = self.inner.certificate(scores, alpha, error if rounded else None)
        primal = svm.primal + self.reg * self.regularizer.value(weights)
        if not self.is_sum:
            return primal, float("nan")
        linear, q = float(np.sum(self.inner.linear(alpha))), np.maximum(self._forms(weights, alpha), 0.0)
        if rounded:
            linear -= self.inner.linear_error(alpha)
            q = q + self.rounding.of_forms(alpha) + self.rounding.of_shift(self.inner.shortfall(alpha), q)
        return primal, dual_bound(self.regularizer, self.reg, linear, q)

    def certificate(self, d: Vector, alpha: NDArray) -> Certificate:  # type: ignore[override]
        """T(d) from above, the bound that alpha proves where there is one, and the distance from stationarity."""
        svm = self.inner.certificate(self._products(d, alpha)[0], alpha)
        stationarity = max(self._slope(d, alpha, svm.primal), svm.relative_gap)
        return replace(super().certificate(d, alpha), stationarity=stationarity)

    def _slope(self, d: Vector, alpha: NDArray, value: float) -> float:
        """Largest entry of the projected gradient, in units of the largest parameter and of the SVM's objective."""
        unit = max(float(d.max(initial=0.0)), SMALL_START * float(self._start.max(initial=0.0)))
        step = self.gradient(d, alpha) * (unit / max(value, np.finfo(float).tiny))
        moved = np.maximum(d / unit - step, self.lower / unit)
        return float(np.abs(moved - d / unit).max(initial=0.0))
