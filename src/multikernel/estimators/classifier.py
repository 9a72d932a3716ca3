"""What classifiers on several kernels share: labels, binary tasks, decisions."""

from __future__ import annotations

import copy
import warnings
from abc import abstractmethod
from dataclasses import KW_ONLY, replace
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import _ovr_decision_function, check_classification_targets
from sklearn.utils.validation import check_is_fitted

from multikernel.estimators.base import KernelMachine, TrainingData, finite, sane_weights
from multikernel.estimators.blocks import by_blocks
from multikernel.estimators.cross_validation import predicted
from multikernel.estimators.parameters import estimator
from multikernel.estimators.sklearn_bases import ClassifierMixin
from multikernel.gram import GramStack
from multikernel.gram.base import times
from multikernel.gram.features import FeatureBlocks
from multikernel.gram.normalization import Normalization
from multikernel.io.state import Maybe, attributes, labels, reals
from multikernel.problems.calibration import fit_calibration, log_probabilities
from multikernel.runtime.clock import OutOfTime, left
from multikernel.runtime.monitor import Result
from multikernel.runtime.run import Run
from multikernel.svm import CSVM, LabelSVMs, NuSVM

Array = NDArray[np.float64]

# Values of C worth trying for SVMs.
C_GRID = (0.1, 1.0, 10.0, 100.0)
# Parts that the samples are cut into for probabilities.
FOLDS = 5


