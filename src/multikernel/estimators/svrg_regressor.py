"""ℓp-norm multiple kernel regression."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY
from typing import Any

import numpy as np
from numpy.typing import NDArray

from multikernel.estimators.base import Prepared, finite
from multikernel.estimators.parameters import estimator
from multikernel.estimators.sklearn_bases import RegressorMixin
from multikernel.estimators.svrg_base import SmoothMKL
from multikernel.estimators.tasks import Tasks
from multikernel.gram import GramStack
from multikernel.problems.losses.smooth import HuberLoss, SquaredLoss
from multikernel.problems.svrg import SmoothProblem
from multikernel.runtime.monitor import Result


@estimator
class SVRGMKLRegressor(RegressorMixin, SmoothMKL):
    r"""ℓp-norm multiple kernel regression: the problem of :class:`SVRGMKLClassifier` with losses for numbers.

    With w_j the part of w that belongs to kernel j and f the prediction without ``intercept_`` b [AOJS16, eq. (1)],

        min over w, d of  g(w, d) = λ/2 Σ_j ‖w_j‖²/d_j + (1/Σs) Σ_i s_i ℓ(f_i − (y_i − b)),   d ≥ 0, ‖d‖_p ≤ 1,

    λ = 1/(C Σs), where s are sample weights, so λ = 1/(C n) without them, and ℓ is

    - "squared": r²/2. With one kernel this is kernel ridge regression: the same as scikit-learn's ``KernelRidge``
      with ``alpha=1 / C``, fitted to y − b.
    - "huber": r²/2 for \|r\| ≤ δ, else δ (\|r\| − δ/2), which lets outliers count less; δ is ``delta``.

    The intercept b is not part of the problem: it is the constant that fits best alone, for "squared" the mean of y,
    taken from y before and added to predictions after. On centred kernels (``normalize="center"``) with the squared
    loss it is the one that a joint problem would find.

    Parameters
    ----------
    loss : {"squared", "huber"}
        The loss.
    delta : float
        Where the Huber loss begins to grow linearly, in units of y.
    fit_intercept : bool
        Whether there is a b; if not it is zero.

    Attributes
    ----------
    weights_ : ndarray of shape (F,)
        Kernel weights d, so that predictions are ``Σ_j d_j K_j alpha + b``.
    intercept_ : ndarray of shape (1,)
        The constant b.
    dual_coef_ : ndarray of shape (1, n_support)
        alpha of the support samples.

    Examples
    --------
    >>> import numpy as np
    >>> from multikernel import SVRGMKLRegressor
    >>> from multikernel.kernels import RBF
    >>> X = np.random.default_rng(0).normal(size=(120, 3))
    >>> y = np.sin(2.0 * X[:, 1])
    >>> model = SVRGMKLRegressor([RBF(columns=[j]) for j in range(3)], p=1.0, C=100.0, random_state=0).fit(X, y)
    >>> model.weights_.round(2) + 0.0
    array([0., 1., 0.])
    >>> bool(model.score(X, y) > 0.99)
    True
    """

    loss: str = "squared"
    _: KW_ONLY
    delta: float = 1.0
    fit_intercept: bool = True

    _losses = ("squared", "huber")

    def _check_parameters(self) -> None:
        super()._check_parameters()
        self._require("delta", self.delta > 0, "must be positive: beyond it the Huber loss is linear.")

    def _prepare(self, X: Any, y: Any, sample_weight: Any) -> Prepared:
        self._check_parameters()
        stack, y = self._training_stack(X, y)
        numbers = _numbers(y)
        return Prepared(stack, Tasks(numbers, numbers[:, None]), self._given_weights(sample_weight, stack))

    def _problems(self, stack: GramStack, tasks: Tasks, sample_weight: NDArray) -> Sequence[SmoothProblem]:
        loss = self._loss_of(tasks.signs, sample_weight)
        self._offset = loss.best_constant() if self.fit_intercept else np.zeros(loss.n_scores)
        return [self._problem(stack, self._loss_of(tasks.signs - self._offset, sample_weight))]

    def _loss_of(self, targets: NDArray, sample_weight: NDArray) -> SquaredLoss | HuberLoss:
        if self.loss == "squared":
            return SquaredLoss(targets, sample_weight)
        return HuberLoss(targets, sample_weight, self.delta)

    def _store(self, results: list[Result], intercepts: Sequence[Any]) -> None:
        super()._store(results, [self._offset])
        del self._offset

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
