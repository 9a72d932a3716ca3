"""The SVM on one kernel: what is left of multiple kernel learning when the weights are fixed."""

import numpy as np
from numpy.typing import NDArray

from multikernel.gram import DenseStack
from multikernel.problems.certificate import Rounding
from multikernel.problems.minmax import SVMProblem, scores_and_errors
from multikernel.runtime.clock import OutOfTime
from multikernel.runtime.monitor import Monitor
from multikernel.solvers.common.newton import Start
from multikernel.svm.binary import CSVM, NuSVM
from multikernel.svm.quadratic_program import DenseOperator, KernelOperator, as_operator


class OneKernelProblem(SVMProblem):
    """An SVM on a kernel, in memory or not, whose weights, shape (F,), are given."""

    def __init__(self, kernel: NDArray | KernelOperator, inner: CSVM | NuSVM, weights: NDArray):
        super().__init__(inner)
        self.operator, self.weights, self._precise = as_operator(kernel), weights, False

    def start(self) -> tuple[NDArray, NDArray]:
        """The given weights, and a feasible alpha."""
        return self.weights, self.inner.start()

    def weights_of(self, alpha: NDArray) -> NDArray:
        """The weights that belong to ``alpha``: here those given."""
        return self.weights

    def repaired(self, weights: NDArray, alpha: NDArray) -> tuple[NDArray, NDArray]:
        """A feasible alpha near ``alpha``, and its weights."""
        alpha = self.inner.repair(alpha)
        return self.weights_of(alpha), alpha

    def _scores_and_errors(self, weights: NDArray, alpha: NDArray) -> tuple[NDArray, NDArray]:
        if not (self._precise and isinstance(self.operator, DenseOperator)):
            return scores_and_errors(self.operator, alpha)
        stack = DenseStack(self.operator.K[None])
        scores = stack.apply_precisely(alpha)[0]
        return scores, Rounding(stack).of_scores(np.ones(1), alpha, np.abs(scores))

    def sharpen(self) -> bool:
        """Compute scores as if in twice the precision from now on; False if they are, or the kernel is not there."""
        if self._precise or not isinstance(self.operator, DenseOperator):
            return False
        self._precise = True
        self._products.forget()
        return True


def single_svm(problem: OneKernelProblem, monitor: Monitor, start: Start = None, *, max_iter: int = 1000) -> None:
    """Solve the SVM, telling the monitor after each burst of the engine."""
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
