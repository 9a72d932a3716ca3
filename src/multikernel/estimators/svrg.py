"""SVRG-MKL: ℓp-norm MKL with a smooth loss."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.metaestimators import available_if

from multikernel.estimators.classifier import KernelSVMClassifier
from multikernel.estimators.parameters import estimator
from multikernel.estimators.registry import register
from multikernel.estimators.svrg_base import SmoothMKL
from multikernel.estimators.tasks import Tasks
from multikernel.gram import GramStack
from multikernel.problems.losses.smooth import LogisticLoss, SmoothedHinge, SmoothLoss, SoftmaxLoss, SquaredHinge
from multikernel.problems.svrg import SmoothProblem


def _has_probabilities(estimator: SVRGMKLClassifier) -> bool:
    if estimator.loss != "logistic":
        raise AttributeError(
            f'loss={estimator.loss!r} does not give probabilities: use loss="logistic", or calibrate the scores '
            "with sklearn.calibration.CalibratedClassifierCV."
        )
    return True


@register("svrg", title="SVRG-MKL", grid={"C": (1.0, 10.0, 100.0), "p": (1.1, 1.5, 2.0)}, order=32)
@estimator
class SVRGMKLClassifier(SmoothMKL, KernelSVMClassifier):
    r"""ℓp-norm MKL with a smooth loss.

    One problem for all classes [AOJS16, eq. (1)], with w_j the part of w that belongs to kernel j:

        min over w, d of  g(w, d) = λ/2 Σ_j ‖w_j‖²/d_j + (1/Σs) Σ_i s_i ℓ_i(w),   d ≥ 0, ‖d‖_p ≤ 1,

    λ = 1/(C Σs), where s are sample weights, so λ = 1/(C n) without them. There is no bias. With f the scores, z = y
    f and y = ±1 for two classes (``classes_[1]`` is +1), ℓ is

    - "logistic": log(1 + exp(−z)); for more classes log Σ_r exp(f_r) − f_y, one score a class;
    - "squared_hinge": max(0, 1 − z)²;
    - "smoothed_hinge": 0 for z ≥ 1, 1 − z − γ/2 for z ≤ 1 − γ, (1 − z)²/(2γ) between, γ = ``smoothing``.

    For more than two classes both hinges are summed over the classes, each against the rest; the weights are shared.
    Here p is the norm of the kernel weights; on w it is the group norm 2p/(p + 1)
    (:func:`multikernel.problems.obscure.group_norm`), the p of :class:`ObscureClassifier`.

    Parameters
    ----------
    loss : {"logistic", "squared_hinge", "smoothed_hinge"}
        The loss.
    smoothing : float
        γ of the smoothed hinge.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from multikernel import SVRGMKLClassifier
    >>> from multikernel.kernels import RBF
    >>> X, y = load_iris(return_X_y=True)
    >>> kernels = [RBF(columns=[0, 1], name="sepals"), RBF(columns=[2, 3], name="petals")]
    >>> model = SVRGMKLClassifier(kernels, p=1.1, C=10.0, random_state=0).fit(X, y)
    >>> model.kernel_names_[model.weights_.argmax()]
    'petals'
    >>> model.predict_proba(X[:1]).round(1)
    array([[1., 0., 0.]])
    """

    loss: str = "logistic"
    _: KW_ONLY
    smoothing: float = 1.0

    _losses = ("logistic", "squared_hinge", "smoothed_hinge")

    def _check_parameters(self) -> None:
        super()._check_parameters()
        self._require("smoothing", self.smoothing > 0, "must be positive: without it the hinge is not smooth.")

    def _problems(self, stack: GramStack, tasks: Tasks, sample_weight: NDArray) -> Sequence[SmoothProblem]:
        return [self._problem(stack, self._smooth_loss(tasks, sample_weight))]

    def _smooth_loss(self, tasks: Tasks, sample_weight: NDArray) -> SmoothLoss:
        if self.loss == "squared_hinge":
            return SquaredHinge(tasks.signs, sample_weight)
        if self.loss == "smoothed_hinge":
            return SmoothedHinge(tasks.signs, sample_weight, self.smoothing)
        if len(self.classes_) == 2:
            return LogisticLoss(tasks.signs, sample_weight)
        return SoftmaxLoss((tasks.signs > 0.0).astype(np.float64), sample_weight)

    @available_if(_has_probabilities)
    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Probabilities of the classes, shape (m, M); only with ``loss="logistic"``.

        Parameters
        ----------
        X : as for ``decision_function``
        """
        from scipy.special import expit, softmax

        scores = self.decision_function(X)
        if scores.ndim == 1:
            return np.column_stack([expit(-scores), expit(scores)])
        return softmax(scores, axis=1)

    @available_if(_has_probabilities)
    def predict_log_proba(self, X: Any) -> NDArray[np.float64]:
        """Logarithms of the probabilities, computed without their underflow; ``X`` as for ``decision_function``."""
        from scipy.special import log_expit, log_softmax

        scores = self.decision_function(X)
        if scores.ndim == 1:
            return np.column_stack([log_expit(-scores), log_expit(scores)])
        return log_softmax(scores, axis=1)
