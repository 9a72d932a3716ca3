"""One combination of kernels for many labels: the worst label's SVM, or the sum over labels [BJJ10]."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from multikernel.gram.base import BLOCK_BYTES, GramStack
from multikernel.problems.certificate import Certificate
from multikernel.problems.cutting_planes import CuttingPlaneModel
from multikernel.problems.minmax import MinMaxProblem
from multikernel.problems.weight_sets import LpBall
from multikernel.runtime.threads import map_threads, one_blas_thread
from multikernel.svm.labels import LabelSVMs
from multikernel.svm.quadratic_program import DenseOperator, KernelOperator, kernel_times

Vector = NDArray[np.float64]

# Labels from which their quadratic forms are cheaper as products of matrices than one at a time.
MANY_LABELS = 4
# Tables of shape (n, M) that scores of several kernels may take at once.
SCORE_TABLES = 8
# Share of the worst label's value from which a label may count for the bound: near the optimum others do not.
NEAR = 0.9


class LabelProblem(MinMaxProblem):
    """What the two problems share: kernel weights on the simplex, and an SVM for each label.

    Beside the kernels it keeps one combined kernel and arrays of shape (n, M), never (F, n, M).

    Parameters
    ----------
    stack : GramStack
        Training kernels, square.
    inner : LabelSVMs
        The SVMs of the M labels.
    memory : int
        Bytes that the combined kernel may take; beyond, it is computed where it is read.
    """

    inner: LabelSVMs

    def __init__(self, stack: GramStack, inner: LabelSVMs, memory: int):
        super().__init__(stack, inner, LpBall(1.0), memory)
        self._scores: tuple[Vector, NDArray, NDArray] | None = None

    @property
    def n_labels(self) -> int:
        """Number of labels M."""
        return self.inner.n_labels

    def label_scores(self, weights: Vector, alpha: NDArray) -> NDArray[np.float64]:
        """``K(weights) @ alpha``, shape (n, M); the last one is remembered."""
        if not alpha.any():
            return np.zeros(alpha.shape)
        last = self._scores
        if last is None or not (np.array_equal(last[0], weights) and np.array_equal(last[1], alpha)):
            last = self._scores = np.array(weights), np.array(alpha), kernel_times(self.kernel(weights), alpha)
        return last[2]

    def scores_by_label(self, alpha: NDArray, kernels: NDArray[np.intp]) -> Iterator[NDArray[np.float64]]:
        """As for any min-max problem, but with the scores of a bounded number of labels at a time, none kept."""
        at_once = min(BLOCK_BYTES // (8 * len(alpha)), SCORE_TABLES * self.n_labels)  # kernels times labels
        size = max(1, at_once // len(kernels))
        for start in range(0, self.n_labels, size):
            part = np.ascontiguousarray(alpha[:, start : start + size])
            scores = np.empty((len(kernels), *part.shape))
            for row, k in zip(scores, kernels):  # one at a time: in double precision all would be twice their size
                row[:] = self.stack.take(kernels=[k]).apply(part)[0]
            yield from np.moveaxis(scores, 2, 0)

    def label_certificates(self, weights: Vector, alpha: NDArray) -> tuple[Vector, Vector]:
        """Primal and dual value of each label's SVM on the kernel of ``weights``, each of shape (M,)."""
        found = self.inner.certificates(self.label_scores(weights, alpha), alpha)
        return np.array([c.primal for c in found]), np.array([c.dual for c in found])

    def solve_label(
        self, k: int, kernel: NDArray | KernelOperator, warm: Vector, tol: float
    ) -> tuple[Vector, float, Vector]:
        """alpha of label k on a kernel, its linear part, and its quadratic forms, shape (F,)."""
        _, alpha = self.inner.svms[k].solve(kernel, warm, tol=tol, warn=False)
        return alpha, self.inner.svms[k].linear(alpha), self.stack.quadratic_forms(alpha)

    def solve_labels(self, weights: Vector, alpha: NDArray, labels: NDArray[np.intp], tols: Vector) -> NDArray:
        """A copy of ``alpha`` with some labels solved on the kernel of ``weights``, on all cores."""
        kernel = self.kernel(weights)
        # the labels take the cores; within a label one thread is enough
        operator = DenseOperator(kernel, threads=len(labels) == 1) if isinstance(kernel, np.ndarray) else kernel

        def solve(k: int, tol: float) -> Vector:
            return self.inner.svms[k].solve(operator, alpha[:, k], tol=tol, warn=False)[1]

        with one_blas_thread():
            solved = map_threads(solve, [(int(k), float(tol)) for k, tol in zip(labels, tols)])
        alpha = np.array(alpha)
        for k, column in zip(labels, solved):
            alpha[:, k] = column
        return alpha

    def intercept(self, weights: NDArray, alpha: NDArray) -> Vector:
        """The bias with the least loss, one per label."""
        return self.inner.intercept(self.label_scores(weights, alpha))


