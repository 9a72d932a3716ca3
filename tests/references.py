"""Brackets of optima that hold on any processor: weak duality, from the definitions, in extended precision.

Any weights and any feasible alpha give an upper and a lower bound on the optimum, whoever found them. Where the two
meet, the optimum is proved, and no other solver is needed. Bounds are widened by what rounding can do to them.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from typing import NamedTuple

import cvxpy as cp
import numpy as np
from mkl_problems import make_kernels

from multikernel.gram import DenseStack
from multikernel.problems.certificate import Certificate
from multikernel.problems.gmkl import GeneralizedProblem
from multikernel.problems.minmax import MinMaxProblem
from multikernel.problems.vskl import VSKLProblem
from multikernel.problems.weight_sets import LpBall
from multikernel.runtime.monitor import Monitor
from multikernel.solvers.common.newton import newton
from multikernel.svm import CSVM, NuSVM

REAL, EPS = np.longdouble, np.finfo(np.float64).eps


class Bracket(NamedTuple):
    """``lower <= optimum <= upper``, and how far off the same may be where it is computed in double precision."""

    lower: float
    upper: float
    rounding: float

    def proves(self, certificate, tol):
        """Assert that the certificate's bounds enclose the optimum, and that its solution is optimal to ``tol``."""
        slack, allowed = self.rounding, tol * abs(certificate.primal) + self.rounding
        assert self.upper - self.lower <= allowed
        assert certificate.dual <= self.upper + slack
        assert self.lower - slack <= certificate.primal <= self.upper + allowed

    def encloses(self, value, rtol):
        """Assert that a value, exact to ``rtol``, is the optimum."""
        slack = rtol * max(abs(self.lower), abs(self.upper)) + self.rounding
        assert self.lower - slack <= value <= self.upper + slack


def claim(model):
    """What a fitted model says about its optimum."""
    return Certificate(model.objective_, model.objective_ - model.dual_gap_)


def bracket(lower, upper, size, n_terms):
    """Bounds that are sums of ``n_terms`` numbers, which add up to at most ``size`` in absolute value."""
    rounding = [float((n_terms + 16) * np.finfo(kind).eps * size) for kind in (REAL, np.float64)]
    return Bracket(float(lower) - rounding[0], float(upper) + rounding[0], rounding[1])


# -- what kernels cost: penalties of weights, and what alpha proves about them -------------------------------------


def norm(x, p):
    """ℓp norm of a vector of numbers that are not negative; from p = 1e6 on the largest."""
    largest = x.max(initial=0.0)
    return largest if p >= 1e6 or largest == 0.0 else largest * ((x / largest) ** p).sum() ** (1 / REAL(p))


def dual_exponent(p):
    """p* with 1/p + 1/p* = 1."""
    return np.inf if p == 1.0 else 1.0 if p >= 1e6 else REAL(p) / (REAL(p) - 1)


@dataclass(frozen=True)
class Ball:
    """Weights g >= 0 with ``‖g‖_p <= 1``."""

    p: float

    def admitted(self, g):
        """The weights, feasible to the last digit."""
        return g / max(norm(g, self.p), REAL(1))

    def price(self, g, q):
        """Half the squared norm of ``w_j = g_j Σ_i alpha_i φ_j(x_i)``, and what g costs."""
        return g @ q / 2

    def bound(self, linear, q):
        """What alpha proves: ``linear − max over g of price(g, q)``."""
        return linear - norm(q, dual_exponent(self.p)) / 2


@dataclass(frozen=True)
class Capped:
    """Weights from 0 to 1 that sum to t; fewer are allowed too, since more never harm."""

    t: float

    def admitted(self, g):
        g = np.clip(g, 0, 1)
        return g * min(REAL(1), REAL(self.t) / g.sum())

    price = Ball.price

    def bound(self, linear, q):
        whole, ordered = int(self.t), np.sort(q)[::-1]
        part = (REAL(self.t) - whole) * ordered[whole] if self.t > whole else 0
        return linear - (ordered[:whole].sum() + part) / 2


