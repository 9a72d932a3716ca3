"""What estimators with a smooth loss share, be they classifiers or regressors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY
from typing import Any, ClassVar

import numpy as np

from multikernel.estimators.average_loss import AverageLossMachine
from multikernel.estimators.parameters import estimator
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


@estimator
class SmoothMKL(AverageLossMachine):
    """Base class: one problem [AOJS16, eq. (1)] for all scores, with a loss that a subclass chooses.

    Parameters
    ----------
    kernels : list of kernels, "precomputed", or None
        The kernels to combine. ``None``: linear and RBF kernels on all columns; the kernels are scaled to unit
        variance, the columns are not. "precomputed": X holds the kernels, shape (n, n, F), or is a Gram stack. Linear
        kernels, :class:`~multikernel.kernels.Nystroem` and :class:`~multikernel.kernels.RandomFourier` have explicit
        features: if all kernels do, w is a vector and nothing of size n² is made.
    p : float
        Norm of the kernel weights, p ≥ 1. Near 1 few kernels are left.
    loss : str
        The loss.
    solver : {"auto", "svrg", "paper", "lbfgs", "newton"}
        "auto": variance-reduced epochs, each improved by a search among the last moves; Newton steps where epochs
        would take longer, as they do for large C. "svrg": the epochs alone. "paper": the step sizes and numbers of
        steps of [AOJS16, alg. 1], which need many more passes over the data. "lbfgs": deterministic. "newton":
        Newton steps from the start, for up to some thousand samples.
    max_iter : int
        Maximum number of epochs; of iterations for "lbfgs" and "newton".

    Attributes
    ----------
    weights_ : ndarray of shape (F,)
        Kernel weights d, so that scores are ``Σ_j d_j K_j alpha``.
    support_ : ndarray of shape (n_support,)
        Training samples with a coefficient.
    objective_, dual_gap_ : float
        g(w, d), and the absolute duality gap that bounds its distance from the optimum.
    n_iter_ : int
        Number of epochs and Newton steps.
    history_ : list of dict
        Rows with iteration, time, objective, gap, relative_gap, weights, epoch, and passes over the samples.
    """

    p: float = 1.5
    C: float = 1.0
    loss: str = ""
    solver: str = "auto"
    _: KW_ONLY
    tol: float = 1e-4

    _losses: ClassVar[Sequence[str]] = ()  # what ``loss`` may be

    def _check_parameters(self) -> None:
        super()._check_parameters()
        self._require("p", self.p >= 1.0, "must be at least 1: it is the norm of the kernel weights.")
        self._check_choice("loss", self._losses)
        self._check_choice("solver", SOLVERS)

    def _problem(self, stack: GramStack, loss: SmoothLoss) -> SmoothProblem:
        return SmoothProblem(stack, loss, self._lambda(loss.total_weight), self.p, memory=parse_memory(self.memory))

    def _solve(self, problem: SmoothProblem, monitor: Any, start: Any) -> None:
        if start is not None and np.ndim(start[1]) == 3:  # a checkpoint of "paper": it goes on from the best weights
            start = start[0], problem.start()[1]
        SOLVERS[self.solver](problem, monitor, start, max_iter=self.max_iter, random_state=self.random_state)

    def _store(self, results: list[Result], intercepts: Sequence[Any]) -> None:
        super()._store(results, intercepts)
        epochs = [row["epoch"] for row in self.history_ if "epoch" in row]
        self.n_iter_ = int(max(epochs, default=self.n_iter_))
