"""Scores of classifiers on a stack of test kernels, each a number that is the larger the better."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

Score = Callable[[Any, Any, np.ndarray], float]


def accuracy(model: Any, stack: Any, y: np.ndarray) -> float:
    """Share of the samples whose label is predicted."""
    return float(np.mean(model.predict(stack) == y))


def balanced_accuracy(model: Any, stack: Any, y: np.ndarray) -> float:
    """Mean over the classes of the share of their samples that is predicted; a constant gets 1 / classes."""
    right = model.predict(stack) == y
    return float(np.mean([right[y == label].mean() for label in np.unique(y)]))


def roc_auc(model: Any, stack: Any, y: np.ndarray) -> float:
    """Area under the ROC curve of decision values, each class against the rest, mean over the classes.

    ``nan`` for a model without decision values, and where a class has no sample or all.
    """
    from sklearn.metrics import roc_auc_score

    if not hasattr(model, "decision_function"):
        return float("nan")
    scores, classes = np.asarray(model.decision_function(stack)), model.classes_
    if scores.ndim == 1:
        scores, classes = scores[:, None], classes[1:]
    found = [y == label for label in classes]
    if not all(0 < member.sum() < len(y) for member in found):
        return float("nan")
    return float(np.mean([roc_auc_score(member, column) for member, column in zip(found, scores.T)]))


METRICS: dict[str, Score] = {"accuracy": accuracy, "balanced_accuracy": balanced_accuracy, "roc_auc": roc_auc}


def r_squared(model: Any, stack: Any, y: np.ndarray) -> float:
    """Share of the variance of numbers that a regressor's predictions explain."""
    from sklearn.metrics import r2_score

    return float(r2_score(y, model.predict(stack)))