class LabelSumProblem(LabelProblem):
    """``min over p in the simplex of Σ_k J_k(p)``, J_k the optimum of label k's SVM on Σ_j p_j K_j [BJJ10, eq. (2)].

    The min-max problem with all labels' SVMs as its inner problem, with bounds from one pass over the kernels.

    Examples
    --------
    >>> import numpy as np
    >>> from multikernel.gram import DenseStack
    >>> from multikernel.svm import LabelSVMs
    >>> from multikernel.problems.multilabel import LabelSumProblem
    >>> stack = DenseStack(np.stack([np.eye(2), 2 * np.eye(2)]))
    >>> problem = LabelSumProblem(stack, LabelSVMs([[-1, 1], [1, 1]], C=10.0, bias=False), memory=1 << 20)
    >>> weights, alpha = problem.start()
    >>> value, alpha = problem.solve_inner(np.array([0.0, 1.0]), alpha, 1e-9)
    >>> proof = problem.certificate(np.array([0.0, 1.0]), alpha)
    >>> round(proof.primal, 9), round(proof.dual, 9)
    (1.0, 1.0)
    """

    def __init__(self, stack: GramStack, inner: LabelSVMs, memory: int):
        super().__init__(stack, inner, memory)
        self._forms: tuple[NDArray, Vector] | None = None

    def quadratic_forms(self, alpha: NDArray) -> Vector:
        """``Σ_k alpha_k' K_j alpha_k``, shape (F,); the last are kept."""
        if self._forms is None or not np.array_equal(self._forms[0], alpha):
            self._forms = np.array(alpha), np.maximum(self.stack.summed_forms(alpha), 0.0)
        return self._forms[1]

    def certificate(self, weights: NDArray, alpha: NDArray) -> Certificate:
        """Upper bound: the labels' primal values on the kernel of ``weights``, summed."""
        primal, _ = self.label_certificates(weights, alpha)
        return Certificate(float(primal.sum()), self.lower_bound(alpha))


