"""Convex sets of kernel weights: support function, closed-form weights, projection, least points of models."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.optimize import brentq

from multikernel.runtime.clock import check, left

Vector = NDArray[np.float64]
Cones = tuple[sparse.csc_matrix, Vector, list]
# A weight nearer to a bound than this, and than its multiplier is to zero, is at the bound.
AT_BOUND = 1e-6
# Newton steps in the logarithms of the weights before a conic solver takes over, and their longest.
MOST_STEPS, LONGEST_STEP = 40, 2.0
# Precision of the rough least point of a model, relative to its slopes, and steps of SMO for one weight.
PRECISE, STEPS_A_WEIGHT = 1e-4, 100


class WeightSet:
    """A convex set G of non-negative kernel weights; certificates need its support function only."""

    is_box = False  # whether weights are bounded one by one, and by nothing else

    @property
    def total(self) -> float | None:
        """What weights in [0, 1] must sum up to if the set is no more than that, else None."""
        return None

    def support(self, q: Vector) -> float:
        """``max over g in G of g·q``, for q >= 0."""
        raise NotImplementedError

    def weights(self, block_norms: Vector) -> Vector:
        """``argmin over g in G of Σ_j block_norms_j² / g_j``: the best weights for given norms of w_j."""
        raise NotImplementedError

    def project(self, g: Vector) -> Vector:
        """The point of G nearest to ``g``."""
        raise NotImplementedError

    def start(self, n_kernels: int) -> Vector:
        """Weights that favour no kernel."""
        raise NotImplementedError

    def cones(self, n_kernels: int) -> Cones:
        """The set as ``right − rows (g, z)`` in a product of cones, g and then what else it needs.

        Returns rows, right and the cones; the first F rows are g ≥ 0, and where g ≤ 1 is a row the next F are that.
        """
        raise NotImplementedError

    def snapped(self, g: Vector, multipliers: Vector | None = None) -> Vector:
        """The point of the set that an interior-point solution stands for, with exact zeros where the set has them.

        ``multipliers`` are those of the rows of ``cones``.
        """
        raise NotImplementedError

    @staticmethod
    def _zeroed(g: Vector, multipliers: Vector | None) -> Vector:
        """``g`` without negative entries, exactly zero where the multipliers of g ≥ 0 say so."""
        g = np.maximum(g, 0.0)
        if multipliers is not None:
            g[(g < multipliers[: len(g)]) & (g < AT_BOUND)] = 0.0
        return g

    def least_point(self, H: NDArray, gradient: Vector, about: Vector) -> Vector:
        """Where ``gradient·(h − g) + ½ (h − g)'H(h − g)`` is least over the set, g being ``about``."""
        F = len(gradient)
        scale = max(float(np.abs(gradient).max()), float(np.abs(H).max()), 1e-300)
        P = H / scale
        P.ravel()[:: F + 1] += 1e-9 * max(float(P.trace()) / F, 1e-12)
        rows, right, cones = self.cones(F)
        rest = rows.shape[1] - F
        cost = np.append(gradient / scale - P @ about, np.zeros(rest))
        quadratic = sparse.block_diag([P, sparse.csc_matrix((rest, rest))]) if rest else sparse.csc_matrix(P)
        h, multipliers = solve_cone_program(cost, rows, right, cones, quadratic)
        return self.snapped(h[:F], multipliers) if h[:F].max() > 0.0 else about


def solve_cone_program(
    cost: Vector, A: sparse.csc_matrix, right: Vector, cones: list, quadratic: sparse.csc_matrix | None = None
) -> tuple[Vector, Vector]:
    """Solution and multipliers of  min ½ x'Px + cost·x  subject to  right − A x  in the product of the cones."""
    import clarabel

    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.time_limit = left()
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = 1e-10
    P = sparse.csc_matrix((len(cost), len(cost))) if quadratic is None else sparse.triu(quadratic, format="csc")
    solution = clarabel.DefaultSolver(P, cost, A, right, cones, settings).solve()
    check()
    return np.array(solution.x), np.array(solution.z)


