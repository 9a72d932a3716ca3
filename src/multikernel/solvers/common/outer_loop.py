"""What outer loops share: how exact inner problems are, steps that decrease J, a start from few samples."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from multikernel.problems.minmax import MinMaxProblem
from multikernel.runtime.clock import OutOfTime, left, time_limit
from multikernel.runtime.monitor import Monitor

# Weights and alpha to start from; None for the solver's own choice.
Start = tuple[NDArray, NDArray] | None

# Relative gap of the first inner problem, what share of the outer gap later ones may leave, and the least asked for.
# The SVM engine ends with steps that are nearly exact, so that asking for less at first saves next to nothing.
FIRST, SHARE, LEAST = 1e-3, 0.1, 1e-12
# Trials of a step, and the share of the decrease predicted that is enough.
MOST_TRIALS, ENOUGH = 8, 1e-3
# From how many samples on a start from a part of them pays, what part that is, how many at least (fewer give weights
# that are too sparse), and how well it is solved: below that, weights depend on which samples they were.
LARGE, PART, FEWEST, ROUGH = 3000, 8, 500, 1e-2
# Of the time that is left, what it may take.
SHARE_OF_TIME = 0.25


class InnerTolerance:
    """Relative gap for the next inner problem: a share of the outer gap, never growing, tighter on demand."""

    def __init__(self, monitor: Monitor):
        self.monitor = monitor
        self.least = max(SHARE * monitor.tol, LEAST)
        self.value = FIRST
        self.follow()

    def follow(self) -> float:
        """The tolerance after the monitor has seen the last solution."""
        wanted = SHARE * self.monitor.certificate.relative_gap
        self.value = min(self.value, max(wanted if wanted == wanted else FIRST, self.least))
        return self.value

    def tighten(self) -> bool:
        """Ask for ten times more; False if that is beyond double precision, and the monitor hears of it."""
        if self.value <= LEAST:
            self.monitor.stopped = "rounding"
            return False
        self.least = min(self.least, max(0.1 * self.value, LEAST))
        self.value = max(0.1 * self.value, LEAST)
        return True


@dataclass
class WeightPoint:
    """Weights with the value of J, and the alpha of the inner problem there."""

    problem: Any  # min-max, or like it: has solve_inner and quadratic_forms
    weights: NDArray
    value: float
    alpha: NDArray

    @cached_property
    def gradient(self) -> NDArray[np.float64]:
        """Derivatives of J, ``−½ q(alpha)``."""
        return -0.5 * self.problem.quadratic_forms(self.alpha)


def evaluate(problem: Any, weights: NDArray, warm: NDArray | None, tol: float) -> WeightPoint:
    """J at the weights, the inner problem solved to a relative gap ``tol``."""
    return WeightPoint(problem, weights, *problem.solve_inner(weights, warm, tol))


class Evaluated(Protocol):
    """A point with the value of the objective, and the alpha that goes with it."""

    value: float
    alpha: NDArray


P = TypeVar("P", bound=Evaluated)


def line_search(point: P, slope: float, evaluate: Callable[[float, NDArray, float], P]) -> P | None:
    """The first of steps from 1 down that decreases the objective enough; None if none does.

    ``evaluate`` makes the point of a step, from an alpha to start from and the value that is low enough; ``slope`` is
    the derivative along the step.
    """
    step, alpha = 1.0, point.alpha
    for _ in range(MOST_TRIALS if slope < 0.0 else 0):
        goal = point.value + ENOUGH * step * slope
        trial = evaluate(step, alpha, goal)
        if trial.value <= goal:
            return trial
        alpha = trial.alpha
        # the parabola through value, slope and the trial's value, kept within sane limits
        excess = trial.value - point.value - step * slope
        step *= float(np.clip(-0.5 * slope * step / max(excess, 1e-300), 0.1, 0.5))
    return None


def start_from_sample(
    problem: MinMaxProblem, monitor: Monitor, solve: Callable[[MinMaxProblem, Monitor], None]
) -> tuple[NDArray, NDArray]:
    """Weights of the problem on an eighth of the samples, at least 500, to a gap of 1 %; a feasible alpha for all.

    An iteration there costs a sixty-fourth of one on all samples, of which it saves about half. C is scaled so that
    the loss keeps its share in the objective. The sample is drawn in the same way every time.
    """
    weights, alpha = problem.start()
    # problems that are more than this one have weights, or a memory, of their own
    if type(problem) is not MinMaxProblem or problem.n_kernels == 1 or problem.weight_set.is_box:
        return weights, alpha
    n = len(problem.stack)
    rows = np.sort(np.random.default_rng(0).permutation(n)[: max(n // PART, FEWEST)])
    smaller = problem.sample(rows) if n >= LARGE else None
    if smaller is None:
        return weights, alpha
    watcher = Monitor(smaller, max(ROUGH, monitor.tol))
    with contextlib.suppress(OutOfTime), time_limit(SHARE_OF_TIME * left()):
        solve(smaller, watcher)
    return (weights if watcher.best is None else watcher.best[0]), alpha
