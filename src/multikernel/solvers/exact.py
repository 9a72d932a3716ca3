"""The best t kernels, proved: cuts from SVMs, and a master problem over all choices of t kernels."""

from __future__ import annotations

import math
import time
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import Bounds, LinearConstraint, milp

from multikernel.inner.labels import LabelSVMs
from multikernel.inner.svm import NuSVM
from multikernel.minmax import MinMaxProblem
from multikernel.monitor import Monitor
from multikernel.solvers.newton import newton
from multikernel.weight_sets import CappedSimplex

Vector = NDArray[np.float64]

# Choices up to which the master problem looks at each of them, at some 50 bytes each, and the share of them that is
# left at most when the list is copied without those ruled out.
MOST_LISTED, SPARSER = 10_000_000, 0.8
# Choices that get an SVM after one master problem by list; rounds of swaps at the start.
BATCH, MOST_ROUNDS = 8, 10
# Multiples of an alpha whose cuts go into a mixed-integer program: tangents of a curve that the list has exactly.
MULTIPLES = (1.0, 0.6, 0.35)
# Seconds for one mixed-integer program, at least and at most; what it has proved by then counts.
SHORTEST, LONGEST = 2.0, 30.0


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


class ChoiceList:
    """A lower bound on J for each choice of t kernels out of F.

    An alpha bounds J at a choice S by ``max over s in [0, 1] of s·linear − ½ s² Σ_{j in S} q_j`` where it may shrink,
    else by the value at s = 1. The list keeps the largest bound of each choice, so that its least entry bounds the
    optimum, and shows where to look next.
    """

    def __init__(self, n_kernels: int, t: int, shrinks: bool):
        self.n_kernels, self.shrinks = n_kernels, shrinks
        self.members = choices(n_kernels, t)
        self.bounds = np.full(self.members.shape[1], -np.inf)

    def add(self, constant: float, q: Vector) -> None:
        """Take note of a cut."""
        forms = q[self.members[0]]
        for row in self.members[1:]:
            forms += q[row]
        values = constant - 0.5 * forms
        if self.shrinks:
            # where forms > constant the multiple s = constant / forms of alpha proves more
            np.copyto(values, 0.5 * constant**2 / np.maximum(forms, constant), where=forms > constant)
        np.maximum(self.bounds, values, out=self.bounds)

    def drop(self, below: float) -> None:
        """Forget choices whose bound is not below ``below``, if that shortens the list enough to be worth it."""
        kept = self.bounds < below
        if np.count_nonzero(kept) < SPARSER * len(kept):
            self.members, self.bounds = np.compress(kept, self.members, axis=1), self.bounds[kept]

    def solve(self, below: float, deadline: float) -> tuple[float, list[Vector]]:
        """The bound on the optimum, and choices with the smallest bounds; those not below ``below`` are dropped."""
        self.drop(below)
        count = min(BATCH, len(self.bounds))
        if not count:
            return below, []
        best = np.argpartition(self.bounds, count - 1)[:count]
        best = best[np.argsort(self.bounds[best], kind="stable")]
        found = []
        for k in best[self.bounds[best] < below]:
            found.append(np.zeros(self.n_kernels))
            found[-1][self.members[:, k]] = 1.0
        return min(float(self.bounds[best[0]]), below), found


class ChoiceProgram:
    """The same by a mixed-integer program, for more choices than can be listed.

    ``min θ`` over g in {0, 1}^F, Σ g = t, ``θ ≥ s·constant − ½ s² g·q`` for each cut and a few multiples s.
    """

    def __init__(self, n_kernels: int, t: int, shrinks: bool):
        self.n_kernels, self.t = n_kernels, t
        self.multiples = MULTIPLES if shrinks else (1.0,)
        self.constants: list[float] = []
        self.forms: list[Vector] = []
        self.best = -math.inf

    def drop(self, below: float) -> None:
        """Nothing: the program finds out by itself."""

    def add(self, constant: float, q: Vector) -> None:
        """Take note of a cut."""
        for s in self.multiples:
            self.constants.append(s * constant)
            self.forms.append(s * s * q)

    def solve(self, below: float, deadline: float) -> tuple[float, list[Vector]]:
        """The bound proved within the time, and the best choice found if its bound is below ``below``."""
        constants, forms = np.array(self.constants), 0.5 * np.array(self.forms)
        scale = max(float(np.abs(constants).max()), float(forms.max(initial=0.0)), 1e-300)
        rows = np.column_stack([forms / scale, np.ones(len(forms))])
        whole = np.append(np.ones(self.n_kernels), 0.0)
        constraints = [
            LinearConstraint(rows, lb=constants / scale),
            LinearConstraint(whole[None, :], self.t, self.t),
        ]
        bounds = Bounds(np.append(np.zeros(self.n_kernels), -np.inf), np.append(np.ones(self.n_kernels), np.inf))
        seconds = min(max(deadline - time.monotonic(), 0.1), LONGEST if len(self.constants) > 300 else SHORTEST)
        found = milp(
            np.append(np.zeros(self.n_kernels), 1.0),
            constraints=constraints,
            bounds=bounds,
            integrality=whole,
            options={"time_limit": seconds, "mip_rel_gap": 1e-4},
        )
        if found.mip_dual_bound is not None and np.isfinite(found.mip_dual_bound):
            # rows may be violated by the solver's tolerance, 1e-6 of what was scaled to one
            self.best = max(self.best, (found.mip_dual_bound - 1e-6) * scale)
        if found.x is None:
            return self.best, []
        return self.best, [np.round(found.x[:-1])]


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
    on J over all choices, and SVMs at the choices where it is attained. The master problem looks at all choices where
    they are few, and is a mixed-integer program [SRSS06, eq. (12)] with g in {0, 1} otherwise.

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
    if search.relax(start) or search.swap():
        return
    search.open()
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

    def open(self) -> None:
        """Make the master problem of the cuts so far, the latest first: they rule out most."""
        F, t = self.problem.n_kernels, self.problem.t
        listed = math.comb(F, t) <= MOST_LISTED
        self.master = (ChoiceList if listed else ChoiceProgram)(F, t, self.problem.shrinks)
        for constant, q in reversed(self.cuts):
            self.master.add(constant, q)
            self.master.drop(self.monitor.certificate.primal)

    def visit(self, g: Vector) -> bool:
        """Solve the SVM of a choice; True if the monitor says stop."""
        value, alpha = self.problem.solve_inner(g, self.alpha, self.tol)
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


def choices(n: int, t: int) -> NDArray[np.integer]:
    """All subsets of t out of n, ascending, shape (t, n over t).

    Examples
    --------
    >>> from multikernel.solvers.exact import choices
    >>> choices(4, 2).tolist()
    [[0, 0, 0, 1, 1, 2], [1, 2, 3, 2, 3, 3]]
    """
    members = np.arange(n - t + 1, dtype=np.min_scalar_type(n))[None, :]
    for k in range(1, t):
        # each choice of k goes on with every larger number that leaves enough for the rest
        last = members[-1].astype(np.intp)
        counts = n - t + k - last
        ends = np.cumsum(counts)
        step = np.arange(ends[-1]) - np.repeat(ends - counts, counts)
        following = (np.repeat(last, counts) + 1 + step).astype(members.dtype)
        members = np.vstack([np.repeat(members, counts, axis=1), following])
    return members
