"""Smooth ℓp-norm MKL on kernels: variance-reduced epochs, and L-BFGS, with weights that move in between."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from multikernel.problems.svrg import SmoothProblem, as_matrix
from multikernel.runtime.clock import OutOfTime
from multikernel.runtime.monitor import Monitor
from multikernel.solvers.common.newton import Start
from multikernel.solvers.svrg.epochs import Epochs
from multikernel.solvers.svrg.iterate import Iterate, Pairs

# Share of the duality gap that weights held fixed may leave; steps before they move all the same.
SHARE_OF_GAP, MOST_STEPS = 0.3, 30
# How many times as long as the closed form a move of the weights may be.
LONGEST = 20.0
# Products with the kernel that a Newton direction may cost, once a step leaves more than this share of the gap.
MOST_PRODUCTS, SLOW = 100, 0.5


def svrg(
    problem: SmoothProblem, monitor: Monitor, start: Start = None, *, max_iter: int = 1000, random_state: Any = None
) -> None:
    """Epochs of variance-reduced steps, weights in closed form between; the monitor has the result.

    As in [AOJS16, alg. 1] an epoch holds the weights d fixed, and a kernel's step grows with its weight; but

    - the step of kernel j is ``h d_j``, so that one alpha serves all kernels (see :class:`Epochs`), and an epoch is
      one pass over the samples in random order;
    - h starts at 1/L, L bounding the curvature of any one sample; it grows after an epoch that lowered the objective,
      and shrinks after one that did not, which is left out;
    - weights move when the gap that they leave if held fixed is a share of the whole gap, see :class:`WeightSearch`.
    """
    epochs = Epochs(problem, random_state)

    def advance(point: Iterate, pairs: Pairs) -> None:
        moved, lower = epochs.next(point)
        if lower:
            point.move_to(*moved)

    _alternate(problem, monitor, start, advance, max_iter)


def lbfgs(
    problem: SmoothProblem, monitor: Monitor, start: Start = None, *, max_iter: int = 1000, random_state: Any = None
) -> None:
    """L-BFGS while weights are fixed, weights in closed form between; the monitor has the result.

    It is deterministic. An iteration costs one product with the combined kernel.
    """

    def advance(point: Iterate, pairs: Pairs) -> None:
        pairs.add(point.search([pairs.direction(point)]), point)

    _alternate(problem, monitor, start, advance, max_iter)


def lbfgs_newton(problem: SmoothProblem, monitor: Monitor, start: Start = None, *, max_iter: int = 1000) -> None:
    """As :func:`lbfgs`, with Newton directions by conjugate gradients where steps leave half of the gap or more.

    For kernels that are too large to factor. With a C so large that the kernel matters alone it may creep.
    """
    last: tuple[Iterate | None, float, int] = None, np.inf, 0

    def advance(point: Iterate, pairs: Pairs) -> None:
        nonlocal last
        slow = last[2] + (point.gap > SLOW * last[1]) if point is last[0] else 0
        last = point, point.gap, slow
        directions = [pairs.direction(point)]
        if slow > len(pairs.moves) + 1:
            directions += [point.newton(MOST_PRODUCTS), (point.alpha, point.scores)]
        pairs.add(point.search(directions), point)

    _alternate(problem, monitor, start, advance, max_iter)


def _alternate(
    problem: SmoothProblem,
    monitor: Monitor,
    start: Start,
    advance: Callable[[Iterate, Pairs], None],
    max_iter: int,
) -> None:
    """``advance`` until the gap at these weights is small beside the whole, then move the weights."""
    weights, alpha = problem.start() if start is None else (np.array(start[0]), as_matrix(start[1]))
    search = WeightSearch(problem, weights)
    point, pairs = Iterate(problem, search.weights, alpha), Pairs()
    goal, since = np.inf, 0
    for count in range(1, max_iter + 1):
        try:
            advance(point, pairs)
            point.differentiate()
        except OutOfTime as end:
            end.reached = point.weights, point.alpha
            raise
        since += 1
        if point.gap > goal and since < MOST_STEPS and count < max_iter:
            continue
        monitor.notes = {"epoch": count, "passes": problem.passes}
        if monitor(point.weights, point.alpha) or count == max_iter:
            return
        gap = max(monitor.history[-1]["gap"], monitor.tol * abs(point.value))
        moved = search.next(problem.squares(point.dual), point.value)
        if not np.array_equal(moved, point.weights):
            point, pairs = Iterate(problem, moved, point.alpha), Pairs()  # curvature seen before is another's
        goal, since = search.share * gap, 0


class WeightSearch:
    """Moves of the weights: the closed form [AOJS16, eq. (2)], and further the same way while that pays.

    For fixed w the best weights are ``d_j ∝ ‖w_j‖^(2/(p+1))``, which cannot raise the objective, but near p = 1 gets
    to the optimum slowly. So a move in log d is made ``length`` times as long; the length grows while the objective
    falls; when it rises the search goes back to the weights before, looks at them closely, and makes shorter moves.
    """

    def __init__(self, problem: SmoothProblem, weights: NDArray):
        self.problem = problem
        self.weights = self.problem.inside(weights)
        self.length = 1.0
        p = problem.weight_set.p
        # where norms do not depend on the weights, so long a move arrives at once
        self.longest = LONGEST if p == 1.0 else min((p + 1.0) / (p - 1.0), LONGEST)
        self.share = SHARE_OF_GAP  # of the whole gap that the inner problem may leave
        self._best: tuple[float, NDArray] | None = None

    def next(self, squares: NDArray, value: float) -> NDArray[np.float64]:
        """Weights to go on with, given ``‖θ_j‖²`` of the dual point and the objective at the present ones."""
        if self.problem.weight_set.is_box or not squares.any():
            return self.weights
        if self._best is not None and value > self._best[0]:
            self.length, self.share = max(0.4 * self.length, 1.0), 0.5 * self.share
            self.weights, self._best = self._best[1], None
            return self.weights  # and look at them more closely before the next move
        self._best = value, self.weights
        self.length, self.share = min(1.3 * self.length, self.longest), min(1.5 * self.share, SHARE_OF_GAP)
        closed_form = self.problem.inside(self.problem.weight_set.weights(self.weights * np.sqrt(squares)))
        step = np.clip(self.length * np.log(closed_form / self.weights), -10.0, 10.0)
        self.weights = self.problem.inside(self.weights * np.exp(step))
        return self.weights
