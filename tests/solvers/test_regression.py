"""ℓp-norm MKL with support vector regression: the joint optimum, its conditions, scikit-learn's SVR, edge cases."""

import warnings

import cvxpy as cp
import numpy as np
import pytest
from mkl_problems import AWKWARD, make_kernels
from numpy.testing import assert_allclose, assert_array_equal
from references import joint_optimum
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVR as ScikitSVR

from multikernel import MKLRegressor, gram_stack
from multikernel.gram import LowRankStack
from multikernel.inspection import results_frame, view_importance
from multikernel.kernels import RBF, Linear
from multikernel.solvers.catalogue import SOLVERS
from multikernel.svm import SVR

PS = [1.0, 4 / 3, 2.0, np.inf]


def task(n=30, seed=0, **options):
    """Kernels (n, n, F), targets, and the C that goes with awkward ones."""
    K, signs, C = make_kernels(n=n, seed=seed, **options)
    noise = np.random.default_rng(seed + 1).normal(size=len(signs))
    return np.moveaxis(K, 0, -1), 2.0 + 0.5 * signs + noise, C


def optimum(K, y, C, epsilon, p, weight=1.0):
    """min over weights of the SVR's optimum."""
    alpha = cp.Variable(len(y))
    constraints = [cp.abs(alpha) <= C * weight, cp.sum(alpha) == 0]
    return joint_optimum(K, p, alpha, y @ alpha - epsilon * cp.norm1(alpha), constraints)


def primal(K, y, C, epsilon, model, weight=1.0):
    """½‖w‖² + C Σ s max(0, |y − f| − ε) from fitted attributes."""
    alpha = np.zeros(len(y))
    alpha[model.support_] = model.dual_coef_[0]
    scores = K @ model.weights_ @ alpha
    losses = np.maximum(np.abs(y - scores - model.intercept_) - epsilon, 0.0)
    return 0.5 * alpha @ scores + C * np.sum(weight * losses)


@pytest.mark.numerical
@pytest.mark.parametrize("p", PS)
@pytest.mark.parametrize("epsilon", [0.0, 0.1, 0.8])
def test_the_optimum_is_that_of_the_joint_problem(p, epsilon):
    for seed, C in ((0, 0.1), (1, 3.0)):
        K, y, _ = task(seed=seed)
        weight = np.random.default_rng(seed).integers(0, 4, size=len(y)).astype(float)
        model = MKLRegressor("precomputed", p, C, epsilon, tol=1e-8).fit(K, y, sample_weight=weight)
        assert model.converged_
        assert 0.0 <= model.dual_gap_ <= 1e-8 * model.objective_
        assert model.objective_ == pytest.approx(optimum(K, y, C, epsilon, p, weight), rel=1e-6)
        assert model.objective_ == pytest.approx(primal(K, y, C, epsilon, model, weight), rel=1e-9)


@pytest.mark.numerical
@pytest.mark.parametrize("solver", [name for name in SOLVERS["mkl"] if name != "smo"])
def test_every_solver_finds_the_optimum(solver):
    K, y, _ = task()
    found = SOLVERS["mkl"][solver]
    for p in (p for p in (1.0, 2.0) if found.smallest <= p <= found.largest):
        model = MKLRegressor("precomputed", p, 1.0, 0.1, solver, tol=1e-6).fit(K, y)
        assert model.converged_
        assert model.objective_ == pytest.approx(optimum(K, y, 1.0, 0.1, p), rel=2e-6)


def test_smo_on_the_joint_dual_is_for_classifiers():
    K, y, _ = task()
    with pytest.raises(ValueError, match='solver="auto"'):
        MKLRegressor("precomputed", 2.0, solver="smo").fit(K, y)


@pytest.mark.numerical
@pytest.mark.parametrize("p", [1.0, 2.0])
@pytest.mark.parametrize("case", AWKWARD)
def test_awkward_problems_are_certified_and_optimal(case, p):
    K, y, C = task(**AWKWARD[case])
    model = MKLRegressor("precomputed", p, C, 0.1, tol=1e-6).fit(K, y)
    assert model.converged_
    assert model.objective_ == pytest.approx(primal(K, y, C, 0.1, model), rel=1e-7)
    if case != "kernels of very different size":  # of which the interior-point reference makes too little
        assert model.objective_ == pytest.approx(optimum(K, y, C, 0.1, p), rel=1e-5)


