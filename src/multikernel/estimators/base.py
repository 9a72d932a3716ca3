"""What estimators on several kernels share: fit, fitted attributes, scores; labels, binary tasks and decisions."""

from __future__ import annotations

import contextlib
import numbers
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import KW_ONLY, dataclass, fields
from itertools import combinations
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import _ovr_decision_function, check_classification_targets
from sklearn.utils.validation import _check_sample_weight, check_is_fitted

from multikernel.estimators.blocks import by_blocks
from multikernel.estimators.cross_validation import predicted
from multikernel.estimators.inputs import KernelInput, digest, refuse_masked
from multikernel.estimators.parameters import Restartable, estimator
from multikernel.estimators.probability import ProbabilityMixin
from multikernel.estimators.sklearn_bases import (
    BaseEstimator,
    CallbackSupport,
    ClassifierMixin,
    ClassNamePrefixFeaturesOutMixin,
    TransformerMixin,
    with_callbacks,
)
from multikernel.gram import Combination, GramStack, WeightedSum, combined_scores
from multikernel.gram.checks import PSD_CHOICES
from multikernel.io.state import attributes, either, labels, positions, reals
from multikernel.kernels.quantities import is_annotated
from multikernel.kernels.views import annotated_table
from multikernel.runtime.checkpoint import Checkpoint
from multikernel.runtime.clock import grace
from multikernel.runtime.monitor import Monitor, Result
from multikernel.runtime.run import Run, Solver
from multikernel.svm import CSVM, LabelSVMs, NuSVM

Array = NDArray[np.float64]

# Parameters that do not change what a fit computes, given its kernels: a checkpoint can be resumed with others.
RUN_PARAMETERS = {
    *("verbose", "n_jobs", "checkpoint", "max_time", "callback", "warm_start", "memory", "kernels", "probability"),
    "executor",
}

# Values of C worth trying for SVMs.
C_GRID = (0.1, 1.0, 10.0, 100.0)

# Weights below this share of the largest count as zero.
NEGLIGIBLE = 1e-8

# C and weights of samples beyond this, or weights below its inverse, have squares that overflow or vanish.
LARGEST = 1e50


@dataclass(frozen=True)
class TrainingData:
    """What the problems of a fit are made of."""

    stack: Any  # normalised kernels of the n training samples: a Gram stack, or features in blocks of rows
    labels: NDArray  # (n,): what the user gave, classes or numbers
    targets: NDArray[np.float64]  # (n, T): signs in T binary tasks, 0 where a sample has no part; or numbers
    sample_weight: NDArray[np.float64]  # (n,)
    given_weight: NDArray[np.float64] | None = None  # the same without the weights of the classes


