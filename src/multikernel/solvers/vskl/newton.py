"""Variable sparsity kernel learning by Newton steps in the shares of the kernels within their groups."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from multikernel.problems.cutting_planes import solve_cone_program
from multikernel.problems.groups import Groups
from multikernel.problems.vskl import GroupPoint, VSKLProblem
from multikernel.runtime.monitor import Monitor
from multikernel.solvers.common.inner_tolerance import InnerTolerance
from multikernel.solvers.mkl.newton import curvature
from multikernel.solvers.vskl.mirror_descent import mirror_move

Vector = NDArray[np.float64]

# Kernels without a share in a quadratic model: the most promising ones.
MOST_ENTERING = 50
# Trials of a step, and the share of the decrease predicted that is enough.
MOST_TRIALS, ENOUGH = 8, 1e-3
# Mirror steps to begin with, and the relative gap above which they are made.
MOST_MIRROR_STEPS, FAR = 10, 0.5


def group_newton(
    problem: VSKLProblem,
    monitor: Monitor,
    start: tuple[NDArray, NDArray] | None = None,
    *,
    max_iter: int = 200,
) -> None:
    """Minimise quadratic models of J(λ) over the product of simplices, one after the other.

    ``J(λ) = max over γ of S(λ / γ)``, S the optimum of the SVM as a function of its kernel weights, whose gradient is
    ``−½ q`` and whose second derivatives are known while the set of free support vectors stays [CR08, sect. 4].
    With A, B, C the second derivatives of ``S(λ / γ)`` in λλ, λγ and γγ, those of J are ``A − B C⁺ B'``, C⁺ the
    inverse of C among changes of γ that sum to zero; the new γ is predicted along with the new λ. Where mirror
    descent creeps, a few such steps reach rounding; a few mirror steps lead to where they work. The monitor has the
    result.

    Parameters
    ----------
    problem : VSKLProblem
    monitor : Monitor
        Judges each iteration.
    start : (weights, alpha), optional
        Where to start.
    max_iter : int
        Largest number of quadratic models.
    """
    weights, alpha = problem.start() if start is None else start
    shares, balance = problem.split(weights)
    tol = InnerTolerance(monitor)
    point = problem.evaluate(shares, balance, alpha, tol.value)
    length = 0.0
    for iteration in range(max_iter):
        if monitor(*problem.solution(point)):
            return
        if tol.value > 20.0 * tol.follow():
            point = problem.evaluate(point.shares, point.balance, point.alpha, tol.value)
        # 0. far from the optimum a quadratic model is poor, and steps that need none gain more
        if iteration < MOST_MIRROR_STEPS and monitor.certificate.relative_gap > FAR:
            point, length, _ = mirror_move(problem, point, length, tol.value)
            continue
        # 1. the quadratic model on kernels in use or about to be
        gradient = -0.5 * point.q / problem.groups.spread(point.balance)
        chosen = promising(problem.groups, point.shares, gradient)
        model = second_derivatives(problem, point, chosen)
        # 2. its minimum: shares, and the balance that goes with them
        target = np.zeros_like(point.shares)
        target[chosen] = minimise_model(
            model[0], gradient[chosen], point.shares[chosen], problem.groups.label[chosen]
        )
        shift = model[1] @ (target - point.shares)[chosen]
        # 3. as far towards it as J falls
        moved = _search(problem, point, target, shift, gradient, tol.value)
        if moved is None:
            if not tol.tighten():
                monitor.stopped = "rounding"
                return
            moved = problem.evaluate(point.shares, point.balance, point.alpha, tol.value)
        point = moved


def promising(groups: Groups, shares: Vector, gradient: Vector) -> NDArray[np.intp]:
    """Kernels with a share, and those without that would gain most in their groups."""
    level = groups.spread(groups.sum(shares * gradient))  # the multiplier of each sum at a stationary point
    excess = np.where(shares > 0.0, 0.0, gradient - level)
    entering = np.flatnonzero(excess < 0.0)
    entering = entering[np.argsort(excess[entering], kind="stable")[:MOST_ENTERING]]
    return np.sort(np.concatenate([np.flatnonzero(shares > 0.0), entering]))


def second_derivatives(
    problem: VSKLProblem, point: GroupPoint, chosen: NDArray[np.intp]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Second derivatives of J for the chosen kernels, shape (m, m), and of the best γ by them, shape (groups, m)."""
    groups, gamma = problem.groups, point.balance
    label = groups.label[chosen]
    H = curvature(problem, problem.weights(point.shares, gamma), point.alpha, chosen)
    mass = groups.sum(point.shares * point.q)
    # h_k = λ_k / γ: its derivatives by λ_k and by γ of its group
    by_share = 1.0 / gamma[label]
    by_balance = np.zeros((len(chosen), len(groups)))
    by_balance[np.arange(len(chosen)), label] = -point.shares[chosen] / gamma[label] ** 2
    A = by_share[:, None] * H * by_share
    B = by_share[:, None] * (H @ by_balance)
    B[np.arange(len(chosen)), label] += 0.5 * point.q[chosen] / gamma[label] ** 2
    C = by_balance.T @ H @ by_balance - np.diag(mass / gamma**3)
    # groups that are held up by the floor of γ (all of q zero, for one) stay where they are
    roots = np.sqrt(mass)
    moving = np.flatnonzero(roots > 0.5 * gamma * roots.sum())
    if len(moving) < 2:
        return A, np.zeros((len(groups), len(chosen)))
    # changes of the others' γ that sum to zero, relative to γ so that small groups count as much as large ones
    basis = np.zeros((len(groups), len(moving) - 1))
    basis[moving] = np.linalg.svd(gamma[None, moving])[2][1:].T * gamma[moving, None]
    inner = -basis.T @ C @ basis
    inner.ravel()[:: len(inner) + 1] += 1e-12 * max(float(np.trace(inner)), 1e-300)
    response = basis @ np.linalg.solve(inner, basis.T @ B.T)
    full = A + B @ response
    return 0.5 * (full + full.T), response


