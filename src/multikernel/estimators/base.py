"""What estimators on several kernels share, whatever they predict: sessions, fitted attributes, scores."""

from __future__ import annotations

import contextlib
import numbers
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import KW_ONLY, dataclass, fields
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import _check_sample_weight, check_is_fitted

from multikernel.estimators.callbacks import session_callback, with_callbacks
from multikernel.estimators.inputs import KernelInput, digest, refuse_masked
from multikernel.estimators.parameters import estimator
from multikernel.estimators.sklearn_bases import BaseEstimator, CallbackSupport
from multikernel.estimators.tasks import Tasks
from multikernel.gram import GramStack
from multikernel.gram.combination import Combination, WeightedSum, combined_scores
from multikernel.io.state import attributes, either, positions, reals
from multikernel.runtime.checkpoint import Checkpoint
from multikernel.runtime.clock import OutOfTime, grace, time_limit
from multikernel.runtime.monitor import Result
from multikernel.runtime.session import Session

# Parameters that do not decide what a fit computes, given its kernels: a checkpoint may be resumed with others.
RUN_PARAMETERS = {"verbose", "n_jobs", "checkpoint", "max_time", "callback", "warm_start", "memory", "kernels"}

# Weights below this share of the largest count as zero.
NEGLIGIBLE = 1e-8

# Of the time that is left, what a search may take that comes before the last fit: of parameters, of the best kernel.
SHARE_OF_TIME = 0.8

# C and weights of samples beyond this, or weights below its inverse, have squares that overflow or vanish.
LARGEST = 1e50


@dataclass(frozen=True)
class Prepared:
    """What a fit starts from: training kernels, tasks, and the weight of each sample."""

    stack: GramStack
    tasks: Tasks
    sample_weight: NDArray[np.float64]


