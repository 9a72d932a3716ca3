"""CG-Boost: a sum of SVM-like expansions in the columns of all kernels [BZB04]."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np
from numpy.typing import NDArray

from multikernel.estimators.base import TrainingData, count_kernels, intercept_of
from multikernel.estimators.lpbeta import ExpansionClassifier
from multikernel.estimators.parameters import estimator
from multikernel.estimators.registry import register
from multikernel.gram import parse_memory
from multikernel.gram.base import format_bytes
from multikernel.problems.cgboost import ColumnProblem
from multikernel.runtime.monitor import Result
from multikernel.runtime.run import Run, Solver
from multikernel.solvers.cgboost import cg_boost
from multikernel.svm.labels import LabelSVMs

C_GRID = (1e-3, 1e-2, 0.1, 1.0, 10.0)


@register("cg-boost", title="CG-Boost", grid={"C": C_GRID}, order=42)
@estimator
class CGBoostClassifier(ExpansionClassifier):
    """A mixture of kernels by column generation: CG-Boost [BZB04], as compared in [GN09].

    The decision function is Σ_j K_j(x) a_j + b with coefficients of their own for each kernel. Each binary task (one
    for two classes, else a class against the rest) solves

        min over a, b of  ½ Σ_j ‖a_j‖² + C Σ_i s_i max(0, 1 − y_i (Σ_j K_j(x_i) a_j + b)).

    The coefficients themselves are kept small, not the functions' norms a_j'K_j a_j as in an SVM: every column
    K_j(·, x_i) is a feature. Kernels join the problem by how much they violate its optimality conditions; those that
    cannot change the optimum by more than ``tol`` never do. A kernel twice as large counts four times as much, so
    kernels of different origin should be normalised.

    Parameters
    ----------
    C : float
        Price of an error. Every kernel has a feature per sample, so values smaller than for an SVM are worth trying.
    psd : {"raise", "clip", "ignore"}
        What to do about a kernel that is not positive semi-definite. The problem is convex with any symmetric
        kernel, so "ignore" is safe here.
    memory : int or str, optional
        Memory budget for kernels, in bytes or as "2GB". The master problem itself needs one matrix of shape (n, n).

    Attributes
    ----------
    weights_ : ndarray of shape (F,)
        Share of each kernel in the norms of the coefficients, ‖a_j‖ / Σ_l ‖a_l‖ over all tasks. They describe the
        solution; ``dual_coef_`` has all there is to it.
    dual_coef_ : ndarray of shape (F, T, n_support)
        a_j of the T tasks. The decision function is Σ_j K_j(x, support) @ dual_coef_[j].T + intercept_.
    objective_, dual_gap_ : float
        Sum over the tasks of the objective above, and the absolute duality gap that bounds its distance from the
        optimum with all kernels: tasks share the kernels that have joined, so they are judged together.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from multikernel import CGBoostClassifier
    >>> from multikernel.kernels import RBF
    >>> X, y = load_iris(return_X_y=True)
    >>> kernels = [RBF(columns=[0, 1], name="sepals"), RBF(columns=[2, 3], name="petals")]
    >>> model = CGBoostClassifier(kernels, C=0.1).fit(X, y)
    >>> model.dual_coef_.shape
    (2, 3, 150)
    >>> model.dual_gap_ <= 1e-3 * model.objective_
    True
    """

    C: float = 1.0

    def _problems(self, data: TrainingData, run: Run) -> Sequence[ColumnProblem]:
        n, budget = len(data.stack), parse_memory(self.memory)
        needed = 8 * n**2
        if needed > budget:
            raise ValueError(
                f"CGBoostClassifier needs a matrix of {n} × {n} numbers, {format_bytes(needed)}, "
                f"above memory={self.memory!r} ({format_bytes(budget)}). Use fewer samples or raise memory."
            )
        return [ColumnProblem(data.stack, LabelSVMs(data.targets, self.C, sample_weight=data.sample_weight))]

    def _solver(self) -> Solver:
        return partial(cg_boost, max_iter=self.max_iter)

    def _store(self, data: TrainingData, problems: Sequence[ColumnProblem], results: list[Result]) -> None:
        problem, result = problems[0], results[0]
        coefficients = result.weights[:, None, None] * problem.columns(result.alpha)
        self._store_expansions(data, result, coefficients, intercept_of(result))
        norms = np.sqrt(np.einsum("fnt,fnt->f", coefficients, coefficients))
        total = norms.sum()
        self.weights_ = norms / total if total > 0.0 else np.full(len(norms), 1.0 / len(norms))
        self.n_kernels_ = count_kernels(self.weights_)

    def _factors(self) -> NDArray[np.float64]:
        return np.ones(self.dual_coef_.shape[:2])
