"""Novelty detection with ℓp-norm multiple kernel learning and a one-class SVM."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import _num_samples

from multikernel.estimators.base import TrainingData, finite
from multikernel.estimators.blocks import by_blocks
from multikernel.estimators.mkl import LpMachine
from multikernel.estimators.parameters import estimator
from multikernel.estimators.sklearn_bases import OutlierMixin
from multikernel.kernels import Kernel, default_kernels
from multikernel.svm import OneClassSVM


@estimator
class MKLOneClass(OutlierMixin, LpMachine):
    """ℓp-norm multiple kernel learning with a one-class SVM: what is unlike the training samples.

    The problem [RBCG08, sect. 4], with s the sample weights, is

        min over {g ≥ 0, ‖g‖_p ≤ 1} of  max over alpha of  −½ Σ_j g_j α'K_jα,   0 ≤ α_i ≤ s_i,  Σ α_i = ν Σ s_i,

    the optimum of ½‖w‖² + Σ_i s_i max(0, ρ − w·φ(x_i)) − ν ρ Σ s_i on the kernel Σ_j g_j K_j: w parts the samples,
    but for a share ν, from the origin, and weights make the margin as large as they can. It is convex, and
    ``dual_gap_`` proves how far ``objective_``, which is negative, can be from the best. With p = ∞ all weights are
    one: this is scikit-learn's ``OneClassSVM`` on the sum of the kernels.

    Weights are large for kernels in whose view the training samples are alike, and nothing else is known about
    them: give kernels on one scale (a diagonal of ones, as RBF kernels have and ``normalize="cosine"`` makes), of
    comparable widths, on different views. Of several widths on the same columns p = 1 takes the widest.

    Parameters
    ----------
    kernels : list of kernels, "precomputed", or None
        As for the other estimators, but ``None`` stands for RBF kernels of three widths on all columns.
    p : float
        Norm of the weights, from 1, which drops the views in which samples differ, to infinity, equal weights.
    nu : float
        Bound on the share of training samples that are outliers, and on the share of support vectors from below;
        above 0, at most 1.

    Attributes
    ----------
    dual_coef_ : ndarray of shape (1, n_support)
        α; decisions are Σ_j weights_j K_j(x, support) @ dual_coef_' + intercept_.
    intercept_ : ndarray of shape (1,)
        −ρ.
    objective_, dual_gap_ : float
        Optimum of the one-class SVM on the combined kernel, and its distance from the best lower bound proved.

    Examples
    --------
    >>> import numpy as np
    >>> from multikernel import MKLOneClass
    >>> from multikernel.kernels import RBF
    >>> X = np.random.default_rng(0).normal(size=(200, 4))
    >>> model = MKLOneClass([RBF(columns=[0, 1]), RBF(columns=[2, 3])], nu=0.1).fit(X)
    >>> model.predict([[0.0, 0.0, 0.0, 0.0], [0.0, 0.0, 4.0, 4.0]])
    array([ 1, -1])
    >>> bool((model.predict(X) == -1).mean() <= 0.1)
    True
    """

    p: float = 2.0
    nu: float = 0.5
    solver: str = "auto"

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None):
        """Fit the model; the class docstring has the objective.

        Parameters
        ----------
        X : array-like of shape (n, d), AnnData or MuData, or (n, n, F) or Gram stack with ``kernels="precomputed"``
            Training samples, or the kernels between them.
        y : object
            Not used: here because scikit-learn's conventions want it.
        sample_weight : array-like of shape (n,), optional
            Weight of each sample, a factor of its loss.

        Returns
        -------
        self : object
        """
        return super().fit(X, None, sample_weight)

    def _validate(self, X: Any, y: Any, sample_weight: Any) -> TrainingData:
        self._check_parameters()
        stack, labels = self._given_stack(X, np.ones(_num_samples(X)))
        weight = self._given_weights(sample_weight, stack)
        return TrainingData(self._normalized(stack), labels, labels[:, None], weight)

    def _default_kernels(self, n_samples: int, n_features: int) -> list[Kernel]:
        return default_kernels(n_samples)[1:]  # the first is linear: the origin is nowhere special for features

    def _default_normalization(self) -> None:
        return None

    def _svm(self, data: TrainingData) -> OneClassSVM:
        return OneClassSVM(data.sample_weight, self.nu)

    @property
    def offset_(self) -> float:
        """ρ, which ``decision_function`` takes from ``score_samples``."""
        return -float(self.intercept_[0])

    @by_blocks
    def decision_function(self, X: Any) -> NDArray[np.float64]:
        """How far inside the region of the training samples new ones are, shape (m,): negative for outliers.

        Parameters
        ----------
        X : array-like of shape (m, d), or (m, n, F) or rectangular Gram stack with ``kernels="precomputed"``
            New samples, or the kernels between them and all training samples.
        """
        return finite(self._task_scores(X))[:, 0]

    @by_blocks
    def score_samples(self, X: Any) -> NDArray[np.float64]:
        """w·φ(x), shape (m,): the larger, the more like the training samples; ``X`` as for ``decision_function``."""
        return self.decision_function(X) + self.offset_

    @by_blocks
    def predict(self, X: Any) -> NDArray[np.intp]:
        """1 for samples like those of training, −1 for outliers, shape (m,); ``X`` as for ``decision_function``."""
        return np.where(self.decision_function(X) < 0.0, -1, 1)
