"""From the solution for one sum of weights to a start for another."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_solve

from multikernel.blas import one_blas_thread
from multikernel.inner.newton import ridged_cholesky
from multikernel.inner.operators import as_operator
from multikernel.minmax import MinMaxProblem
from multikernel.solvers.newton import ROUGH_FREE, _minimise_model, curvature
from multikernel.weight_sets import CappedSimplex

Vector = NDArray[np.float64]

# Ratio of the sums from which a step is so long that it starts from weights scaled to the new sum.
FAR = 1.6


class CappedProblem(MinMaxProblem):
    """``min J(g)`` over weights between 0 and 1 with a given sum t; what is known of J is handed from t to t.

    Parameters
    ----------
    stack, inner, memory
        As for :class:`~multikernel.minmax.MinMaxProblem`.
    weight_set : CappedSimplex
    """

    def __init__(self, stack, inner, weight_set: CappedSimplex, memory: int):
        super().__init__(stack, inner, weight_set, memory)
        self.t = weight_set.t

    def take_over(self, earlier: MinMaxProblem) -> None:
        """The kernel and the scores that ``earlier`` asked for last, of the same stack; it then has them no more."""
        self._last, self._kernel = earlier._last, earlier._kernel
        earlier._last = earlier._kernel = None

    def holds(self, weights: Vector) -> bool:
        """Whether ``weights`` are in the set, to rounding."""
        inside = bool((weights >= 0.0).all() and (weights <= 1.0).all())
        return inside and abs(float(weights.sum()) - self.t) <= 1e-9 * self.t


def continued(problem: MinMaxProblem, weights: Vector, alpha: NDArray) -> tuple[Vector, NDArray]:
    """Weights and coefficients to start from, given the solution for another sum of the weights.

    The weights minimise, over the set of ``problem``, the quadratic model of J at that solution: weights that reach
    0 or 1 on the way stay there. Free coefficients follow to first order. With few samples at the bound C, J(s·g) is
    nearly J(g) / s, which no parabola follows far. Where the sum grows by more than half the model is therefore that
    of J at ``s·g``, with gradient and curvature divided by s² and s³.

    Parameters
    ----------
    problem : MinMaxProblem
        With a :class:`~multikernel.weight_sets.CappedSimplex`.
    weights : ndarray of shape (F,)
        Solution for another sum.
    alpha : ndarray of shape (n,) or (n, T)
        Its coefficients, feasible.

    Examples
    --------
    >>> import numpy as np
    >>> from multikernel.gram import DenseStack
    >>> from multikernel.inner import CSVM
    >>> from multikernel.solvers.continuation import CappedProblem, continued
    >>> from multikernel.weight_sets import CappedSimplex
    >>> rng = np.random.default_rng(0)
    >>> A = rng.normal(size=(3, 20, 4))
    >>> svm = CSVM(np.sign(A[0, :, 0]), C=1.0)
    >>> problem = CappedProblem(DenseStack(A @ A.transpose(0, 2, 1)), svm, CappedSimplex(2.0), memory=2**20)
    >>> g = np.array([0.6, 0.3, 0.1])
    >>> start, alpha = continued(problem, g, problem.solve_inner(g, None, 1e-6)[1])
    >>> problem.holds(start), float(svm.violation(alpha))
    (True, 0.0)
    """
    allowed = problem.weight_set
    total = float(weights.sum())
    if not total > 0.0:
        return allowed.start(len(weights)), alpha
    chosen = np.arange(len(weights))
    H = curvature(problem, weights, alpha, chosen, most_free=ROUGH_FREE)
    gradient = -0.5 * problem.quadratic_forms(alpha)
    s = float(allowed.total or 1.0) / total
    if max(s, 1.0 / s) >= FAR:
        return _minimise_model(H / s**3, gradient / s**2, s * weights, allowed), alpha
    target = _minimise_model(H, gradient, weights, allowed)
    return target, _followed(problem, weights, alpha, target - weights)


def _followed(problem: MinMaxProblem, weights: Vector, alpha: NDArray, change: Vector) -> NDArray:
    """Coefficients after a change of the weights, to first order: free ones move so that their margins stay.

    With K the kernel on the free support vectors, ``K·δ + b = −Σ_j change_j K_j alpha`` there, and sums are kept.
    """
    if alpha.ndim == 2:
        return alpha
    box, operator = problem.inner.problem, as_operator(problem.kernel(weights))
    width = box.hi - box.lo
    free = np.flatnonzero((alpha > box.lo + 1e-9 * width) & (alpha < box.hi - 1e-9 * width))
    if not 0 < len(free) <= ROUGH_FREE:
        return alpha
    E = np.array([np.isin(free, group) for group in box.groups], dtype=np.float64).reshape(-1, len(free)).T
    E = E[:, E.any(axis=0)]
    K = operator.submatrix(free, free).astype(np.float64)
    K.ravel()[:: len(free) + 1] += 1e-10 * max(float(K.trace()) / len(free), 1e-300)
    right = np.column_stack([problem.scores(alpha)[:, free].T @ change, E])
    with one_blas_thread():
        Y = cho_solve((ridged_cholesky(K), True), right, check_finite=False)
    moved = Y[:, 1:] @ np.linalg.solve(E.T @ Y[:, 1:], E.T @ Y[:, 0]) - Y[:, 0]
    followed = alpha.copy()
    followed[free] += moved
    return problem.inner.repair(followed)
