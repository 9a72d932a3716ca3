"""The baselines that every comparison must show: the average kernel and the product kernel."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.metaestimators import available_if

from multikernel.estimators.classifier import KernelSVMClassifier
from multikernel.estimators.registry import register
from multikernel.estimators.tasks import Tasks
from multikernel.gram import GramStack, parse_memory
from multikernel.gram.checks import check_matrix
from multikernel.gram.combination import (
    Combination,
    CombinedKernel,
    GeometricMean,
    NotApplicable,
    WeightedSum,
    one_kernel,
)
from multikernel.runtime.clock import OutOfTime
from multikernel.solvers.average import OneKernelProblem, single_svm
from multikernel.svm.binary import CSVM

PRODUCT_ADVICE = (
    "It is positive semi-definite for infinitely divisible kernels such as RBF, Laplacian and exponential χ²; "
    'for others it need not be. Use those, or how="mean".'
)
C_GRID = (0.1, 1.0, 10.0, 100.0)


class OneKernelClassifier(KernelSVMClassifier):
    """Base class of SVMs on one kernel that is chosen before they are fitted (``_choose``)."""

    @abstractmethod
    def _choose(self, stack: GramStack, tasks: Tasks, sample_weight: NDArray) -> NDArray[np.float64]:
        """Weights of the kernels, shape (F,)."""

    def _problems(self, stack: GramStack, tasks: Tasks, sample_weight: NDArray) -> Sequence[OneKernelProblem]:
        weights = self._choose(stack, tasks, sample_weight)
        combination = self._combination(weights)
        kernel: Any
        try:
            kernel = one_kernel(stack, combination, parse_memory(self.memory))
        except OutOfTime:
            kernel = CombinedKernel(stack, combination)  # which costs nothing until it is read
        if isinstance(combination, GeometricMean) and isinstance(kernel, np.ndarray):
            try:
                check_matrix(kernel, "the geometric mean of the kernels", "raise", PRODUCT_ADVICE)
            except ValueError as error:
                raise NotApplicable(str(error)) from None
        return [
            OneKernelProblem(kernel, CSVM(column, self.C, sample_weight=sample_weight), weights)
            for column in tasks.signs.T
        ]

    def _solve(self, problem: OneKernelProblem, monitor: Any, start: Any) -> None:
        single_svm(problem, monitor, start, max_iter=self.max_iter)


@register("product", title="Product kernel SVM", params={"how": "product"}, grid={"C": C_GRID}, order=2)
@register("average", title="Average kernel SVM", grid={"C": C_GRID}, order=1)
class KernelAverageClassifier(OneKernelClassifier):
    """SVM on the average, or on the geometric mean, of the kernels.

    Each binary task solves

        min over w, b of  ½‖w‖² + C Σ_i s_i max(0, 1 − y_i (w·φ(x_i) + b))

    where φ is the feature map of K = (1/F) Σ_j K_j (``how="mean"``) or K = (Π_j K_j)^(1/F) (``how="product"``).
    It learns no weights and is often hard to beat [GN09]: any MKL method should be compared with it.

    Parameters
    ----------
    kernels : list of kernels, "precomputed", or None
        What to combine. ``None``: linear and RBF kernels on all columns. The kernels are scaled to unit
        variance, the columns are not.
        "precomputed": X holds the kernels, shape (n, n, F), or is a Gram stack.
    how : {"mean", "product"}
        Arithmetic or geometric mean. The geometric mean needs kernels without negative entries.
    C : float
        Price of an error.
    multi_class : {"ovr", "ovo"}
        One task per class against the rest, or one per pair of classes.
    class_weight : dict, "balanced" or None
        Factor of C for each class.
    normalize : str, list, dict or None
        Normalisation of the kernels, fitted on training data: "center", "cosine", "trace", "variance", a chain of
        them, or one per kernel; see :class:`~multikernel.gram.Normalization`.
    psd : {"raise", "clip", "ignore"}
        What to do about a kernel that is not positive semi-definite. A geometric mean that is not is an error
        in any case.
    tol : float
        Relative duality gap at which each SVM stops.
    max_iter : int
        Largest number of bursts of each SVM.
    max_time : float, optional
        Seconds for the whole fit.
    memory : int or str, optional
        Budget for kernels, in bytes or as "2GB"; beyond it they are computed on the fly.
    random_state : int, optional
        Not used: the method is deterministic. It is here because all estimators have it.
    n_jobs : int, optional
        Threads over binary tasks.
    verbose : bool
        Show a progress bar.
    callback : callable, optional
        Called with each row of ``history_`` as it comes; a true value stops the fit.
    checkpoint : path, optional
        File that keeps the state of a long fit, to go on after a kill.
    warm_start : bool
        Start from the solution of the previous fit.

    Attributes
    ----------
    weights_ : ndarray of shape (F,)
        1/F for each kernel; for "product" the exponents.
    kernel_names_ : ndarray of shape (F,)
    n_kernels_ : int
        Kernels with a weight above 1e-8 of the largest.
    classes_ : ndarray of shape (M,)
    support_ : ndarray of shape (n_support,)
        Training samples with a coefficient in any task.
    dual_coef_ : ndarray of shape (T, n_support)
        Signed dual coefficients of the T tasks.
    intercept_ : ndarray of shape (T,)
    objective_, dual_gap_ : float, or ndarray of shape (T,)
        Optimum of each SVM, and the absolute duality gap that proves it.
    n_iter_ : int
    converged_ : bool
        Whether every task reached ``tol``.
    history_ : list of dict
        Rows with problem, iteration, time, objective, gap, relative_gap, weights.

    Notes
    -----
    For probabilities wrap the classifier in ``sklearn.calibration.CalibratedClassifierCV``; with precomputed kernels
    with ``ensemble=False``, since scikit-learn slices only rows there otherwise.

    Kernel parameters can be searched over as ``kernels__0__bandwidth``, or whole lists of kernels as ``kernels``.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from multikernel import KernelAverageClassifier
    >>> from multikernel.kernels import RBF
    >>> X, y = load_iris(return_X_y=True)
    >>> kernels = [RBF(columns=[0, 1], name="sepals"), RBF(columns=[2, 3], name="petals")]
    >>> model = KernelAverageClassifier(kernels, C=10.0).fit(X, y)
    >>> model.weights_
    array([0.5, 0.5])
    >>> bool((model.dual_gap_ <= 1e-3 * model.objective_).all())
    True
    """

    def __init__(
        self,
        kernels: Any = None,
        how: str = "mean",
        C: float = 1.0,
        *,
        multi_class: str = "ovr",
        class_weight: Any = None,
        normalize: Any = None,
        psd: str = "raise",
        tol: float = 1e-3,
        max_iter: int = 1000,
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
        self.how = how
        self.C = C
        self.multi_class = multi_class
        self.class_weight = class_weight
        self.normalize = normalize
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

    def _choose(self, stack: GramStack, tasks: Tasks, sample_weight: NDArray) -> NDArray[np.float64]:
        if self.how not in ("mean", "product"):
            raise ValueError(f'how={self.how!r} is not known: use "mean" or "product".')
        return np.full(stack.n_kernels, 1.0 / stack.n_kernels)

    def _combination(self, weights: NDArray) -> Combination:
        return GeometricMean() if self.how == "product" else WeightedSum(weights)

    @available_if(lambda self: self.how != "product")
    def kernel_contributions(self, X: Any) -> NDArray[np.float64]:
        return super().kernel_contributions(X)

    kernel_contributions.__doc__ = KernelSVMClassifier.kernel_contributions.__doc__
