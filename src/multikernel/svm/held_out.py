"""An SVM for each kernel and label, and its scores of samples that it was not trained on."""

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from multikernel.gram import GramStack, WeightedSum, one_kernel
from multikernel.svm.labels import LabelSVMs
from multikernel.svm.quadratic_program import KernelOperator, kernel_times

Array = NDArray[np.float64]
Folds = Sequence[tuple[NDArray[np.intp], NDArray[np.intp]]]


class KernelMachines:
    """SVMs of F kernels and T labels: one for each fold of the samples, and one on everything.

    ``folds`` have each sample in at least one test part; where it is in several its scores are averaged. ``grids``
    has values of C for each kernel: the one with the best held-out accuracy is taken, the smallest of equals.
    ``memory`` is what a kernel may take, in bytes; beyond half of it rows are computed when they are needed.
    """

    def __init__(
        self,
        stack: GramStack,
        signs: Array,
        folds: Folds,
        grids: Sequence[Sequence[float]],
        *,
        sample_weight: Array,
        memory: int,
        tol: float = 1e-3,
    ):
        self.stack, self.signs, self.folds, self.grids = stack, signs, folds, grids
        self.sample_weight, self.memory, self.tol = sample_weight, memory, tol
        F, (n, T) = stack.n_kernels, signs.shape
        self.alpha = np.zeros((F, n, T))  # signed dual coefficients of the SVMs trained on all samples
        self.intercepts = np.zeros((F, T))
        self.held_out = np.zeros((F, n, T))  # scores of each sample by SVMs that were trained without it
        self.C = np.array([grid[0] for grid in grids], dtype=np.float64)  # price of an error of each kernel
        self.gap = 0.0  # the largest relative duality gap of any of the SVMs
        self.done = np.zeros(F, dtype=bool)

    def train(self, advance: Callable[[], None] = lambda: None) -> None:
        """Train kernel after kernel; ``advance`` is called after each. What is done when this ends early is kept."""
        for j in range(self.stack.n_kernels):
            _train(self, j)
            self.done[j] = True
            advance()


def _train(machines: KernelMachines, j: int) -> None:
    """Held-out scores of kernel j along its grid, then the SVMs on all samples."""
    signs, weight, tol = machines.signs, machines.sample_weight, machines.tol
    kernel = one_kernel(machines.stack.take(kernels=[j]), WeightedSum(np.ones(1)), machines.memory)
    trains = [train for train, _ in machines.folds]
    best, warm = -np.inf, None
    for C in sorted(machines.grids[j]):
        scores, warm, gap = fold_scores(kernel, signs, trains, C, sample_weight=weight, tol=tol, warm=warm)
        held_out = _held_out(scores, machines.folds, signs.shape)
        accuracy = _accuracy(held_out, signs, weight)
        if accuracy > best:
            best, chosen, alpha, own_gap, own_scores = accuracy, C, warm, gap, held_out
    # The mean of the folds is near the SVM on everything. Folds must not start from that: it knows their test parts.
    start = alpha.reshape(len(signs), len(trains), -1).sum(axis=1) / max(len(trains) - 1, 1)
    svms = LabelSVMs(signs, chosen, sample_weight=weight)
    _, full = svms.solve(kernel, start, tol=tol, warn=False)
    scores = kernel_times(kernel, full)
    machines.alpha[j], machines.intercepts[j] = full, svms.intercept(scores)
    machines.held_out[j], machines.C[j] = own_scores, chosen
    machines.gap = max(machines.gap, own_gap, _worst(svms, scores, full))


def fold_scores(
    kernel: NDArray | KernelOperator,
    signs: Array,
    trains: Sequence[NDArray],
    C: float,
    *,
    sample_weight: Array,
    tol: float,
    warm: Array | None = None,
) -> tuple[Array, Array, float]:
    """Scores of all samples by SVMs on each fold's training part (n, folds·T), their alpha, and largest gap."""
    # One set of labels per fold: a sign of zero takes a sample out, so that all share a kernel that is never cut.
    spread = np.hstack([_only(signs, train) for train in trains])
    svms = LabelSVMs(spread, C, sample_weight=sample_weight)
    _, alpha = svms.solve(kernel, warm, tol=tol, warn=False)
    scores = kernel_times(kernel, alpha)
    return scores + svms.intercept(scores), alpha, _worst(svms, scores, alpha)


def _only(signs: Array, train: NDArray) -> Array:
    """The signs of a fold's training part, and zeros."""
    chosen = np.zeros_like(signs)
    chosen[train] = signs[train]
    return chosen


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


def possible_folds(cv: Any, labels: NDArray) -> Any:
    """``cv``; an integer is lowered to the size of the smallest class."""
    if not isinstance(cv, int) or isinstance(cv, bool):
        return cv
    sizes = np.unique(labels, return_counts=True)[1]
    if sizes.max() < 2:
        raise ValueError("every class has only one sample: there is nothing to hold out. Add samples.")
    return max(2, min(cv, int(sizes.min())))


def held_out_folds(cv: Any, labels: NDArray) -> Folds:
    """Training and held-out parts of ``cv``; an integer is lowered to the size of the smallest class."""
    given, cv = cv, possible_folds(cv, labels)
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
