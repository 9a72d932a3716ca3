"""Variable sparsity kernel learning: kernels compete within groups, and every group has its say [NDRBBR09]."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from multikernel.gram.base import GramStack
from multikernel.problems.extrapolation import extrapolated_move
from multikernel.problems.minmax import KernelProblem, MinMaxProblem
from multikernel.problems.weight_sets import LpBall

Vector = NDArray[np.float64]

# SVMs in one evaluation of the objective, at most.
MOST_ROUNDS = 30


class Groups:
    """A partition of F kernels, as :func:`parse_groups` returns it, with the operations that go by group."""

    def __init__(self, groups: Sequence[ArrayLike]):
        self.members = [np.asarray(group, dtype=np.intp) for group in groups]
        self.n_kernels = sum(len(group) for group in self.members)
        self.label = np.empty(self.n_kernels, dtype=np.intp)
        for k, group in enumerate(self.members):
            self.label[group] = k

    def __len__(self) -> int:
        return len(self.members)

    def sum(self, values: ArrayLike) -> Vector:
        """Sum of ``values``, one per kernel, over each group."""
        return np.bincount(self.label, np.asarray(values, dtype=np.float64), len(self)).astype(np.float64)

    def max(self, values: ArrayLike) -> Vector:
        """Largest of ``values``, one per kernel, in each group."""
        largest = np.full(len(self), -np.inf)
        np.maximum.at(largest, self.label, np.asarray(values, dtype=np.float64))
        return largest

    def spread(self, values: ArrayLike) -> Vector:
        """One value per group, given to each of its kernels."""
        return np.asarray(values, dtype=np.float64)[self.label]

    def shares(self, values: Vector) -> Vector:
        """Non-negative ``values`` scaled to sum to one in each group; equal shares where all are zero."""
        total = self.sum(values)
        equal = self.spread(1.0 / self.sum(np.ones(self.n_kernels)))
        return np.where(self.spread(total) > 0.0, values / np.maximum(self.spread(total), 1e-300), equal)


@dataclass
class GroupPoint:
    """What is known at shares λ of the kernels within their groups."""

    shares: Vector  # λ, shape (F,); they sum to one in each group
    balance: Vector  # γ, one per group; they sum to one
    alpha: NDArray  # signed dual coefficients
    value: float  # linear(alpha) − ½ (Σ_groups sqrt(Σ_k λ_k q_k))², the largest up to the tolerance asked for
    q: Vector  # quadratic forms of alpha, shape (F,)


class VSKLProblem(MinMaxProblem):
    """``min over w of ½ max over groups (Σ_{k in group} ‖w_k‖)² + losses``: ℓ1 within groups, ℓ∞ across [NDRBBR09].

    Its dual is ``max over alpha of linear(alpha) − ½ (Σ_groups sqrt(max_{k in group} q_k(alpha)))²``. With shares λ
    that sum to one in each group and a balance γ that sums to one,

        optimum = min over λ, max over γ, of  SVM optimum on  Σ_k (λ_k / γ_group(k)) K_k,

    convex in λ, concave in γ; for given alpha the best γ is proportional to ``sqrt(Σ_k λ_k q_k)`` of each group. The
    *weights* of this problem are the effective ones, λ_k / γ_group(k): the classifier is that of the kernel
    ``Σ_k weights_k K_k``. One group makes it ℓ1 MKL; with groups of one kernel each no kernel is left out.

    Unlike other problems of this kind its weights are not confined to a convex set: ``weight_set`` is the simplex
    that one group has. ``groups`` are positions of each group's kernels, as :func:`parse_groups` returns them.
    """

    certificate = KernelProblem.certificate  # type: ignore[assignment]

    def __init__(self, stack: GramStack, inner: Any, groups: Sequence[ArrayLike], memory: int):
        super().__init__(stack, inner, LpBall(1.0), memory)
        self.groups = Groups(groups)
        if not np.array_equal(np.sort(np.concatenate(self.groups.members)), np.arange(stack.n_kernels)):
            raise ValueError(f"each of the {stack.n_kernels} kernels must be in exactly one group.")

    # -- judging ------------------------------------------------------------------------------------------------

    def start(self) -> tuple[NDArray, NDArray]:
        """Equal shares, a level balance, and a feasible alpha."""
        shares = self.groups.shares(np.ones(self.n_kernels))
        return self.weights(shares, np.full(len(self.groups), 1.0 / len(self.groups))), self.inner.start()

    def repaired(self, weights: NDArray, alpha: NDArray) -> tuple[NDArray, NDArray]:
        return np.maximum(weights, 0.0), self.inner.repair(alpha)

    def _supported(self, linear: float, q: Vector) -> float:
        """``linear(alpha) − ½ (Σ_groups sqrt(max_k q_k))²``."""
        return linear - 0.5 * float(np.sqrt(self.groups.max(q)).sum()) ** 2

    def _bounds(self, weights: NDArray, alpha: NDArray, *, rounded: bool) -> tuple[float, float]:
        """Upper bound: the primal value of the classifier ``w_k = weights_k Σ_i alpha_i φ_k(x_i)``, best bias."""
        q = self.quadratic_forms(alpha) + (self._forms_error(alpha) if rounded else 0.0)
        primal = self._primal(weights, alpha, np.sqrt(q), rounded=rounded)
        return primal, self._supported(*self.cut(alpha, rounded=rounded))

    def _primal(self, weights: Vector, alpha: NDArray, norms: Vector, *, rounded: bool = False) -> float:
        """Half the squared largest group norm, with ``‖w_k‖ = weights_k norms_k``, plus the losses.

        Where the classes are separated, w scaled until its margin is one is a second primal point, and the better of
        the two counts.
        """
        penalty = 0.5 * float(self.groups.sum(weights * norms).max()) ** 2
        scores, error = (part.reshape(len(alpha), -1).T for part in self._products(weights, alpha))
        columns = list(zip(self.inner.svms, scores, error if rounded else [None] * len(scores)))
        primal = penalty + sum(svm.losses(f, e) for svm, f, e in columns)
        margin = min(svm.separation(f, e) for svm, f, e in columns)
        return min(primal, penalty / margin**2) if margin > 0.0 else primal

    def admitted(self, weights: NDArray, alpha: NDArray) -> tuple[NDArray, NDArray]:
        return weights, alpha

    # -- what its solvers work on ---------------------------------------------------------------------------------

    def weights(self, shares: Vector, balance: Vector) -> Vector:
        """Effective weights λ_k / γ_group(k)."""
        return shares / self.groups.spread(balance)

    def solution(self, point: GroupPoint) -> tuple[Vector, NDArray]:
        """Effective weights and alpha at a point; a kernel with q = 0 does nothing, so it gets no weight."""
        return np.where(point.q > 0.0, self.weights(point.shares, point.balance), 0.0), point.alpha

    def gradient(self, point: GroupPoint) -> Vector:
        """Derivatives of J by the shares."""
        return -0.5 * point.q / self.groups.spread(point.balance)

    def split(self, weights: Vector) -> tuple[Vector, Vector]:
        """Shares and balance whose effective weights are proportional to ``weights``."""
        total = self.groups.sum(weights)
        balance = 1.0 / np.where(total > 0.0, total, max(float(total.max()), 1.0))
        return self.groups.shares(np.asarray(weights, dtype=np.float64)), balance / balance.sum()

    def evaluate(
        self, shares: Vector, balance: Vector, warm: NDArray, tol: float, *, enough: float = np.inf
    ) -> GroupPoint:
        """The maximum over alpha and γ for given λ, to a relative gap ``tol``, by turns in alpha and in γ.

        Either turn is exact and the function is jointly concave, so the turns reach the maximum; extrapolating the
        logarithms of γ makes them faster. They end once the value, which only bounds the maximum from below, is above
        ``enough``: a step that is refused need not be known better.
        """
        turns = Turns(balance, floor=0.2 * min(tol, 0.1) / len(self.groups))
        alpha, best, least = warm, None, np.inf
        for _ in range(MOST_ROUNDS):
            weights = self.weights(shares, turns.balance)
            _, alpha = self.solve_inner(weights, alpha, 0.3 * tol)
            linear, q = self.cut(alpha)
            mass = self.groups.sum(shares * q)
            value = linear - 0.5 * float(np.sqrt(mass).sum()) ** 2
            if value > enough:
                return GroupPoint(shares, turns.balance, alpha, value, q)
            # primal of the problem with λ given: group norms sqrt(Σ_k λ_k q_k) / γ
            gap = self._primal(weights, alpha, np.sqrt(self.groups.spread(mass))) - value
            if best is None or gap < least:
                best, least = GroupPoint(shares, turns.balance, alpha, value, q), gap
            if least <= max(tol * abs(value), self._resolution):
                break
            turns.turn(np.sqrt(mass), gap)
        assert best is not None
        return best


class Turns:
    """The iteration γ ← best γ for the alpha of γ, with Anderson's extrapolation in logarithms where that helps.

    After an extrapolation that did not reduce the gap it goes on from the best γ so far with plain steps, twice as
    many as after the last failure. No γ falls below the floor: there may be groups with q = 0 at the optimum.
    """

    def __init__(self, balance: Vector, floor: float, depth: int = 3):
        self.floor, self.depth = floor, depth
        self.balance = self._admissible(balance)
        self.memory: list[tuple[Vector, Vector]] = []  # logarithms of γ, and where the plain step would move them
        self.best: tuple[float, Vector] = (np.inf, balance)
        self.plain, self.patience, self.extrapolated = 0, 1, False

    def turn(self, roots: Vector, gap: float) -> None:
        """Replace the balance by the next, given ``sqrt(Σ_k λ_k q_k)`` of each group and the gap at the last."""
        image = self._admissible(roots)
        failed = self.extrapolated and not gap < self.best[0]
        if gap < self.best[0]:
            self.best = gap, image
        if failed:
            self.memory, self.extrapolated = [], False
            self.plain, self.patience = self.patience, 2 * self.patience
            self.balance = self.best[1]
            return
        position = np.log(self.balance)
        self.memory = [*self.memory, (position, np.log(image) - position)][-self.depth :]
        self.extrapolated = self.plain == 0 and len(self.memory) > 1
        self.plain = max(self.plain - 1, 0)
        if self.extrapolated:
            image = self._admissible(np.exp(position + np.clip(extrapolated_move(self.memory), -2.0, 2.0)))
        self.balance = image

    def _admissible(self, values: Vector) -> Vector:
        """Values scaled to sum to one, none below the floor; equal ones where all are zero."""
        total = float(values.sum())
        balance = values / total if total > 0.0 else np.full(len(values), 1.0 / len(values))
        balance = np.maximum(balance, self.floor)
        return balance / balance.sum()


def parse_groups(groups: Any, names: Sequence[str]) -> list[NDArray[np.intp]]:
    """The groups as arrays of kernel positions, after a check that each kernel is in exactly one.

    ``groups`` is a list per group, of positions or names of kernels, or one label per kernel: those with the same
    label are a group.

    Examples
    --------
    >>> from multikernel.problems.vskl import parse_groups
    >>> parse_groups([["shape", "colour"], [1]], ["shape", "size", "colour"])
    [array([0, 2]), array([1])]
    >>> parse_groups(["a", "b", "a"], ["shape", "size", "colour"])
    [array([0, 2]), array([1])]
    """
    names = list(names)
    entries = list(groups) if not isinstance(groups, str) else [groups]
    if not entries:
        raise ValueError(f"groups is empty, but there are {len(names)} kernels: put each of them into a group.")
    nested = [isinstance(entry, (list, tuple, set, range, np.ndarray)) for entry in entries]
    if not any(nested):
        if len(entries) != len(names):
            raise ValueError(
                f"groups has {len(entries)} labels for {len(names)} kernels: give one label per kernel, or lists."
            )
        return [np.flatnonzero([label == other for other in entries]) for label in dict.fromkeys(entries)]
    if not all(nested):
        k = nested.index(False)
        raise ValueError(
            f"groups[{k}] is {entries[k]!r}, not a list of kernels like the others: give one list per group."
        )
    parsed = [np.array(sorted(_position(e, k, names) for e in part), np.intp) for k, part in enumerate(entries)]
    _check_partition(parsed, names)
    return parsed


def _position(entry: Any, group: int, names: list[str]) -> int:
    """Position of a kernel given by position or by name."""
    if isinstance(entry, str):
        if entry not in names:
            known = ", ".join(names[:10]) + (", …" if len(names) > 10 else "")
            raise ValueError(f'groups[{group}] has the kernel "{entry}", which does not exist. There are: {known}.')
        return names.index(entry)
    if isinstance(entry, (bool, np.bool_)) or not isinstance(entry, (int, np.integer)):
        raise ValueError(f"groups[{group}] has {entry!r}: give positions (integers) or names of kernels.")
    if not 0 <= entry < len(names):
        raise ValueError(f"groups[{group}] has position {entry}, but kernels are numbered 0 to {len(names) - 1}.")
    return int(entry)


def _check_partition(groups: list[NDArray[np.intp]], names: list[str]) -> None:
    """Refuse empty groups, and kernels in no group or in several places."""
    for k, group in enumerate(groups):
        if not len(group):
            raise ValueError(f"groups[{k}] is empty: leave it out, or put kernels into it.")
    counts = np.bincount(np.concatenate(groups), minlength=len(names))
    for wrong, what in ((counts == 0, "in no group"), (counts > 1, "listed more than once")):
        if wrong.any():
            some = ", ".join(f'{k} ("{names[k]}")' for k in np.flatnonzero(wrong)[:5])
            raise ValueError(
                f"{int(wrong.sum())} of {len(names)} kernels are {what}, the first: {some}. "
                "Each kernel belongs to exactly one group."
            )
