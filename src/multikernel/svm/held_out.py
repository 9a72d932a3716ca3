"""An SVM for each kernel and label, and its scores of samples that it was not trained on."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from multikernel.gram import GramStack
from multikernel.gram.combination import WeightedSum, one_kernel
from multikernel.runtime.clock import OutOfTime
from multikernel.svm.labels import LabelSVMs
from multikernel.svm.quadratic_program import KernelOperator, kernel_times

Array = NDArray[np.float64]
Folds = Sequence[tuple[NDArray[np.intp], NDArray[np.intp]]]


@dataclass
class KernelMachines:
    """What is known of the SVMs of F kernels and T labels."""

    alpha: Array  # (F, n, T): signed dual coefficients of the SVMs trained on all samples
    intercepts: Array  # (F, T)
    held_out: Array  # (F, n, T): scores of each sample by SVMs that were trained without it
    C: Array  # (F,): price of an error
    gap: float  # the largest relative duality gap of any of the SVMs used
    done: NDArray[np.bool_]  # (F,): kernels reached before time ran out; the others have scores of zero
    why: str = ""  # why kernels were left out, if any were: "interrupted" or "time"


def kernel_machines(
    stack: GramStack,
    signs: Array,
    folds: Folds,
    grids: Sequence[Sequence[float]],
    *,
    sample_weight: Array,
    memory: int,
    tol: float = 1e-3,
) -> KernelMachines:
    """Train an SVM for each kernel, label and fold, and one on everything; kernel after kernel, until time is up.

    ``folds`` have each sample in at least one test part; where it is in several its scores are averaged. ``grids``
    has values of C for each kernel: the one with the best held-out accuracy is taken, the smallest of equals.
    ``memory`` is what a kernel may take, in bytes; beyond half of it rows are computed when they are needed.

    Examples
    --------
    >>> import numpy as np
    >>> from multikernel import gram_stack
    >>> from multikernel.svm.held_out import kernel_machines
    >>> x = np.array([-2.0, -1.8, -1.6, -1.4, 1.4, 1.6, 1.8, 2.0])[:, None]
    >>> even, odd = np.arange(0, 8, 2), np.arange(1, 8, 2)
    >>> machines = kernel_machines(gram_stack(np.outer(x, x)[:, :, None]), np.sign(x), [(even, odd), (odd, even)],
    ...                            [[1.0]], sample_weight=np.ones(8), memory=10**6)
    >>> np.sign(machines.held_out[0, :, 0])
    array([-1., -1., -1., -1.,  1.,  1.,  1.,  1.])
    """
    F, (n, T) = stack.n_kernels, signs.shape
    machines = KernelMachines(
        np.zeros((F, n, T)), np.zeros((F, T)), np.zeros((F, n, T)), np.zeros(F), 0.0, np.zeros(F, dtype=bool)
    )
    for j in range(F):
        try:
            kernel = one_kernel(stack.take(kernels=[j]), WeightedSum(np.ones(1)), memory)
            _train(machines, j, kernel, signs, folds, grids[j], sample_weight, tol)
        except KeyboardInterrupt:
            if j == 0:  # no kernel is done: there is nothing to make a model of
                raise
            machines.why = "interrupted"
            break
        except OutOfTime:
            machines.why = "time"
            break
        machines.done[j] = True
    machines.C[~machines.done] = [grid[0] for grid, done in zip(grids, machines.done) if not done]
    return machines


def _train(
    machines: KernelMachines,
    j: int,
    kernel: NDArray | KernelOperator,
    signs: Array,
    folds: Folds,
    grid: Sequence[float],
    sample_weight: Array,
    tol: float,
) -> None:
    """Fill in what belongs to kernel j: held-out scores along the grid, then the SVMs on all samples."""
    # One set of labels a fold: a sign of zero takes a sample out, so that all share a kernel that is never cut.
    spread = np.hstack([_without(signs, test) for _, test in folds])
    best, warm = -np.inf, None
    for C in sorted(grid):
        svms = LabelSVMs(spread, C, sample_weight=sample_weight)
        _, warm = svms.solve(kernel, warm, tol=tol, warn=False)
        scores = kernel_times(kernel, warm)
        held_out = _held_out(scores + svms.intercept(scores), folds, signs.shape)
        accuracy = _accuracy(held_out, signs, sample_weight)
        if accuracy > best:
            best, chosen, alpha = accuracy, C, warm
            gap = _worst(svms, scores, warm)
            machines.held_out[j] = held_out
    # The mean of the folds is near the SVM on everything. Folds must not start from that: it knows their test parts.
    start = alpha.reshape(len(signs), len(folds), -1).sum(axis=1) / max(len(folds) - 1, 1)
    svms = LabelSVMs(signs, chosen, sample_weight=sample_weight)
    _, full = svms.solve(kernel, start, tol=tol, warn=False)
    scores = kernel_times(kernel, full)
    machines.alpha[j], machines.intercepts[j], machines.C[j] = full, svms.intercept(scores), chosen
    machines.gap = max(machines.gap, gap, _worst(svms, scores, full))


def _without(signs: Array, test: NDArray[np.intp]) -> Array:
    """The signs with zeros for a fold's test part."""
    signs = signs.copy()
    signs[test] = 0.0
    return signs


