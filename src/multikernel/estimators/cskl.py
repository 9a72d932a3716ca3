"""CSKL: kernel weights between 0 and 1 that sum to t, or exactly t kernels; t given, or by cross-validation."""

from __future__ import annotations

import numbers
from abc import abstractmethod
from collections.abc import Sequence
from functools import partial
from typing import Any

from multikernel.estimators.base import C_GRID, TaskWeightsClassifier, TrainingData
from multikernel.estimators.cross_validation import CrossValidated, folds_of
from multikernel.estimators.parameters import Restartable, Resumable, estimator
from multikernel.estimators.registry import register
from multikernel.gram import parse_memory
from multikernel.io.state import REAL, Maybe, anything, attributes
from multikernel.kernels.docstrings import described
from multikernel.problems.cskl import CappedProblem, SelectionProblem
from multikernel.problems.weight_sets import CappedSimplex
from multikernel.runtime.clock import left
from multikernel.runtime.monitor import Result
from multikernel.runtime.run import SEARCH_SHARE, Run, Solver
from multikernel.solvers.catalogue import PATIENCE, find_solver
from multikernel.solvers.cskl.continuation import solve_capped
from multikernel.solvers.cskl.exact import exact_selection


@described
class CappedWeightsClassifier(TaskWeightsClassifier):
    """Base class: kernel weights between 0 and 1 that sum to t; a subclass says where t comes from (``_wanted_t``).

    Parameters
    ----------
    exact : bool
        Whether weights are 0 or 1: exactly t kernels.
    solver : {"auto", "newton", "reduced-gradient", "lp", "silp", "printed", "lp-printed"}
        All solve the same problem; not used with ``exact=True``. "newton" [CR08] is what "auto" takes, "silp" cutting
        planes [SRSS06]. "printed" and "lp-printed" are the two methods of [GMSB11] with their misprints put right;
        "reduced-gradient" and "lp" are the same with better pivots, directions and stops.
    max_iter : int
        Maximum number of outer iterations per problem; with ``exact=True``, of rounds of 64 branches.

    Attributes
    ----------
    t_ : float
        The t that was used.
    selection_gap_ : float, or ndarray of shape (T,)
        With ``exact=True`` only, the same as ``dual_gap_``: no choice of t kernels is better by more than that.
    """

    C: float
    nu: float | None
    exact: bool
    solver: str
    _state = attributes(t_=REAL, selection_gap_=Maybe(anything))

    def _check_parameters(self) -> None:
        super()._check_parameters()
        find_solver("cskl", self.solver)
        self._check_t()

    def _check_t(self) -> None:
        t = self._wanted_t()
        if t is None:
            return
        if not isinstance(t, numbers.Real) or not float(t) >= 1.0:
            raise ValueError(
                f"t={t!r} must be a number from 1 to the number of kernels: it is the sum of the weights."
            )
        if self.exact and float(t) != round(float(t)):
            raise ValueError(f"exact=True needs a whole number of kernels, got t={t!r}: round t, or set exact=False.")

    @abstractmethod
    def _wanted_t(self) -> Any:
        """The t asked for; None for the default."""

    def _problems(self, data: TrainingData, run: Run) -> Sequence[Any]:
        F, t = data.stack.n_kernels, self._wanted_t()
        self.t_ = float((F + 1) // 2 if t is None else t)
        if self.t_ > F:
            raise ValueError(f"t={t!r} kernels cannot be chosen out of {F}: lower t to at most {F}.")
        kind: Any = SelectionProblem if self.exact else CappedProblem
        memory = parse_memory(self.memory)
        return [kind(data.stack, svm, CappedSimplex(self.t_), memory) for svm in self._svms(data, self.nu)]

    def _solver(self) -> Solver:
        if self.exact:
            return partial(exact_selection, max_iter=self.max_iter)
        return partial(solve_capped, run=find_solver("cskl", self.solver).run, max_iter=self.max_iter)

    def _patience(self) -> int | None:
        return None if self.exact else PATIENCE

    def _store(self, data: TrainingData, problems: Sequence[Any], results: list[Result]) -> None:
        super()._store(data, problems, results)
        self.__dict__.pop("selection_gap_", None)
        if self.exact:
            self.selection_gap_ = self.dual_gap_


@register("cskl", title="CSKL, t = F/2", grid={"C": C_GRID}, order=14)
@estimator
class CSKLClassifier(Restartable, CappedWeightsClassifier):
    """Controlled sparsity kernel learning: weights between 0 and 1 that sum to t, or exactly t kernels.

    Each problem is

        min over {0 ≤ g ≤ 1, Σ g = t} of  Σ_tasks  max over alpha in A of  linear(alpha) − ½ Σ_j g_j alpha' K_j alpha,

    which equals the maximum over alpha of ``linear(alpha) − ½ (sum of the t largest alpha' K_j alpha)``
    [GMSB11, eq. (3.9)]. It is convex, and ``dual_gap_`` proves how near to the optimum the solution is. t = 1 is
    :class:`~multikernel.MKLClassifier` with p = 1; t = F is the SVM on the sum of the kernels.

    t is *not* the number of kernels with a weight, as [GMSB11] has it: at the optimum the t-th largest quadratic form
    is shared by several kernels, which get weights between 0 and 1. ``n_kernels_`` says how many there are.
    ``exact=True`` allows the weights 0 and 1 only and finds the best t kernels, with a proof by branch and bound.
    That problem is not convex, and a proof may take long with more than 30 kernels; ``max_time`` gives the best
    choice found and the gap that is left.

    Parameters
    ----------
    t : float, optional
        Sum of the weights, from 1 to the number of kernels F; a whole number with ``exact=True``. By default half
        of the kernels, rounded up.

    See Also
    --------
    CSKLClassifierCV : t chosen by cross-validation.
    cskl_path : solutions for all t.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from multikernel import CSKLClassifier
    >>> from multikernel.kernels import RBF
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> kernels = [RBF(columns=[j]) for j in range(8)]
    >>> relaxed = CSKLClassifier(kernels, t=3).fit(X, y)
    >>> exact = CSKLClassifier(kernels, t=3, exact=True).fit(X, y)
    >>> relaxed.n_kernels_ >= 3, exact.n_kernels_, bool(exact.objective_ >= relaxed.objective_)
    (True, 3, True)
    """

    t: float | None = None
    C: float = 1.0
    nu: float | None = None
    exact: bool = False
    solver: str = "auto"

    def _wanted_t(self) -> Any:
        return self.t


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

    _state = attributes("ts_", "split_scores_", "scores_", "best_score_")

    def _search(self, run: Run, X: Any, y: Any, sample_weight: Any) -> None:
        """Score the path over t on each fold, as far as time allows, and choose."""
        from sklearn.metrics import check_scoring  # slow to import

        from multikernel.estimators.path import cskl_path

        self.__dict__.pop("t_", None)
        n_kernels = self._validate(X, y, sample_weight).stack.n_kernels  # bad data get their errors here
        plain = self._plain(CSKLClassifier)
        if self.exact and self.max_time is not None:  # a proof may take forever
            n_fits = len(folds_of(self.cv, y, y)) * (n_kernels if self.ts is None else len(self.ts))
            plain.max_time = SEARCH_SHARE * left() / n_fits

        def score(X: Any, y: Any, weight: Any, X_test: Any, y_test: Any) -> list[float]:
            path = cskl_path(plain, X, y, t=self.ts, sample_weight=weight)
            self.ts_ = path.values
            return [float(check_scoring(model, self.scoring)(model, X_test, y_test)) for model in path.estimators]

        advice = "t_ is the best on these. Allow more time, or use fewer folds or values of t."
        self.split_scores_ = self._fold_scores(run, plain, (X, y, sample_weight), score, advice)
        self.scores_ = self.split_scores_.mean(axis=0)
        self.best_score_ = float(self.scores_.max())
        self.t_ = float(self.ts_[self.scores_ == self.best_score_].min())

    def _wanted_t(self) -> Any:
        return getattr(self, "t_", None)
