"""LP-β and LP-B: SVMs of single kernels, weighted by a linear program on their held-out margins [GN09]."""

from __future__ import annotations

import copy
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import KW_ONLY, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from multikernel.estimators.base import KernelClassifier, TrainingData, count_kernels
from multikernel.estimators.parameters import estimator
from multikernel.estimators.registry import register
from multikernel.gram import GramStack, parse_memory
from multikernel.gram.base import times
from multikernel.io.state import attributes, flags, positions, reals
from multikernel.problems.lpbeta import MarginProblem
from multikernel.runtime.monitor import Result
from multikernel.runtime.run import Run, Solver
from multikernel.runtime.warnings import warn_user
from multikernel.solvers.lpbeta import lp_beta
from multikernel.svm.held_out import KernelMachines, held_out_folds, price_grids

Array = NDArray[np.float64]

C_GRID = (0.1, 1.0, 10.0, 100.0, 1000.0)
NU_GRID = (0.05, 0.2, 0.5, 0.8)


class HeldOutProblem(MarginProblem):
    """The margin program on the held-out scores of trained SVMs."""

    machines: KernelMachines


class ExpansionClassifier(KernelClassifier):
    """Base class: scores Σ_j v_jt K_j alpha_jt + b_t, with coefficients for each kernel j and task t.

    A subclass says what v is (``_factors``).
    """

    _state = attributes(dual_coef_=reals("kernels", "tasks", "support"))

    def _has_one_kernel(self) -> bool:
        raise AttributeError("there is no one kernel: each has coefficients of its own, in dual_coef_.")

    @abstractmethod
    def _factors(self) -> Array:
        """v, shape (F, T)."""

    def _store_expansions(self, data: TrainingData, result: Result, alpha: Array, intercept: Array) -> None:
        """Fitted attributes of one result, with ``alpha`` (F, n, T) in place of its own."""
        n_kernels, n_samples, n_tasks = alpha.shape
        flat = np.moveaxis(alpha, 1, 0).reshape(n_samples, n_kernels * n_tasks)
        super()._store(data, [], [replace(result, alpha=flat, intercept=intercept)])
        self.dual_coef_ = self.dual_coef_.reshape(n_kernels, n_tasks, -1)

    def _parts(self, stack: GramStack, used: NDArray[np.intp]) -> Array:
        """K_j alpha_jt of the kernels ``used``, shape (m, len(used), T)."""
        coefficients = self.dual_coef_[used]
        parts = np.empty((len(stack), len(used), coefficients.shape[1]))
        if not len(used):
            return parts
        for rows, block in stack.take(kernels=used).blocks():
            for k, alpha in enumerate(coefficients):
                parts[rows, k] = times(block[k : k + 1], alpha.T)[0]
        return parts

    def _task_scores(self, X: Any) -> Array:
        check_is_fitted(self)
        stack, factors = self._test_stack(X), self._factors()
        used = np.flatnonzero(factors.any(axis=1))
        return np.einsum("mft,ft->mt", self._parts(stack, used), factors[used]) + self.intercept_

    def _contributions(self, X: Any) -> Array:
        check_is_fitted(self)
        stack = self._test_stack(X)
        return self._factors() * self._parts(stack, np.arange(stack.n_kernels))


