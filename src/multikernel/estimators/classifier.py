"""What classifiers on several kernels share: labels, binary tasks, decisions."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import KW_ONLY, replace
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.multiclass import _ovr_decision_function, check_classification_targets
from sklearn.utils.validation import check_is_fitted

from multikernel.estimators.base import KernelMachine, TrainingData, finite, sane_weights
from multikernel.estimators.cross_validation import predicted
from multikernel.estimators.parameters import estimator
from multikernel.estimators.sklearn_bases import ClassifierMixin
from multikernel.gram import GramStack
from multikernel.gram.base import times
from multikernel.io.state import attributes, labels, reals
from multikernel.runtime.monitor import Result
from multikernel.svm import CSVM, LabelSVMs, NuSVM

Array = NDArray[np.float64]

# Prices of an error that are worth trying for SVMs.
C_GRID = (0.1, 1.0, 10.0, 100.0)


@estimator
class KernelClassifier(ClassifierMixin, KernelMachine):
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
    _state = attributes(classes_=labels("classes", (str, int, float)))

    def _sizes(self) -> dict[str, int]:
        n = len(self.classes_)
        n_tasks = 1 if n == 2 else n if self.multi_class == "ovr" else n * (n - 1) // 2
        return {**super()._sizes(), "classes": n, "tasks": n_tasks}

    def _check_loaded(self) -> None:
        super()._check_loaded()
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
        weight = self._given_weights(sample_weight, stack)
        if self.class_weight is not None:
            factors = compute_class_weight(self.class_weight, classes=self.classes_, y=y)
            weight = sane_weights(weight * factors[codes])
        signs = binary_signs(codes, len(self.classes_), self.multi_class)
        return TrainingData(self._training_kernels(stack, weight), self.classes_[codes], signs, weight)

    def _training_kernels(self, stack: GramStack, weight: NDArray) -> GramStack:
        """What the problems are made of: the normalised kernels."""
        return self._normalized(stack)

    # -- predict -----------------------------------------------------------------------------------------------

    def decision_function(self, X: Any) -> Array:
        """Confidence scores: shape (n,) for two classes (positive: ``classes_[1]``), else (n, M).

        Parameters
        ----------
        X : array-like of shape (m, d), or (m, n, F) or rectangular Gram stack with ``kernels="precomputed"``
            New samples, or the kernels between them and all training samples.
        """
        return class_scores(finite(self._task_scores(X)), len(self.classes_), self.multi_class)

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


class ExpansionClassifier(KernelClassifier):
    """Base class: scores Σ_j v_jt K_j alpha_jt + b_t, with coefficients for each kernel j and task t.

    A subclass says what v is (``_factors``).
    """

    _state = attributes(dual_coef_=reals("kernels", "tasks", "support"))

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
