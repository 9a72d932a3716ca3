"""Smooth losses: value, derivatives, and the dual value that proves a solution good."""

from __future__ import annotations

import copy

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import entr, expit, logsumexp, softmax

from multikernel.problems.certificate import UNIT
from multikernel.problems.primal import checked_weights

Array = NDArray[np.float64]
# What compiled loops know a loss by, in their order.
LOGISTIC, SOFTMAX, HINGE, RESIDUAL = range(4)
# A dual point is computed from scores, so that it can be outside its domain by rounding only.
ROUNDING = 1e-12


class SmoothLoss:
    """``Σ_i c_i ℓ_i(f_i)`` with ℓ_i convex and smooth in the scores f_i of sample i, shape (T,).

    A subclass gives ℓ of every sample, its derivative, a diagonal of its second derivative, and its conjugate
    ``ℓ*(v) = max over f of v·f - ℓ(f)`` with its domain. Targets, (n,) or (n, T), are signs, indicators of classes or
    numbers; ``importance`` (n,) are ``c_i = s_i / Σ s`` of the weights of samples.
    """

    code: int
    smoothness: float  # largest eigenvalue of the second derivative of any ℓ_i, anywhere
    width: float = np.inf  # of the part that is curved
    separable = True  # whether it is a sum over scores

    def __init__(self, targets: ArrayLike, sample_weight: ArrayLike | None = None):
        targets = np.asarray(targets, dtype=np.float64)
        self.targets = np.ascontiguousarray(targets[:, None] if targets.ndim == 1 else targets)
        weight = checked_weights(sample_weight, len(self.targets))
        self.total_weight = float(weight.sum())
        self.importance = weight / self.total_weight

    def __len__(self) -> int:
        return len(self.targets)

    @property
    def n_scores(self) -> int:
        """Scores of a sample, T."""
        return self.targets.shape[1]

    def column(self, t: int) -> SmoothLoss:
        """The part of score t alone, for a loss that is separable."""
        part = copy.copy(self)
        part.targets = np.ascontiguousarray(self.targets[:, [t]])
        return part

    def rows(self, rows: slice | NDArray[np.intp], *, whole: bool = False) -> SmoothLoss:
        """The part of some samples, or, with ``whole``, the loss as if there were no others."""
        part = copy.copy(self)
        part.targets, part.importance = self.targets[rows], self.importance[rows]
        if whole:
            share = float(part.importance.sum())
            part.total_weight, part.importance = share * self.total_weight, part.importance / share
        return part

    def value(self, scores: NDArray) -> float:
        """The loss at ``scores`` of shape (n, T)."""
        return float(self.importance @ self.losses(scores))

    def gradient(self, scores: NDArray) -> Array:
        """Derivative of the loss with respect to the scores, ``c_i ℓ_i'(f_i)``, shape (n, T).

        With its sign changed it is the dual point that belongs to the scores.
        """
        return self.importance[:, None] * self.derivative(scores)

    def bend(self, scores: NDArray, change: NDArray) -> Array:
        """Second derivative times changes (…, n, T) of the scores: by how much the gradient changes."""
        return self.importance[:, None] * self.second_derivative(scores) * change

    def error(self, scores: NDArray, off: NDArray) -> float:
        """What ``value(scores)`` may be off by if the scores are, by ``off`` (n, T), rounding of the sum included."""
        off = off + 4.0 * UNIT * (np.abs(scores) + np.abs(self.targets))
        moved = np.abs(self.gradient(scores)) * off + 0.5 * self.smoothness * self.importance[:, None] * off**2
        return float(moved.sum()) + self._terms * UNIT * self.value(scores)

    # -- the dual --------------------------------------------------------------------------------------------------

    def feasible(self, dual: NDArray) -> Array | None:
        """``dual`` (n, T) without what rounding moved out of its domain; None if it was further out."""
        slopes = self._slopes(dual)
        inside = self.domain(slopes)
        moved = np.abs(inside - slopes)
        if dual[self.importance == 0.0].any() or (moved > ROUNDING * self._steepest).any():
            return None
        return np.where(moved <= self.slack * np.abs(slopes), dual, -self.importance[:, None] * inside)

    def dual_value(self, dual: NDArray) -> float:
        """``-Σ_i c_i ℓ*(-dual_i / c_i)``, shape (n, T) to a number; ``-inf`` where ``dual`` is not feasible."""
        feasible = self.feasible(dual)
        if feasible is None:
            return float("-inf")
        return -float(self.importance @ self.conjugate(self.domain(self._slopes(feasible))))

    def dual_error(self, dual: NDArray) -> float:
        """What ``dual_value(dual)`` may be off by: rounding."""
        sizes = np.abs(self.targets) + np.abs(self._slopes(dual)) / self.smoothness
        return self._terms * UNIT * (abs(self.dual_value(dual)) + float((np.abs(dual) * sizes).sum()))

    def _slopes(self, dual: NDArray) -> Array:
        counts = self.importance[:, None] > 0.0
        return np.divide(-dual, self.importance[:, None], out=np.zeros_like(dual), where=counts)

    @property
    def slack(self) -> float:
        """By how much entries of a feasible dual point may be off, relative to themselves: rounding."""
        return 8.0 * (self.n_scores + 4) * UNIT

    @property
    def _steepest(self) -> float:
        """Largest slope, or 1 where there is none."""
        return min(self.width * self.smoothness, 1.0)

    @property
    def _terms(self) -> int:
        """Numbers in a sum over samples and scores, and operations that make them."""
        return len(self) + self.n_scores + 64

    def dual_box(self) -> tuple[Array, Array, Array] | None:
        """p, lo, hi of shape (n, T) with ``ℓ*(-u) = u² / (2 smoothness) - p u`` for lo <= u <= hi, else infinite.

        Then the dual at fixed weights is a quadratic program with bounds. None where the conjugate is no parabola, or
        there is nothing to bound.
        """
        return None

    # -- one entry per sample ----------------------------------------------------------------------------------------

    def losses(self, scores: NDArray) -> Array:
        """ℓ_i, shape (n,)."""
        raise NotImplementedError

    def derivative(self, scores: NDArray) -> Array:
        """ℓ_i', shape (n, T)."""
        raise NotImplementedError

    def second_derivative(self, scores: NDArray) -> Array:
        """The diagonal of ℓ_i'', shape (n, T); there is nothing beside it where the loss is separable."""
        raise NotImplementedError

    def domain(self, slopes: NDArray) -> Array:
        """Slopes (n, T) at which ℓ_i* is finite, near those given."""
        raise NotImplementedError

    def conjugate(self, slopes: NDArray) -> Array:
        """ℓ_i* at ``slopes`` (n, T) in its domain, shape (n,)."""
        raise NotImplementedError


