"""The one structure behind most methods: min over weights in a set of the optimum of an SVM on their kernel."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from multikernel.gram import DenseStack, WeightedSum, one_kernel
from multikernel.gram.base import GramStack
from multikernel.problems.certificate import Certificate
from multikernel.problems.rounding import Rounding
from multikernel.problems.weight_sets import WeightSet, nearest
from multikernel.runtime.clock import OutOfTime
from multikernel.svm.binary import NuSVM
from multikernel.svm.labels import LabelSVMs
from multikernel.svm.quadratic_program import KernelOperator, as_operator

# How much of the tolerance of an SVM its gap may be, computed from the kernels themselves, before the rounding of the
# combined kernel is to blame.
ROUNDING = 2.0


class MinMaxProblem:
    """``min over g in G of J(g) = max over alpha in A of  linear(alpha) - ½ Σ_j g_j q_j(alpha)``.

    J is convex, with gradient ``-½ q(alpha*)``. For any g in G and any alpha in A

        linear(alpha) - ½ support_G(q(alpha))  <=  optimum  <=  J(g),

    which is the certificate of every method that solves this problem. Both bounds include what rounding may have done
    to them; where that is most of the gap, ``sharpen`` has scores computed as if in twice the precision.

    Parameters
    ----------
    stack : GramStack
        Training kernels, square.
    inner : CSVM, NuSVM or LabelSVMs
        The problem in alpha; with several labels the objectives are summed.
    weight_set : WeightSet
        The set G.
    memory : int
        Bytes that the combined kernel may take; beyond, it is computed where it is read.
    """

    def __init__(self, stack: GramStack, inner: Any, weight_set: WeightSet, memory: int):
        self.stack, self.inner, self.weight_set, self.memory = stack, inner, weight_set, memory
        self.rounding = Rounding(stack)
        self._precise = False
        self._last: tuple[NDArray, NDArray] | None = None
        self._kernel: tuple[NDArray, Any] | None = None
        # Single precision will do until it keeps an SVM from its tolerance.
        self._dtype: type | None = None
        self._solved: tuple[NDArray, float] | None = None

    @property
    def n_kernels(self) -> int:
        """Number of kernels F."""
        return self.stack.n_kernels

    def start(self) -> tuple[NDArray, NDArray]:
        """Weights that favour no kernel, and a feasible alpha."""
        return self.weight_set.start(self.n_kernels), self.inner.start()

    def settled(self, weights: NDArray, alpha: NDArray) -> tuple[NDArray, NDArray]:
        """The nearest weights of the set, and a feasible alpha near the one given."""
        return nearest(self.weight_set, weights), self.inner.repair(alpha)

    def solve_inner(
        self, weights: NDArray, warm: NDArray | None, tol: float, *, enough: float = np.inf
    ) -> tuple[float, NDArray]:
        """Value and alpha of the inner problem on the kernel of ``weights``, to a relative gap ``tol``.

        It ends earlier once the value is above ``enough`` (problems with one label only).
        """
        kernel = self.kernel(weights)
        options = {}
        if np.isfinite(enough) and not isinstance(self.inner, LabelSVMs):
            operator = as_operator(kernel)
            options["monitor"] = lambda alpha: (
                self.inner.linear(alpha) - 0.5 * float(alpha @ operator.matvec(alpha)) > enough
            )
        try:
            value, alpha = self.inner.solve(kernel, warm, tol=tol, warn=False, **options)
        except OutOfTime as end:
            end.reached = None if isinstance(self.inner, LabelSVMs) else (weights, end.reached)
            raise
        total = float(np.sum(value))
        self._solved = alpha, tol * abs(total)
        return total, alpha

    def kernel(self, weights: NDArray) -> NDArray | KernelOperator:
        """The kernel of ``weights``, remembered until others are asked for."""
        if self._kernel is None or not np.array_equal(self._kernel[0], weights):
            last = None if self._kernel is None else self._kernel[1]
            out = last if isinstance(last, np.ndarray) else None
            self._kernel = last = None  # two at once may not fit
            combination = WeightedSum(weights, self._dtype, out)
            self._kernel = np.array(weights), one_kernel(self.stack, combination, self.memory)
        return self._kernel[1]

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

    def forget_kernel(self) -> None:
        """Free the memory of the kernel asked for last."""
        self._kernel = None

    def cut(self, alpha: NDArray) -> tuple[float, NDArray[np.float64]]:
        """``linear(alpha)`` and ``q(alpha)``: the plane ``linear − ½ g·q`` that bounds J from below.

        Rounding included: the one is not larger and the other not smaller than it is at a feasible point near alpha.
        """
        linear, q = float(np.sum(self.inner.linear(alpha))), self.quadratic_forms(alpha)
        wrong = self.rounding.of_forms(alpha, self._precise_scores(alpha))
        moved = self.rounding.of_shift(self.inner.shortfall(alpha), q)
        return linear - self.inner.linear_error(alpha), q + wrong + moved

    def scores(self, alpha: NDArray) -> NDArray[np.float64]:
        """``K_j alpha`` of each kernel, shape (F, n) or (F, n, T); the last one is remembered."""
        if self._last is None or not np.array_equal(self._last[0], alpha):
            apply = self.stack.apply_precisely if self._precise else self.stack.apply
            self._last = np.array(alpha), apply(alpha)
        return self._last[1]

    def sharpen(self) -> bool:
        """Compute scores as if in twice the precision from now on; False if they are, or if that would not help."""
        if self._precise or not self._can_sharpen:
            return False
        self._precise, self._last = True, None
        return True

    @property
    def _can_sharpen(self) -> bool:
        """Whether entries of kernels are given: those that are products of features are rounded themselves."""
        return not self.stack.explicit

    def _precise_scores(self, alpha: NDArray) -> NDArray[np.float64] | None:
        """The scores if they are precise."""
        return self.scores(alpha) if self._precise else None

    def scores_by_label(self, alpha: NDArray, kernels: NDArray[np.intp]) -> Iterator[NDArray[np.float64]]:
        """``K_j alpha_t`` of some kernels, shape (len(kernels), n), label after label, for alpha of shape (n, T)."""
        scores = self.scores(alpha)[kernels]
        return (scores[:, :, t] for t in range(alpha.shape[1]))

    def quadratic_forms(self, alpha: NDArray) -> NDArray[np.float64]:
        """``q_j(alpha) = Σ_labels alpha' K_j alpha``, shape (F,)."""
        return np.maximum(self._raw_forms(alpha), 0.0)

    def _raw_forms(self, alpha: NDArray) -> NDArray[np.float64]:
        """The same, negative where entries of a kernel are rounded so that it is not positive semi-definite."""
        scores = self.scores(alpha)
        return (scores * alpha).reshape(len(scores), -1).sum(axis=1)

    def lower_bound(self, alpha: NDArray) -> float:
        """``linear(alpha) - ½ support_G(q(alpha))``, rounding included."""
        return self._supported(*self.cut(alpha))

    def _supported(self, linear: float, q: NDArray[np.float64]) -> float:
        return linear - 0.5 * self.weight_set.support(q)

    def certificate(self, weights: NDArray, alpha: NDArray) -> Certificate:
        """Upper bound: the primal value of the SVM that ``alpha`` makes on the kernel of ``weights``."""
        scores = np.tensordot(weights, self.scores(alpha), axes=1)
        error = self.rounding.of_scores(weights, alpha, self._precise_scores(alpha))
        q, forms = self.quadratic_forms(alpha), self._raw_forms(alpha)
        # no kernel's share of the squared norm is negative, but the rounding of its entries can make it so
        missing = float(weights @ q) - max(float(weights @ forms), 0.0)
        primal, dual = self.inner.certificate(scores, alpha, error).primal + 0.5 * missing, self.lower_bound(alpha)
        if self.stack.dtype != np.float64 and self._dtype is None:
            self._watch_rounding(weights, alpha, primal)
        linear = float(np.sum(self.inner.linear(alpha)))
        rounding = primal - dual - (self.inner.certificate(scores, alpha).primal - self._supported(linear, q))
        resolution = self._resolution + (0.0 if self._can_sharpen or not self._resolution else rounding)
        return Certificate(primal, dual, rounding=rounding, resolution=resolution)

    @cached_property
    def _resolution(self) -> float:
        """Gap that is none: the optimum of ν-SVMs can be zero."""
        svms = [svm for svm in getattr(self.inner, "svms", [self.inner]) if isinstance(svm, NuSVM)]
        if not svms:
            return 0.0
        largest = float(self.weight_set.support(self.stack.diagonal().max(axis=1)))
        return sum(svm.resolution(largest) for svm in svms)

    def _watch_rounding(self, weights: NDArray, alpha: NDArray, primal: float) -> None:
        """Combine kernels in double precision from now on if the SVM is further from its optimum than was asked."""
        if self._solved is None or self._solved[0] is not alpha:
            return
        linear, q = self.cut(alpha)
        if primal - (linear - 0.5 * float(weights @ q)) > ROUNDING * self._solved[1]:
            self._dtype, self._kernel = np.float64, None

    def intercept(self, weights: NDArray, alpha: NDArray) -> Any:
        """The bias with the least loss; one per label."""
        scores = np.tensordot(weights, self.scores(alpha), axes=1)
        return self.inner.intercept(scores)
