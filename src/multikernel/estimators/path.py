"""Regularisation paths: solutions along C, p or t, each started from the one before."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone

from multikernel.estimators.base import NEGLIGIBLE, TrainingData, starts_of
from multikernel.estimators.cskl import CSKLClassifier
from multikernel.estimators.mkl import MKLClassifier
from multikernel.problems.vskl import parse_groups
from multikernel.runtime.clock import one_blas_thread
from multikernel.solvers.catalogue import MANY_KERNELS
from multikernel.solvers.common.newton import predicted


@dataclass(frozen=True)
class MKLPath:
    """Fitted models along a parameter.

    Parameters
    ----------
    parameter : {"C", "p", "l1_ratio", "t"}
        What changes along the path.
    values : ndarray of shape (V,)
        Its values, in the order asked for.
    estimators : list of MKLClassifier or CSKLClassifier
        A fitted model for each value.
    """

    parameter: str
    values: NDArray[np.float64]
    estimators: list[Any]

    @property
    def weights(self) -> NDArray[np.float64]:
        """Kernel weights, shape (V, F), or (V, T, F) where tasks have weights of their own."""
        return np.stack([model.weights_ for model in self.estimators])

    @property
    def objectives(self) -> NDArray[np.float64]:
        """Objectives, summed over problems, shape (V,)."""
        return np.array([np.sum(model.objective_) for model in self.estimators])

    @property
    def dual_gaps(self) -> NDArray[np.float64]:
        """Duality gaps, summed over problems, shape (V,)."""
        return np.array([np.sum(model.dual_gap_) for model in self.estimators])

    @property
    def n_kernels(self) -> NDArray[np.intp]:
        """Kernels with a weight, shape (V,)."""
        return np.array([model.n_kernels_ for model in self.estimators])

    def scores(self, X: Any, y: ArrayLike) -> NDArray[np.float64]:
        """Accuracy of each model on ``X`` and ``y``, shape (V,)."""
        return np.array([model.score(X, y) for model in self.estimators])

    def plot(self, ax: Any = None, **options: Any) -> Any:
        """Draw the weights along the path; options are those of ``WeightPathDisplay.plot``."""
        from multikernel.inspection.displays import WeightPathDisplay

        weights = self.weights if self.weights.ndim == 2 else self.weights.mean(axis=1)
        names = [str(name) for name in self.estimators[0].kernel_names_]
        order = np.argsort(self.values)
        display = WeightPathDisplay(weights[order], names, self.values[order], self.parameter)
        return display.plot(ax=ax, **options)


@dataclass(frozen=True)
class CSKLPath(MKLPath):
    """Fitted :class:`~multikernel.CSKLClassifier` models along t; parameters as for :class:`MKLPath`."""

    def n_groups(self, groups: Any) -> NDArray[np.intp]:
        """Groups of kernels, as for :class:`MKLClassifier`, with a weight in any task, (V,) [GMSB11, fig. 13]."""
        parts = parse_groups(groups, [str(name) for name in self.estimators[0].kernel_names_])
        largest = self.weights.reshape(len(self.values), -1, self.weights.shape[-1]).max(axis=1)
        used = largest > NEGLIGIBLE * largest.max(axis=1, keepdims=True)
        return np.stack([used[:, part].any(axis=1) for part in parts]).sum(axis=0)

    def plot_scores(self, X: Any, y: ArrayLike, *, groups: Any = None, axes: Any = None, name: str = "CSKL") -> Any:
        """Draw accuracy on ``X``, ``y`` and the number of kernels, or of groups, against t [GMSB11, fig. 8 and 13].

        ``axes`` are those of another display, to compare with; ``name`` is for the legend.
        """
        from multikernel.inspection.displays import SparsityPathDisplay

        counted = self.n_kernels if groups is None else self.n_groups(groups)
        what = "kernels" if groups is None else "groups of kernels"
        order = np.argsort(self.values)
        display = SparsityPathDisplay(self.values[order], self.scores(X, y)[order], counted[order], what, name)
        return display.plot(axes=axes)


def cskl_path(
    estimator: CSKLClassifier, X: Any, y: Any, *, t: ArrayLike | None = None, sample_weight: Any = None
) -> CSKLPath:
    """Fit a :class:`CSKLClassifier` for several values of t, by default all whole ones from 1 to F.

    Kernels are computed and checked once. Models are fitted in descending order, because t = F takes one SVM only.
    Each starts from the weights that a quadratic model of the objective at the one before expects, with coefficients
    that follow; where these prove themselves to be within ``tol`` no SVM is solved. Exact models are fitted in
    ascending order, each from the choice before.

    Parameters
    ----------
    estimator : CSKLClassifier
        All other parameters, relaxed or exact. It is not changed.
    X, y, sample_weight
        As for ``CSKLClassifier.fit``.
    t : array-like of shape (V,), optional
        The values.

    Returns
    -------
    path : CSKLPath

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from multikernel import CSKLClassifier, cskl_path
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> path = cskl_path(CSKLClassifier(), X, y)
    >>> path.values.tolist(), path.weights.sum(axis=1).round(6).tolist()
    ([1.0, 2.0, 3.0, 4.0], [1.0, 2.0, 3.0, 4.0])
    """
    model = clone(estimator).set_params(t=1.0)
    model._keep_interrupted = estimator._keep_interrupted
    data = model._validate(X, y, sample_weight)
    values = np.asarray(np.arange(1, data.stack.n_kernels + 1) if t is None else t, dtype=np.float64)
    order = _checked_order(values, "t")[:: 1 if model.exact else -1]
    return CSKLPath("t", values, _fits(model, data, "t", values, order))


def mkl_path(
    estimator: MKLClassifier,
    X: Any,
    y: Any,
    *,
    C: ArrayLike | None = None,
    p: ArrayLike | None = None,
    l1_ratio: ArrayLike | None = None,
    sample_weight: Any = None,
) -> MKLPath:
    """Fit an :class:`MKLClassifier` for several values of C, of p or of l1_ratio.

    Kernels are computed and checked once. Models are fitted one after the other, and each starts from the solution of
    the one before. C grows, and dual coefficients at their bound stay there. p falls and ``l1_ratio`` grows, towards
    sparse weights, which say nothing about those that are zero: the objective does not depend on them but through
    the weights, so that its quadratic model at one solution predicts the next.

    Parameters
    ----------
    estimator : MKLClassifier
        All other parameters. It is not changed.
    X, y, sample_weight
        As for ``MKLClassifier.fit``.
    C, p, l1_ratio : array-like of shape (V,)
        The values; one of the three.

    Returns
    -------
    path : MKLPath

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from multikernel import MKLClassifier, mkl_path
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> path = mkl_path(MKLClassifier(), X, y, p=[1, 2, 4])
    >>> path.weights.shape
    (3, 4)
    """
    given = {name: v for name, v in (("C", C), ("p", p), ("l1_ratio", l1_ratio)) if v is not None}
    if len(given) != 1:
        raise ValueError("give values for exactly one parameter, C=[...], p=[...] or l1_ratio=[...].")
    ((parameter, chosen),) = given.items()
    if parameter == "C" and estimator.nu is not None:
        raise ValueError(f"with nu={estimator.nu!r} C is not used, so there is no path along it: set nu=None.")
    values = np.asarray(chosen, dtype=np.float64)
    order = _checked_order(values, parameter)[:: -1 if parameter == "p" else 1]
    model = clone(estimator).set_params(**{parameter: float(values[order[0]])})
    data = model._validate(X, y, sample_weight)
    return MKLPath(parameter, values, _fits(model, data, parameter, values, order))


def mkl_grid(
    model: MKLClassifier, data: TrainingData, Cs: NDArray[np.float64], ps: NDArray[np.float64]
) -> list[list[MKLClassifier]]:
    """Models fitted for every p and C, one list per p: p falls, and each model starts from that of the p before.

    Where the model of the C before has no coefficient at its bound it is the solution for any larger C, too.
    """
    grid: list[list[Any]] = [[None] * len(Cs) for _ in ps]
    row_above: list[Any] = [None] * len(Cs)
    for i in _checked_order(ps, "p")[::-1]:
        left: Any = None
        for j in _checked_order(Cs, "C"):
            fitted = grid[i][j] = copy.copy(model)
            fitted.p, fitted.C = float(ps[i]), float(Cs[j])
            fitted._check_parameters()
            settled = left is not None and not _at_bound(left.dual_coef_, left.C * data.sample_weight[left.support_])
            previous, parameter = (left, "C") if row_above[j] is None or settled else (row_above[j], "p")
            with fitted._run() as run:
                problems = fitted._problems(data, run)
                start = None if previous is None else _start(previous, fitted, parameter, problems)
                fitted._store(data, problems, fitted._solve(run, data, problems, start, judge_first=settled))
            left = fitted
        row_above = grid[i]
    return grid


def _checked_order(values: NDArray[np.float64], parameter: str) -> NDArray[np.intp]:
    """Ascending order of the values, after a check."""
    if values.ndim != 1 or not len(values) or np.isnan(values).any():
        raise ValueError(f"{parameter}={values!r} must be a non-empty list of numbers.")
    return np.argsort(values, kind="stable")


def _fits(model: Any, data: TrainingData, parameter: str, values: NDArray, order: NDArray[np.intp]) -> list[Any]:
    """Models fitted for the values, in this order, each a copy of ``model``."""
    models: list[Any] = [None] * len(values)
    previous: Any = None
    earlier: list[Any] = []  # along t, problems that hand over what they know
    for k in order:
        fitted = models[k] = copy.copy(model)
        setattr(fitted, parameter, float(values[k]))  # what set_params does, without looking at the signature
        fitted._check_parameters()
        with fitted._run() as run:
            fitted._calibrate(run, data)
            problems = fitted._problems(data, run)
            start = None if previous is None else _start(previous, fitted, parameter, problems)
            for problem, known in zip(problems, earlier):
                problem.take_over(known)
            results = fitted._solve(run, data, problems, start)
            fitted._store(data, problems, results)
        previous = fitted
        if parameter == "t" and not model.exact:
            earlier = list(problems)
            if len(problems) > 1:  # their kernels, one per task, may be too many to keep
                for problem in problems:
                    problem.release()
    return models


def _start(previous: Any, fitted: Any, parameter: str, problems: Sequence[Any]) -> tuple[NDArray, NDArray]:
    """What the next model along a parameter starts from."""
    weights, alpha = previous._previous_solution()
    if parameter == "C":
        return weights, _grown(alpha, previous.C, fitted.C)
    if parameter == "t" or weights.shape[-1] > MANY_KERNELS:  # where a Newton step costs more than it saves
        return weights, alpha
    starts = starts_of(weights, alpha, alpha.shape, weights.shape[-1], len(problems)) or []
    with one_blas_thread():
        moved = [predicted(problem, *start) for problem, start in zip(problems, starts)]
    if len(moved) < len(alpha):  # one problem for all tasks
        return moved[0][0], moved[0][1].T
    return np.stack([start[0] for start in moved]), np.stack([start[1] for start in moved])


def _grown(alpha: NDArray, old: float, new: float) -> NDArray:
    """Coefficients for a larger C: those at the bound stay at the bound, the solver restores the sums."""
    return np.where(np.abs(alpha) >= old * (1.0 - 1e-9), alpha * (new / old), alpha)


def _at_bound(alpha: NDArray, upper: NDArray) -> bool:
    """Whether any coefficient is at its bound."""
    return bool((np.abs(alpha) >= upper * (1.0 - 1e-9)).any())
