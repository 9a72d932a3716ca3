"""ℓp-norm MKL with a smooth loss on explicit features in blocks of rows: one pass gives value, gradient and bound."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from multikernel.gram.features import Block, FeatureBlocks, FeatureMap, GivenBlocks
from multikernel.problems.certificate import UNIT, Certificate
from multikernel.problems.fisher import fisher_targets
from multikernel.problems.losses import SmoothLoss, SquaredLoss
from multikernel.problems.weight_sets import LpBall, nearest

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]
# What passes in single precision may be off by, relative to the objective: some ten times what is seen. No solution
# is called converged before a pass in double precision, whose rounding is bounded, has said so.
SINGLE = 1e-5
# The same of sums of products in double precision, and features up to which those are worth a matrix of their own.
DOUBLE, MOST_MOMENTS = 1e-11, 5000


@dataclass(frozen=True)
class Point:
    """What one pass tells of weights d (F,) and coefficients v (D, T), w_j = d_j v_j.

    ``linear`` is the dual value of the loss at the dual point A of the scores, ``theta`` (D, T) its θ(A), and the
    others say what rounding may have done to these and to the loss.
    """

    weights: Vector
    v: Matrix
    lam: float
    loss: float
    linear: float
    theta: Matrix
    squares: Vector  # ‖θ_j‖²
    norm: float  # Σ_j d_j ‖v_j‖²
    precise: bool
    loss_off: float = 0.0
    linear_off: float = 0.0
    squares_off: Vector | float = 0.0

    @property
    def value(self) -> float:
        """The objective."""
        return 0.5 * self.lam * self.norm + self.loss

    @property
    def gap(self) -> float:
        """How far the objective can be from its least value with these weights."""
        return self.value - (self.linear - float(self.weights @ self.squares) / (2.0 * self.lam))


class FeatureProblem:
    """The problem of :class:`~multikernel.problems.svrg.SmoothProblem` in the primal, on row blocks of features.

    A solution is weights d and coefficients v (D, T) of the features, with ``w_j = d_j v_j``. With scores f, dual
    point ``A_i = -c_i ℓ'(f_i)`` and ``θ = Σ_i A_i φ(x_i)``, which one pass gives, the gradient in ``sqrt(d_j) v_j``
    is ``sqrt(d_j) (lam v_j - θ_j)``, and

        D(A) = -Σ_i c_i ℓ*(-A_i / c_i) - 1/(2 lam) ‖(‖θ_j‖²)_j‖_{p/(p-1)}  <=  optimum  <=  g(w, d):

    every evaluation comes with its certificate.

    Parameters
    ----------
    data : FeatureBlocks
    loss : SmoothLoss
    lam : float
        Factor of the regulariser.
    p : float
        Norm of the kernel weights, at least 1.
    tol : float
        Relative gap that will be claimed.
    """

    def __init__(self, data: FeatureBlocks, loss: SmoothLoss, lam: float, p: float = 1.5, *, tol: float = 1e-4):
        self.data, self.loss, self.lam, self.weight_set = data, loss, float(lam), LpBall(float(p))
        self.n_scores = loss.n_scores
        self.map, self.executor, self.n_kernels = data.map, data.executor, data.n_kernels
        own = [loss.rows(slice(a, b)) for a, b in data.ranges]
        self.blocks = self.executor.map(_with_loss, data.blocks, own=own)
        self.tol, self.passes = tol, 0.0
        self._precise = data.map.dtype == np.float64 or tol < 10.0 * SINGLE
        self._points: list[Point] = []

    def start(self) -> tuple[Vector, Matrix]:
        """Equal weights, and v = 0."""
        return self.weight_set.start(self.n_kernels), np.zeros((self.map.rank, self.n_scores))

    def repaired(self, weights: NDArray, v: NDArray) -> tuple[NDArray, NDArray]:
        """The nearest weights of the set; any v is feasible."""
        return nearest(self.weight_set, weights), v

    def intercept(self, weights: NDArray, v: NDArray) -> Vector:
        """Zero for every score: the problem has no bias."""
        return np.zeros(self.n_scores)

    def sharpen(self) -> bool:
        """Compute in double precision from now on; False if that is so."""
        before, self._precise = self._precise, True
        return not before

    # -- one pass ------------------------------------------------------------------------------------------------

    def at(self, weights: NDArray, v: NDArray, *, precise: bool = False) -> Point:
        """What a pass tells of weights and coefficients; the last few are remembered."""
        v = v[:, None] if v.ndim == 1 else v
        precise = precise or self._precise
        for point in reversed(self._points):
            if point.precise >= precise and np.array_equal(point.weights, weights) and np.array_equal(point.v, v):
                return point
        self.passes += 1.0
        w = weights[self.map.owner, None] * v
        sums, theta = self.executor.total(_pass, self.blocks, w, precise, self._longest)
        squares = self.map.by_kernel((theta**2).sum(axis=1))
        norm = float(weights @ self.map.by_kernel((v**2).sum(axis=1)))
        point = Point(weights, v, self.lam, float(sums[0]), float(sums[1]), theta, squares, norm, precise)
        if precise:
            off = self._theta_off(float(sums[4]))
            squares_off = off * (2.0 * np.sqrt(squares) + off) + 8.0 * UNIT * squares
            norm_off = 0.5 * self.lam * (self.map.rank + 8) * UNIT * norm
            point = replace(
                point, loss_off=float(sums[2]) + norm_off, linear_off=float(sums[3]), squares_off=squares_off
            )
        else:
            point = replace(point, loss_off=SINGLE * point.value)
        self._points = [*self._points[-3:], point]
        return point

    @cached_property
    def _longest(self) -> float:
        """Length that no φ(x) exceeds."""
        return float(np.sqrt(self._sizes.sum()))

    @cached_property
    def _sizes(self) -> Vector:
        factor = self.n_kernels if self.map.masked else 1.0
        return factor * self.data.largest

    def _theta_off(self, slopes: float) -> Vector:
        """What the norms of θ_j may be off by, if absolute values of slopes add up to ``slopes``."""
        chunk = next(iter(self.map.chunks(len(self.data)))).stop
        terms = chunk + len(self.data) / chunk + len(self.data.ranges) + 8 + 8 * (self.loss.n_scores + 4)
        return terms * UNIT * np.sqrt(self._sizes) * slopes

    @cached_property
    def mean_squares(self) -> Vector:
        """At least ``Σ_i c_i ‖φ_j(x_i)‖²``, shape (F,): exactly that if all samples count alike."""
        alike = np.ptp(self.loss.importance) == 0.0
        return self.data.statistics[1] / len(self.data) if alike and not self.map.masked else self._sizes

    def certificate(self, weights: NDArray, v: NDArray) -> Certificate:
        """g(w, d), and the bound that the dual point of its scores proves."""
        found = self._certificate(self.at(weights, v))
        if not self._precise and found.relative_gap <= self.tol:
            found = self._certificate(self.at(weights, v, precise=True))
        return found

    def _certificate(self, point: Point) -> Certificate:
        plain, safe = (
            self.weight_set.support(q) / (2.0 * self.lam) for q in (point.squares, point.squares + point.squares_off)
        )
        lost = point.linear_off + safe - plain
        return Certificate(point.value + point.loss_off, point.linear - plain - lost, rounding=point.loss_off + lost)

    # -- some of the rows --------------------------------------------------------------------------------------------

    def sample(self, size: int) -> FeatureProblem:
        """The problem on so many rows at random, or on all if there are no more, in this process."""
        n = len(self.data)
        rows = np.arange(n) if n <= size else np.sort(np.random.default_rng(0).choice(n, size, replace=False))
        counts = self.loss.importance[rows] > 0.0
        loss = self.loss.rows(rows[counts] if counts.any() else rows, whole=True)
        given = self.data.take(rows[counts] if counts.any() else rows)
        return FeatureProblem(given, loss, self.lam, self.weight_set.p, tol=self.tol)

    @property
    def features(self) -> NDArray:
        """Features (n, D) of the rows of a sample."""
        assert isinstance(self.data, GivenBlocks)
        return self.data.features


class MomentProblem(FeatureProblem):
    """The same with the squared loss, of which ``Φ'CΦ`` and ``Φ'CY`` are all there is: one pass for any d and λ.

    A solution that they show to be good enough is proved by one more.
    """

    def __init__(self, data: FeatureBlocks, loss: SmoothLoss, lam: float, p: float = 1.5, *, tol: float = 1e-4):
        super().__init__(data, loss, lam, p, tol=tol)
        self._off = SINGLE if data.map.dtype == np.float32 else DOUBLE
        self._precise = tol < 10.0 * self._off

    @cached_property
    def moments(self) -> tuple[Matrix, Matrix, float]:
        """``Σ_i c_i φ_i φ_i'``, ``Σ_i c_i φ_i y_i'`` and ``Σ_i c_i ‖y_i‖²``."""
        self.passes += 1.0
        products, onto, size = self.executor.total(_moments, self.blocks)
        return products, onto, float(size)

    def at(self, weights: NDArray, v: NDArray, *, precise: bool = False) -> Point:
        if precise or self._precise:
            return super().at(weights, v, precise=precise)
        v = v[:, None] if v.ndim == 1 else v
        products, onto, size = self.moments
        w = weights[self.map.owner, None] * v
        theta = onto - products @ w
        cross, square = float(np.vdot(w, onto)), float(np.vdot(w, onto - theta))
        loss = max(0.5 * (square - 2.0 * cross + size), 0.0)
        squares = self.map.by_kernel((theta**2).sum(axis=1))
        norm = float(weights @ self.map.by_kernel((v**2).sum(axis=1)))
        off = self._off * (square + 2.0 * abs(cross) + size)
        return Point(weights, v, self.lam, loss, size - cross - loss, theta, squares, norm, False, off, off)


def _moments(block: Block) -> tuple[Matrix, Matrix, NDArray]:
    rank, loss = block.map.rank, block.loss
    products, onto = np.zeros((rank, rank)), np.zeros((rank, loss.n_scores))
    roots = np.sqrt(loss.importance)[:, None]
    for part, features in block.chunks():
        half = features * roots[part].astype(features.dtype)
        products += half.T @ half
        onto += half.T @ (roots[part] * loss.targets[part]).astype(features.dtype)
    return products, onto, np.array(((roots * loss.targets) ** 2).sum())


def feature_problem(data: FeatureBlocks, loss: SmoothLoss, lam: float, p: float, tol: float) -> FeatureProblem:
    """The problem, by moments where they are all that the loss needs and there is room for them."""
    by_moments = type(loss) is SquaredLoss and data.map.rank <= min(MOST_MOMENTS, len(data))
    return (MomentProblem if by_moments else FeatureProblem)(data, loss, lam, p, tol=tol)


class FisherFeatures(MomentProblem):
    """ℓp-norm MK-FDA in the primal [YMBCK10, eq. (15)]: ``min over w of Σ_i s_i ‖φ_i w - h_i‖² + λ Σ_j ‖w_j‖²/d_j``.

    Parameters
    ----------
    data : FeatureBlocks
    codes : ndarray of shape (n,)
        Classes 0 … M-1.
    targets : ndarray of shape (n, c)
        Centred labels h.
    sample_weight : ndarray of shape (n,)
        Weights s.
    reg : float
        λ.
    p : float
        Norm of the kernel weights.
    tol : float
        Relative gap that will be claimed.
    """

    def __init__(
        self,
        data: FeatureBlocks,
        codes: NDArray,
        targets: NDArray,
        sample_weight: NDArray,
        reg: float,
        p: float,
        tol: float,
    ):
        loss = SquaredLoss(targets, sample_weight)
        loss.importance = 2.0 * np.asarray(sample_weight, dtype=np.float64)  # the paper's sums are no means
        super().__init__(data, loss, 2.0 * reg, p, tol=tol)
        self.codes, self.sample_weight = codes, sample_weight

    def coefficients(self, v: NDArray) -> NDArray:
        """What projections of any sample are linear in."""
        return v

    @cached_property
    def _means(self) -> Matrix:
        """Mean features of the classes, (M, D)."""
        member = np.eye(int(self.codes.max()) + 1)[self.codes] * self.sample_weight[:, None]
        own = [member[a:b] for a, b in self.data.ranges]
        sums = sum(self.executor.collect(_onto, self.blocks, own=own))
        return sums.T / member.sum(axis=0)[:, None]

    def intercept(self, weights: NDArray, v: NDArray) -> Matrix:
        """What takes the place of a bias: weighted means of each class in the discriminant space, (M, c)."""
        return self._means @ (weights[self.map.owner, None] * (v[:, None] if v.ndim == 1 else v))


class FisherMoments(MomentProblem):
    """MK-FDA on samples of which sums are all that is known; its certificates rest on these.

    Parameters
    ----------
    map : FeatureMap
    sums : FisherSums
        Of the samples.
    reg, p, tol : float
        As of :class:`FisherFeatures`.
    """

    def __init__(self, map: FeatureMap, sums: FisherSums, reg: float, p: float, tol: float):
        self.map, self.n_kernels, self.sums = map, len(map.ranks), sums
        self.lam, self.weight_set, self.tol, self.passes = 2.0 * reg, LpBall(float(p)), tol, 0.0
        targets = fisher_targets(np.arange(len(sums.sizes)), len(sums.sizes), sums.sizes)  # of a sample of each class
        size = 2.0 * float(sums.sizes @ (targets**2).sum(axis=1))
        self.moments = 2.0 * sums.products, 2.0 * sums.onto @ targets, size
        self.n_scores = targets.shape[1]
        self._off = SINGLE if map.dtype == np.float32 else DOUBLE
        self._precise = False

    def sharpen(self) -> bool:
        """False: the samples are not at hand."""
        return False

    def certificate(self, weights: NDArray, v: NDArray) -> Certificate:
        """g(w, d), and the bound that the sums prove."""
        return self._certificate(self.at(weights, v))

    def centroids(self, w: NDArray) -> Matrix:
        """Means of the classes in the discriminant space of w (D, c)."""
        return (self.sums.onto / self.sums.sizes).T @ w


@dataclass(frozen=True)
class FisherSums:
    """``Σ s φφ'`` (D, D) of samples with weights s, ``Σ s φ`` of each class (D, M), and weights of classes (M,)."""

    products: Matrix
    onto: Matrix
    sizes: Vector

    def without(self, other: FisherSums) -> FisherSums:
        """Of all samples but some."""
        return FisherSums(self.products - other.products, self.onto - other.onto, self.sizes - other.sizes)