def nearest(allowed: WeightSet, g: Vector) -> Vector:
    """``g`` if it is in the set to rounding, exact zeros and ones included; else the nearest point that is."""
    moved = allowed.project(g)
    return g if np.abs(moved - g).max(initial=0.0) <= 1e-12 else moved


@dataclass(frozen=True)
class LpBall(WeightSet):
    """``{g >= 0, ‖g‖_p <= 1}`` for p from 1 (sparse weights) to infinity (all weights 1).

    Parameters
    ----------
    p : float
        At least 1; from 1e6 on it is taken for infinity.

    Examples
    --------
    >>> import numpy as np
    >>> from multikernel.problems.weight_sets import LpBall
    >>> LpBall(2.0).support(np.array([3.0, 4.0]))
    5.0
    >>> LpBall(1.0).weights(np.array([1.0, 3.0]))
    array([0.25, 0.75])
    """

    p: float = 1.0

    def __post_init__(self) -> None:
        if not self.p >= 1.0:
            raise ValueError(f"p={self.p!r} must be at least 1: below that the set is not convex.")

    @property
    def is_box(self) -> bool:  # type: ignore[override]
        """Whether p stands for infinity."""
        return self.p >= 1e6

    def support(self, q: Vector) -> float:
        """The dual norm of q, with exponent p / (p - 1)."""
        if self.is_box:
            return float(q.sum())
        if self.p == 1.0:
            return float(q.max(initial=0.0))
        return lp_norm(q, self.p / (self.p - 1.0))

    def weights(self, block_norms: Vector) -> Vector:
        """``g_j ∝ block_norms_j^(2 / (p + 1))`` with ``‖g‖_p = 1`` [KBSZ11, eq. (26)]."""
        if self.is_box:
            return np.ones(len(block_norms))
        largest = block_norms.max(initial=0.0)
        if not largest > 0.0:
            return self.start(len(block_norms))
        g = (block_norms / largest) ** (2.0 / (self.p + 1.0))
        return g / lp_norm(g, self.p)

    def project(self, g: Vector) -> Vector:
        g = np.maximum(g, 0.0)
        if self.is_box:
            return np.minimum(g, 1.0)
        if lp_norm(g, self.p) <= 1.0:
            return g
        if self.p == 1.0:
            return project_capped_simplex(g, 1.0, np.inf)
        if self.p == 2.0:
            return g / lp_norm(g, 2.0)
        return _project_by_bisection(g, g, lambda x: lp_norm(x, self.p), lambda x: self.p * x ** (self.p - 1.0))

    def start(self, n_kernels: int) -> Vector:
        return np.full(n_kernels, 1.0 if self.is_box else n_kernels ** (-1.0 / self.p))

    @property
    def total(self) -> float | None:
        """One for p = 1: no better weights sum to less."""
        return 1.0 if self.p == 1.0 else None

    def cones(self, n_kernels: int) -> Cones:
        """Linear rows for p = 1 and infinity, one second-order cone for p = 2, else one power cone per kernel.

        The power cones hold ``g_j ≤ z_j^(1/p)``, ``Σ z ≤ 1``.
        """
        import clarabel

        F = n_kernels
        eye, ones = sparse.identity(F, format="csc"), np.ones((1, F))
        if self.is_box:
            return sparse.vstack([-eye, eye]).tocsc(), np.repeat([0.0, 1.0], F), [clarabel.NonnegativeConeT(2 * F)]
        if self.p == 1.0:
            right = np.append(np.zeros(F), 1.0)
            return sparse.vstack([-eye, ones]).tocsc(), right, [clarabel.NonnegativeConeT(F + 1)]
        if self.p == 2.0:
            rows = sparse.vstack([-eye, sparse.csc_matrix((1, F)), -eye]).tocsc()
            right = np.concatenate([np.zeros(F), [1.0], np.zeros(F)])
            return rows, right, [clarabel.NonnegativeConeT(F), clarabel.SecondOrderConeT(F + 1)]
        # rows: g ≥ 0, Σ z ≤ 1, then (z_j, 1, g_j) for each kernel
        j = np.arange(F)
        places = np.concatenate([3 * j, 3 * j + 2]), np.concatenate([F + j, j])
        triples = sparse.csc_matrix((np.full(2 * F, -1.0), places), shape=(3 * F, 2 * F))
        positive = sparse.hstack([-eye, sparse.csc_matrix((F, F))])
        total = sparse.hstack([sparse.csc_matrix((1, F)), ones])
        right = np.concatenate([np.zeros(F), [1.0], np.tile([0.0, 1.0, 0.0], F)])
        cones = [clarabel.NonnegativeConeT(F + 1)] + [clarabel.PowerConeT(1.0 / self.p)] * F
        return sparse.vstack([positive, total, triples]).tocsc(), right, cones

    def snapped(self, g: Vector, multipliers: Vector | None = None) -> Vector:
        """Scaled to norm one, with exact zeros for p = 1."""
        g = self._zeroed(g, multipliers if self.p == 1.0 else None)
        norm = float(g.max(initial=0.0)) if self.is_box else lp_norm(g, self.p)
        return g / norm if norm > 0.0 else self.start(len(g))

    def least_point(self, H: NDArray, gradient: Vector, about: Vector) -> Vector:
        """Exact zeros for p = 1; for other p by Newton steps on the sphere, and by cones if they do not get there."""
        curved = self.p > 1.0 and not self.is_box
        found = self._on_sphere(H, gradient, about) if curved else None
        return super().least_point(H, gradient, about) if found is None else found

    def _on_sphere(self, H: NDArray, gradient: Vector, about: Vector) -> Vector | None:
        """Root of ``cost + Hh + μ h^(p−1)`` with ``‖h‖_p = 1, μ > 0``: by convexity the least point of the model.

        Newton steps in ``log h`` and μ; None if they do not get there. A weight that goes to zero may leave its
        residual positive.
        """
        F, p = len(gradient), self.p
        scale = max(float(np.abs(gradient).max()), 1e-300)
        H = H / scale
        H.ravel()[:: F + 1] += 1e-10 * max(float(H.trace()) / F, 1e-12)
        cost = gradient / scale - H @ about
        x = np.log(np.maximum(about, 1e-12))
        x -= np.log(lp_norm(np.exp(x), p))
        mu = 0.0
        system = np.zeros((F + 1, F + 1))
        for step in range(MOST_STEPS):
            h = np.exp(x)
            power = h ** (p - 1.0)
            slope = cost + H @ h
            if step == 0:
                mu = max(-float(h @ slope), 1e-12)
            residual, excess = slope + mu * power, float(h @ power) - 1.0
            met = (np.abs(residual) <= 1e-9 * np.abs(slope).max()) | ((residual > 0.0) & (h <= 1e-9))
            if met.all() and abs(excess) <= 1e-9:
                return h / lp_norm(h, p) if mu > 0.0 else None
            system[:F, :F] = h[:, None] * H * h  # rows scaled by h, which makes it symmetric and changes no step
            diagonal = np.einsum("ii->i", system[:F, :F])
            diagonal += mu * (p - 1.0) * h * power
            system[:F, F] = h * power
            system[F, :F] = p * h * power
            try:
                move = np.linalg.solve(system, -np.append(h * residual, excess))
            except np.linalg.LinAlgError:
                return None
            share = min(1.0, LONGEST_STEP / max(float(np.abs(move[:F]).max()), 1e-300))
            x, mu = x + share * move[:F], mu + share * float(move[F])
            if not np.isfinite(x).all():
                return None
        return None


