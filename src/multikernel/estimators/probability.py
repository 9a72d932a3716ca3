"""Probabilities of classes, from decision values of samples that are left out in turn."""

from __future__ import annotations

import copy
import warnings
from dataclasses import KW_ONLY, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from multikernel.estimators.blocks import by_blocks
from multikernel.estimators.parameters import estimator
from multikernel.gram import GramStack
from multikernel.gram.features import FeatureBlocks
from multikernel.gram.normalization import Normalization
from multikernel.io.state import Maybe, attributes, reals
from multikernel.problems.calibration import fit_calibration, log_probabilities
from multikernel.runtime.clock import OutOfTime, left
from multikernel.runtime.run import Run

if TYPE_CHECKING:
    from multikernel.estimators.base import TrainingData

Array = NDArray[np.float64]

# Parts that the samples are cut into.
FOLDS = 5


@estimator
class ProbabilityMixin:
    """Mixin of classifiers that learn ``predict_proba`` after the fit, if asked.

    Parameters
    ----------
    probability : bool
        Whether to fit ``predict_proba``, by five more fits, each on four fifths of the training kernels: decision
        values of the samples left out get Platt's sigmoid [Pla99] for two classes and for each label, and the softmax
        with one temperature [GPSW17] for more classes. Not used by losses that have probabilities of their own.

    Attributes
    ----------
    calibration_slope_, calibration_intercept_ : ndarray of shape (1,) for two classes, else (M,)
        With ``probability=True``: probabilities are the sigmoid or softmax of slope · decision value + intercept.
    """

    _: KW_ONLY
    probability: bool = False

    _state = attributes(
        calibration_slope_=Maybe(reals("scores", least=0.0)),
        calibration_intercept_=Maybe(reals("scores")),
    )

    def _learn_probabilities(self: Any, run: Run, data: TrainingData) -> None:
        """Learn probabilities from decision values of samples left out, as far as time allows."""
        # probabilities are those of the samples as they are: class_weight moves decisions only
        weight = data.sample_weight if data.given_weight is None else data.given_weight
        decisions = self._held_out_decisions(run, data, np.flatnonzero(data.sample_weight > 0.0))
        if decisions is not None:
            self.calibration_slope_, self.calibration_intercept_ = self._fit_calibration(data, decisions, weight)

    def _held_out_decisions(self: Any, run: Run, data: TrainingData, used: NDArray[np.intp]) -> Array | None:
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

    def _calibration_folds(self: Any, labels: NDArray) -> list[tuple[NDArray, NDArray]]:
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

    def _decisions_of(self: Any, data: TrainingData, train: NDArray, test: NDArray) -> Array:
        """Fit to some of the samples, and decide about others."""
        own = {name: getattr(data, name)[train] for name in ("labels", "targets", "sample_weight")}
        part = replace(data, stack=data.stack.take(train, train), given_weight=None, **own)
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

    def _fit_calibration(self: Any, data: TrainingData, decisions: Array, weight: Array) -> tuple[Array, Array]:
        known = np.isfinite(decisions if decisions.ndim == 1 else decisions[:, 0])
        codes = np.searchsorted(self.classes_, data.labels)
        slope, intercept = fit_calibration(decisions[known], codes[known], weight[known])
        n_scores = 1 if decisions.ndim == 1 else decisions.shape[1]
        return np.full(n_scores, slope), np.full(n_scores, intercept)

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

    def _logits(self: Any, X: Any) -> Array:
        check_is_fitted(self)
        return self.calibration_slope_ * self.decision_function(X) + self.calibration_intercept_