@pytest.mark.numerical
def test_the_solution_satisfies_the_kkt_conditions():
    K, y, _ = task(60)
    C, epsilon, p = 1.0, 0.2, 1.5
    model = MKLRegressor("precomputed", p, C, epsilon, tol=1e-10).fit(K, y)
    alpha = np.zeros(len(y))
    alpha[model.support_] = model.dual_coef_[0]
    residual = y - model.predict(K)
    slack = 1e-4
    assert abs(alpha.sum()) <= 1e-12
    assert np.abs(alpha).max() <= C
    inside, outside = np.abs(residual) < epsilon - slack, np.abs(residual) > epsilon + slack
    assert (alpha[inside] == 0.0).all()
    assert_array_equal(alpha[outside], C * np.sign(residual[outside]))
    free = (alpha != 0.0) & (np.abs(alpha) < C)
    assert inside.any()
    assert outside.any()
    assert free.any()
    assert_allclose(residual[free], epsilon * np.sign(alpha[free]), atol=slack)
    q = np.einsum("i,ijf,j->f", alpha, K, alpha)
    best = (q / np.linalg.norm(q, p / (p - 1.0))) ** (1.0 / (p - 1.0))
    assert_allclose(model.weights_, best, atol=1e-4)


@pytest.mark.numerical
@pytest.mark.parametrize("epsilon", [0.0, 0.1])
def test_equal_weights_are_scikit_learns_regression_on_the_average_kernel(epsilon):
    K, y, _ = task(80)
    train, test = np.arange(60), np.arange(60, 80)
    C, F = 0.7, K.shape[2]
    model = MKLRegressor("precomputed", np.inf, C, epsilon, tol=1e-10).fit(K[np.ix_(train, train)], y[train])
    average = K.mean(axis=2)
    reference = ScikitSVR(kernel="precomputed", C=C * F, epsilon=epsilon, tol=1e-9)
    reference.fit(average[np.ix_(train, train)], y[train])
    assert_array_equal(model.weights_, np.ones(F))
    assert_allclose(model.predict(K[np.ix_(test, train)]), reference.predict(average[np.ix_(test, train)]), atol=1e-4)
    assert_allclose(model.intercept_, reference.intercept_, atol=1e-4)


@pytest.mark.numerical
@pytest.mark.parametrize("C", [1e-3, 1.0, 1e3, 1e6])
@pytest.mark.parametrize("kind", ["rbf", "narrow", "wide", "linear", "rank one", "constant", "zero"])
@pytest.mark.parametrize("n", [2, 4, 60])
def test_one_kernel_is_solved_as_well_as_by_scikit_learn(n, kind, C):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 5))
    y = 5.0 + np.sin(2.0 * X[:, 0]) + 0.3 * rng.normal(size=n)
    D = ((X[:, None] - X) ** 2).sum(axis=-1)
    width = {"rbf": 5.0, "narrow": 0.05, "wide": 1e4}
    K = {"linear": X @ X.T, "rank one": np.outer(X[:, 0], X[:, 0]), "constant": np.full((n, n), 2.0)}.get(kind)
    K = np.zeros((n, n)) if kind == "zero" else np.exp(-D / width[kind]) if K is None else K
    for epsilon in (0.0, 1e-6, 0.1):
        svr = SVR(y, C, epsilon)
        value, alpha = svr.solve(K, tol=1e-7)
        assert svr.violation(alpha) == 0.0
        assert svr.certificate(K @ alpha, alpha).relative_gap <= 1e-6
        model = ScikitSVR(kernel="precomputed", C=C, epsilon=epsilon, tol=1e-7, max_iter=30_000)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model.fit(K, y)
        other = np.zeros(n)
        other[model.support_] = model.dual_coef_[0]
        reference = y @ other - epsilon * np.abs(other).sum() - 0.5 * other @ K @ other
        assert value >= reference - 1e-6 * abs(reference) - 1e-12
        # the linear part again, from its definition
        assert_allclose(value, y @ alpha - epsilon * np.abs(alpha).sum() - 0.5 * alpha @ K @ alpha, rtol=1e-6)


