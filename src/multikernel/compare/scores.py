"""Scores of models on a stack of test kernels, each a number that is the larger the better."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.metrics import r2_score, recall_score, roc_auc_score

Score = Callable[[Any, Any, np.ndarray], float]


def accuracy(model: Any, stack: Any, y: np.ndarray) -> float:
    """Share of the samples whose label is predicted."""
    return float(np.mean(model.predict(stack) == y))


def balanced_accuracy(model: Any, stack: Any, y: np.ndarray) -> float:
    """Mean over the classes of the share of their samples that is predicted; a constant gets 1 / classes."""
    return float(recall_score(y, model.predict(stack), labels=np.unique(y), average="macro", zero_division=0.0))


def roc_auc(model: Any, stack: Any, y: np.ndarray) -> float:
    """Area under the ROC curve of decision values, each class against the rest, mean over the classes.

    ``nan`` for a model without decision values, and where a class has no sample or all.
    """
    if not hasattr(model, "decision_function"):
        return float("nan")
    scores = np.asarray(model.decision_function(stack))
    members = y[:, None] == (model.classes_ if scores.ndim > 1 else model.classes_[1:])
    if not (members.any(axis=0) & ~members.all(axis=0)).all():
        return float("nan")
    return float(roc_auc_score(members, scores.reshape(members.shape)))


def r_squared(model: Any, stack: Any, y: np.ndarray) -> float:
    """Share of the variance of numbers that a regressor's predictions explain."""
    return float(r2_score(y, model.predict(stack)))


METRICS: dict[str, Score] = {"accuracy": accuracy, "balanced_accuracy": balanced_accuracy, "roc_auc": roc_auc}
