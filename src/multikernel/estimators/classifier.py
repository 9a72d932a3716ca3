"""What classifiers on several kernels share: binary tasks, labels, decisions."""

from __future__ import annotations

from dataclasses import KW_ONLY
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.multiclass import check_classification_targets

from multikernel.estimators.base import KernelMachine, Prepared, finite, sane_weights
from multikernel.estimators.parameters import estimator
from multikernel.estimators.sklearn_bases import ClassifierMixin
from multikernel.estimators.tasks import MULTI_CLASS, Tasks, binary_signs, class_scores
from multikernel.gram import GramStack
from multikernel.io.state import attributes, labels


@estimator
class KernelSVMClassifier(ClassifierMixin, KernelMachine):
    """Base class: a classifier made of binary SVM problems on combined kernels.

    A subclass says what its problems are (``_problems``), how one is solved (``_solve``), and how the kernels are
    combined at prediction (``_combination``).

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

    # -- fit -------------------------------------------------------------------------------------------------

    def _prepare(self, X: Any, y: Any, sample_weight: Any) -> Prepared:
        self._check_parameters()
        stack, y = self._given_stack(X, y)
        tasks = self._tasks(y)
        weight = self._weights_of_samples(sample_weight, stack, y)
        return Prepared(self._training_kernels(stack, weight), tasks, weight)

    def _training_kernels(self, stack: GramStack, weight: NDArray) -> GramStack:
        """What the problems are made of: the normalised kernels."""
        return self._normalized(stack)

    def _tasks(self, y: Any) -> Tasks:
        check_classification_targets(y)
        self.classes_, codes = np.unique(y, return_inverse=True)
        if len(self.classes_) < 2:
            only = self.classes_.tolist()[0]
            raise ValueError(f"y has only one class, {only!r}: a classifier needs samples of at least 2 classes.")
        return Tasks(self.classes_[codes], binary_signs(codes, len(self.classes_), self.multi_class))

    def _weights_of_samples(self, sample_weight: Any, stack: GramStack, y: NDArray) -> NDArray[np.float64]:
        weight = self._given_weights(sample_weight, stack)
        if self.class_weight is not None:
            factors = compute_class_weight(self.class_weight, classes=self.classes_, y=y)
            weight = sane_weights(weight * factors[np.searchsorted(self.classes_, y)])
        return weight

    # -- predict -----------------------------------------------------------------------------------------------

    def decision_function(self, X: Any) -> NDArray[np.float64]:
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
        codes = (scores > 0).astype(int) if scores.ndim == 1 else scores.argmax(axis=1)
        return self.classes_[codes]


@estimator
class BinaryTasksClassifier(KernelSVMClassifier):
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
        self._check_choice("multi_class", MULTI_CLASS)
