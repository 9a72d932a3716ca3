"""All methods on one split of the samples: inner validation, the timed fit, the score."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.metrics import confusion_matrix

from multikernel.compare.memory import peak_memory
from multikernel.compare.plan import Split
from multikernel.compare.results import KernelResult, MethodResult
from multikernel.estimators.registry import Method


@dataclass(frozen=True)
class Trial:
    """One split: Gram stacks, labels and the inner folds."""

    training: Any
    testing: Any
    y_train: np.ndarray
    y_test: np.ndarray
    inner: list[Split]
    classes: np.ndarray

    def run(
        self, method: Method, candidates: list[dict[str, Any]], result: MethodResult, step: Callable[..., None]
    ) -> None:
        """Choose parameters, fit, score; an exception becomes the row's error."""
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                self._run(method, candidates, result, step)
            except Exception as error:  # one method must not lose the others
                result.error = f"{type(error).__name__}: {error}"
        for warning in caught:
            text = f"{warning.category.__name__}: {warning.message}"
            if text not in result.notes and len(result.notes) < 5:
                result.notes.append(text)

    def _run(
        self, method: Method, candidates: list[dict[str, Any]], result: MethodResult, step: Callable[..., None]
    ) -> None:
        chosen = self._choose(method, candidates, self.training, step)
        model = method.make("precomputed", **chosen)
        start = time.perf_counter()
        model, peak = peak_memory(lambda: model.fit(self.training, self.y_train))
        seconds = time.perf_counter() - start
        predicted = model.predict(self.testing)
        confusion = confusion_matrix(self.y_test, predicted, labels=self.classes)
        step()
        # stored together, so that a split that fails or is interrupted leaves no half entry
        result.scores.append(float(np.mean(predicted == self.y_test)))
        result.fit_seconds.append(seconds)
        result.peak_bytes.append(peak)
        result.parameters.append(chosen)
        result.gaps.append(relative_gap(model))
        result.n_kernels.append(float(np.mean(getattr(model, "n_kernels_", np.nan))))
        result.weights.append(weight_shares(model))
        before = result.confusion or np.zeros_like(confusion)
        result.confusion = (np.asarray(before) + confusion).tolist()
        if not result.history:
            result.history = plain_history(model)

    def run_single(
        self,
        method: Method,
        candidates: list[dict[str, Any]],
        k: int,
        result: KernelResult,
        step: Callable[..., None],
    ) -> None:
        """Score kernel k alone."""
        training, testing = self.training.take(kernels=[k]), self.testing.take(kernels=[k])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                chosen = self._choose(method, candidates, training, step)
                model = method.make("precomputed", **chosen).fit(training, self.y_train)
                result.scores.append(float(np.mean(model.predict(testing) == self.y_test)))
                step()
            except Exception as error:  # one kernel must not lose the others
                result.error = f"{type(error).__name__}: {error}"

    def _choose(
        self, method: Method, candidates: list[dict[str, Any]], stack: Any, step: Callable[..., None]
    ) -> dict[str, Any]:
        """The candidate with the best mean accuracy on the inner folds; the first of equals."""
        if len(candidates) == 1 or not self.inner:
            # fitted once off the clock, so that the timed fit finds everything compiled
            if self.inner:
                rows = self.inner[0][0]
                method.make("precomputed", **candidates[0]).fit(stack.take(rows, rows), self.y_train[rows])
            return candidates[0]
        totals = np.zeros(len(candidates))
        for rows, held_out in self.inner:
            training, testing = stack.take(rows, rows), stack.take(held_out, rows)
            for k, candidate in enumerate(candidates):
                model = method.make("precomputed", **candidate).fit(training, self.y_train[rows])
                totals[k] += np.mean(model.predict(testing) == self.y_train[held_out])
                step()
        return candidates[int(totals.argmax())]


def relative_gap(model: BaseEstimator) -> float:
    """Largest relative duality gap of a fitted model's problems; ``nan`` without a dual."""
    gap, objective = getattr(model, "dual_gap_", np.nan), getattr(model, "objective_", np.nan)
    relative = np.asarray(gap, float) / np.maximum(np.abs(np.asarray(objective, float)), 1e-12)
    return float(np.max(relative)) if relative.size else float("nan")


def weight_shares(model: BaseEstimator) -> list[float]:
    """Kernel weights averaged over classes and scaled to sum 1."""
    weights = np.atleast_2d(np.abs(np.asarray(model.weights_, float)))
    totals = weights.sum(axis=1, keepdims=True)
    return np.divide(weights, totals, out=np.zeros_like(weights), where=totals > 0).mean(axis=0).tolist()


def plain_history(model: BaseEstimator) -> list[dict[str, float]]:
    """The numbers of a model's history."""
    rows = []
    for entry in getattr(model, "history_", None) or []:
        numbers = {k: float(v) for k, v in dict(entry).items() if isinstance(v, (int, float, np.number))}
        rows.append(numbers)
    return rows
