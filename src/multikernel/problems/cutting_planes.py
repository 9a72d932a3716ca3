"""Master problems of cutting-plane methods: the best weights for a model of J made of its cuts."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.optimize import linprog

from multikernel.problems.weight_sets import LpBall, WeightSet, solve_cone_program
from multikernel.runtime.clock import check, left
from multikernel.runtime.monitor import Monitor

Vector = NDArray[np.float64]
# Numbers of cuts from a file to what their alphas prove: constant, q, and the alpha made feasible.
Prove = Callable[[Sequence[int]], Iterable[tuple[float, NDArray, NDArray]]]

# What is kept of cuts in a checkpoint.
KEPT = "constants", "forms", "cuts"
# Share of the bound below which a cut that is not proved yet is left out of it instead.
NEGLIGIBLE = 1e-9


class CuttingPlaneModel:
    """``m(g) = max over r of constant_r − ½ g·q_r``, minimised over a set of weights; a number p is ``LpBall(p)``.

    Each feasible alpha makes a cut: ``constant`` is the linear part of the dual objective, q its quadratic forms.
    With cuts of a min-max problem, m ≤ J everywhere: the least value of m is a lower bound on the optimum [SRSS06].
    The master problem is a linear program where the set has no curved border [SRSS06, eq. (12)], else a conic one.
    """

    def __init__(self, n_kernels: int, weight_set: WeightSet | float):
        self.n_kernels = n_kernels
        self.set: Any = LpBall(weight_set) if isinstance(weight_set, (int, float)) else weight_set
        self.constants: list[float] = []
        self.forms: list[Vector] = []
        self.alphas: list[NDArray | None] = []
        self.proved: list[bool] = []
        self._prove: Prove | None = None
        self.multipliers = np.zeros(0)

    def __len__(self) -> int:
        return len(self.constants)

    def add(self, constant: float, q: NDArray, alpha: NDArray | None = None, *, proved: bool = True) -> None:
        """Add the cut ``constant − ½ g·q``, and the alpha that makes it."""
        self.constants.append(float(constant))
        self.forms.append(np.array(q, dtype=np.float64))
        self.alphas.append(None if alpha is None else np.array(alpha))
        self.proved.append(proved)

    def resume(self, problem: Any, monitor: Monitor) -> None:
        """Take over the cuts of the run that is resumed, and have those of this one kept."""
        weights, start = problem.start()

        def prove(rows: Sequence[int]) -> Iterator[tuple[float, NDArray, NDArray]]:
            for r in rows:
                alpha = problem.repaired(weights, self.alphas[r])[1]
                yield *problem.cut(alpha), alpha

        self.take_over(monitor.kept, start.shape, prove)
        monitor.keep = self.kept

    def kept(self) -> dict[str, NDArray]:
        """The cuts as arrays."""
        return {name: np.array(part) for name, part in zip(KEPT, (self.constants, self.forms, self.alphas))}

    def take_over(self, kept: Mapping[str, NDArray], shape: tuple[int, ...], prove: Prove) -> None:
        """Take over cuts from a file, unless shapes are wrong; ``shape`` is that of an alpha.

        They show where to look, and none is part of a bound before it is proved: most never matter again, and proving
        all of them costs more than the work that is left.
        """
        constants, forms, alphas = (kept.get(name, np.zeros(0)) for name in KEPT)
        R = len(alphas)
        if (constants.shape, forms.shape, alphas.shape) == ((R,), (R, self.n_kernels), (R, *shape)):
            for constant, q, alpha in zip(constants, forms, alphas):
                self.add(constant, q, alpha, proved=False)
            self._prove = prove

    def mixture(self) -> NDArray | None:
        """``Σ_r μ_r alpha_r`` with the multipliers of the last ``solve``; None unless all cuts came with an alpha.

        It proves at least the bound of that ``solve``: the dual objective is concave in alpha.
        """
        total: NDArray | None = None
        for multiplier, alpha in zip(self.multipliers, self.alphas):
            if alpha is None:
                return None
            if multiplier > 0.0:
                total = multiplier * alpha if total is None else total + multiplier * alpha
        return total

    def value(self, g: Vector) -> float:
        """The model at ``g``."""
        return float(np.max(np.array(self.constants) - 0.5 * (np.array(self.forms) @ g)))

    def bound(self, multipliers: Vector) -> float:
        """``Σ_r μ_r constant_r − ½ support(Σ_r μ_r q_r)``: a lower bound on min m for any μ in the simplex."""
        return float(multipliers @ self.constants) - 0.5 * self.set.support(multipliers @ np.array(self.forms))

    def solve(self) -> tuple[Vector, float]:
        """Best weights, and a lower bound on the least value of the model that holds whatever the rounding.

        The bound is that of ``multipliers``, those of the cuts, which are kept.
        """
        if not self.constants:
            raise RuntimeError("the model has no cut yet: add one before solving")
        weights = self._minimise()
        while rows := [int(r) for r in np.flatnonzero(self.multipliers) if not self.proved[r]]:
            assert self._prove is not None
            for r, cut in zip(rows, self._prove(rows)):
                self.constants[r], self.forms[r], self.alphas[r], self.proved[r] = *cut, True
            weights = self._minimise()
        return weights, self.bound(self.multipliers)

    def _minimise(self) -> Vector:
        """Where the model is least; its multipliers are kept."""
        # numbers of the order of one, whatever the kernels and C: solvers have absolute tolerances
        constants, forms = np.array(self.constants), 0.5 * np.array(self.forms)
        level = constants.max()
        scale = max(float(np.abs(constants - level).max()), float(forms.max(initial=0.0)), 1e-300)
        a, H = (constants - level) / scale, forms / scale
        g, multipliers = self._master(a, H)
        multipliers = np.maximum(multipliers, 0.0)
        multipliers[(multipliers <= NEGLIGIBLE * multipliers.max()) & ~np.array(self.proved)] = 0.0
        total = multipliers.sum()
        self.multipliers = multipliers / total if total > 0.0 else np.full(len(a), 1.0 / len(a))
        return self.set.snapped(g)

    def project(self, g: Vector, level: float) -> Vector:
        """The weights nearest to ``g`` with ``m ≤ level``, where weights have a given sum: a quadratic program."""
        import clarabel

        F, R = self.n_kernels, len(self)
        constants, forms = np.array(self.constants) - level, 0.5 * np.array(self.forms)
        scale = np.maximum(np.maximum(forms.max(axis=1, initial=0.0), np.abs(constants)), 1e-300)
        eye = np.eye(F)
        upper = eye if self.set.total > 1.0 else np.zeros((0, F))  # a sum of 1 caps the weights by itself
        rows = np.vstack([-eye, upper, -forms / scale[:, None], np.ones((1, F))])
        right = np.concatenate([np.zeros(F), np.ones(len(upper)), -constants / scale, [self.set.total]])
        cones = [clarabel.NonnegativeConeT(F + len(upper) + R), clarabel.ZeroConeT(1)]
        x, _ = solve_cone_program(-g, sparse.csc_matrix(rows), right, cones, sparse.identity(F, format="csc"))
        x = np.clip(x, 0.0, 1.0)
        x[x < 1e-10 * x.max(initial=0.0)] = 0.0  # an interior point has no exact zeros, and no exact ones
        x[x > 1.0 - 1e-10] = 1.0
        return self.set.snapped(x)

    def _master(self, a: Vector, H: NDArray) -> tuple[Vector, Vector]:
        """min θ over θ ≥ a_r − H_r·g and g in the set; g and the multipliers of the cuts."""
        linear = self.set.total is not None or self.set.is_box
        return self._linear(a, H) if linear else self._conic(a, H)

    def _linear(self, a: Vector, H: NDArray) -> tuple[Vector, Vector]:
        """min θ over θ ≥ a_r − H_r·g and 0 ≤ g ≤ 1, with the sum that the set asks for (none: p = ∞)."""
        cost = np.append(np.zeros(self.n_kernels), 1.0)
        program: dict[str, Any] = {"A_ub": np.column_stack([-H, -np.ones(len(a))]), "b_ub": -a}
        if self.set.total is not None:
            program |= {"A_eq": np.append(np.ones(self.n_kernels), 0.0)[None, :], "b_eq": [self.set.total]}
        program["bounds"] = [(0.0, 1.0)] * self.n_kernels + [(None, None)]
        limit = {"time_limit": left()}
        tight = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}
        found = linprog(cost, **program, method="highs", options=tight | limit)
        check()
        if found.x is None:  # the tolerances are tight: a looser solve is better than none
            found = linprog(cost, **program, method="highs", options=limit)
            check()
        return found.x[:-1], -found.ineqlin.marginals

    def _conic(self, a: Vector, H: NDArray) -> tuple[Vector, Vector]:
        """The same with ‖g‖_p ≤ 1 held exactly, by cones."""
        import clarabel

        F, R = self.n_kernels, len(a)
        # variables (g, z, θ), z those that the ball needs
        ball, right, cones = self.set.cones(F)
        n_ball = ball.shape[1]
        cuts = sparse.hstack([sparse.csc_matrix(-H), sparse.csc_matrix((R, n_ball - F)), -np.ones((R, 1))])
        rows = sparse.vstack([cuts, sparse.hstack([ball, sparse.csc_matrix((ball.shape[0], 1))])]).tocsc()
        cones = [clarabel.NonnegativeConeT(R), *cones]
        x, dual = solve_cone_program(np.append(np.zeros(n_ball), 1.0), rows, np.append(-a, right), cones)
        return x[:F], dual[:R]
