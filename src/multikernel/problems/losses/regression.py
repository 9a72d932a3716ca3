"""Smooth losses for numbers: squared, and Huber's."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from multikernel.problems.losses.smooth import ROUNDING, SmoothLoss


class SquaredLoss(SmoothLoss):
    """``½ Σ_r (f_r - y_r)²``: ridge regression.

    Examples
    --------
    >>> import numpy as np
    >>> from multikernel.problems.losses.regression import SquaredLoss
    >>> SquaredLoss([0.0, 3.0]).best_constant()
    array([1.5])
    """

    code, smoothness = 4, 1.0

    def losses(self, scores: NDArray) -> NDArray[np.float64]:
        return 0.5 * ((scores - self.targets) ** 2).sum(axis=1)

    def derivative(self, scores: NDArray) -> NDArray[np.float64]:
        return scores - self.targets

    def second_derivative(self, scores: NDArray) -> NDArray[np.float64]:
        return np.ones_like(scores)

    def conjugate(self, slopes: NDArray) -> NDArray[np.float64]:
        return (slopes * self.targets + 0.5 * slopes**2).sum(axis=1)

    def best_constant(self) -> NDArray[np.float64]:
        """The constant scores of least loss, shape (T,): weighted means."""
        return self.importance @ self.targets


class HuberLoss(SmoothLoss):
    """``½ (f - y)²`` up to a distance of ``width``, then ``width (|f - y| - width/2)``; summed over scores.

    Parameters
    ----------
    targets, sample_weight
        As for :class:`SmoothLoss`.
    width : float
        Distance from which on it grows linearly.

    Examples
    --------
    >>> import numpy as np
    >>> from multikernel.problems.losses.regression import HuberLoss
    >>> loss = HuberLoss([0.0, 0.5, 1000.0], width=1.0)
    >>> loss.losses(np.ones((3, 1)))
    array([5.000e-01, 1.250e-01, 9.985e+02])
    >>> loss.best_constant()  # a mean would be 333.5
    array([0.75])
    """

    code, smoothness = 5, 1.0

    def __init__(self, targets: ArrayLike, sample_weight: ArrayLike | None = None, width: float = 1.0):
        super().__init__(targets, sample_weight)
        self.width = float(width)

    def losses(self, scores: NDArray) -> NDArray[np.float64]:
        far = np.abs(scores - self.targets)
        near = np.minimum(far, self.width)
        return (0.5 * near**2 + self.width * (far - near)).sum(axis=1)

    def derivative(self, scores: NDArray) -> NDArray[np.float64]:
        return np.clip(scores - self.targets, -self.width, self.width)

    def second_derivative(self, scores: NDArray) -> NDArray[np.float64]:
        return np.where(np.abs(scores - self.targets) < self.width, 1.0, 0.0)

    def conjugate(self, slopes: NDArray) -> NDArray[np.float64]:
        value = (slopes * self.targets + 0.5 * slopes**2).sum(axis=1)
        return np.where((np.abs(slopes) <= self.width * (1.0 + ROUNDING)).all(axis=1), value, np.inf)

    def dual_box(self) -> tuple[NDArray, NDArray, NDArray]:
        bound = np.full_like(self.targets, self.width)
        return self.targets, -bound, bound

    def best_constant(self) -> NDArray[np.float64]:
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