def minimise_model(H: NDArray, gradient: Vector, shares: Vector, label: NDArray[np.intp]) -> Vector:
    """Least point of ``gradient·(x − λ) + ½ (x − λ)'H(x − λ)`` over the product of simplices, with exact zeros."""
    import clarabel

    m = len(gradient)
    scale = max(float(np.abs(gradient).max()), float(np.abs(H).max()), 1e-300)
    P = H / scale
    P.ravel()[:: m + 1] += 1e-9 * max(float(P.trace()) / m, 1e-12)
    present, label = np.unique(label, return_inverse=True)
    sums = sparse.csc_matrix((np.ones(m), (label, np.arange(m))), shape=(len(present), m))
    rows = sparse.vstack([sums, -sparse.identity(m)]).tocsc()
    right = np.append(np.ones(len(present)), np.zeros(m))
    cones = [clarabel.ZeroConeT(len(present)), clarabel.NonnegativeConeT(m)]
    x, multipliers = solve_cone_program(gradient / scale - P @ shares, rows, right, cones, sparse.csc_matrix(P))
    x = np.maximum(x, 0.0)
    x[(x < multipliers[len(present) :]) & (x < 1e-6)] = 0.0  # an interior point has no exact zeros
    totals = np.bincount(label, weights=x)
    return x / totals[label] if (totals > 0.0).all() else shares  # not a number where the program was not solved


def _search(
    problem: VSKLProblem, point: GroupPoint, target: Vector, shift: Vector, gradient: Vector, tol: float
) -> GroupPoint | None:
    """The first of the steps 1, ½, ¼, … that decreases J enough; None if none does."""
    direction = target - point.shares
    slope = float(gradient @ direction)
    if not slope < 0.0:
        return None
    step, alpha = 1.0, point.alpha
    for _ in range(MOST_TRIALS):
        balance = point.balance * np.exp(np.clip(step * shift / point.balance, -1.0, 1.0))
        shares = target if step == 1.0 else point.shares + step * direction
        goal = point.value + ENOUGH * step * slope
        trial = problem.evaluate(shares, balance / balance.sum(), alpha, tol, enough=goal)
        if trial.value <= goal:
            return trial
        alpha = trial.alpha
        # the parabola through value, slope and the trial's value, kept within sane limits
        excess = trial.value - point.value - step * slope
        step *= float(np.clip(-0.5 * slope * step / max(excess, 1e-300), 0.1, 0.5))
    return None
