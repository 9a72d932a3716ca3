"""C-SVM, box SVM and ν-SVM as inner problems: their duals solved, certified, and warm-started.

Everywhere ``alpha`` are the signed dual coefficients (y∘α of the papers), so that the quadratic form of the
objective is ``alpha @ K @ alpha`` and scores are ``K @ alpha``.
"""

import copy
import math
import warnings
from collections.abc import Callable, Mapping
from functools import cached_property
from numbers import Real
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.exceptions import ConvergenceWarning

from multikernel.problems.certificate import UNIT, Certificate
from multikernel.runtime.clock import one_blas_thread
from multikernel.svm.decomposition import Decomposition
from multikernel.svm.quadratic_program import (
    BoxProblem,
    DenseOperator,
    KernelOperator,
    as_operator,
    fill_sum,
    weighted_quantile,
)

Vector = NDArray[np.float64]

# Variables in a working set of a kernel that is not in memory: a block of 2,000 squared is 32 MB.
WORKING_SIZE = 2000
# Samples of a class that can stand for all of it.
FEWEST = 20


class SVM:
    """What the SVMs share: bounds, feasibility, and the run of the solver."""

    signs: Vector  # ones where there are no classes
    upper: Vector  # bound on |alpha|, shape (n,)
    shrinks = True  # whether multiples of a feasible alpha, by 0 to 1, are feasible
    is_c_svm = False  # whether it is one C-SVM

    problem: Any  # the quadratic program in alpha, a cached BoxProblem

    @property
    def n_samples(self) -> int:
        """Number of samples, used or not."""
        return len(self.signs)

    @property
    def svms(self) -> tuple[Self, ...]:
        """The SVMs there are: one."""
        return (self,)

    def resolution(self, largest: float) -> float:
        """Gap that is none, as an optimum can be zero; ``largest`` is the largest entry of the kernel's diagonal."""
        return 0.0

    def separation(self, scores: Vector, error: Vector | None = None) -> float:
        """Margin of scores that separate the classes where there is no price on a margin; else 0."""
        return 0.0

    def start(self) -> Vector:
        """A feasible alpha for a cold start."""
        return np.zeros(self.n_samples)

    def sample(self, rows: NDArray[np.intp]) -> Self | None:
        """The SVM of some of the samples, which stand for all of their class; None if a class has too few there."""
        other = copy.copy(self)
        for known in ("problem", "_last_intercept"):
            other.__dict__.pop(known, None)
        other.signs, other.upper = self.signs[rows], self.upper[rows]
        for sign in (-1.0, 1.0):
            everywhere, here = self.upper[self.signs == sign], other.upper[other.signs == sign]
            if np.count_nonzero(here) < min(FEWEST, int(np.count_nonzero(everywhere))):
                return None
            if len(here):
                other.upper[other.signs == sign] *= everywhere.sum() / here.sum()
        return other

    def linear(self, alpha: Vector) -> float:
        """Linear part of the dual objective."""
        return self.problem.linear(alpha)

    def certificate(self, scores: Vector, alpha: Vector, error: Vector | None = None) -> Certificate:
        """Primal value with the best bias, and dual value, at a feasible ``alpha`` with ``scores = K @ alpha``.

        Where scores separate the classes, w scaled to a margin of one is a second primal point: for a very large C
        rounding spoils the first. With ``error``, a bound on what scores are off by, both values hold for certain.
        """
        squared_norm, lost = max(float(alpha @ scores), 0.0), 0.0
        if error is not None:
            squared_norm += float(np.abs(alpha) @ (error + self._unit_of_sum * np.abs(scores)))
            # the dual value is that of a feasible point near alpha
            lost = self.linear_error(alpha) + self.shortfall(alpha) * float((np.abs(scores) + error).max())
        primal = 0.5 * squared_norm + self.losses(scores, error)
        dual = self.linear(alpha) - 0.5 * squared_norm - lost
        margin = self.separation(scores, error)
        if margin > 0.0:
            separating = 0.5 * squared_norm / margin / margin
            # on a kernel that is nearly constant both are rounding errors: no primal value lies below a dual one
            primal = min(primal, separating) if separating >= (1.0 - 1e-9) * dual else primal
        return Certificate(primal=primal, dual=dual)

    def losses(self, scores: Vector, error: Vector | None = None) -> float:
        """What samples lose, with the best bias, and what that may be off by."""
        raise NotImplementedError

    def _losses(self, scores: Vector, margin: float, bias: float, error: Vector | None = None) -> float:
        """``Σ upper_i max(0, margin − signs_i (scores_i + bias))``, and what it may be off by."""
        return self._summed(margin - self.signs * (scores + bias), scores, bias, error)

    def _summed(self, losses: Vector, scores: Vector, bias: float, error: Vector | None) -> float:
        """``Σ upper_i max(0, losses_i)``, losses of ``scores + bias``, and what it may be off by."""
        if error is not None:
            decision = scores + bias
            # what an addition loses is at most a unit of the sum, and at most the smaller number
            lost = np.minimum(UNIT * np.abs(decision), np.abs(scores))
            losses = losses + (error + lost + self._unit_of_sum * np.abs(losses))
        return float(self.upper @ np.maximum(losses, 0.0))

    @property
    def _unit_of_sum(self) -> float:
        """Relative error of a sum over samples of numbers of one sign, and of a few operations with it."""
        return (self.n_samples + 8) * UNIT

    def shortfall(self, alpha: Vector) -> float:
        """By how much the sums of ``alpha`` are wrong, all together: rounding, for a feasible one."""
        box = self.problem
        return sum(abs(math.fsum([*alpha[group].tolist(), -total])) for group, total in zip(box.groups, box.totals))

    def linear_error(self, alpha: Vector) -> float:
        """What ``linear(alpha)`` may be off by: rounding, and what it takes to make the sums of ``alpha`` right."""
        p = np.abs(self.problem.p) + self.problem.kink
        return self._unit_of_sum * float(p @ np.abs(alpha)) + self.shortfall(alpha) * float(p.max())

    def repair(self, alpha: ArrayLike) -> Vector:
        """A feasible point near ``alpha``."""
        return self.problem.feasible(self._checked(alpha, "alpha"))

    def violation(self, alpha: ArrayLike) -> float:
        """Largest distance of ``alpha`` from its bounds and sums; 0.0 where a sum is right to rounding."""
        alpha, problem = self._checked(alpha, "alpha"), self.problem
        worst = float(np.maximum(problem.lo - alpha, alpha - problem.hi).max(initial=0.0))
        rounding = 64 * np.finfo(float).eps * float(np.abs(alpha).sum())
        for group, total in zip(problem.groups, problem.totals):
            distance = abs(float(alpha[group].sum()) - total)
            worst = max(worst, distance if distance > rounding else 0.0)
        return worst

    def solve(
        self,
        K: NDArray | KernelOperator,
        warm: ArrayLike | None = None,
        *,
        tol: float = 1e-6,
        max_iter: int = 1000,
        monitor: Callable[[Vector], bool] | None = None,
        working_size: int | None = None,
        warn: bool = True,
    ) -> tuple[float, Vector]:
        """Solve the dual on the kernel ``K`` (n, n) to a relative gap ``tol``; its value, and a feasible alpha (n,).

        ``warm`` is any alpha to start from, ``max_iter`` the largest number of bursts (a few working sets each).
        ``monitor`` is called with alpha after each burst, and stops it by True; a run from there goes on as this one
        would. ``working_size`` is the largest working set: all variables for an array, 2,000 for an operator.
        """
        if not 0.0 < tol < np.inf:
            raise ValueError(f"tol = {tol!r} must be a positive, finite number: the relative duality gap to reach.")
        operator = as_operator(K)
        if operator.shape != (self.n_samples, self.n_samples):
            raise ValueError(
                f"The kernel has shape {operator.shape}, but there are {self.n_samples} labels. "
                "Pass the kernel among the training samples only."
            )
        dense = operator if isinstance(operator, DenseOperator) else None
        if working_size is None:
            working_size = self.n_samples if dense is not None else WORKING_SIZE
        stopped = []

        def watch(alpha: Vector) -> bool:
            stopped.append(monitor is not None and bool(monitor(alpha)))
            return stopped[-1]

        start = self.start() if warm is None else self._checked(warm, "warm")
        # centring takes the offset out of the entries, but not their rounding
        limits = tol, working_size, np.finfo(float).eps * float(np.max(operator.diagonal(), initial=0.0))
        # where all coefficients add up to zero, nothing but the bias changes
        to_centre = dense if self.problem.groups and not sum(self.problem.totals) else None
        if to_centre is not None and to_centre.is_far_from_origin():  # as it stands every burst would chase rounding
            operator, to_centre = to_centre.centred(), None
        with one_blas_thread():
            engine = self._decomposition(operator, *limits)
            alpha, scores, gap = engine.solve(start, max_iter, watch)
            if to_centre is not None and gap > tol and not any(stopped) and len(stopped) < max_iter:
                # if that is because the samples lie far from the origin, the kernel about their mean helps
                centred = self._decomposition(to_centre.centred(), *limits)
                alpha, _, _ = centred.solve(alpha, max_iter - len(stopped), watch)
                scores = operator.matvec(alpha)
                gap = engine.relative_gap(scores, alpha)
        # a kernel that is not in memory is believed to be finite
        if not np.isfinite(gap) or (gap > tol and dense is not None and not np.isfinite(dense.K).all()):
            raise ValueError("The kernel has entries that are not finite, or too large to add up. Clean or scale it.")
        if warn and gap > tol and not any(stopped):
            advice = "Rounding stops it there: raise tol, use a float64 kernel, or scale the kernel."
            if len(stopped) >= max_iter:
                advice = f"Raise max_iter (now {max_iter}), or tol, or lower C."
            warnings.warn(
                f"{type(self).__name__} stopped at a relative duality gap of {gap:.1e} after {len(stopped)} bursts; "
                f"tol is {tol:.1e}. {advice}",
                ConvergenceWarning,
                stacklevel=2,
            )
        return self.linear(alpha) - 0.5 * float(alpha @ scores), alpha

    def _decomposition(self, operator: KernelOperator, tol: float, size: int, entry_error: float) -> Decomposition:
        resolution = self.resolution(float(np.max(operator.diagonal(), initial=0.0)))

        def relative_gap(scores: Vector, alpha: Vector) -> float:
            certificate = self.certificate(scores, alpha)
            return 0.0 if certificate.gap <= resolution else certificate.relative_gap

        return Decomposition(operator, self.problem, relative_gap, tol, size, entry_error)

    def _checked(self, alpha: ArrayLike, name: str) -> Vector:
        alpha = np.asarray(alpha, dtype=np.float64)
        if alpha.shape != (self.n_samples,):
            raise ValueError(f"{name} has shape {alpha.shape}, expected ({self.n_samples},): one number per sample.")
        if not np.isfinite(alpha).all():
            raise ValueError(f"{name} has {int((~np.isfinite(alpha)).sum())} entries that are not finite.")
        return alpha