class LogisticLoss(SmoothLoss):
    """``Σ_r log(1 + exp(-y_r f_r))`` with signs y."""

    code, smoothness = LOGISTIC, 0.25

    def losses(self, scores: NDArray) -> Array:
        return np.logaddexp(0.0, -self.targets * scores).sum(axis=1)

    def derivative(self, scores: NDArray) -> Array:
        return -self.targets * expit(-self.targets * scores)

    def second_derivative(self, scores: NDArray) -> Array:
        return expit(scores) * expit(-scores)

    def domain(self, slopes: NDArray) -> Array:
        return -self.targets * np.clip(-self.targets * slopes, 0.0, 1.0)

    def conjugate(self, slopes: NDArray) -> Array:
        share = -self.targets * slopes
        return -(entr(share) + entr(1.0 - share)).sum(axis=1)


class SoftmaxLoss(SmoothLoss):
    """``log Σ_r exp(f_r) - f_y``, the logistic loss of several classes; ``targets`` is 1 at the class, else 0."""

    code, smoothness, separable = SOFTMAX, 0.5, False

    def losses(self, scores: NDArray) -> Array:
        return logsumexp(scores, axis=1) - (self.targets * scores).sum(axis=1)

    def derivative(self, scores: NDArray) -> Array:
        return self.domain(softmax(scores, axis=1))

    def second_derivative(self, scores: NDArray) -> Array:
        share = softmax(scores, axis=1)
        return share * (1.0 - share)

    def bend(self, scores: NDArray, change: NDArray) -> Array:
        share = softmax(scores, axis=1)
        return self.importance[:, None] * share * (change - (share * change).sum(axis=-1, keepdims=True))

    def domain(self, slopes: NDArray) -> Array:
        rivals = np.where(self.targets > 0.0, 0.0, np.maximum(slopes, 0.0))
        rivals /= np.maximum(rivals.sum(axis=1, keepdims=True), 1.0)
        return rivals - self.targets * rivals.sum(axis=1, keepdims=True)

    def conjugate(self, slopes: NDArray) -> Array:
        return -entr(np.maximum(slopes + self.targets, 0.0)).sum(axis=1)


