"""Support vector regression with ℓp-norm multiple kernel learning, and what all regressors share."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from multikernel.estimators.base import KernelMachine, TrainingData, finite
from multikernel.estimators.blocks import by_blocks
from multikernel.estimators.mkl import LpMachine
from multikernel.estimators.parameters import estimator
from multikernel.estimators.sklearn_bases import RegressorMixin
from multikernel.kernels.docstrings import described
from multikernel.svm import SVR


@described
class KernelRegressor(RegressorMixin, KernelMachine):
    """Base class: one number is predicted for each sample."""

    def _validate(self, X: Any, y: Any, sample_weight: Any) -> TrainingData:
        self._check_parameters()
        stack, y = self._given_stack(X, y)
        numbers = _numbers(y)
        weight = self._given_weights(sample_weight, stack)
        return TrainingData(self._normalized(stack), numbers, numbers[:, None], weight)

    @by_blocks
    def predict(self, X: Any) -> NDArray[np.float64]:
        """Predicted numbers, shape (m,).

        Parameters
        ----------
        X : array-like of shape (m, d), or (m, n, F) or rectangular Gram stack with ``kernels="precomputed"``
            New samples, or the kernels between them and all training samples.
        """
        return finite(self._task_scores(X))[:, 0]


def _numbers(y: Any) -> NDArray[np.float64]:
    """Targets as finite numbers."""
    try:
        numbers = np.asarray(y, dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError(
            f"y holds {np.asarray(y).ravel()[0]!r}, not numbers: a regressor predicts numbers."
        ) from None
    if not np.isfinite(numbers).all():
        place = int(np.flatnonzero(~np.isfinite(numbers))[0])
        raise ValueError(f"y contains NaN or infinity, the first at {place}: remove or impute those samples.")
    return numbers


@estimator
class MKLRegressor(LpMachine, KernelRegressor):
    r"""ℓp-norm multiple kernel learning with support vector regression.

    The problem [RBCG08, sect. 4], with s the sample weights, is

        min over {g ≥ 0, ‖g‖_p ≤ 1} of  max over alpha of  y'α − ε ‖α‖₁ − ½ Σ_j g_j α'K_jα,  |α_i| ≤ C s_i, Σ α_i = 0,

    the optimum of ½‖w‖² + C Σ_i s_i max(0, \|y_i − w·φ(x_i) − b\| − ε) on the kernel Σ_j g_j K_j, made as small as
    the weights allow. It is convex, and comes with a proof: ``dual_gap_`` bounds the distance of ``objective_`` from
    the best value there is.

    With p = ∞ all weights are one: this is scikit-learn's ``SVR`` on the sum of the kernels, or on their average with
    F times the C. Targets should be scaled so that errors of ``epsilon`` do not matter.

    Parameters
    ----------
    epsilon : float
        Half the width of the tube: errors up to ε cost nothing, and their samples get no coefficient. 0 is the
        absolute error.

    Attributes
    ----------
    dual_coef_ : ndarray of shape (1, n_support)
        α of the samples on the tube or outside; predictions are Σ_j weights_j K_j(x, support) @ dual_coef_' +
        intercept_.
    intercept_ : ndarray of shape (1,)
        The constant b.
    objective_, dual_gap_ : float
        Optimum of the regression on the combined kernel, and its distance from the best lower bound proved.

    See Also
    --------
    SVRGMKLRegressor : squared and Huber losses, and kernels with explicit features of any number of samples.

    Examples
    --------
    >>> import numpy as np
    >>> from multikernel import MKLRegressor
    >>> from multikernel.kernels import RBF
    >>> X = np.random.default_rng(0).normal(size=(120, 3))
    >>> y = np.sin(2.0 * X[:, 1])
    >>> model = MKLRegressor([RBF(columns=[j]) for j in range(3)], C=10.0, epsilon=0.05).fit(X, y)
    >>> model.weights_.round(2) + 0.0
    array([0., 1., 0.])
    >>> bool(model.score(X, y) > 0.99), model.dual_gap_ <= 1e-3 * model.objective_
    (True, True)
    """

    p: float = 1.0
    C: float = 1.0
    epsilon: float = 0.1
    solver: str = "auto"

    def _svm(self, data: TrainingData) -> SVR:
        return SVR(data.targets[:, 0], self.C, self.epsilon, sample_weight=data.sample_weight)