@dataclass(frozen=True)
class Penalised:
    """Weights g >= 0 at the price of ``reg r(g)``: their sum (L1), half their squares, or ``Σ g log g`` (entropy)."""

    kind: str
    reg: float

    def admitted(self, g):
        return g

    def price(self, g, q):
        penalty = {"L1": g, "SquaredL2": g**2 / 2, "Entropy": g * np.log(np.where(g > 0, g, 1))}[self.kind]
        return g @ q / 2 + self.reg * penalty.sum()

    def bound(self, linear, q):
        if self.kind == "L1":  # no weights are worth it if q <= 2 reg, which a smaller alpha satisfies
            return linear * min(REAL(1), np.sqrt(2 * self.reg / max(q.max(), np.finfo(REAL).tiny)))
        if self.kind == "SquaredL2":
            return linear - (q**2).sum() / (8 * self.reg)
        return linear - self.reg * np.exp(q / (2 * REAL(self.reg)) - 1).sum()


@dataclass(frozen=True)
class Grouped:
    """``½ max over groups (Σ ‖w_k‖)²``: weights are free."""

    groups: list

    admitted = Penalised.admitted

    def price(self, g, q):
        norms = g * np.sqrt(q)
        return max(norms[np.asarray(group)].sum() for group in self.groups) ** 2 / 2

    def bound(self, linear, q):
        return linear - sum(np.sqrt(q[np.asarray(group)].max()) for group in self.groups) ** 2 / 2


# -- support vector machines ---------------------------------------------------------------------------------------


def svm_losses(svm, scores):
    """Losses with the best bias (and margin, for ν), and the largest number that a violated sum is paid with."""
    signs, upper, used = svm.signs, svm.upper.astype(REAL), svm.upper * np.abs(svm.signs) > 0
    if hasattr(svm, "nu"):
        losses, prices = 0, [REAL(0)]
        for sign in (1, -1):
            f, u = sign * scores[used & (signs == sign)], upper[used & (signs == sign)]
            values = [u @ np.maximum(margin - f, 0) - REAL(svm.nu) / 2 * margin for margin in f]
            losses, prices = losses + min(values), [*prices, abs(f[np.argmin(values)])]
        return losses, max(prices)
    biases = np.append((signs - scores)[used], 0) if svm.bias else [REAL(0)]
    values = [upper @ np.maximum(1 - signs * (scores + b), 0) for b in biases]
    return min(values), abs(biases[np.argmin(values)])


def svm_infeasibility(svm, alpha):
    """By how much sums of a feasible alpha are wrong, after a check that its bounds hold exactly."""
    signed = svm.signs * alpha
    assert (alpha[svm.signs == 0] == 0).all()
    assert (signed >= 0).all()
    assert (signed <= svm.upper).all()
    if hasattr(svm, "nu"):
        return max(abs(signed[svm.signs == sign].sum() - REAL(svm.nu) / 2) for sign in (1, -1))
    return abs(alpha.sum()) if svm.bias else REAL(0)


def products(K, alpha):
    """``K_j alpha`` (F, n, T), each number correctly rounded: products of halves of numbers are exact."""
    K, alpha = (np.asarray(x, np.float64) for x in (K, alpha))
    terms = [[k * a for k in halves(K) for a in halves(column)] for column in alpha.T]
    sums = [[math.fsum(row) for row in np.concatenate(parts, axis=2).reshape(-1, 4 * len(alpha))] for parts in terms]
    return np.array(sums, REAL).T.reshape(*K.shape[:2], -1)


def halves(x):
    """x as a sum of two numbers with half as many digits."""
    high = 134217729.0 * x - (134217729.0 * x - x)
    return high, x - high