class ParabolicLoss(SmoothLoss):
    """A parabola in ``e = y - f`` as far as e is within bounds, straight lines beyond; summed over scores.

    With c = e clipped to the bounds it is ``smoothness · c (e - c/2)``. Hinges of signs y are of this kind, because
    ``1 - y f`` is ``y e``.
    """

    def bounds(self) -> tuple[Array, Array]:
        """Least and largest c, shape (n, T)."""
        end = np.full_like(self.targets, self.width)
        return -end, end

    def losses(self, scores: NDArray) -> Array:
        rest = self.targets - scores
        near = np.clip(rest, *self.bounds())
        return self.smoothness * (near * (rest - 0.5 * near)).sum(axis=1)

    def derivative(self, scores: NDArray) -> Array:
        return -self.smoothness * np.clip(self.targets - scores, *self.bounds())

    def second_derivative(self, scores: NDArray) -> Array:
        rest, (low, high) = self.targets - scores, self.bounds()
        return np.where((rest > low) & (rest < high), self.smoothness, 0.0)

    def domain(self, slopes: NDArray) -> Array:
        low, high = self.bounds()
        return np.clip(slopes, -self.smoothness * high, -self.smoothness * low)

    def conjugate(self, slopes: NDArray) -> Array:
        return (slopes * (self.targets + 0.5 * slopes / self.smoothness)).sum(axis=1)

    def dual_box(self) -> tuple[Array, Array, Array] | None:
        if np.isinf(self.width):
            return None
        low, high = self.bounds()
        return self.targets, self.smoothness * low, self.smoothness * high


class _Hinge(ParabolicLoss):
    """A parabola on the side of the sign alone."""

    code = HINGE

    def bounds(self) -> tuple[Array, Array]:
        ends = self.width * self.targets
        return np.minimum(ends, 0.0), np.maximum(ends, 0.0)


class SquaredHinge(_Hinge):
    """``Σ_r max(0, 1 - y_r f_r)²`` with signs y."""

    smoothness = 2.0

    def dual_box(self) -> tuple[Array, Array, Array]:
        # at the optimum no sample loses more than all do at zero scores, which is 1: (1 - z)² <= 1 / c
        counts = self.importance > 0.0
        most = np.divide(2.0, np.sqrt(self.importance), out=np.zeros_like(self.importance), where=counts)
        ends = self.targets * most[:, None]
        return self.targets, np.minimum(ends, 0.0), np.maximum(ends, 0.0)


class SmoothedHinge(_Hinge):
    """The hinge loss with its kink made round: a parabola over margins from ``1 - width`` to 1.

    Per score, with margin z = y f and signs y: 0 for z >= 1, ``1 - z - width/2`` for z <= 1 - width, and
    ``(1 - z)² / (2 width)`` between.
    """

    def __init__(self, targets: ArrayLike, sample_weight: ArrayLike | None = None, width: float = 1.0):
        super().__init__(targets, sample_weight)
        self.width, self.smoothness = float(width), 1.0 / float(width)


class SquaredLoss(ParabolicLoss):
    """``½ Σ_r (f_r - y_r)²``: ridge regression."""

    code, smoothness = RESIDUAL, 1.0

    def best_constant(self) -> Array:
        """The constant scores of least loss, shape (T,): weighted means."""
        return self.importance @ self.targets


class HuberLoss(ParabolicLoss):
    """``½ (f - y)²`` up to a distance of ``width``, then ``width (|f - y| - width/2)``; summed over scores."""

    code, smoothness = RESIDUAL, 1.0

    def __init__(self, targets: ArrayLike, sample_weight: ArrayLike | None = None, width: float = 1.0):
        super().__init__(targets, sample_weight)
        self.width = float(width)

    def best_constant(self) -> Array:
        """The constant scores of least loss, shape (T,)."""
        from scipy.optimize import brentq

        def slope(level: float, column: NDArray) -> float:
            return float(self.importance @ np.clip(level - column, -self.width, self.width))

        counts = self.importance > 0.0
        found = []
        for column in self.targets.T:
            low, high = float(column[counts].min()), float(column[counts].max())
            found.append(low if low == high else brentq(slope, low, high, args=(column,), xtol=1e-12, rtol=1e-15))
        return np.array(found)
