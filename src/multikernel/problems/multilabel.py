"""One combination of kernels for many labels: the worst label's SVM, or the sum over labels [BJJ10]."""

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from multikernel.gram import WeightedSum, combined_scores, one_kernel
from multikernel.gram.base import BLOCK_BYTES, GramStack
from multikernel.problems.certificate import LastValue
from multikernel.problems.cutting_planes import CuttingPlaneModel
from multikernel.problems.minmax import KernelProblem, MinMaxProblem
from multikernel.problems.weight_sets import LpBall
from multikernel.runtime.clock import OutOfTime, map_threads, one_blas_thread
from multikernel.runtime.monitor import Result
from multikernel.svm.binary import CSVM
from multikernel.svm.labels import LabelSVMs
from multikernel.svm.quadratic_program import DenseOperator, KernelOperator, kernel_times

Vector = NDArray[np.float64]
Labels = NDArray[np.intp]
Folds = Sequence[tuple[NDArray, NDArray]]
CRITERIA = ("f1", "accuracy")  # of thresholds

MANY_LABELS = 4  # labels from which quadratic forms are cheaper as products of matrices than one at a time
SCORE_TABLES = 8  # tables of shape (n, M) that scores of several kernels may take at once
NEAR = 0.9  # share of the worst label's value from which a label may count for the bound near the optimum


