"""OBSCURE's problem, a group norm of w and a multiclass hinge, with the certificate that proves a solution good."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from multikernel.gram import GramStack
from multikernel.gram.base import support_of
from multikernel.problems.certificate import UNIT, Certificate
from multikernel.problems.primal import Matrix, PrimalProblem, Vector, checked_weights
from multikernel.problems.weight_sets import LpBall, lp_norm


def weight_norm(group_norm: float) -> float:
    """The norm p of kernel weights that a group norm r of w amounts to: ``p = r / (2 - r)``, from 1 to infinity.

    OBSCURE's p is a group norm, the p of ℓp-norm MKL a norm of the weights; both name the same problem when
    converted.

    Examples
    --------
    >>> from multikernel.problems.obscure import group_norm, weight_norm
    >>> weight_norm(1.5), group_norm(3.0), weight_norm(2.0)
    (3.0, 1.5, inf)
    """
    return float("inf") if group_norm >= 2.0 else group_norm / (2.0 - group_norm)


def group_norm(weight_norm: float) -> float:
    """The group norm r of w that a norm p of kernel weights amounts to: ``r = 2p / (p + 1)``, from 1 to 2."""
    return 2.0 if np.isinf(weight_norm) else 2.0 * weight_norm / (weight_norm + 1.0)


class MulticlassHinge:
    """``Σ_i c_i max_r (cost[y_i, r] + score_ir - score_{i, y_i})``, the loss of [OJC10, eq. (5)].

    With the default costs, 1 for every wrong class, this is the hinge loss of [CS01]; two classes are no special
    case. Other costs make it the margin-rescaled loss of a hierarchy or of unequal mistakes.

    Labels (n,) are positions of the M classes, ``importance`` (n,) are ``c_i = s_i / Σ s`` of the weights of samples,
    and ``cost[y, r]`` is that of answering r where y is right.
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
        excess = scores - scores[self._own][:, None] + self.cost[self.labels]
        return float(self.importance @ excess.max(axis=1))

    def best_scale(self, scores: NDArray, curvature: float, slope: float = 0.0) -> float:
        """The factor t >= 0 that minimises ``½ curvature t² + slope t + value(t · scores)``, by bisection."""
        lead, costs = scores - scores[self._own][:, None], self.cost[self.labels]
        off_diagonal, rows = self.cost[~np.eye(self.n_classes, dtype=bool)], np.arange(len(scores))
        if np.ptp(off_diagonal) == 0.0:  # the best rival is the same for every t
            lead[self._own] = -np.inf
            lead, costs = np.column_stack([np.zeros(len(lead)), lead.max(axis=1)]), np.array([0.0, off_diagonal[0]])

        def falls(t: float) -> bool:
            along = float(self.importance @ lead[rows, (t * lead + costs).argmax(axis=1)])
            return curvature * t + slope + along < 0.0

        low, high = 0.0, 1.0
        while falls(high) and high < 2.0**60:
            low, high = high, 2.0 * high
        for _ in range(50):
            middle = 0.5 * (low + high)
            low, high = (middle, high) if falls(middle) else (low, middle)
        return 0.5 * (low + high)

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
        return -float((self.cost[self.labels] * dual).sum())

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
        return float(self.cost.max(initial=0.0)) * distance + (dual.size + 8) * UNIT * self.linear(-np.abs(dual))


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