class CSVM(SVM):
    """Soft-margin SVM with or without a bias, in its dual.

        maximise  signs'α − ½ α'Kα   subject to   0 ≤ signs_i α_i ≤ C_i,   Σ α_i = 0 (with bias)

    Its primal is ½‖w‖² + Σ C_i max(0, 1 − signs_i (w·φ(x_i) + bias)), with w = Σ α_i φ(x_i). Signs (n,) are −1 or
    +1, 0 for a sample that is not used; C_i = C · sample weight (n,) · class weight. ``class_weight`` maps −1 and +1
    to factors, or is "balanced", which makes both classes weigh the same.
    """

    is_c_svm = True
    _last_intercept: tuple[Vector, float] | None = None  # scores, and their bias

    def __init__(
        self,
        signs: ArrayLike,
        C: float = 1.0,
        *,
        sample_weight: ArrayLike | None = None,
        class_weight: Mapping[int, float] | str | None = None,
        bias: bool = True,
    ):
        self.signs = checked_signs(signs)
        if not (np.isfinite(C) and C > 0):
            raise ValueError(f"C must be a positive number, got {C!r}.")
        self.C, self.bias = float(C), bool(bias)
        self.upper = self.C * sample_weights(self.signs, sample_weight, class_weight)

    @cached_property
    def problem(self) -> BoxProblem:
        """The quadratic program in alpha: one group if there is a bias."""
        ends = self.signs * self.upper
        groups: tuple[Any, ...] = (np.arange(self.n_samples),) if self.bias else ()
        return BoxProblem(self.signs, np.minimum(ends, 0.0), np.maximum(ends, 0.0), groups, (0.0,) * len(groups))

    def intercept(self, scores: Vector) -> float:
        """The bias with the least loss for these scores: exact, the middle where several are; 0.0 without bias."""
        if not self.bias:
            return 0.0
        known = self._last_intercept  # asked for again with every bound and certificate
        if known is None or not np.array_equal(known[0], scores):
            # sample i starts or stops losing at bias = signs_i − scores_i, where the slope of the loss rises by C_i
            total = float(self.upper[self.signs > 0].sum())
            known = np.array(scores), weighted_quantile(self.signs - scores, self.upper, total)
            self._last_intercept = known
        return known[1]

    def losses(self, scores: Vector, error: Vector | None = None) -> float:
        """``Σ C_i max(0, 1 − signs_i (scores_i + bias))`` with the best bias, and what it may be off by."""
        return self._losses(scores, 1.0, self.intercept(scores), error)

    def separation(self, scores: Vector, error: Vector | None = None) -> float:
        """Smallest distance of a used sample from the wrong side, with the bias that makes it largest."""
        used = self.upper > 0.0
        wrong = np.zeros(len(scores)) if error is None else error + 4 * UNIT * np.abs(scores)
        positive = (scores - wrong)[used & (self.signs > 0)].min(initial=np.inf)
        negative = (scores + wrong)[used & (self.signs < 0)].max(initial=-np.inf)
        margin = 0.5 * (positive - negative) if self.bias else min(positive, -negative)
        return float(margin) if np.isfinite(margin) else 0.0


