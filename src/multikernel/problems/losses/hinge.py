"""Losses of the primal family: value, best scale of a solution, feasible dual points and their value."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from multikernel.problems.certificate import UNIT


class MulticlassHinge:
    """``Σ_i c_i max_r (cost[y_i, r] + score_ir - score_{i, y_i})``, the loss of [OJC10, eq. (5)].

    With the default costs, 1 for every wrong class, this is the hinge loss of [CS01]; two classes are no special
    case. Other costs make it the margin-rescaled loss of a hierarchy or of unequal mistakes.

    Parameters
    ----------
    labels : array of shape (n,)
        Classes as integers 0, …, M - 1.
    n_classes : int
        Number of classes M.
    sample_weight : array of shape (n,), optional
        Weights s_i; ``c_i = s_i / Σ s``. By default all are 1.
    cost : array of shape (M, M), optional
        Cost of answering column r where row y is right: zero on the diagonal, elsewhere not negative.

    Attributes
    ----------
    importance : ndarray of shape (n,)
        The factors c_i, which add up to one.

    Examples
    --------
    >>> import numpy as np
    >>> from multikernel.problems.losses.hinge import MulticlassHinge
    >>> loss = MulticlassHinge([0, 2], 3)
    >>> loss.value(np.array([[2.0, 0.0, 0.5], [0.0, 1.0, 0.5]]))
    0.75
    """

    def __init__(
        self,
        labels: ArrayLike,
        n_classes: int,
        sample_weight: ArrayLike | None = None,
        cost: ArrayLike | None = None,
    ):
        self.labels = np.ascontiguousarray(labels, dtype=np.int64)
        self.n_classes = int(n_classes)
        if self.labels.size and not (self.labels.min() >= 0 and self.labels.max() < self.n_classes):
            raise ValueError(f"labels must be from 0 to {self.n_classes - 1}: they are positions of classes.")
        weight = checked_weights(sample_weight, len(self.labels))
        self.total_weight = float(weight.sum())
        self.importance = weight / self.total_weight
        self.cost = 1.0 - np.eye(self.n_classes) if cost is None else check_cost(cost, self.n_classes)
        self._own = np.arange(len(self.labels)), self.labels

    def __len__(self) -> int:
        return len(self.labels)

    def value(self, scores: NDArray) -> float:
        """The loss at ``scores`` of shape (n, M)."""
        return float(self.importance @ self._excess(scores, self._costs()).max(axis=1))

    def _costs(self) -> NDArray[np.float64]:
        return self.cost[self.labels]

    def _excess(self, scores: NDArray, costs: NDArray) -> NDArray[np.float64]:
        """``cost + score_r - score_label``, zero at the label, shape (n, M)."""
        return scores - scores[self._own][:, None] + costs

    def best_scale(self, scores: NDArray, curvature: float, slope: float = 0.0) -> float:
        """The factor t >= 0 that minimises ``½ curvature t² + slope t + value(t · scores)``, by bisection."""
        lead = scores - scores[self._own][:, None]
        derivative_of_loss = self._along(lead)

        def derivative(t: float) -> float:
            return curvature * t + slope + derivative_of_loss(t)

        low, high = 0.0, 1.0
        for _ in range(60):
            if derivative(high) >= 0.0:
                break
            low, high = high, 2.0 * high
        for _ in range(50):
            middle = 0.5 * (low + high)
            low, high = (middle, high) if derivative(middle) < 0.0 else (low, middle)
        return 0.5 * (low + high)

    def _along(self, lead: NDArray) -> Callable[[float], float]:
        """The derivative of ``value(t · scores)`` in t, for ``lead = score_r - score_label``."""
        off_diagonal = self.cost[~np.eye(self.n_classes, dtype=bool)]
        if np.ptp(off_diagonal) == 0.0:  # the best rival is the same for every t
            lead[self._own] = -np.inf
            rival, cost = lead.max(axis=1), off_diagonal[0]
            share = self.importance * rival
            return lambda t: float(share[cost + t * rival > 0.0].sum())
        costs, rows = self._costs(), np.arange(len(lead))
        return lambda t: float(self.importance @ lead[rows, (t * lead + costs).argmax(axis=1)])

    # -- the dual --------------------------------------------------------------------------------------------------

    def feasible(self, dual: NDArray) -> NDArray[np.float64]:
        """The nearest thing to ``dual`` (n, M) with ``dual_ir <= 0`` off the label and rows that sum to zero.

        Rows whose entry at the label exceeds c_i are scaled down to it.
        """
        feasible = np.minimum(dual, 0.0)
        feasible[self._own] = 0.0
        total = -feasible.sum(axis=1)
        shrink = np.minimum(1.0, self.importance / np.maximum(total, np.finfo(float).tiny))
        feasible *= shrink[:, None]
        feasible[self._own] = shrink * total
        return feasible

    def violation(self, dual: NDArray) -> float:
        """How far ``dual`` is from the feasible set: the largest violated constraint."""
        off_label = dual.copy()
        off_label[self._own] = 0.0
        worst = off_label, dual[self._own] - self.importance, np.abs(dual.sum(axis=1))
        return float(max(part.max(initial=0.0) for part in worst))

    def linear(self, dual: NDArray) -> float:
        """``-Σ_ir cost[y_i, r] dual_ir``, the linear part of the dual objective."""
        return -float((self._costs() * dual).sum())

    # -- rounding ----------------------------------------------------------------------------------------------------

    @property
    def slack(self) -> float:
        """By how much entries of a feasible dual point may be off, relative to themselves."""
        return 4.0 * (self.n_classes + 2) * UNIT

    def error(self, scores: NDArray, off: NDArray) -> float:
        """What ``value(scores)`` may be off by if the scores are, by ``off`` (n, M), rounding of the sum included."""
        sizes = np.abs(scores).max(axis=1) + self.cost.max(initial=0.0)
        wrong = 2.0 * off.max(axis=1) + 8.0 * UNIT * sizes
        return float(self.importance @ wrong) + (len(self) + 8) * UNIT * self.value(scores)

    def linear_error(self, dual: NDArray, distance: float) -> float:
        """What ``linear(dual)`` may be off by where entries may be, by ``distance`` in all, rounding included."""
        sizes = float((self._costs() * np.abs(dual)).sum())
        return float(self.cost.max(initial=0.0)) * distance + (dual.size + 8) * UNIT * sizes


def checked_weights(sample_weight: ArrayLike | None, n: int) -> NDArray[np.float64]:
    """Weights of n samples, ones by default; an error if none of them counts."""
    weight = np.ones(n) if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
    if not weight.sum() > 0.0:
        raise ValueError("all sample weights are zero: give at least one sample a positive weight.")
    return weight


def check_cost(cost: ArrayLike, n_classes: int) -> NDArray[np.float64]:
    """A cost matrix as an array, or an error that says what is wrong with it."""
    cost = np.ascontiguousarray(cost, dtype=np.float64)
    if cost.shape != (n_classes, n_classes):
        raise ValueError(
            f"cost has shape {cost.shape}, but there are {n_classes} classes: pass shape ({n_classes}, {n_classes}), "
            "one row for each right class, one column for each answer, in the order of classes_."
        )
    if not np.isfinite(cost).all() or cost.min(initial=0.0) < 0.0 or np.abs(np.diagonal(cost)).max(initial=0.0) > 0.0:
        raise ValueError(
            f"cost must be finite, not negative, and zero on the diagonal; its smallest entry is {cost.min():.3g}, "
            f"the largest on the diagonal {np.abs(np.diagonal(cost)).max():.3g}."
        )
    return cost
