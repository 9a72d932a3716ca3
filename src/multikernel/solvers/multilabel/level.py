"""Cuts of many labels, and the level method on them with one SVM per cut."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import compress

import numpy as np
from numpy.typing import NDArray

from multikernel.problems.cutting_planes import CuttingPlaneModel
from multikernel.problems.multilabel import WorstLabelProblem
from multikernel.runtime.clock import OutOfTime
from multikernel.runtime.monitor import SAME_GAP, InnerTolerance, Monitor
from multikernel.solvers.common.newton import Start

Vector = NDArray[np.float64]

LEVEL = 0.5  # of the next points: 0 is the lower bound, 1 the upper bound
MOST_CUTS, TRIALS = 500, 3  # old cuts kept; SVMs of a point that seems good before all labels are looked at there
ROUGH = 1e-2  # relative gap of the SVMs in the first pass over the labels
# Share of the tolerance at which the expected gap is worth a look at all labels, and points after which one is due.
CLOSE, JUDGED = 0.5, 40
# Points, plus one per kernel and label, that may leave the expected gap as it is, and looks at all labels that may
# leave the proved one.
PATIENCE, LOOKS = 100, 10
AT_ONCE = 64  # labels at a time in passes over all of them
TRIMMED = 0.02  # share of the relative gap that kernels left out of a point may weigh: they cost, and do nothing


class LabelCuts(CuttingPlaneModel):
    """Cuts of any label bound the worst label's optimum from below: ``max_k J_k(p) ≥ linear − ½ p·q``."""

    def __init__(self, n_kernels: int):
        super().__init__(n_kernels, 1.0)
        self.owners: list[int] = []

    def add_of(self, label: int, constant: float, q: NDArray, alpha: NDArray | None = None) -> None:
        """Add a cut of a label, and the alpha that makes it."""
        self.add(constant, q, alpha)
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
        for name in ("constants", "forms", "owners", "alphas", "proved"):
            setattr(self, name, list(compress(getattr(self, name), kept)))
        self.multipliers = self.multipliers[kept]


def without_smallest(weights: Vector, share: float) -> Vector:
    """Weights on the simplex without the smallest that make up at most ``share`` of it, the others scaled."""
    order = np.argsort(weights, kind="stable")
    kept = np.array(weights)
    kept[order[np.cumsum(weights[order]) <= share]] = 0.0
    return kept / kept.sum()


def label_level(problem: WorstLabelProblem, monitor: Monitor, start: Start = None, *, max_iter: int = 1000) -> None:
    """The level method for the worst label: a cut costs one label's SVM, not those of all [XJKL09].

    Every cut of every label bounds the objective from below. The next weights are the nearest to the last at which no
    cut is above a level between the bounds. There the labels with the highest cuts are solved: a value above it is a
    new cut, and no other label matters. Where a few labels stay below the level, the largest of their values is hoped
    to be the objective. Only once that is close to the lower bound are all labels looked at that can be the worst.
    ``max_iter`` is the largest number of points.
    """
    search = _Search(problem, monitor, *(problem.start() if start is None else start))
    monitor.patience = LOOKS
    try:
        # 1. a rough pass over all labels, and the objective at the start, unless a run that is resumed has been there
        search.resume()
        search.first_pass()
        stop, since = monitor.best is None and search.judge(), 0
        for _ in range(max_iter):
            if stop:
                return
            # 2. the nearest weights on the level set, and the labels that are highest there
            moved = search.move()
            since += 1
            # 3. the objective, where it promises to be low enough
            if search.promising() or since >= JUDGED:
                stop, since = search.judge(), 0
            elif search.is_stuck() or (not moved and not search.tol.tighten()):
                monitor.stopped = "rounding"
                break
        if since:
            search.judge()
    except OutOfTime as end:
        end.reached = search.best, search.alpha
        raise


