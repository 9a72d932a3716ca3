"""Scores of models on a stack of test kernels, the larger the better; parameters chosen by them on folds."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from inspect import signature
from itertools import product
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.metrics import r2_score, recall_score, roc_auc_score
from sklearn.model_selection import KFold, StratifiedKFold

from multikernel.estimators.registry import Method

Split = tuple[np.ndarray, np.ndarray]
Score = Callable[[Any, Any, np.ndarray], float]
Candidates = list[dict[str, Any]]  # parameters to try


def accuracy(model: Any, stack: Any, y: np.ndarray) -> float:
    """Share of the samples whose label is predicted."""
    return float(np.mean(model.predict(stack) == y))


def balanced_accuracy(model: Any, stack: Any, y: np.ndarray) -> float:
    """Mean over the classes of the share of their samples that is predicted; a constant gets 1 / classes.

    Of a table of labels: the mean over the labels.
    """
    predicted = model.predict(stack)
    if y.ndim > 1:
        return float(
            np.mean([recall_score(*pair, average="macro", zero_division=0.0) for pair in zip(y.T, predicted.T)])
        )
    return float(recall_score(y, predicted, labels=np.unique(y), average="macro", zero_division=0.0))


def roc_auc(model: Any, stack: Any, y: np.ndarray) -> float:
    """Area under the ROC curve of decision values, each class against the rest, mean over the classes.

    ``nan`` for a model without decision values, and where a class has no sample or all.
    """
    if not hasattr(model, "decision_function"):
        return float("nan")
    scores = np.asarray(model.decision_function(stack))
    members = y > 0 if y.ndim > 1 else y[:, None] == (model.classes_ if scores.ndim > 1 else model.classes_[1:])
    if not (members.any(axis=0) & ~members.all(axis=0)).all():
        return float("nan")
    return float(roc_auc_score(members, scores.reshape(members.shape)))


def r_squared(model: Any, stack: Any, y: np.ndarray) -> float:
    """Share of the variance of numbers that a regressor's predictions explain."""
    return float(r2_score(y, model.predict(stack)))


METRICS: dict[str, Score] = {"accuracy": accuracy, "balanced_accuracy": balanced_accuracy, "roc_auc": roc_auc}


def configured(method: Method, scoring: str = "accuracy", **settings: Any) -> Method:
    """The method with settings such as ``class_weight``, where its estimator has them and they are not None."""
    known = signature(method.estimator).parameters
    # leave-one-out counts correct samples, whatever the score
    if scoring != "accuracy" and method.params.get("criterion") != "loo":
        settings["scoring"] = METRICS[scoring]
    given = {name: value for name, value in settings.items() if name in known and value is not None}
    return replace(method, params={**method.params, **given})


def candidates(method: Method, grid: Mapping[str, Sequence[Any]] | None = None) -> Candidates:
    """Parameters to try: the method's own grid, with ``grid`` in place of the axes that the method has.

    The first axis, C as a rule, changes fastest: a fit along it has a good start in the one before.
    """
    known = set(signature(method.estimator).parameters)
    axes = {**method.grid, **{name: values for name, values in (grid or {}).items() if name in known}}
    return [dict(zip(axes, reversed(values))) for values in product(*reversed(axes.values()))]


def inner_folds(y: np.ndarray, n_folds: int, random_state: int, *, regression: bool = False) -> list[Split]:
    """Stratified folds, as many as the rarest class allows; none if it has one sample. Else plain ones."""
    if regression or y.ndim > 1:
        return list(KFold(min(n_folds, len(y)), shuffle=True, random_state=random_state).split(y))
    n_folds = int(min(n_folds, np.unique(y, return_counts=True)[1].min()))
    if n_folds < 2:
        return []
    return list(StratifiedKFold(n_folds, shuffle=True, random_state=random_state).split(np.zeros(len(y)), y))


def make_on_stack(method: Method, parameters: dict[str, Any], folds: list[Split]) -> BaseEstimator:
    """The method on precomputed kernels that were checked before; if it validates itself, on these folds."""
    # kernels are checked once for each split, not in each of a thousand fits
    settings: dict[str, Any] = {"psd": "ignore", "n_jobs": -1, **({"cv": folds} if folds else {})}
    known = signature(method.estimator).parameters
    settings = {name: value for name, value in settings.items() if name in known}
    model: Any = method.make("precomputed", **{**settings, **parameters})
    model._keep_interrupted = False  # Ctrl-C ends everything: half a model is none to count
    return model


@dataclass(frozen=True)
class Choice:
    """What validation chose: the candidate with the best mean score, the first of equals, and that score.

    Without anything to choose from ``score`` is None. ``by_kernel`` has the best candidate for each kernel
    alone, from a method that validates kernels one by one.
    """

    parameters: dict[str, Any]
    score: float | None = None
    by_kernel: list[dict[str, Any]] | None = None


def choose(
    method: Method,
    tried: Candidates,
    stack: Any,
    y: np.ndarray,
    folds: list[Split],
    step: Callable[[], None] = lambda: None,
    score: Score = accuracy,
) -> Choice:
    """Choose among candidates by their score on the folds; a single one is taken without validation.

    A method that validates itself kernel by kernel (``scores_kernels``, and ``kernel_scores_`` once fitted) is fitted
    once for each candidate and judged by its own score on the same folds: it then makes both choices, its own
    and that of the parameters, by one validation and not by one inside the other. ``step`` is called after each fit.
    """
    if len(tried) == 1 or not folds:
        return Choice(tried[0])
    by_kernel = None
    if validates_itself(method):
        by_kernel_scores = []
        for candidate in tried:
            by_kernel_scores.append(make_on_stack(method, candidate, folds).fit(stack, y).kernel_scores_)
            step()
        by_kernel = [tried[k] for k in np.argmax(by_kernel_scores, axis=0)]
        scores = np.max(by_kernel_scores, axis=1)
    else:
        scores = np.zeros(len(tried))
        warm = {"warm_start": True} if "warm_start" in signature(method.estimator).parameters else {}
        for rows, held_out in folds:
            training, testing = stack.take(rows, rows), stack.take(held_out, rows)
            model = make_on_stack(method, warm, [])
            for k, candidate in enumerate(tried):
                model.set_params(**candidate).fit(training, y[rows])
                scores[k] += score(model, testing, y[held_out])
                step()
        scores /= len(folds)
    return Choice(tried[int(scores.argmax())], float(scores.max()), by_kernel)


def validates_itself(method: Method) -> bool:
    """Whether the estimator judges each kernel by cross-validation of its own."""
    return bool(getattr(method.estimator, "scores_kernels", False))


def n_fits(method: Method, n_candidates: int, n_folds: int) -> int:
    """Fits that choosing and the final fit take, as ``step`` counts them."""
    if n_candidates < 2 or n_folds < 2:
        return 1
    return 1 + n_candidates * (1 if validates_itself(method) else n_folds)
