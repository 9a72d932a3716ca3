"""Fisher discriminants with p and λ chosen on a grid, without waste."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import KW_ONLY
from typing import Any

import numpy as np
from joblib import effective_n_jobs
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import indexable

from multikernel.estimators.base import SHARE_OF_TIME
from multikernel.estimators.fisher import MKFDAClassifier
from multikernel.estimators.fisher_base import FisherClassifier
from multikernel.estimators.fisher_grid import GridRun, HeldOut, progress
from multikernel.estimators.inputs import cut_fold, folds_of
from multikernel.estimators.parameters import CrossValidated, Resumable, estimator
from multikernel.estimators.registry import register
from multikernel.io.state import REAL, attributes
from multikernel.runtime.clock import OutOfTime, left, time_limit
from multikernel.runtime.threads import thread_count
from multikernel.runtime.warnings import warn_user

# The grid of the paper: p and λ chosen together [YMBCK10, sect. 4.1].
P_GRID = (1.0, *(1.0 + 2.0**-k for k in range(6, 0, -1)), 2.0, 3.0, 4.0, 8.0, 1e6)
REG_GRID = tuple(10.0**k for k in range(-8, 2))
CRITERIA = ("cv", "loo")


@register("mkfda-cv", title="MK-FDA, p and λ by leave-one-out", params={"criterion": "loo"}, order=22)
@estimator
class MKFDAClassifierCV(CrossValidated, Resumable, FisherClassifier):
    """ℓp-norm multiple kernel Fisher discriminant analysis with p and λ chosen on a grid.

    Every point of the grid is solved and certified like a fit of :class:`~multikernel.MKFDAClassifier`, but kernels
    are computed and normalised once a fold, and each solution starts from that of the next larger p, so that
    a point costs one or two factorisations. The best pair is then fitted to all samples.

    Parameters
    ----------
    ps : sequence of float
        Norms to try; by default the paper's twelve, from 1 to 10⁶, which stands for infinity.
    regs : sequence of float
        Regularisations λ to try; by default the paper's ten, from 10⁻⁸ to 10.
    criterion : {"cv", "loo"}
        "cv": the mean score on held-out folds. "loo": the accuracy on each training sample when it is left out, in
        closed form: centred anew without it, with the kernel weights of all samples, so it is a little optimistic. A
        sample leaves with all its weight, and counts with it.
    scoring : str, callable or None
        Score on held-out folds; accuracy by default. Not for ``criterion="loo"``.
    max_time : float, optional
        Time limit for all fits together, in seconds. The grid may take 80 % of it; after that the best of the points
        scored counts.
    n_jobs : int, optional
        Number of threads over values of λ, one core each; by default as many as there are cores, which linear algebra
        takes in any case.
    verbose : bool
        Whether to show a progress bar over the points of the grid.

    Attributes
    ----------
    p_, reg_ : float
        The chosen pair. Of equal scores the largest λ wins, then the largest p: the smoothest model.
    best_score_ : float
    scores_ : ndarray of shape (len(ps), len(regs))
        Mean score over the folds, or leave-one-out accuracy.
    split_scores_ : ndarray of shape (n_splits, len(ps), len(regs))
    grid_weights_ : ndarray of shape (n_splits, len(ps), len(regs), F)
        Kernel weights at each point: how they get sparse as p falls.
    grid_gaps_ : ndarray of shape (n_splits, len(ps), len(regs))
        Relative duality gaps.
    objective_, dual_gap_ : float
        Value of the problem of :class:`~multikernel.MKFDAClassifier` at ``weights_``, which is negative, and how far
        it can be from the maximum.

    See Also
    --------
    multikernel.inspection.displays.GridScoresDisplay : heat map of ``scores_``.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from multikernel import MKFDAClassifierCV
    >>> from multikernel.kernels import RBF
    >>> X, y = load_iris(return_X_y=True)
    >>> kernels = [RBF(columns=[0, 1], name="sepals"), RBF(columns=[2, 3], name="petals")]
    >>> model = MKFDAClassifierCV(kernels, ps=[1.0, 2.0], regs=[1e-4, 1e-2], criterion="loo").fit(X, y)
    >>> model.scores_.shape, model.best_score_ > 0.9
    ((2, 2), True)
    """

    ps: Any = P_GRID
    regs: Any = REG_GRID
    _: KW_ONLY
    criterion: str = "cv"
    solver: str = "auto"

    _state = attributes("split_scores_", "grid_weights_", "grid_gaps_", "scores_", "best_score_", p_=REAL, reg_=REAL)

    def fit(self, X: Any, y: Any, sample_weight: Any = None):
        """Choose p and λ, then fit with them; parameters as for :class:`~multikernel.MKFDAClassifier`.

        Folds are scored by ``scoring``, in which samples count alike.
        """
        self._check_parameters()
        self._check_grid()
        ps, regs = np.array(self.ps, dtype=np.float64), np.array(self.regs, dtype=np.float64)
        search = self._leave_one_out if self.criterion == "loo" else self._folds
        with self._in_time():
            runs = search(X, y, sample_weight, ps, regs)
            self.split_scores_ = np.stack([run.scores for run in runs])
            self.grid_weights_ = np.stack([run.weights for run in runs])
            self.grid_gaps_ = np.stack([run.gaps for run in runs])
            self.scores_ = self.split_scores_.mean(axis=0)
            self._choose(ps, regs)
            return super().fit(X, y, sample_weight)

    def _setting(self) -> tuple[float, float]:
        return self.p_, self.reg_

    def _check_grid(self) -> None:
        self._check_choice("criterion", CRITERIA)
        if self.criterion == "loo" and self.scoring is not None:
            raise ValueError('criterion="loo" counts correct samples: leave scoring=None, or use criterion="cv".')
        for name, values, least in (("ps", self.ps, 1.0), ("regs", self.regs, np.finfo(float).tiny)):
            if np.ndim(values) != 1 or not len(values) or not min(values) >= least:
                raise ValueError(f"{name}={values!r} must be a list of numbers, each at least {least:.3g}.")

    def _leave_one_out(self, X: Any, y: Any, weight: Any, ps: NDArray, regs: NDArray) -> list[GridRun]:
        model = self._plain()
        prepared = model._prepare(X, y, weight)
        centered = any(str(s["step"]) == "center" and s["chosen"].all() for s in model._normalization.statistics_)

        def score(problem, weights: NDArray, alpha: NDArray) -> float:
            left_out = problem.leave_one_out(weights, alpha, centered=centered)
            right = left_out.argmax(axis=1) == problem.inner.codes
            return float(np.average(right, weights=prepared.sample_weight))

        return self._solve_grids([(model, prepared, score)], ps, regs)

    def _folds(self, X: Any, y: Any, weight: Any, ps: NDArray, regs: NDArray) -> list[GridRun]:
        X, y, weight = indexable(X, y, weight)
        splits = folds_of(self.cv, X if np.ndim(X) == 2 else y, y)
        folds = (self._fold(X, y, weight, train, test) for train, test in splits)
        return self._solve_grids(folds, ps, regs, len(splits))

    def _fold(self, X: Any, y: Any, weight: Any, train: NDArray, test: NDArray) -> tuple[Any, Any, Callable]:
        from sklearn.metrics import check_scoring  # slow to import

        model = self._plain()
        X_train, y_train, weight, X_test, y_test = cut_fold(model, X, y, weight, train, test)
        prepared = model._prepare(X_train, y_train, weight)
        held_out = HeldOut(model, X_test)
        scorer = check_scoring(held_out, self.scoring)

        def score(problem, weights: NDArray, alpha: NDArray) -> float:
            return float(scorer(held_out.at(problem, weights, alpha), X_test, y_test))

        return model, prepared, score

    def _plain(self) -> MKFDAClassifier:
        """The classifier whose grid this is."""
        names = ("kernels", "normalize", "class_weight", "psd", "memory", "tol", "max_iter", "solver")
        return MKFDAClassifier(**{name: getattr(self, name) for name in names})

    def _solve_grids(
        self, folds: Iterable[tuple[Any, Any, Callable]], ps: NDArray, regs: NDArray, n_folds: int = 1
    ) -> list[GridRun]:
        runs: list[GridRun] = []
        n_points = n_folds * len(ps) * len(regs)
        n_threads = thread_count() if self.n_jobs is None else effective_n_jobs(self.n_jobs)
        try:
            with (
                progress(n_points, type(self).__name__, self.verbose) as advance,
                time_limit(SHARE_OF_TIME * left()),
            ):
                for model, prepared, score in folds:  # one after the other: each holds its kernels in memory
                    runs.append(GridRun(model, prepared, score, ps, regs))
                    runs[-1].solve(n_threads, advance)
        except OutOfTime:
            runs = self._cut_short(runs, n_points)
        late = np.stack([run.gaps for run in runs]) > self.tol
        if late.any():
            warn_user(
                f"{int(late.sum())} of {late.size} grid points did not reach tol={self.tol:.2g}; their "
                "relative gaps are in grid_gaps_. Raise max_iter or tol.",
                ConvergenceWarning,
            )
        return runs

    def _cut_short(self, runs: list[GridRun], n_points: int) -> list[GridRun]:
        """What to choose by when time is up: the folds that are complete, or what there is of the first."""
        done = sum(int(np.isfinite(run.scores).sum()) for run in runs)
        if self.max_time is None or not done:
            raise OutOfTime
        warn_user(
            f"{type(self).__name__} scored only {done} of {n_points} grid points: max_time was nearly used "
            "up. p_ and reg_ are the best of these. Allow more time, or use fewer points or folds.",
            ConvergenceWarning,
        )
        return [run for run in runs if np.isfinite(run.scores).all()] or runs[:1]

    def _choose(self, ps: NDArray, regs: NDArray) -> None:
        """The best pair; of equals that with the largest λ, then the largest p."""
        self.best_score_ = float(np.nanmax(self.scores_))
        rows, columns = np.nonzero(self.scores_ == self.best_score_)
        best = max(zip(rows, columns), key=lambda rc: (regs[rc[1]], ps[rc[0]]))
        self.p_, self.reg_ = float(ps[best[0]]), float(regs[best[1]])
