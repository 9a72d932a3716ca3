"""Indefinite kernels made positive semi-definite by dropping their negative part."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from multikernel.gram.base import GramStack
from multikernel.gram.checks import rounding_tolerance
from multikernel.gram.dense import DenseStack


def fit_clip(stack: GramStack) -> tuple[dict[int, NDArray], GramStack]:
    """Project each training kernel on its non-negative eigenvalues.

    Returns the eigenvectors (n, r) that were projected out of each kernel that had some, by position, and the
    clipped stack. Costs an eigen-decomposition a kernel.
    """
    if not stack.stored:
        raise ValueError(
            f'psd="clip" needs the kernels in memory, but this is a {type(stack).__name__}. Raise memory=, leave the '
            'indefinite kernels out, or pass psd="ignore".'
        )
    negative: dict[int, NDArray] = {}
    for k in range(stack.n_kernels):
        matrix = stack.take(kernels=[k]).to_array()[0].astype(np.float64)
        values, vectors = np.linalg.eigh(matrix)
        below = values < -rounding_tolerance(stack.dtype) * max(abs(values[0]), abs(values[-1]))
        if below.any():
            negative[k] = vectors[:, below]
    return negative, apply_clip(stack, negative)


def apply_clip(stack: GramStack, negative: dict[int, NDArray]) -> GramStack:
    """Project the clipped eigenvectors out of the columns of a stack: ``K - (K U) U'``."""
    if not negative:
        return stack
    array = stack.to_array()
    similarity = None if stack.symmetric else stack.diagonal() if _has_diagonal(stack) else None
    for k, vectors in negative.items():
        clipped = array[k] - (array[k] @ vectors) @ vectors.T
        array[k] = (clipped + clipped.T) / 2 if stack.symmetric else clipped
    return DenseStack.owning(array, stack.names, symmetric=stack.symmetric, self_similarity=similarity)


def _has_diagonal(stack: GramStack) -> bool:
    try:
        stack.diagonal()
    except ValueError:
        return False
    return True