@estimator
class KernelMachine(KernelInput, CallbackSupport, BaseEstimator):
    """Base class: scores that are linear in combined kernels, found by solving one or several problems.

    A subclass says what a fit starts from (``_prepare``), what its problems are (``_problems``), how one is solved
    (``_solve``), and how the kernels are combined at prediction (``_combination``). C is described here, but declared
    by subclasses, because its place among the positional arguments differs.

    Parameters
    ----------
    kernels : list of kernels, "precomputed", or None
        The kernels to combine. ``None``: linear and RBF kernels on all columns; the kernels are scaled to unit
        variance, the columns are not. "precomputed": X holds the kernels, shape (n, n, F), or is a Gram stack.
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
        Maximum number of outer iterations per problem.
    max_time : float, optional
        Time limit for the whole fit, in seconds.
    memory : int or str, optional
        Memory budget for kernels, in bytes or as "2GB"; kernels that exceed it are computed on the fly.
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
    n_kernels_ : int
        Number of kernels with a weight above 1e-8 of the largest.
    dual_coef_ : ndarray of shape (T, n_support)
        Signed dual coefficients of the T binary tasks.
    support_ : ndarray of shape (n_support,)
        Training samples with a coefficient in any task.
    intercept_ : ndarray of shape (T,)
    objective_, dual_gap_ : float, or ndarray of shape (T,) for problems solved separately
        Value of the problem, and its distance from the best lower bound proved.
    n_iter_ : int
    converged_ : bool
        Whether every problem reached ``tol``.
    history_ : list of dict
        Rows with iteration, time, objective, gap, relative_gap, weights.
    """

    kernels: Any = None
    _: KW_ONLY
    normalize: Any = None
    psd: str = "raise"
    tol: float = 1e-3
    max_iter: int = 1000
    max_time: float | None = None
    memory: Any = None
    random_state: Any = None
    n_jobs: int | None = None
    verbose: Any = False
    callback: Any = None

    warm_start = False  # for estimators without the parameter
    _keep_interrupted = True  # whether Ctrl-C leaves a model; if not, it is passed on
    _more_than_numbers: ClassVar[tuple[str, ...]] = ()  # parameters whose default is a float, but that may be more
    _state = attributes(
        *("objective_", "dual_gap_", "history_", "n_iter_", "converged_", "n_kernels_"),
        support_=positions("support", below="samples"),
        dual_coef_=reals("tasks", "support"),
        intercept_=reals("tasks"),
        weights_=either(reals("kernels"), reals("tasks", "kernels")),
    )

    def _sizes(self) -> dict[str, int]:
        return {**super()._sizes(), "tasks": 1}

    def _check_loaded(self) -> None:
        super()._check_loaded()
        if any(
            kept is not None and not np.array_equal(kept, self.support_) for kept in (self._support, self._columns)
        ):
            raise ValueError("support_ is not what was kept")
        self._check_parameters()

    @abstractmethod
    def _prepare(self, X: Any, y: Any, sample_weight: Any) -> Prepared:
        """Validate parameters and data, and build the training kernels."""

    @abstractmethod
    def _problems(self, stack: GramStack, tasks: Tasks, sample_weight: NDArray) -> Sequence[Any]:
        """One problem per binary task (alpha of shape (n,)), or one for all T tasks (alpha of shape (n, T))."""

    @abstractmethod
    def _solve(self, problem: Any, monitor: Any, start: Any) -> None:
        """Solve one problem under its monitor."""

    def _combination(self, weights: NDArray) -> Combination:
        return WeightedSum(weights)

    # -- fit -------------------------------------------------------------------------------------------------

    @with_callbacks
    def fit(self, X: Any, y: Any, sample_weight: Any = None):
        """Fit the model; the class docstring has the objective.

        Parameters
        ----------
        X : array-like of shape (n, d), or (n, n, F) or Gram stack with ``kernels="precomputed"``
            Training samples, or the kernels between them.
        y : array-like of shape (n,)
            Labels, which are numbers or strings; for regression, the numbers to predict.
        sample_weight : array-like of shape (n,), optional
            Weight of each sample, a factor of its loss.

        Returns
        -------
        self : object
        """
        with self._in_time():
            previous = self._previous_solution() if self.warm_start else None
            with grace():
                prepared = self._prepare(X, y, sample_weight)
                problems = self._problems(prepared.stack, prepared.tasks, prepared.sample_weight)
            with session_callback(self, X, y) as callback:
                starts = _matching(previous, prepared.tasks.signs.shape, prepared.stack.n_kernels)
                self._run(prepared, starts, callback, problems)
        return self

    @contextlib.contextmanager
    def _in_time(self) -> Iterator[None]:
        """The limit of ``max_time``, and an error in words if there is no model when it is over."""
        self._check_max_time()
        try:
            with time_limit(self.max_time):
                yield
        except OutOfTime:
            if self.max_time is None:  # the limit is somebody else's
                raise
            raise TimeoutError(
                f"{type(self).__name__} had no model yet when max_time={self.max_time:g} s ran out: computing the "
                "kernels and a first solution takes longer. Allow more time, or use fewer samples "
                "or kernels, or kernels with explicit features such as Nystroem(rank=200)."
            ) from None

    def _run(self, prepared: Prepared, previous: Any = None, callback: Any = None, problems: Any = None) -> None:
        """Solve the problems, from the solution ``previous`` if there is one, and store the result."""
        stack, tasks, weight = prepared.stack, prepared.tasks, prepared.sample_weight
        problems = self._problems(stack, tasks, weight) if problems is None else problems
        session = Session(
            self.tol,
            max_time=self.max_time,
            n_jobs=self.n_jobs,
            verbose=self.verbose,
            callback=callback,
            checkpoint=self._checkpoint(tasks.signs, weight),
            keep_interrupted=self._keep_interrupted,
            title=type(self).__name__,
        )
        results = session.run(problems, self._solve, _starts(previous, len(problems)))
        with grace():
            self._make_attributes(problems, results)

    def _make_attributes(self, problems: Sequence[Any], results: list[Result]) -> None:
        """Make fitted attributes of the solutions."""
        self._store(results, [intercept_of(r, r.alpha.shape[1:]) for r in results])

    def _check_parameters(self) -> None:
        self._check_numbers()
        self._require("tol", self.tol > 0, "must be positive: it is a relative duality gap, such as 1e-3.")
        self._require("max_iter", self.max_iter >= 1, "must be at least 1.")
        self._check_max_time()
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
        """Parameters whose default is a float must be finite (p need not be), ``max_iter`` whole."""
        for field in fields(self):
            name, value = field.name, getattr(self, field.name)
            if not isinstance(field.default, float) or name in self._more_than_numbers:
                continue
            usable = is_number(value) and (name == "p" or not np.isinf(value))
            self._require(name, usable, f"must be a number, such as the default {field.default!r}.")
            if name == "C" and value > LARGEST:
                raise ValueError(f"C={float(value):g} is beyond {LARGEST:g}, where sums overflow: scale the kernels.")
        whole = isinstance(self.max_iter, numbers.Integral)
        self._require("max_iter", whole, "must be a whole number of at least 1.")
        threads = self.n_jobs is None or (isinstance(self.n_jobs, numbers.Integral) and self.n_jobs != 0)
        self._require("n_jobs", threads, "must be a number of threads, -1 for all cores, or None for 1.")

    def _given_weights(self, sample_weight: Any, stack: GramStack) -> NDArray[np.float64]:
        """The weights of samples that the user gave, ones by default."""
        refuse_masked(sample_weight, "sample_weight")
        samples = np.empty((len(stack), 1))
        return sane_weights(np.array(_check_sample_weight(sample_weight, samples, ensure_non_negative=True)))

    def _checkpoint(self, signs: NDArray, weight: NDArray) -> Checkpoint | None:
        if self.checkpoint is None:
            return None
        given = {k: digest(v) for k, v in self.get_params(deep=False).items() if k not in RUN_PARAMETERS}
        kernels = self.__dict__.pop("_kernels_digest")
        return Checkpoint(self.checkpoint, digest([type(self).__name__, given, signs, weight, kernels]))

    def _store(self, results: list[Result], intercepts: Sequence[Any]) -> None:
        coefficients = np.column_stack([result.alpha for result in results]).T
        self.support_ = np.flatnonzero(coefficients.any(axis=0))
        self.dual_coef_ = coefficients[:, self.support_]
        self.intercept_ = np.concatenate([np.atleast_1d(b) for b in intercepts]).astype(np.float64)
        objectives = np.array([result.certificate.primal for result in results])
        gaps = np.array([result.certificate.gap for result in results])
        one = len(results) == 1
        self.objective_ = float(objectives[0]) if one else objectives
        self.dual_gap_ = float(gaps[0]) if one else gaps
        self.history_ = [row for result in results for row in result.history]
        self.n_iter_ = max(result.n_iter for result in results)
        self.converged_ = all(result.converged for result in results)
        self.weights_ = self._weights_of(results)
        self.n_kernels_ = count_kernels(self.weights_)
        self._keep_training_rows(self.support_)

    def _weights_of(self, results: list[Result]) -> NDArray[np.float64]:
        """Weights shared by all problems, shape (F,); a subclass may return one row per task, shape (T, F)."""
        return np.array(results[0].weights, dtype=np.float64)

    def _previous_solution(self) -> tuple[NDArray, NDArray] | None:
        """Weights and full alpha (T, n) of an earlier fit."""
        if not hasattr(self, "dual_coef_"):
            return None
        alpha = np.zeros((len(self.dual_coef_), self._n_train))
        alpha[:, self.support_] = self.dual_coef_
        return self.weights_, alpha

    # -- predict -----------------------------------------------------------------------------------------------

    def _task_scores(self, X: Any) -> NDArray[np.float64]:
        """Scores of the tasks, shape (n, T)."""
        check_is_fitted(self)
        stack = self._test_stack(X)
        if self.weights_.ndim == 2:  # each task has a kernel of its own
            return np.einsum("tf,fmt->mt", self.weights_, stack.apply(self.dual_coef_.T)) + self.intercept_
        return combined_scores(stack, self._combination(self.weights_), self.dual_coef_.T) + self.intercept_

    def kernel_contributions(self, X: Any) -> NDArray[np.float64]:
        """What each kernel adds to each decision or prediction.

        Parameters
        ----------
        X : as for ``predict``

        Returns
        -------
        contributions : ndarray of shape (m, F), or (m, F, T) for T > 1 tasks
            Summed over the kernels and with ``intercept_`` added, these are predictions, or the scores of the binary
            tasks: for two classes and for one-vs-rest the decision function itself.
        """
        shares = self._contributions(X)
        return shares[:, :, 0] if shares.shape[2] == 1 else shares

    def _contributions(self, X: Any) -> NDArray[np.float64]:
        """What each kernel adds to the scores, shape (m, F, T); ``intercept_`` is not in it."""
        check_is_fitted(self)
        shares = self._test_stack(X).apply(self.dual_coef_.T)
        weights = self.weights_[:, None, None] if self.weights_.ndim == 1 else self.weights_.T[:, None, :]
        return np.moveaxis(weights * shares, 0, 1)


