"""What estimators share that choose something by cross-validation: folds, and scores of held-out samples."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import KW_ONLY, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import column_or_1d, indexable
from sklearn.utils.metaestimators import _safe_split
from sklearn.utils.validation import _num_samples

from multikernel.estimators.parameters import estimator
from multikernel.estimators.sklearn_bases import BaseEstimator, ClassifierMixin
from multikernel.runtime.run import Run


@estimator
class CrossValidated:
    """Mixin of estimators that choose something by cross-validation.

    Parameters
    ----------
    cv : int, splitter or iterable of (train, test)
        Folds, as in scikit-learn; a single split is ``[(train, test)]``.
    scoring : str, callable or None
        Score on held-out folds; accuracy by default.
    callback : callable, optional
        Called with each row of ``history_`` of the final fit as it is added; a true return value stops that fit.
    checkpoint : path, optional
        File that keeps the state of the final fit, so that it can resume after being killed.
    """

    _: KW_ONLY
    cv: Any = 5
    scoring: Any = None

    def _plain(self, kind: type, **chosen: Any) -> Any:
        """The estimator without the search, with parameters that it shares with this one."""
        own = {field.name for field in fields(self)} - {"verbose", "callback", "checkpoint", "max_time"}
        plain = kind(**{f.name: getattr(self, f.name) for f in fields(kind) if f.name in own}, **chosen)
        plain.probability = plain.probability and self.scoring is not None  # accuracy needs none
        plain._keep_interrupted = False  # a score of half a model would be worse than none
        return plain

    def _fold_scores(
        self, run: Run, plain: Any, data: tuple[Any, Any, Any], score: Callable[..., list[float]], advice: str
    ) -> NDArray[np.float64]:
        """A row of scores for each fold that time allows; ``score`` takes what :func:`cut_fold` returns."""
        rows: list[list[float]] = []
        try:
            X, y, weight = indexable(data[0], column_or_1d(data[1]), data[2])
            splits = folds_of(self.cv, y, y)
            with run.search(len(splits), "fold", advice) as search:
                for train, test in splits:
                    rows.append(score(*cut_fold(plain, X, y, weight, train, test)))
                    search.advance()
        except (ValueError, TypeError):
            plain._validate(*data)  # what is wrong with all samples is said of all, not of those of a fold
            raise
        return np.array(rows)


def folds_of(cv: Any, X: Any, y: Any = None) -> list[tuple[NDArray, NDArray]]:
    """The (train, test) pairs of ``cv``, stratified by labels y, after a check of their indices."""
    from sklearn.model_selection import check_cv  # slow to import

    n_samples, checked = _num_samples(X), []
    for train, test in check_cv(cv, y, classifier=y is not None).split(X, y):
        for indices in (np.asarray(train), np.asarray(test)):
            if indices.dtype == bool:
                fits = indices.shape == (n_samples,)
            else:
                whole = indices.ndim == 1 and np.issubdtype(indices.dtype, np.integer)
                fits = whole and -n_samples <= indices.min(initial=0) and indices.max(initial=0) < n_samples
            if not fits:
                raise ValueError(
                    f"cv has a fold with indices outside these {n_samples} samples: give pairs of arrays "
                    f"of whole numbers from 0 to {n_samples - 1}, or a number of folds."
                )
        checked.append((np.asarray(train), np.asarray(test)))
    return checked


def cut_fold(model: Any, X: Any, y: Any, weight: Any, train: NDArray, test: NDArray) -> tuple[Any, ...]:
    """One fold of the samples, or of the kernels between them: X, y and weights to train on, X and y to test on."""
    X_test, y_test = _safe_split(model, X, y, test, train)
    return *_safe_split(model, X, y, train), None if weight is None else np.asarray(weight)[train], X_test, y_test


class KnownScores(ClassifierMixin, BaseEstimator):
    """A classifier with known scores, for scikit-learn's scorers."""

    def __init__(self, classes: NDArray, scores: NDArray | None = None):
        self.classes, self.scores, self.classes_ = classes, scores, classes

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def fit(self, X: Any, y: Any) -> KnownScores:
        """Nothing to do."""
        return self

    def decision_function(self, X: Any) -> Any:
        """The scores, whatever X is."""
        return self.scores

    def predict(self, X: Any) -> NDArray:
        """The classes with the largest scores."""
        return predicted(self.classes_, self.scores)


def predicted(classes: NDArray, scores: Any) -> NDArray:
    """Classes of a decision function."""
    return classes[(scores > 0).astype(int) if scores.ndim == 1 else scores.argmax(axis=1)]
