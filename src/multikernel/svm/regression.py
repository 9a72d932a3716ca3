"""Support vector regression as an inner problem: numbers instead of classes."""

from __future__ import annotations

from functools import cached_property
from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from multikernel.problems.certificate import UNIT
from multikernel.svm.binary import SVM, sample_weights
from multikernel.svm.quadratic_program import EPSILON, BoxProblem, weighted_quantile

Vector = NDArray[np.float64]


class SVR(SVM):
    """ε-insensitive regression with a bias [SS04], in its dual.

        maximise  targets'α − ε ‖α‖₁ − ½ α'Kα   subject to   |α_i| ≤ C_i,   Σ α_i = 0

    Its primal is ½‖w‖² + Σ C_i max(0, |targets_i − w·φ(x_i) − bias| − ε), with w = Σ α_i φ(x_i). The dual has n
    variables and a kink at zero, where those of samples inside the tube stay; it is the one with two variables per
    sample, of which at most one is not zero.

    Parameters
    ----------
    targets : array-like of shape (n,)
        Finite numbers.
    C : float
        Price of an error.
    epsilon : float
        Half the width of the tube in which errors cost nothing.
    sample_weight : array-like of shape (n,), optional
        C_i = C · sample_weight_i. Zero takes the sample out.

    Examples
    --------
    >>> import numpy as np
    >>> from multikernel.svm import SVR
    >>> svr = SVR([-1.0, 1.0], C=10.0, epsilon=0.5)
    >>> value, alpha = svr.solve(np.eye(2))
    >>> value, alpha
    (0.25, array([-0.5,  0.5]))
    >>> svr.intercept(np.eye(2) @ alpha)
    0.0
    """

    def __init__(
        self, targets: ArrayLike, C: float = 1.0, epsilon: float = 0.1, *, sample_weight: ArrayLike | None = None
    ):
        targets = np.asarray(targets, dtype=np.float64)
        if targets.ndim != 1 or not targets.size or not np.isfinite(targets).all():
            raise ValueError(f"targets of shape {targets.shape} must be finite numbers, one per sample: shape (n,).")
        if not (np.isfinite(C) and C > 0):
            raise ValueError(f"C must be a positive number, got {C!r}.")
        if not (np.isfinite(epsilon) and epsilon >= 0):
            raise ValueError(f"epsilon must be a number of at least 0, got {epsilon!r}.")
        self.signs, self.epsilon = np.ones(len(targets)), float(epsilon)
        self.upper = C * sample_weights(self.signs, sample_weight, None)
        used = targets[self.upper > 0.0] if self.upper.any() else targets
        # the bias takes up the middle, and sums are not rounded to digits of a large one
        self.middle = 0.5 * float(used.min()) + 0.5 * float(used.max())
        self.targets = np.where(self.upper > 0.0, targets - self.middle, 0.0)

    @cached_property
    def problem(self) -> BoxProblem:
        """The quadratic program in alpha: one group, and a kink."""
        everything = (np.arange(self.n_samples),)
        return BoxProblem(self.targets, -self.upper, self.upper, everything, (0.0,), self.epsilon)

    def sample(self, rows: NDArray[np.intp]) -> Self | None:
        """The regression of some of the samples, which stand for all; None if there are too few."""
        other = super().sample(rows)
        if other is not None:
            other.targets = self.targets[rows]
        return other

    def resolution(self, largest: float) -> float:
        """Where the tube has room for all targets the optimum is 0, and no gap is small relative to that."""
        distances = np.abs(self.targets)
        rounding = 8 * EPSILON * float(self.upper @ (distances + self.epsilon))
        return rounding if self.upper @ np.maximum(distances - self.epsilon, 0.0) <= rounding else 0.0

    def intercept(self, scores: Vector) -> float:
        """The bias with the least loss for these scores: exact, the middle where several are."""
        return self.middle + self._bias(scores)

    def _bias(self, scores: Vector) -> float:
        # the slope of the loss rises by C_i where the bias takes sample i into the tube, and where it leaves it
        residuals, epsilon = self.targets - scores, self.epsilon
        ends, prices = np.append(residuals - epsilon, residuals + epsilon), np.tile(self.upper, 2)
        return weighted_quantile(ends, prices, float(self.upper.sum()))

    def losses(self, scores: Vector, error: Vector | None = None) -> float:
        """``Σ C_i max(0, |targets_i − scores_i − bias| − ε)`` with the best bias, and what it may be off by."""
        bias = self._bias(scores)
        distances = np.abs(scores + bias - self.targets)
        error = None if error is None else error + UNIT * distances
        return self._summed(distances - self.epsilon, scores, bias, error)
