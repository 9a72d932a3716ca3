"""The baselines that every comparison must show: the average kernel and the product kernel."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.metaestimators import available_if

from multikernel.estimators.base import C_GRID, BinaryTasksClassifier, KernelMachine, TrainingData
from multikernel.estimators.parameters import Restartable, estimator
from multikernel.estimators.registry import register
from multikernel.gram import (
    Combination,
    CombinedKernel,
    GeometricMean,
    NotApplicable,
    WeightedSum,
    one_kernel,
    parse_memory,
)
from multikernel.gram.checks import PRODUCT_ADVICE, check_matrix
from multikernel.kernels.docstrings import described
from multikernel.runtime.clock import OutOfTime
from multikernel.runtime.run import Run, Solver
from multikernel.solvers.average import OneKernelProblem, single_svm
from multikernel.svm.binary import CSVM


@described
class OneKernelClassifier(Restartable, BinaryTasksClassifier):
    """Base class of SVMs on one kernel that is chosen before they are fitted (``_choose``)."""

    C: float

    @abstractmethod
    def _choose(self, data: TrainingData, run: Run) -> NDArray[np.float64]:
        """Weights of the kernels, shape (F,)."""

    def _problems(self, data: TrainingData, run: Run) -> Sequence[OneKernelProblem]:
        weights = self._choose(data, run)
        combination = self._combination(weights)
        kernel: Any
        try:
            kernel = one_kernel(data.stack, combination, parse_memory(self.memory))
        except OutOfTime:
            kernel = CombinedKernel(data.stack, combination)  # which costs nothing until it is read
        if isinstance(combination, GeometricMean) and isinstance(kernel, np.ndarray):
            try:
                check_matrix(kernel, "the geometric mean of the kernels", "raise", PRODUCT_ADVICE)
            except ValueError as error:
                raise NotApplicable(str(error)) from None
        svms = [CSVM(column, self.C, sample_weight=data.sample_weight) for column in data.targets.T]
        return [OneKernelProblem(kernel, svm, weights) for svm in svms]

    def _solver(self) -> Solver:
        return partial(single_svm, max_iter=self.max_iter)


@register("product", title="Product kernel SVM", params={"how": "product"}, grid={"C": C_GRID}, order=2)
@register("average", title="Average kernel SVM", grid={"C": C_GRID}, order=1)
@estimator
class KernelAverageClassifier(OneKernelClassifier):
    """SVM on the average, or on the geometric mean, of the kernels.

    Each binary task solves

        min over w, b of  ½‖w‖² + C Σ_i s_i max(0, 1 − y_i (w·φ(x_i) + b))

    where φ is the feature map of K = (1/F) Σ_j K_j (``how="mean"``) or K = (Π_j K_j)^(1/F) (``how="product"``).
    It learns no weights and is often hard to beat [GN09]: any MKL method should be compared with it.

    Parameters
    ----------
    how : {"mean", "product"}
        Arithmetic or geometric mean. The geometric mean needs kernels without negative entries.
    psd : {"raise", "clip", "ignore"}
        What to do about a kernel that is not positive semi-definite. A geometric mean that is not is always an error.

    Attributes
    ----------
    weights_ : ndarray of shape (F,)
        1/F for each kernel; for "product" the exponents.

    Notes
    -----
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

    how: str = "mean"
    C: float = 1.0

    def _choose(self, data: TrainingData, run: Run) -> NDArray[np.float64]:
        self._check_choice("how", ("mean", "product"))
        return np.full(data.stack.n_kernels, 1.0 / data.stack.n_kernels)

    def _combination(self, weights: NDArray) -> Combination:
        return GeometricMean() if self.how == "product" else WeightedSum(weights)

    kernel_contributions = available_if(lambda self: self.how != "product")(KernelMachine.kernel_contributions)
