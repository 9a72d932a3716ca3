"""Multiple kernel Fisher discriminant analysis [YMBCK10], with p and λ given, or chosen on a grid."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import KW_ONLY, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from joblib import effective_n_jobs
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import indexable
from sklearn.utils.validation import check_is_fitted

from multikernel.estimators.base import KernelClassifier, TrainingData
from multikernel.estimators.blocks import by_blocks
from multikernel.estimators.cross_validation import CrossValidated, KnownScores, cut_fold, folds_of
from multikernel.estimators.parameters import Restartable, Resumable, estimator
from multikernel.estimators.registry import register
from multikernel.gram import GramStack, combined_scores, parse_memory
from multikernel.gram.features import FIT_ROWS, FeatureBlocks
from multikernel.io.state import REAL, attributes, reals
from multikernel.problems.fisher import FisherProblem, class_scores, fisher_system, fisher_targets
from multikernel.problems.svrg_features import FisherFeatures, fisher_sums, fold_accuracies
from multikernel.problems.weight_sets import LpBall
from multikernel.runtime.clock import thread_count
from multikernel.runtime.monitor import Result
from multikernel.runtime.run import Run, Solver
from multikernel.runtime.warnings import warn_user
from multikernel.solvers.catalogue import find_solver
from multikernel.solvers.fisher import FisherGrid, Score, solve_fisher, solve_moments

NORMALIZE = ("center", "trace")
# Values worth trying, and the grid of the paper, p and λ chosen together [YMBCK10, sect. 4.1].
REG_GRID = (1e-6, 1e-4, 1e-2, 1.0)
PAPER_PS = (1.0, *(1.0 + 2.0**-k for k in range(6, 0, -1)), 2.0, 3.0, 4.0, 8.0, 1e6)
PAPER_REGS = tuple(10.0**k for k in range(-8, 2))


@estimator
class FisherClassifier(KernelClassifier):
    """Base class: discriminants on the combined kernel, and the nearest centroid in their space.

    A subclass says which p and λ to use (``_setting``). The solver is described here and declared by subclasses.

    Parameters
    ----------
    solver : {"auto", "newton", "sip", "sip-printed", "closed-form"}
        All solve the same problem. "newton": quadratic models of the objective, which is what "auto" takes. "sip":
        the paper's semi-infinite program, by cutting planes, with a linear program for p = 1 and the exact norm as
        power cones for p > 1; "sip-printed" expands the norm once an iteration and stops as the paper does.
        "closed-form": a linear system in turn with weights in closed form, fast for large p, slow towards p = 1.
    normalize : str, sequence, dict or None
        Normalisation of the kernels, fitted on the training data. By default they are centred in feature space and
        scaled to unit trace, as in the paper; see :class:`~multikernel.gram.Normalization`.
    class_weight : dict, "balanced" or None
        Weights of the classes, factors of ``sample_weight``.
    memory : int or str, optional
        Memory budget for kernels, in bytes or as "2GB". Kernels with explicit features (linear, ``Nystroem``,
        ``RandomFourier``) are solved in the space of the features when that is smaller than n.
    executor : distributed.Client, address of a scheduler, "threads", "serial" or None
        Who works on blocks of rows; as of :class:`~multikernel.SVRGMKLClassifier`.

    Attributes
    ----------
    support_ : ndarray of shape (n_support,)
        Training samples with a coefficient; features for tables that are read in blocks of rows, and for more than
        20,000 samples, if kernels have explicit features: ``dual_coef_`` are then v with ``w_j = weights_j v_j``.
    dual_coef_ : ndarray of shape (c, n_support)
        Coefficients of the discriminants, ``(K + λI)⁻¹H`` transposed: those of the paper divided by 2λ. With weights
        of samples, S = diag(s): ``(SK + λI)⁻¹SH``.
    centroids_ : ndarray of shape (M, c)
        Means of the classes in the discriminant space.
    intercept_ : ndarray of shape (1,) or (M,)
        What ``decision_function`` adds: for two classes the projection less the midpoint of the centroids; for more
        ``z·c_k − ½‖c_k‖²`` for the projection z and each centroid c_k, largest at the nearest.
    objective_, dual_gap_ : float
        Min over a of the objective above at ``weights_``, which is negative, and how far it can be from the maximum.
    """

    _: KW_ONLY
    normalize: Any = NORMALIZE
    tol: float = 1e-4
    max_iter: int = 500
    executor: Any = None

    solver = "auto"
    _most_samples = FIT_ROWS
    _state = attributes(centroids_=reals("classes", "tasks"), weights_=reals("kernels"))

    def _takes_blocks(self) -> bool:
        return self.solver == "auto" and self.keep == "support"

    @abstractmethod
    def _setting(self) -> tuple[float, float]:
        """p and λ."""

    def _training_kernels(self, stack: GramStack, weight: NDArray) -> GramStack:
        """Kernels centred and scaled by weighted statistics."""
        return self._normalized(stack, None if (weight == 1.0).all() else weight)

    def _check_parameters(self) -> None:
        super()._check_parameters()
        find_solver("fisher", self.solver)

    def _problems(self, data: TrainingData, run: Run) -> Sequence[FisherProblem | FisherFeatures]:
        p, reg = self._setting()
        codes = np.searchsorted(self.classes_, data.labels)
        targets = fisher_targets(codes, len(self.classes_), data.sample_weight)
        if isinstance(data.stack, FeatureBlocks):
            return [FisherFeatures(data.stack, codes, targets, data.sample_weight, reg, p, self.tol)]
        system = fisher_system(_weighted(data), reg, parse_memory(self.memory))
        return [FisherProblem(system, targets, LpBall(p), data.sample_weight)]

    def _solver(self) -> Solver:
        return partial(solve_fisher, run=find_solver("fisher", self.solver).run, max_iter=self.max_iter)

    def _shown(self, row: dict[str, Any]) -> dict[str, Any]:
        return {**row, "objective": -row["objective"]}  # the paper maximises

    def _store(self, data: TrainingData, problems: Sequence[Any], results: list[Result]) -> None:
        """The solver minimised −min over alpha of S: the paper's objective is minus its value."""
        (problem,), (result,) = problems, results
        alpha = problem.coefficients(result.alpha).reshape(len(result.alpha), -1)
        shape = len(self.classes_), alpha.shape[1]
        self.centroids_ = np.zeros(shape) if result.intercept is None else np.asarray(result.intercept)
        intercept = -self.centroids_.mean(axis=0) if shape[0] == 2 else -0.5 * (self.centroids_**2).sum(axis=1)
        super()._store(data, problems, [replace(result, alpha=alpha, intercept=intercept)])
        self.objective_ = -self.objective_

    @property
    def _n_features_out(self) -> int:
        """Columns of ``transform``."""
        return len(self.dual_coef_)

    # -- predict -----------------------------------------------------------------------------------------------

    @by_blocks
    def transform(self, X: Any) -> NDArray[np.float64]:
        """Projections on the discriminants, shape (m, 1) for two classes, else (m, M).

        Parameters
        ----------
        X : array-like of shape (m, d), or (m, n, F) or rectangular Gram stack with ``kernels="precomputed"``
            New samples, or the kernels between them and all training samples.
        """
        return self._project(X)

    def _project(self, X: Any) -> NDArray[np.float64]:
        """``transform`` as an array, whatever ``set_output`` says."""
        check_is_fitted(self)
        if self._on_features:
            return self._feature_scores(X)
        return combined_scores(self._test_stack(X), self._combination(self.weights_), self.dual_coef_.T)

    def _task_scores(self, X: Any) -> NDArray[np.float64]:
        projections = self._project(X)
        if len(self.classes_) == 2:
            return projections + self.intercept_
        return class_scores(projections, self.centroids_)

    def _contributions(self, X: Any) -> NDArray[np.float64]:
        shares = super()._contributions(X)
        return shares if len(self.classes_) == 2 else shares @ self.centroids_.T


