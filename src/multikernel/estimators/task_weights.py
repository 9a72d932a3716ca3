"""What classifiers share whose binary tasks have one set of kernel weights, or a set each."""

from __future__ import annotations

from dataclasses import KW_ONLY
from typing import Any

import numpy as np
from numpy.typing import NDArray

from multikernel.estimators.classifier import BinaryTasksClassifier
from multikernel.estimators.parameters import estimator
from multikernel.estimators.tasks import Tasks
from multikernel.runtime.monitor import Result
from multikernel.svm import CSVM, LabelSVMs, NuSVM


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
    n_kernels_ : int
        Number of kernels with a weight above 1e-8 of the largest, in any task.
    dual_coef_ : ndarray of shape (T, n_support)
        Signed dual coefficients; the decision function is Σ_j weights_j K_j(x, support) @ dual_coef_' + intercept_.
    """

    _: KW_ONLY
    weights: str = "shared"

    C = 1.0

    def _check_parameters(self) -> None:
        super()._check_parameters()
        self._check_choice("weights", ("shared", "per-class"))

    def _svms(self, tasks: Tasks, sample_weight: NDArray, nu: float | None = None) -> list[Any]:
        """The inner problems: one for all tasks if they share weights, else one per task."""
        if self.weights == "shared" and tasks.signs.shape[1] > 1:
            return [LabelSVMs(tasks.signs, self.C, sample_weight=sample_weight, nu=nu)]
        if nu is None:
            return [CSVM(column, self.C, sample_weight=sample_weight) for column in tasks.signs.T]
        return [NuSVM(column, nu, sample_weight=sample_weight) for column in tasks.signs.T]

    def _weights_of(self, results: list[Result]) -> NDArray[np.float64]:
        weights = np.stack([result.weights for result in results]).astype(np.float64)
        return weights[0] if len(results) == 1 else weights
