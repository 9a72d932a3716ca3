"""Newton's method on smooth ℓp-norm MKL: exact steps at fixed weights, and steps of the weights themselves."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from multikernel.problems.certificate import Certificate
from multikernel.problems.primal import CholeskyFactor
from multikernel.problems.svrg import Matrix, SmoothProblem, as_matrix
from multikernel.runtime.clock import OutOfTime, map_threads, one_blas_thread
from multikernel.runtime.monitor import Monitor
from multikernel.solvers.common.newton import Start, newton
from multikernel.solvers.obscure.obscure import epochs_before
from multikernel.solvers.svrg.iterate import Direction, Iterate
from multikernel.svm.decomposition import Decomposition
from multikernel.svm.quadratic_program import BoxProblem, DenseOperator

# Multiplications that the factorisations of one step may cost: some seconds.
AFFORDABLE = 2e11
# Second derivatives below this share of the largest are taken for zero.
FLAT = 1e-14
# Newton steps at fixed weights, and products with the kernel for a direction where the factorised matrix is not the
# whole of the second derivatives.
MOST_STEPS, MOST_PRODUCTS = 100, 30


def smooth_newton(
    problem: SmoothProblem, monitor: Monitor, start: Start = None, *, max_iter: int = 200, random_state: Any = None
) -> None:
    """Minimise ``J(d) = min over w of g(w, d)`` by quadratic models in the weights; the monitor has the result.

    J is convex with gradient ``-‖θ_j(A)‖²/(2 lam)``, A being the dual point of the best w. With W the second
    derivatives of the loss, its own second derivatives are

        lam u_j' (lam W⁻¹ + K(d))⁻¹ u_k,     u_j = K_j alpha,

    on the samples where W is not zero; for the softmax loss W is taken for its diagonal, score by score, which makes
    the model approximate and the steps in alpha a few preconditioned conjugate gradients. The factorisation is what
    an exact Newton step in alpha at fixed weights needs anyway, so that bad condition (large C) costs nothing.
    Everything but the formulas is :func:`multikernel.solvers.common.newton.newton`.
    """
    if not np.isfinite(step_cost(problem)):
        n = len(problem.loss)
        raise ValueError(
            f"Newton steps need a matrix of {n} x {n} numbers, {8 * n * n / 1e9:.1f} GB, but may use only a quarter "
            f'of the memory, {problem.memory / 4e9:.1f} GB: raise memory, or use solver="auto".'
        )
    dual = SmoothDual(problem, monitor)
    begin = problem.start() if start is None else start
    newton(dual, monitor, begin, max_iter=max_iter)


def affordable(problem: SmoothProblem) -> bool:
    """Whether Newton steps are exact, and a step takes seconds at most."""
    return problem.loss.separable and step_cost(problem) <= AFFORDABLE


def step_cost(problem: SmoothProblem) -> float:
    """Multiplications of an exact Newton step, about; infinite if there is no room for its matrix."""
    n = len(problem.loss)
    return problem.loss.n_scores * n**3 / 3.0 if problem.fits_combined else np.inf


class SmoothDual:
    """A smooth problem as ``min over d of J(d)``, with what ``solvers.mkl.newton`` asks of one.

    In its terms ``linear`` is the dual value of the loss, and the quadratic forms are ``‖θ_j(A)‖² / lam``.
    """

    def __init__(self, problem: SmoothProblem, monitor: Monitor):
        self.problem, self.monitor, self.weight_set = problem, monitor, problem.weight_set
        self._epoch = epochs_before(monitor)
        self._points: list[Iterate] = []

    @property
    def n_kernels(self) -> int:
        """Number of kernels F."""
        return self.problem.n_kernels

    def start(self) -> tuple[NDArray, NDArray]:
        """Equal weights, and alpha = 0."""
        return self.problem.start()

    def solve_inner(self, weights: NDArray, warm: NDArray, tol: float) -> tuple[float, NDArray]:
        """J(weights) and its alpha, to a relative gap ``tol``, by Newton steps."""
        point = Iterate(self.problem, weights, as_matrix(warm))
        bounded = self.problem.loss.dual_box() is not None and self.problem.fits_combined
        if bounded and point.gap > tol * abs(point.value):
            point = Iterate(self.problem, weights, by_bounds(self.problem, weights, point.alpha, tol))
            self._epoch += 1
        last: list[Direction] = []
        for _ in range(MOST_STEPS):
            if point.gap <= tol * abs(point.value):
                break
            before = point.value
            try:
                last = [point.search([newton_step(point), (point.alpha, point.scores), *last])]
                point.differentiate()
            except OutOfTime as end:
                end.reached = weights, point.alpha
                raise
            self._epoch += 1
            if not point.value < before:
                break
        # numbers that were added up step by step drift away from what the coefficients say
        point = Iterate(self.problem, weights, point.alpha)
        self._points = [*self._points[-3:], point]
        self.monitor.notes = {"epoch": self._epoch, "passes": self.problem.passes}
        return point.value, point.alpha

    def _point(self, alpha: NDArray) -> Iterate:
        return next(point for point in reversed(self._points) if point.alpha is alpha)

    def cut(self, alpha: NDArray) -> tuple[float, NDArray[np.float64]]:
        """The plane ``linear - ½ d·q`` that bounds J from below, whatever the rounding."""
        linear, lost, squares, off = self.problem.dual_parts(self._point(alpha).dual)
        return linear - lost, (squares + off) / self.problem.lam

    def quadratic_forms(self, alpha: NDArray) -> NDArray[np.float64]:
        """``‖θ_j‖² / lam`` of the dual point that belongs to ``alpha``, shape (F,)."""
        return self.problem.squares(self._point(alpha).dual) / self.problem.lam

    def curvature(
        self, weights: NDArray, alpha: NDArray, chosen: NDArray[np.intp], *, ridge: float = 0.0, rough: bool = False
    ) -> NDArray[np.float64]:
        """Second derivatives of J for the chosen kernels; the rest is for SVMs, whose J is not smooth."""
        scores = self.problem.stack.take(kernels=chosen).apply(alpha)
        return NewtonSystem(self._point(alpha)).by_weights(scores)


def newton_step(point: Iterate) -> Direction:
    """Newton's direction: exact where the loss is separable, else by few conjugate gradients."""
    system = NewtonSystem(point)
    if not point.problem.loss.separable:
        return point.newton(MOST_PRODUCTS, system.solve)
    step = system.solve(-point.gradient)
    return step, point.problem.scores(point.weights, step)


