"""Cuts of many labels, and the level method on them with one SVM a cut."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from multikernel.monitor import Monitor
from multikernel.multilabel import WorstLabelProblem
from multikernel.solvers.inexact import InnerTolerance
from multikernel.solvers.masters import CuttingPlaneModel

Vector = NDArray[np.float64]

# Cuts kept beside the ones that count; SVMs of a point that seems good before all labels are looked at there.
MOST_CUTS, TRIALS = 500, 3
# Relative gap of the SVMs in the first pass over the labels.
ROUGH = 1e-2


class LabelCuts(CuttingPlaneModel):
    """Cuts of any label bound the worst label's optimum from below: ``max_k J_k(p) ≥ linear − ½ p·q``.

    Parameters
    ----------
    n_kernels : int
        Number of weights F.

    Examples
    --------
    >>> import numpy as np
    >>> from multikernel.solvers.label_cuts import LabelCuts
    >>> cuts = LabelCuts(2)
    >>> cuts.add_of(0, 1.0, np.array([2.0, 0.0]))
    >>> cuts.add_of(1, 1.0, np.array([0.0, 2.0]))
    >>> cuts.most_promising(np.array([1.0, 0.0]), n_labels=2, without=[])
    1
    """

    def __init__(self, n_kernels: int):
        super().__init__(n_kernels, 1.0, "lp")
        self.owners: list[int] = []

    def add_of(self, label: int, constant: float, q: NDArray) -> None:
        """Add a cut of a label."""
        self.add(constant, q)
        self.owners.append(label)

    def solve(self) -> tuple[Vector, float]:
        found = super().solve()
        if len(self) > 2 * MOST_CUTS:
            self._forget()
        return found

    def most_promising(self, p: Vector, n_labels: int, without: list[int]) -> int:
        """The label whose cuts are highest at p."""
        best = np.full(n_labels, -np.inf)
        np.maximum.at(best, self.owners, np.array(self.constants) - 0.5 * (np.array(self.forms) @ p))
        best[without] = -np.inf
        return int(best.argmax())

    def _forget(self) -> None:
        """Drop the oldest cuts, but those that carry the bound and the last of each label."""
        kept = self.multipliers > 1e-12
        kept[-MOST_CUTS:] = True
        kept[[len(self) - 1 - self.owners[::-1].index(k) for k in set(self.owners)]] = True
        chosen = np.flatnonzero(kept)
        self.constants = [self.constants[r] for r in chosen]
        self.forms = [self.forms[r] for r in chosen]
        self.owners = [self.owners[r] for r in chosen]
        self.multipliers = self.multipliers[chosen]


def label_level(
    problem: WorstLabelProblem,
    monitor: Monitor,
    start: tuple[NDArray, NDArray] | None = None,
    *,
    max_iter: int = 1000,
    level: float = 0.5,
) -> None:
    """The level method for the worst label: a cut costs one label's SVM, not those of all [XJKL09].

    Every cut of every label bounds the objective from below. The next weights are the nearest to the last at which no
    cut is above a level between the bounds. There the label with the highest cut is solved: if its value is above the
    level, that is a new cut, and no other label matters. Only where a few labels stay below the level are all
    labels looked at that can be the worst.

    Parameters
    ----------
    problem : WorstLabelProblem
    monitor : Monitor
        Judges points where the objective is known; has the result.
    start : (weights, alpha), optional
        Where to start.
    max_iter : int
        Largest number of points.
    level : float
        Between 0, the lower bound, and 1, the upper bound.
    """
    weights, alpha = problem.start() if start is None else start
    labels, tol, cuts = np.arange(problem.n_labels), InnerTolerance(monitor), LabelCuts(problem.n_kernels)
    # 1. a rough pass over all labels
    alpha = problem.solve_labels(weights, alpha, labels, np.full(len(labels), max(tol.value, ROUGH)))
    _add_all(problem, cuts, alpha, labels)
    svms, good = len(labels), True
    for _ in range(max_iter):
        # 2. the objective at a good point
        if good:
            refined = problem.refine(weights, alpha, tol.value)
            changed = np.flatnonzero((refined != alpha).any(axis=0))
            alpha, svms = refined, svms + len(changed)
            _add_all(problem, cuts, alpha, changed)
        # 3. bounds
        monitor.prove(cuts.solve()[1])
        upper = monitor.certificate.primal
        if good or upper - monitor.bound <= monitor.tol * abs(upper):
            monitor.notes = {"svms": svms}
            if monitor(weights if good else monitor.best[0], alpha if good else monitor.best[1]):  # type: ignore[index]
                return
            tol.follow()
        # 4. the nearest weights on the level set, and the labels that are highest there
        upper = monitor.certificate.primal
        goal = monitor.bound + level * (upper - monitor.bound)
        moved = cuts.project(weights, goal)
        if float(np.abs(moved - weights).max()) <= 1e-14 and not good and not tol.tighten():
            monitor.stopped = "rounding"
            return
        weights = moved
        tried: list[int] = []
        good = True
        while good and len(tried) < min(TRIALS, len(labels)):
            k = cuts.most_promising(weights, len(labels), tried)
            alpha[:, k], linear, forms = problem.solve_label(k, problem.kernel(weights), alpha[:, k], tol.value)
            problem.remember(k, alpha[:, k], forms)
            cuts.add_of(k, linear, forms)
            tried.append(k)
            good = linear - 0.5 * float(weights @ forms) <= goal
        svms += len(tried)


def _add_all(problem: WorstLabelProblem, cuts: LabelCuts, alpha: NDArray, labels: NDArray[np.intp]) -> None:
    forms, linear = problem.label_forms(alpha), problem.inner.linear(alpha)
    for k in labels:
        cuts.add_of(int(k), linear[k], forms[:, k])
