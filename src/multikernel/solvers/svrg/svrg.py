"""Variance-reduced gradient descent on smooth ℓp-norm MKL, and L-BFGS on the same problem for reference."""

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
from multikernel.solvers.svrg.iterate import Iterate, Memory
from multikernel.solvers.svrg.newton import AFFORDABLE, affordable, epoch_cost, smooth_newton, step_cost

# Share of the duality gap that weights held fixed may leave; epochs before they move all the same.
SHARE_OF_GAP, MAX_EPOCHS = 0.3, 30
# Steps that are remembered and searched together with the next one.
MEMORY = 5
# How many times as long as the closed form a move of the weights may be.
LONGEST = 20.0
# Products with the kernel that a Newton direction may cost, once an epoch leaves more than this share of the gap
# where exact steps cannot be afforded.
MAX_PRODUCTS, SLOW = 100, 0.5
# Newton steps that a problem takes about; epochs over which the pace is measured where they are exact, and where they
# are not: then it must be the weights that creep.
NEWTON_STEPS, FEWEST, PATIENCE = 10, 5, 30


def svrg(
    problem: SmoothProblem, monitor: Monitor, start: Start = None, *, max_iter: int = 1000, random_state: Any = None
) -> None:
    """Epochs of variance-reduced steps with help, weights in closed form between them; the monitor has the result.

    As :func:`svrg_alone`, but

    - what an epoch moved is one direction, the full gradient and the last few moves are others: the best point in the
      space that they span costs O(n) to find, because all their scores are known. So the objective never rises while
      weights are fixed;
    - where epochs at their pace would take longer than Newton steps, because the condition is bad,
      :func:`multikernel.solvers.svrg.newton.smooth_newton` goes on. Where its steps are not exact (several classes
      with the softmax loss) or cannot be afforded, and an epoch gained less than half of the gap, Newton's direction
      by conjugate gradients takes the place of the gradient.
    """
    epochs = Epochs(problem, random_state)
    exact = affordable(problem)
    pace = Pace(problem, monitor) if step_cost(problem) <= AFFORDABLE else None
    last: tuple[Iterate | None, float] = None, np.inf
    slow = False

    def advance(point: Iterate, memory: Memory) -> None:
        nonlocal last, slow
        moved, _ = epochs.next(point)
        directions = [(moved[0] - point.alpha, moved[1] - point.scores), (point.alpha, point.scores), *memory.moves]
        slow = slow or (point is last[0] and point.gap > SLOW * last[1])
        last = point, point.gap
        by_products = slow and not exact
        directions.append(point.newton(MAX_PRODUCTS) if by_products else (point.gradient, point.image))
        memory.add(point.search(directions))

    left = _alternate(problem, monitor, start, advance, max_iter, pace)
    if left is not None:
        smooth_newton(problem, monitor, left, max_iter=max_iter - monitor.history[-1]["epoch"])


def svrg_alone(
    problem: SmoothProblem, monitor: Monitor, start: Start = None, *, max_iter: int = 1000, random_state: Any = None
) -> None:
    """Epochs of variance-reduced steps and nothing else, weights in closed form between; the monitor has the result.

    As in [AOJS16, alg. 1] an epoch holds the weights d fixed, and a kernel's step grows with its weight; but

    - the step of kernel j is ``h d_j``, so that one alpha serves all kernels (see :class:`Epochs`), and an epoch is
      one pass over the samples in random order;
    - h starts at 1/L, L bounding the curvature of any one sample; it grows after an epoch that lowered the objective,
      and shrinks after one that did not, which is left out;
    - weights move when the gap that they leave if held fixed is a share of the whole gap, see :class:`WeightSearch`.
    """
    epochs = Epochs(problem, random_state)

    def advance(point: Iterate, memory: Memory) -> None:
        moved, lower = epochs.next(point)
        if lower:
            point.move_to(*moved)

    _alternate(problem, monitor, start, advance, max_iter)


class Pace:
    """Tells when Newton steps promise to be quicker than the epochs that are left at their pace."""

    def __init__(self, problem: SmoothProblem, monitor: Monitor):
        self.monitor = monitor
        self.stretch = FEWEST if problem.loss.separable else PATIENCE  # over which the pace is measured
        self.worth = max(NEWTON_STEPS * step_cost(problem) / epoch_cost(problem), 2 * self.stretch)
        self._seen: list[tuple[int, float]] = []

    def too_slow(self, count: int) -> bool:
        """Whether to leave, after ``count`` epochs."""
        gap = max(self.monitor.certificate.relative_gap, 1e-300)
        self._seen.append((count, gap))
        earlier = [(c, g) for c, g in self._seen if c <= count - self.stretch]
        if not earlier:
            return False
        since, before = earlier[-1]
        fall = np.log(before / gap) / (count - since)  # of the logarithm, an epoch
        return np.log(gap / self.monitor.tol) > self.worth * max(fall, 0.0)


def lbfgs(
    problem: SmoothProblem, monitor: Monitor, start: Start = None, *, max_iter: int = 1000, random_state: Any = None
) -> None:
    """L-BFGS while weights are fixed, weights in closed form between; the monitor has the result.

    It is deterministic. An iteration costs one product with the combined kernel.
    """

    def advance(point: Iterate, memory: Memory) -> None:
        memory.add_pair(point.search([memory.quasi_newton(point.gradient, point.image)]), point)

    _alternate(problem, monitor, start, advance, max_iter)


def _alternate(
    problem: SmoothProblem,
    monitor: Monitor,
    start: Start,
    advance: Callable[[Iterate, Memory], None],
    max_iter: int,
    pace: Pace | None = None,
) -> tuple[NDArray, NDArray] | None:
    """``advance`` until the gap at these weights is small beside the whole, then move the weights.

    Returns where it stands if ``pace`` says that this takes too long, None if it is over.
    """
    weights, alpha = problem.start() if start is None else (np.array(start[0]), as_matrix(start[1]))
    search = WeightSearch(problem, weights)
    point, memory = Iterate(problem, search.weights, alpha), Memory(MEMORY)
    goal, since = np.inf, 0
    for count in range(1, max_iter + 1):
        try:
            advance(point, memory)
            point.differentiate()
        except OutOfTime as end:
            end.reached = point.weights, point.alpha
            raise
        since += 1
        if point.gap > goal and since < MAX_EPOCHS and count < max_iter:
            continue
        monitor.notes = {"epoch": count, "passes": problem.passes}
        if monitor(point.weights, point.alpha) or count == max_iter:
            return None
        if pace is not None and pace.too_slow(count):
            return point.weights, point.alpha
        gap = max(monitor.history[-1]["gap"], monitor.tol * abs(point.value))
        moved = search.next(problem.squares(point.dual), point.value)
        if not np.array_equal(moved, point.weights):
            point = Iterate(problem, moved, point.alpha)
            memory.renew(problem, moved)
        goal, since = search.share * gap, 0
    return None


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
