"""Smooth losses: value, derivatives, and the dual value that proves a solution good."""

from __future__ import annotations

import copy

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import entr, expit, logsumexp, softmax


class SmoothLoss:
    """``Σ_i c_i ℓ_i(f_i)`` with ℓ_i convex and smooth in the scores f_i of sample i, shape (T,).

    A subclass gives ℓ of every sample, its derivative, a diagonal of its second derivative, and its conjugate
    ``ℓ*(v) = max over f of v·f - ℓ(f)``.

    Parameters
    ----------
    targets : array of shape (n,) or (n, T)
        Signs, indicators of classes or numbers, a column for each score.
    sample_weight : array of shape (n,), optional
        Weights s_i; ``c_i = s_i / Σ s``. By default all are 1.

    Attributes
    ----------
    importance : ndarray of shape (n,)
        The factors c_i, which add up to one.
    smoothness : float
        Largest eigenvalue that the second derivative of any ℓ_i has anywhere.
    """

    code: int  # what compiled loops know it by
    smoothness: float
    width: float = 1.0  # of the part that is curved, where there is a choice
    separable = True  # whether it is a sum over scores

    def __init__(self, targets: ArrayLike, sample_weight: ArrayLike | None = None):
        targets = np.asarray(targets, dtype=np.float64)
        self.targets = np.ascontiguousarray(targets[:, None] if targets.ndim == 1 else targets)
        weight = np.ones(len(self.targets)) if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
        if not weight.sum() > 0.0:
            raise ValueError("all sample weights are zero: give at least one sample a positive weight.")
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

    def value(self, scores: NDArray) -> float:
        """The loss at ``scores`` of shape (n, T)."""
        return float(self.importance @ self.losses(scores))

    def gradient(self, scores: NDArray) -> NDArray[np.float64]:
        """Derivative of the loss with respect to the scores, ``c_i ℓ_i'(f_i)``, shape (n, T).

        With its sign changed it is the dual point that belongs to the scores.
        """
        return self.importance[:, None] * self.derivative(scores)

    def curvature(self, scores: NDArray, directions: NDArray) -> NDArray[np.float64]:
        """Second derivative along ``directions`` (k, n, T) in the space of scores, shape (k, k)."""
        flat = directions.reshape(len(directions), -1)
        diagonal = self.importance[:, None] * self.second_derivative(scores)
        return (flat * diagonal.ravel()) @ flat.T

    def bend(self, scores: NDArray, change: NDArray) -> NDArray[np.float64]:
        """Second derivative times a change of the scores, shape (n, T): by how much the gradient changes."""
        return self.importance[:, None] * self.second_derivative(scores) * change

    def dual_value(self, dual: NDArray) -> float:
        """``-Σ_i c_i ℓ*(-dual_i / c_i)``, shape (n, T) to a number; ``-inf`` where ``dual`` is not feasible."""
        counts = self.importance > 0.0
        if dual[~counts].any():
            return float("-inf")
        slopes = np.zeros_like(dual)
        np.divide(-dual, self.importance[:, None], out=slopes, where=counts[:, None])
        return -float(self.importance[counts] @ self.conjugate(slopes)[counts])

    def dual_box(self) -> tuple[NDArray, NDArray, NDArray] | None:
        """p, lo, hi of shape (n, T) with ``ℓ*(-u) = u² / (2 smoothness) - p u`` for lo <= u <= hi, else infinite.

        Then the dual at fixed weights is a quadratic program with bounds. None where the conjugate is no parabola, or
        there is nothing to bound.
        """
        return None

    # -- one entry per sample ----------------------------------------------------------------------------------------

    def losses(self, scores: NDArray) -> NDArray[np.float64]:
        """ℓ_i, shape (n,)."""
        raise NotImplementedError

    def derivative(self, scores: NDArray) -> NDArray[np.float64]:
        """ℓ_i', shape (n, T)."""
        raise NotImplementedError

    def second_derivative(self, scores: NDArray) -> NDArray[np.float64]:
        """The diagonal of ℓ_i'', shape (n, T); there is nothing beside it where the loss is separable."""
        raise NotImplementedError

    def conjugate(self, slopes: NDArray) -> NDArray[np.float64]:
        """ℓ_i* at ``slopes`` (n, T), shape (n,); ``inf`` outside its domain."""
        raise NotImplementedError


# A dual point is computed from scores, so that it can be outside its domain by rounding only.
ROUNDING = 1e-12


class LogisticLoss(SmoothLoss):
    """``Σ_r log(1 + exp(-y_r f_r))`` with signs y.

    Examples
    --------
    >>> import numpy as np
    >>> from multikernel.problems.losses.smooth import LogisticLoss
    >>> round(LogisticLoss([1.0, -1.0]).value(np.zeros((2, 1))), 6)
    0.693147
    """

    code, smoothness = 0, 0.25

    def losses(self, scores: NDArray) -> NDArray[np.float64]:
        return np.logaddexp(0.0, -self.targets * scores).sum(axis=1)

    def derivative(self, scores: NDArray) -> NDArray[np.float64]:
        return -self.targets * expit(-self.targets * scores)

    def second_derivative(self, scores: NDArray) -> NDArray[np.float64]:
        return expit(scores) * expit(-scores)

    def conjugate(self, slopes: NDArray) -> NDArray[np.float64]:
        share = -self.targets * slopes
        inside = np.clip(share, 0.0, 1.0)
        value = -(entr(inside) + entr(1.0 - inside)).sum(axis=1)
        return np.where((np.abs(share - inside) <= ROUNDING).all(axis=1), value, np.inf)


