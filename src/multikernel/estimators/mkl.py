"""The ℓp-norm MKL classifier: one problem, many solvers."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import KW_ONLY
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from multikernel.estimators.base import C_GRID, KernelMachine, TaskWeightsClassifier, TrainingData, is_number
from multikernel.estimators.cross_validation import CrossValidated
from multikernel.estimators.parameters import Restartable, Resumable, estimator
from multikernel.estimators.registry import register
from multikernel.gram import GramStack, parse_memory
from multikernel.io.state import attributes
from multikernel.kernels.docstrings import described
from multikernel.problems.minmax import MinMaxProblem
from multikernel.problems.vskl import VSKLProblem, parse_groups
from multikernel.problems.weight_sets import ElasticNet, LpBall, WeightSet
from multikernel.runtime.run import Run, Solver
from multikernel.solvers.catalogue import PATIENCE, find_solver, solve_by_name


@register("mkl", title="MKL, p = 1", grid={"C": C_GRID}, order=10)
@register("mkl-p2", title="MKL, p = 2", params={"p": 2.0}, grid={"C": C_GRID}, order=11)
@register("mkl-elastic", title="MKL, elastic net", params={"l1_ratio": 0.5}, grid={"C": C_GRID}, order=11)
@estimator
class MKLClassifier(Restartable, TaskWeightsClassifier):
    """ℓp-norm multiple kernel learning with an SVM.

    Each problem is

        min over {g ≥ 0, ‖g‖_p ≤ 1} of  Σ_tasks  max over alpha in A of  linear(alpha) − ½ Σ_j g_j alpha' K_j alpha,

    the optimum of SVMs on the kernel Σ_j g_j K_j, made as small as the weights allow [KBSZ11, eq. (9)]. It is convex,
    and comes with a proof: ``dual_gap_`` bounds the distance of ``objective_`` from the best value there is.

    p = 1 switches kernels off and is what most papers call MKL; the larger p, the more alike the weights, up to equal
    ones for p = ∞. Here p is the norm of the weights; a group norm r on the parts of w is the same family,
    with p = r / (2 − r).

    Parameters
    ----------
    p : float
        Norm of the weights, from 1 to infinity; from 1e6 on it is taken for infinity.
    solver : {"auto", "newton", "simplemkl", "silp", "silp-taylor", "level", "lp", "group-lasso", "smo"}
        All solve the same problem. "simplemkl" [RBCG08] and "level" [XJKL09] are for p = 1, "lp" [KBSZ11], "smo"
        [VSTV10] and "silp-taylor" [KBSLMZ09] for p > 1, "silp" [SRSS06], "group-lasso" [XJYKL10] and "newton" [CR08]
        for any. "auto" takes "newton", and "lp" for p > 1 with more than 100 kernels.
    l1_ratio : float, optional
        If given, weights come from an elastic net instead of a ball: the regulariser is ½ (a (Σ_j ‖w_j‖)² +
        (1 − a) Σ_j ‖w_j‖²) with a = ``l1_ratio``, from 1, which is p = 1, to 0, equal weights [TS10], [ST11].
        Weights are sparse, but kernels that say the same share theirs. p is not used; solvers are "newton", which
        "auto" takes, "silp" and "lp".
    groups : list of lists, or array-like of shape (F,), optional
        Groups of kernels, by index or name, or a label for each kernel. Then the problem is that of VSKL
        [NDRBBR09]: every group counts, but within a group weights are sparse. p is not used; solvers are "mirror",
        the published mirror descent, and "newton", which "auto" takes.

    Attributes
    ----------
    weights_ : ndarray of shape (F,), or (T, F) for T tasks with weights of their own
        Kernel weights. With ``groups`` the effective weights, of no particular norm.

    See Also
    --------
    KernelAverageClassifier : equal weights, nothing learnt; the yardstick.
    mkl_path : solutions along C, p or l1_ratio.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from multikernel import MKLClassifier
    >>> from multikernel.kernels import RBF
    >>> X, y = load_iris(return_X_y=True)
    >>> kernels = [RBF(columns=[0, 1], name="sepals"), RBF(columns=[2, 3], name="petals")]
    >>> model = MKLClassifier(kernels, C=10.0).fit(X, y)
    >>> model.weights_.round(1)
    array([0.2, 0.8])
    >>> model.dual_gap_ <= 1e-3 * model.objective_
    True
    """

    p: float = 1.0
    C: float = 1.0
    solver: str = "auto"
    _: KW_ONLY
    nu: float | None = None
    l1_ratio: float | None = None
    groups: Any = None

    def _check_parameters(self) -> None:
        super()._check_parameters()
        self._weight_set()
        given = [name for name in ("groups", "l1_ratio") if getattr(self, name) is not None]
        if len(given) > 1:
            raise ValueError("groups= and l1_ratio= are different regularisers: give one of them.")
        if given and self.p != 1.0:
            raise ValueError(f"{given[0]}= does not use p, got p={self.p!r}. Leave p=1.0.")
        if given and self._method() != "mkl":
            find_solver(self._method(), self.solver)
        if self.groups is not None and self.nu is not None:
            raise ValueError("groups= works only with C-SVMs: leave nu=None.")

    def _method(self) -> str:
        """What the catalogue of solvers calls the problem."""
        if self.groups is not None:
            return "vskl"
        return "elastic-net" if isinstance(self._weight_set(), ElasticNet) else "mkl"

    def _weight_set(self) -> WeightSet:
        if self.l1_ratio is None:
            return LpBall(self.p)
        self._require("l1_ratio", is_number(self.l1_ratio), "must be a number from 0 to 1, or None.")
        ends = {0.0: LpBall(np.inf), 1.0: LpBall(1.0)}
        return ends.get(self.l1_ratio) or ElasticNet(self.l1_ratio)

    def _problems(self, data: TrainingData, run: Run) -> Sequence[Any]:
        inners, memory = self._svms(data, self.nu), parse_memory(self.memory)
        if self.groups is not None:
            groups = parse_groups(self.groups, data.stack.names)
            return [VSKLProblem(data.stack, inner, groups, memory) for inner in inners]
        return [MinMaxProblem(data.stack, inner, self._weight_set(), memory) for inner in inners]

    def _solver(self) -> Solver:
        return partial(solve_by_name, method=self._method(), solver=self.solver, max_iter=self.max_iter)

    def _patience(self) -> int:
        return PATIENCE


@described
class LpMachine(Restartable, KernelMachine):
    """Base class: ℓp-norm MKL with one SVM that is not a classifier (``_svm``).

    Parameters
    ----------
    p : float
        Norm of the weights, from 1, which switches kernels off, to infinity, equal weights; from 1e6 on it is taken
        for infinity.
    solver : {"auto", "newton", "simplemkl", "silp", "silp-taylor", "level", "lp", "group-lasso"}
        All solve the same problem; see :class:`MKLClassifier`.
    """

    p: float
    solver: str

    @abstractmethod
    def _svm(self, data: TrainingData) -> Any:
        """The inner problem."""

    def _check_parameters(self) -> None:
        super()._check_parameters()
        LpBall(self.p)

    def _problems(self, data: TrainingData, run: Run) -> Sequence[Any]:
        return [MinMaxProblem(data.stack, self._svm(data), LpBall(self.p), parse_memory(self.memory))]

    def _solver(self) -> Solver:
        return partial(solve_by_name, method="mkl", solver=self.solver, max_iter=self.max_iter)

    def _patience(self) -> int:
        return PATIENCE


@register(
    "mkl-cv",
    title="MKL, C and p by cross-validation",
    params={"Cs": (1.0, 10.0, 100.0), "ps": (1.0, 2.0), "cv": 3},  # as many fits as the others get
    order=12,
)
@estimator
class MKLClassifierCV(CrossValidated, Resumable, TaskWeightsClassifier):
    """ℓp-norm multiple kernel learning with C and p chosen by cross-validation.

    On the training part of each fold kernels are computed once, and models are fitted for all pairs of C and p, each
    from the solution of its neighbour. The pair with the best mean score is then fitted to all samples: the model is
    the :class:`MKLClassifier` with these parameters.

    Parameters
    ----------
    Cs : array-like
        Values of C to try.
    ps : array-like
        Values of p to try, from 1, sparse weights, to infinity, equal ones.
    solver : str
        As for :class:`MKLClassifier`.
    nu : float, optional
        As for :class:`MKLClassifier`; then ``Cs`` is not used.
    rule : {"best", "one-se"}
        What to choose: the best mean score, or, of the pairs whose mean is within one standard error of it, that with
        the smallest C, then with the smallest p: the simplest model that is not clearly worse.
    max_time : float, optional
        Time limit for all fits together, in seconds. The folds may take 80 % of it; after that only complete folds
        count.

    Attributes
    ----------
    C_, p_ : float
        The chosen values; of equal scores the smallest C, then the largest p.
    best_params_ : dict
        The same, as ``{"C": …, "p": …}``.
    best_score_ : float
        Mean score of the chosen pair over the folds.
    cv_results_ : dict
        As of scikit-learn's ``GridSearchCV``: "params", "param_C", "param_p", "split0_test_score", …,
        "mean_test_score", "std_test_score", "rank_test_score".

    See Also
    --------
    MKLClassifier : for given C and p.
    mkl_path : solutions along one of them.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from multikernel import MKLClassifierCV
    >>> X, y = load_iris(return_X_y=True)
    >>> model = MKLClassifierCV(Cs=[1, 10], ps=[1, 2], cv=3).fit(X, y)
    >>> len(model.cv_results_["params"]), bool(model.best_score_ > 0.9)
    (4, True)
    """

    Cs: Any = (0.1, 1.0, 10.0, 100.0)
    ps: Any = (1.0, 4 / 3, 2.0, np.inf)
    solver: str = "auto"
    _: KW_ONLY
    nu: float | None = None
    rule: str = "best"

    _state = attributes("C_", "p_", "best_params_", "best_score_", "cv_results_")

    def _check_parameters(self) -> None:
        super()._check_parameters()
        self._check_choice("rule", ("best", "one-se"))

    def _search(self, run: Run, X: Any, y: Any, sample_weight: Any) -> None:
        """Score all pairs on each fold, as far as time allows, and choose."""
        from sklearn.metrics import check_scoring  # slow to import

        from multikernel.estimators.path import mkl_grid

        self._check_parameters()
        plain = self._plain(MKLClassifier)
        ps = np.asarray(self.ps, dtype=np.float64)
        Cs = np.asarray([1.0] if self.nu is not None else self.Cs, dtype=np.float64)

        def score(X: Any, y: Any, weight: Any, X_test: Any, y_test: Any) -> list[float]:
            models = [model for row in mkl_grid(plain, plain._validate(X, y, weight), Cs, ps) for model in row]
            stack, scorer = plain._stack_of_all(X_test), None
            if self.scoring is not None:
                scorer = check_scoring(models[0], self.scoring)
            return [_score(model, stack, scorer, X_test, y_test) for model in models]

        advice = "C_ and p_ are the best on these. Allow more time, or use fewer folds or values."
        scores = self._fold_scores(run, plain, (X, y, sample_weight), score, advice)
        pairs = [{"C": float(C), "p": float(p)} for p in ps for C in Cs]
        self.cv_results_ = _results(pairs, scores)
        best = _chosen(self.cv_results_, self.rule)
        self.best_params_, self.best_score_ = pairs[best], float(self.cv_results_["mean_test_score"][best])
        self.C_, self.p_ = pairs[best]["C"], pairs[best]["p"]

    def _problems(self, data: TrainingData, run: Run) -> Sequence[Any]:
        return self._plain(MKLClassifier, C=self.C_, p=self.p_)._problems(data, run)

    def _solver(self) -> Solver:
        return self._plain(MKLClassifier, C=self.C_, p=self.p_)._solver()

    def _patience(self) -> int:
        return PATIENCE


def _score(model: Any, stack: GramStack, scorer: Any, X: Any, y: Any) -> float:
    """Score of a model on new samples, given their kernels with all training samples."""
    model._test_stack = lambda X: stack.take(columns=model.support_)
    if scorer is None:  # accuracy, without the milliseconds that checks of labels take
        return float(np.mean(model.predict(X) == np.asarray(y)))
    return float(scorer(model, X, y))


def _results(pairs: list[dict[str, float]], scores: NDArray) -> dict[str, Any]:
    """Scores (folds, pairs) as ``cv_results_`` of scikit-learn."""
    mean = scores.mean(axis=0)
    table: dict[str, Any] = {"params": pairs, **{f"param_{k}": np.array([pair[k] for pair in pairs]) for k in "Cp"}}
    table |= {f"split{k}_test_score": row for k, row in enumerate(scores)}
    ranks = 1 + (mean > mean[:, None]).sum(axis=1)
    return {**table, "mean_test_score": mean, "std_test_score": scores.std(axis=0), "rank_test_score": ranks}


def _chosen(results: dict[str, Any], rule: str) -> int:
    """Position of the pair that the rule prefers."""
    mean, C, p = results["mean_test_score"], results["param_C"], results["param_p"]
    n_folds = sum(name.startswith("split") for name in results)
    if rule == "best":
        return int(np.lexsort((-p, C, -mean))[0])
    error = results["std_test_score"][mean.argmax()] / np.sqrt(max(n_folds - 1, 1))
    good = np.flatnonzero(mean >= mean.max() - error)
    return int(good[np.lexsort((p[good], C[good]))[0]])