@dataclass(frozen=True)
class ElasticNet(WeightSet):
    """``{g >= 0, Σ_j a g_j / (1 − (1 − a) g_j) <= 1}``: from p = 1 (a = ``l1_ratio`` = 1) to equal weights (a → 0).

    Its best weights turn ``Σ_j ‖w_j‖² / g_j`` into the elastic net ``a (Σ_j ‖w_j‖)² + (1 − a) Σ_j ‖w_j‖²`` [ST11]:
    weights are sparse as for p = 1, but kernels that say the same share theirs. With shares s of the simplex,
    ``g_j = s_j / (a + (1 − a) s_j)``, from 0 to 1.

    Examples
    --------
    >>> import numpy as np
    >>> from multikernel.problems.weight_sets import ElasticNet
    >>> ElasticNet(0.5).weights(np.array([1.0, 3.0, 0.0]))
    array([0.4       , 0.85714286, 0.        ])
    """

    l1_ratio: float = 0.5

    def __post_init__(self) -> None:
        if not 0.0 < self.l1_ratio <= 1.0:
            raise ValueError(
                f"l1_ratio={self.l1_ratio!r} must be above 0, which stands for equal weights, and at most 1, p = 1."
            )

    def _shares(self, g: Vector) -> Vector:
        return self.l1_ratio * g / (1.0 - (1.0 - self.l1_ratio) * g)

    def _of_shares(self, s: Vector) -> Vector:
        return s / (self.l1_ratio + (1.0 - self.l1_ratio) * s)

    def support(self, q: Vector) -> float:
        """Largest Σ_j q_j g_j over shares: those of the k largest entries are linear in √q_j, others are zero."""
        a, order = self.l1_ratio, np.argsort(-q, kind="stable")
        if a == 1.0 or not q.max(initial=0.0) > 0.0:
            return float(q.max(initial=0.0))
        roots = np.sqrt(q[order] / q[order[0]])
        k = np.arange(1, len(q) + 1)
        factors = (1.0 - a + k * a) / np.cumsum(roots)  # if the k largest have a share
        n_used = int(np.flatnonzero(roots * factors > a)[-1]) + 1
        s = np.maximum((roots[:n_used] * factors[n_used - 1] - a) / (1.0 - a), 0.0)
        return float(self._of_shares(s / s.sum()) @ q[order[:n_used]])

    def weights(self, block_norms: Vector) -> Vector:
        """Those of shares in proportion to the norms."""
        total = block_norms.sum()
        return self._of_shares(block_norms / total) if total > 0.0 else self.start(len(block_norms))

    def project(self, g: Vector) -> Vector:
        g, a = np.maximum(g, 0.0), self.l1_ratio
        if g.max(initial=0.0) <= 1.0 and self._shares(g).sum() <= 1.0:
            return g
        if a == 1.0:
            return project_capped_simplex(g, 1.0, np.inf)
        slope = lambda x: a / (1.0 - (1.0 - a) * x) ** 2  # noqa: E731
        return _project_by_bisection(g, np.minimum(g, 1.0), lambda x: float(self._shares(x).sum()), slope)

    def start(self, n_kernels: int) -> Vector:
        return self._of_shares(np.full(n_kernels, 1.0 / n_kernels))

    def cones(self, n_kernels: int) -> Cones:
        """A second-order cone per kernel: ``z_j (1 − b g_j) ≥ g_j²`` for b = 1 − a, and ``Σ a (g + b z) ≤ 1``."""
        import clarabel

        F, a, b = n_kernels, self.l1_ratio, 1.0 - self.l1_ratio
        positive = sparse.hstack([-sparse.identity(F), sparse.csc_matrix((F, F))])
        total = np.repeat([[a, a * b]], F, axis=1)
        # z v ≥ g² is (z + v, z − v, 2g) in the cone
        j = np.arange(F)
        values = np.repeat([b, -b, -2.0, -1.0, -1.0], F)
        places = (
            np.concatenate([3 * j, 3 * j + 1, 3 * j + 2, 3 * j, 3 * j + 1]),
            np.concatenate([j, j, j, F + j, F + j]),
        )
        triples = sparse.csc_matrix((values, places), shape=(3 * F, 2 * F))
        right = np.concatenate([np.zeros(F), [1.0], np.tile([1.0, -1.0, 0.0], F)])
        cones = [clarabel.NonnegativeConeT(F + 1)] + [clarabel.SecondOrderConeT(3)] * F
        return sparse.vstack([positive, total, triples]).tocsc(), right, cones

    def snapped(self, g: Vector, multipliers: Vector | None = None) -> Vector:
        """Shares scaled to sum to one, with exact zeros."""
        s = self._shares(self._zeroed(np.minimum(g, 1.0), multipliers))
        return self._of_shares(s / s.sum()) if s.sum() > 0.0 else self.start(len(g))