class _Search:
    """State of the level method: cuts, the last weights, and the best weights with what is hoped of them."""

    def __init__(self, problem: WorstLabelProblem, monitor: Monitor, weights: Vector, alpha: NDArray):
        self.problem, self.monitor = problem, monitor
        self.weights, self.alpha = weights, np.array(alpha)
        self.best, self.hoped = weights, np.inf
        self.cuts, self.tol, self.svms = LabelCuts(problem.n_kernels), InnerTolerance(monitor), 0
        self._least, self._stuck = np.inf, 0  # the gap when it last fell, and points since then

    def resume(self) -> None:
        """The cuts of the run that is resumed, proved once they count, and its best weights."""
        kept, (n, n_labels) = self.monitor.kept, self.alpha.shape
        owners = kept.get("owners", np.zeros(0))
        if len(owners) == len(kept.get("cuts", ())) and np.isin(owners, np.arange(n_labels)).all():
            self.cuts.take_over(kept, (n,), self._prove)
            self.cuts.owners = owners.astype(int).tolist()[: len(self.cuts)]
        self.monitor.keep = self._kept
        if self.monitor.best is not None and len(self.cuts):
            self.best, self.hoped = self.monitor.best[0], self.monitor.certificate.primal
            best, hoped = kept.get("best", np.zeros(0)), kept.get("hoped", np.zeros(0))
            if best.shape == self.best.shape and hoped.shape == ():
                self.best, self.hoped = self.problem.repaired(best, self.alpha)[0], float(hoped)
            self._bound()

    def _prove(self, rows: Sequence[int]) -> Iterator[tuple[float, Vector, Vector]]:
        """What the alphas of cuts prove of their labels, in one pass over the kernels."""
        owners = np.array([self.cuts.owners[r] for r in rows])
        svms = [self.problem.inner.svms[k] for k in owners]
        alphas = np.column_stack([svm.repair(np.asarray(self.cuts.alphas[r])) for svm, r in zip(svms, rows)])
        constants, forms = self.problem.cuts_of(owners, alphas)
        yield from zip(constants, forms.T, alphas.T)

    def _kept(self) -> dict[str, NDArray]:
        kept = {"owners": np.array(self.cuts.owners, float), **self.cuts.kept()}
        return {**kept, "best": self.best, "hoped": np.array(self.hoped)} if np.isfinite(self.hoped) else kept

    def first_pass(self) -> None:
        """A cut, at the start, of each label that has none."""
        missing = np.setdiff1d(np.arange(self.problem.n_labels), self.cuts.owners)
        for first in range(0, len(missing), AT_ONCE):
            labels = missing[first : first + AT_ONCE]
            tols = np.full(len(labels), max(self.tol.value, ROUGH))
            self.alpha = self.problem.solve_labels(self.weights, self.alpha, labels, tols)
            self.svms += len(labels)
            self._add_cuts(labels)
            self.monitor.save(self.weights, self.alpha)

    def promising(self) -> bool:
        """Whether the best point would be good enough, were the objective what is hoped."""
        return self.hoped - self.monitor.bound <= CLOSE * self.monitor.tol * abs(self.hoped)

    def is_stuck(self) -> bool:
        """Whether as many points as allowed have hardly moved the expected gap."""
        gap = self._gap()
        self._least, self._stuck = (gap, 0) if gap < SAME_GAP * self._least else (self._least, self._stuck + 1)
        return self._stuck > PATIENCE + self.problem.n_kernels + self.problem.n_labels

    def _gap(self) -> float:
        """The gap that is hoped for, relative."""
        return (self.hoped - self.monitor.bound) / max(abs(self.hoped), 1e-300)

    def judge(self) -> bool:
        """Find the objective at the best point, with all labels that can be the worst; True to stop."""
        refined = self.problem.refine(self.best, self.alpha, self.tol.value)
        changed = np.flatnonzero((refined != self.alpha).any(axis=0))
        self.alpha, self.svms = refined, self.svms + len(changed)
        self._add_cuts(np.intersect1d(changed, self.problem.contenders(self.best, self.alpha)))
        self._bound()
        self.monitor.notes = {"svms": self.svms}
        if self.monitor(self.best, self.alpha):
            return True
        self.tol.follow()
        assert self.monitor.best is not None
        self.best, self.hoped = self.monitor.best[0], self.monitor.certificate.primal
        return False

    def move(self) -> bool:
        """Go to the level set, and add a cut there; False if the weights did not change."""
        goal = self.monitor.bound + LEVEL * (self.hoped - self.monitor.bound)
        moved = without_smallest(self.cuts.project(self.weights, goal), TRIMMED * min(self._gap(), 1.0))
        changed = float(np.abs(moved - self.weights).max()) > 1e-14
        self.weights = moved
        tried: list[int] = []
        highest = -np.inf
        while highest <= goal and len(tried) < min(TRIALS, self.problem.n_labels):
            k = self.cuts.most_promising(moved, self.problem.n_labels, tried)
            tried.append(k)
            highest = max(highest, self._solve(k))
        if highest <= goal:
            self.best, self.hoped = moved, highest
        self._bound()
        return changed

    def _solve(self, k: int) -> float:
        """The value of a label at the weights, which makes a cut."""
        problem, weights = self.problem, self.weights
        column, linear, forms = problem.solve_label(k, problem.kernel(weights), self.alpha[:, k], self.tol.value)
        self.alpha[:, k] = column
        self.cuts.add_of(k, linear, forms, column if self.monitor.resumable else None)
        self.svms += 1
        self.monitor.save(weights, self.alpha)
        return linear - 0.5 * float(weights @ forms)

    def _add_cuts(self, labels: NDArray[np.intp]) -> None:
        constants, forms = self.problem.cuts(self.alpha, labels)
        for k, constant, q in zip(labels, constants, forms.T):
            self.cuts.add_of(int(k), constant, q, self.alpha[:, k] if self.monitor.resumable else None)

    def _bound(self) -> None:
        self.monitor.prove(self.cuts.solve()[1])
