"""EasyMKL: weights from the distance between the hulls of two classes, on the sum of the kernels [AD15]."""

from __future__ import annotations

import contextlib
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from multikernel.gram import GramStack, WeightedSum, combined_scores, one_kernel
from multikernel.problems.certificate import Certificate
from multikernel.runtime.clock import OutOfTime
from multikernel.runtime.monitor import Result
from multikernel.solvers.average import OneKernelProblem
from multikernel.svm.binary import NuSVM
from multikernel.svm.quadratic_program import KernelOperator, as_operator

Vector = NDArray[np.float64]


class HullProblem(OneKernelProblem):
    """The points of two classes' hulls that are nearest to each other, and the kernels' shares in their distance.

        min over γ ≥ 0, sum 1 over each class, of  (1 − λ) γ'Y (Σ_j K_j) Yγ + λ Σ_i γ_i² / s_i

    ``Yγ / n`` is the alpha of a ν-SVM whose bounds are not reached, so that its engine solves this and its
    certificate proves it. :func:`single_svm` is the solver.

    Parameters
    ----------
    stack : GramStack
        Training kernels.
    kernel : ndarray or kernel operator
        (1 − λ) times their sum, with λ / s on the diagonal (:func:`ridged`): one for all tasks.
    signs : ndarray of shape (n,)
        Classes, 0 for samples that have no part.
    """

    def __init__(self, stack: GramStack, kernel: NDArray | KernelOperator, signs: Vector):
        self.stack, self.n_samples = stack, int(np.count_nonzero(signs))
        if not ((signs > 0.0).any() and (signs < 0.0).any()):
            raise ValueError("only samples of one class have weights: EasyMKL needs some of every class.")
        super().__init__(kernel, NuSVM(signs, 2.0 / self.n_samples), np.full(stack.n_kernels, 1.0 / stack.n_kernels))

    def certificate(self, weights: Vector, alpha: Vector) -> Certificate:
        """The value at ``alpha``, and a lower bound: those of the ν-SVM, which maximises, in other units."""
        found = super().certificate(weights, alpha)
        unit = 2.0 * self.n_samples**2
        return Certificate(-unit * found.dual, -unit * found.primal, rounding=unit * found.rounding)

    def weights_of(self, alpha: Vector) -> Vector:
        """``γ'Y K_j Yγ``, scaled to sum to one; equal where the hulls meet in every kernel."""
        forms = np.maximum(self.stack.quadratic_forms(alpha), 0.0)
        return forms / forms.sum() if forms.sum() > 0.0 else self.weights


def ridged(kernel: NDArray | KernelOperator, lam: float, ridge: Vector) -> NDArray | KernelOperator:
    """``(1 − lam) kernel + diag(ridge)``; an array is overwritten."""
    if not isinstance(kernel, np.ndarray):
        return RidgedKernel(kernel, lam, ridge)
    kernel *= kernel.dtype.type(1.0 - lam)
    kernel.ravel()[:: len(kernel) + 1] += ridge.astype(kernel.dtype)
    return kernel


class RidgedKernel:
    """The same for a kernel that is not in memory."""

    def __init__(self, kernel: KernelOperator, lam: float, ridge: Vector):
        self.kernel, self.lam, self.ridge, self.shape = as_operator(kernel), lam, ridge, kernel.shape

    def diagonal(self) -> Vector:
        return (1.0 - self.lam) * self.kernel.diagonal() + self.ridge

    def submatrix(self, rows: NDArray[np.intp], columns: NDArray[np.intp]) -> NDArray:
        return (1.0 - self.lam) * self.kernel.submatrix(rows, columns) + np.where(
            rows[:, None] == columns, self.ridge[rows][:, None], 0.0
        )

    def matvec(self, alpha: Vector) -> Vector:
        return (1.0 - self.lam) * self.kernel.matvec(alpha) + self.ridge * alpha


def final_machine(
    problem: HullProblem, result: Result, *, lam: float, sample_weight: Vector, tol: float, memory: int
) -> Result:
    """The classifier on the weighted kernel: between its hulls' nearest points (KOMD), with coefficients Yγ.

    The ridge is in units of n₊n₋ / (n₊ + n₋), in which it is λ for equal γ. What time does not allow stays as it is.
    The memory of the problem's kernel, which is done with, is that of the weighted kernel.
    """
    signs = problem.inner.signs
    recycled = WeightedSum(result.weights, out=getattr(problem.operator, "K", None))
    sizes = [sample_weight[signs == sign].sum() for sign in (-1.0, 1.0)]
    ridge = lam * sizes[0] * sizes[1] / sum(sizes) / np.where(sample_weight > 0.0, sample_weight, 1.0)
    alpha, converged, bias = result.alpha, False, 0.0
    with contextlib.suppress(OutOfTime):
        operator = as_operator(ridged(one_kernel(problem.stack, recycled, memory), lam, ridge))
        _, alpha = problem.inner.solve(operator, alpha, tol=tol, warn=False)
        products = operator.matvec(alpha)
        converged = result.converged and problem.inner.certificate(products, alpha).relative_gap <= tol
        if lam < 0.99:
            scores = (products - ridge * alpha) / (1.0 - lam)
        else:  # of the kernel too few digits are left in them
            scores = combined_scores(problem.stack, WeightedSum(result.weights), alpha)
        bias = -0.5 * problem.n_samples**2 * float(np.abs(alpha) @ scores)
    return replace(result, alpha=problem.n_samples * alpha, intercept=bias, converged=converged)