class Parts(NamedTuple):
    """What each SVM of a candidate is worth: linear (T,), forms of alpha and of w (F, T), losses (T,)."""

    weights: np.ndarray
    linear: np.ndarray
    forms: np.ndarray
    squares: np.ndarray
    losses: np.ndarray
    errors: np.ndarray  # of these bounds, and of the same in double precision, (T, 2)

    def bracket(self, lower, upper):
        own, rounding = self.errors.sum(axis=0)
        return Bracket(float(lower - own), float(upper + own), float(rounding + 2 * own))


def svm_parts(K, inner, penalty, result):
    svms = getattr(inner, "svms", [inner])
    alpha = np.asarray(result.alpha, REAL).reshape(K.shape[1], -1)
    g = penalty.admitted(np.asarray(result.weights, REAL))
    images = products(K, alpha)
    forms, scores = np.maximum((images * alpha).sum(axis=1), 0), np.tensordot(g, images, 1)
    # errors of the terms of a sum in double precision are independent, and four deviations cover theirs
    noise = 4 * EPS * np.sqrt(np.tensordot(g**2, (np.asarray(K, np.float64) ** 2) @ (alpha**2).astype(np.float64), 1))
    error = 4 * EPS * (np.tensordot(g, np.abs(images), 1) + 1)
    judged = [
        judge(svm, a, f, g @ q, np.stack([e, r]))
        for svm, a, f, q, e, r in zip(svms, alpha.T, scores.T, forms.T, error.T, noise.T + error.T)
    ]
    linear, scales, losses, errors = (np.array(values) for values in zip(*judged))
    return Parts(g, linear, forms, forms * scales**2, losses, errors)


def judge(svm, alpha, scores, square, errors):
    """Linear part of the dual, best length of w, losses, and errors of them all, from those (2, n) of the scores."""
    loss, price = svm_losses(svm, scores)
    linear = 0 if hasattr(svm, "nu") else svm.signs @ alpha
    linear = linear - price * svm_infeasibility(svm, alpha)
    of_dual = np.linalg.norm(alpha * errors, axis=1) / 2 + EPS * np.abs(alpha).sum()
    margin = separation(svm, scores)
    # w may have any length: where C is huge, one without losses is better than what rounding leaves of them
    if margin > 0 and not hasattr(svm, "nu") and square / (2 * margin**2) < square / 2 + loss:
        of_primal = square / margin**3 * errors.max(axis=1)
        return linear, 1 / margin, REAL(0), of_dual + of_primal
    of_primal = np.linalg.norm(svm.upper * (errors + EPS * price), axis=1)
    return linear, REAL(1), loss, of_dual + of_primal


def separation(svm, scores):
    """Distance of the classes' scores, with the best bias, from where a sample is on the wrong side."""
    used = svm.upper > 0
    positive = scores[used & (svm.signs > 0)].min(initial=np.inf)
    negative = -scores[used & (svm.signs < 0)].max(initial=-np.inf)
    margin = (positive + negative) / 2 if getattr(svm, "bias", True) else min(positive, negative)
    return margin if np.isfinite(margin) else REAL(0)


def svm_bracket(K, inner, penalty, result):
    """min over weights of the sum over labels of an SVM's optimum on their kernel, and what weights cost."""
    parts = svm_parts(K, inner, penalty, result)
    lower = penalty.bound(parts.linear.sum(), parts.forms.sum(axis=1))
    upper = penalty.price(parts.weights, parts.squares.sum(axis=1)) + parts.losses.sum()
    return parts.bracket(lower, upper)


def minmax_bracket(problem, result):
    """The same of a problem: the tightest bounds that the solution and the alpha behind its bound prove."""
    alphas = [result.alpha]
    if result.proof is not None:  # a mixture of several may leave the box by the last digit
        alphas.append(problem.repaired(result.weights, result.proof)[1])
    found = [
        svm_bracket(problem.stack.to_array(), problem.inner, penalty_of(problem), replace(result, alpha=alpha))
        for alpha in alphas
    ]
    lower, upper, rounding = zip(*found)
    return Bracket(max(lower), min(upper), max(rounding))