@estimator
class KernelClassifier(ClassifierMixin, KernelMachine):
    """Base class: a classifier made of binary problems on combined kernels, or of one for all classes.

    Parameters
    ----------
    class_weight : dict, "balanced" or None
        Factor of C for each class.
    probability : bool
        Whether to fit ``predict_proba``, by five more fits, each on four fifths of the training kernels: decision
        values of the samples left out get Platt's sigmoid [Pla99] for two classes and for each label, and the softmax
        with one temperature [GPSW17] for more classes. Not used by losses that have probabilities of their own.

    Attributes
    ----------
    classes_ : ndarray of shape (M,)
    calibration_slope_, calibration_intercept_ : ndarray of shape (1,) for two classes, else (M,)
        With ``probability=True``: probabilities are the sigmoid or softmax of slope · decision value + intercept.
    """

    _: KW_ONLY
    class_weight: Any = None
    probability: bool = False

    multi_class = "ovr"  # for classifiers that solve one problem for all classes, with one score per class
    _state = attributes(
        classes_=labels("classes", (str, int, float)),
        calibration_slope_=Maybe(reals("scores", least=0.0)),
        calibration_intercept_=Maybe(reals("scores")),
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

    # -- fit -------------------------------------------------------------------------------------------------

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

    # -- probabilities -----------------------------------------------------------------------------------------

    def _calibrate(self, run: Run, data: TrainingData) -> None:
        """Learn probabilities from decision values of samples left out, as far as time allows."""
        self._forget_calibration()
        if not self._needs_calibration():
            return
        # probabilities are those of the samples as they are: class_weight moves decisions only
        weight = data.sample_weight if data.given_weight is None else data.given_weight
        decisions = self._held_out_decisions(run, data, np.flatnonzero(data.sample_weight > 0.0))
        if decisions is not None:
            self.calibration_slope_, self.calibration_intercept_ = self._fit_calibration(data, decisions, weight)

    def _needs_calibration(self) -> bool:
        return bool(self.probability)

    def _forget_calibration(self) -> None:
        for name in ("calibration_slope_", "calibration_intercept_"):
            self.__dict__.pop(name, None)

    def _held_out_decisions(self, run: Run, data: TrainingData, used: NDArray[np.intp]) -> Array | None:
        """Decision values of samples that their model was not trained on, NaN for others; None without any."""
        decisions, folds = None, self._calibration_folds(data.labels[used])
        advice = "Probabilities come from these; with none, there is no predict_proba. Allow more time."
        with run.search(len(folds), "fold", advice, needed=0) as search, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what there is to warn of, the fit to all samples warns of
            for k, (train, test) in enumerate(folds):
                model = self._on_part(len(train), left() / (len(folds) - k))
                held_out = model._decisions_of(data, used[train], used[test])
                if decisions is None:
                    decisions = np.full((len(data.stack), *held_out.shape[1:]), np.nan)
                decisions[used[test]] = held_out
                search.advance()
        return decisions

    def _calibration_folds(self, labels: NDArray) -> list[tuple[NDArray, NDArray]]:
        from sklearn.model_selection import StratifiedKFold  # slow to import

        classes, counts = np.unique(labels, return_counts=True)
        if counts.min() < 2:
            raise ValueError(
                f"class {classes[counts.argmin()].item()!r} has only one sample that counts, but probability=True "
                "needs samples of each class to train on and others to calibrate on: add some, or leave it out."
            )
        folds = StratifiedKFold(min(FOLDS, int(counts.min())), shuffle=True, random_state=0)
        return list(folds.split(labels, labels))

    def _on_part(self, n_samples: int, seconds: float) -> Any:
        """A copy for so many of the samples, whose kernels are normalised already; quiet, and limited in time."""
        model: Any = copy.copy(self)
        model._X, model._family, model._clipped, model._normalization = None, None, {}, Normalization(None)
        model.n_features_in_, model._keep_interrupted = n_samples, False
        model.verbose, model.callback, model.checkpoint = False, None, None
        model.max_time = None if np.isinf(seconds) else max(seconds, np.finfo(float).tiny)
        cv = getattr(model, "cv", FOLDS)
        if not isinstance(cv, int) and not hasattr(cv, "split"):
            model.cv = FOLDS  # folds of all samples are none of some
        return model

    def _decisions_of(self, data: TrainingData, train: NDArray, test: NDArray) -> Array:
        """Fit to some of the samples, and decide about others."""
        part = TrainingData(
            data.stack.take(train, train), data.labels[train], data.targets[train], data.sample_weight[train]
        )
        try:
            with self._run() as run:
                problems = self._problems(part, run)
                self._store(part, problems, self._solve(run, part, problems))
        except TimeoutError:
            raise OutOfTime from None
        if isinstance(data.stack, FeatureBlocks):
            held_out: GramStack = data.stack.take(test).axes().take(columns=self.support_)
        else:
            held_out = data.stack.take(test, train[self.support_])
        self._test_stack = lambda X: held_out  # type: ignore[method-assign]
        self.__dict__.pop("_feature_steps", None)  # which would make features of X
        return self.decision_function(None)

    def _fit_calibration(self, data: TrainingData, decisions: Array, weight: Array) -> tuple[Array, Array]:
        known = np.isfinite(decisions if decisions.ndim == 1 else decisions[:, 0])
        codes = np.searchsorted(self.classes_, data.labels)
        slope, intercept = fit_calibration(decisions[known], codes[known], weight[known])
        n_scores = 1 if decisions.ndim == 1 else decisions.shape[1]
        return np.full(n_scores, slope), np.full(n_scores, intercept)

    # -- predict -----------------------------------------------------------------------------------------------

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

    def _has_probabilities(self) -> bool:
        if not self.probability:
            raise AttributeError(
                "probabilities need probability=True, which costs five more fits to parts of the data."
            )
        if hasattr(self, "dual_coef_") and not hasattr(self, "calibration_slope_"):
            raise AttributeError(
                "the model has no probabilities: it was fitted without probability=True, by partial_fit, or in too "
                "little time. Fit it again."
            )
        return True

    @available_if(lambda self: self._has_probabilities())
    @by_blocks
    def predict_proba(self, X: Any) -> Array:
        """Probabilities of the classes (m, M), or of each label; ``X`` as for ``decision_function``.

        For two classes they are in the order of the decision function, and need not be 0.5 where that is zero.
        """
        return np.exp(self.predict_log_proba(X))

    @available_if(lambda self: self._has_probabilities())
    @by_blocks
    def predict_log_proba(self, X: Any) -> Array:
        """Logarithms of the probabilities, computed without their underflow; ``X`` as for ``decision_function``."""
        return log_probabilities(self._logits(X))

    def _logits(self, X: Any) -> Array:
        check_is_fitted(self)
        return self.calibration_slope_ * self.decision_function(X) + self.calibration_intercept_


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


class ExpansionClassifier(KernelClassifier):
    """Base class: scores Σ_j v_jt K_j alpha_jt + b_t, with coefficients for each kernel j and task t.

    A subclass says what v is (``_factors``).
    """

    _state = attributes(dual_coef_=reals("kernels", "tasks", "support"))

    def _has_one_kernel(self) -> bool:
        raise AttributeError("there is no one kernel: each has coefficients of its own, in dual_coef_.")

    @abstractmethod
    def _factors(self) -> Array:
        """v, shape (F, T)."""

    def _store_expansions(self, data: TrainingData, result: Result, alpha: Array, intercept: Array) -> None:
        """Fitted attributes of one result, with ``alpha`` (F, n, T) in place of its own."""
        n_kernels, n_samples, n_tasks = alpha.shape
        flat = np.moveaxis(alpha, 1, 0).reshape(n_samples, n_kernels * n_tasks)
        super()._store(data, [], [replace(result, alpha=flat, intercept=intercept)])
        self.dual_coef_ = self.dual_coef_.reshape(n_kernels, n_tasks, -1)

    # -- predict -----------------------------------------------------------------------------------------------

    def _parts(self, stack: GramStack, used: NDArray[np.intp]) -> Array:
        """K_j alpha_jt of the kernels ``used``, shape (m, len(used), T)."""
        coefficients = self.dual_coef_[used]
        parts = np.empty((len(stack), len(used), coefficients.shape[1]))
        if not len(used):
            return parts
        for rows, block in stack.take(kernels=used).blocks():
            for k, alpha in enumerate(coefficients):
                parts[rows, k] = times(block[k : k + 1], alpha.T)[0]
        return parts

    def _task_scores(self, X: Any) -> Array:
        check_is_fitted(self)
        stack, factors = self._test_stack(X), self._factors()
        used = np.flatnonzero(factors.any(axis=1))
        return np.einsum("mft,ft->mt", self._parts(stack, used), factors[used]) + self.intercept_

    def _contributions(self, X: Any) -> Array:
        check_is_fitted(self)
        stack = self._test_stack(X)
        return self._factors() * self._parts(stack, np.arange(stack.n_kernels))


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