def _held_out(scores: Array, folds: Folds, shape: tuple[int, int]) -> Array:
    """Out of scores (n, folds·T) of all samples by all folds those of the test parts, shape (n, T)."""
    total, count = np.zeros(shape), np.zeros(shape[0])
    for k, (_, test) in enumerate(folds):
        total[test] += scores[test, k * shape[1] : (k + 1) * shape[1]]
        count[test] += 1.0
    return total / count[:, None]


def _accuracy(scores: Array, signs: Array, weight: Array) -> float:
    """Weighted share of samples whose label is the one with the largest score (one label: the right sign)."""
    if signs.shape[1] == 1:
        right = (scores[:, 0] > 0.0) == (signs[:, 0] > 0.0)
    else:
        right = scores.argmax(axis=1) == signs.argmax(axis=1)
    return float(weight @ right) / max(float(weight.sum()), np.finfo(float).tiny)


def _worst(svms: LabelSVMs, scores: Array, alpha: Array) -> float:
    """Largest relative duality gap of the labels; none where a label has one class only, and a bias does all."""
    certificates = svms.certificates(scores, alpha)
    return max(c.relative_gap if alpha[:, t].any() else 0.0 for t, c in enumerate(certificates))


def held_out_folds(cv: Any, labels: NDArray) -> Folds:
    """Training and held-out parts of ``cv``; an integer is lowered to the size of the smallest class."""
    given = cv
    if isinstance(cv, int) and not isinstance(cv, bool):
        largest = int(np.unique(labels, return_counts=True)[1].max())
        if largest < 2:
            raise ValueError("every class has only one sample: there is nothing to hold out. Add samples.")
        cv = max(2, min(cv, int(np.unique(labels, return_counts=True)[1].min())))
    from sklearn.model_selection import check_cv

    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The least populated class")
        folds = list(check_cv(cv, labels, classifier=True).split(np.zeros((len(labels), 1)), labels))
    # what a fold does not train on is held out
    folds = [(train, np.setdiff1d(np.arange(len(labels)), train)) for train, _ in folds]
    n_covered = len(np.unique(np.concatenate([rest for _, rest in folds])))
    if n_covered < len(labels):
        raise ValueError(
            f"cv={given!r} holds out {n_covered} of {len(labels)} samples, but the weights need held-out "
            "scores for all of them. Use folds that cover all samples, such as StratifiedKFold."
        )
    return folds


def price_grids(C: Any, Cs: Any, n_kernels: int) -> list[list[float]]:
    """Values of C for each kernel, from one number, one per kernel, or "cv" for all of ``Cs``."""
    if isinstance(C, str) and C != "cv":
        raise ValueError(f'C={C!r} is not known: give a number, one for each kernel, or "cv" to choose among Cs.')
    name, given = ("Cs", Cs) if isinstance(C, str) else ("C", C)
    values = np.asarray(given, dtype=np.float64)
    if not values.size or not (np.isfinite(values) & (values > 0.0)).all():
        raise ValueError(f"{name}={given!r} must be positive: it is the price of an error.")
    if name == "Cs":
        return [sorted(values.ravel().tolist())] * n_kernels
    if values.ndim > 1 or (values.ndim == 1 and len(values) != n_kernels):
        raise ValueError(f"C has shape {values.shape}: give one number, or one for each of the {n_kernels} kernels.")
    return [[float(value)] for value in np.broadcast_to(values, n_kernels)]
