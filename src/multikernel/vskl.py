"""Variable sparsity kernel learning: kernels compete within groups, and every group has its say [NDRBBR09]."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from multikernel.certificate import Certificate
from multikernel.gram.base import GramStack
from multikernel.groups import Groups
from multikernel.inner.labels import LabelSVMs
from multikernel.inner.svm import CSVM
from multikernel.minmax import MinMaxProblem
from multikernel.weight_sets import LpBall

Vector = NDArray[np.float64]

# SVMs in one evaluation of the objective, at most.
MOST_ROUNDS = 100


@dataclass
class GroupPoint:
    """What is known at shares λ of the kernels within their groups.

    Parameters
    ----------
    shares : ndarray of shape (F,)
        λ, sums to one in each group.
    balance : ndarray of shape (number of groups,)
        γ, sums to one.
    alpha : ndarray of shape (n,) or (n, T)
        Signed dual coefficients.
    value : float
        ``linear(alpha) − ½ (Σ_groups sqrt(Σ_k λ_k q_k))²``, the largest up to the tolerance asked for.
    q : ndarray of shape (F,)
        Quadratic forms of alpha.
    """

    shares: Vector
    balance: Vector
    alpha: NDArray
    value: float
    q: Vector


class VSKLProblem(MinMaxProblem):
    """``min over w of ½ max over groups (Σ_{k in group} ‖w_k‖)² + losses``: ℓ1 within groups, ℓ∞ across [NDRBBR09].

    Its dual is ``max over alpha of linear(alpha) − ½ (Σ_groups sqrt(max_{k in group} q_k(alpha)))²``. With shares λ
    that sum to one in each group and a balance γ that sums to one,

        optimum = min over λ, max over γ, of  SVM optimum on  Σ_k (λ_k / γ_group(k)) K_k,

    convex in λ, concave in γ; for given alpha the best γ is proportional to ``sqrt(Σ_k λ_k q_k)`` of each group. The
    *weights* of this problem are the effective ones, λ_k / γ_group(k): the classifier is that of the kernel
    ``Σ_k weights_k K_k``. One group makes it ℓ1 MKL; with groups of one kernel each no kernel is left out.

    Unlike other problems of this kind its weights are not confined to a convex set: ``weight_set`` is the simplex
    that one group has.

    Parameters
    ----------
    stack : GramStack
        Training kernels, square.
    inner : CSVM, NuSVM or LabelSVMs
        The problem in alpha; with several labels, losses and quadratic forms are summed.
    groups : sequence of integer arrays
        Positions of each group's kernels (see :func:`multikernel.groups.parse_groups`).
    memory : int
        Bytes that the combined kernel may take; beyond, it is computed where it is read.

    Examples
    --------
    >>> import numpy as np
    >>> from multikernel.gram import DenseStack
    >>> from multikernel.inner import CSVM
    >>> from multikernel.vskl import VSKLProblem
    >>> stack = DenseStack(np.stack([np.eye(2), np.array([[1.0, -1.0], [-1.0, 1.0]])]))
    >>> problem = VSKLProblem(stack, CSVM([-1, 1], C=10.0), [[0], [1]], memory=1 << 20)
    >>> alpha = np.array([-0.2, 0.2])
    >>> problem.lower_bound(alpha).round(6)  # 0.4 - (sqrt(0.08) + sqrt(0.16))² / 2
    np.float64(0.166863)
    """

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

    def lower_bound(self, alpha: NDArray) -> float:
        """``linear(alpha) − ½ (Σ_groups sqrt(max_k q_k))²``."""
        linear, q = self.cut(alpha)
        return linear - 0.5 * float(np.sqrt(self.groups.max(q)).sum()) ** 2

    def certificate(self, weights: NDArray, alpha: NDArray) -> Certificate:
        """Upper bound: the primal value of the classifier ``w_k = weights_k Σ_i alpha_i φ_k(x_i)``, best bias.

        Where it separates the classes, w scaled until its margin is one is a second primal point, and the better of
        the two counts.
        """
        return Certificate(self._primal(weights, alpha, np.sqrt(self.quadratic_forms(alpha))), self.lower_bound(alpha))

    def _primal(self, weights: Vector, alpha: NDArray, norms: Vector) -> float:
        """Half the squared largest group norm, with ``‖w_k‖ = weights_k norms_k``, plus the losses."""
        penalty = 0.5 * float(self.groups.sum(weights * norms).max()) ** 2
        scores = np.tensordot(weights, self.scores(alpha), axes=1)
        if not isinstance(self.inner, (CSVM, LabelSVMs)):
            return penalty + self.inner.certificate(scores, alpha).primal - 0.5 * max(float(alpha @ scores), 0.0)
        svms = self.inner.svms if isinstance(self.inner, LabelSVMs) else [self.inner]
        columns = scores.T if scores.ndim == 2 else [scores]
        losses = 0.0
        for svm, f in zip(svms, columns):
            losses += float(svm.upper @ np.maximum(1.0 - svm.signs * (f + svm.intercept(f)), 0.0))
        margin = min(svm._separation(f) for svm, f in zip(svms, columns))
        return min(penalty + losses, penalty / margin**2 if margin > 0.0 else np.inf)

    # -- what its solvers work on ---------------------------------------------------------------------------------

    def weights(self, shares: Vector, balance: Vector) -> Vector:
        """Effective weights λ_k / γ_group(k)."""
        return shares / self.groups.spread(balance)

    def split(self, weights: Vector) -> tuple[Vector, Vector]:
        """Shares and balance whose effective weights are proportional to ``weights``."""
        total = self.groups.sum(weights)
        balance = 1.0 / np.where(total > 0.0, total, max(float(total.max()), 1.0))
        return self.groups.shares(np.asarray(weights, dtype=np.float64)), balance / balance.sum()

    def best_balance(self, shares: Vector, q: Vector, floor: float) -> Vector:
        """γ ∝ sqrt(Σ_k λ_k q_k) in each group, none below ``floor``: a group may have q = 0 at the optimum."""
        roots = np.sqrt(self.groups.sum(shares * q))
        total = float(roots.sum())
        balance = roots / total if total > 0.0 else np.full(len(roots), 1.0 / len(roots))
        balance = np.maximum(balance, floor)
        return balance / balance.sum()

    def evaluate(self, shares: Vector, balance: Vector, warm: NDArray, tol: float) -> GroupPoint:
        """The maximum over alpha and γ for given λ, to a relative gap ``tol``, by turns in alpha and in γ.

        Either turn is exact and the function is jointly concave, so the turns reach the maximum; extrapolating the
        logarithms of γ makes them faster.
        """
        turns = _Turns()
        alpha, floor = warm, 0.01 * min(tol, 0.1) / len(self.groups)
        for _ in range(MOST_ROUNDS):
            weights = self.weights(shares, balance)
            _, alpha = self.solve_inner(weights, alpha, 0.3 * tol)
            linear, q = self.cut(alpha)
            mass = self.groups.sum(shares * q)
            value = linear - 0.5 * float(np.sqrt(mass).sum()) ** 2
            # primal of the problem with λ given: group norms sqrt(Σ_k λ_k q_k) / γ
            gap = self._primal(weights, alpha, np.sqrt(self.groups.spread(mass))) - value
            if gap <= tol * max(abs(value), 1e-12):
                break
            balance = turns.next(balance, self.best_balance(shares, q, floor), gap, floor)
        return GroupPoint(shares, balance, alpha, value, q)


class _Turns:
    """Anderson's extrapolation of the fixed-point iteration γ ← best γ for the alpha of γ, in logarithms.

    A step whose gap is not smaller than the last is followed by a plain one, and what was remembered is forgotten.
    """

    def __init__(self, depth: int = 3):
        self.depth = depth
        self.points: list[Vector] = []
        self.moves: list[Vector] = []
        self.gap = np.inf

    def next(self, balance: Vector, image: Vector, gap: float, floor: float) -> Vector:
        """The γ to try next, given the last one, its image and its gap."""
        if not gap < self.gap:
            self.points, self.moves = [], []
        self.gap = gap
        self.points = [*self.points, np.log(balance)][-self.depth :]
        self.moves = [*self.moves, np.log(image) - np.log(balance)][-self.depth :]
        if len(self.points) < 2:
            return image
        differences = np.diff(np.array(self.moves), axis=0).T
        steps = np.diff(np.array(self.points), axis=0).T
        mix = np.linalg.lstsq(differences, self.moves[-1], rcond=1e-10)[0]
        change = self.moves[-1] - (steps + differences) @ mix
        balance = np.exp(self.points[-1] + np.clip(change, -2.0, 2.0))
        balance = np.maximum(balance / balance.sum(), floor)
        return balance / balance.sum()