def by_bounds(problem: SmoothProblem, weights: NDArray, warm: Matrix, tol: float) -> Matrix:
    """The best alpha at fixed weights from the dual, a quadratic program with bounds, by the SVMs' engine.

    Where C is large hardly any sample is where its loss is curved, and the samples that are change from step to step
    of Newton's method on the primal. With the ridge ``lam / (smoothness c_i)`` on the kernel the dual is that of an
    SVM.
    """
    loss = problem.loss
    size = loss.importance / problem.lam
    ridge = np.divide(1.0, loss.smoothness * size, out=np.zeros_like(size), where=size > 0.0)
    system = problem.kernel(weights).copy()
    system.ravel()[:: len(system) + 1] += ridge
    operator = DenseOperator(system, threads=False)

    def solve(t: int) -> NDArray[np.float64]:
        part = loss.column(t)
        p, lo, hi = (bound[:, 0] for bound in part.dual_box() or ())
        bounds = BoxProblem(p, lo * size, hi * size, (), ())

        def relative_gap(scores: NDArray, alpha: NDArray) -> float:
            plain = scores - ridge * alpha
            primal = 0.5 * float(alpha @ plain) + float(size @ part.losses(plain[:, None]))
            return Certificate(primal, float(p @ alpha) - 0.5 * float(alpha @ scores)).relative_gap

        engine = Decomposition(operator, bounds, relative_gap, tol=tol, working_size=len(size))
        return engine.solve(warm[:, t], 1000, lambda alpha: False)[0]

    with one_blas_thread():
        return np.column_stack(map_threads(solve, [(t,) for t in range(loss.n_scores)]))


class NewtonSystem:
    """``lam + W K`` at an iterate, factorised score by score; W is the diagonal of the loss's second derivatives."""

    def __init__(self, point: Iterate):
        problem, weights = point.problem, point.weights
        bent = problem.loss.importance[:, None] * problem.loss.second_derivative(point.scores)
        bent[bent <= FLAT * bent.max(initial=0.0)] = 0.0
        with one_blas_thread():
            self._columns = [_DenseRidge(problem.kernel(weights), problem.lam, column) for column in bent.T]

    def solve(self, right: Matrix) -> Matrix:
        """``(lam + W K)⁻¹ right``, shape (n, T)."""
        with one_blas_thread():
            return np.hstack([system.solve(right[:, [t]]) for t, system in enumerate(self._columns)])

    def by_weights(self, scores: NDArray) -> Matrix:
        """``lam u_j'(lam W⁻¹ + K)⁻¹ u_k`` for u of shape (F, n, T), summed over scores, shape (F, F)."""
        with one_blas_thread():
            parts = [system.form(scores[:, :, t]) for t, system in enumerate(self._columns)]
        return sum(parts, start=np.zeros((len(scores), len(scores))))


class _DenseRidge:
    """``lam + W K`` on the samples where W is not zero."""

    def __init__(self, kernel: Matrix, lam: float, bent: NDArray):
        self.kernel, self.lam, self.bent = kernel, lam, bent
        self.curved = np.flatnonzero(bent)
        if len(self.curved):
            self.factor = CholeskyFactor(kernel[np.ix_(self.curved, self.curved)], lam / bent[self.curved])

    def solve(self, right: Matrix) -> Matrix:
        found, curved = right / self.lam, self.curved
        if len(curved):
            found[curved] = 0.0
            rest = right[curved] / self.bent[curved, None]
            if len(curved) < len(found) and found.any():
                rest = rest - (self.kernel @ found)[curved]
            found[curved] = self.factor.solve(rest)
        return found

    def form(self, scores: NDArray) -> Matrix:
        if not len(self.curved):
            return np.zeros((len(scores), len(scores)))
        whitened = self.factor.whiten(np.ascontiguousarray(scores[:, self.curved].T))
        return self.lam * (whitened.T @ whitened)
