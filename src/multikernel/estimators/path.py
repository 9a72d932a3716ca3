"""Regularisation paths: solutions along C, p or t, each started from the one before."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone

from multikernel.estimators.base import NEGLIGIBLE, Prepared
from multikernel.estimators.cskl import CSKLClassifier
from multikernel.estimators.mkl import MKLClassifier
from multikernel.groups import parse_groups
from multikernel.weight_sets import CappedSimplex


@dataclass(frozen=True)
class MKLPath:
    """Fitted models along a parameter.

    Parameters
    ----------
    parameter : {"C", "p", "t"}
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
        from multikernel.plotting import WeightPathDisplay

        weights = self.weights if self.weights.ndim == 2 else self.weights.mean(axis=1)
        names = [str(name) for name in self.estimators[0].kernel_names_]
        order = np.argsort(self.values)
        display = WeightPathDisplay(weights[order], names, self.values[order], self.parameter)
        return display.plot(ax=ax, **options)


@dataclass(frozen=True)
class CSKLPath(MKLPath):
    """Fitted :class:`~multikernel.CSKLClassifier` models along t; parameters as for :class:`MKLPath`."""

    def n_groups(self, groups: Any) -> NDArray[np.intp]:
        """Groups of kernels, such as descriptors, with a weight in any task, shape (V,) [GMSB11, fig. 13].

        Parameters
        ----------
        groups : list of lists, or array-like of shape (F,)
            As for :class:`~multikernel.MKLClassifier`.
        """
        parts = parse_groups(groups, [str(name) for name in self.estimators[0].kernel_names_])
        largest = self.weights.reshape(len(self.values), -1, self.weights.shape[-1]).max(axis=1)
        used = largest > NEGLIGIBLE * largest.max(axis=1, keepdims=True)
        return np.stack([used[:, part].any(axis=1) for part in parts]).sum(axis=0)

    def plot_scores(self, X: Any, y: ArrayLike, *, groups: Any = None, axes: Any = None, name: str = "CSKL") -> Any:
        """Draw accuracy on ``X``, ``y`` and the number of kernels, or of groups, against t [GMSB11, fig. 8 and 13].

        Parameters
        ----------
        X, y : as for ``score``
        groups : list of lists, or array-like of shape (F,), optional
            Count groups of kernels instead of kernels.
        axes : pair of matplotlib Axes, optional
            Those of another display, to compare.
        name : str
            For the legend.
        """
        from multikernel.plotting import SparsityPathDisplay

        counted = self.n_kernels if groups is None else self.n_groups(groups)
        what = "kernels" if groups is None else "groups of kernels"
        order = np.argsort(self.values)
        display = SparsityPathDisplay(self.values[order], self.scores(X, y)[order], counted[order], what, name)
        return display.plot(axes=axes)


def cskl_path(
    estimator: CSKLClassifier, X: Any, y: Any, *, t: ArrayLike | None = None, sample_weight: Any = None
) -> CSKLPath:
    """Fit a :class:`CSKLClassifier` for several values of t, by default all whole ones from 1 to F.

    Kernels are computed and checked once. Models are fitted in ascending order, and each starts from the weights of
    the one before, scaled with those at 1 kept there, and from its dual coefficients.

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
    prepared = model._prepare(X, y, sample_weight)
    values = np.asarray(np.arange(1, prepared.stack.n_kernels + 1) if t is None else t, dtype=np.float64)
    order = _checked_order(values, "t")
    models = dict(zip(order.tolist(), _fits(model, prepared, "t", values[order])))
    return CSKLPath("t", values, [models[k] for k in range(len(values))])


def mkl_path(
    estimator: MKLClassifier,
    X: Any,
    y: Any,
    *,
    C: ArrayLike | None = None,
    p: ArrayLike | None = None,
    sample_weight: Any = None,
) -> MKLPath:
    """Fit an :class:`MKLClassifier` for several values of C or of p.

    Kernels are computed and checked once. Models are fitted in ascending order, and each starts from the solution of
    the one before: dual coefficients at their bound stay there when C grows.

    Parameters
    ----------
    estimator : MKLClassifier
        All other parameters. It is not changed.
    X, y, sample_weight
        As for ``MKLClassifier.fit``.
    C, p : array-like of shape (V,)
        The values; one of the two.

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
    if (C is None) == (p is None):
        raise ValueError("give the values of one parameter along the path, C=[...] or p=[...], not both or none.")
    parameter = "C" if p is None else "p"
    if parameter == "C" and estimator.nu is not None:
        raise ValueError(f"with nu={estimator.nu!r} C is not used, so there is no path along it: set nu=None.")
    values = np.asarray(C if p is None else p, dtype=np.float64)
    order = _checked_order(values, parameter)
    model = clone(estimator).set_params(**{parameter: float(values[order[0]])})
    prepared = model._prepare(X, y, sample_weight)
    models = dict(zip(order.tolist(), _fits(model, prepared, parameter, values[order])))
    return MKLPath(parameter, values, [models[k] for k in range(len(values))])


def _checked_order(values: NDArray[np.float64], parameter: str) -> NDArray[np.intp]:
    """Ascending order of the values, after a look at them."""
    if values.ndim != 1 or not len(values) or np.isnan(values).any():
        raise ValueError(f"{parameter}={values!r} must be a list of numbers, at least one.")
    return np.argsort(values, kind="stable")


def _fits(model: Any, prepared: Prepared, parameter: str, values: NDArray[np.float64]) -> Iterator[Any]:
    """The fitted models, one after the other; ``model`` is copied for each."""
    previous: Any = None
    earlier: Any = None
    for value in values:
        fitted = copy.copy(model).set_params(**{parameter: float(value)})
        fitted._check_parameters()
        if previous is not None:
            weights, alpha = previous._previous_solution()
            if parameter == "t" and earlier is not None:
                weights = _continued(earlier, previous, value)
            start = weights, _grown(alpha, previous.C, fitted.C) if parameter == "C" else alpha
            fitted._run(prepared, start, fitted.callback, fitted.max_time)
        else:
            fitted._run(prepared, None, fitted.callback, fitted.max_time)
        earlier, previous = previous, fitted
        yield fitted


def _continued(earlier: CSKLClassifier, previous: CSKLClassifier, t: float) -> NDArray[np.float64]:
    """Weights for t on the line through those of two smaller values, brought back to the set."""
    if previous.exact or not previous.t_ > earlier.t_:
        return previous.weights_
    share = (t - previous.t_) / (previous.t_ - earlier.t_)
    rows = np.atleast_2d(previous.weights_ + share * (previous.weights_ - earlier.weights_))
    if t > rows.shape[1]:  # refused when the fit sees it
        return previous.weights_
    return np.stack([CappedSimplex(t).project(row) for row in rows]).reshape(previous.weights_.shape)


def _grown(alpha: NDArray, old: float, new: float) -> NDArray:
    """Coefficients for a larger C: those at the bound stay at the bound, the solver restores the sums."""
    at_bound = np.abs(alpha) >= old * (1.0 - 1e-9)
    return np.where(at_bound, alpha * (new / old), alpha)
