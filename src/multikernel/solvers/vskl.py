"""Variable sparsity kernel learning: mirror descent on a product of simplices [NDRBBR09], and Newton steps there."""

import numpy as np
from numpy.typing import NDArray

from multikernel.problems.vskl import GroupPoint, VSKLProblem
from multikernel.problems.weight_sets import SimplexProduct
from multikernel.runtime.monitor import InnerTolerance, Monitor
from multikernel.solvers.common.newton import Start, line_search, with_entering

Vector = NDArray[np.float64]

LONGER, SHORTER, MOST_FAILURES = 1.6, 0.4, 30  # factors of a step after success and failure; failures in a row
LEAST_SHARE = 1e-3  # of a kernel at the start, relative to an equal one: a share of zero would stay zero


def mirror_descent(problem: VSKLProblem, monitor: Monitor, start: Start = None, *, max_iter: int = 1000) -> None:
    """Multiply shares by exponentials of the gradient, and scale them to sum to one in each group [NDRBBR09].

    With the balance γ of the groups eliminated, ``J(λ) = max over alpha of linear − ½ (Σ_groups sqrt(Σ_k λ_k q_k))²``
    is convex, with derivatives ``−½ q_k / γ_group(k)``. A step of length η goes to the minimum of

        J(λ_t) + ∇J(λ_t)·(λ − λ_t) + KL(λ, λ_t) / η,        that is    λ_k ∝ λ_t,k exp(η q_k / 2γ_group(k)),

    KL the sum of relative entropies. Steps with a guarantee for any convex J shrink like 1/sqrt(t), with constants
    that need a bound on the gradient. Here a step counts as good if J is below this model, which holds for all η up
    to an unknown constant; it is then made longer, and shorter otherwise. Nothing depends on the kernels' scale.
    Shares only tend to zero, and near the optimum ever more slowly: for exact answers see
    :func:`group_newton`. ``max_iter`` counts the rejected steps, too.
    """
    weights, alpha = problem.start() if start is None else start
    shares, balance = problem.split(weights)
    shares = problem.groups.shares(shares + LEAST_SHARE * problem.groups.shares(np.ones_like(shares)))
    tol = InnerTolerance(monitor)
    point = problem.evaluate(shares, balance, alpha, tol.value)
    step, failures = 0.0, 0
    for _ in range(max_iter):
        if monitor(*problem.solution(point)):
            return
        if tol.value > 3.0 * tol.follow():
            point = problem.evaluate(point.shares, point.balance, point.alpha, tol.value)
        # 1. gradient; the first step changes shares by a factor of e at most
        gradient = problem.gradient(point)
        step = step or 1.0 / max(float(np.abs(gradient).max()), 1e-300)
        # 2. the minimum of the model, and J there
        shares, model = mirror_step(problem, point, gradient, step)
        goal = model + tol.value * abs(model)
        trial = problem.evaluate(shares, point.balance, point.alpha, tol.value, enough=goal)
        # 3. accept what is below the model, up to what the inner problems are solved to
        if trial.value <= goal:
            point, step, failures = trial, LONGER * step, 0
        else:
            step, failures = SHORTER * step, failures + 1
        if failures > MOST_FAILURES and not tol.tighten():
            return


def mirror_step(problem: VSKLProblem, point: GroupPoint, gradient: Vector, step: float) -> tuple[Vector, float]:
    """Shares at the minimum of the model of J, and the model's value there."""
    groups = problem.groups
    exponent = -step * gradient
    exponent = exponent - groups.spread(groups.max(exponent))  # the largest factor in a group is one
    shares = groups.shares(point.shares * np.exp(exponent))
    kept = (shares > 0.0) & (point.shares > 0.0)
    divergence = float(shares[kept] @ np.log(shares[kept] / point.shares[kept]))
    return shares, point.value + float(gradient @ (shares - point.shares)) + max(divergence, 0.0) / step


def group_newton(problem: VSKLProblem, monitor: Monitor, start: Start = None, *, max_iter: int = 200) -> None:
    """Minimise quadratic models of J(λ) over the product of simplices, one after the other.

    ``J(λ) = max over γ of S(λ / γ)``, S the optimum of the SVM as a function of its kernel weights, whose gradient is
    ``−½ q`` and whose second derivatives are known while the set of free support vectors stays [CR08, sect. 4].
    With A, B, C the second derivatives of ``S(λ / γ)`` in λλ, λγ and γγ, those of J are ``A − B C⁺ B'``, C⁺ the
    inverse of C among changes of γ that sum to zero; the new γ is predicted along with the new λ. Where mirror
    descent creeps, a few such steps reach rounding.
    """
    weights, alpha = problem.start() if start is None else start
    tol, groups = InnerTolerance(monitor), problem.groups
    point = problem.evaluate(*problem.split(weights), alpha, tol.value)
    for _ in range(max_iter):
        if monitor(*problem.solution(point)):
            return
        if tol.value > 20.0 * tol.follow():
            point = problem.evaluate(point.shares, point.balance, point.alpha, tol.value)
        # 1. the quadratic model on kernels in use or about to be; a group's multiplier is its level
        gradient, used = problem.gradient(point), point.shares > 0.0
        chosen = with_entering(used, gradient - groups.spread(groups.sum(point.shares * gradient)))
        model, response = second_derivatives(problem, point, chosen)
        # 2. its minimum: shares, and the balance that goes with them
        target = np.zeros_like(point.shares)
        allowed = SimplexProduct(groups.label[chosen])
        target[chosen] = allowed.least_point(model, gradient[chosen], point.shares[chosen])
        shift = response @ (target - point.shares)[chosen]
        # 3. as far towards it as J falls
        moved = _search(problem, point, target, shift, tol.value)
        if moved is None:
            if not tol.tighten():
                return
            moved = problem.evaluate(point.shares, point.balance, point.alpha, tol.value)
        point = moved


def _search(problem: VSKLProblem, point: GroupPoint, target: Vector, shift: Vector, tol: float) -> GroupPoint | None:
    """A point on the way to the shares ``target``, the balance moved by ``shift``, where J is low enough."""
    direction = target - point.shares

    def at(step: float, alpha: NDArray, goal: float) -> GroupPoint:
        balance = point.balance * np.exp(np.clip(step * shift / point.balance, -1.0, 1.0))
        shares = target if step == 1.0 else point.shares + step * direction
        return problem.evaluate(shares, balance / balance.sum(), alpha, tol, enough=goal)

    return line_search(point, float(problem.gradient(point) @ direction), at)


def second_derivatives(
    problem: VSKLProblem, point: GroupPoint, chosen: NDArray[np.intp]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Second derivatives of J for the chosen kernels, shape (m, m), and of the best γ by them, shape (groups, m)."""
    groups, gamma = problem.groups, point.balance
    label = groups.label[chosen]
    H = problem.curvature(problem.weights(point.shares, gamma), point.alpha, chosen)
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
