"""SVRG-MKL: optimum by other solvers, certificate, linear convergence, storage, scikit-learn's rules."""

from itertools import pairwise

import numpy as np
import pytest
from mkl_problems import make_kernels
from numpy.testing import assert_allclose
from references import margin_loss, result_of, smooth_bracket
from scipy.optimize import minimize
from sklearn.datasets import load_iris

from multikernel import SVRGMKLClassifier, gram_stack
from multikernel.gram import DenseStack, LowRankStack
from multikernel.kernels import RBF, KernelFamily, Linear, Nystroem
from multikernel.problems.losses import (
    HuberLoss,
    LogisticLoss,
    SmoothedHinge,
    SoftmaxLoss,
    SquaredHinge,
    SquaredLoss,
)
from multikernel.problems.obscure import group_norm
from multikernel.problems.svrg import SmoothProblem
from multikernel.runtime.monitor import Monitor
from multikernel.solvers.printed.svrg import convergence, last_steps, step_count, step_size, svrg_paper
from multikernel.solvers.svrg.iterate import Iterate
from multikernel.solvers.svrg.newton import smooth_newton
from multikernel.solvers.svrg.primal import smooth_auto
from multikernel.solvers.svrg.svrg import lbfgs, svrg

X, y = load_iris(return_X_y=True)
K, SIGNS, _ = make_kernels(n_kernels=4, n=30)
ROOTS = [np.linalg.cholesky(k) for k in K]
CLASSES = np.eye(3)[np.arange(30) % 3]
LOSSES = {
    "logistic": LogisticLoss(SIGNS),
    "squared_hinge": SquaredHinge(SIGNS),
    "smoothed_hinge": SmoothedHinge(SIGNS, width=0.5),
    "softmax": SoftmaxLoss(CLASSES),
    "squared_hinges": SquaredHinge(2 * CLASSES - 1),
    "squared": SquaredLoss(SIGNS + K[0, 0]),
    "huber": HuberLoss(SIGNS + K[0, 0], width=0.3),
}
KERNELS = [RBF(columns=[0, 1]), RBF(columns=[2, 3]), Linear()]


def solved(loss, p, lam, solve=smooth_auto, stack=None, tol=1e-7, **options):
    problem = SmoothProblem(DenseStack(K) if stack is None else stack, loss, lam, p)
    return problem, result_of(solve, problem, tol, random_state=0, **{"max_iter": 2000, **options})


def lbfgs_optimum(loss, p, lam):
    """The group norm's problem in explicit features, by SciPy."""
    r, rank, n_scores = group_norm(p), len(SIGNS), loss.n_scores

    def objective(flat):
        w = flat.reshape(len(K), rank, n_scores)
        scores = sum(root @ part for root, part in zip(ROOTS, w))
        norms = np.sqrt((w**2).sum(axis=(1, 2)) + 1e-300)
        total = (norms**r).sum() ** (1 / r)
        slope = lam * total ** (2 - r) * norms[:, None, None] ** (r - 2) * w
        slope += np.stack([root.T @ loss.gradient(scores) for root in ROOTS])
        return 0.5 * lam * total**2 + loss.value(scores), slope.ravel()

    start = 0.01 * np.random.default_rng(0).normal(size=len(K) * rank * n_scores)
    options = {"maxiter": 20000, "maxfun": 40000, "ftol": 1e-15, "gtol": 1e-10}
    return minimize(objective, start, jac=True, method="L-BFGS-B", options=options).fun


@pytest.mark.parametrize("p", [1.0, 1.2, 1.5, 2.0, 8.0])
@pytest.mark.parametrize("name", ["logistic", "squared_hinge", "smoothed_hinge"])
def test_the_optimum_is_reached(name, p):
    lam = 1 / 60
    _, result = solved(LOSSES[name], p, lam)
    assert result.converged
    smooth_bracket(K, lam, p, result, margin_loss(name, SIGNS)).proves(result.certificate, 1e-6)


