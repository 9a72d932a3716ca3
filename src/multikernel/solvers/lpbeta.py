"""LP-β and LP-B [GN09]: the margin program by linear programs over the constraints that matter."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from multikernel.problems.lpbeta import MarginProblem
from multikernel.runtime.clock import check, left, one_blas_thread
from multikernel.runtime.monitor import Monitor
from multikernel.solvers.common.newton import Start

RIVALS = 3  # constraints that a sample may add per round, its most violated first
# Constraints this near to being violated, relative to the mean level, come with those that are: near the end they
# would otherwise come one by one, each at the price of a linear program.
NEARLY = 0.05
FEASIBILITY = 1e-9  # tolerance of the linear programs; margins are scaled to one


def lp_beta(problem: MarginProblem, monitor: Monitor, start: Start = None, *, max_iter: int = 100) -> None:
    """Solve the margin program by row generation; the monitor has the result.

    Of the n (M − 1) constraints few hold with equality at a solution. A linear program with some of them has a
    solution whose weights are feasible for all, and whose prices, zero elsewhere, are feasible for the whole dual:
    both bounds are proved at each round, and meet when no constraint is violated any more.
    """
    weights, prices = problem.start() if start is None else start
    weights = problem.members(weights)
    # 1. begin with each sample's nearest rival, and with what had a price
    chosen = prices > 0.0
    chosen |= _most_violated(problem.margins(weights), np.full(problem.n_samples, np.inf), 1)
    for _ in range(max_iter):
        chosen[problem.caps <= 0.0] = False
        # 2. the linear program over the chosen constraints
        weights, prices, levels = _restricted(problem, chosen)
        if monitor(weights, prices):
            return
        # 3. add what its solution violates, or nearly
        slack = FEASIBILITY * max(problem.scale, np.finfo(float).tiny)
        margins = problem.margins(weights)
        violated = _most_violated(margins, levels - slack, RIVALS) & ~chosen
        violated[problem.caps <= 0.0] = False
        if not violated.any():
            monitor.stopped = "rounding"
            return
        chosen |= _most_violated(margins, levels + NEARLY * np.abs(levels).mean(), RIVALS)


def _most_violated(margins: NDArray, levels: NDArray, count: int) -> NDArray[np.bool_]:
    """For each sample the ``count`` smallest margins, as far as they are below its level, shape (n, M)."""
    count = min(count, margins.shape[1] - 1)
    nearest = np.argpartition(margins, count - 1, axis=1)[:, :count]
    rows = np.arange(len(margins))[:, None]
    chosen = np.zeros(margins.shape, dtype=bool)
    chosen[rows, nearest] = margins[rows, nearest] < levels[:, None]
    return chosen


def _restricted(problem: MarginProblem, chosen: NDArray[np.bool_]) -> tuple[NDArray, NDArray, NDArray]:
    """Weights, prices, and ρ − ξ of the linear program over the chosen constraints."""
    from scipy.optimize import linprog
    from scipy.sparse import csr_array, eye_array, hstack, kron

    samples, rivals = np.nonzero(chosen)
    scale = problem.scale or 1.0
    n_sets = 1 if problem.shared else problem.n_classes
    n_weights = n_sets * problem.n_kernels
    rest = np.append(-1.0, problem.caps)  # prices of ρ and ξ
    cost = np.append(np.zeros(n_weights), rest)
    bounds = np.zeros((len(cost), 2))
    bounds[:, 1] = np.inf
    bounds[n_weights, 0] = -np.inf  # ρ may be negative
    program: dict[str, Any] = {
        "A_ub": _constraints(problem, samples, rivals, scale),
        "b_ub": np.zeros(len(samples)),
        # the weights of each simplex
        "A_eq": hstack([kron(eye_array(n_sets), np.ones((1, problem.n_kernels))), csr_array((n_sets, len(rest)))]),
        "b_eq": np.ones(n_sets),
        "bounds": bounds,
        "options": {
            "primal_feasibility_tolerance": FEASIBILITY,
            "dual_feasibility_tolerance": FEASIBILITY,
            "time_limit": left(),
        },
    }
    # interior points and a crossover: with weights for each of 100 classes many times as fast as the simplex method
    with one_blas_thread():
        solved = linprog(cost, method="highs-ipm", **program)
        if solved.status != 0:
            check()
            solved = linprog(cost, method="highs-ds", **program)
    check()
    if solved.x is None:
        raise RuntimeError(
            f"HiGHS found no solution of the linear program with {len(samples)} margins of {problem.n_kernels} "
            f"kernels, whose scores go up to {problem.scale:.2g}: {solved.message} "
            "Scale the kernels (normalize=), or lower C."
        )
    weights = solved.x[:n_weights].reshape(n_sets, problem.n_kernels)
    prices = np.zeros(chosen.shape)
    prices[samples, rivals] = np.maximum(-solved.ineqlin.marginals, 0.0)
    levels = scale * (solved.x[n_weights] - solved.x[n_weights + 1 :])
    return problem.members(weights[0] if problem.shared else weights), prices, levels


def _constraints(problem: MarginProblem, samples: NDArray, rivals: NDArray, scale: float) -> Any:
    """Rows ρ − ξ_i − margin ≤ 0 in (weights, ρ, ξ), with margins divided by ``scale``."""
    from scipy.sparse import csr_array

    F, n, M = problem.scores.shape
    own, other = problem.scores[:, samples, problem.codes[samples]].T, problem.scores[:, samples, rivals].T
    kernels = np.arange(F)
    if problem.shared:
        entries = [(other - own) / scale]
        columns = [np.broadcast_to(kernels, own.shape)]
    else:
        entries = [-own / scale, other / scale]
        columns = [problem.codes[samples][:, None] * F + kernels, rivals[:, None] * F + kernels]
    n_weights = F if problem.shared else M * F
    ones = np.ones((len(samples), 1))
    data = np.hstack([*entries, ones, -ones])
    indices = np.hstack([*columns, np.full((len(samples), 1), n_weights), n_weights + 1 + samples[:, None]])
    pointers = np.arange(len(samples) + 1) * data.shape[1]
    return csr_array((data.ravel(), indices.ravel(), pointers), shape=(len(samples), n_weights + 1 + n))
