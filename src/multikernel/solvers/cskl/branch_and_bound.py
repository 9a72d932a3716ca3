"""The best t kernels by branch and bound, each branch bounded by its own relaxation."""

import heapq
import math
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from multikernel.problems.weight_sets import CappedSimplex
from multikernel.runtime.clock import check

Vector = NDArray[np.float64]
Indices = NDArray[np.intp]
Cut = tuple[float, Vector]

MOST_CUTS = 1500  # the latest cuts, kept for branches to come
MOST_POINTS = 6  # points at which the SVM of a branch is solved before it is split in two
FEW = 6  # choices left in a branch that are looked at one by one
# Exponent of what it costs to take a kernel, relative to leaving it out (measured: with 1 there are three times as
# many branches as with 0 to 1/4).
TAKEN = 0.25
ROUND = 64  # branches split in a round


@dataclass(frozen=True)
class Branch:
    """Choices that have some kernels in common and leave out some others, and what is known of J there."""

    problem: Any
    inside: Indices  # kernels that all choices have, ascending
    free: Indices  # kernels to choose from, ascending
    bound: float  # a lower bound on J at all its choices
    weights: Vector  # of all kernels, near the relaxed optimum of the branch
    alpha: NDArray  # the coefficients there
    gradient: Vector  # derivatives of J there, for the free kernels

    @cached_property
    def curvature(self) -> NDArray:
        """Second derivatives of J at the weights, for the free kernels."""
        return self.problem.curvature(self.weights, self.alpha, self.free, rough=True)

    def pivot(self) -> int:
        """Which of the free kernels to decide on next: the one that is missed most, by the quadratic model.

        Leaving out kernel j of those with a weight between 0 and 1 costs ``½ g_j² / P_jj`` in the model of J, P the
        inverse of its curvature among changes that sum to zero; taking it costs ``½ (1 − g_j)² / P_jj``, which counts
        for less: J rises the steeper the smaller a weight becomes, so that the model is far too low for the former.
        """
        g = self.weights[self.free]
        between = np.flatnonzero((g > 0.0) & (g < 1.0))
        if len(between) < 2:
            return int(np.argmax(np.where(g < 1.0, g, -1.0) if len(between) else g))
        H = self.curvature[np.ix_(between, between)]
        H = H + 1e-9 * max(float(H.trace()), 1e-300) * np.eye(len(between))
        inverse = np.linalg.pinv(H, hermitian=True)
        sums = inverse.sum(axis=1)
        P = np.diag(inverse) - sums**2 / max(float(sums.sum()), 1e-300)
        P, g = np.maximum(P, 1e-300), g[between]
        left_out, taken = g**2 / P, (1.0 - g) ** 2 / P
        return int(between[np.argmax(left_out * taken**TAKEN)])

    def expected(self, pivot: int, taken: bool, allowed: CappedSimplex) -> Vector:
        """Weights of the other free kernels where the quadratic model is least with the pivot taken or left out."""
        change = float(taken) - float(self.weights[self.free[pivot]])
        rest = np.delete(np.arange(len(self.free)), pivot)
        gradient = self.gradient[rest] + change * self.curvature[rest, pivot]
        H = self.curvature[np.ix_(rest, rest)]
        return allowed.roughly_least_point(H, gradient, self.weights[self.free[rest]])


class Cuts:
    """The latest cuts: each bounds J at all choices of t kernels; multiples of an alpha count if it ``shrinks``."""

    def __init__(self, n_kernels: int, t: int, shrinks: bool):
        self.t, self.shrinks, self.n_added = t, shrinks, 0
        self._constants, self._forms = np.zeros(MOST_CUTS), np.zeros((MOST_CUTS, n_kernels))

    def add(self, constant: float, q: Vector) -> None:
        """Take note of a cut, in place of the oldest."""
        place = self.n_added % MOST_CUTS
        self._constants[place], self._forms[place] = constant, q
        self.n_added += 1

    @property
    def known(self) -> tuple[Vector, NDArray]:
        """Constants and quadratic forms."""
        return self._constants[: self.n_added], self._forms[: self.n_added]

    def bound(self, inside: Indices, free: Indices, enough: float) -> float:
        """What they say of J at all choices of a branch; one that says ``enough`` will do."""
        from multikernel.compiled.cuts import best_bound

        newest, kept = (self.n_added - 1) % MOST_CUTS, np.empty(self.t - len(inside))
        return best_bound(*self.known, newest, inside, free, kept, self.shrinks, enough)


