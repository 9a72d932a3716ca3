"""Kernel weights by centred alignment with the labels, then one SVM [CMR12]."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from multikernel.estimators.average import OneKernelClassifier
from multikernel.estimators.base import C_GRID, TrainingData
from multikernel.estimators.parameters import estimator
from multikernel.estimators.registry import register
from multikernel.gram import NotApplicable
from multikernel.io.state import attributes, reals
from multikernel.runtime.run import Run
from multikernel.solvers.alignment import alignments, is_indefinite

METHODS = {"alignf": "joint", "align": "independent", "cka": "unconstrained"}


@register("alignf", title="ALIGNF", grid={"C": C_GRID}, order=12)
@estimator
class AlignmentMKLClassifier(OneKernelClassifier):
    """SVM on kernels weighted by their alignment with the labels [CMR12].

    The centred alignment of a kernel with the labels is ``ρ(K) = <Kᶜ, YY'> / (‖Kᶜ‖ ‖YY'ᶜ‖)`` in Frobenius products,
    with one column of Y for each class. Weights come from it without training:

    - ``"alignf"``: those with the largest ρ(Σ_j μ_j K_j) over μ ≥ 0, by the quadratic program
      ``min over v ≥ 0 of v'Mv − 2 v'a`` with M_jk = <K_jᶜ, K_kᶜ> and a_j = <K_jᶜ, YY'>;
    - ``"align"``: μ_j = ρ(K_j) / ‖K_jᶜ‖, each kernel by itself;
    - ``"cka"``: M⁻¹a, the largest ρ of all linear combinations. Weights may be negative, and where the combined
      kernel is then not positive semi-definite there is an error that says so.

    They are scaled so that their absolute values add up to one. All that is needed are F² inner products, one pass
    over the kernels.

    Parameters
    ----------
    method : {"alignf", "align", "cka"}

    Attributes
    ----------
    alignments_ : ndarray of shape (F,)
        Centred alignment of each kernel.
    alignment_ : float
        That of the weighted kernel.

    See Also
    --------
    EasyMKLClassifier : weights from the distance between classes.
    KernelAverageClassifier : equal weights.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from multikernel import AlignmentMKLClassifier
    >>> from multikernel.kernels import RBF
    >>> X, y = load_iris(return_X_y=True)
    >>> model = AlignmentMKLClassifier([RBF(columns=[0, 1]), RBF(columns=[2, 3])]).fit(X, y)
    >>> bool(model.weights_[1] > model.weights_[0]), bool(model.alignment_ >= model.alignments_.max())
    (True, True)
    """

    method: str = "alignf"
    C: float = 1.0

    _state = attributes("alignment_", alignments_=reals("kernels"))

    def _check_parameters(self) -> None:
        super()._check_parameters()
        self._check_choice("method", METHODS)

    def _choose(self, data: TrainingData, run: Run) -> NDArray[np.float64]:
        classes = self.classes_ == np.asarray(data.labels)[:, None]
        found = alignments(data.stack, classes.astype(np.float64), data.sample_weight)
        weights = getattr(found, METHODS[self.method])()
        total = np.abs(weights).sum()
        weights = weights / total if total > 0.0 else np.full(len(weights), 1.0 / len(weights))
        self.alignments_, self.alignment_ = found.of_kernels(), found.of_weights(weights)
        if weights.min() < 0.0 and is_indefinite(data.stack.combine(weights, dtype=np.float64)):
            raise NotApplicable(
                f"method={self.method!r} gives {np.count_nonzero(weights < 0.0)} kernels negative weights, and their "
                'sum is not positive semi-definite: use method="alignf", whose weights are not negative.'
            )
        return weights
