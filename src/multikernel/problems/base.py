"""What problems with SVMs inside share: the kernel and scores asked for last, and the rounding of certificates."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from multikernel.gram import Combination, WeightedSum, one_kernel
from multikernel.gram.base import GramStack, support_of
from multikernel.problems.certificate import Certificate
from multikernel.problems.rounding import UNIT, Rounding, largest_scores
from multikernel.runtime.clock import OutOfTime
from multikernel.svm.quadratic_program import KernelOperator, as_operator, kernel_times

Vector = NDArray[np.float64]


class LastValue:
    """A function of arrays that remembers its last value until it is called with others.

    Examples
    --------
    >>> import numpy as np
    >>> from multikernel.problems.base import LastValue
    >>> double = LastValue(lambda x: 2 * x)
    >>> double(np.ones(2)) is double(np.ones(2))
    True
    """

    def __init__(self, function: Callable[..., Any]):
        self.function = function
        self.forget()

    def forget(self) -> None:
        """Free the memory of the value."""
        self._arguments: tuple[NDArray, ...] | None = None
        self._value: Any = None

    def __call__(self, *arguments: NDArray) -> Any:
        if self._arguments is None or not all(map(np.array_equal, self._arguments, arguments)):
            self.forget()  # two values at once may not fit
            self._value = self.function(*arguments)
            self._arguments = tuple(map(np.array, arguments))
        return self._value

    def take_over(self, other: LastValue) -> None:
        """The value of another, which then has it no more."""
        self._arguments, self._value = other._arguments, other._value
        other.forget()


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
    """SVMs on one kernel that is made of a stack by weights.

    Parameters
    ----------
    stack : GramStack
        Training kernels, square.
    inner : CSVM, NuSVM or LabelSVMs
        The problem in alpha; with several labels the objectives are summed.
    memory : int
        Bytes that the combined kernel may take; beyond, it is computed where it is read.
    """

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
        """How the kernel is made, in the memory of ``out`` if it can use that."""
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