@pytest.mark.parametrize("p", [1.1, 1.5, 2.0, 4.0])
@pytest.mark.parametrize("name", LOSSES)
def test_optimum_is_that_of_lbfgs_in_explicit_features(name, p):
    lam = 1 / 60
    _, result = solved(LOSSES[name], p, lam)
    assert result.converged
    optimum = lbfgs_optimum(LOSSES[name], p, lam)
    assert result.certificate.dual <= optimum * (1 + 1e-9)
    assert_allclose(result.certificate.primal, optimum, rtol=1e-5 if p == 1.1 else 1e-6)


@pytest.mark.parametrize("p", [1.1, 1.5, 4.0])
def test_the_gradient_of_the_problem_is_a_finite_difference(p):
    problem = SmoothProblem(DenseStack(K), LOSSES["softmax"], 1 / 60, p)
    rng = np.random.default_rng(1)
    weights, alpha, along = rng.uniform(0.1, 1, size=4), rng.normal(size=(30, 3)), rng.normal(size=(30, 3))
    point = Iterate(problem, weights, alpha)
    values = [problem.certificate(weights, alpha + step * along).primal for step in (1e-6, -1e-6)]
    assert_allclose(np.vdot(point.image, along), (values[0] - values[1]) / 2e-6, rtol=1e-6)


@pytest.mark.parametrize("name", ["logistic", "softmax"])
def test_every_certificate_on_the_way_brackets_the_optimum(name):
    problem, result = solved(LOSSES[name], 1.5, 1 / 60, tol=1e-9)
    optimum = result.certificate.primal
    rng = np.random.default_rng(1)
    for scale in (0.0, 0.1, 1.0, 10.0):
        alpha = scale * rng.normal(size=result.alpha.shape)
        weights = problem.weight_set.weights(rng.uniform(size=len(K)))
        proof = problem.certificate(weights, alpha)
        assert proof.dual <= optimum * (1 + 1e-8)
        assert optimum * (1 - 1e-8) <= proof.primal
    for row in result.history:
        assert row["objective"] - row["gap"] <= optimum * (1 + 1e-8)


@pytest.mark.parametrize("p", [1.2, 1.5, 2.0, 8.0])
def test_weights_are_the_closed_form_of_the_norms_at_the_solution(p):
    problem, result = solved(LOSSES["logistic"], p, 1 / 60, tol=1e-10)
    norms = result.weights**2 * problem.squares(result.alpha)
    expected = norms ** (1 / (p + 1)) * (norms ** (p / (p + 1))).sum() ** (-1 / p)
    assert_allclose(result.weights, expected, atol=1e-3)
    assert_allclose((result.weights**p).sum(), 1.0)


@pytest.mark.parametrize("p", [1.1, 1.5, 2.0])
@pytest.mark.parametrize("name", ["logistic", "smoothed_hinge", "softmax", "huber"])
def test_epochs_alone_divide_the_gap_by_a_constant(name, p):
    _, result = solved(LOSSES[name], p, 1 / 3, solve=svrg, tol=1e-10)
    epochs = np.array([row["epoch"] for row in result.history])
    decades = np.log10([max(row["relative_gap"], 1e-10) for row in result.history])
    assert result.converged
    slope, level = np.polyfit(epochs, decades, 1)
    assert slope < -0.5  # an epoch leaves less than a third
    # a straight line over ten decades: a rate of 1/epochs would fall by one decade, then take ten times as long
    assert (decades - level - slope * epochs).max() < 1.5
    later = decades < -5
    assert epochs[-1] - epochs[later][0] <= 2 * epochs[later][0] + 3


@pytest.mark.parametrize("name", LOSSES)
def test_epochs_alone_go_on_where_the_condition_is_worse(name):
    _, result = solved(LOSSES[name], 1.5, 1 / 60, solve=svrg, tol=1e-8, max_iter=1000)
    epochs = np.array([row["epoch"] for row in result.history])
    gaps = np.array([row["relative_gap"] for row in result.history])
    assert result.converged
    middle = epochs[np.argmax(gaps <= 1e-4)]
    assert epochs[-1] - middle <= 3 * middle + 30  # the last four decades take about as long as the first four


