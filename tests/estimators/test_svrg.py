"""Multiple kernel regression: optimum from the definition, kernel ridge regression, storage, scikit-learn's rules."""

from types import SimpleNamespace

import numpy as np
import pytest
from mkl_problems import make_kernels
from numpy.testing import assert_allclose
from references import claim, residual_loss, smooth_bracket
from sklearn.datasets import load_diabetes
from sklearn.kernel_ridge import KernelRidge
from sklearn.metrics import r2_score

from multikernel import SVRGMKLRegressor
from multikernel.gram import LowRankStack
from multikernel.kernels import RBF, KernelFamily, Linear, Nystroem

K, SIGNS, _ = make_kernels(n_kernels=4, n=30)
ROOTS = [np.linalg.cholesky(k) for k in K]
Y = SIGNS + K[0, 0] + np.where(np.arange(30) % 10 == 0, 5.0, 0.0)  # every tenth is an outlier
GIVEN = np.moveaxis(K, 0, -1)
X, y = (part[:150] for part in load_diabetes(return_X_y=True))
KERNELS = [RBF(columns=[0, 1, 2]), RBF(columns=[3, 8]), Linear()]


def optimum(model, weights=None):
    """Bracket of the problem on Y, from the weights and coefficients of a model."""
    weights = np.ones(len(Y)) if weights is None else weights
    alpha = np.zeros(len(Y))
    alpha[model.support_] = model.dual_coef_[0]
    candidate = SimpleNamespace(weights=model.weights_, alpha=alpha)
    loss = residual_loss(model.loss, Y, weights / weights.sum())
    return smooth_bracket(K, 1 / (model.C * weights.sum()), model.p, candidate, loss)


@pytest.mark.parametrize("p", [1.0, 1.2, 1.5, 2.0, 8.0])
@pytest.mark.parametrize("loss", ["squared", "huber"])
def test_the_optimum_is_reached(loss, p):
    # the bound is the best of the whole run; the last coefficients, of which this makes one, prove less at 1e-7
    model = SVRGMKLRegressor(
        "precomputed", p, 2.0, loss, delta=0.5, fit_intercept=False, tol=1e-8, max_iter=3000, random_state=0
    ).fit(GIVEN, Y)
    assert model.converged_
    optimum(model).proves(claim(model), 1e-6)


@pytest.mark.parametrize("loss", ["squared", "huber"])
def test_sample_weights_are_those_of_the_objective(loss):
    weights = 1.0 + np.arange(30) % 3
    model = SVRGMKLRegressor("precomputed", 1.5, 2.0, loss, delta=0.5, fit_intercept=False, tol=1e-7, random_state=0)
    model.fit(GIVEN, Y, sample_weight=weights)
    optimum(model, weights).proves(claim(model), 1e-6)


@pytest.mark.parametrize("fit_intercept", [True, False])
def test_one_kernel_is_kernel_ridge_regression(fit_intercept):
    """With an intercept, of y minus its mean."""
    new = np.random.default_rng(0).normal(size=(7, X.shape[1])) / 20
    model = SVRGMKLRegressor([RBF(bandwidth=0.1)], C=5.0, fit_intercept=fit_intercept, tol=1e-12).fit(X, y)
    (gram,), (test,) = (KernelFamily.fit([RBF(bandwidth=0.1)], X).evaluate(*a) for a in ((X,), (new, X)))
    ridge = KernelRidge(alpha=1 / 5.0, kernel="precomputed").fit(gram, y - fit_intercept * y.mean())
    assert_allclose(model.predict(new), ridge.predict(test) + fit_intercept * y.mean(), rtol=1e-5)
    assert_allclose(model.dual_coef_[0], ridge.dual_coef_, rtol=1e-5, atol=1e-5 * np.abs(ridge.dual_coef_).max())


def test_on_a_centred_kernel_the_intercept_is_that_of_the_joint_problem():
    model = SVRGMKLRegressor([RBF(bandwidth=0.1)], C=5.0, normalize="center", tol=1e-12).fit(X, y)
    (gram,) = KernelFamily.fit([RBF(bandwidth=0.1)], X).evaluate(X)
    middle = np.eye(len(X)) - 1 / len(X)
    gram = middle @ gram @ middle
    # (K + I/C) a + b 1 = y, 1'a = 0
    n = len(X)
    system = np.block([[gram + np.eye(n) / 5.0, np.ones((n, 1))], [np.ones((1, n)), np.zeros((1, 1))]])
    joint = np.linalg.solve(system, np.append(y, 0.0))
    assert_allclose(model.intercept_[0], joint[-1])
    assert_allclose(model.predict(X), gram @ joint[:-1] + joint[-1], rtol=1e-5)


