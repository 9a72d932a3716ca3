"""The quadratic program on a few variables: compiled SMO and Newton steps in turn."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from multikernel.inner.newton import newton_step
from multikernel.inner.operators import DenseOperator, KernelOperator
from multikernel.inner.qp import BoxProblem

Vector = NDArray[np.float64]

# Free variables for which a Newton step is tried: beyond, one factorisation costs more than SMO needs.
MOST_FREE = 3000
# Time SMO gets for every Newton step, in Newton steps.
SMO_SHARE = 0.5


class WorkingSet:
    """(QP) restricted to some variables.

    Their block of K is copied, so that it is contiguous, but a row at a time, when the row is first needed.

    Parameters
    ----------
    operator : KernelOperator
        The whole kernel.
    problem : BoxProblem
        The whole problem.
    index : ndarray of shape (m,)
        The variables, those of the first group first.
    g, b : ndarray of shape (n,)
        Gradient and point of the whole problem.
    """

    def __init__(self, operator: KernelOperator, problem: BoxProblem, index: NDArray[np.intp], g: Vector, b: Vector):
        m, self.index, self.n_groups = len(index), index, len(problem.groups)
        if not isinstance(operator, DenseOperator):
            self.K = self.source = operator.submatrix(index, index)
            self.ready = np.ones(m, dtype=bool)
        elif m == len(b) and self.n_groups < 2:
            self.K = self.source = operator.K
            self.ready = np.ones(m, dtype=bool)
        else:
            self.source, self.K = operator.K, np.empty((m, m), dtype=operator.K.dtype)
            self.ready = np.zeros(m, dtype=bool)
        self.split = m
        if self.n_groups == 2:
            self.split = int(np.isin(index, problem.groups[0], assume_unique=True).sum())
        self.diagonal = operator.diagonal()[index]
        # curvatures below this are rounding or not PSD; 1e-12 as in libsvm, but relative to the kernel
        self.tau = 1e-12 * (float(self.diagonal.max(initial=0.0)) or 1.0)
        self.lo, self.hi = problem.lo[index], problem.hi[index]
        self.b, self.g = b[index].copy(), g[index].copy()

    def free(self) -> NDArray[np.intp]:
        """Variables strictly between their bounds."""
        return np.flatnonzero((self.b > self.lo) & (self.b < self.hi))

    def smo(self, eps: float, max_iter: int) -> float:
        """Run compiled SMO to a KKT violation of ``eps``; return the violation reached."""
        from multikernel.compiled.smo import pair_smo, single_smo

        common = (self.source, self.index, self.K, self.ready, self.diagonal, self.tau, self.lo, self.hi)
        if self.n_groups:
            violation, _ = pair_smo(*common, self.split, self.b, self.g, eps, max_iter)
        else:
            violation, _ = single_smo(*common, self.b, self.g, eps, max_iter)
        return violation

    def newton(self, free: NDArray[np.intp]) -> bool:
        """One Newton step on the free variables; True if no bound stopped it."""
        from multikernel.compiled.smo import fetch_rows, gather, weighted_rows

        fetch_rows(self.source, self.index, self.K, self.ready, free)
        A = np.empty((len(free), len(free)), dtype=self.K.dtype)
        gather(self.K, free, free, A, 0, len(free))
        split = int(np.searchsorted(free, self.split))
        old = self.b[free]
        new, whole = newton_step(A, self.g[free], old, self.lo[free], self.hi[free], split, self.n_groups)
        self.b[free] = new
        weighted_rows(self.K, free, new - old, self.g, 0, len(self.g))
        return whole

    def solve(self, eps: float, rounds: int) -> None:
        """Alternate Newton steps on the free variables with SMO, which finds out which are free.

        Early on SMO moves many variables to and from their bounds, which a Newton step cannot; near the end one
        Newton step does what SMO needs very many steps for. So both get about the same time.
        """
        for _ in range(rounds):
            free = self.free()
            if 1 < len(free) <= MOST_FREE:
                self.newton(free)
            if self.smo(eps, self._smo_steps_worth_a_newton_step(len(free))) <= eps:
                return

    def _smo_steps_worth_a_newton_step(self, n_free: int) -> int:
        # a model, not a clock, so that results do not depend on the machine's load
        newton_seconds = n_free**3 / 3 / 1e10 + n_free * (n_free + len(self.b)) * 1e-9
        smo_seconds = 3e-7 + 2e-9 * len(self.b)
        return int(max(len(self.b), SMO_SHARE * newton_seconds / smo_seconds))