class SquaredHinge(SmoothLoss):
    """``Σ_r max(0, 1 - y_r f_r)²`` with signs y.

    Examples
    --------
    >>> import numpy as np
    >>> from multikernel.problems.losses.smooth import SquaredHinge
    >>> SquaredHinge([1.0, -1.0]).value(np.array([[2.0], [1.0]]))
    2.0
    """

    code, smoothness = 1, 2.0

    def losses(self, scores: NDArray) -> NDArray[np.float64]:
        return (np.maximum(1.0 - self.targets * scores, 0.0) ** 2).sum(axis=1)

    def derivative(self, scores: NDArray) -> NDArray[np.float64]:
        return -2.0 * self.targets * np.maximum(1.0 - self.targets * scores, 0.0)

    def second_derivative(self, scores: NDArray) -> NDArray[np.float64]:
        return np.where(self.targets * scores < 1.0, 2.0, 0.0)

    def conjugate(self, slopes: NDArray) -> NDArray[np.float64]:
        share = -self.targets * slopes
        value = (0.25 * share**2 - share).sum(axis=1)
        return np.where((share >= -ROUNDING).all(axis=1), value, np.inf)

    def dual_box(self) -> tuple[NDArray, NDArray, NDArray]:
        # at the optimum no sample loses more than all do at zero scores, which is 1: (1 - z)² <= 1 / c
        counts = self.importance > 0.0
        most = np.divide(2.0, np.sqrt(self.importance), out=np.zeros_like(self.importance), where=counts)
        most = self.targets * most[:, None]
        return self.targets, np.minimum(most, 0.0), np.maximum(most, 0.0)


class SmoothedHinge(SmoothLoss):
    """The hinge loss with its kink made round: a parabola over margins from ``1 - width`` to 1.

    Per score, with margin z = y f and signs y: 0 for z >= 1, ``1 - z - width/2`` for z <= 1 - width, and
    ``(1 - z)² / (2 width)`` between.

    Parameters
    ----------
    targets, sample_weight
        As for :class:`SmoothLoss`.
    width : float
        Margins over which it is curved; towards zero this becomes the hinge loss.

    Examples
    --------
    >>> import numpy as np
    >>> from multikernel.problems.losses.smooth import SmoothedHinge
    >>> SmoothedHinge([1.0, 1.0, 1.0]).losses(np.array([[2.0], [0.5], [-1.0]]))
    array([0.   , 0.125, 1.5  ])
    """

    code = 2

    def __init__(self, targets: ArrayLike, sample_weight: ArrayLike | None = None, width: float = 1.0):
        super().__init__(targets, sample_weight)
        self.width, self.smoothness = float(width), 1.0 / float(width)

    def losses(self, scores: NDArray) -> NDArray[np.float64]:
        short = np.maximum(1.0 - self.targets * scores, 0.0)
        curved = np.minimum(short, self.width)
        return (curved**2 / (2.0 * self.width) + short - curved).sum(axis=1)

    def derivative(self, scores: NDArray) -> NDArray[np.float64]:
        return -self.targets * np.clip((1.0 - self.targets * scores) / self.width, 0.0, 1.0)

    def second_derivative(self, scores: NDArray) -> NDArray[np.float64]:
        short = 1.0 - self.targets * scores
        return np.where((short > 0.0) & (short < self.width), self.smoothness, 0.0)

    def conjugate(self, slopes: NDArray) -> NDArray[np.float64]:
        share = -self.targets * slopes
        value = (0.5 * self.width * share**2 - share).sum(axis=1)
        return np.where(((share >= -ROUNDING) & (share <= 1.0 + ROUNDING)).all(axis=1), value, np.inf)

    def dual_box(self) -> tuple[NDArray, NDArray, NDArray]:
        return self.targets, np.minimum(self.targets, 0.0), np.maximum(self.targets, 0.0)


class SoftmaxLoss(SmoothLoss):
    """``log Σ_r exp(f_r) - f_y``, the logistic loss of several classes; ``targets`` is one at the class, else zero.

    Examples
    --------
    >>> import numpy as np
    >>> from multikernel.problems.losses.smooth import SoftmaxLoss
    >>> round(SoftmaxLoss(np.eye(3)).value(np.zeros((3, 3))), 6)
    1.098612
    """

    code, smoothness, separable = 3, 0.5, False

    def losses(self, scores: NDArray) -> NDArray[np.float64]:
        return logsumexp(scores, axis=1) - (self.targets * scores).sum(axis=1)

    def derivative(self, scores: NDArray) -> NDArray[np.float64]:
        return softmax(scores, axis=1) - self.targets

    def second_derivative(self, scores: NDArray) -> NDArray[np.float64]:
        share = softmax(scores, axis=1)
        return share * (1.0 - share)

    def curvature(self, scores: NDArray, directions: NDArray) -> NDArray[np.float64]:
        share = softmax(scores, axis=1)
        along = directions - (share * directions).sum(axis=2, keepdims=True)
        flat = along.reshape(len(directions), -1)
        return (flat * (self.importance[:, None] * share).ravel()) @ flat.T

    def bend(self, scores: NDArray, change: NDArray) -> NDArray[np.float64]:
        share = softmax(scores, axis=1)
        return self.importance[:, None] * share * (change - (share * change).sum(axis=1, keepdims=True))

    def conjugate(self, slopes: NDArray) -> NDArray[np.float64]:
        share = slopes + self.targets
        inside = (share >= -ROUNDING).all(axis=1) & (np.abs(share.sum(axis=1) - 1.0) <= ROUNDING * share.shape[1])
        return np.where(inside, -entr(np.maximum(share, 0.0)).sum(axis=1), np.inf)