def penalty_of(problem):
    """What weights of a problem cost."""
    if isinstance(problem, GeneralizedProblem):
        return Penalised(type(problem.regularizer).__name__, problem.reg)
    if isinstance(problem, VSKLProblem):
        return Grouped(problem.groups.members)
    return Ball(problem.weight_set.p) if isinstance(problem.weight_set, LpBall) else Capped(problem.weight_set.t)


def result_of(solver, problem, tol, *arguments, **options):
    """What a solver returns at a tolerance."""
    monitor = Monitor(problem, tol)
    solver(problem, monitor, *arguments, **options)
    return monitor.result()


@cache
def reference(weight_set, nu=None, **options):
    """Bracket of the problem of ``make_kernels(**options)`` with one SVM, the same for every solver."""
    K, signs, C = make_kernels(**options)
    inner = CSVM(signs, C) if nu is None else NuSVM(signs, nu)
    problem = MinMaxProblem(DenseStack(K), inner, weight_set, memory=1 << 30)
    return minmax_bracket(problem, result_of(newton, problem, 1e-9, max_iter=1000))


def worst_label_bracket(problem, result):
    """min over the simplex of the largest optimum of a label; any weights of labels prove a bound."""
    parts = svm_parts(problem.stack.to_array(), problem.inner, Ball(1.0), result)
    gamma = np.asarray(problem.label_weights(result.alpha), REAL)
    gamma /= gamma.sum()
    lower = gamma @ parts.linear - (parts.forms @ gamma).max() / 2
    return parts.bracket(lower, (parts.weights @ parts.squares / 2 + parts.losses).max())


# -- group norms of w, and Fisher's discriminant -------------------------------------------------------------------


def hinge_bracket(problem, result):
    """``lam/2 ‖w‖²_{2,p} + sparsity ‖w‖_{2,1} + Σ_i c_i max_r (cost_r + f_r − f_label)``; lam alpha proves it."""
    K, loss, lam, p = problem.stack.to_array().astype(REAL), problem.loss, REAL(problem.lam), problem.p
    own, cost = (np.arange(len(loss)), loss.labels), loss.cost[loss.labels].astype(REAL)
    alpha, weights = np.asarray(result.alpha, REAL), np.asarray(result.weights, REAL)
    dual = lam * alpha
    # feasible to the last digit: what is off the label is not positive, and at most c_i in all
    dual[own] = 0
    dual = np.minimum(dual, 0)
    total = -dual.sum(axis=1)
    dual *= np.minimum(1, loss.importance / np.maximum(total, np.finfo(REAL).tiny))[:, None]
    dual[own] = -dual.sum(axis=1)
    images = K @ alpha
    scores, norms = np.tensordot(weights, images, 1), weights * np.sqrt(np.maximum((images * alpha).sum((1, 2)), 0))
    losses = (cost + scores - scores[own][:, None]).max(axis=1)
    upper = lam / 2 * norm(norms, p) ** 2 + problem.sparsity * norms.sum() + loss.importance @ losses
    thetas = np.sqrt(np.maximum((K @ dual * dual).sum(axis=(1, 2)), 0))
    cut = np.maximum(thetas - problem.sparsity, 0)
    lower = -(cost * dual).sum() - norm(cut, dual_exponent(p)) ** 2 / (2 * lam)
    largest = np.tensordot(weights, np.abs(K) @ np.abs(alpha), 1)
    size = lam * (largest * np.abs(alpha)).sum() + loss.importance @ (2 * largest.max(axis=1) + cost.max(axis=1))
    return bracket(lower, upper, size, K.shape[0] + alpha.size)


class Loss(NamedTuple):
    """A convex loss of scores (n, 1), its slope, and scores where the slope is given, not a number if nowhere."""

    value: Callable
    slope: Callable
    inverse: Callable