class ObscureProblem(PrimalProblem):
    """``min over w of  lam/2 ‖w‖²_{2,p} + sparsity ‖w‖_{2,1} + loss(w)`` [OJC10, eq. (9)], [OJ11, eq. (4)].

    A solution is written as ``w_j = weights_j Σ_i alpha_i φ_j(x_i)``, so that scores are ``Σ_j weights_j K_j
    alpha``. Its dual point is ``A = lam alpha``, made feasible; with θ_j(A) = Σ_i A_i φ_j(x_i)

        D(A) = linear(A) - 1/(2 lam) ‖(max(‖θ_j(A)‖ - sparsity, 0))_j‖_q²  <=  optimum  <=  f(w),    1/p + 1/q = 1.

    p is the group norm, 1 < p <= 2, and ``sparsity`` the factor of the (2, 1) norm, which sets whole kernels to zero.
    """

    kernel_dtype = None

    def __init__(
        self,
        stack: GramStack,
        loss: MulticlassHinge,
        lam: float,
        p: float,
        *,
        sparsity: float = 0.0,
        memory: int = 1 << 30,
    ):
        if not 1.0 < p <= 2.0:
            raise ValueError(
                f"p={p!r} must be above 1 and at most 2: it is the group norm on w. For a norm on kernel weights use "
                "multikernel.problems.obscure.group_norm to convert it."
            )
        super().__init__(stack, memory)
        self.loss, self.lam, self.p, self.sparsity = loss, float(lam), float(p), float(sparsity)
        self.q = self.p / (self.p - 1.0)
        self.weight_set = LpBall(weight_norm(self.p))
        self._known: list[tuple[NDArray, Vector]] = []  # alphas with their squares
        self._products: Any = None  # an alpha, and K_j alpha of each kernel

    def start(self) -> tuple[NDArray, NDArray]:
        """Equal weights, and alpha = 0."""
        return self.weight_set.start(self.n_kernels), np.zeros((len(self.loss), self.loss.n_classes))

    def repaired(self, weights: NDArray, alpha: NDArray) -> tuple[NDArray, NDArray]:
        return np.maximum(weights, 0.0), alpha

    def intercept(self, weights: NDArray, alpha: NDArray) -> Vector:
        """Zero for every task: the problem has no bias."""
        return np.zeros(1 if alpha.shape[1] == 2 else alpha.shape[1])

    # -- kernels -----------------------------------------------------------------------------------------------------

    def scores(self, weights: NDArray, alpha: Matrix) -> Matrix:
        if not alpha.any():
            return np.zeros(alpha.shape)
        if self._has_entries:
            support = support_of(alpha)  # rows are columns, and quicker to take
            return (alpha[support].T @ self.kernel(weights)[support].astype(np.float64, copy=False)).T
        if self._products is None or not np.array_equal(self._products[0], alpha):
            self._multiply(alpha)
        return np.tensordot(weights, self._products[1], axes=1)

    def squares(self, alpha: Matrix, also: Matrix | None = None) -> Vector:
        """``‖θ_j(alpha)‖²``, shape (F,); the last are kept.

        ``also`` is an alpha that a lower bound will be asked for: where entries have to be computed, once for both.
        """
        for point, squares in self._known:
            if np.array_equal(point, alpha):
                return squares
        if self._has_entries:
            squares = np.maximum(self.stack.summed_forms(alpha), 0.0)
            self._known = [(np.array(alpha), squares), *self._known[:2]]
        else:
            self._multiply(alpha, also)
        return self._known[0][1]

    @property
    def _has_entries(self) -> bool:
        """Whether entries are at hand: passes over them then beat products of each kernel with each class."""
        return self.stack.stored and self.fits_combined

    def _multiply(self, alpha: Matrix, also: Matrix | None = None) -> None:
        """Compute each entry once, for scores and squares of alpha and for the squares that bounds will ask for."""
        points = [np.array(alpha), *(self.feasible(point) for point in (alpha, also) if point is not None)]
        if np.array_equal(points[0], points[1]):
            del points[1]
        parts = np.split(self.stack.apply(np.hstack(points)), len(points), axis=2)
        squares = [np.einsum("fim,im->f", part, point) for part, point in zip(parts, points)]
        self._known = [(point, np.maximum(square, 0.0)) for point, square in zip(points, squares)]
        self._products = points[0], parts[0]

    # -- what a solution is worth ----------------------------------------------------------------------------------

    def certificate(self, weights: NDArray, alpha: Matrix) -> Certificate:
        """f(w) and the bound that ``alpha`` proves."""
        scores, off = self.rounded_scores(weights, alpha)
        squares, squares_off = self.rounded_squares(alpha)
        plain, safe = (self.regulariser(weights * np.sqrt(part)) for part in (squares, squares + squares_off))
        safe *= 1.0 + (len(weights) + 16) * UNIT
        loss, lost = self.loss.value(scores), self.loss.error(scores, off)
        (bound, bound_lost), rounding = self._bound(alpha), safe - plain + lost
        return Certificate(plain + loss + rounding, bound, rounding=rounding + bound_lost)

    def regulariser(self, norms: Vector) -> float:
        """``lam/2 ‖norms‖_p² + sparsity ‖norms‖_1`` for the norms ‖w_j‖, shape (F,)."""
        return 0.5 * self.lam * lp_norm(norms, self.p) ** 2 + self.sparsity * float(norms.sum())

    def objective(self, weights: NDArray, alpha: Matrix) -> float:
        """f(w), the value of the problem at a solution."""
        return self.regulariser(weights * np.sqrt(self.squares(alpha))) + self.loss.value(self.scores(weights, alpha))

    def feasible(self, alpha: Matrix) -> Matrix:
        """An alpha near the given one whose A is feasible; the given one if only rounding tells them apart."""
        dual = self.lam * alpha
        feasible = self.loss.feasible(dual)
        near = np.abs(feasible - dual).max(initial=0.0) <= 1e-14 * np.abs(dual).max(initial=0.0)
        return alpha if near else feasible / self.lam

    def lower_bound(self, alpha: Matrix) -> float:
        """The largest D(t A) over t in [0, 1], where A is ``lam alpha`` made feasible, rounding included."""
        return self._bound(alpha)[0]

    def _bound(self, alpha: Matrix) -> tuple[float, float]:
        """The same, and how much of it was taken off for rounding."""
        alpha = self.feasible(alpha)
        dual = self.lam * alpha
        squares, off = self.rounded_squares(alpha)
        # to the feasible point next to it
        distance = float(np.abs(self.loss.feasible(dual) - dual).sum()) + self.loss.slack * float(np.abs(dual).sum())
        off = off + self.rounding.of_shift(distance / self.lam, squares)
        norms, safe_norms = (self.lam * np.sqrt(part) for part in (squares, squares + off))
        linear, lost = self.loss.linear(dual), self.loss.linear_error(dual, distance)
        t = self._best_shrinkage(linear - lost, safe_norms)
        plain, safe = self._dual_value(linear, norms, t), self._dual_value(linear - lost, safe_norms, t)
        safe -= (len(norms) + 16) * UNIT * (abs(t * linear) + abs(safe))
        return (safe, plain - safe) if safe > 0.0 else (0.0, 0.0)  # t = 0 is as good

    def _dual_value(self, linear: float, norms: Vector, t: float) -> float:
        cut = np.maximum(t * norms - self.sparsity, 0.0)
        return t * linear - lp_norm(cut, self.q) ** 2 / (2.0 * self.lam)

    def _best_shrinkage(self, linear: float, norms: Vector) -> float:
        size = lp_norm(norms, self.q) ** 2
        if self.sparsity == 0.0:
            return 1.0 if size == 0.0 else float(np.clip(self.lam * linear / size, 0.0, 1.0))
        grid = np.linspace(0.0, 1.0, 201)  # any t proves a bound; this one loses next to nothing
        return float(max(grid, key=lambda t: self._dual_value(linear, norms, t)))

    # -- weights -----------------------------------------------------------------------------------------------------

    def implied_weights(self, squares: Vector) -> Vector:
        """Weights that turn θ into w = ∇(½‖·‖²_{2,q})(θ): ``(‖θ_j‖ / ‖θ‖_q)^(q-2)``.

        They equal ``(‖w_j‖ / ‖w‖_p)^(2-p)`` for that w. Ratios are at most one, so q = 101 cannot overflow.
        """
        norms = np.sqrt(np.maximum(squares, 0.0))
        total = lp_norm(norms, self.q)
        if not total > 0.0 or self.p == 2.0:
            return np.ones(len(squares))
        return (norms / total) ** (self.q - 2.0)

    def next_weights(self, weights: Vector, squares: Vector) -> Vector:
        """``d_j = (‖w_j‖ / ‖w‖_p)^(2-p)`` for ``w_j = weights_j θ_j``: the best for this w [KBSZ11, eq. (26)].

        ``squares`` are the ‖θ_j‖².
        """
        return self.inside(self.weight_set.weights(weights * np.sqrt(np.maximum(squares, 0.0))))