@register("lp-beta", title="LP-β", params={"C": "cv"}, grid={"nu": NU_GRID}, order=40)
@register("lp-b", title="LP-B", params={"C": "cv", "shared": False}, grid={"nu": NU_GRID}, order=41)
@estimator
class LPBetaClassifier(ExpansionClassifier):
    """One SVM for each kernel, and weights that give their sum the largest soft margin: LP-β and LP-B [GN09].

    Kernel j has one SVM per class, against the rest, with scores f_jr. On scores of samples that the SVM in question
    was not trained on, the weights solve

        min over β, ρ, ξ ≥ 0 of  −ρ + (1/νS) Σ_i s_i ξ_i
        subject to  Σ_j β_j (f_{j y_i}(x_i) − f_jr(x_i)) ≥ ρ − ξ_i   for all i and r ≠ y_i,   β in the simplex,

    with sample weights s and S = Σ_i s_i. That is LP-β; LP-B (``shared=False``) has weights for each class, each in
    the simplex. For two classes both are the same, with margins y_i Σ_j β_j f_j(x_i). The decision function is
    Σ_j β_j f_jr with the SVMs trained on all samples.

    Classifiers are combined here, not kernels: the SVMs do not know of each other, and any number of kernels costs
    as many times one.

    Parameters
    ----------
    nu : float
        ν in (0, 1]: bound on the share of samples with a margin below ρ. Small values look at the worst samples, 1 at
        the mean of all.
    C : float, array-like of shape (F,), or "cv"
        Price of an error of the SVMs: one for all, one for each kernel, or for each kernel the value of ``Cs`` with
        the best accuracy on held-out samples.
    shared : bool
        Whether all classes share the weights (LP-β), or each has its own (LP-B).
    Cs : array-like of float
        Values for ``C="cv"``. Each starts from the solution of the one before.
    cv : int, splitter or iterable
        Folds that the held-out scores come from, as in scikit-learn. Every sample must be held out at least once.
    svm_tol : float
        Relative duality gap at which each SVM stops.
    tol : float
        Relative duality gap at which the linear program stops.
    max_iter : int
        Maximum number of linear programs: each adds margins that the one before violated.

    Attributes
    ----------
    weights_ : ndarray of shape (F,), or (T, F) with ``shared=False``
        β, in the simplex; with ``shared=False`` one row per class, a single row for two classes.
    margin_ : float
        ρ.
    C_ : ndarray of shape (F,)
        Price of an error of each kernel's SVMs.
    oof_scores_ : ndarray of shape (n, F, T)
        Held-out scores of the training samples: T = 1 for two classes, else M. ``reweighted`` makes use of them.
    dual_coef_ : ndarray of shape (F, T, n_support)
        Signed dual coefficients of each kernel's SVMs.
    kernel_intercepts_ : ndarray of shape (F, T)
        Biases of each kernel's SVMs.
    objective_, dual_gap_ : float
        Value of the linear program at ``weights_``, and the absolute duality gap that bounds its distance from the
        optimum. They say nothing of the SVMs, whose gaps are ``svm_gap_``.
    svm_gap_ : float
        Largest relative duality gap of the SVMs.
    converged_ : bool
        Whether the linear program reached ``tol``, with all kernels.

    Notes
    -----
    Bandwidths and normalisation are fitted on all training samples, and ``C="cv"`` picks the best of a few values on
    the held-out scores that the weights are then learnt from.

    A kernel that says the same of all samples has margins of zero. Where no kernel has a positive soft margin at this
    ν that is the optimum, 0, and such a kernel takes all the weight: an ``objective_`` of 0 says so, and a larger ν
    helps.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from multikernel import LPBetaClassifier, kernels
    >>> views = kernels.kernel_grid({"sepals": [0, 1], "petals": [2, 3]}, bandwidths=["mean"])
    >>> X, y = load_iris(return_X_y=True)
    >>> model = LPBetaClassifier(views, nu=0.2, C=10.0).fit(X, y)
    >>> model.kernel_names_[model.weights_.argmax()]
    'rbf(mean) on petals'
    >>> model.dual_gap_ <= 1e-6 * abs(model.objective_)
    True
    >>> other = model.reweighted(nu=0.8)  # no SVM is trained for this
    """

    nu: float = 0.5
    C: Any = 1.0
    _: KW_ONLY
    shared: bool = True
    Cs: Any = C_GRID
    cv: Any = 5
    svm_tol: float = 1e-3
    tol: float = 1e-6
    max_iter: int = 100

    _more_than_numbers = ("C",)

    _state = attributes(
        *("C_", "svm_gap_", "margin_"),
        kernel_intercepts_=reals("kernels", "tasks"),
        oof_scores_=reals("samples", "kernels", "tasks"),
        _codes=positions("samples", below="classes"),
        _sample_weight=reals("samples", least=0.0),
        _done=flags("kernels"),
    )

    def _check_parameters(self) -> None:
        super()._check_parameters()
        self._require(
            "nu", 0.0 < self.nu <= 1.0, "must be above 0 and at most 1: it bounds the share of margin errors."
        )
        self._require("svm_tol", self.svm_tol > 0, "must be positive: it is a relative duality gap, such as 1e-3.")

    def _problems(self, data: TrainingData, run: Run) -> Sequence[HeldOutProblem]:
        machines = KernelMachines(
            data.stack,
            data.targets,
            held_out_folds(self.cv, data.labels),
            price_grids(self.C, self.Cs, data.stack.n_kernels),
            sample_weight=data.sample_weight,
            memory=parse_memory(self.memory),
            tol=self.svm_tol,
        )
        advice = "The others get no weight. Allow more time, or use fewer kernels, folds or values of C."
        with run.search(data.stack.n_kernels, "kernel", advice) as search:
            machines.train(search.advance)
        if machines.gap > self.svm_tol:
            warn_user(
                f"An SVM of a single kernel stopped at a relative duality gap of {machines.gap:.1e}, above "
                f"svm_tol={self.svm_tol:.1e}. Raise svm_tol, lower C, or scale the kernels with normalize=.",
                ConvergenceWarning,
            )
        self._codes, self._sample_weight = np.searchsorted(self.classes_, data.labels), data.sample_weight
        problem = self._margin_problem(machines.held_out[machines.done])
        problem.machines = machines
        return [problem]

    def _margin_problem(self, scores: NDArray) -> HeldOutProblem:
        """The linear program on scores (F, n, T)."""
        if len(self.classes_) == 2:  # one score: half of it for one class, half against the other
            scores = np.concatenate([-0.5 * scores, 0.5 * scores], axis=2)
        shared = bool(self.shared) or len(self.classes_) == 2
        return HeldOutProblem(scores, self._codes, self.nu, sample_weight=self._sample_weight, shared=shared)

    def _solver(self) -> Solver:
        return partial(lp_beta, max_iter=self.max_iter)

    def _store(self, data: TrainingData, problems: Sequence[HeldOutProblem], results: list[Result]) -> None:
        machines = problems[0].machines
        self.C_, self.svm_gap_ = machines.C, machines.gap
        self.oof_scores_ = np.ascontiguousarray(np.moveaxis(machines.held_out, 0, 1))
        self.kernel_intercepts_ = machines.intercepts
        self._done = machines.done
        result = _with_all_kernels(results[0], machines.done)
        self._store_expansions(data, result, machines.alpha, np.zeros(machines.intercepts.shape[1]))
        self._use(result, problems[0].margin(results[0].weights))

    def _use(self, result: Result, margin: float) -> None:
        """Attributes that follow from a solution of the linear program."""
        self.weights_ = np.array(result.weights if self.shared else np.atleast_2d(result.weights))
        self.margin_ = margin
        self.n_kernels_ = count_kernels(self.weights_)
        self.intercept_ = (self._factors() * self.kernel_intercepts_).sum(axis=0)
        self.objective_, self.dual_gap_ = float(result.certificate.primal), float(result.certificate.gap)
        self.history_, self.n_iter_ = result.history, result.n_iter
        self.converged_ = bool(result.converged and self._done.all())

    def reweighted(self, nu: float | None = None, shared: bool | None = None) -> LPBetaClassifier:
        """What ``fit`` would have returned with another ν, or with weights of the other kind; no SVM is trained."""
        check_is_fitted(self)
        given = {"nu": nu, "shared": shared}
        model = copy.copy(self).set_params(**{name: value for name, value in given.items() if value is not None})
        model._check_parameters()
        problem = model._margin_problem(np.moveaxis(self.oof_scores_, 1, 0)[self._done])
        with model._run() as run:
            (result,) = run.solve([problem], model._solver())
        model._use(_with_all_kernels(result, self._done), problem.margin(result.weights))
        return model

    def _factors(self) -> NDArray[np.float64]:
        if self.weights_.ndim == 2:
            return self.weights_.T
        return np.repeat(self.weights_[:, None], self.kernel_intercepts_.shape[1], axis=1)

    def kernel_scores(self, X: Any) -> NDArray[np.float64]:
        """Scores of each kernel's own SVMs, (m, F) or (m, F, M) for M > 2; ``X`` as for ``decision_function``."""
        check_is_fitted(self)
        stack = self._test_stack(X)
        scores = self._parts(stack, np.arange(stack.n_kernels)) + self.kernel_intercepts_
        return scores[:, :, 0] if len(self.classes_) == 2 else scores


def _with_all_kernels(result: Result, done: NDArray[np.bool_]) -> Result:
    """The result with weights of zero for kernels that the linear program did not see."""
    if done.all():
        return result

    def spread(weights: NDArray) -> NDArray:
        full = np.zeros((*weights.shape[:-1], len(done)))
        full[..., done] = weights
        return full

    history = [{**row, "weights": spread(row["weights"])} for row in result.history]
    return replace(result, weights=spread(result.weights), history=history)
