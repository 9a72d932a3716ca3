"""Lower bounds on J for choices of t kernels: listed one by one, or by a mixed-integer program."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import Bounds, LinearConstraint, milp

from multikernel.runtime.clock import check, left

Vector = NDArray[np.float64]
Cut = tuple[float, Vector]

# Choices in a list at most, at some 50 bytes each, and the share of them that is left at most when the list is copied
# without those ruled out.
MOST_LISTED, SPARSER = 10_000_000, 0.8
# Choices that get an SVM after one master problem by list.
BATCH = 8
# Multiples of an alpha whose cuts go into a mixed-integer program: tangents of a curve that the list has exactly.
MULTIPLES = (1.0, 0.6, 0.35)
# Seconds for one mixed-integer program, at least and at most; what it has proved by then counts.
SHORTEST, LONGEST = 2.0, 30.0
# Branches between two looks at the clock, and in all before a search for choices gives up.
BRANCHES, MOST_BRANCHES = 1_000_000, 300_000_000


class ChoiceList:
    """A lower bound on J for each choice of t kernels out of F.

    An alpha bounds J at a choice S by ``max over s in [0, 1] of s·linear − ½ s² Σ_{j in S} q_j`` where it may shrink,
    else by the value at s = 1. The list keeps the largest bound of each choice, so that its least entry bounds the
    optimum, and shows where to look next.

    Parameters
    ----------
    n_kernels, t : int
    shrinks : bool
        Whether multiples of an alpha count.
    members : ndarray of shape (t, N), optional
        The choices; by default all.
    others : float
        A bound on J for choices that are not listed.
    """

    def __init__(
        self, n_kernels: int, t: int, shrinks: bool, members: NDArray | None = None, others: float = math.inf
    ):
        self.n_kernels, self.shrinks, self.others = n_kernels, shrinks, others
        self.members = choices(n_kernels, t) if members is None else members
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

    def solve(self, below: float) -> tuple[float, list[Vector]]:
        """The bound on the optimum, and choices with the smallest bounds; those not below ``below`` are dropped."""
        self.drop(below)
        least = min(float(self.bounds.min(initial=np.inf)), below, self.others)
        return least, self.best(BATCH, below)

    def best(self, count: int, below: float = math.inf) -> list[Vector]:
        """Up to ``count`` choices with the smallest bounds, as weights, if these are below ``below``."""
        count = min(count, len(self.bounds))
        if not count:
            return []
        best = np.argpartition(self.bounds, count - 1)[:count]
        best = best[np.argsort(self.bounds[best], kind="stable")]
        found = []
        for k in best[self.bounds[best] < below]:
            found.append(np.zeros(self.n_kernels))
            found[-1][self.members[:, k]] = 1.0
        return found


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

    def solve(self, below: float) -> tuple[float, list[Vector]]:
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
        seconds = min(left(), LONGEST if len(self.constants) > 300 else SHORTEST)
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


def surviving(cuts: Sequence[Cut], t: int, shrinks: bool, below: float) -> tuple[NDArray[np.integer], bool]:
    """Choices of t kernels whose bounds are all below ``below``, by branch and bound.

    Kernels are taken or left in turn, those with the largest quadratic forms first. With some of them decided, each
    cut bounds J for all that is left to decide: its quadratic form is at most that of the kernels taken and of the
    largest ones that may follow.

    Parameters
    ----------
    cuts : sequence of (constant, q)
    t : int
    shrinks : bool
        As for `ChoiceList`.
    below : float

    Returns
    -------
    members : ndarray of shape (t, N)
    complete : bool
        False if there are more than can be listed, or time ran out.

    Examples
    --------
    >>> import numpy as np
    >>> from multikernel.solvers.cskl.choices import surviving
    >>> members, complete = surviving([(3.0, np.array([1.0, 2.0, 3.0, 0.0]))], 2, False, below=1.0)
    >>> sorted(np.sort(members.T).tolist()), complete
    ([[1, 2]], True)
    """
    from multikernel.compiled.choices import largest_sums, search_choices

    limits = np.array([_largest_form(constant, shrinks, below) for constant, _ in cuts])
    q = np.array([form for _, form in cuts])
    kernels = np.argsort(-(q / np.maximum(np.abs(limits), 1e-300)[:, None]).mean(axis=0), kind="stable")
    q = np.ascontiguousarray(q[:, kernels])
    R, F = q.shape
    top = np.zeros((R, F + 1, t + 1))
    largest_sums(q, np.empty(t), top)
    members, sums, order = np.full(t, -1), np.zeros((t, R)), np.arange(R)
    numbers = kernels.astype(np.min_scalar_type(len(kernels)))
    pieces = [np.empty((t, 0), dtype=numbers.dtype)]
    depth, branches, listed = 0, 0, 0
    while depth >= 0 and listed < MOST_LISTED and branches < MOST_BRANCHES:
        check()
        found = np.empty((BRANCHES // 4, t), dtype=numbers.dtype)
        depth, count = search_choices(q, top, limits, members, sums, order, found, depth, 0, BRANCHES)
        pieces.append(numbers[found[:count]].T)
        branches, listed = branches + BRANCHES, listed + count
    return np.hstack(pieces), depth < 0


def _largest_form(constant: float, shrinks: bool, below: float) -> float:
    """The largest quadratic form with which a cut proves ``J ≥ below``."""
    if shrinks and below > 0.0 and constant >= 2.0 * below:
        return 0.5 * constant**2 / below
    return 2.0 * (constant - below)


def choices(n: int, t: int) -> NDArray[np.integer]:
    """All subsets of t out of n, ascending, shape (t, n over t).

    Examples
    --------
    >>> from multikernel.solvers.cskl.choices import choices
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
