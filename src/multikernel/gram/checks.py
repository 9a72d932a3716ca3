"""Checks of precomputed kernels: shape, finite, symmetric, definite (or made so), train against test."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import lapack

from multikernel.gram.base import GramStack, kernel_names
from multikernel.gram.stacks import DenseStack
from multikernel.runtime.clock import one_blas_thread, over_rows
from multikernel.runtime.warnings import warn_user

PSD_CHOICES = ("raise", "clip", "ignore")
# Samples on which the cheap check of definiteness factorises a matrix.
PSD_SAMPLE = 128
# What to do about kernels that are not positive semi-definite.
PSD_ADVICE = (
    'MKL needs PSD kernels. Pass psd="clip" (--psd clip) to drop the negative part, or leave this kernel out.'
)
PRODUCT_ADVICE = (
    "It is positive semi-definite for infinitely divisible kernels such as RBF, Laplacian and exponential χ²; "
    'for others it need not be. Use those, or how="mean".'
)


def rounding_tolerance(dtype: np.dtype) -> float:
    """Relative size of errors that are put down to rounding in how a kernel was computed."""
    return 1e-4 if dtype == np.float32 else 1e-8


def check_training_stack(stack: GramStack, psd: str = "raise") -> GramStack:
    """Check that a training stack is square, finite, symmetric and, with ``psd="raise"``, positive semi-definite.

    Definiteness is judged cheaply: by all entries (``|K_ij|² <= K_ii K_jj``) and by factorising each matrix on at
    most 128 samples, which finds what an ordinary indefinite kernel does wrong. Of stacks that are not stored only
    those samples are looked at.
    """
    if psd not in PSD_CHOICES:
        raise ValueError(f"psd={psd!r} is not one of {', '.join(map(repr, PSD_CHOICES))}.")
    n_rows, n_columns, _ = stack.shape
    if n_rows != n_columns:
        raise ValueError(
            f"training kernels must be square; these are {n_rows} x {n_columns}. Pass the kernel between all "
            "pairs of training samples, shape (n, n, F)."
        )
    if stack.checked in (psd, "raise"):  # stacks do not change: one look is enough
        return stack
    if not stack.stored:  # too large to look at as a whole
        if psd == "raise":
            check_sampled(stack, range(stack.n_kernels))
        return stack

    def check(start: int, stop: int) -> None:
        for k in range(start, stop):
            check_matrix(stack.matrix(k), _label(k, stack.names), psd)

    with one_blas_thread():
        over_rows(check, stack.n_kernels, work=stack.n_kernels * float(n_rows) ** 2 / 50)  # threads pay late
    stack.checked = psd
    return stack


def check_sampled(stack: GramStack, kernels: Iterable[int]) -> None:
    """Check some kernels of any square stack on at most 128 of its samples."""
    chosen = _some(len(stack), PSD_SAMPLE)
    with one_blas_thread():
        for k in kernels:
            matrix = stack.take(chosen, chosen, [k]).to_array()[0]
            check_matrix(matrix, _label(k, stack.names), "raise")


def _label(k: int, names: Sequence[str]) -> str:
    return f'kernels[{k}] ("{names[k]}")'


def check_matrix(matrix: NDArray, label: str, psd: str, advice: str = PSD_ADVICE) -> None:
    """Check one square matrix; ``label`` names it and ``advice`` says what to do if it is not PSD."""
    diagonal = np.ascontiguousarray(np.diagonal(matrix), dtype=np.float64)
    if _is_clear(matrix, diagonal, psd):
        return
    places = np.argwhere(~np.isfinite(matrix))
    if len(places):
        raise ValueError(
            f"{label} has {len(places)} entries that are NaN or infinite, the first at row {places[0][0]}, "
            f"column {places[0][1]}. Remove or impute those samples before computing the kernel."
        )
    tolerance = _tolerance(matrix, diagonal)
    asymmetry, row, column, excess = _look_closely(matrix, diagonal)
    if asymmetry > 10 * tolerance:
        raise ValueError(
            f"{label} is not symmetric: entries [{row}, {column}] and [{column}, {row}] differ by {asymmetry:.3g} "
            f"(largest diagonal entry {diagonal.max():.3g}). Pass (K + K.T) / 2 if that is what you mean."
        )
    if psd != "raise":
        return
    if diagonal.min() < -tolerance or excess > 10 * tolerance or not _factorises(matrix, tolerance):
        _raise_not_psd(matrix, label, tolerance, advice)


def _look_closely(matrix: NDArray, diagonal: NDArray[np.float64]) -> tuple[float, int, int, float]:
    """The largest asymmetry, its row and column, and the largest excess of |K_ij| over sqrt(K_ii K_jj)."""
    roots = np.sqrt(np.maximum(diagonal, 0.0))
    worst, excess = (0.0, 0, 0), 0.0
    size = max(1, (1 << 20) // max(1, len(matrix)))
    for start in range(0, len(matrix), size):
        some = slice(start, start + size)
        rows = matrix[some].astype(np.float64)
        difference = np.abs(rows - matrix[:, some].T)
        row, column = np.unravel_index(difference.argmax(), difference.shape)
        if difference[row, column] > worst[0]:
            worst = float(difference[row, column]), int(row) + start, int(column)
        excess = max(excess, float((np.abs(rows) - np.outer(roots[some], roots)).max()))
    return (*worst, excess)


def _tolerance(matrix: NDArray, diagonal: NDArray[np.float64]) -> float:
    """Size of errors in a matrix that are put down to rounding."""
    return rounding_tolerance(matrix.dtype) * max(float(np.abs(diagonal).max(initial=0.0)), np.finfo(float).tiny)


def _is_clear(matrix: NDArray, diagonal: NDArray[np.float64], psd: str) -> bool:
    """Whether a look at memory speed finds nothing that needs a closer one.

    Symmetry is judged by K x = K'x for a random x: a difference between mirrored entries shows in the products,
    unless differences cancel in every row they touch, which random numbers do not.
    """
    from multikernel.compiled.gram import screen_rows

    if not np.isfinite(diagonal).all():
        return False
    tolerance = _tolerance(matrix, diagonal)
    probe = _probe(len(matrix))
    roots = np.sqrt(np.maximum(diagonal, 0.0))
    product = np.empty(len(matrix))

    def screen(start: int, stop: int) -> tuple[int, NDArray]:
        transposed = np.zeros(len(matrix))
        return screen_rows(matrix, roots, 10 * tolerance, probe, product, transposed, start, stop), transposed

    parts = over_rows(screen, len(matrix), work=matrix.size / 10)
    with np.errstate(invalid="ignore"):
        difference = product - np.sum([part[1] for part in parts], axis=0)
    if not np.abs(difference).max(initial=0.0) <= 10 * tolerance:  # NaN is not clear either
        return False
    if psd != "raise":
        return True
    too_large = sum(part[0] for part in parts)
    return not too_large and diagonal.min() >= -tolerance and _factorises(matrix, tolerance)


@lru_cache(maxsize=1)
def _probe(n: int) -> NDArray[np.float64]:
    """A random vector of n entries between 1 and 2, with alternating signs."""
    return np.random.default_rng(0).uniform(1.0, 2.0, n) * np.resize([1.0, -1.0], n)


@lru_cache(maxsize=2)
def _some(n: int, n_chosen: int) -> NDArray[np.intp]:
    """At most ``n_chosen`` of n samples, the same ones every time."""
    return np.arange(n) if n <= n_chosen else np.sort(np.random.default_rng(0).choice(n, n_chosen, replace=False))


def _sample(matrix: NDArray, n_samples: int) -> NDArray[np.float64]:
    from multikernel.compiled.smo import gather

    chosen = _some(len(matrix), n_samples)
    sample = np.empty((len(chosen), len(chosen)), dtype=matrix.dtype)
    gather(matrix, chosen, chosen, sample, 0, len(chosen))
    return sample.astype(np.float64, copy=False)


def _factorises(matrix: NDArray, tolerance: float) -> bool:
    """Whether a sample of the matrix, plus what rounding may account for, has a Cholesky factor."""
    sample = _sample(matrix, PSD_SAMPLE)
    sample.ravel()[:: len(sample) + 1] += tolerance * len(sample)
    return lapack.dpotrf(sample.T, lower=1, clean=0, overwrite_a=1)[1] == 0


def _raise_not_psd(matrix: NDArray, label: str, tolerance: float, advice: str) -> None:
    eigenvalues = np.linalg.eigvalsh(_sample(matrix, 2000))
    if eigenvalues[0] >= -tolerance * len(matrix):
        return  # a large off-diagonal entry within rounding of the diagonal after all
    where = "" if len(matrix) <= 2000 else " (on 2000 of its samples)"
    if not np.diagonal(matrix).any():
        advice = (
            "Its diagonal is zero. If these are distances D, use kernels=[FromDistance()], which computes "
            "exp(-D / mean D)."
        )
    raise ValueError(
        f"{label} is not positive semi-definite: its smallest eigenvalue is {eigenvalues[0]:.3g} "
        f"(largest {eigenvalues[-1]:.3g}){where}.\n{advice}"
    )


def check_test_stack(
    stack: GramStack, n_train: int, names: Sequence[str], largest: NDArray, unit: NDArray[np.bool_]
) -> GramStack:
    """Check that a rectangular stack matches the training kernels, and put its kernels in the order of ``names``.

    ``largest`` is the largest diagonal entry of each training kernel, and ``unit`` says which of them have the same
    value all along their diagonal: no entry can be larger.
    """
    stack = match_names(stack, names)
    n_rows, n_columns, _ = stack.shape
    if n_columns != n_train:
        hint = " It looks transposed: rows are new samples." if n_rows == n_train else ""
        raise ValueError(
            f"the test kernel has {n_columns} columns, but the model was trained on {n_train} samples: pass the "
            f"kernel between new samples (rows) and all training samples (columns).{hint}"
        )
    if stack.stored:
        for k, size in enumerate(_largest_entries(stack)):
            _check_scale(_label(k, names), size, largest[k], unit[k])
    return stack


def match_names(stack: GramStack, names: Sequence[str]) -> GramStack:
    """The stack with its kernels in the order of ``names``; kernels that were never named are taken as they come."""
    if stack.n_kernels != len(names):
        raise ValueError(
            f"the test kernel has {stack.n_kernels} kernels, but the model was trained on {len(names)}: pass all of "
            "them, in the same order."
        )
    given, unnamed = list(stack.names), list(kernel_names(None, len(names)))
    if given in (list(names), unnamed) or list(names) == unnamed:
        return stack
    if set(given) != set(names):
        raise ValueError(
            f"the test kernels are named {given}, but the model was trained on {list(names)}; missing: "
            f"{sorted(set(names) - set(given))}. Pass kernels with the same names, or an array without names."
        )
    return stack.take(kernels=[given.index(name) for name in names])


def _check_scale(label: str, size: float, largest: float, unit: bool) -> None:
    if not np.isfinite(size):
        raise ValueError(
            f"{label} has entries that are NaN or infinite in the test kernel. Remove or impute those samples before "
            "computing the kernel."
        )
    if unit and size > 1.01 * largest:
        raise ValueError(
            f"{label} reaches {size:.3g} in the test kernel, but every training sample has k(x, x) = {largest:.3g}, "
            "which no entry can exceed. Normalise the test kernel in the same way as the training kernel."
        )
    if size > 100.0 * largest > 0.0:
        warn_user(
            f"{label} reaches {size:.3g} in the test kernel but {largest:.3g} in training. Was it scaled or "
            "normalised differently from the training kernel?",
            UserWarning,
        )


def _largest_entries(stack: GramStack) -> NDArray[np.float64]:
    largest = np.zeros(stack.n_kernels)
    for _, block in stack.blocks():
        if block.size:
            extremes = np.maximum(block.max(axis=(1, 2)), -block.min(axis=(1, 2)))  # NaN stays NaN
            largest = np.maximum(largest, extremes)
    return largest


def fit_clip(stack: GramStack) -> tuple[dict[int, NDArray], GramStack]:
    """Drop the negative part of each training kernel; costs an eigen-decomposition per kernel.

    Returns the eigenvectors (n, r) that were projected out of each kernel that had some, by position, and the stack.
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
    similarity = stack.diagonal() if stack.knows_diagonal() and not stack.symmetric else None
    for k, vectors in negative.items():
        clipped = array[k] - (array[k] @ vectors) @ vectors.T
        array[k] = (clipped + clipped.T) / 2 if stack.symmetric else clipped
    return DenseStack.owning(array, stack.names, symmetric=stack.symmetric, self_similarity=similarity)


def without_holes(stack: GramStack) -> tuple[GramStack, NDArray[np.bool_], NDArray[np.bool_]]:
    """A stored stack with zeros in rows and columns that are NaN throughout; which rows and columns, (F, n) each."""
    array = np.array(stack.to_array())
    holes = np.isnan(array)
    rows, columns = holes.all(axis=2), holes.all(axis=1)
    if rows.any() or columns.any():
        # a column that has numbers in some row is none if these rows are the only ones that are there
        columns &= ~rows.all(axis=1)[:, None]
        rows = (holes | columns[:, None, :]).all(axis=2)
        array[np.broadcast_to(rows[:, :, None], array.shape) | np.broadcast_to(columns[:, None, :], array.shape)] = (
            0.0
        )
    known = stack.knows_diagonal() and not stack.symmetric
    similarity = stack.diagonal() if known else None
    return DenseStack.owning(array, stack.names, symmetric=stack.symmetric, self_similarity=similarity), rows, columns
