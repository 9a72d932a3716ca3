"""How sure kernel weights are: the weights of fits to random halves of the samples."""

from __future__ import annotations

from typing import Any

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.utils import Bunch, check_random_state
from sklearn.utils.metaestimators import _safe_split

from multikernel.inspection.displays import last_step
from multikernel.inspection.views import best_of_search, final_model, random_splits, start_from


def weight_stability(
    model: Any,
    X: Any,
    y: Any,
    n_resamples: int = 50,
    *,
    threshold: float | None = None,
    level: float = 0.95,
    random_state: Any = None,
    n_jobs: int | None = None,
) -> Bunch:
    """Weights of a model refitted to random halves of the samples, and how often each kernel is selected.

    Halves come in pairs that complement each other [SS13]. A kernel is selected by a fit if its share of the weights
    is above ``threshold``. Where a fit selects q kernels on average, at most q² / ((2π - 1) F) kernels that are noise
    are expected to reach a frequency of π [MB10]; ``false_selections`` is that bound, with each kernel's frequency
    as π.

    Parameters
    ----------
    model : fitted estimator of this library, a pipeline that ends in one, or a search over them
        What to refit, with the parameters that a search chose; it stays as it is.
    X, y : as for ``fit``
    n_resamples : int
        Number of halves, even.
    threshold : float, optional
        Share of the weights from which a kernel counts as selected. By default 1e-8 of the largest where the fitted
        model has weights of zero, else 1/F, the share of a kernel under equal weights.
    level : float
        Of the intervals.
    random_state : int, RandomState or None
    n_jobs : int, optional
        Threads over halves.

    Returns
    -------
    result : Bunch
        ``weights`` (R, F), each row the shares of one fit; ``frequencies`` (F,); ``intervals`` (F, 2), quantiles of
        the shares; ``false_selections`` (F,), inf where a frequency is at most ½; ``agreement``, the mean correlation
        of the weights of two halves of a pair; ``names`` (F,); ``threshold``.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from multikernel import MKLClassifier
    >>> from multikernel.inspection import weight_stability
    >>> from multikernel.kernels import RBF
    >>> X, y = load_iris(return_X_y=True)
    >>> model = MKLClassifier([RBF(columns=[j]) for j in range(4)]).fit(X, y)
    >>> weight_stability(model, X, y, n_resamples=4, random_state=0).frequencies.argmax() in (2, 3)
    True
    """
    if n_resamples < 2 or n_resamples % 2:
        raise ValueError(f"n_resamples={n_resamples!r} must be even and at least 2: halves come in pairs.")
    if not 0.0 < level < 1.0:
        raise ValueError(f"level={level!r} must be between 0 and 1.")
    final, _ = final_model(model)
    model, labels = best_of_search(model), np.asarray(y)
    pairs = random_splits(model, labels, n_resamples // 2, 0.5, check_random_state(random_state))

    def shares_of(half: NDArray) -> NDArray[np.float64]:
        fitted = clone(model)
        if final._n_train == len(labels):  # the fit to all samples is a start for half of them
            start_from(last_step(fitted), final, samples=half)
        return weight_shares(last_step(fitted.fit(*_safe_split(model, X, y, half))))

    halves = [half for pair in pairs for half in pair]
    weights = np.array(Parallel(n_jobs, prefer="threads")(delayed(shares_of)(half) for half in halves))
    n_kernels = weights.shape[1]
    if threshold is None:
        sparse = (weight_shares(final) <= 1e-8).any()
        threshold = 1e-8 if sparse else 1.0 / n_kernels
    selected = weights > threshold
    frequencies, per_fit = selected.mean(axis=0), selected.sum(axis=1).mean()
    excess = 2.0 * frequencies - 1.0
    bound = np.where(excess > 0.0, per_fit**2 / n_kernels / np.where(excess > 0.0, excess, 1.0), np.inf)
    tail = 0.5 * (1.0 - level)
    return Bunch(
        weights=weights,
        frequencies=frequencies,
        intervals=np.quantile(weights, [tail, 1.0 - tail], axis=0).T,
        false_selections=bound,
        agreement=_agreement(weights),
        names=np.array(final.kernel_names_, dtype=object),
        threshold=threshold,
    )


def weight_shares(model: Any) -> NDArray[np.float64]:
    """Kernel weights that add up to one, shape (F,): the mean over classes where they are per class."""
    weights = np.abs(np.atleast_2d(model.weights_))
    total = weights.sum(axis=1, keepdims=True)
    return (weights / np.where(total > 0.0, total, 1.0)).mean(axis=0)


def _agreement(weights: NDArray[np.float64]) -> float:
    """Mean correlation between the weights of the two halves of a pair; 1 where both are equal for all kernels."""
    centred = weights - weights.mean(axis=1, keepdims=True)
    a, b = centred[::2], centred[1::2]
    scale = np.sqrt((a**2).sum(axis=1) * (b**2).sum(axis=1))
    same = np.all(np.isclose(weights[::2], weights[1::2]), axis=1)
    return float(np.where(same, 1.0, (a * b).sum(axis=1) / np.where(scale > 0.0, scale, 1.0)).mean())