class LabelProblem(MinMaxProblem):
    """Kernel weights on the simplex, and an SVM for each label.

    Beside the kernels it keeps one combined kernel and arrays of shape (n, M), never (F, n, M).
    """

    inner: LabelSVMs
    certificate = KernelProblem.certificate  # type: ignore[assignment]

    def __init__(self, stack: GramStack, inner: LabelSVMs, memory: int):
        super().__init__(stack, inner, LpBall(1.0), memory)

    @property
    def n_labels(self) -> int:
        """Number of labels M."""
        return self.inner.n_labels

    def admitted(self, weights: Vector, alpha: NDArray) -> tuple[NDArray, NDArray]:
        """A start; alpha may be that of one label, shape (n,)."""
        return weights, alpha.reshape(len(alpha), -1)

    def _scores_of(self, kernel: int, alpha: NDArray) -> NDArray[np.float64]:
        """``K_j alpha`` of one kernel, shape of alpha: in double precision all of them would be twice their size."""
        part = self.stack.take(kernels=[kernel])
        return (part.apply_precisely if self._precise else part.apply)(alpha)[0]

    def _scores_and_errors(self, weights: Vector, alpha: NDArray) -> tuple[NDArray, NDArray]:
        if not self._precise:
            return KernelProblem._scores_and_errors(self, weights, alpha)
        scores, sizes = np.zeros(alpha.shape), np.zeros(alpha.shape)
        for j in np.flatnonzero(weights).tolist():
            share = weights[j] * self._scores_of(j, alpha)
            scores += share
            sizes += np.abs(share)
        return scores, self.rounding.of_scores(weights, alpha, sizes)

    def scores_by_label(self, alpha: NDArray, kernels: NDArray[np.intp]) -> Iterator[NDArray[np.float64]]:
        """As for any min-max problem, but for a bounded number of labels at a time, none kept."""
        at_once = min(BLOCK_BYTES // (8 * len(alpha)), SCORE_TABLES * self.n_labels)  # kernels times labels
        size = max(1, at_once // len(kernels))
        for start in range(0, self.n_labels, size):
            part = np.ascontiguousarray(alpha[:, start : start + size])
            scores = np.empty((len(kernels), *part.shape))
            for row, k in zip(scores, kernels):
                row[:] = self._scores_of(k, part)
            yield from np.moveaxis(scores, 2, 0)

    def label_bounds(self, weights: Vector, alpha: NDArray, *, rounded: bool = True) -> tuple[Vector, Vector]:
        """Primal and dual value of each label's SVM on the kernel of ``weights``, each of shape (M,)."""
        scores, error = self._products(weights, alpha)
        found = self.inner.certificates(scores, alpha, error if rounded else None)
        return np.array([c.primal for c in found]), np.array([c.dual for c in found])

    def solve_labels(self, weights: Vector, alpha: NDArray, labels: Labels, tols: Vector) -> NDArray:
        """A copy of ``alpha`` with some labels solved on the kernel of ``weights``, on all cores."""
        kernel = self.kernel(weights)
        self.inner.n_solved += len(labels)
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


class LabelSumProblem(LabelProblem):
    """``min over p in the simplex of Σ_k J_k(p)``, J_k the optimum of label k's SVM on Σ_j p_j K_j [BJJ10, eq. (2)].

    The min-max problem with all labels' SVMs as its inner problem, with bounds from one pass over the kernels.
    """

    def __init__(self, stack: GramStack, inner: LabelSVMs, memory: int):
        super().__init__(stack, inner, memory)
        self._forms = LastValue(self._summed_forms)

    def _summed_forms(self, alpha: NDArray) -> tuple[Vector, Vector]:
        """``Σ_k alpha_k' K_j alpha_k``, and what it may be off by, each of shape (F,)."""
        if not self._precise:
            return np.maximum(self.stack.summed_forms(alpha), 0.0), self.rounding.of_forms(alpha)
        terms = [self._scores_of(j, alpha) * alpha for j in range(self.n_kernels)]
        sizes = np.array([np.abs(term).sum() for term in terms])
        return np.maximum([term.sum() for term in terms], 0.0), self.rounding.of_forms(alpha, sizes)

    def quadratic_forms(self, alpha: NDArray) -> Vector:
        """``Σ_k alpha_k' K_j alpha_k``, shape (F,); the last are kept."""
        return self._forms(alpha)[0]

    def _forms_error(self, alpha: NDArray) -> Vector:
        return self._forms(alpha)[1]

    def sharpen(self) -> bool:
        self._forms.forget()
        return super().sharpen()

    def _bounds(self, weights: NDArray, alpha: NDArray, *, rounded: bool) -> tuple[float, float]:
        primal, _ = self.label_bounds(weights, alpha, rounded=rounded)
        return float(primal.sum()), self._supported(*self.cut(alpha, rounded=rounded))


class WorstLabelProblem(LabelProblem):
    """``min over p in the simplex of max over k of J_k(p)``, J_k the optimum of label k's SVM [BJJ10, eq. (3)].

    With weights γ of the labels, also on a simplex, it is a saddle point, convex in p, concave in γ and alpha
    [BJJ10, eq. (5)]:

        min over p, max over γ and alpha, of  Σ_k γ_k (linear_k(alpha_k) − ½ Σ_j p_j q_j(alpha_k)).
    """

    def __init__(self, stack: GramStack, inner: LabelSVMs, memory: int):
        super().__init__(stack, inner, memory)
        self._alpha = np.zeros(inner.signs.shape)
        # quadratic forms of each label, and what they may be off by
        self._table, self._wrong = np.zeros((2, stack.n_kernels, inner.n_labels))

    def sharpen(self) -> bool:
        self._alpha[:] = np.nan  # none of the forms is known as well as it will be
        return super().sharpen()

    def solve_label(
        self, k: int, kernel: NDArray | KernelOperator, warm: Vector, tol: float
    ) -> tuple[Vector, float, Vector]:
        """alpha of label k on a kernel, and its cut: constant and forms, shape (F,)."""
        self.inner.n_solved += 1
        _, alpha = self.inner.svms[k].solve(kernel, warm, tol=tol, warn=False)
        self._learn(np.array([k]), alpha[:, None])
        constants, forms = self._planes([k], alpha[:, None], self._table[:, [k]], self._wrong[:, [k]])
        return alpha, float(constants[0]), forms[:, 0]

    def cuts(self, alpha: NDArray, labels: Labels | None = None, *, rounded: bool = True) -> tuple[Vector, NDArray]:
        """Constants, shape (m,), and forms, shape (F, m), of the planes below the values of m labels, by default all.

        ``rounded`` as for ``cut``. Only labels whose alpha has changed since they were last asked for are worked on.
        """
        labels = np.arange(self.n_labels) if labels is None else labels
        changed = labels[(alpha[:, labels] != self._alpha[:, labels]).any(axis=0)]
        self._learn(changed, np.ascontiguousarray(alpha[:, changed]))
        wrong = self._wrong[:, labels] if rounded else None
        return self._planes(labels, alpha[:, labels], self._table[:, labels], wrong)

    def cuts_of(self, labels: Labels, alpha: NDArray) -> tuple[Vector, NDArray]:
        """The same for any alphas, one column for each of ``labels``, none remembered."""
        forms = np.maximum(self.stack.quadratic_forms(alpha), 0.0)
        wrong = np.column_stack([self.rounding.of_forms(column) for column in alpha.T])
        return self._planes(labels, alpha, forms, wrong)

    def _learn(self, labels: Labels, alpha: NDArray) -> None:
        """Remember the quadratic forms of some labels, whose alphas are the columns of ``alpha``."""
        if len(labels) < MANY_LABELS and not self._precise:
            for k, column in zip(labels, alpha.T):
                self._table[:, k] = self.stack.quadratic_forms(column)
                self._wrong[:, k] = self.rounding.of_forms(column)
        else:
            for j in range(self.n_kernels):
                terms = self._scores_of(j, alpha) * alpha
                self._table[j, labels], self._wrong[j, labels] = terms.sum(axis=0), np.abs(terms).sum(axis=0)
            for k, column in zip(labels, alpha.T):
                sizes = self._wrong[:, k] if self._precise else None
                self._wrong[:, k] = self.rounding.of_forms(column, sizes)
        self._alpha[:, labels] = alpha
        np.maximum(self._table, 0.0, out=self._table)

    def _planes(self, labels: Any, alpha: NDArray, forms: NDArray, wrong: NDArray | None) -> tuple[Vector, NDArray]:
        """Constants and forms of cuts, with what rounding may have done to them if it is given for the forms."""
        pairs = list(zip([self.inner.svms[k] for k in labels], alpha.T))
        constants = np.array([svm.linear(column) for svm, column in pairs])
        if wrong is None:
            return constants, forms
        errors = np.array([svm.linear_error(column) for svm, column in pairs])
        shortfalls = np.array([svm.shortfall(column) for svm, column in pairs])
        return constants - errors, forms + wrong + self.rounding.of_shift(shortfalls, forms)

    def contenders(self, weights: Vector, alpha: NDArray) -> Labels:
        """Labels whose value on the kernel of ``weights`` is near that of the worst."""
        return near_the_largest(self.label_bounds(weights, alpha)[1])

    def _best_labels(
        self, alpha: NDArray, labels: Labels | None = None, *, rounded: bool = True
    ) -> tuple[Vector, float]:
        """``max over γ of Σ_k γ_k linear_k − ½ max_j Σ_k γ_k q_j(alpha_k)``, and that γ; zero but for ``labels``."""
        model, labels = CuttingPlaneModel(self.n_kernels, 1.0), np.arange(self.n_labels) if labels is None else labels
        constants, forms = self.cuts(alpha, labels, rounded=rounded)
        for constant, q in zip(constants, forms.T):
            model.add(constant, q)
        bound, gamma = model.solve()[1], np.zeros(self.n_labels)
        gamma[labels] = model.multipliers
        return gamma, bound

    def label_weights(self, alpha: NDArray, labels: Labels | None = None) -> Vector:
        """The γ that proves most for given alpha, shape (M,): large for labels that decide about the kernels."""
        return self._best_labels(alpha, labels)[0]

    def lower_bound(self, alpha: NDArray, labels: Labels | None = None, *, rounded: bool = True) -> float:
        """What ``alpha`` proves, by some labels or all."""
        return self._best_labels(alpha, labels, rounded=rounded)[1]

    def _bounds(self, weights: NDArray, alpha: NDArray, *, rounded: bool) -> tuple[float, float]:
        """Upper bound: the largest of the labels' primal values on the kernel of ``weights``.

        The lower bound is that of labels near the worst: at the optimum others have γ = 0, and their quadratic forms,
        which cost a pass over the kernels, need not be known.
        """
        primal, dual = self.label_bounds(weights, alpha, rounded=rounded)
        return float(primal.max()), self.lower_bound(alpha, near_the_largest(dual), rounded=rounded)

    def refine(self, weights: Vector, alpha: NDArray, tol: float) -> NDArray:
        """An ``alpha`` that knows max_k J_k on the kernel of ``weights`` to a relative gap ``tol``.

        Labels whose primal value at the given alpha is below another label's dual value cannot be the worst, and
        are left as they are: of many labels few are solved.
        """
        primal, dual = self.label_bounds(weights, alpha)
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


def near_the_largest(values: Vector) -> Labels:
    """Positions of values that are near the largest."""
    return np.flatnonzero(values >= values.max() - (1.0 - NEAR) * abs(values.max()))


@dataclass
class FinalLabels:
    """What is known of M labels in the end: weights that prove the bound, optima, and thresholds for scores."""

    result: Result
    label_weights: Vector
    objectives: Vector
    thresholds: Vector


def final_labels(
    problem: LabelProblem, result: Result, tol: float, folds: Folds | None = None, criterion: str | None = None
) -> FinalLabels:
    """Solve the SVMs of all labels to ``tol``: those that do not decide about the kernel are rough.

    What time does not allow stays as it was. With ``folds``, thresholds are the best by ``criterion``.
    """
    learnt = np.asarray(problem.inner.signs.any(axis=0))
    zeros = np.zeros(len(learnt))
    final = FinalLabels(result, learnt / learnt.sum(), np.full(len(learnt), np.nan), zeros)
    with contextlib.suppress(OutOfTime):
        final.result = _solved_again(problem, result, tol)
        weights, alpha = final.result.weights, final.result.alpha
        final.objectives = problem.label_bounds(weights, alpha)[0]
        if isinstance(problem, WorstLabelProblem):
            final.label_weights = problem.label_weights(alpha, problem.contenders(weights, alpha))
        if folds is not None and criterion is not None:
            scores, signs = left_out_scores(problem, weights, alpha, folds, tol), problem.inner.signs
            final.thresholds = np.array([best_threshold(f, s, criterion) for f, s in zip(scores.T, signs.T)])
    return final


def _solved_again(problem: LabelProblem, result: Result, tol: float) -> Result:
    labels = np.arange(problem.n_labels)
    alpha = problem.solve_labels(result.weights, result.alpha, labels, np.full(len(labels), 0.1 * tol))
    found, intercept = problem.certificate(result.weights, alpha), problem.intercept(result.weights, alpha)
    best = replace(found, dual=max(found.dual, result.certificate.dual))
    converged = best.relative_gap <= tol
    return replace(result, alpha=alpha, intercept=intercept, certificate=best, converged=converged)


def left_out_scores(
    problem: LabelProblem, weights: Vector, alpha: NDArray, folds: Folds, tol: float
) -> NDArray[np.float64]:
    """Scores of each sample by SVMs trained without its fold on the kernel of ``weights``, started from ``alpha``.

    One kernel is in memory at a time, that of the fold's training samples. Shape (n, M).
    """
    out, combination = np.zeros(alpha.shape), WeightedSum(weights)
    problem.release()
    for train, test in folds:
        stack, svms = problem.stack, _on_some(problem.inner, train)
        inside = one_kernel(stack.take(train, train), combination, problem.memory)
        _, coefficients = svms.solve(inside, alpha[train], tol=tol, warn=False)
        intercepts = svms.intercept(kernel_times(inside, coefficients))
        del inside
        out[test] = combined_scores(stack.take(test, train), combination, coefficients) + intercepts
    return out


def _on_some(inner: LabelSVMs, rows: NDArray[np.intp]) -> LabelSVMs:
    """The same SVMs, bounds included, on some of the samples."""
    first = inner.svms[0]
    assert isinstance(first, CSVM)
    part = LabelSVMs(inner.signs[rows], first.C, bias=first.bias)
    for svm, whole in zip(part.svms, inner.svms):
        svm.upper = whole.upper[rows]
    return part


def best_threshold(scores: Vector, signs: Vector, criterion: str) -> float:
    """The threshold with the best F1 score or accuracy: midway between two scores; 0.0 where nothing is known."""
    used = signs != 0.0
    order = np.argsort(-scores[used], kind="stable")
    ranked, positive = scores[used][order], signs[used][order] > 0.0
    if not positive.any() or positive.all():
        return 0.0
    # cut after the first r samples, r = 0 … n
    right = np.append(0, np.cumsum(positive))
    taken, total = np.arange(len(ranked) + 1), int(positive.sum())
    if criterion == "f1":
        quality = 2.0 * right / (taken + total)
    else:
        quality = (right + (len(ranked) - total) - (taken - right)) / len(ranked)
    edges = np.concatenate([[ranked[0] + 1.0], 0.5 * (ranked[1:] + ranked[:-1]), [ranked[-1] - 1.0]])
    tied = np.concatenate([[False], ranked[1:] == ranked[:-1], [False]])  # no threshold lies between equal scores
    best = np.flatnonzero(quality == quality[~tied].max())
    best = best[~tied[best]]
    return float(edges[best[np.abs(edges[best]).argmin()]])
