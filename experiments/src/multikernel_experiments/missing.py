"""Views that are taken away from samples, and what is done about it, each as a task of its own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from multikernel_experiments.protocol import Task


def lost_views(n_samples: int, n_views: int, share: float, blocks: bool, seed: int) -> NDArray[np.bool_]:
    """Which samples lack which views, shape (n_samples, n_views): a share of all entries; each sample keeps a view.

    At random, entries are drawn one by one. By block, samples lose all views but one, as those of a study that
    measured nothing else, until the share is reached; others lose none. With two views at most half can go.

    Examples
    --------
    >>> from multikernel_experiments.missing import lost_views
    >>> [int(lost_views(100, 4, 0.3, blocks, 0).sum()) for blocks in (False, True)]
    [120, 120]
    >>> int(lost_views(100, 4, 0.3, True, 0).any(axis=1).sum())
    40
    """
    rng = np.random.default_rng(seed)
    gone = np.zeros((n_samples, n_views), dtype=bool)
    entries = rng.permutation(gone.size)
    if blocks:  # sample by sample, the views of each in a random order
        entries = entries[np.argsort(rng.permutation(n_samples)[entries // n_views], kind="stable")]
    left = round(share * gone.size)
    for row, view in zip(*np.divmod(entries, n_views)):
        if left and gone[row].sum() < n_views - 1:
            gone[row, view] = True
            left -= 1
    return gone


def tasks_with_holes(
    X: NDArray, columns: Mapping[str, slice], y: NDArray, gone: NDArray[np.bool_], train: NDArray, test: NDArray
) -> Task:
    """An RBF kernel on each view, and three ways to go on where samples lack some, by the key of their entry.

    - ``mask``: kernels are NaN there;
    - ``mean``: missing values are the mean of their column over the training samples that have it;
    - ``complete``: training samples that lack a view are left out, new ones are masked. Not if one class is left.
    """
    from sklearn.preprocessing import StandardScaler

    from multikernel_experiments.archives import from_features

    X = np.array(X, dtype=np.float32)
    for lacks, place in zip(gone.T, columns.values()):
        X[lacks, place] = np.nan
    X = StandardScaler().fit(X[train]).transform(X)
    whole = train[~gone[train].any(axis=1)]
    filled = from_features(np.nan_to_num(X), _kernels(columns), train, test, standardize=False)
    masked = Task(*_stacks(X, columns, gone, train, test), y[train], y[test], [])
    found = {"mask": masked, "mean": Task(*filled, y[train], y[test], [])}
    if len(np.unique(y[whole])) > 1:
        found["complete"] = Task(*_stacks(X, columns, gone, whole, test), y[whole], y[test], [])
    return replace(masked, by_entry=found)


def _kernels(columns: Mapping[str, slice]) -> list[Any]:
    from multikernel.kernels import RBF

    return [RBF(columns=place, name=name) for name, place in columns.items()]


def _stacks(
    X: NDArray, columns: Mapping[str, slice], gone: NDArray[np.bool_], train: NDArray, test: NDArray
) -> tuple[Any, Any]:
    """Stacks to train and test on, with rows and columns of NaN; bandwidths from samples that have the view."""
    from multikernel.gram import DenseStack
    from multikernel.kernels import KernelFamily

    A, B = np.nan_to_num(X[train]), np.nan_to_num(X[test])
    family = KernelFamily.fit(_kernels(columns), A).fit_present(A, gone[train].T)
    training, testing = family.evaluate(A), family.evaluate(B, A)
    for kernels, rows in ((training, train), (testing, test)):
        kernels[np.broadcast_to(gone[rows].T[:, :, None] | gone[train].T[:, None, :], kernels.shape)] = np.nan
    names = list(columns)
    return DenseStack(training, names, symmetric=True), DenseStack(testing, names, symmetric=False)