@dataclass(frozen=True)
class CappedSimplex(WeightSet):
    """``{0 <= g <= 1, Σ g = t}``: the relaxation of choosing t kernels [GMSB11, eq. (3.9)].

    Examples
    --------
    >>> import numpy as np
    >>> from multikernel.problems.weight_sets import CappedSimplex
    >>> CappedSimplex(2.0).support(np.array([1.0, 5.0, 3.0]))
    8.0
    >>> CappedSimplex(2.0).project(np.array([2.0, 0.9, 0.1, 0.0]))
    array([1. , 0.9, 0.1, 0. ])
    """

    t: float = 1.0

    def __post_init__(self) -> None:
        if not self.t > 0.0:
            raise ValueError(f"t={self.t!r} must be positive: it is the sum of the weights.")

    def support(self, q: Vector) -> float:
        """Sum of the t largest entries, the last one in part when t is not an integer."""
        return float(self.vertex(q) @ q)

    def weights(self, block_norms: Vector) -> Vector:
        """``g_j = min(1, block_norms_j / s)`` with s such that they sum to t."""
        order = np.argsort(-block_norms)
        norms = block_norms[order]
        tails = np.cumsum(norms[::-1])[::-1]
        rest = np.maximum(self.t - np.arange(len(norms)), 0.0)  # what is left when the k largest have weight 1
        k = int(np.argmax(norms * rest <= tails))
        shares = norms[k:] / tails[k] if tails[k] > 0.0 else np.full(len(norms) - k, 1.0 / (len(norms) - k))
        g = np.ones(len(norms))
        g[order[k:]] = rest[k] * shares
        return g

    def project(self, g: Vector) -> Vector:
        self._check(len(g))
        return project_capped_simplex(g, self.t, 1.0)

    def start(self, n_kernels: int) -> Vector:
        self._check(n_kernels)
        return np.full(n_kernels, self.t / n_kernels)

    @property
    def total(self) -> float:
        """The number t."""
        return self.t

    def cones(self, n_kernels: int) -> Cones:
        """Linear rows: g ≥ 0, g ≤ 1, Σ g = t."""
        import clarabel

        right = np.append(np.repeat([0.0, 1.0], n_kernels), self.t)
        return _capped_rows(n_kernels), right, [clarabel.NonnegativeConeT(2 * n_kernels), clarabel.ZeroConeT(1)]

    def snapped(self, g: Vector, multipliers: Vector | None = None) -> Vector:
        """Exact zeros and ones; the weights between them are scaled to keep the sum."""
        F, g = len(g), self._zeroed(np.minimum(g, 1.0), multipliers)
        if multipliers is not None:
            g[(1.0 - g < multipliers[F : 2 * F]) & (1.0 - g < AT_BOUND)] = 1.0
        between = (g > 0.0) & (g < 1.0)
        rest, sum_between = self.t - float((g == 1.0).sum()), float(g[between].sum())
        if sum_between > 0.0 and rest >= 0.0:
            g[between] *= rest / sum_between
        return g if g.max(initial=0.0) <= 1.0 and abs(g.sum() - self.t) <= 1e-12 * F else self.project(g)

    def roughly_least_point(self, H: NDArray, gradient: Vector, about: Vector) -> Vector:
        """``least_point`` to some digits, by SMO: one sum and bounds, as in an SVM."""
        from multikernel.compiled.smo import pair_smo

        F, h = len(about), self.project(about)
        diagonal = np.ascontiguousarray(H.diagonal())
        slopes, index, H = gradient + H @ (h - about), np.arange(F), np.ascontiguousarray(H)
        tau = 1e-9 * max(float(diagonal.max()), 1e-300)
        eps = PRECISE * max(float(np.abs(slopes).max()), 1e-300)
        data = H, index, H, np.ones(F, dtype=bool), diagonal, tau, np.zeros(F), np.ones(F)
        pair_smo(*data, 0.0, F, h, slopes, *np.empty((2, F)), eps, STEPS_A_WEIGHT * F)
        return h

    def vertex(self, q: Vector) -> Vector:
        """Weights with the largest ``g·q``: 1 for the largest entries of q, the rest of t for the next."""
        self._check(len(q))
        order = np.argsort(-q, kind="stable")
        g = np.zeros(len(q))
        g[order] = np.clip(self.t - np.arange(len(q)), 0.0, 1.0)
        return g

    def _check(self, n_kernels: int) -> None:
        if self.t > n_kernels:
            raise ValueError(f"t={self.t} kernels cannot be chosen out of {n_kernels}: lower t.")


