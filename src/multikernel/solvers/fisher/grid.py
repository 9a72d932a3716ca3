"""A grid over p and λ of Fisher discriminants: kernels once, warm starts along p, a score for each point."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from multikernel.gram import GramStack
from multikernel.problems.fisher import FDAProblem, fda_system
from multikernel.problems.fisher_system import RegularizedFDA
from multikernel.problems.weight_sets import LpBall
from multikernel.runtime.blas import one_blas_thread
from multikernel.runtime.monitor import Monitor
from multikernel.runtime.threads import map_threads

Score = Callable[[FDAProblem, NDArray, NDArray], float]


class FisherGrid:
    """All points of a grid on the same training kernels.

    For each λ, p falls from point to point: the weights of the larger p, scaled, are near those of the smaller, and
    at p = ∞ they are known. The kernels, and for low-rank stacks the products of their features, are shared by all
    values of λ, and so is the combined kernel as long as the weights are. A factorisation is not: an
    eigendecomposition, which would serve all λ of the paper's ten, takes as long as 15 Cholesky factorisations at
    n = 680 and 20 at n = 2,000, and from the second iteration on the weights differ.

    Parameters
    ----------
    stack : GramStack
        Training kernels.
    targets : FisherTargets
        Centred labels.
    sample_weight : ndarray of shape (n,)
    ps, regs : ndarray
        The grid.
    memory : int
        Bytes for kernels.

    Attributes
    ----------
    scores, gaps : ndarray of shape (len(ps), len(regs))
    weights : ndarray of shape (len(ps), len(regs), F)
    """

    def __init__(
        self, stack: GramStack, targets: Any, sample_weight: NDArray, ps: NDArray, regs: NDArray, memory: int
    ):
        self.targets, self.sample_weight, self.ps, self.regs = targets, sample_weight, ps, regs
        self.system: Any = fda_system(stack, float(regs[0]), memory)
        self.scores = np.full((len(ps), len(regs)), np.nan)
        self.gaps = np.full((len(ps), len(regs)), np.nan)
        self.weights = np.zeros((len(ps), len(regs), stack.n_kernels))

    def solve(self, solver: Callable, score: Score, tol: float, n_threads: int, advance: Callable[[], None]) -> None:
        """Solve and score every point; ``advance`` is called after each."""
        self.system.prepare(LpBall(float(self.ps.max())).start(self.system.n_kernels))  # where every λ begins
        with one_blas_thread() if n_threads > 1 else contextlib.nullcontext():
            jobs = [(k, solver, score, tol, advance) for k in range(len(self.regs))]
            map_threads(self._path, jobs, n_threads)
        self.system = None

    def _path(self, k: int, solver: Callable, score: Score, tol: float, advance: Callable[[], None]) -> None:
        """All p for the λ number k, from large to small."""
        reg = float(self.regs[k])
        system = self.system.with_reg(reg)
        inner = RegularizedFDA(self.targets, reg, self.sample_weight)
        start = None
        for row in np.argsort(-self.ps, kind="stable"):
            problem = FDAProblem(system, inner, LpBall(float(self.ps[row])))
            monitor = Monitor(problem, tol)
            solver(problem, monitor, start)
            result = monitor.result()
            start = result.weights, result.alpha
            self.weights[row, k], self.gaps[row, k] = result.weights, result.certificate.relative_gap
            self.scores[row, k] = score(problem, result.weights, result.alpha)
            advance()
