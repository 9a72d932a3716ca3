"""The best t kernels, proved: a relaxation, swaps of kernels, and branch and bound with cuts from SVMs."""

import contextlib
import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from multikernel.problems.cskl import ROUGH, SelectionProblem
from multikernel.problems.weight_sets import CappedSimplex
from multikernel.runtime.clock import OutOfTime, check, left, time_limit
from multikernel.runtime.monitor import Monitor
from multikernel.solvers.common.newton import Start, newton
from multikernel.solvers.cskl.branch_and_bound import Branching, Cut, Cuts

Vector = NDArray[np.float64]

MOST_ROUNDS = 10  # of swaps
SLACK = 0.5  # share of the tolerance by which a choice must promise to be better to be looked at
SHARE_OF_TIME = 0.5  # of the remaining time, for the relaxation
WORK = 5_000_000  # kernel entries that SVMs may pass over between two looks of the monitor, roughly
MOST_BYTES = 1 << 28  # of alphas in a checkpoint, so that a run that is resumed need not find them again
KEPT = "members", "weights", "alphas", "pivots"
NONE = np.zeros(0, dtype=np.intp)


def exact_selection(
    problem: SelectionProblem, monitor: Monitor, start: Start = None, *, max_iter: int = 1000
) -> None:
    """The best t kernels: J is convex, and every alpha bounds it from below everywhere.

    1. The relaxation, its cuts, and its t largest weights. 2. Swaps of a chosen kernel for another one as long as J
    falls; swaps that a cut rules out cost nothing. 3. A proof: some kernels are taken and some left out, and the
    relaxation over the others bounds J at all choices that agree with that; branches that it does not rule out are
    split, the one with the least bound first. Weights of another t to start from are scaled; ``max_iter`` is the
    largest number of rounds of 64 branches.
    """
    if start is not None:
        start = problem.weight_set.weights(start[0]), start[1]
    search = _Search(problem, monitor)
    search.resume()
    if search.relax(start) or search.swap():
        return
    branching = Branching(search)
    stop = branching.begin()
    for _ in range(max_iter):
        stop = stop or branching.round()
        monitor.prove(branching.least)
        monitor.notes = {"branches": branching.n_branches}
        if monitor(search.best, search.alpha) or stop:
            break
    if branching.is_done and monitor.stopped == "iterations":
        monitor.stopped = "rounding"  # all choices were looked at, but not all SVMs reached their optimum