@pytest.mark.numerical
@pytest.mark.parametrize(("n", "size"), [(40, 30), (400, 100)])
def test_warm_starts_and_kernels_out_of_memory_give_the_same_value(n, size):
    class Reads:
        """A kernel that is not an array."""

        def __init__(self, K):
            self.K, self.shape = K, K.shape

        def diagonal(self):
            return np.diag(self.K).copy()

        def submatrix(self, rows, columns):
            return self.K[np.ix_(rows, columns)]

        def matvec(self, alpha):
            return self.K @ alpha

    X = np.random.default_rng(0).normal(size=(n, 3))
    K = np.exp(-((X[:, None] - X) ** 2).sum(axis=-1))
    svr = SVR(np.sin(3.0 * X[:, 0]), 10.0, 0.05)
    value, alpha = svr.solve(K, tol=1e-8)
    for kernel, start, largest in (
        (K, alpha, None),
        (K, -alpha, None),
        (Reads(K), None, size),
        (K.astype("f"), None, None),
    ):
        again, _ = svr.solve(kernel, start, tol=1e-6, working_size=largest)
        assert again == pytest.approx(value, rel=1e-5)


@pytest.mark.parametrize("p", [1.0, 2.0, np.inf])
def test_a_tube_with_room_for_all_targets_needs_no_coefficients(p):
    K, y, _ = task()
    epsilon = 0.5 * np.ptp(y)  # just wide enough
    for model, targets in (
        (MKLRegressor("precomputed", p, epsilon=epsilon, tol=1e-9), y),
        (MKLRegressor("precomputed", p, epsilon=2.0 * epsilon, tol=1e-9), y),
        (MKLRegressor("precomputed", p, epsilon=0.0, tol=1e-9), np.full(len(y), 7.3)),
    ):
        model.fit(K, targets)
        assert model.converged_
        assert model.objective_ == pytest.approx(0.0, abs=1e-12)
        assert np.abs(model.dual_coef_).max(initial=0.0) <= 1e-12
        assert_allclose(model.predict(K), 0.5 * (targets.min() + targets.max()))


@pytest.mark.parametrize("p", [1.0, 2.0])
def test_kernels_that_say_nothing_leave_the_best_constant(p):
    y = np.array([1.0, 2.0, 2.5, 9.0])
    model = MKLRegressor("precomputed", p, C=2.0, epsilon=0.0, tol=1e-9).fit(np.zeros((4, 4, 3)), y)
    assert model.converged_
    assert model.objective_ == pytest.approx(2.0 * np.abs(y - np.median(y)).sum())
    assert_allclose(model.predict(np.zeros((4, 4, 3))), np.median(y))


@pytest.mark.numerical
def test_two_samples_and_repeated_ones():
    K = np.stack([np.eye(2), np.full((2, 2), 1.0)], axis=-1)
    model = MKLRegressor("precomputed", C=10.0, epsilon=0.5, tol=1e-9).fit(K, [0.0, 2.0])
    assert_allclose(model.weights_, [1.0, 0.0], atol=1e-6)
    assert_allclose(model.predict(K), [0.5, 1.5], atol=1e-6)
    repeated = np.ones((6, 6, 2))  # one sample, six answers: the constant is all there is
    y = np.array([0.0, 1.0, 1.0, 2.0, 3.0, 10.0])
    model = MKLRegressor("precomputed", C=1.0, epsilon=0.0, tol=1e-9).fit(repeated, y)
    assert model.objective_ == pytest.approx(np.abs(y - 1.5).sum(), rel=1e-8)


@pytest.mark.numerical
def test_targets_far_from_zero_and_huge_prices_keep_their_proof():
    K, y, _ = task(40, rank=8)
    reference = MKLRegressor("precomputed", 2.0, 1.0, 0.1, tol=1e-9).fit(K, y)
    far = MKLRegressor("precomputed", 2.0, 1.0, 0.1, tol=1e-6).fit(K, y + 1e8)
    assert far.converged_
    assert_allclose(far.predict(K) - 1e8, reference.predict(K), atol=1e-3)
    huge = MKLRegressor("precomputed", 2.0, 1e8, 0.1, tol=1e-4).fit(K, y)
    assert huge.converged_
    assert np.abs(huge.predict(K) - y).max() <= 0.1 + 1e-4


@pytest.mark.numerical
def test_whole_weights_are_repeated_samples_and_zero_leaves_out():
    K, y, _ = task()
    weight = np.random.default_rng(3).integers(0, 4, size=len(y))
    rows = np.repeat(np.arange(len(y)), weight)
    weighted = MKLRegressor("precomputed", 1.5, tol=1e-9).fit(K, y, sample_weight=weight)
    repeated = MKLRegressor("precomputed", 1.5, tol=1e-9).fit(K[np.ix_(rows, rows)], y[rows])
    assert weighted.objective_ == pytest.approx(repeated.objective_, rel=1e-8)
    assert_allclose(weighted.weights_, repeated.weights_, atol=1e-5)
    assert_allclose(weighted.predict(K), repeated.predict(K[:, rows]), atol=1e-4)
    assert not np.isin(weighted.support_, np.flatnonzero(weight == 0)).any()