def margin_loss(name, signs):
    """Mean over samples of a loss of ``signs · scores``; the smoothed hinge has a width of ½."""
    signs = np.asarray(signs, REAL)[:, None]
    value, slope, inverse = {
        "logistic": (
            lambda z: np.log1p(np.exp(-z)),
            lambda z: -1 / (1 + np.exp(z)),
            lambda u: np.log((1 + u) / -u),
        ),
        "squared_hinge": (
            lambda z: np.maximum(1 - z, 0) ** 2,
            lambda z: -2 * np.maximum(1 - z, 0),
            lambda u: np.where(u <= 0, 1 + u / 2, np.nan),
        ),
        "smoothed_hinge": (
            lambda z: 2 * huber(np.maximum(1 - z, 0), 0.5),
            lambda z: -np.clip(2 * (1 - z), 0, 1),
            lambda u: np.where((u <= 0) & (u >= -1), 1 + u / 2, np.nan),
        ),
    }[name]
    return Loss(
        lambda f: value(signs * f).mean(),
        lambda f: signs * slope(signs * f) / len(signs),
        lambda u: signs * inverse(signs * u * len(signs)),
    )


def residual_loss(name, targets, weights):
    """Weighted sum over samples of a loss of ``scores − targets``: half the square, or Huber's with a width of ½."""
    y, c = np.asarray(targets, REAL)[:, None], np.asarray(weights, REAL)[:, None]
    width = np.inf if name == "squared" else 0.5
    return Loss(
        lambda f: (c * huber(f - y, width)).sum(),
        lambda f: c * np.clip(f - y, -width, width),
        lambda u: y + np.where(np.abs(u / c) <= width, u / c, np.nan),
    )


def huber(x, width):
    """Half the square within the width, beyond it straight."""
    return np.where(np.abs(x) <= width, x**2 / 2, width * (np.abs(x) - width / 2))


def smooth_bracket(K, lam, p, result, loss):
    """``lam/2 Σ_j ‖w_j‖² / g_j + loss(f)``, ‖g‖_p <= 1.

    A dual point is the slope u of the loss at any scores v, where its conjugate is ``v·u − loss(v)``. Two are tried:
    at the scores of the candidate, and where the slope is −lam alpha.
    """
    K, ball, lam = np.asarray(K, REAL), Ball(p), REAL(lam)
    g = ball.admitted(np.asarray(result.weights, REAL))
    alpha = np.asarray(result.alpha, REAL).reshape(K.shape[1], -1)
    images = K @ alpha
    scores, q = np.tensordot(g, images, 1), (images * alpha).sum(axis=(1, 2))
    upper = lam * ball.price(g, q) + loss.value(scores)
    lower = -np.inf
    with np.errstate(invalid="ignore", divide="ignore"):
        points = [scores, loss.inverse(-lam * alpha)]
    for v in points:
        if np.isfinite(v).all():
            u = loss.slope(v)
            linear, forms = loss.value(v) - (u * v).sum(), np.maximum((K @ u * u).sum(axis=(1, 2)), 0)
            lower = max(lower, ball.bound(lam * linear, forms) / lam)
    largest = np.tensordot(g, np.abs(K) @ np.abs(alpha), 1)
    size = lam * (largest * np.abs(alpha)).sum() + abs(upper) + (largest * np.abs(loss.slope(scores))).sum()
    return bracket(lower, upper, size, len(K) + alpha.size)


