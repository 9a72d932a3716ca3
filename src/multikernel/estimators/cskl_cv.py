"""CSKL with t chosen by cross-validation."""

from __future__ import annotations

from dataclasses import KW_ONLY
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import indexable

from multikernel.estimators.average import C_GRID
from multikernel.estimators.base import SHARE_OF_TIME
from multikernel.estimators.cskl import CappedWeightsClassifier, CSKLClassifier
from multikernel.estimators.inputs import cut_fold, folds_of
from multikernel.estimators.parameters import CrossValidated, Resumable, estimator
from multikernel.estimators.registry import register
from multikernel.io.state import attributes
from multikernel.runtime.clock import OutOfTime, left, time_limit
from multikernel.runtime.warnings import warn_user


@register("cskl-cv", title="CSKL, t by cross-validation", grid={"C": C_GRID}, order=15)
@estimator
class CSKLClassifierCV(CrossValidated, Resumable, CappedWeightsClassifier):
    """Controlled sparsity kernel learning with t chosen by cross-validation.

    On the training part of each fold the path over t is solved with warm starts, as by
    :func:`~multikernel.cskl_path`; the t with the best mean score is then fitted to all samples.

    Parameters
    ----------
    ts : array-like, optional
        Values of t to try; by default all whole ones from 1 to F.
    max_time : float, optional
        Time limit for all fits together, in seconds. The folds may take 80 % of it; after that only complete folds
        count. With ``exact=True`` each of their fits takes no more than its share.
    verbose : bool
        Whether to show a progress bar of the final fit.

    Attributes
    ----------
    t_ : float
        The chosen t: of equal scores the smallest.
    best_score_ : float
    ts_ : ndarray of shape (V,)
        Values tried.
    scores_ : ndarray of shape (V,)
        Mean score over the folds.
    split_scores_ : ndarray of shape (n_splits, V)

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from multikernel import CSKLClassifierCV
    >>> from multikernel.kernels import RBF
    >>> X, y = load_iris(return_X_y=True)
    >>> model = CSKLClassifierCV([RBF(columns=[j]) for j in range(4)], cv=3).fit(X, y)
    >>> model.ts_.tolist(), bool(model.best_score_ > 0.9)
    ([1.0, 2.0, 3.0, 4.0], True)
    """

    ts: Any = None
    C: float = 1.0
    nu: float | None = None
    exact: bool = False
    solver: str = "auto"
    _: KW_ONLY
    solver_options: dict[str, Any] | None = None

    _state = attributes("ts_", "split_scores_", "scores_", "best_score_")

    def _wanted_t(self) -> Any:
        return getattr(self, "t_", None)

    def fit(self, X: Any, y: Any, sample_weight: Any = None):
        """Choose t, then fit with it; parameters as for :class:`~multikernel.CSKLClassifier`."""
        self.__dict__.pop("t_", None)
        with self._in_time():
            prepared = self._prepare(X, y, sample_weight)  # bad data and parameters get their errors here
            n_values = prepared.stack.n_kernels if self.ts is None else len(self.ts)
            del prepared
            X, y, sample_weight = indexable(X, y, sample_weight)
            self._search(X, np.asarray(y), sample_weight, n_values)
            return super().fit(X, y, sample_weight)

    def _search(self, X: Any, y: NDArray, sample_weight: Any, n_values: int) -> None:
        """Score the path over t on each fold, as far as time allows, and choose."""
        from sklearn.metrics import check_scoring  # slow to import

        from multikernel.estimators.path import cskl_path

        splits = folds_of(self.cv, y, y)
        plain, scores = self._plain(), []
        if self.exact and self.max_time is not None:  # a proof may take for ever
            plain.max_time = SHARE_OF_TIME * left() / (len(splits) * n_values)
        try:
            with time_limit(SHARE_OF_TIME * left()):
                for train, test in splits:
                    X_train, y_train, weight, X_test, y_test = cut_fold(plain, X, y, sample_weight, train, test)
                    path = cskl_path(plain, X_train, y_train, t=self.ts, sample_weight=weight)
                    scores.append([float(check_scoring(m, self.scoring)(m, X_test, y_test)) for m in path.estimators])
                    self.ts_ = path.values
        except OutOfTime:
            if self.max_time is None or not scores:
                raise
            warn_user(
                f"CSKLClassifierCV scored only {len(scores)} of {len(splits)} folds: max_time was nearly used up. t_ "
                "is the best on these. Allow more time, or use fewer folds or values of t.",
                ConvergenceWarning,
            )
        self.split_scores_ = np.array(scores)
        self.scores_ = self.split_scores_.mean(axis=0)
        self.best_score_ = float(self.scores_.max())
        self.t_ = float(self.ts_[self.scores_ == self.best_score_].min())

    def _plain(self) -> CSKLClassifier:
        """The classifier whose path this is."""
        left_out = {"verbose", "callback", "checkpoint", "ts", "cv", "scoring", "max_time"}
        params = {k: v for k, v in self.get_params(deep=False).items() if k not in left_out}
        return CSKLClassifier(**params)
