"""Binary problems made of classes: pairs drawn at random, and one class against the rest."""

from __future__ import annotations

from itertools import combinations

import numpy as np
from numpy.typing import NDArray

Problem = tuple[NDArray, NDArray, NDArray]  # samples to train and to test on, and the label of every sample


def random_pair(y: NDArray, train: NDArray, test: NDArray, number: int) -> Problem:
    """Two classes: the pair of that number, all pairs being in a random order."""
    pairs = np.array(list(combinations(np.unique(y), 2)))
    drawn = np.random.default_rng(0).permutation(len(pairs))
    pair = pairs[drawn[number % len(pairs)]]
    return train[np.isin(y[train], pair)], test[np.isin(y[test], pair)], (y == pair[1]).astype(int)


def against_the_rest(y: NDArray, train: NDArray, test: NDArray, number: int, n_others: int) -> Problem:
    """The class of that number against all others, of which so many training samples each are kept."""
    classes = np.unique(y)
    one = classes[number % len(classes)]
    kept = [train[y[train] == label][: None if label == one else n_others] for label in classes]
    return np.concatenate(kept), test, (y == one).astype(int)