def test_the_constant_of_the_huber_loss_has_no_slope():
    model = SVRGMKLRegressor(KERNELS, loss="huber", delta=20.0).fit(X, y, sample_weight=np.arange(len(X)))
    slope = np.arange(len(X)) @ np.clip(model.intercept_[0] - y, -20.0, 20.0)
    assert abs(slope) < 1e-6 * np.arange(len(X)).sum()


def test_outliers_count_less_with_the_huber_loss():
    rng = np.random.default_rng(1)
    points = np.linspace(-3, 3, 80)[:, None]
    truth = np.sin(points[:, 0])
    spoilt = truth + np.where(rng.uniform(size=80) < 0.1, 30.0, 0.0)
    errors = {}
    for loss in ("squared", "huber"):
        model = SVRGMKLRegressor(loss=loss, delta=0.1, C=10.0).fit(points, spoilt)
        errors[loss] = np.abs(model.predict(points) - truth).mean()
    assert errors["huber"] < 0.2 * errors["squared"]


@pytest.mark.parametrize("solver", ["auto", "lbfgs", "paper"])
@pytest.mark.parametrize("loss", ["squared", "huber"])
def test_objective_follows_from_the_stored_attributes(solver, loss):
    scaled = (y - 100) / 50
    options = {"solver": solver, "C": 0.1, "p": 2.0, "tol": 1e-3, "random_state": 0, "delta": 0.5}
    model = SVRGMKLRegressor(KERNELS, loss=loss, **options).fit(X, scaled)
    alpha = np.zeros(len(X))
    alpha[model.support_] = model.dual_coef_[0]
    kernel = np.tensordot(model.weights_, KernelFamily.fit(KERNELS, X).evaluate(X), axes=1)
    assert_allclose(model.predict(X), kernel @ alpha + model.intercept_, atol=1e-8)
    rest = np.abs(model.predict(X) - scaled)
    each = rest**2 / 2 if loss == "squared" else np.where(rest <= 0.5, rest**2 / 2, 0.5 * (rest - 0.25))
    assert_allclose(model.objective_, alpha @ kernel @ alpha / (2 * 0.1 * len(X)) + each.mean(), rtol=1e-9)
    assert 0 <= model.dual_gap_ <= 1e-3 * model.objective_
    shares = model.kernel_contributions(X)
    assert shares.shape == (len(X), 3)
    assert_allclose(shares.sum(axis=1) + model.intercept_, model.predict(X))
    assert_allclose(model.score(X, scaled), r2_score(scaled, model.predict(X)))


def test_explicit_features_give_the_dense_answer():
    options = {"C": 1.0, "tol": 1e-8, "random_state": 0}
    dense = SVRGMKLRegressor("precomputed", **options).fit(GIVEN, Y)
    low = SVRGMKLRegressor("precomputed", **options).fit(LowRankStack(ROOTS), Y)
    assert_allclose(low.predict(LowRankStack(ROOTS, ROOTS)), dense.predict(GIVEN), rtol=1e-4)


def test_nystroem_features_work():
    kernels = [Nystroem(kernel=RBF(), rank=20, columns=[2, 3]), Nystroem(kernel=RBF(), rank=20, columns=[8, 9])]
    assert SVRGMKLRegressor(kernels, C=1.0, random_state=0).fit(X, y).score(X, y) > 0.4


def test_constant_targets_are_predicted():
    model = SVRGMKLRegressor(KERNELS).fit(X, np.full(len(X), 3.0))
    assert_allclose(model.predict(X), 3.0)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"p": 0.5}, "p=0.5 must be at least 1"),
        ({"C": -1.0}, "C=-1.0 must be positive"),
        ({"loss": "absolute"}, "loss='absolute' is not known: use one of 'squared', 'huber'"),
        ({"delta": 0.0}, "delta=0.0 must be positive"),
    ],
)
def test_bad_parameters_are_named(parameters, message):
    with pytest.raises(ValueError, match=message):
        SVRGMKLRegressor(KERNELS, **parameters).fit(X, y)


@pytest.mark.parametrize(
    ("targets", "message"),
    [(np.where(y > 100, "high", "low"), "a regressor predicts numbers"), (np.where(y > 300, np.nan, y), "NaN")],
)
def test_targets_that_are_no_numbers_are_refused(targets, message):
    gram = np.moveaxis(KernelFamily.fit(KERNELS, X).evaluate(X), 0, -1)
    for given, data in ((KERNELS, X), ("precomputed", gram)):
        with pytest.raises(ValueError, match=message):
            SVRGMKLRegressor(given).fit(data, targets)
