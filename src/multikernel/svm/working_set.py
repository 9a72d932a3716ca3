"""The quadratic program on a few variables: compiled SMO and Newton steps in turn."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from multikernel.runtime.clock import check
from multikernel.svm.newton import BoundedNewton
from multikernel.svm.operators import DenseOperator, KernelOperator
from multikernel.svm.qp import BoxProblem

Vector = NDArray[np.float64]

# Free variables for which a Newton step is tried: beyond, one factorisation costs more than SMO needs.
MOST_FREE = 3000
# Time SMO gets for every Newton step, in Newton steps.
SMO_SHARE = 0.5
# While more than this share of the variables want to leave their bounds SMO comes first.
SETTLED = 0.05
# Entries of kernel rows that SMO goes over between two looks at the clock: a quarter of a second.
ENTRIES_AT_ONCE = 10**8


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

    def smo(self, eps: float, max_iter: int) -> float:
        """Run compiled SMO to a KKT violation of ``eps``; return the violation reached."""
        from multikernel.compiled.smo import pair_smo, single_smo

        m, common = (
            len(self.b),
            (self.source, self.index, self.K, self.ready, self.diagonal, self.tau, self.lo, self.hi),
        )
        at_once = max(1, ENTRIES_AT_ONCE // max(m, 1))
        while True:
            check()
            most = min(max_iter, at_once)
            if self.n_groups:
                violation, steps = pair_smo(*common, self.split, self.b, self.g, *np.empty((2, m)), eps, most)
            else:
                violation, steps = single_smo(*common, self.b, self.g, *np.empty((3, m)), eps, most)
            max_iter -= steps
            if steps < most or not max_iter:
                return violation

    def loose(self) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """The free variables, and the same with those at a bound that want to leave it."""
        free = (self.b > self.lo) & (self.b < self.hi)
        wish = -self.g
        for part in (slice(0, self.split), slice(self.split, None)):
            if self.n_groups and free[part].any():
                wish[part] -= np.median(wish[part][free[part]])
        leaving = ((self.b < self.hi) & (wish > 0.0)) | ((self.b > self.lo) & (wish < 0.0))
        return np.flatnonzero(free), np.flatnonzero(free | leaving)

    def is_settled(self) -> bool:
        """Whether few variables want to leave their bounds, and a Newton step costs no more than SMO on all."""
        free, loose = self.loose()
        few = len(loose) <= min(len(free) + SETTLED * len(self.b), MOST_FREE)
        return len(free) > 0 and few and self._smo_steps_worth_a_newton_step(len(free)) <= len(self.b)

    def newton(self, loose: NDArray[np.intp]) -> bool:
        """Minimise over the given variables; True if that was done exactly."""
        from multikernel.compiled.smo import gather, weighted_rows

        missing = loose[~self.ready[loose]]
        for i in missing:
            self.source[self.index[i]].take(self.index, out=self.K[i], mode="clip")
        self.ready[missing] = True
        A = np.empty((len(loose), len(loose)), dtype=self.K.dtype)
        gather(self.K, loose, loose, A, 0, len(loose))
        split = int(np.searchsorted(loose, self.split))
        old = self.b[loose]
        new, exact = BoundedNewton(A, self.g[loose], old, self.lo[loose], self.hi[loose], split, self.n_groups).step()
        self.b[loose] = new
        weighted_rows(self.K, loose, new - old, self.g, 0, len(self.g))
        return exact

    def solve(self, eps: float, rounds: int, *, smo_first: bool = False) -> None:
        """Alternate Newton steps on the variables not held by a bound with SMO, which finds out which those are.

        Early on SMO moves many variables to and from their bounds, which a Newton step cannot; near the end one
        Newton step does what SMO needs very many steps for. So SMO gets about the time of a Newton step, and
        twice as much after each that did not reach the minimum. With ``smo_first`` it gets the first turn, which is
        enough where little is left to do.
        """
        patience = 1
        for turn in range(rounds):
            free, loose = self.loose()
            settled = len(loose) <= len(free) + SETTLED * len(self.b) and not (smo_first and turn == 0)
            steps = self._smo_steps_worth_a_newton_step(len(free))
            if settled and 1 < len(loose) <= MOST_FREE:
                if self.newton(loose):
                    # nothing is left to gain among these: SMO has to let go the few that now want to leave a bound
                    free, loose = self.loose()
                    steps = min(steps, 64 + 4 * (len(loose) - len(free)))
                else:
                    patience *= 2
            if self.smo(eps, patience * steps) <= eps:
                return

    def _smo_steps_worth_a_newton_step(self, n_free: int) -> int:
        # a model, not a clock, so that results do not depend on the machine's load
        newton_seconds = n_free**3 / 3 / 1e10 + n_free * (n_free + len(self.b)) * 1e-9
        smo_seconds = 3e-7 + 2e-9 * len(self.b)
        return int(max(len(self.b), SMO_SHARE * newton_seconds / smo_seconds))