def test_passes_count_steps_and_products():
    for solve, least in ((svrg, 2), (lbfgs, 1)):
        _, result = solved(LOSSES["logistic"], 2.0, 1 / 3, solve=solve, tol=1e-6)
        rows = result.history
        assert all(b["passes"] > a["passes"] for a, b in pairwise(rows))
        # an epoch is a pass of steps and one for the full gradient; weights that move cost two more
        assert least * rows[-1]["epoch"] <= rows[-1]["passes"] <= (least + 2) * rows[-1]["epoch"] + 2


def test_the_paper_contracts_by_its_constants():
    smooth, convexity = 3.0, np.array([0.01, 0.1, 1.5])
    for target in (0.1, 1 / np.e, 0.9):
        goal = np.full(3, target)
        h, m = step_size(goal, smooth, convexity), step_count(goal, smooth / convexity)
        assert (h < 1 / (2 * smooth)).all()
        assert (convergence(convexity, h, m, smooth) <= target).all()


class Unstoppable(Monitor):
    """One whose tol is ε of the paper, and no reason to stop."""

    def __call__(self, weights, alpha):
        super().__call__(weights, alpha)
        return False


def noisy_kernels(n_kernels, n=60):
    """Two kernels that know the labels, others that do not."""
    signs, kernels = np.where(np.arange(n) % 2, 1.0, -1.0), []
    for j in range(n_kernels):
        points = np.random.default_rng(j + 1).normal(size=(n, 3))
        points[:, 0] += 0.8 * signs * (j < 2)
        D = ((points[:, None] - points) ** 2).sum(axis=-1)
        kernels.append(np.exp(-D / D.mean()))
    return np.stack(kernels), signs


def as_printed(problem, eps, seed):
    """Where the algorithm as printed ends."""
    monitor = Unstoppable(problem, eps)
    svrg_paper(problem, monitor, printed=True, random_state=seed)
    return [row for row in monitor.history if "epoch" in row][-1]


def test_the_printed_algorithm_makes_all_its_epochs_and_returns_the_last():
    K, signs = noisy_kernels(3, n=20)
    problem = SmoothProblem(gram_stack(np.moveaxis(K, 0, -1)), LogisticLoss(signs), 0.1, 2.0)
    result = result_of(svrg_paper, problem, 0.1, printed=True, random_state=1)
    *rows, made = result.history
    assert [row["epoch"] for row in rows if "epoch" in row] == [1, 2, 3]
    assert rows[-2]["relative_gap"] <= 0.1  # no reason to stop
    assert_allclose(result.weights, rows[-1]["weights"], rtol=1e-12)
    assert made["objective"] <= rows[-1]["objective"]
    assert "passes" not in made


def algorithm_1(K, signs, lam, p, eps, seed):
    """[AOJS16, alg. 1] for the logistic loss in plain NumPy: the weights and objective at its end, and all steps."""
    F, n, rng, J = len(K), len(signs), np.random.default_rng(seed), int(np.ceil(np.log(1 / eps)))
    w, d, done, taken = rng.standard_normal((F, n)) / n, np.full(F, 1 / F), [], 0
    slope = lambda f: -signs / (1 + np.exp(signs * f))  # noqa: E731
    own = np.array([0.25 * np.diagonal(k).max() for k in K])
    for j in range(1, J + 1):
        mu = np.minimum(lam / d, own)
        L = own + mu
        worked = np.prod([convergence(mu, h, m, L) for h, m in done], axis=0)
        goal = np.clip((eps / worked) ** (1 / max(J - j, 1)), 1e-3, 0.9)
        h, m = step_size(goal, L, mu), step_count(goal, L / mu)
        done.append((h, m))
        last = last_steps(rng, mu * h, m)
        at_start, x = slope(sum(K[k] @ w[k] for k in range(F))), w.copy()
        for t, i in enumerate(rng.integers(n, size=last.max())):
            now = slope(np.array([sum(K[k][i] @ x[k] for k in range(F))]).repeat(n))[i]
            for k in np.flatnonzero(t < last):
                step = lam / d[k] * x[k] + at_start / n
                step[i] += now - at_start[i]
                x[k] = x[k] - h[k] * step
        w, taken = x, taken + int(last.sum())
        squares = np.array([w[k] @ K[k] @ w[k] for k in range(F)])
        d = squares ** (1 / (p + 1)) / np.sum(squares ** (p / (p + 1))) ** (1 / p)
    scores = sum(K[k] @ w[k] for k in range(F))
    return d, lam / 2 * np.sum(squares / d) + np.logaddexp(0, -signs * scores).mean(), taken


