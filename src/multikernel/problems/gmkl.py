"""Generalised multiple kernel learning: kernels that depend smoothly on parameters, and a penalty on those."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from multikernel.gram import DenseStack, GramStack, one_kernel
from multikernel.gram.base import support_of
from multikernel.gram.checks import PRODUCT_ADVICE, check_matrix
from multikernel.kernels.base import exponential
from multikernel.problems.certificate import Certificate
from multikernel.problems.regularizers import Regularizer, dual_bound
from multikernel.runtime.clock import OutOfTime
from multikernel.runtime.threads import one_blas_thread
from multikernel.svm.quadratic_program import KernelOperator, kernel_times

Vector = NDArray[np.float64]


class KernelRule(Protocol):
    """One kernel K(d) out of a stack and parameters d >= 0, with its derivative [VB09].

    An object of your own needs ``combine`` and ``gradient``. Optional are ``prepare(stack)``, which returns the
    stack that the other methods want to see (of training kernels once, of test kernels at prediction); and
    ``start(stack)``, where to begin, which also says how many parameters there are (by default one for each
    kernel, all 1/F).
    """

    def combine(self, stack: GramStack, d: Vector) -> NDArray:
        """K(d), shape (rows, columns); the stack may be rectangular."""

    def gradient(self, stack: GramStack, d: Vector, alpha: NDArray) -> Vector:
        """``Σ_t alpha_t' (∂K/∂d_k) alpha_t`` for each parameter, alpha of shape (n,) or (n, T)."""


@dataclass(frozen=True)
class SumOfKernels:
    """``K(d) = Σ_k d_k K_k``."""

    def combine(self, stack: GramStack, d: Vector) -> NDArray:
        """The weighted sum."""
        return stack.combine(d)

    def diagonal(self, stack: GramStack, d: Vector) -> Vector:
        """Its diagonal."""
        return d @ stack.diagonal()

    def gradient(self, stack: GramStack, d: Vector, alpha: NDArray) -> Vector:
        """``alpha' K_k alpha``, whatever d."""
        return stack.quadratic_forms(alpha).reshape(stack.n_kernels, -1).sum(axis=1)


