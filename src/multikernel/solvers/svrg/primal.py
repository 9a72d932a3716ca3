"""Newton steps in the weights, and L-BFGS with a Hessian of sampled rows for the rest, on explicit features."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from multikernel.problems.primal import CholeskyFactor
from multikernel.problems.svrg_features import FeatureProblem, Matrix, MomentProblem, Point, Vector
from multikernel.runtime.clock import OutOfTime, check, one_blas_thread
from multikernel.runtime.monitor import Monitor
from multikernel.solvers.common.newton import Start, newton
from multikernel.solvers.mkl.closed_form import closed_form
from multikernel.solvers.svrg.newton import affordable, smooth_newton
from multikernel.solvers.svrg.svrg import lbfgs_newton

# Rows that second derivatives are taken from, and the gap to which the problem on them is solved for a start.
SAMPLE, ROUGH = 20_000, 1e-3
# Pairs that L-BFGS remembers, its steps at fixed weights, trials of one, and the decrease that is enough.
MEMORY, MOST_STEPS, MOST_TRIALS, ENOUGH = 10, 100, 20, 1e-4
# Change of second derivatives, relative, from which on they are computed again: of each score, of those that scores
# share, and where that costs next to nothing: so many multiplications.
STALE, STALE_SHARED, CHANGED, NOTHING = 0.2, 0.5, 1e-3, 1e9
# Multiplications that second derivatives of each score alone may cost; beyond, scores share them but for a factor.
AFFORDABLE = 2e10
# Kernels from which on working sets of so many are solved (p = 1), or weights have their closed form (p > 1); and the
# share of the gap to which working sets are solved.
MANY_KERNELS, FIRST_KERNELS, SHARE_OF_GAP = 200, 100, 0.2


def primal_newton(
    problem: FeatureProblem,
    monitor: Monitor,
    start: Start = None,
    *,
    max_iter: int = 1000,
    hessian: SampledHessian | None = None,
) -> None:
    """Minimise ``J(d) = min over w of g(w, d)`` in few passes over the data; the monitor has the result.

    The inner problem is solved by L-BFGS that begins with ``(Φ_S'WΦ_S + lam/d)⁻¹``, S being 20,000 rows at random: a
    Newton method where these are all rows. The same factor gives second derivatives of J, so that weights move by
    Newton steps [CR08]; for p > 1 and more than 200 kernels by their closed form. More rows than S: the problem on S
    comes first, and costs no pass.
    """
    problem.tol = monitor.tol
    ball = problem.weight_set
    if ball.p == 1.0 and problem.n_kernels > MANY_KERNELS:
        working_sets(problem, monitor, start, max_iter)
        return
    dual = FeatureDual(problem, monitor, hessian)
    simple = ball.is_box or problem.n_kernels == 1 or (ball.p > 1.0 and problem.n_kernels > MANY_KERNELS)
    if start is None and isinstance(dual.sample, SampledHessian) and dual.sample.n_rows < len(problem.data):
        start = _start_on_sample(dual.sample, monitor, max_iter)
    solve: Any = closed_form if simple else newton
    solve(dual, monitor, None if start is None else (start[0], as_columns(start[1])), max_iter=max_iter)


def working_sets(problem: FeatureProblem, monitor: Monitor, start: Start, max_iter: int) -> None:
    """p = 1 and very many kernels: solve the problem on few of them, add those that it shows to be worth a weight.

    The dual value of the loss is strongly concave, so that its optimum A* is near any A of small gap: ``‖θ_j(A*)‖``
    is within ``sqrt(2 L gap Σ_i c_i ‖φ_j(x_i)‖²)`` of ``‖θ_j(A)‖``. A kernel that stays below another even so has no
    weight at the optimum, and is never looked at again [NFGS17].
    """
    weights, v = problem.start() if start is None else (np.array(start[0]), as_columns(start[1]).copy())
    if start is None:
        weights[:] = 0.0
    alive, owner = np.ones(problem.n_kernels, dtype=bool), problem.map.owner
    spread = np.sqrt(2.0 * problem.loss.smoothness * problem.mean_squares)
    size, used = FIRST_KERNELS, np.flatnonzero(weights)
    for _ in range(max_iter):
        point = problem.at(weights, v)
        norms, gap = np.sqrt(point.squares), monitor.certificate.gap
        if np.isfinite(gap):
            radius = spread * np.sqrt(gap)
            alive &= norms + radius >= (norms - radius).max()
        rivals = np.setdiff1d(np.flatnonzero(alive), used)
        best = rivals[np.argsort(-norms[rivals], kind="stable")[:size]]
        chosen = np.sort(np.concatenate([used, best]))
        columns = np.isin(owner, chosen)
        part = FeatureProblem(problem.data.kernels(chosen), problem.loss, problem.lam, 1.0, tol=monitor.tol)
        rough = SHARE_OF_GAP * monitor.certificate.relative_gap
        watcher = Monitor(part, max(SHARE_OF_GAP * monitor.tol, rough if np.isfinite(rough) else 1e-2))
        begin = (weights[chosen], v[columns]) if len(used) else None
        newton(FeatureDual(part, watcher), watcher, begin, max_iter=max_iter)
        assert watcher.best is not None
        weights, v = np.zeros_like(weights), np.zeros_like(v)
        weights[chosen], v[columns] = watcher.best[0], as_columns(watcher.best[1])
        monitor.notes = {"epoch": len(monitor.history) + 1, "passes": problem.passes, "kernels": int(alive.sum())}
        if monitor(weights, v):
            return
        used = np.flatnonzero(weights)
        size = max(size, len(used))


def smooth_auto(
    problem: Any, monitor: Monitor, start: Start = None, *, max_iter: int = 1000, random_state: Any = None
) -> None:
    """The solver for features in blocks; for kernels Newton steps where they are exact and cheap, else L-BFGS."""
    if isinstance(problem, FeatureProblem):
        primal_newton(problem, monitor, start, max_iter=max_iter)
    else:
        (smooth_newton if affordable(problem) else lbfgs_newton)(problem, monitor, start, max_iter=max_iter)


def _start_on_sample(sample: SampledHessian, monitor: Monitor, max_iter: int) -> tuple[NDArray, NDArray]:
    watcher = Monitor(sample.problem, max(ROUGH, monitor.tol))
    primal_newton(sample.problem, watcher, max_iter=max_iter, hessian=sample)
    assert watcher.best is not None
    return watcher.best


def as_columns(v: NDArray) -> Matrix:
    """Coefficients (D, T); one column may come without its axis."""
    return v[:, None] if v.ndim == 1 else v


class FeatureDual:
    """A problem on features as ``min over d of J(d)``, with what ``solvers.common.newton`` asks of one.

    Quadratic forms are ``‖θ_j‖² / lam``, and v takes the place of alpha.
    """

    def __init__(self, problem: FeatureProblem, monitor: Monitor, sample: SampledHessian | None = None):
        self.problem, self.monitor, self.weight_set = problem, monitor, problem.weight_set
        self.n_kernels = problem.n_kernels
        moments = isinstance(problem, MomentProblem)
        self.sample = sample or (MomentHessian(problem) if moments else SampledHessian(problem))  # type: ignore[arg-type]
        self._points: list[Point] = []
        self._scale = 1.0
        self._epoch = int(monitor.history[-1].get("epoch", 0)) if monitor.history else 0

    def start(self) -> tuple[Vector, Matrix]:
        """Equal weights, and v = 0."""
        return self.problem.start()

    def solve_inner(self, weights: NDArray, warm: NDArray, tol: float) -> tuple[float, NDArray]:
        """J(weights) and its v, to a relative gap ``tol``."""
        point, pairs = self.problem.at(weights, warm), Pairs(weights, self.problem.map.owner, self._scale)
        for _ in range(MOST_STEPS):
            if not point.gap > tol * abs(point.value):
                break
            check()
            try:
                self.sample.follow(point)
                moved = self._step(point, pairs)
            except OutOfTime as end:
                end.reached = weights, point.v
                raise
            self._epoch += 1
            if moved is None:
                break
            pairs.add(point, moved)
            point = moved
        self._scale = pairs.scale
        self._points = [*self._points[-MOST_TRIALS:], point]  # more than a line search makes
        self.monitor.notes = {"epoch": self._epoch, "passes": self.problem.passes}
        self.monitor.save(weights, point.v)
        return point.value, point.v

    def _step(self, point: Point, pairs: Pairs) -> Point | None:
        """As far along the direction of L-BFGS as the objective falls; None if it does not."""
        direction = pairs.direction(pairs.gradient(point), self.sample.factor(point.weights))
        slope = float(np.vdot(direction, pairs.gradient(point)))
        step = 1.0
        for _ in range(MOST_TRIALS if slope < 0.0 else 0):
            trial = self.problem.at(point.weights, point.v + step * pairs.from_roots(direction))
            if trial.value <= point.value + ENOUGH * step * slope:
                return trial
            excess = trial.value - point.value - step * slope
            step *= float(np.clip(-0.5 * slope * step / excess, 0.1, 0.5)) if np.isfinite(excess) else 0.1
        return None

    def _point(self, v: NDArray) -> Point:
        return next(point for point in reversed(self._points) if point.v is v)

    def cut(self, v: NDArray) -> tuple[float, NDArray[np.float64]]:
        """The plane ``linear - ½ d·q`` that bounds J from below."""
        point = self._point(v)
        off = 0.0 if point.precise else point.loss_off
        return point.linear - point.linear_off - off, (point.squares + point.squares_off) / self.problem.lam

    def quadratic_forms(self, v: NDArray) -> NDArray[np.float64]:
        """``‖θ_j‖² / lam``, shape (F,)."""
        return self._point(v).squares / self.problem.lam

    def curvature(
        self, weights: NDArray, v: NDArray, chosen: NDArray[np.intp], *, ridge: float = 0.0, rough: bool = False
    ) -> NDArray[np.float64]:
        """Second derivatives of J for chosen kernels, ``lam u_j'(lam W⁻¹ + K)⁻¹ u_k`` with u_j = Φ_j θ_j / lam."""
        point = self._point(v)
        self.sample.follow(point)
        return self.sample.by_weights(point, chosen)


class Pairs:
    """Steps and changes of the gradient in ``sqrt(d_j) v_j``, kernels without a weight left out [Noc80]."""

    def __init__(self, weights: NDArray, owner: NDArray, scale: float = 1.0):
        self.used = weights[owner] > 0.0
        self.roots = np.sqrt(weights[owner][self.used])[:, None]
        self.moves: list[tuple[Matrix, Matrix, float]] = []
        self.scale = scale  # of the inverse that L-BFGS begins with, where that is rough

    def gradient(self, point: Point) -> Matrix:
        """``sqrt(d_j) (lam v_j - θ_j)``."""
        return self.roots * (point.lam * point.v - point.theta)[self.used]

    def from_roots(self, z: Matrix) -> Matrix:
        """v of ``z = sqrt(d) v``, zero for kernels without a weight."""
        v = np.zeros((len(self.used), z.shape[1]))
        v[self.used] = z / self.roots
        return v

    def add(self, before: Point, after: Point) -> None:
        """Remember a step."""
        step = self.roots * (after.v - before.v)[self.used]
        turn = self.gradient(after) - self.gradient(before)
        if (inner := float(np.vdot(step, turn))) > 0.0:
            self.moves = [*self.moves, (step, turn, 1.0 / inner)][-MEMORY:]

    def direction(self, gradient: Matrix, factor: Factor) -> Matrix:
        """Minus the inverse Hessian times the gradient."""
        rest, shares = gradient.copy(), []
        for step, turn, rho in reversed(self.moves):
            shares.append(share := rho * float(np.vdot(step, rest)))
            rest -= share * turn
        found = factor.solve(rest)
        if self.moves and factor.rough:
            _, turn, rho = self.moves[-1]
            self.scale = 1.0 / (rho * float(np.vdot(turn, factor.solve(turn))))
        found *= self.scale
        for (step, turn, rho), share in zip(self.moves, reversed(shares)):
            found += (share - rho * float(np.vdot(turn, found))) * step
        return -found


class MomentHessian:
    """Second derivatives of the squared loss, its moments; factors of ``sqrt(d) Φ'WΦ sqrt(d) + lam`` at weights d."""

    def __init__(self, problem: FeatureProblem):
        self.problem, self.lam, self.shared = problem, problem.lam, False
        self._factor: tuple[Vector, Factor] | None = None

    def follow(self, point: Point) -> None:
        """They are the same everywhere."""

    def _shares(self) -> list[tuple[int, float]]:
        """For each score which second derivatives it has, times what."""
        return [(0, 1.0)] * self.problem.n_scores

    def _part(self, k: int, scale: float, own: Vector) -> FeatureFactor | KernelFactor:
        """A factor, given the weights of the features."""
        return FeatureFactor(self.problem.moments[0], scale, own, self.lam)  # type: ignore[attr-defined]

    def factor(self, weights: NDArray) -> Factor:
        """What is to be inverted at these weights, on the features of kernels with a weight."""
        if self._factor is None or not np.array_equal(self._factor[0], weights):
            keys, own = self._shares(), weights[self.problem.map.owner]
            made = {key: self._part(*key, own) for key in dict.fromkeys(keys)}
            self._factor = np.array(weights), Factor([made[key] for key in keys], self.shared)
        return self._factor[1]

    def by_weights(self, point: Point, chosen: NDArray[np.intp]) -> Matrix:
        """``lam u_j'(lam W⁻¹ + K(d))⁻¹ u_k`` summed over scores for the chosen kernels, ``u_j = Φ_j θ_j / lam``."""
        own = self.problem.map.owner[:, None] == chosen
        total = np.zeros((len(chosen), len(chosen)))
        for part, theta in zip(self.factor(point.weights).parts, point.theta.T):
            total += part.form(np.where(own, theta[:, None] / self.lam, 0.0))
        return total


class SampledHessian(MomentHessian):
    """The same of any loss, on sampled rows."""

    def __init__(self, problem: FeatureProblem):
        super().__init__(problem.sample(SAMPLE))
        self.n_rows, rank = len(self.problem.data), self.problem.map.rank
        self.wide = rank > self.n_rows
        cost = self.n_rows * min(rank, self.n_rows) * rank
        self.shared = self.problem.n_scores > 1 and self.problem.n_scores * cost > AFFORDABLE
        self.stale = CHANGED if cost <= NOTHING else STALE_SHARED if self.shared else STALE
        self._bent: Matrix | None = None
        self._products: dict[int, Matrix] = {}

    def follow(self, point: Point) -> None:
        """Take second derivatives at a point, unless they have hardly changed since the last."""
        w = point.weights[self.problem.map.owner, None] * point.v
        used = np.flatnonzero(w.any(axis=1))
        features, loss = self.problem.features, self.problem.loss
        scores = (features[:, used] if len(used) < len(w) else features) @ w[used].astype(features.dtype)
        bent = loss.importance[:, None] * loss.second_derivative(scores.astype(np.float64))
        if self._bent is None or float(np.abs(bent - self._bent).sum()) > self.stale * float(bent.sum()):
            self._bent, self._products, self._factor = bent, {}, None

    def _shares(self) -> list[tuple[int, float]]:
        assert self._bent is not None
        if not self.shared:
            return [(t, 1.0) for t in range(self._bent.shape[1])]
        scales = self._bent.sum(axis=0) / max(float(self._bent.mean(axis=1).sum()), 1e-300)
        # powers of two: scores of about the same size share a factorisation
        return [(0, float(scale)) for scale in np.exp2(np.rint(np.log2(np.maximum(scales, 1e-12))))]

    def _part(self, k: int, scale: float, own: Vector) -> FeatureFactor | KernelFactor:
        assert self._bent is not None
        check()
        bent, problem = self._bent.mean(axis=1) if self.shared else self._bent[:, k], self.problem
        if self.wide:
            return KernelFactor(problem.features, scale * bent, own, self.lam)
        if k not in self._products:
            parts = [bent[a:b] for a, b in problem.data.ranges]
            self._products[k] = sum(problem.executor.map(_products, problem.blocks, own=parts))
        return FeatureFactor(self._products[k], scale, own, self.lam)


def _products(block: Any, bent: Vector) -> Matrix:
    total = np.zeros((block.map.rank, block.map.rank))
    for part, features in block.chunks():
        half = np.sqrt(bent[part, None]).astype(features.dtype) * features
        total += half.T @ half
    return total


class Factor:
    """``sqrt(d) Φ'WΦ sqrt(d) + lam``, score by score; ``rough`` if scores share W."""

    def __init__(self, parts: list[FeatureFactor | KernelFactor], rough: bool = False):
        self.parts, self.rough = parts, rough

    def solve(self, right: Matrix) -> Matrix:
        """The inverse times ``right`` (D, T)."""
        found = np.empty_like(right)
        with one_blas_thread():
            for part in dict.fromkeys(self.parts):  # scores that share a factorisation are solved together
                columns = [t for t, other in enumerate(self.parts) if other is part]
                found[:, columns] = part.solve(right[:, columns])
        return found


class FeatureFactor:
    """One score, factorised in the space of the features: products (D, D) times ``scale``, weights ``own`` (D,)."""

    def __init__(self, products: Matrix, scale: float, own: Vector, lam: float):
        self.products, self.scale, self.used = products, scale, np.flatnonzero(own > 0.0)
        self.roots = np.sqrt(own[self.used])[:, None]
        taken = products if len(self.used) == len(own) else products[np.ix_(self.used, self.used)]
        self.inside = CholeskyFactor(scale * self.roots * taken * self.roots.T, lam)

    def solve(self, right: Matrix) -> Matrix:
        return self.inside.solve(right)

    def form(self, theta: Matrix) -> Matrix:
        """``lam u'(lam W⁻¹ + K)⁻¹ u`` of u = Φ theta (n, k)."""
        onto = self.scale * (self.products @ theta)
        whitened = self.inside.whiten(self.roots * onto[self.used])
        return theta.T @ onto - whitened.T @ whitened


class KernelFactor:
    """One score, factorised in the space of the samples, which are fewer than the features."""

    def __init__(self, features: NDArray, bent: Vector, own: Vector, lam: float):
        self.all, self.lam, self.half = features, lam, np.sqrt(bent)[:, None]
        used = np.flatnonzero(own > 0.0)
        self.features = (features[:, used] * np.sqrt(own[used]).astype(features.dtype)) * self.half.astype(
            features.dtype
        )
        self.inside = CholeskyFactor((self.features @ self.features.T).astype(np.float64), lam)

    def solve(self, right: Matrix) -> Matrix:
        inner = self.inside.solve((self.features @ right.astype(self.features.dtype)).astype(np.float64))
        return (right - self.features.T @ inner) / self.lam

    def form(self, theta: Matrix) -> Matrix:
        whitened = self.inside.whiten(self.half * (self.all @ theta))
        return self.lam * (whitened.T @ whitened)