def fisher_sums(
    data: FeatureBlocks, codes: NDArray, weight: NDArray, fold: NDArray, n_folds: int
) -> tuple[FisherSums, list[FisherSums]]:
    """Sums of all samples, and of those of each fold, from one pass; samples of fold -1 are in none."""
    n_classes = int(codes.max()) + 1
    own = [(codes[a:b], weight[a:b], fold[a:b]) for a, b in data.ranges]
    parts = data.executor.collect(_fold_sums, data.blocks, n_classes, n_folds, own=own)
    folds = [FisherSums(*(sum(part[k][j] for part in parts) for j in range(3))) for k in range(n_folds + 1)]
    return FisherSums(*(sum(getattr(f, name) for f in folds) for name in ("products", "onto", "sizes"))), folds[1:]


def _fold_sums(block: Block, own: tuple[NDArray, ...], n_classes: int, n_folds: int) -> Sequence[tuple[NDArray, ...]]:
    codes, weight, fold = own
    D = block.map.rank
    sums = [(np.zeros((D, D)), np.zeros((D, n_classes)), np.zeros(n_classes)) for _ in range(n_folds + 1)]
    for part, features in block.chunks():
        for k, (products, onto, sizes) in enumerate(sums):
            mine = np.flatnonzero(fold[part] == k - 1)
            if not len(mine):
                continue
            roots = np.sqrt(weight[part][mine])[:, None]
            half = features[mine] * roots.astype(features.dtype)
            member = np.eye(n_classes)[codes[part][mine]] * roots
            products += half.T @ half
            onto += half.T @ member.astype(features.dtype)
            sizes += (member * roots).sum(axis=0)
    return sums