class NuSVM(SVM):
    """ν-SVM in the scaling of [GMSB11, eq. (3.17)].

        maximise  −½ α'Kα   subject to   0 ≤ signs_i α_i ≤ weight_i / n,   Σ α_i = 0,   Σ |α_i| ≥ ν

    The last constraint holds with equality at a solution, so each class sums to ν/2. The primal is
    ½‖w‖² − νρ + Σ (weight_i / n) max(0, ρ − signs_i (w·φ(x_i) + bias)). ν bounds the shares of margin errors, from
    above, and of support vectors, from below; it is at most twice the weight of the smaller class.
    """

    shrinks = False

    def __init__(
        self,
        signs: ArrayLike,
        nu: float = 0.5,
        *,
        sample_weight: ArrayLike | None = None,
        class_weight: Mapping[int, float] | str | None = None,
    ):
        self.signs = checked_signs(signs)
        self.nu = float(nu)
        used = max(int(np.count_nonzero(self.signs)), 1)
        self.upper = sample_weights(self.signs, sample_weight, class_weight) / used
        largest = 2.0 * min(self.upper[self.signs > 0].sum(), self.upper[self.signs < 0].sum())
        if not 0.0 < self.nu <= largest * (1 + 1e-12):
            raise ValueError(
                f"nu = {nu} is not feasible: it must be positive and at most {largest:.6g}, twice the weight of the "
                "smaller class. Lower nu, or weight that class up."
            )
        self.nu = min(self.nu, float(largest))

    @cached_property
    def problem(self) -> BoxProblem:
        """The quadratic program in alpha: one group per class."""
        ends = self.signs * self.upper
        groups = (np.flatnonzero(self.signs > 0), np.flatnonzero(self.signs <= 0))
        totals = (0.5 * self.nu, -0.5 * self.nu)
        return BoxProblem(np.zeros(self.n_samples), np.minimum(ends, 0.0), np.maximum(ends, 0.0), groups, totals)

    def start(self) -> Vector:
        """The first samples of each class at their bounds, until the class has its sum."""
        alpha, problem = np.zeros(self.n_samples), self.problem
        for group, total in zip(problem.groups, problem.totals):
            alpha[group] = fill_sum(problem.lo[group], problem.hi[group], total)
        return alpha

    def _margin_and_bias(self, scores: Vector) -> tuple[float, float]:
        """The best ρ and bias: each class has a best ρ ∓ bias of its own."""
        above, below = (
            weighted_quantile(sign * scores[self.signs == sign], self.upper[self.signs == sign], 0.5 * self.nu)
            for sign in (1.0, -1.0)
        )
        return 0.5 * (above + below), 0.5 * (below - above)

    def margin(self, scores: Vector) -> float:
        """The best ρ for these scores."""
        return self._margin_and_bias(scores)[0]

    def intercept(self, scores: Vector) -> float:
        """The best bias for these scores."""
        return self._margin_and_bias(scores)[1]

    def losses(self, scores: Vector, error: Vector | None = None) -> float:
        """``Σ upper_i max(0, ρ − signs_i (scores_i + bias)) − νρ``, best ρ and bias, and what it may be off by."""
        margin, bias = self._margin_and_bias(scores)
        lost = 0.0 if error is None else 8 * UNIT * self.nu * abs(margin)
        return self._losses(scores, margin, bias, error) - self.nu * margin + lost

    def resolution(self, largest: float) -> float:
        """Where the classes' reduced hulls meet the optimum is 0, and no gap is small relative to that."""
        return 8 * np.finfo(float).eps * self.nu**2 * largest