class _Search:
    """State of an exact selection: cuts, choices seen, and the best of them."""

    def __init__(self, problem: SelectionProblem, monitor: Monitor):
        self.problem, self.monitor = problem, monitor
        self.seen: dict[bytes, float] = {}  # what is proved of J at choices that had an SVM
        self.cuts = Cuts(problem.n_kernels, problem.t, problem.shrinks)
        self.tol = min(0.1 * monitor.tol, 1e-3)
        self.best, self.alpha = problem.start()
        self.relaxed = self.best, self.alpha
        self.value = math.inf
        # the last weights and alpha of each branch and choice, in this run and in one that it goes on from
        self.records: dict[bytes, tuple[Vector, NDArray]] = {}
        # of branches: the kernel that each was split at, and, from a run that is resumed, weights, alpha and its cut
        self.pivots: dict[bytes, int] = {}
        self.known: dict[bytes, tuple[Vector, NDArray, Cut]] = {}
        self.ticks, self.patience = 0, max(1, min(64, WORK // len(problem.stack) ** 2))

    @property
    def enough(self) -> float:
        """The bound from which on choices are not worth looking at."""
        primal = self.monitor.certificate.primal
        return primal - SLACK * self.monitor.tol * abs(primal)

    def bound(self, inside: NDArray[np.intp], free: NDArray[np.intp]) -> float:
        """What cuts say of J at all choices of a branch."""
        return self.cuts.bound(inside, free, self.enough)

    def is_known(self, g: Vector) -> bool:
        """Whether a choice was looked at, or a cut rules it out."""
        return g.tobytes() in self.seen or self.bound(np.flatnonzero(g), NONE) >= self.enough

    def proved(self, g: Vector) -> float:
        """The best bound on J at a choice, from its own SVM or from a cut."""
        return max(self.seen.get(g.tobytes(), -math.inf), self.bound(np.flatnonzero(g), NONE))

    def members(self, inside: NDArray[np.intp], free: NDArray[np.intp]) -> NDArray[np.int8]:
        """A branch: 1 for kernels inside, 0 for those that are free, and −1 for the others."""
        members = np.full(self.problem.n_kernels, -1, dtype=np.int8)
        members[inside], members[free] = 1, 0
        return members

    def remember(self, members: NDArray[np.int8], weights: Vector, alpha: NDArray) -> None:
        """Have an alpha kept, and where it was found: all that was proved can be proved by them again."""
        if self.monitor.resumable and len(self.records) * alpha.nbytes < MOST_BYTES:
            self.records[members.tobytes()] = weights, alpha

    def _kept(self) -> dict[str, NDArray]:
        records = self.records.copy()
        members = [np.frombuffer(key, dtype=np.int8) for key in records]
        columns = members, *zip(*records.values()), [self.pivots.get(key, -1) for key in records]
        return {name: np.array(part, float) for name, part in zip(KEPT, columns)} if records else {}

    def resume(self) -> None:
        """Make the cuts of the run that is resumed, all in one pass, and know again what it found where.

        Nothing is proved by what is kept but by the alphas: a branch may be split at any kernel.
        """
        self.monitor.keep = self._kept
        F, kept = self.best.shape, [self.monitor.kept.get(name, np.zeros(0)) for name in KEPT]
        R = len(kept[0])
        if not R or [part.shape for part in kept] != [(R, *F), (R, *F), (R, *self.alpha.shape), (R,)]:
            return
        alphas = np.array([self.problem.inner.repair(alpha) for alpha in kept[2]])
        constants, forms = self.problem.cuts(alphas)
        for row, (members, weights, alpha) in enumerate(zip(kept[0].astype(np.int8), kept[1], alphas)):
            cut, key = (float(constants[row]), forms[row]), members.tobytes()
            self.remember(members, weights, alpha)
            self.cuts.add(*cut)
            if (members == 0).any():
                self.known[key], self.pivots[key] = (weights, alpha, cut), int(kept[3][row])
            elif self.problem.bound(cut[0], float(cut[1] @ (members > 0))) >= self.enough:
                self.see((members > 0).astype(float), *cut)

    def cut(self, alpha: NDArray) -> Cut:
        """Take note of what an alpha proves."""
        cut = self.problem.cut(alpha)
        self.cuts.add(*cut)
        return cut

    def see(self, g: Vector, constant: float, q: Vector) -> None:
        """Take note of what a cut proves of a choice: no more than that, even if it is from the choice's own SVM."""
        known = self.seen.get(g.tobytes(), -math.inf)
        self.seen[g.tobytes()] = max(known, self.problem.bound(constant, float(q @ g)))

    def tick(self) -> bool:
        """Let the monitor look at the best choice once in a while; True if it is time to stop."""
        check()
        self.ticks += 1
        due = self.ticks % self.patience == 0 or self.monitor.overdue()
        return due and self.monitor(self.best, self.alpha)

    def look(self, g: Vector) -> bool:
        """See whether a choice is better than the best, and swaps from it; True if it is time to stop."""
        before = self.value
        return self.try_out(g) or (self.value < before and self.swap())

    def try_out(self, g: Vector) -> bool:
        """The same, without swaps."""
        value, alpha = self.problem.solve_roughly(g, self.alpha, self.enough)
        if value < self.enough:
            return self.visit(g, alpha)
        self.remember(self.members(np.flatnonzero(g), NONE), g, alpha)
        self.see(g, *self.cut(alpha))
        return self.tick()

    def visit(self, g: Vector, alpha: NDArray | None = None) -> bool:
        """Solve the SVM of a choice; True if the monitor says stop."""
        warm = self.alpha if alpha is None else alpha
        value, alpha = self.problem.solve_inner(g, warm, max(ROUGH, self.tol))
        if value < self.value:  # it may be the best yet
            value, alpha = self.problem.solve_inner(g, alpha, self.tol)
        self.remember(self.members(np.flatnonzero(g), NONE), g, alpha)
        self.see(g, *self.cut(alpha))
        if value < self.value:
            self.best, self.alpha, self.value = g, alpha, value
        return self.monitor(g, alpha)

    def relax(self, start: Start) -> bool:
        """The relaxation: its bound, its cuts, and the choice of its t largest weights; then the given start."""
        chosen, root = CappedSimplex(self.problem.t), np.zeros(self.problem.n_kernels, dtype=np.int8)
        if root.tobytes() in self.known and self.monitor.best is not None:
            return self.visit(chosen.vertex(self.monitor.best[0]), self.monitor.best[1])
        relaxed = self.problem.relaxed()
        watcher = Monitor(relaxed, max(self.monitor.tol, 1e-4), on_record=self._relaxed_cut)
        with contextlib.suppress(OutOfTime), time_limit(SHARE_OF_TIME * left()):
            newton(relaxed, watcher, None, max_iter=50)
        self.monitor.prove(watcher.bound)
        self.relaxed = weights, self.alpha = self.relaxed if watcher.best is None else watcher.best
        self.remember(root, weights, self.alpha)
        stop = self.visit(chosen.vertex(weights))
        if start is not None and not stop:
            stop = self.visit(chosen.vertex(start[0]))
        return stop

    def _relaxed_cut(self, row: dict[str, Any], watcher: Monitor) -> None:
        assert watcher.current is not None
        self.cut(watcher.current[1])
        self.monitor.save(self.best, watcher.current[1])

    def swap(self) -> bool:
        """Exchange one kernel for another as long as J falls, the most promising exchange first."""
        for _ in range(MOST_ROUNDS):
            before = self.value
            for i, j in self._exchanges():
                g = self.best.copy()
                g[i], g[j] = 0.0, 1.0
                if self.is_known(g):  # cuts have come since the exchanges were put in order
                    continue
                if self.try_out(g):
                    return True
                if self.value < before:
                    break
            if not self.value < before:
                return False
        return False

    def _exchanges(self) -> NDArray[np.intp]:
        """Pairs of a chosen kernel and another one, by what cuts say of the choice with the one for the other."""
        inside, outside = np.flatnonzero(self.best), np.flatnonzero(self.best == 0.0)
        constants, q = self.cuts.known
        forms = (q @ self.best)[:, None, None] - q[:, inside, None] + q[:, None, outside]
        bounds = (constants[:, None, None] - 0.5 * forms).max(axis=0)
        order = np.argsort(bounds, axis=None, kind="stable")
        order = order[bounds.ravel()[order] < self.enough]
        return np.column_stack([inside[order // len(outside)], outside[order % len(outside)]])
