"""Multiple kernel Fisher discriminant analysis [YMBCK10]."""

from __future__ import annotations

from multikernel.estimators.fisher_base import FisherClassifier
from multikernel.estimators.parameters import Restartable, estimator
from multikernel.estimators.registry import register

REG_GRID = (1e-6, 1e-4, 1e-2, 1.0)


@register("mkfda", title="MK-FDA, p = 1", grid={"reg": REG_GRID}, order=20)
@register("mkfda-p2", title="MK-FDA, p = 2", params={"p": 2.0}, grid={"reg": REG_GRID}, order=21)
@estimator
class MKFDAClassifier(Restartable, FisherClassifier):
    """ℓp-norm multiple kernel Fisher discriminant analysis.

    The kernel weights β and the discriminants solve [YMBCK10, eq. (15)]

        max over {β ≥ 0, ‖β‖_p ≤ 1}  min over a_1 … a_c of  Σ_k  ¼ a_k'(I + Σ_j β_j K_j / λ) a_k − a_k'h_k,

    with H = (h_1 … h_c) the centred labels: one column for two classes, else one a class. For given weights that is a
    regularised discriminant analysis, which the weights make as good as they can. New samples are projected on the
    discriminants and go to the class with the nearest centroid.

    The minimum over a is minus that of ``Σ_k ‖Φw_k − h_k‖² + λ‖w_k‖²``. With weights s of samples a square counts
    s_i times, and so does a sample in means, traces, class sizes and centroids: whole weights are repeated samples,
    with the bandwidths of the samples as they are.

    Parameters
    ----------
    p : float
        Norm of the weights, at least 1: 1 gives sparse weights, from 1e6 on all weights are 1.
    reg : float
        Regularisation λ. With kernels of unit trace values from 1e-8 to 10 are worth trying.
    warm_start : bool
        Whether to start from the weights of the previous fit.

    See Also
    --------
    MKFDAClassifierCV : p and λ chosen by validation or leave-one-out error.

    Notes
    -----
    For several labels a sample wrap it in ``sklearn.multiclass.OneVsRestClassifier``, which solves one binary problem
    a label; with precomputed kernels as well.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from multikernel import MKFDAClassifier
    >>> from multikernel.kernels import RBF
    >>> X, y = load_iris(return_X_y=True)
    >>> kernels = [RBF(columns=[0, 1], name="sepals"), RBF(columns=[2, 3], name="petals")]
    >>> model = MKFDAClassifier(kernels, p=1.0, reg=1e-2).fit(X, y)
    >>> model.weights_.argmax()
    np.int64(1)
    >>> model.transform(X).shape
    (150, 3)
    >>> model.dual_gap_ <= 1e-4 * abs(model.objective_)
    True
    """

    p: float = 1.0
    reg: float = 1e-3
    solver: str = "auto"

    def _setting(self) -> tuple[float, float]:
        return float(self.p), float(self.reg)