class SimplexProduct(WeightSet):
    """Shares that sum to one in each group; ``label`` says which group a kernel is in, shape (F,)."""

    def __init__(self, label: NDArray[np.intp]):
        self.label = np.unique(label, return_inverse=True)[1]
        self.n_groups = int(self.label.max(initial=-1)) + 1

    def cones(self, n_kernels: int) -> Cones:
        """Linear rows: g ≥ 0, and a sum for each group."""
        import clarabel

        ones = np.ones(n_kernels), (self.label, np.arange(n_kernels))
        rows = [-sparse.identity(n_kernels), sparse.csc_matrix(ones, shape=(self.n_groups, n_kernels))]
        right = np.append(np.zeros(n_kernels), np.ones(self.n_groups))
        cones = [clarabel.NonnegativeConeT(n_kernels), clarabel.ZeroConeT(self.n_groups)]
        return sparse.vstack(rows).tocsc(), right, cones

    def snapped(self, g: Vector, multipliers: Vector | None = None) -> Vector:
        """Exact zeros, and exact sums."""
        g = self._zeroed(g, multipliers)
        return g / np.maximum(np.bincount(self.label, weights=g), 1e-300)[self.label]


@lru_cache(maxsize=8)
def _capped_rows(n_kernels: int) -> sparse.csc_matrix:
    """Rows of g ≥ 0, g ≤ 1 and Σ g: the same for every t, and slower to make than to use."""
    eye = sparse.identity(n_kernels, format="csc")
    return sparse.vstack([-eye, eye, np.ones((1, n_kernels))]).tocsc()


