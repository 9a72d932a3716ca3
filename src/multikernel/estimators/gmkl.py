"""Generalised multiple kernel learning: sums, products and other smooth combinations, with any smooth penalty."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from multikernel.estimators.base import C_GRID, KernelMachine, TaskWeightsClassifier, TrainingData, per_problem
from multikernel.estimators.parameters import Restartable, estimator
from multikernel.estimators.registry import register
from multikernel.gram import GramStack, combined_scores, parse_memory
from multikernel.io.state import attributes
from multikernel.kernels import RBF, Kernel, default_kernels
from multikernel.problems.gmkl import AtParameters, GeneralizedProblem, as_rule, prepared
from multikernel.problems.regularizers import as_regularizer
from multikernel.runtime.monitor import Result
from multikernel.runtime.run import Run, Solver
from multikernel.solvers.gmkl import solve_gmkl


@register("gmkl", title="Generalised MKL", grid={"C": C_GRID}, order=60)
@estimator
class GMKLClassifier(Restartable, TaskWeightsClassifier):
    """SVM on a kernel with learnt parameters: a weighted sum, a product of powers, or a combination of your own.

    It minimises over parameters d >= 0

        T(d) = J(K(d)) + reg r(d),    J(K) = max over alpha of Σ_i |alpha_i| − ½ alpha' K alpha,

    J the optimum of the C-SVM [VB09], by spectral projected gradient [JVV12].

    - ``combination="sum"``: K(d) = Σ_k d_k K_k. T is convex, and the duality gap proves how good the solution is.
      The penalty plays the part of the constraint of ℓp-norm MKL: with ρ = ‖d‖_p at the solution, d/ρ solves ℓp-norm
      MKL on the kernels ρ K_k, p = 1 for "l1" and p = 2 for "l2".
    - ``combination="product"``: K(d) = Π_k K_k^{d_k}. With one RBF kernel per feature (the default) these are the
      widths of the features, exp(−Σ_k d_k (x_k − z_k)² / bandwidth_k), and with ``regularizer="l1"`` features that
      do not matter get d_k = 0. T is not convex: the solution is stationary, which ``stationarity_`` measures;
      it may be a local minimum, ``dual_gap_`` is nan, and ``converged_`` stays false.

    Parameters
    ----------
    kernels : list of kernels, "precomputed", or None
        The kernels to combine. ``None``: for a product, one RBF kernel for each column, bandwidth the mean distance;
        otherwise linear and RBF kernels on all columns; the kernels are scaled to unit variance, the columns are not.
        "precomputed": X holds the kernels, shape (n, n, F), or is a Gram stack.
    combination : {"sum", "product"} or object
        K(d). An object has ``combine(stack, d)``, the kernel, and ``gradient(stack, d, alpha)``, its derivative
        between alpha; see :class:`~multikernel.problems.gmkl.KernelRule`.
    regularizer : {"l1", "l2", "entropy"} or object
        r(d): Σ d_k, ½ Σ d_k², Σ d_k log d_k, or an object with ``value(d)`` and ``gradient(d)``; see
        :class:`~multikernel.problems.regularizers.Regularizer`.
    reg : float
        Weight of the penalty, positive. The larger, the smaller the parameters.
    psd : {"raise", "clip", "ignore"}
        What to do about a kernel that is not positive semi-definite. With "raise", a combination that is not, at the
        start or at the solution, is an error too.
    tol : float
        Where to stop: the relative duality gap, or without a dual bound the stationarity.
    checkpoint : path, optional
        File that keeps the state of a long fit, so that it can resume after being killed. Objects of your own need a
        ``repr`` that does not change from process to process.

    Attributes
    ----------
    weights_ : ndarray of shape (F,), or (T, F) with ``weights="per-class"`` and T binary tasks
        The parameters d.
    objective_, dual_gap_ : float, or ndarray of shape (T,)
        T(d) at the solution, and its absolute duality gap: nan where there is no dual bound.
    stationarity_ : float, or ndarray of shape (T,)
        Largest entry of the projected gradient, in units of the largest parameter and of J, or the relative duality
        gap of the SVM if that is larger.

    Examples
    --------
    >>> import numpy as np
    >>> from multikernel import GMKLClassifier
    >>> X = np.random.default_rng(0).normal(size=(300, 4))
    >>> y = X[:, 0] ** 2 + X[:, 1] ** 2 > 1.4
    >>> model = GMKLClassifier(combination="product", reg=30.0).fit(X, y)
    >>> model.weights_[2:]
    array([0., 0.])
    >>> model.score(X, y) > 0.95
    True
    """

    combination: Any = "sum"
    regularizer: Any = "l1"
    reg: float = 1.0
    C: float = 1.0

    _passes = 90
    _state = attributes("stationarity_")

    def _check_parameters(self) -> None:
        super()._check_parameters()
        as_rule(self.combination)
        as_regularizer(self.regularizer)
        self._require("reg", self.reg > 0, "must be a positive number: without a penalty the weights are unbounded.")

    def _combines_by(self, name: str) -> bool:
        return isinstance(self.combination, str) and self.combination == name

    def _default_kernels(self, n_samples: int, n_features: int) -> list[Kernel]:
        if self._combines_by("product"):  # of RBF kernels, whatever the number of samples: of features it is none
            return [RBF(columns=[k]) for k in range(n_features)]
        return default_kernels(n_samples)

    def _default_normalization(self) -> str | None:
        return None if self._combines_by("product") else "variance"

    def _problems(self, data: TrainingData, run: Run) -> Sequence[GeneralizedProblem]:
        rule, penalty = as_rule(self.combination), as_regularizer(self.regularizer)
        stack, memory = prepared(rule, data.stack), parse_memory(self.memory)
        problems = [GeneralizedProblem(stack, svm, rule, penalty, self.reg, memory) for svm in self._svms(data)]
        if self.psd == "raise":
            problems[0].check_definite(problems[0].start()[0])
        return problems

    def _solver(self) -> Solver:
        return partial(solve_gmkl, max_iter=self.max_iter, check=self.psd == "raise")

    def _store(self, data: TrainingData, problems: Sequence[Any], results: list[Result]) -> None:
        super()._store(data, problems, results)
        self.stationarity_ = per_problem([result.certificate.stationarity for result in results])

    def _task_scores(self, X: Any) -> NDArray[np.float64]:
        check_is_fitted(self)
        rule = as_rule(self.combination)
        stack, coefficients = prepared(rule, self._test_stack(X)), self.dual_coef_.T
        if self.weights_.ndim == 1:
            return combined_scores(stack, AtParameters(rule, self.weights_), coefficients) + self.intercept_
        columns = [
            combined_scores(stack, AtParameters(rule, d), np.ascontiguousarray(alpha))
            for d, alpha in zip(self.weights_, self.dual_coef_)
        ]
        return np.column_stack(columns) + self.intercept_

    def _combined(self, stack: GramStack) -> NDArray[np.floating]:
        rule = as_rule(self.combination)
        return AtParameters(rule, self.weights_).combine(prepared(rule, stack))

    kernel_contributions = available_if(lambda self: self._combines_by("sum"))(KernelMachine.kernel_contributions)