def _weighted(data: TrainingData) -> GramStack:
    """``√s_i K_il √s_l``, with the weights s of the samples."""
    if (data.sample_weight == 1.0).all():
        return data.stack
    roots = np.repeat(np.sqrt(data.sample_weight)[None], data.stack.n_kernels, axis=0)
    return data.stack.scaled(roots, roots)


def _decisions(projections: NDArray, centroids: NDArray) -> NDArray[np.float64]:
    if len(centroids) == 2:
        return projections[:, 0] - centroids.mean(axis=0)[0]
    return class_scores(projections, centroids)


@register("mkfda", title="MK-FDA, p = 1", grid={"reg": REG_GRID}, order=20)
@register("mkfda-p2", title="MK-FDA, p = 2", params={"p": 2.0}, grid={"reg": REG_GRID}, order=21)
@estimator
class MKFDAClassifier(Restartable, FisherClassifier):
    """ℓp-norm multiple kernel Fisher discriminant analysis.

    The kernel weights β and the discriminants solve [YMBCK10, eq. (15)]

        max over {β ≥ 0, ‖β‖_p ≤ 1}  min over a_1 … a_c of  Σ_k  ¼ a_k'(I + Σ_j β_j K_j / λ) a_k − a_k'h_k,

    with H = (h_1 … h_c) the centred labels: one column for two classes, else one per class. For given weights this is
    a regularised discriminant analysis, which the weights make as good as they can. New samples are projected on the
    discriminants and go to the class with the nearest centroid.

    The minimum over a is minus that of ``Σ_k ‖Φw_k − h_k‖² + λ‖w_k‖²``. With weights s of samples a square counts
    s_i times, and so does a sample in means, traces, class sizes and centroids: whole weights are repeated samples,
    with the bandwidths of the samples as they are.

    Parameters
    ----------
    p : float
        Norm of the weights, at least 1: 1 gives sparse weights, from 1e6 on all weights are 1.
    reg : float
        Regularisation λ. With kernels of unit trace values from 1e-8 to 10 are worth trying.
    warm_start : bool
        Whether to start from the weights of the previous fit.

    See Also
    --------
    MKFDAClassifierCV : p and λ chosen by validation or leave-one-out error.

    Notes
    -----
    For several labels per sample wrap it in ``sklearn.multiclass.OneVsRestClassifier``, which solves one binary
    problem per label; this works with precomputed kernels too.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from multikernel import MKFDAClassifier
    >>> from multikernel.kernels import RBF
    >>> X, y = load_iris(return_X_y=True)
    >>> kernels = [RBF(columns=[0, 1], name="sepals"), RBF(columns=[2, 3], name="petals")]
    >>> model = MKFDAClassifier(kernels, p=1.0, reg=1e-2).fit(X, y)
    >>> model.weights_.argmax()
    np.int64(1)
    >>> model.transform(X).shape
    (150, 3)
    >>> model.dual_gap_ <= 1e-4 * abs(model.objective_)
    True
    """

    p: float = 1.0
    reg: float = 1e-3
    solver: str = "auto"

    def _setting(self) -> tuple[float, float]:
        return float(self.p), float(self.reg)


