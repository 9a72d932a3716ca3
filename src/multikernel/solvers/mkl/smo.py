"""ℓp-norm MKL by one sequential minimal optimisation over alpha alone, the weights eliminated [VSTV10]."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from multikernel.gram import GramStack, RowCache
from multikernel.problems.minmax import MinMaxProblem
from multikernel.problems.weight_sets import LpBall, lp_norm
from multikernel.runtime.clock import ENTRIES_AT_ONCE, OutOfTime, check
from multikernel.runtime.monitor import Monitor
from multikernel.solvers.common.newton import Start, newton
from multikernel.solvers.mkl.closed_form import closed_form
from multikernel.svm.binary import CSVM

Vector = NDArray[np.float64]
Indices = NDArray[np.intp]

ROWS_AT_ONCE, FEWEST_ROWS = 16, 128  # rows fetched at a time, and the least number that the cache holds
FIRST_TOL = 1e-2  # relative gap of the SVM on equal weights that a cold start begins with
PATIENCE, MANY_KERNELS = 20, 100  # bursts that must halve the gap; kernels beyond which Newton steps are dear
FEWEST_STEPS, SHARE_OF_VIOLATION = 1000, 0.1  # steps between two looks of the monitor; violation that ends a burst


def smo_mkl(problem: MinMaxProblem, monitor: Monitor, start: Start = None, *, max_iter: int = 1000) -> None:
    """Coordinate ascent on the dual of ℓp-norm MKL, two variables at a time [VSTV10].

    The dual of ``min over {g ≥ 0, ‖g‖_p ≤ 1} of J(g)`` is, with s = p / (p − 1),

        maximise over alpha    linear(alpha) − ½ ‖q(alpha)‖_s.                                             (1)

    [VSTV10] penalises ``(λ/2) ‖g‖_p²`` instead of bounding the norm, which makes the dual

        maximise over alpha    linear(alpha) − (1 / 8λ) ‖q(alpha)‖_s².                                     (2)

    The gradients of the two norm terms are ``½`` and ``‖q‖_s / 4λ`` times that of ``‖q‖_s``, so a solution of (1)
    solves (2) for ``λ = ‖q‖_s / 2``, and the other way round. Here (1) is solved as it stands: both are
    differentiable for p > 1, the same steps apply to both, and no λ has to be found. A step

    1. takes the variable that violates optimality most, and the partner that gains most on the kernel of the present
       weights ``g_j = (q_j / ‖q‖_s)^(s−1)`` [FCL05, WSS 2], which have ``‖g‖_p = 1``;
    2. maximises (1) along that line by Newton's method: with ``δ_j = (K_j alpha)_i − (K_j alpha)_k`` and
       ``κ_j = K_j[i,i] + K_j[k,k] − 2 K_j[i,k]``, ``q_j(t) = q_j + 2 t δ_j + t² κ_j`` costs O(F);
    3. brings all ``K_j alpha`` up to date, O(F m) for m variables that are not shrunk.

    Without a start, alpha is that of an SVM on equal weights, solved roughly.
    Bursts of steps work on the variables that may still move; between them scores are computed afresh and the
    monitor is told. Rows of the kernels are read as they are needed, into a cache of half of ``problem.memory``.
    The nearer p is to 1, the more steps it takes; for p = 1, where the dual has kinks, coordinate ascent cannot
    work. As any SMO it creeps on kernels of low rank with a huge C: where twenty bursts do not halve the gap,
    Newton steps (beyond a hundred kernels closed-form weights) finish. ``max_iter`` is the largest number of bursts,
    those of a finishing solver included; from p = 1e6 on it is one SVM.
    """
    weight_set = _checked(problem)
    weights, alpha = problem.start() if start is None else start
    alpha = problem.inner.repair(alpha)
    if not alpha.any():
        # steps on F kernels cost F times those on one: from zero, those on equal weights lead as far
        _, alpha = problem.solve_inner(weights, alpha, FIRST_TOL)
    if weight_set.is_box:
        _one_svm(problem, monitor, alpha, max_iter)
        return
    power = 1.0 / (weight_set.p - 1.0)
    burst, gaps = _Burst(problem, power), []
    for iteration in range(1, max_iter + 1):
        q = problem.quadratic_forms(alpha)
        norm = lp_norm(q, power + 1.0)
        weights = (q / norm) ** power if norm > 0.0 else weights
        if monitor(weights, alpha) or iteration == max_iter:
            return
        gaps.append(monitor.certificate.relative_gap)
        moved, alpha = burst.run(alpha, weights)
        if not moved or (len(gaps) > PATIENCE and gaps[-1] > 0.5 * gaps[-1 - PATIENCE]):
            # steps in two variables get nowhere any more: exact SVMs, from weights none of which has to stay zero
            solver = newton if problem.n_kernels <= MANY_KERNELS else closed_form
            weights = weight_set.project(0.9 * weights + 0.1 * weight_set.start(problem.n_kernels))
            solver(problem, monitor, (weights, alpha), max_iter=max_iter - iteration)
            return


def _checked(problem: MinMaxProblem) -> LpBall:
    """The weight set, after a check that this solver is made for the problem."""
    if not isinstance(problem.weight_set, LpBall) or problem.weight_set.p == 1.0:
        raise ValueError(
            f"SMO needs a dual without kinks: an ℓp ball of weights with p > 1, not {problem.weight_set}. "
            'Use solver="level" or "simplemkl" for p = 1.'
        )
    if not isinstance(problem.inner, CSVM) or not problem.inner.bias:
        raise ValueError(
            f"SMO solves the problem of one binary C-SVM with a bias, not of {type(problem.inner).__name__}. "
            'Use solver="lp" for several labels that share weights, and for the ν-SVM.'
        )
    return problem.weight_set


def _one_svm(problem: MinMaxProblem, monitor: Monitor, alpha: Vector, max_iter: int) -> None:
    """p = ∞: all weights are one, and the problem is one SVM."""
    weights, tol = problem.weight_set.start(problem.n_kernels), monitor.tol
    for _ in range(min(max_iter, 5)):
        tol *= 0.5
        _, alpha = problem.solve_inner(weights, alpha, tol)
        if monitor(weights, alpha):
            return


class _Burst:
    """Runs of steps on the variables that may still move, with the rows of the kernels that they need.

    ``power`` is s − 1.
    """

    def __init__(self, problem: MinMaxProblem, power: float):
        self.problem, self.power = problem, power
        self.diagonals = problem.stack.diagonal()
        self.active = np.empty(0, dtype=np.intp)
        self.cache: _ActiveRows | None = None

    def run(self, alpha: Vector, weights: Vector) -> tuple[bool, Vector]:
        """Whether anything moved, and the new alpha."""
        problem, box = self.problem, self.problem.inner.problem
        scores = problem.scores(alpha)
        gradient = box.p - weights @ scores
        active, worst = box.working_set(-gradient, alpha, len(alpha))
        if not len(active) or not worst > 0.0:
            return False, alpha
        active = self._activate(active)
        b = alpha[active]
        # what the steps change in place: variables, quadratic forms, weights, scores, gradient
        state = (b, problem.quadratic_forms(alpha), weights.copy(), scores[:, active].copy(), gradient[active])
        alpha = alpha.copy()
        try:
            steps = self._steps(active, state, SHARE_OF_VIOLATION * worst, max(FEWEST_STEPS, len(alpha)))
        except OutOfTime as end:
            alpha[active] = b
            end.reached = state[2], box.feasible(alpha)
            raise
        alpha[active] = b
        return steps > 0, box.feasible(alpha)

    def _activate(self, active: Indices) -> Indices:
        """The working set: the last one if it has little more than is needed; rows that are known stay known."""
        subset = bool(np.isin(active, self.active).all())
        if self.cache is None or not subset:
            self.cache = _ActiveRows(self.problem.stack, active, self.problem.memory // 2)
        elif len(active) > 0.7 * len(self.active):
            return self.active
        else:
            self.cache = self.cache.narrowed(active)
        self.active = active
        return active

    def _steps(self, active: Indices, state: tuple, eps: float, max_steps: int) -> int:
        """Call the compiled steps until they need no more rows; returns the number of steps."""
        from multikernel.compiled import smo_mkl as compiled

        assert self.cache is not None
        box, cache = self.problem.inner.problem, self.cache
        diagonals = np.ascontiguousarray(self.diagonals[:, active])
        data = (diagonals, box.p[active], box.lo[active], box.hi[active], self.power)
        b, q, *_, gradient = state
        scratch = (*np.empty((2, len(b))), np.empty((6, len(q))))
        made, at_once = 0, max(1, ENTRIES_AT_ONCE // diagonals.size)
        while made < max_steps:
            check()
            most = min(max_steps - made, at_once)
            rows = cache.of_variable, cache.slot
            status, i, k, steps, _ = compiled.dual_steps(*rows, *data, *state, *scratch, eps, most)
            made += steps
            if status == compiled.ROWS_MISSING:
                # by how much a variable wants to move, free ones before others
                rising, falling = b < box.hi[active], b > box.lo[active]
                middle = 0.5 * (gradient[rising].max(initial=0.0) + gradient[falling].min(initial=0.0))
                up, down = np.where(rising, gradient - middle, -np.inf), np.where(falling, middle - gradient, -np.inf)
                cache.load((i, k), np.maximum(up, down))
            elif status != compiled.OUT_OF_STEPS:
                break
        return made


class _ActiveRows(RowCache):
    """Rows of all kernels on the columns of a working set: that of variable i is ``of_variable[slot[i]]``, (F, m)."""

    def __init__(self, stack: GramStack, active: Indices, n_bytes: int):
        self.stack, self.active, self.n_bytes = stack, active, n_bytes
        n_kernels, m = stack.n_kernels, len(active)
        # one after the other in memory, as the steps read them
        super().__init__((m, n_kernels * m, 1), stack.dtype, n_bytes, fewest=FEWEST_ROWS)
        self.of_variable = self.rows.reshape(self.capacity, n_kernels, m)

    def narrowed(self, active: Indices) -> _ActiveRows:
        """The same for a subset of the working set, with the rows of its variables."""
        other = _ActiveRows(self.stack, active, self.n_bytes)
        columns = np.searchsorted(self.active, active)
        known = np.flatnonzero(self.slot[columns] >= 0)[: other.capacity]
        other._keep(known, self.of_variable[self.slot[columns[known]]][:, :, columns])
        return other

    def load(self, needed: tuple[int, int], priority: Vector) -> None:
        """Make the two needed rows present, and some more: those with the highest priority that are missing."""
        missing = np.flatnonzero(self.slot < 0)
        order = missing[np.argsort(-priority[missing], kind="stable")]
        needed_too = [i for i in sorted(set(needed)) if self.slot[i] < 0]
        wanted = np.array([i for i in order[:ROWS_AT_ONCE] if i not in needed_too] + needed_too, dtype=np.intp)
        rows = self.stack.rows(self.active[wanted]).transpose(1, 0, 2)
        self._keep(wanted, rows if len(self.active) == rows.shape[2] else rows[:, :, self.active], needed)

    def _keep(self, variables: Indices, rows: NDArray, others: tuple[int, ...] = ()) -> None:
        """Rows of variables, shape (b, F, m), over the oldest ones but for those of ``others``."""
        if len(variables):
            self.store(variables, rows.reshape(1, len(rows), -1), keep=others)