def fold_accuracies(
    data: FeatureBlocks, codes: NDArray, fold: NDArray, models: list[tuple[Matrix, NDArray]]
) -> Matrix:
    """Share of each fold that models are right about, (folds, models), from one pass.

    Those of a fold are w (D, P c) side by side, and centroids (P, M, c).
    """
    own = [(codes[a:b], fold[a:b]) for a, b in data.ranges]
    (right,) = data.executor.total(_right, data.executor.map(_with_loss, data.blocks, own=own), models)
    return right / np.bincount(fold[fold >= 0], minlength=len(models))[:, None]


def _right(block: Block, models: list[tuple[Matrix, NDArray]]) -> tuple[Matrix]:
    codes, fold = block.loss
    right = np.zeros((len(models), len(models[0][1])))
    for part, features in block.chunks():
        for k, (w, centroids) in enumerate(models):
            mine = np.flatnonzero(fold[part] == k)
            scores = features[mine] @ w.astype(features.dtype)
            scores = scores.reshape(len(mine), len(centroids), centroids.shape[2])
            scores = np.einsum("npc,pmc->npm", scores, centroids) - 0.5 * (centroids**2).sum(axis=2)
            right[k] += (scores.argmax(axis=2) == codes[part][mine, None]).sum(axis=0)
    return (right,)