class FoundGrid(NamedTuple):
    """Scores (P, R), weights (P, R, F) and relative gaps (P, R) of a fold."""

    scores: NDArray
    weights: NDArray
    gaps: NDArray


@register("mkfda-cv", title="MK-FDA, p and λ by leave-one-out", params={"criterion": "loo"}, order=22)
@estimator
class MKFDAClassifierCV(CrossValidated, Resumable, FisherClassifier):
    """ℓp-norm multiple kernel Fisher discriminant analysis with p and λ chosen on a grid.

    Every point of the grid is solved and certified like a fit of :class:`~multikernel.MKFDAClassifier`, but kernels
    are computed and normalised once per fold, and each solution starts from that of the next larger p, so that
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

    ps: Any = PAPER_PS
    regs: Any = PAPER_REGS
    _: KW_ONLY
    criterion: str = "cv"
    solver: str = "auto"

    _state = attributes("split_scores_", "grid_weights_", "grid_gaps_", "scores_", "best_score_", p_=REAL, reg_=REAL)

    def _setting(self) -> tuple[float, float]:
        return self.p_, self.reg_

    def _check_parameters(self) -> None:
        super()._check_parameters()
        self._check_choice("criterion", ("cv", "loo"))
        if self.criterion == "loo" and self.scoring is not None:
            raise ValueError('criterion="loo" counts correct samples: leave scoring=None, or use criterion="cv".')
        for name, values, least in (("ps", self.ps, 1.0), ("regs", self.regs, np.finfo(float).tiny)):
            if np.ndim(values) != 1 or not len(values) or not min(values) >= least:
                raise ValueError(f"{name}={values!r} must be a list of numbers, each at least {least:.3g}.")

    def _search(self, run: Run, X: Any, y: Any, sample_weight: Any) -> None:
        """Solve and score the grid, as far as time allows, and choose; in scores of folds samples count alike."""
        self._check_parameters()
        ps, regs = np.array(self.ps, dtype=np.float64), np.array(self.regs, dtype=np.float64)
        advice = "p_ and reg_ are the best of these. Allow more time, or use fewer points or folds."
        if self._reads_blocks(X):
            self._search_blocks(run, self._validate(X, y, sample_weight), ps, regs, advice)
            return
        n_folds = 1
        folds: Iterable[tuple[TrainingData, Score]] = self._leave_one_out(X, y, sample_weight)
        if self.criterion == "cv":
            X, y, sample_weight = indexable(X, y, sample_weight)
            splits = folds_of(self.cv, X if np.ndim(X) == 2 else y, y)
            n_folds, folds = len(splits), (self._fold(X, y, sample_weight, *split) for split in splits)
        n_threads = thread_count() if self.n_jobs is None else effective_n_jobs(self.n_jobs)
        grids: list[FisherGrid] = []
        with run.search(n_folds * len(ps) * len(regs), "grid point", advice) as search:
            for data, score in folds:  # one after the other: each holds its kernels in memory
                classes, codes = np.unique(data.labels, return_inverse=True)
                targets = fisher_targets(codes, len(classes), data.sample_weight)
                grids.append(
                    FisherGrid(_weighted(data), targets, data.sample_weight, ps, regs, parse_memory(self.memory))
                )
                solver = partial(solve_fisher, run=find_solver("fisher", self.solver).run, max_iter=self.max_iter)
                grids[-1].solve(solver, score, self.tol, n_threads, search.advance)
        if not search.complete:  # folds that are complete, or what there is of the first
            grids = [grid for grid in grids if np.isfinite(grid.scores).all()] or grids[:1]
        self._choose(grids, ps, regs)

    def _reads_blocks(self, X: Any) -> bool:
        """Whether X is searched a block of rows at a time: as for a fit."""
        by_accuracy = self.criterion == "cv" and self.scoring is None
        if self._as_source(X, None) is not None:
            if not by_accuracy:
                raise ValueError(
                    'in blocks of rows the grid is scored by accuracy on folds: use criterion="cv", scoring=None.'
                )
            return True
        kernels = self.kernels if isinstance(self.kernels, (list, tuple)) else [self.kernels]
        explicit = all(getattr(kernel, "has_features", False) for kernel in kernels)
        return self._takes_blocks() and explicit and by_accuracy and np.shape(X)[0] > self._most_samples

    def _search_blocks(self, run: Run, data: TrainingData, ps: NDArray, regs: NDArray, advice: str) -> None:
        """The grid from sums over each fold: one pass makes them, another scores all points."""
        codes, fold = np.searchsorted(self.classes_, data.labels), np.full(len(data.labels), -1)
        splits = folds_of(self.cv, data.labels, data.labels)
        for k, (train, test) in enumerate(splits):
            if (fold[test] >= 0).any() or len(train) + len(test) < len(fold):
                raise ValueError("in blocks of rows each sample is in one fold: use a number of folds, or KFold.")
            fold[test] = k
        blocks = data.stack
        whole, held = fisher_sums(blocks, codes, data.sample_weight, fold, len(splits))
        grids: list[Any] = []
        with run.search(len(splits) * len(ps) * len(regs), "grid point", advice) as search:
            for sums in held:
                grids.append(
                    solve_moments(blocks.map, whole.without(sums), ps, regs, self.tol, self.max_iter, search.advance)
                )
        weights, gaps, models = zip(*grids)
        right = fold_accuracies(blocks, codes, np.where(fold < len(grids), fold, -1), list(models))
        shape = len(grids), len(ps), len(regs)
        self._choose([FoundGrid(*found) for found in zip(right.reshape(shape), weights, gaps)], ps, regs)

    def _leave_one_out(self, X: Any, y: Any, weight: Any) -> Iterator[tuple[TrainingData, Score]]:
        data = self._validate(X, y, weight)
        centered = any(str(s["step"]) == "center" and s["chosen"].all() for s in self._normalization.statistics_)

        def score(problem: FisherProblem, weights: NDArray, alpha: NDArray) -> float:
            left_out = problem.leave_one_out(weights, alpha, centered=centered)
            return float(np.average(left_out.argmax(axis=1) == problem.codes, weights=data.sample_weight))

        yield data, score

    def _fold(self, X: Any, y: Any, weight: Any, train: NDArray, test: NDArray) -> tuple[TrainingData, Score]:
        from sklearn.metrics import check_scoring  # slow to import

        names = ("kernels", "normalize", "class_weight", "psd", "missing", "memory", "tol", "max_iter", "solver")
        model = MKFDAClassifier(**{name: getattr(self, name) for name in names})
        X_train, y_train, weight, X_test, y_test = cut_fold(model, X, y, weight, train, test)
        data = model._validate(X_train, y_train, weight)
        model._keep_training_rows(np.arange(len(data.stack)))
        stack, classes = model._test_stack(X_test), model.classes_
        scorer = check_scoring(KnownScores(classes), self.scoring)

        def score(problem: FisherProblem, weights: NDArray, alpha: NDArray) -> float:
            projections = stack.combine(weights) @ problem.coefficients(alpha)
            decisions = _decisions(projections, problem.intercept(weights, alpha))
            return float(scorer(KnownScores(classes, decisions), X_test, y_test))

        return data, score

    def _choose(self, grids: Sequence[FisherGrid | FoundGrid], ps: NDArray, regs: NDArray) -> None:
        """The best pair; of equals that with the largest λ, then the largest p."""
        self.split_scores_ = np.stack([grid.scores for grid in grids])
        self.grid_weights_ = np.stack([grid.weights for grid in grids])
        self.grid_gaps_ = np.stack([grid.gaps for grid in grids])
        self.scores_ = self.split_scores_.mean(axis=0)
        self.best_score_ = float(np.nanmax(self.scores_))
        rows, columns = np.nonzero(self.scores_ == self.best_score_)
        best = max(zip(rows, columns), key=lambda rc: (regs[rc[1]], ps[rc[0]]))
        self.p_, self.reg_ = float(ps[best[0]]), float(regs[best[1]])
        late = self.grid_gaps_ > self.tol
        if late.any():
            warn_user(
                f"{int(late.sum())} of {late.size} grid points did not reach tol={self.tol:.2g}; their "
                "relative gaps are in grid_gaps_. Raise max_iter or tol.",
                ConvergenceWarning,
            )
