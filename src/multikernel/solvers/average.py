"""The SVM on one kernel: what is left of multiple kernel learning when the weights are fixed."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from multikernel.problems.certificate import Certificate
from multikernel.runtime.clock import OutOfTime
from multikernel.runtime.monitor import Monitor
from multikernel.svm.binary import CSVM, NuSVM
from multikernel.svm.quadratic_program import KernelOperator, as_operator


class OneKernelProblem:
    """An SVM on a kernel whose weights are given.

    Parameters
    ----------
    kernel : ndarray of shape (n, n) or kernel operator
        The combined kernel.
    inner : CSVM or NuSVM
        The SVM's dual.
    weights : ndarray of shape (F,)
        Weights that made the kernel.
    """

    def __init__(self, kernel: NDArray | KernelOperator, inner: CSVM | NuSVM, weights: NDArray):
        self.operator = as_operator(kernel)
        self.inner = inner
        self.weights = weights
        self._last: tuple[NDArray, NDArray] | None = None

    def start(self) -> tuple[NDArray, NDArray]:
        """The given weights, and a feasible alpha."""
        return self.weights, self.inner.start()

    def weights_of(self, alpha: NDArray) -> NDArray:
        """The weights that belong to ``alpha``: here those given."""
        return self.weights

    def settled(self, weights: NDArray, alpha: NDArray) -> tuple[NDArray, NDArray]:
        """A feasible alpha near ``alpha``, and its weights."""
        alpha = self.inner.repair(alpha)
        return self.weights_of(alpha), alpha

    def certificate(self, weights: NDArray, alpha: NDArray) -> Certificate:
        """Primal and dual value of the SVM at ``alpha``."""
        return self.inner.certificate(self._scores(alpha), alpha)

    def intercept(self, weights: NDArray, alpha: NDArray) -> float:
        """The bias with the least loss."""
        return self.inner.intercept(self._scores(alpha))

    def _scores(self, alpha: NDArray) -> NDArray:
        """``K alpha``; the last one is remembered."""
        if self._last is None or not np.array_equal(self._last[0], alpha):
            self._last = np.array(alpha), self.operator.matvec(alpha)
        return self._last[1]


def single_svm(
    problem: OneKernelProblem,
    monitor: Monitor,
    start: tuple[NDArray, NDArray] | None = None,
    *,
    max_iter: int = 1000,
) -> None:
    """Solve the SVM, telling the monitor after each burst of the engine; the monitor has the result."""

    bursts = 0

    def watch(alpha: NDArray) -> bool:
        nonlocal bursts
        bursts += 1
        return monitor(problem.weights_of(alpha), alpha)

    warm = None if start is None else start[1]
    try:
        _, alpha = problem.inner.solve(
            problem.operator, warm, tol=monitor.tol, max_iter=max_iter, monitor=watch, warn=False
        )
    except OutOfTime as end:
        end.reached = problem.weights, end.reached
        raise
    if monitor.current is None or not np.array_equal(alpha, monitor.current[1]):
        monitor(problem.weights_of(alpha), alpha)
    if monitor.stopped == "iterations" and bursts < max_iter:
        monitor.stopped = "rounding"