@dataclass(frozen=True)
class ProductOfKernels:
    """``K(d) = Π_k K_k^{d_k} = exp(−Σ_k d_k L_k)``, entry by entry, with L_k = −log K_k [VB09].

    With one RBF kernel for each feature, L_k is the squared difference of feature k over its bandwidth, and d_k is
    the inverse width of that feature: zero where it does not matter. The kernels must have positive entries.
    K(d) is positive semi-definite for all d if they are infinitely divisible, as exp(−distance) is. An entry that
    is zero counts as the smallest positive number (1e-38 in single precision, 2e-308 in double).

    Examples
    --------
    >>> import numpy as np
    >>> from multikernel.problems.gmkl import ProductOfKernels
    >>> from multikernel.gram import DenseStack
    >>> rule = ProductOfKernels()
    >>> stack = DenseStack(np.stack([np.full((2, 2), 4.0), np.full((2, 2), 3.0)]))
    >>> rule.combine(rule.prepare(stack), np.array([0.5, 1.0]))[0].round(12)
    array([6., 6.])
    """

    def prepare(self, stack: GramStack) -> GramStack:
        """The stack of L_k: in memory if there is room, else computed as it is read."""
        return stack.changed(NegativeLog(stack.names))

    def combine(self, stack: GramStack, d: Vector) -> NDArray:
        """``exp(−Σ d_k L_k)`` of a prepared stack."""
        exponents = stack.combine(d)
        if exponents.min(initial=0.0) >= 0.0:
            exponential(exponents, 1.0, exponents)
            return exponents
        with np.errstate(over="ignore"):  # the problem refuses parameters whose kernel is not finite
            return np.exp(np.negative(exponents, out=exponents), out=exponents)

    def diagonal(self, stack: GramStack, d: Vector) -> Vector:
        """Its diagonal."""
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
        return self.rule.combine(stack, self.d)

    def diagonal(self, stack: GramStack) -> Vector:
        """Its diagonal: the rule's own, or cut out of small blocks."""
        if hasattr(self.rule, "diagonal"):
            return self.rule.diagonal(stack, self.d)
        blocks = np.array_split(np.arange(len(stack)), -(-len(stack) // 64))
        return np.concatenate([np.diagonal(self.combine(stack.take(b, b))) for b in blocks]).astype(np.float64)


RULES: dict[str, KernelRule] = {"sum": SumOfKernels(), "product": ProductOfKernels()}


def as_rule(candidate: Any) -> KernelRule:
    """A rule from its name, or the user's own object.

    Examples
    --------
    >>> from multikernel.problems.gmkl import as_rule
    >>> as_rule("sum")
    SumOfKernels()
    """
    if isinstance(candidate, str) and candidate in RULES:
        return RULES[candidate]
    if all(callable(getattr(candidate, name, None)) for name in ("combine", "gradient")):
        return candidate
    raise ValueError(
        f"combination={candidate!r} is not known: use {' or '.join(map(repr, RULES))}, or an object with methods "
        "combine(stack, d) and gradient(stack, d, alpha)."
    )


def prepared(rule: KernelRule, stack: GramStack) -> GramStack:
    """What the rule wants to see of a stack."""
    prepare: Callable[[GramStack], GramStack] | None = getattr(rule, "prepare", None)
    return stack if prepare is None else prepare(stack)


class GeneralizedProblem:
    """``min over d >= 0 of T(d) = J(K(d)) + reg r(d)``, J the optimum of an SVM on the kernel K(d) [VB09].

    With alpha the solution of that SVM, T has the derivative ``reg ∂r/∂d_k − ½ alpha' (∂K/∂d_k) alpha``. It is not
    convex in general, and then there is no lower bound: the certificate holds T, ``nan``, and how far the
    point is from a stationary one. For sums of kernels and penalties that are convex, T is convex, and alpha proves
    a bound (:func:`~multikernel.problems.regularizers.dual_bound`).

    Parameters
    ----------
    stack : GramStack
        Training kernels, square, as the rule wants to see them (:func:`prepared`).
    inner : CSVM or LabelSVMs
        The SVM; with several labels the objectives are summed.
    rule : KernelRule
        K(d).
    regularizer : Regularizer
        r(d).
    reg : float
        Weight of the penalty.
    memory : int
        Bytes that K(d) may take; beyond, it is computed where it is read.
    """

    def __init__(
        self, stack: GramStack, inner: Any, rule: KernelRule, regularizer: Regularizer, reg: float, memory: int
    ):
        self.stack, self.inner, self.rule = stack, inner, rule
        self.regularizer, self.reg, self.memory = regularizer, reg, memory
        self.lower = float(getattr(regularizer, "lower", 0.0))
        start = getattr(rule, "start", None)
        self._start = (
            np.full(stack.n_kernels, 1.0 / stack.n_kernels)
            if start is None
            else np.asarray(start(stack), dtype=np.float64)
        )
        self.release()

    def start(self) -> tuple[Vector, NDArray]:
        """Parameters that favour no kernel, and a feasible alpha."""
        return self.project(self._start), self.inner.start()

    def settled(self, d: NDArray, alpha: NDArray) -> tuple[NDArray, NDArray]:
        """The nearest parameters that are allowed, and a feasible alpha near the one given."""
        return self.project(d), self.inner.repair(alpha)

    def project(self, d: Vector) -> Vector:
        """Nearest parameters that are allowed."""
        return np.maximum(d, self.lower)

    def release(self) -> None:
        """Forget the kernel and gradient last computed: they take memory."""
        self._kernel: tuple[Vector, Any] | None = None
        self._gradient: tuple[Vector, NDArray, Vector] | None = None
        self._scores: tuple[Vector, NDArray, NDArray] | None = None

    def check_definite(self, d: Vector) -> None:
        """An error if good kernels have a combination that is not positive semi-definite; sums cannot."""
        kernel = None if isinstance(self.rule, SumOfKernels) else self.kernel(d)
        if isinstance(kernel, np.ndarray):
            with one_blas_thread():
                check_matrix(kernel, f"the combined kernel at weights {np.round(d, 4)}", "raise", PRODUCT_ADVICE)

    def kernel(self, d: Vector) -> NDArray | KernelOperator:
        """K(d), remembered until another is asked for."""
        if self._kernel is None or not np.array_equal(self._kernel[0], d):
            self._kernel = None  # two at once may not fit
            kernel = one_kernel(self.stack, AtParameters(self.rule, d), self.memory)
            if kernel.shape != self.stack.shape[:2]:
                raise ValueError(
                    f"{self.rule!r}.combine returned shape {kernel.shape}, expected {self.stack.shape[:2]}."
                )
            self._kernel = np.array(d), kernel
        return self._kernel[1]

    def solve_inner(self, d: Vector, warm: NDArray | None, tol: float) -> tuple[float, NDArray]:
        """T(d) from below and alpha, the SVM solved to a relative gap ``tol``; infinity where K(d) is not finite."""
        kernel = self.kernel(d)
        if isinstance(kernel, np.ndarray) and not np.isfinite(kernel.sum(dtype=np.float64)):
            return np.inf, self.inner.start() if warm is None else warm
        try:
            value, alpha = self.inner.solve(kernel, warm, tol=tol, warn=False)
        except OutOfTime as end:
            end.reached = None if warm is None or np.ndim(warm) == 2 else (d, end.reached)
            raise
        return float(np.sum(value)) + self.reg * self.regularizer.value(d), alpha

    def gradient(self, d: Vector, alpha: NDArray) -> Vector:
        """``∂T/∂d_k`` as alpha sees it, shape (F,); the last one is remembered."""
        last = self._gradient
        if last is None or not (np.array_equal(last[0], d) and np.array_equal(last[1], alpha)):
            forms = np.asarray(self.rule.gradient(self.stack, d, alpha), dtype=np.float64)
            penalty = np.asarray(self.regularizer.gradient(d), dtype=np.float64)
            for name, part in ((f"{self.rule!r}.gradient", forms), (f"{self.regularizer!r}.gradient", penalty)):
                if part.shape != d.shape or not np.isfinite(part).all():
                    raise ValueError(
                        f"{name} returned {part!r} at d = {d!r}: expected {len(d)} finite numbers, one per parameter."
                    )
            self._gradient = np.array(d), np.array(alpha), self.reg * penalty - 0.5 * forms
        return self._gradient[2]  # type: ignore[index]

    def scores(self, d: Vector, alpha: NDArray) -> NDArray[np.float64]:
        """``K(d) alpha``, shape (n,) or (n, T); the last one is remembered."""
        if not alpha.any():
            return np.zeros(alpha.shape)
        last = self._scores
        if last is None or not (np.array_equal(last[0], d) and np.array_equal(last[1], alpha)):
            last = self._scores = np.array(d), np.array(alpha), kernel_times(self.kernel(d), alpha)
        return last[2]

    def certificate(self, d: Vector, alpha: NDArray) -> Certificate:
        """T(d) from above, the bound that alpha proves where there is one, and the distance from stationarity."""
        svm = self.inner.certificate(self.scores(d, alpha), alpha)
        primal = svm.primal + self.reg * self.regularizer.value(d)
        return Certificate(primal, self._dual(d, alpha), max(self._slope(d, alpha, svm.primal), svm.relative_gap))

    def _dual(self, d: Vector, alpha: NDArray) -> float:
        if not isinstance(self.rule, SumOfKernels):
            return float("nan")
        # the gradient holds the quadratic forms already
        q = 2.0 * (self.reg * self.regularizer.gradient(d) - self.gradient(d, alpha))
        linear = float(np.sum(self.inner.linear(alpha)))
        return dual_bound(self.regularizer, self.reg, linear, np.maximum(q, 0.0))

    def _slope(self, d: Vector, alpha: NDArray, value: float) -> float:
        """Largest entry of the projected gradient, in units of the largest parameter and of the SVM's objective."""
        unit = max(float(d.max(initial=0.0)), SMALL_START * float(self._start.max(initial=0.0)))
        step = self.gradient(d, alpha) * (unit / max(value, np.finfo(float).tiny))
        moved = np.maximum(d / unit - step, self.lower / unit)
        return float(np.abs(moved - d / unit).max(initial=0.0))

    def intercept(self, d: Vector, alpha: NDArray) -> Any:
        """The bias with the least loss; one per label."""
        scores = self.scores(d, alpha)
        return self.inner.intercept(scores)


# Where all parameters are near zero, their unit is this share of the largest one at the start.
SMALL_START = 1e-3
