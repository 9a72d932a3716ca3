"""A multiclass task as binary tasks, one-vs-rest or one-vs-one."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

MULTI_CLASS = ("ovr", "ovo")


@dataclass(frozen=True)
class Tasks:
    """Labels (n,) and what they mean for each of T binary tasks: signs (n, T), 0 where a sample has no part."""

    labels: NDArray
    signs: NDArray[np.float64]


def binary_signs(y: NDArray[np.intp], n_classes: int, multi_class: str) -> NDArray[np.float64]:
    """Signs of the binary tasks, shape (n, T): +1, -1, or 0 where a sample has no part.

    Two classes make one task, with +1 for class 1. One-vs-rest makes one task per class; one-vs-one makes one
    per pair (a, b), a < b, with +1 for b.

    Examples
    --------
    >>> import numpy as np
    >>> from multikernel.estimators.tasks import binary_signs
    >>> binary_signs(np.array([0, 1, 2]), 3, "ovo")
    array([[-1., -1.,  0.],
           [ 1.,  0., -1.],
           [ 0.,  1.,  1.]])
    """
    if n_classes == 2:
        return np.where(y == 1, 1.0, -1.0)[:, None]
    if multi_class == "ovr":
        return np.where(y[:, None] == np.arange(n_classes), 1.0, -1.0)
    columns = [np.where(y == b, 1.0, 0.0) - (y == a) for a, b in combinations(range(n_classes), 2)]
    return np.column_stack(columns)


def class_scores(scores: NDArray, n_classes: int, multi_class: str) -> NDArray:
    """Scores of the binary tasks (n, T) as a decision function: (n,) for two classes, else (n, M).

    One-vs-one scores become votes plus the sum of the pairwise scores squeezed into (-1/3, 1/3), so that they
    only decide between classes with as many votes.
    """
    if n_classes == 2:
        return scores[:, 0]
    if multi_class == "ovr":
        return scores
    votes = np.zeros((len(scores), n_classes))
    confidence = np.zeros((len(scores), n_classes))
    for t, (a, b) in enumerate(combinations(range(n_classes), 2)):
        votes[:, b] += scores[:, t] > 0
        votes[:, a] += scores[:, t] <= 0
        confidence[:, b] += scores[:, t]
        confidence[:, a] -= scores[:, t]
    return votes + confidence / (3.0 * (np.abs(confidence) + 1.0))
