"""The best t kernels, proved: cuts from SVMs, and a master problem over all choices of t kernels."""

from __future__ import annotations

import math
import time
from typing import Any

import numpy as np
from numpy.typing import NDArray

from multikernel.inner.labels import LabelSVMs
from multikernel.inner.svm import NuSVM
from multikernel.minmax import MinMaxProblem
from multikernel.monitor import Monitor
from multikernel.solvers.choices import ChoiceList, ChoiceProgram, surviving
from multikernel.solvers.newton import newton
from multikernel.weight_sets import CappedSimplex

Vector = NDArray[np.float64]

# Rounds of swaps at the start, of further cuts where too many choices are left to be listed, and choices that get an
# SVM in each of these.
MOST_ROUNDS, MORE_CUTS, MANY = 10, 20, 64
# Choices of an incomplete list that are looked at for that.
LOOK = 200_000
# Relative gap of the SVM at a choice as long as it is worse than the best: it is to be ruled out, not to be known.
ROUGH = 1e-2
# Share of the tolerance by which a choice must promise to be better to be listed.
SLACK = 0.5


class SelectionProblem(MinMaxProblem):
    """``min J(g)`` over g in {0, 1}^F with t ones; bounds on the relaxation, weights in [0, 1], hold for it too.

    Parameters
    ----------
    stack, inner, weight_set, memory
        As for :class:`~multikernel.minmax.MinMaxProblem`; the set is a capped simplex with a whole number t.
    deadline : float
        When to be done, on the clock of ``time.monotonic``.
    """

    def __init__(self, stack: Any, inner: Any, weight_set: CappedSimplex, memory: int, deadline: float = math.inf):
        super().__init__(stack, inner, weight_set, memory)
        self.deadline = deadline
        self.t = round(weight_set.t)

    def start(self) -> tuple[NDArray, NDArray]:
        """The first t kernels, and a feasible alpha."""
        return np.where(np.arange(self.n_kernels) < self.t, 1.0, 0.0), self.inner.start()

    def relaxed(self) -> MinMaxProblem:
        """The same with weights in [0, 1]."""
        return MinMaxProblem(self.stack, self.inner, self.weight_set, self.memory)

    @property
    def shrinks(self) -> bool:
        """Whether ``s·alpha`` is feasible for 0 ≤ s ≤ 1: so it is for C-SVMs, not for ν-SVMs."""
        one = self.inner.svms[0] if isinstance(self.inner, LabelSVMs) else self.inner
        return not isinstance(one, NuSVM)


def exact_selection(
    problem: SelectionProblem,
    monitor: Monitor,
    start: tuple[NDArray, NDArray] | None = None,
    *,
    max_iter: int = 1000,
) -> None:
    """The best t kernels by outer approximation: J is convex, and every alpha bounds it from below everywhere.

    1. The relaxation, its cuts, and its t largest weights. 2. Swaps of a chosen kernel for another one as long as J
    falls; swaps that a cut rules out cost nothing. 3. In turn, a master problem, whose least value is a lower bound
    on J over all choices, and SVMs at the choices where it is attained. The master problem looks at all choices that
    the cuts leave where they can be listed, and is a mixed-integer program [SRSS06, eq. (12)] with g in {0, 1}
    otherwise.

    Parameters
    ----------
    problem : SelectionProblem
        With a whole number t.
    monitor : Monitor
        Judges each iteration; has the result.
    start : (weights, alpha), optional
        Where to start.
    max_iter : int
        Largest number of master problems.
    """
    search = _Search(problem, monitor)
    if search.relax(start) or search.swap() or search.open():
        return
    for _ in range(max_iter):
        bound, wanted = search.master.solve(monitor.certificate.primal, problem.deadline)
        monitor.prove(bound)
        new = [g for g in wanted if search.key(g) not in search.seen]
        # a choice that comes back has its exact value in the master problem, up to the inner tolerance
        if not new:
            search.tighten()
            new = wanted or [search.best]
        if any(search.visit(g) for g in new):
            return


