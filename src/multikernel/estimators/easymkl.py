"""EasyMKL: kernel weights in closed form from one quadratic program on the sum of the kernels [AD15]."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY
from functools import partial

import numpy as np

from multikernel.estimators.base import BinaryTasksClassifier, TrainingData
from multikernel.estimators.parameters import Resumable, estimator
from multikernel.estimators.registry import register
from multikernel.gram import WeightedSum, one_kernel, parse_memory
from multikernel.runtime.monitor import Result
from multikernel.runtime.run import Run, Solver
from multikernel.solvers.average import single_svm
from multikernel.solvers.easymkl import HullProblem, final_machine, ridged


@register("easymkl", title="EasyMKL", grid={"lam": (0.01, 0.1, 0.5, 0.9)}, order=13)
@estimator
class EasyMKLClassifier(Resumable, BinaryTasksClassifier):
    """EasyMKL: each kernel counts as much as it keeps the classes apart [AD15].

    Each binary task solves

        min over γ ≥ 0, Σ_{y=+1} γ_i = Σ_{y=−1} γ_i = 1, of  (1 − λ) γ'Y (Σ_j K_j) Yγ + λ Σ_i γ_i² / s_i

    with sample weights s: the squared distance between the hulls of the classes on the sum of all kernels. The kernel
    weights are what each kernel adds to it, γ'Y K_j Yγ, scaled to sum to one. The decision function is that of the
    same program on the weighted kernel, which puts the boundary midway between the nearest points of the hulls; there
    λ is in units of n₊n₋ / (n₊ + n₋), so that it is the ridge at equal γ.

    There is one program whatever the number of kernels, and kernels are read three times: for thousands of them this
    is the cheapest way to weights, which are never exactly zero. Kernels should be on one scale
    (``normalize="variance"``, say); on precomputed kernels nothing is normalised unless asked.

    Parameters
    ----------
    lam : float
        λ from 0, the nearest points of the hulls themselves, to 1, the means of the classes.

    Attributes
    ----------
    weights_ : ndarray of shape (F,), or (T, F) for T > 1 tasks
        Kernel weights, which sum to one in each task.
    dual_coef_ : ndarray of shape (T, n_support)
        Yγ of the program on the weighted kernel.
    objective_, dual_gap_ : float, or ndarray of shape (T,)
        Value of the program on the sum of the kernels, and how far it can be from the least.
    converged_ : bool
        Whether both programs of every task reached ``tol``.

    See Also
    --------
    MKLClassifier : weights that minimise the SVM's objective.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from multikernel import EasyMKLClassifier
    >>> from multikernel.kernels import RBF
    >>> X, y = load_iris(return_X_y=True)
    >>> model = EasyMKLClassifier([RBF(columns=[0, 1]), RBF(columns=[2, 3])]).fit(X, y)
    >>> bool((model.weights_[:, 1] > 0.5).all()), model.score(X, y) > 0.9
    (True, True)
    """

    lam: float = 0.1
    _: KW_ONLY
    tol: float = 1e-4

    _own_weights = True

    def _check_parameters(self) -> None:
        super()._check_parameters()
        self._require("lam", 0.0 <= self.lam <= 1.0, "must be from 0 to 1: it is the share of the ridge.")

    def _problems(self, data: TrainingData, run: Run) -> Sequence[HullProblem]:
        used = data.sample_weight > 0.0
        everything = WeightedSum(np.ones(data.stack.n_kernels))
        ridge = self.lam / np.where(used, data.sample_weight, 1.0)
        kernel = ridged(one_kernel(data.stack, everything, parse_memory(self.memory)), self.lam, ridge)
        return [HullProblem(data.stack, kernel, np.where(used, signs, 0.0)) for signs in data.targets.T]

    def _solver(self) -> Solver:
        return partial(single_svm, max_iter=self.max_iter)

    def _store(self, data: TrainingData, problems: Sequence[HullProblem], results: list[Result]) -> None:
        finish = partial(final_machine, lam=self.lam, sample_weight=data.sample_weight, tol=self.tol)
        memory = parse_memory(self.memory)
        results = [finish(problem, result, memory=memory) for problem, result in zip(problems, results)]
        super()._store(data, problems, results)