@pytest.mark.numerical
def test_the_order_of_kernels_and_of_samples_does_not_matter():
    K, y, _ = task()
    kernels, samples = np.random.default_rng(0).permutation(5), np.random.default_rng(1).permutation(len(y))
    model = MKLRegressor("precomputed", tol=1e-9).fit(K, y)
    other = MKLRegressor("precomputed", tol=1e-9).fit(K[np.ix_(samples, samples)][:, :, kernels], y[samples])
    assert other.objective_ == pytest.approx(model.objective_, rel=1e-8)
    assert_allclose(other.weights_, model.weights_[kernels], atol=1e-4)


@pytest.mark.numerical
def test_features_of_low_rank_give_the_same_model_as_their_kernels():
    rng = np.random.default_rng(0)
    features = [rng.normal(size=(50, rank)) for rank in (2, 5, 3)]
    y = features[1][:, 0] + 0.1 * rng.normal(size=50)
    K = np.stack([Z @ Z.T for Z in features], axis=-1)
    dense = MKLRegressor("precomputed", 1.5, tol=1e-8).fit(K, y)
    low = MKLRegressor("precomputed", 1.5, tol=1e-8).fit(LowRankStack(features), y)
    assert low.objective_ == pytest.approx(dense.objective_, rel=1e-7)
    assert_allclose(low.predict(K), dense.predict(K), atol=1e-4)


def diabetes():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 4))
    return X, np.sin(2.0 * X[:, 0]) + X[:, 2] + 0.1 * rng.normal(size=120)


VIEWS = [RBF(columns=[0, 1], name="first"), RBF(columns=[2, 3], name="second"), Linear(columns=[3])]


def test_samples_without_a_view_are_predicted_by_the_others():
    X, y = diabetes()
    X = X.copy()
    X[::5, :2] = np.nan
    model = MKLRegressor(VIEWS, C=10.0, missing="mask").fit(X, y)
    assert model.n_missing_["first"] == 24
    assert model.score(X, y) > 0.8


def test_searches_pipelines_and_inspection_take_it():
    X, y = diabetes()
    pipeline = make_pipeline(StandardScaler(), MKLRegressor(VIEWS, normalize="variance"))
    search = GridSearchCV(pipeline, {"mklregressor__C": [0.1, 10.0], "mklregressor__epsilon": [0.1, 5.0]}, cv=3)
    search.fit(X, y)
    assert search.best_params_ == {"mklregressor__C": 10.0, "mklregressor__epsilon": 0.1}
    model = MKLRegressor(VIEWS, C=10.0).fit(X[:80], y[:80])
    importance = view_importance(model, X[80:], y[80:], random_state=0)
    assert importance.p_values[0] < 0.05
    pytest.importorskip("pandas")
    assert results_frame(model, importance).shape[0] == 3


def test_a_stack_that_is_computed_on_the_fly_gives_the_same_predictions():
    X, y = diabetes()
    kept = MKLRegressor(VIEWS, p=2.0, tol=1e-8).fit(X, y)
    lazy = MKLRegressor(VIEWS, p=2.0, tol=1e-8, memory="20kB").fit(X, y)
    given = MKLRegressor("precomputed", p=2.0, tol=1e-8).fit(gram_stack(X, VIEWS), y)
    assert_allclose(lazy.predict(X), kept.predict(X), atol=1e-5)
    assert_allclose(given.predict(gram_stack(X, VIEWS)), kept.predict(X), atol=1e-5)


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"C": 0.0}, "C must be a positive number"),
        ({"epsilon": -0.1}, "epsilon must be a number of at least 0"),
        ({"epsilon": np.nan}, "epsilon"),
        ({"p": 0.5}, "p"),
        ({"solver": "none"}, "is not known"),
    ],
)
def test_parameters_outside_their_range_are_refused(parameters, words):
    K, y, _ = task()
    with pytest.raises(ValueError, match=words):
        MKLRegressor("precomputed", **parameters).fit(K, y)
