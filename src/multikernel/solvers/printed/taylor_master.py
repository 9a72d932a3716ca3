"""Cutting planes with the norm expanded to second order, as [KBSLMZ09] and [KBSZ11] solve their master problem."""

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from multikernel.problems.cutting_planes import CuttingPlaneModel
from multikernel.problems.weight_sets import lp_norm, solve_cone_program

Vector = NDArray[np.float64]

# Taylor expansions of the norm in one master problem, and the change of weights that ends them.
MOST_EXPANSIONS, SETTLED = 50, 1e-9
# Smallest weight about which the norm is expanded: its second derivative is infinite at 0 for p < 2.
SMALLEST = 1e-8


class TaylorModel(CuttingPlaneModel):
    """The model with second-order expansions of a norm with 1 < p < ∞ in its master problem [KBSZ11, sect. 4.2].

    It solves one quadratically constrained program after the other, until the weights stay. Sets without a curved
    border have nothing to expand.
    """

    def _master(self, a: Vector, H: NDArray) -> tuple[Vector, Vector]:
        """Expand ``‖g‖_p^p`` about the last solution until it stays, starting from equal weights."""
        if self.set.total is not None or self.set.is_box:
            return super()._master(a, H)
        g = self.set.start(self.n_kernels)
        multipliers = np.full(len(a), 1.0 / len(a))
        for _ in range(MOST_EXPANSIONS):
            moved, multipliers = self._expanded(a, H, np.maximum(g, SMALLEST))
            moved = np.maximum(moved, 0.0)
            moved = moved / max(lp_norm(moved, self.set.p), 1e-300)
            if np.abs(moved - g).max() <= SETTLED:
                return moved, multipliers
            # the expansion may overshoot where it is far from the norm: halfway is safe, and fast enough
            g = 0.5 * (g + moved) if self.set.p < 2.0 else moved
            g = g / lp_norm(g, self.set.p)
        return g, multipliers

    def _expanded(self, a: Vector, H: NDArray, about: Vector) -> tuple[Vector, Vector]:
        """The master with ½ p(p−1) Σ ĝ_j^(p−2) g_j² − p(p−2) Σ ĝ_j^(p−1) g_j + ½ p(p−3) + 1 ≤ 1 for the norm."""
        import clarabel

        p, F, R = self.set.p, self.n_kernels, len(a)
        root = np.sqrt(0.5 * p * (p - 1.0)) * about ** (0.5 * (p - 2.0))
        linear = p * (p - 2.0) * about ** (p - 1.0)
        rest = -0.5 * p * (p - 3.0)  # ‖root∘g‖² ≤ linear·g + rest =: t, as ‖(2 root∘g, t − 1)‖ ≤ t + 1
        cuts = np.column_stack([-H, -np.ones(R)])
        positive = np.column_stack([-np.eye(F), np.zeros(F)])
        cone = np.vstack(
            [np.append(-linear, 0.0), np.column_stack([-2.0 * np.diag(root), np.zeros(F)]), np.append(-linear, 0.0)]
        )
        right = np.concatenate([-a, np.zeros(F), [rest + 1.0], np.zeros(F), [rest - 1.0]])
        A = sparse.csc_matrix(np.vstack([cuts, positive, cone]))
        cones = [clarabel.NonnegativeConeT(R + F), clarabel.SecondOrderConeT(F + 2)]
        x, dual = solve_cone_program(np.append(np.zeros(F), 1.0), A, right, cones)
        return x[:F], dual[:R]