@estimator
class KernelMachine(KernelInput, ClassNamePrefixFeaturesOutMixin, TransformerMixin, CallbackSupport, BaseEstimator):
    """Base class: scores that are linear in combined kernels, found by solving one or several problems.

    A subclass says what its problems are (``_problems``), what solves one (``_solver``), and how the kernels are
    combined at prediction (``_combination``). C is described here, but declared by subclasses, because its place
    among the positional arguments differs.

    Parameters
    ----------
    kernels : list of kernels, "precomputed", or None
        The kernels to combine. ``None``: linear and RBF kernels on all columns; the kernels are scaled to unit
        variance unless ``normalize`` says otherwise, the columns are not. "precomputed": X holds the kernels, shape
        (n, n, F), or is a Gram stack.
    C : float
        Price of an error.
    normalize : str, list, dict or None
        Normalisation of the kernels, fitted on the training data: "center", "cosine", "trace", "variance", a chain
        of them, or one per kernel; see :class:`~multikernel.gram.Normalization`.
    psd : {"raise", "clip", "ignore"}
        What to do about a kernel that is not positive semi-definite.
    tol : float
        Relative duality gap at which to stop.
    max_iter : int
        Maximum number of iterations of the solver, per problem.
    max_time : float, optional
        Time limit for the whole fit, in seconds.
    missing : {"raise", "mask"}
        What to do about samples that lack a view, all columns of which are NaN for them (precomputed: the whole row
        and column of its kernels). "mask": its kernels are zero for them, and their other features are multiplied by
        √(F / kernels present).
    memory : int or str, optional
        Memory budget for kernels, in bytes or as "2GB"; kernels that exceed it are computed on the fly.
    keep : {"support", "all"}
        Training rows that the model keeps: those with a coefficient, or all, for ``transform`` to compare with.
    random_state : int, RandomState or None
        Seed of what is drawn at random. Deterministic methods accept it too, so that code can treat all alike.
    n_jobs : int, optional
        Number of threads over problems that are solved separately; -1 for one per core.
    verbose : bool
        Whether to show a progress bar.
    callback : callable, optional
        Called with each row of ``history_`` as it is added; a true return value stops the fit.

    Attributes
    ----------
    weights_ : ndarray of shape (F,)
        Kernel weights.
    kernel_names_ : ndarray of shape (F,)
    n_missing_ : dict
        Training samples without it, by view.
    n_kernels_ : int
        Number of kernels with a weight above 1e-8 of the largest, in any task.
    dual_coef_ : ndarray of shape (T, n_support)
        Signed dual coefficients of the T binary tasks.
    support_ : ndarray of shape (n_support,)
        Training samples with a coefficient in any task.
    intercept_ : ndarray of shape (T,)
    objective_, dual_gap_ : float, or ndarray of shape (T,) for problems solved separately
        Value of the problem above, and its absolute distance from the best lower bound proved.
    n_iter_ : int
        Number of iterations, or epochs.
    converged_ : bool
        Whether every problem reached ``tol``.
    history_ : list of dict
        Rows with iteration, time, objective, gap, relative_gap, weights, problem (which of several); more by solver.
    """

    kernels: Any = None
    _: KW_ONLY
    normalize: Any = None
    psd: str = "raise"
    missing: str = "raise"
    tol: float = 1e-3
    max_iter: int = 1000
    max_time: float | None = None
    memory: Any = None
    keep: str = "support"
    random_state: Any = None
    n_jobs: int | None = None
    verbose: Any = False
    callback: Any = None

    warm_start = False  # for estimators without the parameter
    _keep_interrupted = True  # whether Ctrl-C leaves a model; if not, it is passed on
    _own_weights = False  # whether problems that are solved separately have weights of their own
    _more_than_numbers: ClassVar[tuple[str, ...]] = ()  # parameters whose default is a float, but that may be more
    _state = attributes(
        *("objective_", "dual_gap_", "history_", "n_iter_", "converged_", "n_kernels_"),
        support_=positions("support", below="samples"),
        dual_coef_=reals("tasks", "support"),
        intercept_=reals("tasks"),
        weights_=either(reals("kernels"), reals("tasks", "kernels")),
    )

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        if not hasattr(self, "transform"):
            tags.transformer_tags = None
        return tags

    def _sizes(self) -> dict[str, int]:
        return {**super()._sizes(), "tasks": 1}

    def _check_loaded(self) -> None:
        super()._check_loaded()
        for kept in (self._support, self._columns):
            if kept is not None and not np.array_equal(kept, self.support_):
                raise ValueError("support_ is not what was kept")
        self._check_parameters()

    @abstractmethod
    def _validate(self, X: Any, y: Any, sample_weight: Any) -> TrainingData:
        """Check parameters and data, and build the training kernels."""

    @abstractmethod
    def _problems(self, data: TrainingData, run: Run) -> Sequence[Any]:
        """One problem per binary task (alpha of shape (n,)), or one for all T tasks (alpha of shape (n, T))."""

    @abstractmethod
    def _solver(self) -> Solver:
        """What solves one problem."""

    def _search(self, run: Run, X: Any, y: Any, sample_weight: Any) -> None:
        """Choose parameters by cross-validation, for estimators that do."""

    def _calibrate(self, run: Run, data: TrainingData) -> None:
        """Learn what probabilities need, for classifiers."""

    def _patience(self) -> int | None:
        """Iterations, beside one per kernel, that may leave the gap as it is before a solver stops; None: all."""
        return None

    def _combination(self, weights: NDArray) -> Combination:
        return WeightedSum(weights)

    def _shown(self, row: dict[str, Any]) -> dict[str, Any]:
        """A row of the history as users see it."""
        return row

    @with_callbacks
    def fit(self, X: Any, y: Any, sample_weight: Any = None):
        """Fit the model; the class docstring has the objective.

        Parameters
        ----------
        X : array-like of shape (n, d), AnnData or MuData, or (n, n, F) or Gram stack with ``kernels="precomputed"``
            Training samples, or the kernels between them.
        y : array-like of shape (n,), or name of a column of ``X.obs``
            Labels, which are numbers or strings; for regression, the numbers to predict.
        sample_weight : array-like of shape (n,), optional
            Weight of each sample, a factor of its loss.

        Returns
        -------
        self : object
        """
        if is_annotated(X):
            X, y = annotated_table(X, y)
        with self._run(X, y) as run:
            self._search(run, X, y, sample_weight)
            previous = self._previous_solution() if self.warm_start else None
            with grace():
                data = self._validate(X, y, sample_weight)
                self._calibrate(run, data)  # first: problems may change kernels in place
                problems = self._problems(data, run)
            results = self._solve(run, data, problems, previous)
            with grace():
                self._store(data, problems, results)
        return self

    @contextlib.contextmanager
    def _run(self, X: Any = None, y: Any = None) -> Iterator[Run]:
        """The context of a fit: its clock starts here."""
        self._check_max_time()
        options = {name: getattr(self, name) for name in ("max_time", "n_jobs", "verbose")}
        options["keep_interrupted"] = self._keep_interrupted
        with (
            self._callbacks(X, y) as callback,
            Run(type(self).__name__, self.tol, callback=callback, **options) as run,
        ):
            yield run

    @contextlib.contextmanager
    def _callbacks(self, X: Any, y: Any) -> Iterator[Callable[[dict[str, Any]], bool]]:
        """A function that calls the user's callback and scikit-learn's, for which an iteration is a task."""
        context, task = None, {"estimator": self, "X": X, "y": y}
        if X is not None and getattr(self, "_skl_callbacks", None):
            context = self._init_callback_context(max_subtasks=None)
            context.call_on_fit_task_begin(**task)

        def callback(row: dict[str, Any]) -> bool:
            stop = False
            if context is not None:
                iteration = context.subcontext(task_name="iteration")
                iteration.call_on_fit_task_begin(**task)
                stop = bool(iteration.call_on_fit_task_end(**task))
            return bool(self.callback is not None and self.callback(self._shown(row))) or stop

        yield callback
        if context is not None:
            context.call_on_fit_task_end(**task)

    def _solve(
        self, run: Run, data: TrainingData, problems: Sequence[Any], previous: Any = None, judge_first: bool = False
    ) -> list[Result]:
        """Solve the problems, starting from the solution ``previous`` of another fit if it has the same size.

        ``judge_first``: that may be the solution as it is.
        """
        starts = None
        if previous is not None:
            shape = data.targets.shape[1], data.stack.shape[1]
            starts = starts_of(previous[0], previous[1], shape, data.stack.n_kernels, len(problems))
        checkpoint, solver = self._checkpoint(data), self._solver()

        def unless_solved(problem: Any, monitor: Monitor, start: Any) -> None:
            if start is None or not monitor(*start):
                solver(problem, monitor, start)

        chosen = unless_solved if judge_first else solver
        return run.solve(problems, chosen, starts, checkpoint=checkpoint, patience=self._patience())

    def _check_parameters(self) -> None:
        self._check_numbers()
        self._require("tol", self.tol > 0, "must be positive: it is a relative duality gap, such as 1e-3.")
        self._require("max_iter", isinstance(self.max_iter, numbers.Integral), "must be a whole number.")
        self._require("max_iter", self.max_iter >= 1, "must be at least 1.")
        threads = self.n_jobs is None or (isinstance(self.n_jobs, numbers.Integral) and self.n_jobs != 0)
        self._require("n_jobs", threads, "must be a number of threads, -1 for all cores, or None for 1.")
        self._check_max_time()
        self._check_choice("psd", PSD_CHOICES)
        self._check_choice("missing", ("raise", "mask"))
        self._check_choice("keep", ("support", "all"))
        known = self.callback is None or callable(self.callback)
        self._require("callback", known, "must be a function that takes a row of the history, or None.")

    def _require(self, name: str, holds: bool, words: str) -> None:
        """Raise an error that names the parameter and its value, unless the condition holds."""
        if not holds:
            raise ValueError(f"{name}={getattr(self, name)!r} {words}")

    def _check_choice(self, name: str, choices: Iterable[Any]) -> None:
        """Raise an error unless the parameter is one of the choices."""
        known = list(choices)
        self._require(name, getattr(self, name) in known, f"is not known: use one of {', '.join(map(repr, known))}.")

    def _check_max_time(self) -> None:
        limited = self.max_time is None or (is_number(self.max_time) and self.max_time > 0)
        self._require("max_time", limited, "must be positive, or None for no limit.")

    def _check_numbers(self) -> None:
        """Parameters whose default is a float must be finite (p need not be)."""
        for field in fields(self):
            name, value = field.name, getattr(self, field.name)
            if not isinstance(field.default, float) or name in self._more_than_numbers:
                continue
            usable = is_number(value) and (name == "p" or not np.isinf(value))
            self._require(name, usable, f"must be a number, such as the default {field.default!r}.")
            if name == "C" and value > LARGEST:
                raise ValueError(f"C={float(value):g} is beyond {LARGEST:g}, where sums overflow: scale the kernels.")

    def _given_weights(self, sample_weight: Any, stack: GramStack) -> NDArray[np.float64]:
        """Sample weights as the user gave them, ones by default."""
        refuse_masked(sample_weight, "sample_weight")
        samples = np.empty((len(stack), 1))
        return sane_weights(np.array(_check_sample_weight(sample_weight, samples, ensure_non_negative=True)))

    def _checkpoint(self, data: TrainingData) -> Checkpoint | None:
        if self.checkpoint is None:
            return None
        given = {k: digest(v) for k, v in self.get_params(deep=False).items() if k not in RUN_PARAMETERS}
        parts = [type(self).__name__, given, data.targets, data.sample_weight, self.__dict__.pop("_kernels_digest")]
        return Checkpoint(self.checkpoint, digest(parts))

    def _store(self, data: TrainingData, problems: Sequence[Any], results: list[Result]) -> None:
        """Make fitted attributes of the solutions: arrays and plain types."""
        coefficients = np.column_stack([result.alpha for result in results]).T
        self.support_ = np.flatnonzero(coefficients.any(axis=0))
        self.dual_coef_ = coefficients[:, self.support_]
        self.intercept_ = np.concatenate([intercept_of(result) for result in results])
        self.objective_ = per_problem([result.certificate.primal for result in results])
        self.dual_gap_ = per_problem([result.certificate.gap for result in results])
        self.history_ = [self._shown(row) for result in results for row in result.history]
        self.n_iter_ = max(result.n_iter for result in results)
        self.converged_ = all(result.converged for result in results)
        weights = np.stack([result.weights for result in results]).astype(np.float64)
        self.weights_ = weights if self._own_weights and len(results) > 1 else weights[0]
        self.n_kernels_ = count_kernels(self.weights_)
        if self._on_features:
            self._n_train, self._feature_type = data.stack.shape[1], data.stack.map.dtype.name
        self._keep_training_rows(self.support_)

    def _previous_solution(self) -> tuple[NDArray, NDArray] | None:
        """Weights and full alpha (T, n) of an earlier fit."""
        if not hasattr(self, "dual_coef_"):
            return None
        alpha = np.zeros((len(self.dual_coef_), self._n_train))
        alpha[:, self.support_] = self.dual_coef_
        return self.weights_, alpha

    def _task_scores(self, X: Any) -> NDArray[np.float64]:
        """Scores of the tasks, shape (n, T)."""
        check_is_fitted(self)
        if self._on_features:
            return self._feature_scores(X) + self.intercept_
        stack = self._test_stack(X)
        if self.weights_.ndim == 2:  # each task has a kernel of its own
            return np.einsum("tf,fmt->mt", self.weights_, stack.apply(self.dual_coef_.T)) + self.intercept_
        return combined_scores(stack, self._combination(self.weights_), self.dual_coef_.T) + self.intercept_

    def _feature_scores(self, X: Any) -> NDArray[np.float64]:
        """Scores without ``intercept_`` of a model of features, few rows at a time, shape (n, T)."""
        X, features = self._checked_table(X), self._feature_map()
        w = np.zeros((features.rank, len(self.dual_coef_)))
        w[self.support_] = (self.weights_[features.owner[self.support_]] * self.dual_coef_).T
        return np.vstack([features(X[rows]) @ w for rows in features.chunks(X.shape[0])])

    @by_blocks
    def transform(self, X: Any) -> NDArray[np.floating]:
        """The combined kernel between new samples X and ``support_``, (m, n_support); (m, n) with ``keep="all"``."""
        check_is_fitted(self)
        return self._combined(self._stack_of_kept(X) if self._keeps_all() else self._test_stack(X))

    @property
    def _n_features_out(self) -> int:
        """Columns of ``transform``."""
        return self._n_train if self._keeps_all() else len(self.support_)

    def _keeps_all(self) -> bool:
        return self.keep == "all" and self._columns is None

    @property
    def kernel_(self) -> FittedKernel:
        """The combined kernel as a function of two tables, where it is defined; see :class:`FittedKernel`."""
        check_is_fitted(self)
        self._has_one_kernel()
        if self._X is None and not self._on_features:
            raise AttributeError("kernel_ needs features: precomputed kernels in X are combined by transform(X).")
        if self._clipped:
            raise AttributeError('psd="clip" changes kernels between training samples only: use transform.')
        return FittedKernel(self)

    def _has_one_kernel(self) -> bool:
        """Whether all tasks have the same kernel; an error if they have not, for ``transform`` and ``kernel_``."""
        expected = self._own_weights and getattr(self, "weights", "per-class") == "per-class"
        if self.weights_.ndim == 2 if hasattr(self, "weights_") else expected:
            raise AttributeError("there is no one kernel: each task has its own, with a row of weights_.")
        return True

    def _combined(self, stack: GramStack) -> NDArray[np.floating]:
        return self._combination(self.weights_).combine(stack)

    def kernel_contributions(self, X: Any) -> NDArray[np.float64]:
        """What each kernel adds to each decision or prediction, shape (m, F), or (m, F, T) for T > 1 tasks.

        Summed over the kernels and with ``intercept_`` added, these are predictions, or the scores of the binary
        tasks: for two classes and for one-vs-rest the decision function itself. ``X`` is as for ``predict``.
        """
        shares = self._contributions(X)
        return shares[:, :, 0] if shares.shape[2] == 1 else shares

    def _contributions(self, X: Any) -> NDArray[np.float64]:
        """What each kernel adds to the scores, shape (m, F, T); ``intercept_`` is not in it."""
        check_is_fitted(self)
        shares = self._test_stack(X).apply(self.dual_coef_.T)
        weights = self.weights_[:, None, None] if self.weights_.ndim == 1 else self.weights_.T[:, None, :]
        return np.moveaxis(weights * shares, 0, 1)