def fisher_bracket(K, targets, reg, p, result):
    """``min over g, f of ‖H − f‖² + reg Σ_j ‖w_j‖² / g_j``, ``f = K(g) alpha``, ‖g‖_p <= 1; alpha proves it, too."""
    K, ball, reg = np.asarray(K, REAL), Ball(p), REAL(reg)
    g, H = ball.admitted(np.asarray(result.weights, REAL)), np.asarray(targets, REAL)
    alpha = np.asarray(result.alpha, REAL)
    images = K @ alpha
    q, rest = (images * alpha).sum(axis=(1, 2)), H - np.tensordot(g, images, 1)
    upper = (rest**2).sum() + 2 * reg * ball.price(g, q)
    a = 2 * reg * alpha
    lower = (a * H).sum() - (a**2).sum() / 4 - norm(4 * reg * q, dual_exponent(p)) / 4
    size = ((np.abs(H) + np.tensordot(g, np.abs(K) @ np.abs(alpha), 1)) ** 2).sum() + np.abs(a * H).sum()
    return bracket(lower, upper, size, len(K) + alpha.size)


# -- second opinions -----------------------------------------------------------------------------------------------

CONIC_SOLVERS = [
    ("CLARABEL", {}),
    ("CLARABEL", {"equilibrate_enable": False, "max_step_fraction": 0.9, "max_iter": 1000}),
    ("SCS", {"eps_abs": 1e-9, "eps_rel": 1e-9, "max_iters": 200_000}),
]


def conic_value(problem):
    """The optimum of a cvxpy problem by the first solver that does not give up."""
    for solver, options in CONIC_SOLVERS:
        try:
            problem.solve(solver=solver, **options)
        except cp.SolverError:
            continue
        if problem.status == cp.OPTIMAL:
            return problem.value
    raise AssertionError(f"no conic solver has an answer; the last status is {problem.status!r}")


def root(kernel):
    """Features (n, rank) of a kernel."""
    values, vectors = np.linalg.eigh(kernel)
    kept = values > 1e-13 * values.max(initial=1e-300)
    return vectors[:, kept] * np.sqrt(values[kept])


def conic_group_norm(K, lam, p, n_scores, loss, sparsity=0.0):
    """Optimum of ``lam/2 ‖w‖²_{2,p} + sparsity ‖w‖_{2,1} + loss(scores)`` by a conic solver, and the norms of w_j.

    ``loss`` takes scores (n, n_scores) as a cvxpy expression.
    """
    features = [root(kernel) for kernel in K]
    w = [cp.Variable((f.shape[1], n_scores)) for f in features]
    norms = cp.hstack([cp.norm(part, "fro") for part in w])
    penalty = lam / 2 * cp.square(cp.pnorm(norms, p, approx=False)) + sparsity * cp.sum(norms)
    # in the units of ½‖w‖² + C Σ loss, which are of order one whatever C
    objective = (penalty + loss(sum(f @ part for f, part in zip(features, w)))) / lam
    return lam * conic_value(cp.Problem(cp.Minimize(objective))), norms.value


def conic_hinge(loss):
    """The loss of ``MulticlassHinge`` as a function of scores."""
    own, cost = np.eye(loss.n_classes)[loss.labels], loss.cost[loss.labels]

    def value(scores):
        answers = cp.reshape(cp.sum(cp.multiply(scores, own), axis=1), (len(loss), 1), order="C")
        return loss.importance @ cp.max(scores - answers @ np.ones((1, loss.n_classes)) + cost, axis=1)

    return value


def joint_optimum(K, p, alpha, linear, constraints):
    """max over a cvxpy variable of ``linear − ½ ‖q(alpha)‖_{p/(p−1)}``, for kernels (n, n, F): ℓp-norm MKL's dual."""
    roots = [np.linalg.cholesky(k + 1e-13 * max(np.trace(k), 1e-3) * np.eye(len(k))) for k in np.moveaxis(K, -1, 0)]
    q = cp.hstack([cp.sum_squares(root.T @ alpha) for root in roots])
    conjugate = {1.0: "inf", np.inf: 1}.get(p) or p / (p - 1.0)
    return cp.Problem(cp.Maximize(linear - 0.5 * cp.norm(q, conjugate)), constraints).solve(solver="CLARABEL")
