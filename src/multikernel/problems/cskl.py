"""CSKL: kernel weights between 0 and 1 that sum to t [GMSB11], or exactly t kernels."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from multikernel.problems.minmax import MinMaxProblem
from multikernel.problems.weight_sets import CappedSimplex
from multikernel.runtime.clock import check
from multikernel.svm.decomposition import WorkingSet
from multikernel.svm.quadratic_program import DenseOperator

Vector = NDArray[np.float64]

ROUGH = 1e-2  # relative gap of the SVM at a choice that is worse than the best: to be ruled out, not to be known
# Of rough SVMs: SMO steps per sample, and at least; the gap above which that was not enough, and the relative
# distance from a value of interest within which more is asked for.
STEPS, LEAST_STEPS, LOOSE, NEAR = 1.5, 100, 0.3, 0.03
AT_ONCE = 1 << 26  # bytes of scores that are computed in one pass over the kernels


class CappedProblem(MinMaxProblem):
    """``min J(g)`` over weights between 0 and 1 with a given sum t; what is known of J is handed from t to t."""

    def __init__(self, stack, inner, weight_set: CappedSimplex, memory: int):
        super().__init__(stack, inner, weight_set, memory)
        self.t = weight_set.t

    def take_over(self, earlier: MinMaxProblem) -> None:
        """The kernel and the scores that ``earlier`` asked for last, of the same stack; it then has them no more."""
        self.scores.take_over(earlier.scores)
        self._kernel, earlier._kernel = earlier._kernel, None

    def holds(self, weights: Vector) -> bool:
        """Whether ``weights`` are in the set, to rounding."""
        inside = bool((weights >= 0.0).all() and (weights <= 1.0).all())
        return inside and abs(float(weights.sum()) - self.t) <= 1e-9 * self.t


class SelectionProblem(MinMaxProblem):
    """``min J(g)`` over g in {0, 1}^F with t ones; bounds on the relaxation, weights in [0, 1], hold for it too."""

    def __init__(self, stack: Any, inner: Any, weight_set: CappedSimplex, memory: int):
        super().__init__(stack, inner, weight_set, memory)
        self.t = round(weight_set.t)
        self.shrinks = all(svm.shrinks for svm in inner.svms)  # whether multiples of alpha by 0 to 1 are feasible

    def start(self) -> tuple[NDArray, NDArray]:
        """The first t kernels, and a feasible alpha."""
        return np.where(np.arange(self.n_kernels) < self.t, 1.0, 0.0), self.inner.start()

    def repaired(self, weights: NDArray, alpha: NDArray) -> tuple[NDArray, NDArray]:
        """The t largest weights, and a feasible alpha near the one given."""
        return CappedSimplex(self.t).vertex(weights), self.inner.repair(alpha)

    def relaxed(self) -> MinMaxProblem:
        """The same with weights in [0, 1]."""
        return MinMaxProblem(self.stack, self.inner, self.weight_set, self.memory)

    def bound(self, constant: float, form: float) -> float:
        """What a cut proves where its quadratic form is at most ``form``: a multiple of its alpha may prove more."""
        if self.shrinks and form > constant:
            return 0.5 * constant**2 / form
        return constant - 0.5 * form

    def cuts(self, alphas: NDArray) -> tuple[Vector, NDArray]:
        """``cut`` of many alphas, shape (R,) and (R, F), with few passes over the kernels."""
        constants = np.array([np.sum(self.inner.linear(a)) - self.inner.linear_error(a) for a in alphas])
        forms, n = np.empty((len(alphas), self.n_kernels)), len(self.stack)
        step = max(1, AT_ONCE // (self.n_kernels * alphas[0].nbytes))
        for first in range(0, len(alphas), step):
            check()
            part = alphas[first : first + step]
            columns = np.moveaxis(part.reshape(len(part), n, -1), 0, 1).reshape(n, -1)
            q = self.stack.quadratic_forms(columns).reshape(self.n_kernels, len(part), -1).sum(axis=2)
            for alpha, form, own in zip(part, forms[first:], np.maximum(q, 0.0).T):
                moved = self.rounding.of_shift(self.inner.shortfall(alpha), own)
                form[:] = own + self.rounding.of_forms(alpha) + moved
        return constants, forms

    def solve_roughly(self, weights: Vector, warm: NDArray, value: float) -> tuple[float, NDArray]:
        """Value and alpha of the inner problem to a few percent, better where it is about to be ``value``.

        For one SVM in memory this is plain SMO from ``warm``: most branches and choices can be ruled out by any alpha
        near the right one.
        """
        kernel = self.kernel(weights)
        if np.ndim(warm) == 2 or not isinstance(kernel, np.ndarray):
            return self.solve_inner(weights, warm, ROUGH)
        box, operator = self.inner.problem, DenseOperator(kernel)
        index = box.ordered(np.ones(len(warm), dtype=bool))
        work = WorkingSet(operator, box, index, operator.matvec(warm) - box.p, warm)
        work.smo(0.0, max(LEAST_STEPS, int(STEPS * len(warm))))
        alpha, scores = np.empty(len(warm)), np.empty(len(warm))
        alpha[index], scores[index] = work.b, work.g + box.p[index]
        found = self.inner.certificate(scores, alpha)
        near = found.dual < value and value - found.dual <= NEAR * abs(value)
        if near or not found.relative_gap <= LOOSE:
            return self.solve_inner(weights, alpha, 0.1 * ROUGH)
        return found.dual, box.feasible(alpha)
