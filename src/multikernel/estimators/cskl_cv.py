"""CSKL with t chosen by cross-validation."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import indexable
from sklearn.utils.metaestimators import _safe_split

from multikernel.estimators.average import C_GRID
from multikernel.estimators.base import SHARE_OF_TIME
from multikernel.estimators.cskl import CSKLClassifier
from multikernel.estimators.inputs import check_splits
from multikernel.estimators.registry import register
from multikernel.io.state import attributes
from multikernel.runtime.clock import OutOfTime, left, time_limit
from multikernel.runtime.warnings import warn_user


@register("cskl-cv", title="CSKL, t by cross-validation", grid={"C": C_GRID}, order=15)
class CSKLClassifierCV(CSKLClassifier):
    """Controlled sparsity kernel learning with t chosen by cross-validation.

    On the training part of each fold the path over t is solved with warm starts, as by
    :func:`~multikernel.cskl_path`; the t with the best mean score is then fitted to all samples.

    Parameters
    ----------
    ts : array-like, optional
        Values of t to try; by default all whole ones from 1 to F.
    cv : int, splitter or iterable of (train, test)
        Folds, as in scikit-learn; one given split is ``[(train, test)]``.
    scoring : str, callable or None
        Score on held-out folds; accuracy by default.
    kernels, C, nu, exact, solver, weights, multi_class, class_weight, normalize, psd, tol, max_iter, memory
        As for :class:`~multikernel.CSKLClassifier`.
    solver_options, max_time, random_state, n_jobs, verbose, callback, checkpoint
        As for :class:`~multikernel.CSKLClassifier`; verbose, callback and checkpoint are for the last fit, max_time
        is for all fits together. Folds may take 80 % of it: then those count that are complete. With exact=True each
        of their fits takes no more than its share.

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

    The other attributes are those of :class:`~multikernel.CSKLClassifier`, for the last fit.

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

    _state = attributes("ts_", "split_scores_", "scores_", "best_score_")

    def __init__(
        self,
        kernels: Any = None,
        ts: Any = None,
        C: float = 1.0,
        nu: float | None = None,
        exact: bool = False,
        solver: str = "auto",
        *,
        cv: Any = 5,
        scoring: Any = None,
        weights: str = "shared",
        multi_class: str = "ovr",
        class_weight: Any = None,
        normalize: Any = None,
        psd: str = "raise",
        tol: float = 1e-3,
        max_iter: int = 1000,
        solver_options: dict[str, Any] | None = None,
        max_time: float | None = None,
        memory: Any = None,
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: Any = False,
        callback: Any = None,
        checkpoint: Any = None,
    ):
        self.kernels = kernels
        self.ts = ts
        self.C = C
        self.nu = nu
        self.exact = exact
        self.solver = solver
        self.cv = cv
        self.scoring = scoring
        self.weights = weights
        self.multi_class = multi_class
        self.class_weight = class_weight
        self.normalize = normalize
        self.psd = psd
        self.tol = tol
        self.max_iter = max_iter
        self.solver_options = solver_options
        self.max_time = max_time
        self.memory = memory
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.callback = callback
        self.checkpoint = checkpoint

    warm_start = False  # the path has its own

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
        from sklearn.metrics import check_scoring  # slow to import, like the other
        from sklearn.model_selection import check_cv

        from multikernel.estimators.path import cskl_path

        splits = check_splits(check_cv(self.cv, y, classifier=True).split(np.zeros(len(y)), y), len(y))
        plain, scores = self._plain(), []
        if self.exact and self.max_time is not None:  # a proof may take for ever
            plain.max_time = SHARE_OF_TIME * left() / (len(splits) * n_values)
        try:
            with time_limit(SHARE_OF_TIME * left()):
                for train, test in splits:
                    X_train, y_train = _safe_split(plain, X, y, train)
                    X_test, y_test = _safe_split(plain, X, y, test, train)
                    weight = None if sample_weight is None else np.asarray(sample_weight)[train]
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
