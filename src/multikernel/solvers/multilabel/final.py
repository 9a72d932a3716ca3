"""The labels' SVMs on the kernel found, and where to cut their scores."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from multikernel.gram import WeightedSum, combined_scores, one_kernel
from multikernel.problems.multilabel import LabelProblem, WorstLabelProblem
from multikernel.runtime.clock import OutOfTime
from multikernel.runtime.monitor import Result
from multikernel.svm.binary import CSVM
from multikernel.svm.labels import LabelSVMs
from multikernel.svm.quadratic_program import kernel_times

Vector = NDArray[np.float64]
Folds = Sequence[tuple[NDArray, NDArray]]
CRITERIA = ("f1", "accuracy")


@dataclass
class FinalLabels:
    """What is known of M labels: weights that prove the bound, optima of their SVMs, and thresholds for scores."""

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
