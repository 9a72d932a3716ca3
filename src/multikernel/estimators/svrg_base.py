"""What estimators with a smooth loss share, be they classifiers or regressors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from multikernel.estimators.base import KernelMachine, is_number
from multikernel.gram import GramStack, parse_memory
from multikernel.problems.losses.smooth import SmoothLoss
from multikernel.problems.svrg import SmoothProblem
from multikernel.runtime.monitor import Result
from multikernel.solvers.printed.svrg import svrg_paper
from multikernel.solvers.svrg.newton import smooth_newton
from multikernel.solvers.svrg.svrg import lbfgs, svrg, svrg_alone

SOLVERS: dict[str, Callable[..., None]] = {
    "auto": svrg,
    "svrg": svrg_alone,
    "paper": svrg_paper,
    "lbfgs": lbfgs,
    "newton": smooth_newton,
}


class SmoothMKL(KernelMachine):
    """Base class: one problem [AOJS16, eq. (1)] for all scores, with a loss that a subclass chooses."""

    p: float
    C: float
    lam: float | None
    loss: str
    solver: str
    random_state: Any
    _passes = 50
    _losses: Sequence[str] = ()  # what ``loss`` may be

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if not self.p >= 1.0:
            raise ValueError(f"p={self.p!r} must be at least 1: it is the norm of the kernel weights.")
        if self.lam is None and not self.C > 0:
            raise ValueError(f"C={self.C!r} must be positive: it is the price of an error, lam = 1 / (C n).")
        if self.lam is not None and not (is_number(self.lam) and 0 < self.lam < np.inf):
            raise ValueError(f"lam={self.lam!r} must be positive and finite, or None to use C.")
        if self.loss not in self._losses:
            raise ValueError(f"loss={self.loss!r} is not known: use one of {', '.join(map(repr, self._losses))}.")
        if self.solver not in SOLVERS:
            raise ValueError(f"solver={self.solver!r} is not known: use one of {', '.join(map(repr, SOLVERS))}.")

    def _problem(self, stack: GramStack, loss: SmoothLoss) -> SmoothProblem:
        lam = 1.0 / (self.C * loss.total_weight) if self.lam is None else self.lam
        return SmoothProblem(stack, loss, lam, self.p, memory=parse_memory(self.memory))

    def _solve(self, problem: SmoothProblem, monitor: Any, start: Any) -> None:
        if start is not None and np.ndim(start[1]) == 3:  # a checkpoint of "paper": it goes on from the best weights
            start = start[0], problem.start()[1]
        SOLVERS[self.solver](problem, monitor, start, max_iter=self.max_iter, random_state=self.random_state)

    def _store(self, results: list[Result], intercepts: Sequence[Any]) -> None:
        super()._store(results, intercepts)
        epochs = [row["epoch"] for row in self.history_ if "epoch" in row]
        self.n_iter_ = int(max(epochs, default=self.n_iter_))
