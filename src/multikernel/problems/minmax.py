"""The one structure behind most methods: min over weights in a set of the optimum of an SVM on their kernel."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from multikernel.gram import DenseStack, LowRankStack
from multikernel.gram.base import GramStack
from multikernel.gram.combination import WeightedSum, one_kernel
from multikernel.problems.certificate import Certificate
from multikernel.problems.weight_sets import WeightSet, nearest
from multikernel.runtime.clock import OutOfTime
from multikernel.svm.binary import NuSVM
from multikernel.svm.labels import LabelSVMs
from multikernel.svm.operators import KernelOperator, as_operator

# How much of the tolerance of an SVM its gap may be, computed from the kernels themselves, before the rounding of the
# combined kernel is to blame.
ROUNDING = 2.0


class MinMaxProblem:
    """``min over g in G of J(g) = max over alpha in A of  linear(alpha) - ½ Σ_j g_j q_j(alpha)``.

    J is convex, with gradient ``-½ q(alpha*)``. For any g in G and any alpha in A

        linear(alpha) - ½ support_G(q(alpha))  <=  optimum  <=  J(g),

    which is the certificate of every method that solves this problem.

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
        if not isinstance(part, LowRankStack):
            if part.n_kernels * len(rows) ** 2 * part.dtype.itemsize > self.memory // 8:
                return None
            part = DenseStack.owning(part.to_array(), part.names)
        return MinMaxProblem(part, inner, self.weight_set, self.memory)

    def forget_kernel(self) -> None:
        """Free the memory of the kernel asked for last."""
        self._kernel = None

    def cut(self, alpha: NDArray) -> tuple[float, NDArray[np.float64]]:
        """``linear(alpha)`` and ``q(alpha)``: the plane ``linear − ½ g·q`` that bounds J from below."""
        return float(np.sum(self.inner.linear(alpha))), self.quadratic_forms(alpha)

    def scores(self, alpha: NDArray) -> NDArray[np.float64]:
        """``K_j alpha`` of each kernel, shape (F, n) or (F, n, T); the last one is remembered."""
        if self._last is None or not np.array_equal(self._last[0], alpha):
            self._last = np.array(alpha), self.stack.apply(alpha)
        return self._last[1]

    def scores_by_label(self, alpha: NDArray, kernels: NDArray[np.intp]) -> Iterator[NDArray[np.float64]]:
        """``K_j alpha_t`` of some kernels, shape (len(kernels), n), label after label, for alpha of shape (n, T)."""
        scores = self.scores(alpha)[kernels]
        return (scores[:, :, t] for t in range(alpha.shape[1]))

    def quadratic_forms(self, alpha: NDArray) -> NDArray[np.float64]:
        """``q_j(alpha) = Σ_labels alpha' K_j alpha``, shape (F,)."""
        scores = self.scores(alpha)
        return np.maximum((scores * alpha).reshape(len(scores), -1).sum(axis=1), 0.0)

    def lower_bound(self, alpha: NDArray) -> float:
        """``linear(alpha) - ½ support_G(q(alpha))``."""
        linear, q = self.cut(alpha)
        return linear - 0.5 * self.weight_set.support(q)

    def certificate(self, weights: NDArray, alpha: NDArray) -> Certificate:
        """Upper bound: the primal value of the SVM that ``alpha`` makes on the kernel of ``weights``."""
        scores = np.tensordot(weights, self.scores(alpha), axes=1)
        primal, dual = self.inner.certificate(scores, alpha).primal, self.lower_bound(alpha)
        if self.stack.dtype != np.float64 and self._dtype is None:
            self._watch_rounding(weights, alpha, primal)
        return Certificate(primal, primal if abs(primal - dual) <= self._rounding else dual)

    @cached_property
    def _rounding(self) -> float:
        """Gap that is none: the optimum of ν-SVMs can be zero."""
        svms = [svm for svm in getattr(self.inner, "svms", [self.inner]) if isinstance(svm, NuSVM)]
        if not svms:
            return 0.0
        largest = float(self.weight_set.support(self.stack.diagonal().max(axis=1)))
        return sum(svm.rounding(largest) for svm in svms)

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
        return self.inner.intercepts(scores) if alpha.ndim == 2 else self.inner.intercept(scores)