def checked_signs(signs: ArrayLike, shape: str = "(n,): one sign per sample") -> NDArray[np.float64]:
    """Signs as float64, after a check that they are −1, 0 or +1; ``shape`` begins with that expected."""
    signs = np.asarray(signs, dtype=np.float64)
    if signs.ndim != 1 + ("T" in shape) or signs.size == 0:
        raise ValueError(f"signs has shape {signs.shape}, expected {shape}, and at least one sample and label.")
    wrong = ~np.isin(signs, (-1.0, 0.0, 1.0))
    if wrong.any():
        raise ValueError(
            f"signs has {int(wrong.sum())} entries that are not -1, 0 or +1, the first {signs[wrong][0]!r}. "
            "Map labels to signs first."
        )
    return signs


def sample_weights(
    signs: Vector, sample_weight: ArrayLike | None, class_weight: Mapping[int, float] | str | None
) -> Vector:
    """Weight of each sample: its own times its class's; zero where the sign is zero."""
    weight = np.abs(signs)
    if sample_weight is not None:
        given = np.asarray(sample_weight, dtype=np.float64)
        if given.shape != signs.shape:
            raise ValueError(f"sample_weight has shape {given.shape}, expected {signs.shape}.")
        if not (np.isfinite(given).all() and (given >= 0.0).all()):
            raise ValueError("sample_weight has entries that are negative or not finite.")
        weight = weight * given
    if class_weight is None:
        return weight
    if isinstance(class_weight, str) and class_weight == "balanced":
        sums = {s: max(float(weight[signs == s].sum()), 1e-300) for s in (-1, 1)}
        class_weight = {s: 0.5 * weight.sum() / sums[s] for s in (-1, 1)}
    elif not isinstance(class_weight, Mapping) or not all(
        key in (-1, 1) and isinstance(factor, Real) and 0.0 <= factor < np.inf for key, factor in class_weight.items()
    ):
        raise ValueError(
            f'class_weight={class_weight!r}: give "balanced", or a mapping from -1, +1 to numbers of at least 0.'
        )
    return weight * np.where(signs > 0, class_weight.get(1, 1.0), class_weight.get(-1, 1.0))
