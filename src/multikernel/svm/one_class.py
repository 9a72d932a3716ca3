"""The one-class SVM as an inner problem: samples without labels."""

from __future__ import annotations

from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from multikernel.svm.binary import SVM, sample_weights
from multikernel.svm.quadratic_program import EPSILON, BoxProblem, fill_sum, weighted_quantile

Vector = NDArray[np.float64]


class OneClassSVM(SVM):
    """Samples parted from the origin by the largest margin, but for a share of them [SPSSW01], in its dual.

        maximise  −½ α'Kα   subject to   0 ≤ α_i ≤ weight_i,   Σ α_i = ν Σ weight_i

    Its primal is ½‖w‖² + Σ weight_i max(0, ρ − w·φ(x_i)) − ν ρ Σ weight_i; the bias is −ρ. This is the scaling of
    LIBSVM [CL11]: that of [SPSSW01] has coefficients that sum to one.

    Parameters
    ----------
    sample_weight : array-like of shape (n,)
        Weight of each sample; zero takes it out.
    nu : float
        Bound on the share of outliers, and on the share of support vectors from below.

    Examples
    --------
    >>> import numpy as np
    >>> from multikernel.svm import OneClassSVM
    >>> OneClassSVM(np.ones(4), nu=0.5).solve(np.eye(4))
    (-0.5, array([0.5, 0.5, 0.5, 0.5]))
    """

    shrinks = False

    def __init__(self, sample_weight: ArrayLike, nu: float = 0.5):
        self.signs = np.ones(np.shape(sample_weight))
        self.upper = sample_weights(self.signs, sample_weight, None)
        if not 0.0 < nu <= 1.0:
            raise ValueError(f"nu = {nu!r} must be above 0 and at most 1: it is a share of the samples.")
        self.total = float(nu) * float(self.upper.sum())

    @cached_property
    def problem(self) -> BoxProblem:
        """The quadratic program in alpha: one group, with a sum that is not zero."""
        zeros = np.zeros(self.n_samples)
        return BoxProblem(zeros, zeros, self.upper, (np.arange(self.n_samples),), (self.total,))

    def start(self) -> Vector:
        """The first samples at their bounds, until they have the sum."""
        return fill_sum(self.problem.lo, self.problem.hi, self.total)

    def margin(self, scores: Vector) -> float:
        """The best ρ for these scores."""
        return weighted_quantile(scores, self.upper, self.total)

    def intercept(self, scores: Vector) -> float:
        """−ρ, raised by more than rounding: ρ is the score of a sample, which would be inside or not by chance."""
        return -self.margin(scores) + 1e-10 * float(np.abs(scores).max(initial=0.0))

    def losses(self, scores: Vector, error: Vector | None = None) -> float:
        """``Σ weight_i max(0, ρ − scores_i) − ν ρ Σ weight_i`` with the best ρ, and what it may be off by."""
        margin = self.margin(scores)
        rounding = 0.0 if error is None else 4 * EPSILON * self.total * abs(margin)
        return self._losses(scores, 0.0, -margin, error) - self.total * margin + rounding

    def resolution(self, largest: float) -> float:
        """Where the origin is among the samples the optimum is 0, and no gap is small relative to that."""
        return 8 * EPSILON * self.total**2 * largest
