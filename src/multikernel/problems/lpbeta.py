"""The linear program that weights classifiers by their margins over all classes, and the proof of its solutions."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from multikernel.problems.certificate import UNIT, Certificate
from multikernel.problems.primal import checked_weights
from multikernel.svm.quadratic_program import weighted_quantile, with_sum

Table = NDArray[np.float64]


class MarginProblem:
    """Weights of classifiers with the largest soft margin of the right class over every other class.

    With scores f_jr(x_i) of classifier j for class r, sample weights s and S = Σ_i s_i [GN09, LP-β and LP-B]:

        min  −ρ + (1/νS) Σ_i s_i ξ_i
        over weights in the simplex, ρ, ξ ≥ 0,
        subject to  Σ_j β_j^{y_i} f_{j y_i}(x_i) − Σ_j β_j^r f_jr(x_i) ≥ ρ − ξ_i   for all i and r ≠ y_i,

    where β^r is the same for all classes (``shared``: one simplex), or each class has its own (a simplex each).
    For given weights ρ and ξ have closed forms. The dual has prices u_ir ≥ 0, one per constraint, that sum to 1 with
    Σ_r u_ir ≤ s_i / νS for each sample; its value is minus the largest weighted sum of margins that any weights
    reach: −max_j Σ_ir u_ir (f_{j y_i} − f_jr) if they are shared.

    Scores, shape (F, n, M), should come from classifiers that were not trained on the sample in question; ``codes``
    (n,) are the classes. ν in (0, 1] bounds the share of samples with a margin below ρ.
    """

    def __init__(
        self,
        scores: ArrayLike,
        codes: ArrayLike,
        nu: float = 0.5,
        *,
        sample_weight: ArrayLike | None = None,
        shared: bool = True,
    ):
        self.scores = np.asarray(scores, dtype=np.float64)
        self.codes = np.asarray(codes, dtype=np.intp)
        self.nu, self.shared = float(nu), bool(shared)
        if not 0.0 < self.nu <= 1.0:
            raise ValueError(f"nu={nu!r} must be above 0 and at most 1: it bounds the share of margin errors.")
        if self.scores.ndim != 3 or self.scores.shape[1] != len(self.codes) or self.scores.shape[2] < 2:
            raise ValueError(
                f"scores have shape {self.scores.shape}, expected (F, {len(self.codes)}, M) with M ≥ 2 classes."
            )
        self.n_kernels, self.n_samples, self.n_classes = self.scores.shape
        weight = checked_weights(sample_weight, self.n_samples)
        self.caps = weight / (self.nu * weight.sum())  # bounds on a sample's prices, and the price of its ξ
        self.scale = float(np.abs(self.scores).max(initial=0.0))

    def start(self) -> tuple[NDArray, NDArray]:
        """Equal weights, and prices on the rivals that are nearest to them."""
        weights = self.members(np.ones((self.n_kernels,) if self.shared else (self.n_classes, self.n_kernels)))
        margins = self.margins(weights)
        prices = np.zeros_like(margins)
        prices[np.arange(self.n_samples), margins.argmin(axis=1)] = self.caps / self.caps.sum()
        return weights, prices

    def members(self, weights: NDArray) -> NDArray[np.float64]:
        """Weights without negative entries that sum to one, for each class where classes have their own."""
        weights = np.maximum(weights, 0.0)
        total = weights.sum(axis=-1, keepdims=True)
        return np.where(total > 0.0, weights / np.where(total > 0.0, total, 1.0), 1.0 / self.n_kernels)

    def margins(self, weights: NDArray) -> Table:
        """Score of the right class less that of each other, shape (n, M); infinite at the right class."""
        mixed = np.einsum("f,fnr->nr" if self.shared else "rf,fnr->nr", weights, self.scores, optimize=True)
        samples = np.arange(self.n_samples)
        margins = mixed[samples, self.codes][:, None] - mixed
        margins[samples, self.codes] = np.inf
        return margins

    def prices(self, prices: NDArray) -> Table:
        """Feasible prices near those given: none at the right class, bounded for each sample, with sum 1."""
        samples = np.arange(self.n_samples)
        prices = np.maximum(prices, 0.0)
        prices[samples, self.codes] = 0.0
        sums = prices.sum(axis=1)
        wanted = with_sum(sums, np.zeros(self.n_samples), self.caps, 1.0)
        prices *= (wanted / np.where(sums > 0.0, sums, 1.0))[:, None]
        missing = np.flatnonzero((sums <= 0.0) & (wanted > 0.0))
        prices[missing, (self.codes[missing] + 1) % self.n_classes] = wanted[missing]
        return prices

    def repaired(self, weights: NDArray, prices: NDArray) -> tuple[NDArray, NDArray]:
        """Feasible weights and prices near those given."""
        return self.members(weights), self.prices(prices)

    def margin(self, weights: NDArray) -> float:
        """The best ρ for these weights."""
        return weighted_quantile(self.margins(weights).min(axis=1), self.caps, 1.0)

    def certificate(self, weights: NDArray, prices: NDArray) -> Certificate:
        """Value at ``weights`` with the best ρ and ξ, and the dual value at ``prices``.

        ``weights`` have shape (F,), or (M, F) for one row per class, ``prices`` (n, M).
        """
        n, unit = self.n_samples, UNIT * self.scale
        smallest = self.margins(self.members(weights)).min(axis=1)
        rho = weighted_quantile(smallest, self.caps, 1.0)
        primal = float(self.caps @ np.maximum(rho - smallest, 0.0)) - rho
        off = 2 * (self.n_kernels + 4) * unit  # of a margin; weights sum to one, and so do prices but for rounding
        below = float(self.caps[smallest <= rho + off].sum())
        primal_off = below * off + (n + 8) * UNIT * (primal + 2.0 * abs(rho))
        prices = self.prices(prices)
        signed = -prices
        signed[np.arange(self.n_samples), self.codes] = prices.sum(axis=1)
        gains = np.einsum("fnr,nr->rf", self.scores, signed, optimize=True)
        dual = -float(gains.sum(axis=0).max() if self.shared else gains.max(axis=1).sum())
        dual_off = 2 * (n * self.n_classes + n + 8) * unit
        rounding = primal_off + dual_off
        # an optimum of zero has no small relative gap: what is rounding of the scores counts as nothing
        resolution = rounding + 128 * unit if abs(primal) <= rounding + 128 * unit else 0.0
        return Certificate(primal + primal_off, dual - dual_off, rounding=rounding, resolution=resolution)
