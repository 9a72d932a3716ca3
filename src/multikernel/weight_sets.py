"""Convex sets of kernel weights: support function, closed-form weights, projection, a place to start."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]


class WeightSet(Protocol):
    """A convex set G of kernel weights, all non-negative.

    The certificate of every min-max method needs only its support function: for any feasible alpha,
    ``linear(alpha) - ½ support(q(alpha))`` is a lower bound on the optimum over G.
    """

    def support(self, q: Vector) -> float:
        """``max over g in G of g·q``, for q >= 0."""

    def weights(self, block_norms: Vector) -> Vector:
        """``argmin over g in G of Σ_j block_norms_j² / g_j``: the best weights for given norms of w_j."""

    def project(self, g: Vector) -> Vector:
        """The point of G nearest to ``g``."""

    def start(self, n_kernels: int) -> Vector:
        """Weights that favour no kernel."""


@dataclass(frozen=True)
class LpBall:
    """``{g >= 0, ‖g‖_p <= 1}`` for p from 1 (sparse weights) to infinity (all weights 1).

    Parameters
    ----------
    p : float
        At least 1; from 1e6 on it is taken for infinity.

    Examples
    --------
    >>> import numpy as np
    >>> from multikernel.weight_sets import LpBall
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
    def is_box(self) -> bool:
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
        """Nearest point: closed form for p = 1, 2 and infinity, else bisection on the multiplier."""
        g = np.maximum(g, 0.0)
        if self.is_box:
            return np.minimum(g, 1.0)
        if lp_norm(g, self.p) <= 1.0:
            return g
        if self.p == 1.0:
            return project_capped_simplex(g, 1.0, np.inf)
        if self.p == 2.0:
            return g / lp_norm(g, 2.0)
        return self._project_by_bisection(g)

    def _project_by_bisection(self, g: Vector) -> Vector:
        """Solve ``x + mu p x^(p-1) = g`` for x, with mu such that ``‖x‖_p = 1``."""
        low, high = 0.0, float(g.max()) * len(g)
        while lp_norm(_shrink(g, high, self.p), self.p) > 1.0:
            high *= 2.0
        for _ in range(200):
            middle = 0.5 * (low + high)
            if lp_norm(_shrink(g, middle, self.p), self.p) > 1.0:
                low = middle
            else:
                high = middle
            if high - low <= 1e-15 * high:
                break
        return _shrink(g, high, self.p)

    def start(self, n_kernels: int) -> Vector:
        """Equal weights of norm one."""
        if self.is_box:
            return np.ones(n_kernels)
        return np.full(n_kernels, n_kernels ** (-1.0 / self.p))


@dataclass(frozen=True)
class CappedSimplex:
    """``{0 <= g <= 1, Σ g = t}``: the relaxation of choosing t kernels [GMSB11, eq. (3.9)].

    Examples
    --------
    >>> import numpy as np
    >>> from multikernel.weight_sets import CappedSimplex
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
        self._check(len(q))
        ordered = np.sort(q)[::-1]
        whole = int(self.t)
        part = (self.t - whole) * ordered[whole] if whole < len(q) else 0.0
        return float(ordered[:whole].sum() + part)

    def weights(self, block_norms: Vector) -> Vector:
        """``g_j = min(1, block_norms_j / s)`` with s such that they sum to t."""
        self._check(len(block_norms))
        order = np.argsort(-block_norms)
        norms = block_norms[order]
        tails = np.cumsum(norms[::-1])[::-1]
        g = np.ones(len(norms))
        for k in range(len(norms)):
            rest = self.t - k  # what is left when the k largest have weight 1
            if rest <= 0.0:
                g[k:] = 0.0
                break
            if tails[k] <= 0.0:
                g[k:] = rest / (len(norms) - k)
                break
            if norms[k] * rest <= tails[k]:
                g[k:] = norms[k:] * (rest / tails[k])
                break
        result = np.empty_like(g)
        result[order] = g
        return result

    def project(self, g: Vector) -> Vector:
        """Nearest point."""
        self._check(len(g))
        return project_capped_simplex(g, self.t, 1.0)

    def start(self, n_kernels: int) -> Vector:
        """Equal weights t / F."""
        self._check(n_kernels)
        return np.full(n_kernels, self.t / n_kernels)

    def _check(self, n_kernels: int) -> None:
        if self.t > n_kernels:
            raise ValueError(f"t={self.t} kernels cannot be chosen out of {n_kernels}: lower t.")


def lp_norm(x: Vector, p: float) -> float:
    """``‖x‖_p`` for x >= 0 without overflow or underflow, whatever p."""
    largest = float(x.max(initial=0.0))
    if largest == 0.0:
        return 0.0
    return largest * float(((x / largest) ** p).sum()) ** (1.0 / p)


def _shrink(g: Vector, mu: float, p: float) -> Vector:
    """Entries x in [0, g] with ``x + mu p x^(p-1) = g``, by bisection in all entries at once."""
    low, high = np.zeros_like(g), g.copy()
    for _ in range(60):
        middle = 0.5 * (low + high)
        above = middle + mu * p * middle ** (p - 1.0) > g
        high, low = np.where(above, middle, high), np.where(above, low, middle)
    return low


def project_capped_simplex(g: Vector, total: float, cap: float) -> Vector:
    """Nearest point of ``{0 <= x <= cap, Σ x = total}``: ``clip(g - s)`` at the root s of a monotone function.

    The sum is piecewise linear in s with kinks at ``g`` and ``g - cap``; the root is found exactly between kinks.
    """
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
