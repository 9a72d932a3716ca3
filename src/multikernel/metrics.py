"""Numbers that describe kernels: of one matrix, of every kernel of a stack, or of a weighted sum of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from multikernel.gram import GramStack, gram_stack
from multikernel.solvers.alignment import Alignments, alignments
from multikernel.svm.binary import NuSVM
from multikernel.svm.decomposition import Decomposition
from multikernel.svm.quadratic_program import BoxProblem, as_operator

Vector = NDArray[np.float64]
Values = float | Vector
# Kernels whose inner products are computed together, where only those of each with itself are needed.
TOGETHER = 32
# Precision of squared margins and radii, relative to the largest entry of the diagonal.
PRECISE = 1e-8


def alignment(K: Any, y: ArrayLike, weights: ArrayLike | None = None) -> Values:
    """``<K, YY'> / (‖K‖ ‖YY'‖)`` in Frobenius products, Y the signs of two classes, or one column per class.

    Parameters
    ----------
    K : array-like of shape (n, n), or what ``gram_stack`` takes
        One kernel, or several.
    y : array-like of shape (n,)
        Labels.
    weights : array-like of shape (F,), optional
        The number is then that of ``Σ_j weights_j K_j``; kernels that are not in memory stay where they are.

    Returns
    -------
    value : float, or ndarray of shape (F,) for several kernels

    Examples
    --------
    >>> import numpy as np
    >>> from multikernel.metrics import alignment
    >>> y = np.array([1, 1, -1, -1])
    >>> float(round(alignment(np.outer(y, y), y), 6)), float(round(alignment(np.eye(4), y), 6))
    (1.0, 0.5)
    """
    return _aligned(K, y, weights, centred=False)


def centred_alignment(K: Any, y: ArrayLike, weights: ArrayLike | None = None) -> Values:
    """Alignment of the centred kernel with the centred labels [CMR12]; arguments are those of :func:`alignment`."""
    return _aligned(K, y, weights, centred=True)


def frobenius_norm(K: Any, weights: ArrayLike | None = None) -> Values:
    """``‖K‖``, the root of the sum of squared entries; arguments are those of :func:`alignment`."""
    stack, weights, one = _parsed(K, weights)
    none = np.zeros((len(stack), 1))
    if weights is None:
        return _of_each(stack, lambda part: alignments(part, none, centred=False).norms, one)
    gram = alignments(stack, none, centred=False).gram
    return float(np.sqrt(max(float(weights @ gram @ weights), 0.0)))


def trace_norm(K: Any, weights: ArrayLike | None = None) -> Values:
    """Sum of the eigenvalues: the trace, as kernels have no negative ones; arguments as for :func:`alignment`."""
    stack, weights, one = _parsed(K, weights)
    traces = stack.diagonal().sum(axis=1)
    return float(traces @ weights) if weights is not None else _value(traces, one)


def spectral_ratio(K: Any, weights: ArrayLike | None = None, *, normalize: bool = True) -> Values:
    """Trace over Frobenius norm, which grows with the rank: 1 for rank one, √n for the identity.

    Parameters
    ----------
    K, weights
        As for :func:`alignment`.
    normalize : bool
        Whether to move the range from [1, √n] to [0, 1].
    """
    stack, weights, one = _parsed(K, weights)
    found = _ratio(trace_norm(stack, weights), frobenius_norm(stack, weights), len(stack) if normalize else 0)
    return _value(np.atleast_1d(found), one or weights is not None)


def _ratio(trace: Values, size: Values, n_samples: int = 0) -> Vector:
    """Trace over Frobenius norm, 1 for a kernel that is zero; moved from [1, √n] to [0, 1] if n is given."""
    size = np.asarray(size, dtype=np.float64)
    ratio = np.divide(trace, size, out=np.ones(size.shape), where=size > 0.0)
    return (ratio - 1.0) / max(np.sqrt(n_samples) - 1.0, 1e-300) if n_samples else ratio


def numerical_rank(K: Any, weights: ArrayLike | None = None, *, tol: float = 1e-8) -> Values:
    """How many eigenvalues are above ``tol`` times the largest; arguments are those of :func:`alignment`.

    Costs a factorisation of each kernel, of the features where they are explicit.
    """
    stack, weights, one = _parsed(K, weights)
    if stack.explicit:
        owner, products = stack.features().owner, stack.features().products()
        if weights is not None:
            roots = np.sqrt(weights)[owner]
            products, owner = roots[:, None] * products * roots, np.zeros_like(owner)
        parts: Iterable[NDArray] = (products[np.ix_(owner == k, owner == k)] for k in np.unique(owner))
    else:
        parts = _kernels(stack, weights)
    spectra = [np.linalg.eigvalsh(part) for part in parts]
    ranks = np.array([np.count_nonzero(s > tol * max(s.max(initial=0.0), 1e-300)) for s in spectra])
    return _value(ranks, one or weights is not None)


def margin(K: Any, y: ArrayLike, weights: ArrayLike | None = None) -> Values:
    """Distance between the convex hulls of two classes in feature space, of more classes the least; 0 if they meet.

    Solves a quadratic program per kernel and pair of classes. Arguments are those of :func:`alignment`.
    """
    stack, weights, one = _parsed(K, weights)
    classes, codes = np.unique(np.asarray(y), return_inverse=True)
    pairs = [np.flatnonzero((codes == a) | (codes == b)) for a, b in combinations(range(len(classes)), 2)]
    if not pairs or len(codes) != len(stack):
        raise ValueError(f"y has {len(codes)} labels of {len(classes)} classes: give {len(stack)} of at least two.")

    def distance(kernel: NDArray, used: NDArray[np.intp]) -> float:
        signs = np.where(codes[used] == codes[used].min(), -1.0, 1.0)
        part = np.ascontiguousarray(kernel[np.ix_(used, used)])
        value, _ = NuSVM(signs, 2.0 / len(used)).solve(part, tol=PRECISE, warn=False)
        return float(np.sqrt(max(-2.0 * value, 0.0)) * len(used))

    found = [min(distance(kernel, used) for used in pairs) for kernel in _kernels(stack, weights)]
    return _value(np.array(found), one or weights is not None)


def radius(K: Any, weights: ArrayLike | None = None) -> Values:
    """Radius of the smallest ball around all samples in feature space.

    Its square is the largest ``Σ_i b_i K_ii − b'Kb`` over b ≥ 0 that add up to one: a quadratic program per kernel.
    Arguments are those of :func:`alignment`.
    """
    stack, weights, one = _parsed(K, weights)
    return _value(np.array([_radius(kernel) for kernel in _kernels(stack, weights)]), one or weights is not None)


def _radius(kernel: NDArray) -> float:
    n, diagonal = len(kernel), np.ascontiguousarray(np.diagonal(kernel), dtype=np.float64)
    largest = float(diagonal.max(initial=0.0))
    if n < 2 or not largest > 0.0:
        return 0.0
    program = BoxProblem(0.5 * diagonal, np.zeros(n), np.ones(n), (np.arange(n),), (1.0,))

    def gap(scores: Vector, b: Vector) -> float:
        # the distance of the farthest sample from the centre bounds the radius from above
        return float((diagonal - 2.0 * scores).max() - b @ (diagonal - 2.0 * scores)) / largest

    solver = Decomposition(as_operator(np.ascontiguousarray(kernel)), program, gap, PRECISE, n)
    b, scores, _ = solver.solve(np.full(n, 1.0 / n), 1000, lambda b: False)
    return float(np.sqrt(max(float(b @ diagonal - b @ scores), 0.0)))


def kernel_metrics(K: Any, y: ArrayLike | None = None) -> dict[str, Vector]:
    """What can be said of each kernel without factorising it, by name, each of shape (F,).

    Parameters
    ----------
    K : what ``gram_stack`` takes
    y : array-like of shape (n,), optional
        Labels, for alignments.

    Returns
    -------
    table : dict
        ``trace_norm``, ``frobenius_norm``, ``spectral_ratio`` and, with labels, ``centred_alignment``.

    Examples
    --------
    >>> import numpy as np
    >>> from multikernel.metrics import kernel_metrics
    >>> y = np.array([1, 1, -1, -1])
    >>> table = kernel_metrics([np.outer(y, y), np.eye(4)], y)
    >>> {name: values.round(3).tolist() for name, values in table.items()}
    {'trace_norm': [4.0, 4.0], 'frobenius_norm': [4.0, 2.0], 'spectral_ratio': [0.0, 1.0],
     'centred_alignment': [1.0, 0.577]}
    """
    stack = _parsed(K, None)[0]
    Y = np.zeros((len(stack), 1)) if y is None else _targets(y, len(stack))

    def measure(part: GramStack) -> Vector:
        found = alignments(part, Y, centred=y is not None)
        return np.stack([found.sizes, found.of_kernels()])

    trace, (size, aligned) = stack.diagonal().sum(axis=1), np.asarray(_of_each(stack, measure, one=False))
    table = {"trace_norm": trace, "frobenius_norm": size, "spectral_ratio": _ratio(trace, size, len(stack))}
    return table if y is None else {**table, "centred_alignment": aligned}


def _parsed(K: Any, weights: ArrayLike | None) -> tuple[GramStack, Vector | None, bool]:
    """The stack, the weights, and whether one kernel was given."""
    rows = isinstance(K, (list, tuple)) and len(K) > 0 and np.ndim(K[0]) == 1  # of one matrix
    one = rows or (not isinstance(K, GramStack) and getattr(K, "ndim", 0) == 2)
    stack = gram_stack(K, psd="ignore")
    if weights is not None:
        weights = stack._check_weights(weights)
        if not np.isfinite(weights).all():
            raise ValueError(f"weights={weights} must be finite numbers, one per kernel.")
    return stack, weights, one


def _value(values: NDArray, one: bool) -> Values:
    return values[0].item() if one else values


def _of_each(stack: GramStack, measure: Callable[[GramStack], Vector], one: bool) -> Values:
    """What ``measure`` says of a stack's kernels, a bounded number of them at a time."""
    if stack.n_kernels <= TOGETHER:
        return _value(measure(stack), one)
    parts = np.array_split(np.arange(stack.n_kernels), -(-stack.n_kernels // TOGETHER))
    return _value(np.concatenate([measure(stack.take(kernels=part)) for part in parts], axis=-1), one)


def _targets(y: ArrayLike, n_samples: int) -> Vector:
    """Signs of two classes, or a column for each of several."""
    classes, codes = np.unique(np.asarray(y), return_inverse=True)
    if len(codes) != n_samples or len(classes) < 2:
        raise ValueError(f"y has {len(codes)} labels of {len(classes)} classes: give {n_samples} of at least two.")
    Y = 2.0 * codes[:, None] - 1.0 if len(classes) == 2 else np.eye(len(classes))[codes]
    return Y.astype(np.float64, copy=False)


def _aligned(K: Any, y: ArrayLike, weights: ArrayLike | None, centred: bool) -> Values:
    stack, weights, one = _parsed(K, weights)
    Y = _targets(y, len(stack))

    def measure(part: GramStack) -> Alignments:
        return alignments(part, Y, centred=centred)

    if weights is not None:
        return measure(stack).of_weights(weights)
    return _of_each(stack, lambda part: measure(part).of_kernels(), one)


def _kernels(stack: GramStack, weights: Vector | None) -> Iterable[NDArray]:
    """Kernels in double precision, one at a time; the sum if there are weights."""
    if weights is not None:
        return [stack.combine(weights, dtype=np.float64)]
    return (np.asarray(stack.matrix(k), dtype=np.float64) for k in range(stack.n_kernels))