def _onto(block: Block, right: Matrix) -> Matrix:
    return sum(features.T.astype(np.float64) @ right[part] for part, features in block.chunks())  # type: ignore[return-value]


def _with_loss(block: Block, loss: SmoothLoss) -> Block:
    return replace(block, loss=loss)


def _pass(block: Block, w: Matrix, precise: bool, longest: float) -> tuple[Vector, Matrix]:
    """Loss, dual value, what these may be off by, and absolute slopes, summed up; and θ (D, T)."""
    sums, theta = np.zeros(5), np.zeros(w.shape)
    dtype = np.float64 if precise else block.map.dtype
    w = w.astype(dtype)
    off = (len(w) + 8) * UNIT * longest * np.sqrt((w**2).sum(axis=0, dtype=np.float64))
    for part, features in block.chunks():
        loss, features = block.loss.rows(part), features.astype(dtype, copy=False)
        scores = (features @ w).astype(np.float64)
        slopes = -loss.gradient(scores)
        value = loss.value(scores)
        if not precise:  # Fenchel's equality
            sums[:2] += value, value + np.vdot(scores, slopes)
        elif (inside := loss.feasible(slopes)) is not None:
            slopes = inside
            errors = loss.error(scores, off), loss.dual_error(slopes), np.abs(slopes).sum()
            sums += value, loss.dual_value(slopes), *errors
        else:  # scores overflow
            return np.full(5, np.nan), theta
        theta += features.T @ slopes.astype(dtype)
    return sums, theta