class _Search:
    """State of an exact selection: cuts, choices seen, and the best of them."""

    def __init__(self, problem: SelectionProblem, monitor: Monitor):
        self.problem, self.monitor = problem, monitor
        self.master: Any = None
        self.seen: dict[bytes, float] = {}
        self.cuts: list[tuple[float, Vector]] = []
        self.tol = min(0.1 * monitor.tol, 1e-3)
        self.best, self.alpha = problem.start()
        self.value = math.inf

    @staticmethod
    def key(g: Vector) -> bytes:
        """A choice as something that can be looked up."""
        return (g > 0.5).tobytes()

    def tighten(self) -> None:
        """Solve SVMs more exactly from now on."""
        self.tol = max(0.1 * self.tol, 1e-12)

    def cut(self, alpha: NDArray) -> None:
        """Add what an alpha proves."""
        constant, q = self.problem.cut(alpha)
        self.cuts.append((constant, q))
        if self.master is not None:
            self.master.add(constant, q)

    def open(self) -> bool:
        """Make the master problem of the cuts so far; True if the monitor says stop meanwhile.

        Choices that the cuts leave are listed. Where they are too many, SVMs at the best of those found make more
        cuts; if that does not help either, the master problem is a mixed-integer program.
        """
        F, t, shrinks = self.problem.n_kernels, self.problem.t, self.problem.shrinks
        for _ in range(MORE_CUTS):
            primal = self.monitor.certificate.primal
            below = primal - SLACK * self.monitor.tol * abs(primal)
            members, complete = surviving(self.cuts, t, shrinks, below, self.problem.deadline)
            if not complete:
                members = members[:, :: 1 + members.shape[1] // LOOK]
            listed = ChoiceList(F, t, shrinks, members, below)
            for cut in reversed(self.cuts):  # the latest first: they rule out most
                listed.add(*cut)
                listed.drop(primal)
            if complete:
                self.master = listed
                return False
            if time.monotonic() >= self.problem.deadline:
                break
            if any(self.visit(g) for g in listed.best(MANY) if self.key(g) not in self.seen):
                return True
        self.master = ChoiceProgram(F, t, shrinks)
        for cut in self.cuts:
            self.master.add(*cut)
        return False

    def visit(self, g: Vector) -> bool:
        """Solve the SVM of a choice; True if the monitor says stop."""
        value, alpha = self.problem.solve_inner(g, self.alpha, max(ROUGH, self.tol))
        if value < self.value:  # it may be the best yet
            value, alpha = self.problem.solve_inner(g, alpha, self.tol)
        self.seen[self.key(g)] = value
        self.cut(alpha)
        if value < self.value:
            self.best, self.alpha, self.value = g, alpha, value
        return self.monitor(g, alpha)

    def relax(self, start: tuple[NDArray, NDArray] | None) -> bool:
        """The relaxation: its bound, its cuts, and the choice of its t largest weights; then the given start."""
        relaxed = self.problem.relaxed()
        left = self.problem.deadline - time.monotonic()
        watcher = Monitor(relaxed, max(self.monitor.tol, 1e-4), max_time=left, on_record=self._relaxed_cut)
        newton(relaxed, watcher, None, max_iter=50)
        self.monitor.prove(watcher.bound)
        assert watcher.best is not None
        weights, self.alpha = watcher.best
        chosen = CappedSimplex(self.problem.t)
        stop = self.visit(chosen.vertex(weights))
        if start is not None and not stop:
            stop = self.visit(chosen.vertex(start[0]))
        return stop

    def _relaxed_cut(self, row: dict[str, Any], watcher: Monitor) -> None:
        assert watcher.current is not None
        self.cut(watcher.current[1])

    def swap(self) -> bool:
        """Exchange one kernel for another as long as J falls, the most promising exchange first."""
        for _ in range(MOST_ROUNDS):
            before = self.value
            inside, outside = np.flatnonzero(self.best).tolist(), np.flatnonzero(self.best == 0.0).tolist()
            trials = [(self._bound(i, j), i, j) for i in inside for j in outside]
            for bound, i, j in sorted(trials):
                g = self.best.copy()
                g[i], g[j] = 0.0, 1.0
                if bound >= self.value or self.key(g) in self.seen or self._bound(i, j) >= self.value:
                    continue
                if self.visit(g):
                    return True
                if self.value < before:
                    break
            if not self.value < before:
                return False
        return False

    def _bound(self, i: int, j: int) -> float:
        """What the cuts say of the best choice with kernel j instead of i."""
        g = self.best.copy()
        g[i], g[j] = 0.0, 1.0
        return max(constant - 0.5 * float(q @ g) for constant, q in self.cuts)
