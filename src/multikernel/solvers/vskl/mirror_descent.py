"""Variable sparsity kernel learning by mirror descent on a product of simplices [NDRBBR09]."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from multikernel.problems.vskl import GroupPoint, VSKLProblem
from multikernel.runtime.monitor import Monitor
from multikernel.solvers.common.newton import InnerTolerance, Start

Vector = NDArray[np.float64]

# What a step is multiplied by after a success and after a failure; failures in a row before giving up.
LONGER, SHORTER, MOST_FAILURES = 1.6, 0.4, 30
# Least share of a kernel at the start, relative to an equal one: a share of zero would stay zero.
LEAST_SHARE = 1e-3


def mirror_descent(problem: VSKLProblem, monitor: Monitor, start: Start = None, *, max_iter: int = 1000) -> None:
    """Multiply shares by exponentials of the gradient, and scale them to sum to one in each group [NDRBBR09].

    With the balance γ of the groups eliminated, ``J(λ) = max over alpha of linear − ½ (Σ_groups sqrt(Σ_k λ_k q_k))²``
    is convex, with derivatives ``−½ q_k / γ_group(k)``. A step of length η goes to the minimum of

        J(λ_t) + ∇J(λ_t)·(λ − λ_t) + KL(λ, λ_t) / η,        that is    λ_k ∝ λ_t,k exp(η q_k / 2γ_group(k)),

    KL the sum of relative entropies. Steps with a guarantee for any convex J shrink like 1/sqrt(t), with constants
    that need a bound on the gradient. Here a step counts as good if J is below this model, which holds for all η up
    to an unknown constant; it is then made longer, and shorter otherwise. Nothing depends on the kernels' scale.
    Shares only tend to zero, and near the optimum ever more slowly: for exact answers see
    :func:`~multikernel.solvers.vskl.newton.group_newton`. ``max_iter`` counts the rejected steps, too.
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
        point, step, good = mirror_move(problem, point, step, tol.value)
        failures = 0 if good else failures + 1
        if failures > MOST_FAILURES and not tol.tighten():
            return


def mirror_move(problem: VSKLProblem, point: GroupPoint, step: float, tol: float) -> tuple[GroupPoint, float, bool]:
    """Try a step; returns the point to go on from, the length to try next, and whether the step was good.

    With ``step = 0`` the length is such that shares change by a factor of e at most.
    """
    # 1. gradient
    gradient = problem.gradient(point)
    step = step or 1.0 / max(float(np.abs(gradient).max()), 1e-300)
    # 2. the minimum of the model, and J there
    shares, model = mirror_step(problem, point, gradient, step)
    goal = model + tol * abs(model)
    trial = problem.evaluate(shares, point.balance, point.alpha, tol, enough=goal)
    # 3. accept what is below the model, up to what the inner problems are solved to
    if trial.value <= goal:
        return trial, LONGER * step, True
    return point, SHORTER * step, False


def mirror_step(problem: VSKLProblem, point: GroupPoint, gradient: Vector, step: float) -> tuple[Vector, float]:
    """Shares at the minimum of the model of J, and the model's value there."""
    groups = problem.groups
    exponent = -step * gradient
    exponent = exponent - groups.spread(groups.max(exponent))  # the largest factor in a group is one
    shares = groups.shares(point.shares * np.exp(exponent))
    kept = (shares > 0.0) & (point.shares > 0.0)
    divergence = float(shares[kept] @ np.log(shares[kept] / point.shares[kept]))
    return shares, point.value + float(gradient @ (shares - point.shares)) + max(divergence, 0.0) / step