class Branching:
    """Branches in order of their bounds: the least of them bounds J at all choices.

    ``search`` has the problem, its cuts, the relaxed solution and the best choice, and looks at choices.
    """

    def __init__(self, search: Any):
        self.search, self.problem = search, search.problem
        self.n_branches = 0
        self.open: list[tuple[float, int, Branch]] = []
        self.least_seen = math.inf  # the least bound of choices that were looked at

    @property
    def least(self) -> float:
        """A lower bound on J at all choices."""
        known = min(self.least_seen, self.search.enough)
        return min(self.open[0][0], known) if self.open else known

    @property
    def is_done(self) -> bool:
        """Whether no branch is left that may hold a better choice."""
        return not self.open or self.open[0][0] >= self.search.enough

    def begin(self) -> bool:
        """The branch of all choices; True if it is time to stop."""
        inside, free = np.zeros(0, dtype=np.intp), np.arange(self.problem.n_kernels)
        return not self._reenter(inside, free, -math.inf) and self._enter(inside, free, *self.search.relaxed)

    def round(self) -> bool:
        """Split branches, those with the least bounds first; True if none is left, or if it is time to stop."""
        return any(self.is_done or self._split(heapq.heappop(self.open)[2]) for _ in range(ROUND))

    def _split(self, branch: Branch) -> bool:
        """Decide on one more kernel; True if it is time to stop."""
        key = self.search.members(branch.inside, branch.free).tobytes()
        chosen = self.search.pivots.get(key)
        if chosen not in branch.free:
            chosen = self.search.pivots[key] = int(branch.free[branch.pivot()])
        if self._follow(branch, chosen, taken=True) or self._follow(branch, chosen, taken=False):
            # what it was split into may be lost: the branch itself holds all of that
            heapq.heappush(self.open, (branch.bound, 0, branch))
            return True
        return False

    def _follow(self, branch: Branch, chosen: int, taken: bool) -> bool:
        """Find out about one part of a branch; True if it is time to stop."""
        pivot = int(np.searchsorted(branch.free, chosen))
        inside, rest = branch.inside, np.delete(branch.free, pivot)
        if taken:
            inside = np.sort(np.append(inside, chosen))
        if self._reenter(inside, rest, branch.bound):
            return False
        bound = max(branch.bound, self.search.bound(inside, rest))
        if bound >= self.search.enough:
            return False
        count = self.problem.t - len(inside)
        if math.comb(len(rest), count) <= FEW:
            return any(self._look(inside, np.array(more, np.intp)) for more in combinations(rest.tolist(), count))
        weights = np.zeros(len(branch.weights))
        weights[inside] = 1.0
        weights[rest] = branch.expected(pivot, taken, CappedSimplex(float(count)))
        return self._enter(inside, rest, weights, branch.alpha, bound)

    def _look(self, inside: Indices, more: Indices) -> bool:
        """Look at a choice unless nothing is to be found there; True if it is time to stop."""
        g = np.zeros(self.problem.n_kernels)
        g[inside] = g[more] = 1.0
        stop = not self.search.is_known(g) and self.search.look(g)
        # rounding may have kept its SVM from its optimum: cuts since then may say more
        self.least_seen = min(self.least_seen, self.search.proved(g))
        return stop

    def _keep(self, branch: Branch) -> None:
        """Have a branch split in its turn, unless it is ruled out."""
        if branch.bound < self.search.enough:
            heapq.heappush(self.open, (branch.bound, self.n_branches, branch))

    def _bounded(self, inside: Indices, free: Indices, bound: float, w: Vector, alpha: NDArray, cut: Cut) -> Branch:
        """A branch at weights w, with what a cut, that of its alpha, says of it."""
        constant, q = cut
        form = float(q[inside].sum()) + CappedSimplex(float(self.problem.t - len(inside))).support(q[free])
        bound = max(bound, self.problem.bound(constant, form))
        return Branch(self.problem, inside, free, bound, w, alpha, -0.5 * q[free])

    def _reenter(self, inside: Indices, free: Indices, bound: float) -> bool:
        """Whether a run that is resumed had been at a branch; its alpha proves what it did then, without an SVM."""
        known = self.search.known.get(self.search.members(inside, free).tobytes())
        if known is None:
            return False
        check()
        self.n_branches += 1
        self._keep(self._bounded(inside, free, bound, *known))
        return True

    def _enter(
        self, inside: Indices, free: Indices, weights: Vector, alpha: NDArray, bound: float = -math.inf
    ) -> bool:
        """Bound a branch by its relaxation, and keep it unless that rules it out; True if it is time to stop."""
        self.n_branches += 1
        count, members = self.problem.t - len(inside), self.search.members(inside, free)
        for point in range(1, MOST_POINTS + 1):
            value, alpha = self.problem.solve_roughly(weights, alpha, self.search.enough)
            self.search.remember(members, weights, alpha)
            branch = self._bounded(inside, free, bound, weights, alpha, self.search.cut(alpha))
            bound = branch.bound
            if bound >= self.search.enough:
                return self.search.tick()
            H = branch.curvature  # now, while the scores of this alpha are at hand
            if value < self.search.enough or point == MOST_POINTS:
                break  # weights between 0 and 1 reach a value that is no reason to rule it out
            weights = weights.copy()
            weights[free] = CappedSimplex(float(count)).roughly_least_point(H, branch.gradient, weights[free])
        self._keep(branch)
        largest = np.argsort(-weights[free], kind="stable")[:count]
        return self._look(inside, free[largest]) or self.search.tick()