class WorstLabelProblem(LabelProblem):
    """``min over p in the simplex of max over k of J_k(p)``, J_k the optimum of label k's SVM [BJJ10, eq. (3)].

    With weights γ of the labels, also on a simplex, it is a saddle point, convex in p, concave in γ and alpha
    [BJJ10, eq. (5)]:

        min over p, max over γ and alpha, of  Σ_k γ_k (linear_k(alpha_k) − ½ Σ_j p_j q_j(alpha_k)).

    For any p, feasible alpha, and γ

        Σ_k γ_k linear_k − ½ max_j Σ_k γ_k q_j(alpha_k)  <=  optimum  <=  max_k J_k(p),

    and for given alpha the best γ is the solution of a matrix game, a linear program.

    Examples
    --------
    >>> import numpy as np
    >>> from multikernel.gram import DenseStack
    >>> from multikernel.svm import LabelSVMs
    >>> from multikernel.problems.multilabel import WorstLabelProblem
    >>> stack = DenseStack(np.stack([np.diag([1.0, 4.0]), np.diag([4.0, 1.0])]))
    >>> problem = WorstLabelProblem(stack, LabelSVMs([[1, 0], [0, 1]], C=10.0, bias=False), memory=1 << 20)
    >>> half = np.full(2, 0.5)
    >>> alpha = problem.solve_labels(half, problem.start()[1], np.arange(2), np.full(2, 1e-9))
    >>> proof = problem.certificate(half, alpha)
    >>> round(proof.primal, 9), round(proof.dual, 9)
    (0.2, 0.2)
    >>> problem.label_weights(alpha).round(6)
    array([0.5, 0.5])
    """

    def __init__(self, stack: GramStack, inner: LabelSVMs, memory: int):
        super().__init__(stack, inner, memory)
        self._alpha = np.zeros(inner.signs.shape)
        self._table = np.zeros((stack.n_kernels, inner.n_labels))

    def label_forms(self, alpha: NDArray, labels: NDArray[np.intp] | None = None) -> NDArray[np.float64]:
        """``q_j(alpha_k)`` of some labels, by default all, shape (F, len(labels)).

        Only labels whose alpha has changed since they were last asked for are worked on.
        """
        labels = np.arange(self.n_labels) if labels is None else labels
        changed = labels[(alpha[:, labels] != self._alpha[:, labels]).any(axis=0)]
        if len(changed) < MANY_LABELS:
            for k in changed:
                self._table[:, k] = self.stack.quadratic_forms(alpha[:, k])
        else:
            part = np.ascontiguousarray(alpha[:, changed])
            for j in range(self.n_kernels):  # one at a time: all at once would be (F, n, M) numbers
                scores = self.stack.take(kernels=[j]).apply(part)[0]
                self._table[j, changed] = np.einsum("nk,nk->k", scores, part)
        self._alpha[:, changed] = alpha[:, changed]
        np.maximum(self._table, 0.0, out=self._table)
        return self._table[:, labels]

    def remember(self, k: int, alpha: Vector, forms: Vector) -> None:
        """Take note of the quadratic forms of a label's alpha, so that they need not be computed again."""
        self._alpha[:, k], self._table[:, k] = alpha, forms

    def contenders(self, weights: Vector, alpha: NDArray) -> NDArray[np.intp]:
        """Labels whose value on the kernel of ``weights`` is near that of the worst."""
        return near_the_largest(self.label_certificates(weights, alpha)[1])

    def game(self, alpha: NDArray, labels: NDArray[np.intp]) -> CuttingPlaneModel:
        """The cuts of some labels at ``alpha``, solved: ``multipliers`` are their best γ, and ``bound`` its value."""
        model = CuttingPlaneModel(self.n_kernels, 1.0, "lp")
        for k, q in zip(labels, self.label_forms(alpha, labels).T):
            model.add(self.inner.svms[k].linear(alpha[:, k]), q)
        model.solve()
        return model

    def label_weights(self, alpha: NDArray, labels: NDArray[np.intp] | None = None) -> Vector:
        """The γ that proves most for given alpha, shape (M,): large for labels that decide about the kernels.

        Zero but for ``labels``, if given.
        """
        labels = np.arange(self.n_labels) if labels is None else labels
        gamma = np.zeros(self.n_labels)
        gamma[labels] = self.game(alpha, labels).multipliers
        return gamma

    def lower_bound(self, alpha: NDArray, labels: NDArray[np.intp] | None = None) -> float:
        """``max over γ of Σ_k γ_k linear_k − ½ max_j Σ_k γ_k q_j(alpha_k)``, γ zero but for ``labels``, if given."""
        model = self.game(alpha, np.arange(self.n_labels) if labels is None else labels)
        return model.bound(model.multipliers)

    def certificate(self, weights: NDArray, alpha: NDArray) -> Certificate:
        """Upper bound: the largest of the labels' primal values on the kernel of ``weights``.

        The lower bound is that of labels near the worst: at the optimum others have γ = 0, and their quadratic forms,
        which cost a pass over the kernels, need not be known.
        """
        primal, dual = self.label_certificates(weights, alpha)
        return Certificate(float(primal.max()), self.lower_bound(alpha, near_the_largest(dual)))

    def refine(self, weights: Vector, alpha: NDArray, tol: float) -> NDArray:
        """An ``alpha`` that knows max_k J_k on the kernel of ``weights`` to a relative gap ``tol``.

        Labels whose primal value at the given alpha is below another label's dual value cannot be the worst, and
        are left as they are: of many labels few are solved.
        """
        primal, dual = self.label_certificates(weights, alpha)
        worst = int(dual.argmax())
        for first in (True, False):
            goal = tol * max(float(dual.max()), 1e-300)
            open_ = (primal > dual.max()) & (primal - dual > goal)
            labels = np.array([worst]) if first else np.flatnonzero(open_)
            if not open_[labels].any():
                continue
            # a label that turns out to be the worst need not be known better than to tol of itself; its primal value
            # may be off by any factor yet
            tols = np.maximum(goal / np.maximum(primal[labels], 1e-300), tol)
            alpha = self.solve_labels(weights, alpha, labels, tols)
            scores = kernel_times(self.kernel(weights), alpha[:, labels])
            for k, f in zip(labels, scores.T):
                found = self.inner.svms[k].certificate(f, alpha[:, k])
                primal[k], dual[k] = found.primal, found.dual
        return alpha