def finite(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    """The scores, unless some are not numbers."""
    wrong = np.count_nonzero(~np.isfinite(scores).reshape(len(scores), -1).all(axis=1))
    if wrong:
        raise ValueError(
            f"the scores of {wrong} of {len(scores)} samples overflow: the kernels or coefficients are too large. "
            'Scale the kernels, with normalize="variance" or before fitting.'
        )
    return scores


def intercept_of(result: Result, shape: tuple[int, ...]) -> NDArray[np.float64]:
    """The intercept that came with a result; zeros of that shape if time was up before it was known."""
    return np.zeros(shape) if result.intercept is None else np.asarray(result.intercept, dtype=np.float64)


def sane_weights(weight: NDArray[np.float64]) -> NDArray[np.float64]:
    """The weights of samples, unless squares of them would overflow or vanish."""
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
    except OverflowError:  # a whole number beyond all floats
        return False
    return True


def count_kernels(weights: NDArray) -> int:
    """Kernels with a weight above 1e-8 of the largest, in any row of ``weights``."""
    largest = np.atleast_2d(weights).max(axis=0)
    return int(np.count_nonzero(largest > NEGLIGIBLE * max(largest.max(), np.finfo(float).tiny)))


def _matching(
    previous: tuple[NDArray, NDArray] | None, shape: tuple[int, int], n_kernels: int
) -> tuple[NDArray, NDArray] | None:
    """An earlier solution if it was of as many samples, tasks and kernels; ``shape`` is (n, T)."""
    if previous is None or previous[1].shape != shape[::-1] or previous[0].shape[-1] != n_kernels:
        return None
    return previous


def _starts(previous: tuple[NDArray, NDArray] | None, n_problems: int) -> list[Any] | None:
    """Starts for the problems out of an earlier solution: weights (F,) or (T, F), and alpha (T, n)."""
    if previous is None:
        return None
    weights, alpha = previous
    if n_problems != len(alpha):
        return [(weights, alpha.T)] if weights.ndim == 1 else None
    return [(weights if weights.ndim == 1 else weights[t], alpha[t]) for t in range(len(alpha))]
