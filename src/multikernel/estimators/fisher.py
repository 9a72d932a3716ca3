"""Multiple kernel Fisher discriminant analysis [YMBCK10]."""

from __future__ import annotations

from typing import Any

from multikernel.estimators.fisher_base import NORMALIZE, FisherClassifier
from multikernel.estimators.registry import register

REG_GRID = (1e-6, 1e-4, 1e-2, 1.0)


@register("mkfda", title="MK-FDA, p = 1", grid={"reg": REG_GRID}, order=20)
@register("mkfda-p2", title="MK-FDA, p = 2", params={"p": 2.0}, grid={"reg": REG_GRID}, order=21)
class MKFDAClassifier(FisherClassifier):
    """ℓp-norm multiple kernel Fisher discriminant analysis.

    The kernel weights β and the discriminants solve [YMBCK10, eq. (15)]

        max over {β ≥ 0, ‖β‖_p ≤ 1}  min over a_1 … a_c of  Σ_k  ¼ a_k'(I + Σ_j β_j K_j / λ) a_k − a_k'h_k,

    with H = (h_1 … h_c) the centred labels: one column for two classes, else one a class. For given weights that is a
    regularised discriminant analysis, which the weights make as good as they can. New samples are projected on the
    discriminants and go to the class with the nearest centroid.

    The minimum over a is minus that of ``Σ_k ‖Φw_k − h_k‖² + λ‖w_k‖²``. With weights s of samples a square counts
    s_i times, and so does a sample in means, traces, class sizes and centroids: whole weights are repeated samples.

    Parameters
    ----------
    kernels : list of kernels, "precomputed", or None
        What to combine. ``None``: linear and RBF kernels on all columns. "precomputed": X holds the kernels, shape
        (n, n, F), or is a Gram stack.
    p : float
        Norm of the weights, at least 1: 1 gives sparse weights, from 1e6 on all weights are 1.
    reg : float
        Regularisation λ. With kernels of unit trace values from 1e-8 to 10 are worth trying.
    solver : {"auto", "newton", "sip", "sip-taylor", "closed-form"}
        All solve the same problem. "newton": quadratic models of the objective, which is what "auto" takes. "sip":
        the paper's semi-infinite program, by cutting planes, with a linear program for p = 1 and the exact norm as
        power cones for p > 1; "sip-taylor" expands the norm as the paper does. "closed-form": a linear system in turn
        with weights in closed form, fast for large p, slow towards p = 1.
    normalize : str, sequence, dict or None
        Normalisation of the kernels, fitted on training data. By default they are centred in feature space and scaled
        to unit trace, as the paper wants them; see :class:`~multikernel.gram.Normalization`.
    class_weight : dict, "balanced" or None
        Weights of the classes, factors of ``sample_weight``.
    psd : {"raise", "clip", "ignore"}
        What to do about a kernel that is not positive semi-definite.
    tol : float
        Relative duality gap at which to stop.
    max_iter : int
        Largest number of iterations of the solver.
    max_time : float, optional
        Seconds for the whole fit.
    memory : int or str, optional
        Budget for kernels, in bytes or as "2GB". Kernels with explicit features (linear, ``Nystroem``,
        ``RandomFourier``) are solved in the space of the features when that is smaller than n.
    random_state : int, optional
        Not used: the method is deterministic. It is here because all estimators have it.
    n_jobs : int, optional
        Not used: one problem holds all classes, and its linear algebra takes the cores that BLAS is given.
    verbose : bool
        Show a progress bar.
    callback : callable, optional
        Called with each row of ``history_`` as it comes; a true value stops the fit.
    checkpoint : path, optional
        File that keeps the state of a long fit, to go on after a kill.
    warm_start : bool
        Start from the weights of the previous fit.

    Attributes
    ----------
    weights_ : ndarray of shape (F,)
        Kernel weights β.
    kernel_names_ : ndarray of shape (F,)
    n_kernels_ : int
        Kernels with a weight above 1e-8 of the largest.
    classes_ : ndarray of shape (M,)
    dual_coef_ : ndarray of shape (c, n_support)
        Coefficients of the discriminants, ``(K + λI)⁻¹H`` transposed: those of the paper divided by 2λ. With weights
        of samples, S = diag(s): ``(SK + λI)⁻¹SH``.
    support_ : ndarray of shape (n_support,)
        Training samples with a coefficient: all of them, as a rule.
    centroids_ : ndarray of shape (M, c)
        Means of the classes in the discriminant space.
    intercept_ : ndarray of shape (1,) or (M,)
        What ``decision_function`` adds to inner products with centroids, or to the projection for two classes.
    objective_, dual_gap_ : float
        Min over a of the objective above at ``weights_``, which is negative, and how far it can be from the maximum.
    n_iter_ : int
    converged_ : bool
        Whether ``tol`` was reached.
    history_ : list of dict
        Rows with iteration, time, objective, gap, relative_gap, weights.

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

    def __init__(
        self,
        kernels: Any = None,
        p: float = 1.0,
        reg: float = 1e-3,
        solver: str = "auto",
        *,
        normalize: Any = NORMALIZE,
        class_weight: Any = None,
        psd: str = "raise",
        tol: float = 1e-4,
        max_iter: int = 500,
        max_time: float | None = None,
        memory: Any = None,
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: Any = False,
        callback: Any = None,
        checkpoint: Any = None,
        warm_start: bool = False,
    ):
        self.kernels = kernels
        self.p = p
        self.reg = reg
        self.solver = solver
        self.normalize = normalize
        self.class_weight = class_weight
        self.psd = psd
        self.tol = tol
        self.max_iter = max_iter
        self.max_time = max_time
        self.memory = memory
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.callback = callback
        self.checkpoint = checkpoint
        self.warm_start = warm_start

    def _setting(self) -> tuple[float, float]:
        return float(self.p), float(self.reg)