def test_the_printed_algorithm_is_that_of_the_paper_step_by_step():
    K, signs = noisy_kernels(3, n=20)
    problem = SmoothProblem(gram_stack(np.moveaxis(K, 0, -1)), LogisticLoss(signs), 0.1, 1.5)
    row = as_printed(problem, 0.1, seed=1)
    weights, value, taken = algorithm_1(K, signs, 0.1, 1.5, 0.1, seed=1)
    assert row["epoch"] == 3
    assert row["block_passes"] * 20 == pytest.approx(taken)
    assert_allclose(row["weights"], weights, rtol=1e-8)
    assert_allclose(row["objective"], value, rtol=1e-10)


def test_the_promised_error_holds_for_p_2_and_not_near_p_1():
    """[AOJS16, eq. (7)] is proved for fixed d; with p near 1 the weights need more than log(1/ε) epochs."""
    K, signs = noisy_kernels(8)
    for p, holds in ((2.0, True), (1.25, False)):
        problem = SmoothProblem(gram_stack(np.moveaxis(K, 0, -1)), LogisticLoss(signs), 0.1, p)
        optimum = result_of(smooth_newton, problem, 1e-9, random_state=0, max_iter=200).certificate.primal
        left = []
        for seed in range(2):
            coef = np.random.default_rng(seed).standard_normal((8, 60, 1)) / 60
            first = problem.certificate(np.full(8, 1 / 8), coef).primal
            left.append((as_printed(problem, 1e-3, seed)["objective"] - optimum) / (first - optimum))
        assert (np.mean(left) <= 1e-3) == holds


def test_the_promised_number_of_steps_is_right_for_few_kernels_only():
    """[AOJS16, eq. (8)]: λ̃ is cut at L/2, so that no kernel takes fewer steps than a problem of condition 2."""
    p, q, condition, goal = 2.0, 2.0, 1e4, 1 / np.e

    def steps(n_kernels):
        own = np.maximum(n_kernels ** (-1 / p) * condition, 2.0)  # all kernels alike: d_k = F^(-1/p)
        return n_kernels * int(step_count(np.array([goal]), np.array([own]))[0])

    promised = int(step_count(np.array([goal]), np.array([condition]))[0])
    for n_kernels in (4, 100, 10_000):
        assert steps(n_kernels) <= 1.01 * n_kernels ** (1 / q) * promised
    assert steps(10**9) > 3 * (10**9) ** (1 / q) * promised


def test_last_steps_have_the_geometric_distribution():
    decay, m = np.full(40_000, 0.3), np.full(40_000, 5)
    drawn = last_steps(np.random.default_rng(0), decay, m)
    expected = 0.7 ** (5.0 - np.arange(1, 6))
    assert_allclose(np.bincount(drawn, minlength=6)[1:] / len(drawn), expected / expected.sum(), atol=0.01)


@pytest.mark.parametrize("solve", [smooth_auto, svrg, svrg_paper, lbfgs])
@pytest.mark.parametrize("name", ["logistic", "softmax", "squared_hinge"])
def test_features_and_kernels_give_the_same_solution(solve, name):
    options = {"solve": solve, "tol": 1e-4, "max_iter": 60}
    _, by_kernels = solved(LOSSES[name], 2.0, 1 / 30, **options)
    _, by_features = solved(LOSSES[name], 2.0, 1 / 30, stack=LowRankStack(ROOTS), **options)
    assert by_kernels.converged
    assert by_features.converged
    assert_allclose(by_features.weights, by_kernels.weights, rtol=1e-5)
    assert_allclose(by_features.alpha, by_kernels.alpha, atol=1e-5 * np.abs(by_kernels.alpha).max())


