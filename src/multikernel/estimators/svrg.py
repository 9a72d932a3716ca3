"""SVRG-MKL: ℓp-norm MKL with a smooth loss, for classes and for numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, replace
from functools import partial
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from multikernel.estimators.base import AverageLossMachine, KernelClassifier, TrainingData
from multikernel.estimators.parameters import estimator
from multikernel.estimators.registry import register
from multikernel.estimators.regression import KernelRegressor
from multikernel.gram import parse_memory
from multikernel.gram.features import FeatureBlocks
from multikernel.problems.losses import (
    HuberLoss,
    LogisticLoss,
    SmoothedHinge,
    SmoothLoss,
    SoftmaxLoss,
    SquaredHinge,
    SquaredLoss,
)
from multikernel.problems.svrg import SmoothProblem
from multikernel.problems.svrg_features import FeatureProblem, feature_problem
from multikernel.runtime.monitor import Result
from multikernel.runtime.run import Run, Solver
from multikernel.solvers.catalogue import find_solver


@estimator
class SmoothMKL(AverageLossMachine):
    """Base class: one problem [AOJS16, eq. (1)] for all scores, with a loss that a subclass chooses.

    Parameters
    ----------
    p : float
        Norm of the kernel weights, p ≥ 1. Near 1 few kernels are left.
    loss : str
        The loss.
    solver : {"auto", "svrg", "paper", "printed", "lbfgs", "newton"}
        "auto": "newton" where its steps are exact and take seconds, else "lbfgs". "svrg": variance-reduced epochs.
        "paper": the step sizes and numbers of steps of [AOJS16, alg. 1], which need many more passes over the data;
        "printed": the same as printed, which may diverge. "newton": for up to some thousand samples.
    executor : distributed.Client, address of a scheduler, "threads", "serial" or None
        Who works on blocks of rows where kernels have explicit features. None: the active Dask client if there is
        one, else threads. A client cannot be copied: searches that clone the model need one of the others.

    Attributes
    ----------
    weights_ : ndarray of shape (F,)
        Kernel weights d, so that scores are ``Σ_j d_j K_j alpha``.
    support_, dual_coef_ : ndarrays of shapes (n_support,) and (T, n_support)
        Samples with a coefficient alpha, and these. If all kernels have explicit features and the solver is "auto",
        the features themselves take the place of samples: v with ``w_j = d_j v_j``, and a model does not grow with n.
    """

    p: float = 1.5
    C: float = 1.0
    loss: str = ""
    solver: str = "auto"
    _: KW_ONLY
    tol: float = 1e-4
    executor: Any = None

    _losses: ClassVar[Sequence[str]] = ()  # what ``loss`` may be

    def _check_parameters(self) -> None:
        super()._check_parameters()
        self._require("p", self.p >= 1.0, "must be at least 1: it is the norm of the kernel weights.")
        self._check_choice("loss", self._losses)
        find_solver("svrg", self.solver)

    def _takes_blocks(self) -> bool:
        return self.solver == "auto" and self.keep == "support"

    def _smooth_problem(self, data: TrainingData, loss: SmoothLoss) -> SmoothProblem | FeatureProblem:
        lam = self._lambda(loss.total_weight)
        if isinstance(data.stack, FeatureBlocks):
            return feature_problem(data.stack, loss, lam, self.p, self.tol)
        return SmoothProblem(data.stack, loss, lam, self.p, memory=parse_memory(self.memory))

    def _solver(self) -> Solver:
        return partial(find_solver("svrg", self.solver).run, max_iter=self.max_iter, random_state=self.random_state)

    def _store(self, data: TrainingData, problems: Sequence[Any], results: list[Result]) -> None:
        super()._store(data, problems, [self._sparse(data, result) for result in results])
        epochs = [row["epoch"] for row in self.history_ if "epoch" in row]
        self.n_iter_ = int(max(epochs, default=self.n_iter_))

    @staticmethod
    def _sparse(data: TrainingData, result: Result) -> Result:
        """Without coefficients of features that have no weight."""
        if not isinstance(data.stack, FeatureBlocks):
            return result
        used = result.weights[data.stack.map.owner] > 0.0
        return replace(result, alpha=np.where(used[:, None], result.alpha.reshape(len(used), -1), 0.0))


@register("svrg", title="SVRG-MKL", grid={"C": (1.0, 10.0, 100.0), "p": (1.1, 1.5, 2.0)}, order=32)
@estimator
class SVRGMKLClassifier(SmoothMKL, KernelClassifier):
    r"""ℓp-norm MKL with a smooth loss.

    One problem for all classes [AOJS16, eq. (1)], with w_j the part of w that belongs to kernel j:

        min over w, d of  g(w, d) = λ/2 Σ_j ‖w_j‖²/d_j + (1/Σs) Σ_i s_i ℓ_i(w),   d ≥ 0, ‖d‖_p ≤ 1,

    λ = 1/(C Σs), where s are sample weights, so λ = 1/(C n) without them. There is no bias. With f the scores, z = y
    f and y = ±1 for two classes (``classes_[1]`` is +1), ℓ is

    - "logistic": log(1 + exp(−z)); for more classes log Σ_r exp(f_r) − f_y, one score per class;
    - "squared_hinge": max(0, 1 − z)²;
    - "smoothed_hinge": 0 for z ≥ 1, 1 − z − γ/2 for z ≤ 1 − γ, (1 − z)²/(2γ) between, γ = ``smoothing``.

    For more than two classes both hinges are summed over the classes, each against the rest; the weights are shared.
    Here p is the norm of the kernel weights; on w it is the group norm 2p/(p + 1)
    (:func:`multikernel.problems.obscure.group_norm`), the p of :class:`ObscureClassifier`. If all kernels have
    explicit features (linear, :class:`~multikernel.kernels.Nystroem`, :class:`~multikernel.kernels.RandomFourier`), w
    is a vector and nothing of size n² is made.

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

    def _problems(self, data: TrainingData, run: Run) -> Sequence[SmoothProblem | FeatureProblem]:
        return [self._smooth_problem(data, self._smooth_loss(data.targets, data.sample_weight))]

    def _smooth_loss(self, signs: NDArray, sample_weight: NDArray) -> SmoothLoss:
        if self.loss == "squared_hinge":
            return SquaredHinge(signs, sample_weight)
        if self.loss == "smoothed_hinge":
            return SmoothedHinge(signs, sample_weight, self.smoothing)
        if len(self.classes_) == 2:
            return LogisticLoss(signs, sample_weight)
        return SoftmaxLoss((signs > 0.0).astype(np.float64), sample_weight)

    def _needs_calibration(self) -> bool:
        return super()._needs_calibration() and self.loss != "logistic"

    def _has_probabilities(self) -> bool:
        return self.loss == "logistic" or super()._has_probabilities()

    def _logits(self, X: Any) -> NDArray[np.float64]:
        return self.decision_function(X) if self.loss == "logistic" else super()._logits(X)


@estimator
class SVRGMKLRegressor(SmoothMKL, KernelRegressor):
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
    intercept_ : ndarray of shape (1,)
        The constant b.

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

    def _problems(self, data: TrainingData, run: Run) -> Sequence[SmoothProblem | FeatureProblem]:
        return [self._smooth_problem(data, self._loss_of(data, self._offset(data)))]

    def _loss_of(self, data: TrainingData, offset: Any = 0.0) -> SquaredLoss | HuberLoss:
        if self.loss == "squared":
            return SquaredLoss(data.targets - offset, data.sample_weight)
        return HuberLoss(data.targets - offset, data.sample_weight, self.delta)

    def _offset(self, data: TrainingData) -> NDArray[np.float64]:
        """The constant that fits best alone."""
        return self._loss_of(data).best_constant() if self.fit_intercept else np.zeros(1)

    def _store(self, data: TrainingData, problems: Sequence[Any], results: list[Result]) -> None:
        super()._store(data, problems, [replace(results[0], intercept=self._offset(data))])
