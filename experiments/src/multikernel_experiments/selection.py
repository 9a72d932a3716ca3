"""Kernels chosen before learning: the best of each family of descriptors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray


def best_of_families(stack: Any, y: NDArray, families: Sequence[Sequence[str]]) -> list[int]:
    """The kernel of each family of descriptors with the least leave-one-out error [OJC10, sect. 4.2].

    Least-squares SVMs of each class against the rest, without bias, on K + I: what a sample is off by when it is left
    out is α_i over the i-th diagonal element of the inverse.
    """
    classes = np.unique(y)
    signs = np.where(y[:, None] == classes, 1.0, -1.0)
    best = []
    for family in families:
        errors = {}
        for k, name in enumerate(stack.names):
            if str(name).split()[0] in family:
                inverse = np.linalg.inv(stack.take(kernels=[k]).to_array()[0] + np.eye(len(y), dtype=np.float32))
                left_out = signs - (inverse @ signs) / np.diagonal(inverse)[:, None]
                errors[k] = float(np.mean(classes[left_out.argmax(axis=1)] != y))
        best.append(min(errors, key=lambda k: errors[k]))
    return best