def near_the_largest(values: Vector) -> NDArray[np.intp]:
    """Positions of values that are near the largest.

    Examples
    --------
    >>> import numpy as np
    >>> from multikernel.problems.multilabel import near_the_largest
    >>> near_the_largest(np.array([1.0, 10.0, 9.5]))
    array([1, 2])
    >>> near_the_largest(np.array([-1.0, -2.0]))
    array([0])
    """
    return np.flatnonzero(values >= values.max() - (1.0 - NEAR) * abs(values.max()))


class MovingKernel:
    """The kernel of weights that move a little at a time, made anew only when they have moved far enough.

    Making it costs F n² operations, as much as several SVMs. An alpha that is optimal on a kernel that is ε away
    still gives an exact cut, whose value is within O(ε²) of the optimum.

    Parameters
    ----------
    problem : LabelProblem
        Makes kernels and remembers one.
    refresh : float
        ℓ1 distance of weights from which the kernel is made anew; 0 does it every time. The smallest weights, a
        tenth of it together, are left out.
    """

    def __init__(self, problem: LabelProblem, refresh: float):
        self.problem, self.refresh = problem, refresh
        self.weights: Vector | None = None
        self.made = 0

    def at(self, weights: Vector) -> NDArray | KernelOperator:
        """The kernel of these weights, or of the last ones if they are near."""
        if self.weights is None or float(np.abs(weights - self.weights).sum()) > self.refresh:
            self.weights = without_smallest(weights, 0.1 * self.refresh)
            self.made += 1
        return self.problem.kernel(self.weights)


def without_smallest(weights: Vector, share: float) -> Vector:
    """Weights on the simplex without the smallest that make up at most ``share`` of it, the others scaled.

    Examples
    --------
    >>> import numpy as np
    >>> from multikernel.problems.multilabel import without_smallest
    >>> without_smallest(np.array([0.5, 0.04, 0.46]), 0.05).round(2)
    array([0.52, 0.  , 0.48])
    """
    order = np.argsort(weights, kind="stable")
    kept = np.array(weights)
    kept[order[np.cumsum(weights[order]) <= share]] = 0.0
    return kept / kept.sum()
