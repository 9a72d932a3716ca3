"""The mixture of kernel columns that CG-Boost learns, and the proof of its solutions."""

from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from multikernel.gram import GramStack
from multikernel.problems.certificate import UNIT, Certificate, LastValue
from multikernel.svm.labels import LabelSVMs

Array = NDArray[np.float64]


class ColumnProblem:
    """SVMs whose features are the columns of all kernels [BZB04], one per label.

    Label t has coefficients a_jt (n,) for each kernel j, and the sum over labels of

        min over a, b of  ½ Σ_j ‖a_jt‖² + C Σ_i s_i max(0, 1 − y_it (Σ_j K_j[i] a_jt + b_t))

    is the problem. Its dual is that of an SVM on Σ_j K_j²: with signed dual coefficients alpha (n, T), a_jt is
    K_j alpha_t. A solution for some kernels is feasible with coefficients of zero for the others, and its alpha is
    feasible for the dual of all, where each kernel left out costs ½‖K_j alpha_t‖². That is what the certificate
    knows, and what column generation goes by.

    Kernels are square and symmetric, and need not be positive semi-definite.
    """

    def __init__(self, stack: GramStack, inner: LabelSVMs):
        self.stack = stack
        self.inner = inner
        self._chosen = np.zeros(stack.n_kernels, dtype=bool)
        self._incomplete = False
        self._master: Array = np.zeros((len(stack), len(stack)))
        self._columns = LastValue(stack.apply)

    def start(self) -> tuple[NDArray, NDArray]:
        """No kernel, and a feasible alpha."""
        return np.zeros(self.stack.n_kernels), self.inner.start()

    def repaired(self, weights: NDArray, alpha: NDArray) -> tuple[NDArray, NDArray]:
        """Kernels chosen or not, and a feasible alpha near the one given."""
        return (np.asarray(weights) > 0.5).astype(np.float64), self.inner.repair(alpha)

    def master(self, weights: NDArray) -> Array:
        """Σ K_j² over the kernels with a weight of one, shape (n, n); it grows by the kernels that are new."""
        chosen = np.asarray(weights) > 0.5
        if self._incomplete or (self._chosen & ~chosen).any():
            self._chosen, self._master = np.zeros_like(chosen), np.zeros_like(self._master)
        new = chosen & ~self._chosen
        self._incomplete = bool(new.any())  # until all are there: time may be up in between
        for j in np.flatnonzero(new):
            self._add_square(self.stack.take(kernels=[j]))
        self._chosen, self._incomplete = self._chosen | new, False
        return self._master

    def _add_square(self, kernel: GramStack) -> None:
        """Add the square of one kernel to the sum, a block of rows at a time, exactly symmetric."""
        for rows in kernel.row_blocks():
            block = kernel.take(rows=rows).combine(np.ones(1)).astype(np.float64, copy=False)
            half = 0.5 * kernel.apply(np.ascontiguousarray(block.T))[0]
            self._master[:, rows] += half
            self._master[rows] += half.T

    def columns(self, alpha: NDArray) -> Array:
        """K_j alpha, shape (F, n, T): the coefficients that alpha implies."""
        return self._columns(alpha)

    def violations(self, alpha: NDArray) -> Array:
        """½‖K_j alpha_t‖² for each kernel and label, shape (F, T): what leaving a kernel out costs."""
        columns = self.columns(alpha)
        return 0.5 * np.einsum("fnt,fnt->ft", columns, columns)

    def certificate(self, weights: NDArray, alpha: NDArray) -> Certificate:
        """Value with the kernels that have a weight of one, and dual value of all kernels at ``alpha`` (n, T).

        Any part of alpha between none and all of it is feasible too, so the best is taken, label by label.
        """
        master = self.master(weights)
        scores, n = master @ alpha, len(alpha)
        # entries of a sum of squares are at most the product of the roots of its diagonal
        roots = np.sqrt(master.diagonal())[:, None]
        off = (2 * n + len(weights) + 8) * UNIT * roots * (roots.T @ np.abs(alpha))
        primal, safe = (self.inner.certificate(scores, alpha, error).primal for error in (None, off))
        linear, quadratic = self.inner.linear(alpha), self.violations(alpha).sum(axis=0)
        lost = np.array([svm.linear_error(a) for svm, a in zip(self.inner.svms, alpha.T)])
        dual, safe_dual = _best_share(linear, quadratic), _best_share(linear - lost, quadratic + self._off(alpha))
        return Certificate(safe, safe_dual, rounding=safe - primal + dual - safe_dual)

    def _off(self, alpha: NDArray) -> Array:
        """What the violations of all kernels may be off by at a feasible alpha near the one given, shape (T,)."""
        sizes, unit = np.sqrt(2.0 * self.violations(alpha)), (len(alpha) + 4) * UNIT
        shifts = np.array([svm.shortfall(a) for svm, a in zip(self.inner.svms, alpha.T)])
        moved = np.multiply.outer(self._row_norms.max(axis=1), shifts)
        moved += unit * np.multiply.outer(np.linalg.norm(self._row_norms, axis=1), np.linalg.norm(alpha, axis=0))
        return (moved * (sizes + 0.5 * moved) + unit * sizes**2).sum(axis=0)

    @cached_property
    def _row_norms(self) -> Array:
        """Norms of the rows of each kernel, shape (F, n)."""
        norms = np.empty((self.stack.n_kernels, len(self.stack)))
        for rows, block in self.stack.blocks():
            norms[:, rows] = np.sqrt(np.einsum("fin,fin->fi", block, block, dtype=np.float64))
        return norms

    def intercept(self, weights: NDArray, alpha: NDArray) -> Array:
        """The biases with the least loss, shape (T,)."""
        return self.inner.intercept(self.master(weights) @ alpha)


def _best_share(linear: Array, quadratic: Array) -> float:
    """``max over t in [0, 1] of t linear - t² quadratic``, summed over labels."""
    # min(linear / 2 quadratic, 1), without dividing by a form that is zero
    share = np.clip(linear, 0.0, 2.0 * quadratic) / np.where(quadratic > 0.0, 2.0 * quadratic, 1.0)
    share = np.where(quadratic > 0.0, share, linear > 0.0)
    return float((share * linear - share**2 * quadratic).sum())
