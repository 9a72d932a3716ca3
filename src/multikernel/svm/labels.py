"""Many binary SVMs on one kernel, one per label, solved on all cores."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from multikernel.problems.certificate import Certificate
from multikernel.runtime.clock import OutOfTime, map_threads, one_blas_thread
from multikernel.svm.binary import CSVM, NuSVM, checked_signs
from multikernel.svm.quadratic_program import DenseOperator, KernelOperator

Vector = NDArray[np.float64]


class LabelSVMs:
    """T independent SVMs that share a kernel.

    ``signs`` (n, T) are −1, +1, or 0 where a sample is not used for a label; C and the options of
    :class:`~multikernel.svm.binary.CSVM` are the same for each. With ``nu`` they are ν-SVMs, and C is not used.
    """

    is_c_svm = False

    def __init__(self, signs: ArrayLike, C: float = 1.0, *, nu: float | None = None, **options: Any):
        self.signs = checked_signs(signs, "(n, T): one column per label")
        self.svms: list[CSVM | NuSVM] = [
            CSVM(column, C, **options) if nu is None else NuSVM(column, nu, **options) for column in self.signs.T
        ]
        self.n_solved = 0  # SVMs so far: what methods for many labels count their work in

    @property
    def n_labels(self) -> int:
        """Number of labels."""
        return len(self.svms)

    def solve(
        self, K: NDArray | KernelOperator, warm: ArrayLike | None = None, **options: Any
    ) -> tuple[Vector, NDArray[np.float64]]:
        """Values, shape (T,), and alpha, shape (n, T), of every label's dual; options as for ``CSVM.solve``."""
        starts = [None] * self.n_labels if warm is None else self._checked(warm).T
        self.n_solved += self.n_labels
        # the labels take the cores; within a label one thread is enough
        operator = DenseOperator(K, threads=False) if isinstance(K, np.ndarray) else K
        with one_blas_thread():
            try:
                solved = map_threads(lambda svm, a: svm.solve(operator, a, **options), zip(self.svms, starts))
            except OutOfTime as end:
                end.reached = None  # one label's alpha is no solution
                raise
        return np.array([value for value, _ in solved]), np.column_stack([alpha for _, alpha in solved])

    def start(self) -> NDArray[np.float64]:
        """A feasible alpha for a cold start, shape (n, T)."""
        return np.column_stack([svm.start() for svm in self.svms])

    def sample(self, rows: NDArray[np.intp]) -> LabelSVMs | None:
        """The SVMs of some of the samples; None if a label has too few of a class there."""
        svms = [svm.sample(rows) for svm in self.svms]
        if any(svm is None for svm in svms):
            return None
        other = copy.copy(self)
        other.signs, other.svms = self.signs[rows], [svm for svm in svms if svm is not None]
        return other

    def _each(self, method: str, columns: NDArray) -> list[Any]:
        """A method of each label's SVM, called with its column of an array (n, T)."""
        return [getattr(svm, method)(column) for svm, column in zip(self.svms, columns.T)]

    def linear(self, alpha: ArrayLike) -> Vector:
        """Linear parts of the dual objectives, shape (T,)."""
        return np.array(self._each("linear", self._checked(alpha)))

    def violation(self, alpha: ArrayLike) -> float:
        """Largest distance of any label's alpha from its bounds and sum."""
        return max(self._each("violation", self._checked(alpha)))

    def repair(self, alpha: ArrayLike) -> NDArray[np.float64]:
        """A feasible point near ``alpha``, shape (n, T)."""
        return np.column_stack(self._each("repair", self._checked(alpha)))

    def certificates(self, scores: NDArray, alpha: NDArray, error: NDArray | None = None) -> list[Certificate]:
        """Primal and dual value of each label, from ``scores = K @ alpha`` of shape (n, T)."""
        errors = [None] * len(self.svms) if error is None else error.T
        return [svm.certificate(f, a, e) for svm, f, a, e in zip(self.svms, scores.T, alpha.T, errors)]

    def linear_error(self, alpha: NDArray) -> float:
        """What the linear parts may be off by, all together."""
        return sum(self._each("linear_error", alpha))

    def shortfall(self, alpha: NDArray) -> float:
        """By how much the labels' sums are wrong, all together."""
        return sum(self._each("shortfall", alpha))

    def certificate(self, scores: NDArray, alpha: NDArray, error: NDArray | None = None) -> Certificate:
        """Primal and dual value of the sum over labels; ``error`` is as for ``CSVM.certificate``."""
        each = self.certificates(scores, alpha, error)
        return Certificate(primal=sum(c.primal for c in each), dual=sum(c.dual for c in each))

    def resolution(self, largest: float) -> float:
        """Gap of the sum over labels that is none."""
        return sum(svm.resolution(largest) for svm in self.svms)

    def intercept(self, scores: NDArray) -> Vector:
        """Best bias of each label, shape (T,)."""
        return np.array(self._each("intercept", scores))

    def _checked(self, alpha: ArrayLike) -> NDArray[np.float64]:
        alpha = np.asarray(alpha, dtype=np.float64)
        if alpha.shape != self.signs.shape:
            raise ValueError(f"alpha has shape {alpha.shape}, expected {self.signs.shape}: one column per label.")
        return alpha