def lp_norm(x: Vector, p: float) -> float:
    """``‖x‖_p`` for x >= 0 without overflow or underflow, whatever p."""
    largest = float(x.max(initial=0.0))
    if largest == 0.0:
        return 0.0
    return largest * float(((x / largest) ** p).sum()) ** (1.0 / p)


Function = Callable[[Vector], Any]


def _project_by_bisection(g: Vector, largest: Vector, size: Function, slope: Function) -> Vector:
    """Nearest point to ``g`` with entries from 0 to ``largest`` and ``size(x) <= 1``.

    Entries solve ``x + mu slope(x) = g``, with mu such that the size is 1; ``slope`` does not fall.
    """
    free = _shrink(g, largest, 0.0, slope)
    if size(free) <= 1.0:
        return free
    high = float(g.max()) * len(g)
    while size(_shrink(g, largest, high, slope)) > 1.0:
        high *= 2.0
    mu = brentq(lambda mu: size(_shrink(g, largest, mu, slope)) - 1.0, 0.0, high, xtol=1e-300)
    return _shrink(g, largest, mu, slope)


def _shrink(g: Vector, largest: Vector, mu: float, slope: Function) -> Vector:
    """Entries x in [0, largest] with ``x + mu slope(x) = g``, or next to it, by bisection in all entries at once."""
    low, high = np.zeros_like(g), largest.copy()
    for _ in range(60):
        middle = 0.5 * (low + high)
        above = middle + mu * slope(middle) > g
        high, low = np.where(above, middle, high), np.where(above, low, middle)
    return low


def project_capped_simplex(g: Vector, total: float, cap: float) -> Vector:
    """Nearest point of ``{0 <= x <= cap, Σ x = total}``: ``clip(g - s)``, s found between kinks of its sum."""
    kinks = np.unique(np.concatenate([g, g - cap]) if np.isfinite(cap) else np.append(g, g.min() - total))

    def excess(s: float) -> float:
        return float(np.clip(g - s, 0.0, cap).sum()) - total

    low, high = 0, len(kinks) - 1
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if excess(kinks[middle]) > 0.0 else (low, middle)
    above, below = excess(kinks[low]), excess(kinks[high])
    if above <= 0.0 or above == below:
        return np.clip(g - kinks[low], 0.0, cap)
    s = kinks[low] + (kinks[high] - kinks[low]) * above / (above - below)
    return np.clip(g - s, 0.0, cap)
