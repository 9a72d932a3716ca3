"""Where to cut each label's scores: thresholds from scores on samples that were left out."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from multikernel.gram.combination import WeightedSum, combined_scores, one_kernel
from multikernel.problems.multilabel import LabelProblem
from multikernel.svm.binary import CSVM
from multikernel.svm.labels import LabelSVMs
from multikernel.svm.quadratic_program import kernel_times

Vector = NDArray[np.float64]
CRITERIA = ("f1", "accuracy")


def left_out_scores(
    problem: LabelProblem, weights: Vector, alpha: NDArray, folds: list[tuple[NDArray, NDArray]], tol: float
) -> NDArray[np.float64]:
    """Scores of each sample by SVMs trained without its fold on the kernel of ``weights``, started from ``alpha``.

    One kernel is in memory at a time, that of the fold's training samples. Shape (n, M).
    """
    out, combination = np.zeros(alpha.shape), WeightedSum(weights)
    problem.forget_kernel()
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
    """The threshold with the best F1 score or accuracy: midway between two scores; 0.0 where nothing is known.

    Examples
    --------
    >>> import numpy as np
    >>> from multikernel.estimators.multilabel_thresholds import best_threshold
    >>> best_threshold(np.array([-2.0, -1.0, -0.5, 1.0]), np.array([-1.0, -1.0, 1.0, 1.0]), "f1")
    -0.75
    """
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