@pytest.mark.parametrize("solve", [svrg, svrg_paper])
def test_kernels_that_do_not_fit_in_memory_give_the_same_solution(solve):
    results = []
    for memory in (1 << 30, 3000):
        problem = SmoothProblem(gram_stack(np.moveaxis(K, 0, -1)), LOSSES["logistic"], 1 / 30, 2.0, memory=memory)
        results.append(result_of(solve, problem, 1e-4, random_state=0, max_iter=60))
    assert_allclose(results[0].alpha, results[1].alpha, atol=1e-8)
    assert_allclose(results[0].weights, results[1].weights, atol=1e-8)


# -- the estimator ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("solver", ["auto", "svrg", "paper", "lbfgs"])
@pytest.mark.parametrize("labels", [y, y == 1], ids=["three classes", "two classes"])
def test_objective_follows_from_the_stored_attributes(solver, labels):
    model = SVRGMKLClassifier(KERNELS, solver=solver, C=0.1, p=2.0, tol=1e-3, random_state=0).fit(X, labels)
    gram = KernelFamily.fit(KERNELS, X).evaluate(X)
    alpha = np.zeros((len(X), len(model.dual_coef_)))
    alpha[model.support_] = model.dual_coef_.T
    scores = np.tensordot(model.weights_, gram, axes=1) @ alpha
    assert_allclose(model.decision_function(X), np.squeeze(scores), atol=1e-8)
    probability = model.predict_proba(X)
    own = probability[np.arange(len(X)), labels.astype(int)]
    value = np.vdot(alpha, scores) / (2 * 0.1 * len(X)) - np.log(own).mean()
    assert_allclose(model.objective_, value, rtol=1e-9)
    assert model.converged_
    assert 0 <= model.dual_gap_ <= 1e-3 * model.objective_
    assert_allclose(np.log(probability), model.predict_log_proba(X), atol=1e-9)
    assert_allclose(probability.sum(axis=1), 1.0)


def test_sample_weights_are_repetitions():
    times = 1 + np.arange(len(X)) % 3
    kernels = [RBF(bandwidth=1.0), Linear()]
    options = {"C": 0.2, "tol": 1e-8, "random_state": 0}
    weighted = SVRGMKLClassifier(kernels, **options).fit(X, y, sample_weight=times)
    repeated = SVRGMKLClassifier(kernels, **options).fit(np.repeat(X, times, axis=0), np.repeat(y, times))
    assert_allclose(weighted.objective_, repeated.objective_, rtol=1e-7)
    assert_allclose(weighted.decision_function(X), repeated.decision_function(X), atol=2e-3)


def test_nystroem_features_work():
    kernels = [Nystroem(kernel=RBF(), rank=20, columns=[0, 1]), Nystroem(kernel=RBF(), rank=20, columns=[2, 3])]
    assert SVRGMKLClassifier(kernels, C=10.0, random_state=0).fit(X, y).score(X, y) > 0.93


def test_probabilities_need_the_logistic_loss():
    model = SVRGMKLClassifier(KERNELS, loss="squared_hinge").fit(X, y)
    assert not hasattr(model, "predict_proba")
    with pytest.raises(AttributeError, match="predict_proba"):
        model.predict_proba(X)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"p": 0.9}, "p=0.9 must be at least 1"),
        ({"C": 0.0}, "C=0.0 must be positive"),
        ({"lam": -1.0}, "lam=-1.0 must be positive"),
        ({"loss": "hinge"}, "loss='hinge' is not known"),
        ({"solver": "adam"}, "solver='adam' is not known"),
        ({"smoothing": 0.0}, "smoothing=0.0 must be positive"),
    ],
)
def test_bad_parameters_are_named(parameters, message):
    with pytest.raises(ValueError, match=message):
        SVRGMKLClassifier(KERNELS, **parameters).fit(X, y)