# after the class is made: set_output wraps plain methods only
for method in ("transform", "fit_transform"):
    available = available_if(lambda self: self._has_one_kernel())
    setattr(KernelMachine, method, available(getattr(KernelMachine, method)))


@dataclass(frozen=True)
class FittedKernel:
    """The kernel that a model has learnt, such as Σ_j weights_j K_j, with the normalisation of its training kernels.

    Parameters
    ----------
    model : fitted estimator

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.svm import SVC
    >>> from multikernel import MKLClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> kernel = MKLClassifier().fit(X, y).kernel_
    >>> kernel(X[:5], X[:3]).shape
    (5, 3)
    >>> SVC(kernel=kernel).fit(X, y).score(X, y) > 0.9
    True
    """

    model: Any

    def __call__(self, X: Any, Z: Any = None) -> NDArray[np.floating]:
        """Values between the samples of two tables (by default of one), shape (len(X), len(Z))."""
        return self.model._combined(self.model._stack_between(X, X if Z is None else Z))


def finite(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    """The scores, after a check that all are finite."""
    wrong = np.count_nonzero(~np.isfinite(scores).reshape(len(scores), -1).all(axis=1))
    if wrong:
        raise ValueError(
            f"the scores of {wrong} of {len(scores)} samples overflow: the kernels or coefficients are too large. "
            'Scale the kernels, with normalize="variance" or before fitting.'
        )
    return scores


def intercept_of(result: Result) -> NDArray[np.float64]:
    """The intercepts that came with a result, shape (T,); zeros if time was up before they were known."""
    zeros = np.zeros(result.alpha.shape[1:])
    return np.atleast_1d(zeros if result.intercept is None else np.asarray(result.intercept, dtype=np.float64))


def per_problem(values: list[float]) -> float | NDArray[np.float64]:
    """A number for one problem, an array for several."""
    return float(values[0]) if len(values) == 1 else np.array(values)


def sane_weights(weight: NDArray[np.float64]) -> NDArray[np.float64]:
    """The sample weights, after a check that their squares neither overflow nor vanish."""
    used = weight[weight > 0.0]
    if not len(used):
        raise ValueError("all samples have a weight of zero: there must be at least one non-zero weight.")
    if not (used.max() <= LARGEST and used.min() >= 1.0 / LARGEST):
        raise ValueError(
            f"weights of samples and classes range from {used.min():g} to {used.max():g}: each must be zero, or from "
            f"{1.0 / LARGEST:g} to {LARGEST:g}. Scale them, or leave samples out with a weight of zero."
        )
    return weight


def is_number(value: Any) -> bool:
    """Whether a parameter is a real number that fits into a float."""
    if not isinstance(value, numbers.Real) or isinstance(value, bool):
        return False
    try:
        float(value)
    except OverflowError:  # an integer too large for a float
        return False
    return True


def count_kernels(weights: NDArray) -> int:
    """Kernels with a weight above 1e-8 of the largest, in any row of ``weights``."""
    largest = np.atleast_2d(weights).max(axis=0)
    return int(np.count_nonzero(largest > NEGLIGIBLE * max(largest.max(), np.finfo(float).tiny)))


def starts_of(
    weights: NDArray, alpha: NDArray, shape: tuple[int, ...], n_kernels: int, n_problems: int
) -> list[Any] | None:
    """Starts for the problems from an earlier solution: weights (F,) or (T, F), and alpha (T, n).

    None if that was one of other numbers of tasks and samples, ``shape``, or of kernels.
    """
    if alpha.shape != shape or weights.shape[-1] != n_kernels:
        return None
    if n_problems != len(alpha):
        return [(weights, alpha.T)] if weights.ndim == 1 else None
    return [(weights if weights.ndim == 1 else weights[t], alpha[t]) for t in range(len(alpha))]


@estimator
class AverageLossMachine(Restartable, KernelMachine):
    """Base class: λ times a norm plus the average loss, one problem for all scores, with λ = 1/(C Σs).

    Parameters
    ----------
    lam : float, optional
        λ itself, instead of C.
    random_state : int, RandomState or None
        Order of the samples. The same number gives the same model.
    """

    _: KW_ONLY
    lam: float | None = None

    C = 1.0
    _passes = 50

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self.lam is None:
            self._require("C", self.C > 0, "must be positive: it is the price of an error, lam = 1 / (C n).")
        else:
            usable = is_number(self.lam) and 0 < self.lam < np.inf
            self._require("lam", usable, "must be positive and finite, or None to use C.")

    def _lambda(self, total_weight: float) -> float:
        """λ for samples of this total weight."""
        return 1.0 / (self.C * total_weight) if self.lam is None else self.lam


@estimator
class KernelClassifier(ProbabilityMixin, ClassifierMixin, KernelMachine):
    """Base class: a classifier made of binary problems on combined kernels, or of one for all classes.

    Parameters
    ----------
    class_weight : dict, "balanced" or None
        Factor of C for each class.

    Attributes
    ----------
    classes_ : ndarray of shape (M,)
    """

    _: KW_ONLY
    class_weight: Any = None

    multi_class = "ovr"  # for classifiers that solve one problem for all classes, with one score per class
    _state = attributes(
        classes_=labels("classes", (str, int, float)),
    )

    def _sizes(self) -> dict[str, int]:
        n = len(self.classes_)
        n_tasks = 1 if n == 2 else n if self.multi_class == "ovr" else n * (n - 1) // 2
        return {**super()._sizes(), "classes": n, "tasks": n_tasks, "scores": 1 if n == 2 else n}

    def _check_loaded(self) -> None:
        super()._check_loaded()
        if hasattr(self, "calibration_slope_") != hasattr(self, "calibration_intercept_"):
            raise ValueError("half of the calibration is missing")
        if len(self.classes_) < 2:
            raise ValueError("classes_ has fewer than two classes")

    def _validate(self, X: Any, y: Any, sample_weight: Any) -> TrainingData:
        self._check_parameters()
        stack, y = self._given_stack(X, y)
        check_classification_targets(y)
        self.classes_, codes = np.unique(y, return_inverse=True)
        if len(self.classes_) < 2:
            only = self.classes_.tolist()[0]
            raise ValueError(f"y has only one class, {only!r}: a classifier needs samples of at least 2 classes.")
        weight = given = self._given_weights(sample_weight, stack)
        if self.class_weight is not None:
            factors = compute_class_weight(self.class_weight, classes=self.classes_, y=y)
            weight = sane_weights(weight * factors[codes])
        signs = binary_signs(codes, len(self.classes_), self.multi_class)
        return TrainingData(self._training_kernels(stack, weight), self.classes_[codes], signs, weight, given)

    def _training_kernels(self, stack: GramStack, weight: NDArray) -> GramStack:
        """What the problems are made of: the normalised kernels."""
        return self._normalized(stack)

    def _calibrate(self, run: Run, data: TrainingData) -> None:
        self._forget_calibration()
        if self._needs_calibration():
            self._learn_probabilities(run, data)

    def _needs_calibration(self) -> bool:
        return bool(self.probability)

    def _forget_calibration(self) -> None:
        for name in ("calibration_slope_", "calibration_intercept_"):
            self.__dict__.pop(name, None)

    @by_blocks
    def decision_function(self, X: Any) -> Array:
        """Confidence scores: shape (n,) for two classes (positive: ``classes_[1]``), else (n, M).

        Parameters
        ----------
        X : array-like of shape (m, d), or (m, n, F) or rectangular Gram stack with ``kernels="precomputed"``
            New samples, or the kernels between them and all training samples.
        """
        return class_scores(finite(self._task_scores(X)), len(self.classes_), self.multi_class)

    @by_blocks
    def predict(self, X: Any) -> NDArray:
        """Predicted labels, shape (m,); ``X`` as for ``decision_function``."""
        scores = self.decision_function(X)
        return predicted(self.classes_, scores)


@estimator
class BinaryTasksClassifier(KernelClassifier):
    """Base class: several classes make several binary tasks.

    Parameters
    ----------
    multi_class : {"ovr", "ovo"}
        One task per class against the rest, or one per pair of classes.
    """

    _: KW_ONLY
    multi_class: str = "ovr"

    def _check_parameters(self) -> None:
        super()._check_parameters()
        self._check_choice("multi_class", ("ovr", "ovo"))


@estimator
class TaskWeightsClassifier(BinaryTasksClassifier):
    """Base class: kernel weights are shared by all binary tasks, or learnt for each.

    Like C, nu is described here and declared by subclasses that have it.

    Parameters
    ----------
    nu : float, optional
        If given, ν-SVMs in the scaling of [GMSB11, eq. (3.17)] instead of C-SVMs; C is not used then.
    weights : {"shared", "per-class"}
        With more than two classes: one set of weights for all binary tasks, which minimises the sum of their
        objectives, or weights for each task.

    Attributes
    ----------
    weights_ : ndarray of shape (F,), or (T, F) for T tasks with weights of their own
        Kernel weights.
    dual_coef_ : ndarray of shape (T, n_support)
        Signed dual coefficients; the decision function is Σ_j weights_j K_j(x, support) @ dual_coef_' + intercept_.
    """

    _: KW_ONLY
    weights: str = "shared"

    C = 1.0
    _own_weights = True

    def _check_parameters(self) -> None:
        super()._check_parameters()
        self._check_choice("weights", ("shared", "per-class"))

    def _svms(self, data: TrainingData, nu: float | None = None) -> list[Any]:
        """The inner problems: one for all tasks if they share weights, else one per task."""
        signs, weight = data.targets, data.sample_weight
        if self.weights == "shared" and signs.shape[1] > 1:
            return [LabelSVMs(signs, self.C, sample_weight=weight, nu=nu)]
        if nu is None:
            return [CSVM(column, self.C, sample_weight=weight) for column in signs.T]
        return [NuSVM(column, nu, sample_weight=weight) for column in signs.T]


def binary_signs(y: NDArray[np.intp], n_classes: int, multi_class: str) -> Array:
    """Signs of the binary tasks, shape (n, T): +1, -1, or 0 where a sample has no part.

    Two classes make one task, with +1 for class 1. One-vs-rest makes one task per class; one-vs-one makes one
    per pair (a, b), a < b, with +1 for b.
    """
    if n_classes == 2:
        return np.where(y == 1, 1.0, -1.0)[:, None]
    if multi_class == "ovr":
        return np.where(y[:, None] == np.arange(n_classes), 1.0, -1.0)
    columns = [np.where(y == b, 1.0, 0.0) - (y == a) for a, b in combinations(range(n_classes), 2)]
    return np.column_stack(columns)


def class_scores(scores: NDArray, n_classes: int, multi_class: str) -> NDArray:
    """Scores of the binary tasks (n, T) as a decision function: (n,) for two classes, else (n, M).

    One-vs-one scores become votes; between classes with as many votes the pairwise scores decide.
    """
    if n_classes == 2:
        return scores[:, 0]
    return scores if multi_class == "ovr" else _ovr_decision_function(scores > 0, scores, n_classes)
