"""Generalised MKL: gradients, bounds, agreement with other formulations, stationary points."""

import numpy as np
import pytest
from mkl_problems import CubicSum, Quartic
from numpy.testing import assert_allclose, assert_array_equal
from references import minmax_bracket, result_of
from scipy.optimize import minimize_scalar
from sklearn.datasets import load_iris, make_classification

from multikernel import GMKLClassifier, KernelAverageClassifier
from multikernel.gram import BlockwiseStack, DenseStack, LazyStack
from multikernel.kernels import RBF, KernelFamily, Laplacian, Linear
from multikernel.problems.gmkl import (
    GeneralizedProblem,
    ProductOfKernels,
    SumOfKernels,
    as_rule,
    prepared,
)
from multikernel.problems.minmax import MinMaxProblem
from multikernel.problems.regularizers import L1, Entropy, SquaredL2, as_regularizer, dual_bound
from multikernel.problems.weight_sets import LpBall
from multikernel.solvers.gmkl import spectral_gradient
from multikernel.solvers.mkl.closed_form import closed_form
from multikernel.svm import CSVM, LabelSVMs

MEMORY = 1 << 30
PENALTIES = {"l1": L1(), "l2": SquaredL2(), "entropy": Entropy()}
IRIS_X, IRIS_y = load_iris(return_X_y=True)
BINARY_X, BINARY_y = make_classification(100, 6, n_informative=4, flip_y=0.1, random_state=0)


FAMILY = [RBF(columns=[0, 1]), RBF(columns=[2, 3]), Laplacian(columns=[0])]


def make_data(n=40, n_kernels=4, seed=0):
    """Kernels that are sums of squares, kernels exp(-distance), and signs that the first of them explains."""
    rng = np.random.default_rng(seed)
    factors = rng.normal(size=(n_kernels, n, 3))
    sums = factors @ factors.transpose(0, 2, 1) + 0.01 * np.eye(n)
    differences = factors[:, :, None, 0] - factors[:, None, :, 0]
    signs = np.where(factors[0, :, 0] + 0.5 * rng.normal(size=n) > 0, 1.0, -1.0)
    return sums, np.exp(-(differences**2)), signs


def make_problem(combination="sum", penalty="l1", reg=1.0, C=2.0, inner=None, **options):
    sums, products, signs = make_data(**options)
    rule = as_rule(combination)
    stack = prepared(rule, DenseStack(products if combination == "product" else sums))
    inner = CSVM(signs, C) if inner is None else inner(signs)
    return GeneralizedProblem(stack, inner, rule, as_regularizer(penalty), reg, MEMORY)


def solve(problem, tol=1e-6, start=None, max_iter=2000):
    return result_of(spectral_gradient, problem, tol, start, max_iter=max_iter)


def optimum(problem):
    return minmax_bracket(problem, solve(problem, 1e-9))


# -- gradients and bounds ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("labels", [1, 2])
@pytest.mark.parametrize(
    "penalty", [*PENALTIES, Quartic()], ids=lambda value: value if isinstance(value, str) else type(value).__name__
)
@pytest.mark.parametrize(
    "combination",
    ["sum", "product", CubicSum()],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
def test_gradient_equals_finite_differences(combination, penalty, labels):
    two = lambda signs: LabelSVMs(np.column_stack([signs, -signs * np.sign(np.arange(len(signs)) - 9.5)]), 2.0)  # noqa: E731
    problem = make_problem(combination, penalty, 0.7, inner=two if labels == 2 else None)
    d = np.array([0.5, 0.3, 0.8, 0.2])
    _, alpha = problem.solve_inner(d, None, 1e-12)
    step = 1e-5
    for k, slope in enumerate(problem.gradient(d, alpha)):
        shift = step * np.eye(4)[k]
        above, below = (problem.solve_inner(d + s, alpha, 1e-12)[0] for s in (shift, -shift))
        assert_allclose((above - below) / (2 * step), slope, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("penalty", PENALTIES.values(), ids=PENALTIES)
def test_bound_is_the_best_over_scaled_alpha(penalty):
    """The definition: max over s of s linear − max over d of ½ s² d·q − r(d), the inner one entry by entry."""
    q, linear, reg = np.array([3.0, 0.5, 1.2]), 4.0, 0.8
    grid = np.linspace(1e-9, 60.0, 40_001)
    values = np.array([reg * penalty.value(np.array([x])) for x in grid])

    def conjugate(s):
        entries = 0.5 * s**2 * q[:, None] * grid - values
        attained = entries.argmax(axis=1) < len(grid) - 1  # at the end of the grid it grows without limit
        return entries.max(axis=1).sum() if attained.all() else np.inf

    best = max(s * linear - conjugate(s) for s in np.linspace(0.0, 1.0, 401))
    assert_allclose(dual_bound(penalty, reg, linear, q), best, rtol=5e-3)


@pytest.mark.parametrize("q", [np.zeros(3), np.array([1e-300, 0.0, 0.0]), np.array([1e6, 1.0, 0.0])], ids=str)
@pytest.mark.parametrize("penalty", PENALTIES.values(), ids=PENALTIES)
def test_bounds_are_finite_whatever_the_quadratic_forms(penalty, q):
    assert np.isfinite(dual_bound(penalty, 2.0, 3.0, q))


@pytest.mark.parametrize("penalty", PENALTIES)
def test_certificate_brackets_the_optimum_for_any_parameters_and_alpha(penalty):
    problem = make_problem("sum", penalty)
    best = optimum(problem)
    rng = np.random.default_rng(1)
    for _ in range(20):
        d = problem.project(rng.exponential(size=4))
        alpha = problem.inner.repair(rng.normal(size=len(problem.stack)))
        certificate = problem.certificate(d, alpha)
        assert certificate.dual <= best.upper
        assert certificate.primal >= best.lower


def test_a_nearly_constant_kernel_certifies_nothing_by_rounding():
    svm = CSVM([1.0, -1.0, 1.0, -1.0], C=1.0)
    alpha = np.array([1.0, -1.0, 1.0, -1.0])
    scores = np.array([1e-200, 0.0, 1e-200, 0.0])  # what rounding leaves of K @ alpha
    assert_allclose(svm.certificate(scores, alpha).primal, 4.0)


# -- sums: agreement with other formulations -------------------------------------------------------------------------


@pytest.mark.parametrize("reg", [0.05, 1.0, 30.0])
@pytest.mark.parametrize("penalty", PENALTIES)
def test_sums_reach_the_optimum(penalty, reg):
    problem = make_problem("sum", penalty, reg)
    result = solve(problem)
    assert result.converged
    assert problem.inner.violation(result.alpha) == 0.0
    optimum(problem).proves(result.certificate, 1e-6)


def awkward(case):
    """Kernels and C that solvers stumble over."""
    sums, _, signs = make_data()
    rng = np.random.default_rng(2)
    vector = rng.normal(size=len(signs))
    stacks = {
        "one kernel": sums[:1],
        "duplicates": sums[[0, 1, 1, 0]],
        "a zero kernel": np.concatenate([sums, np.zeros_like(sums[:1])]),
        "rank one": np.stack([np.outer(vector, vector), sums[0]]),
        "more kernels than samples": np.stack([np.outer(v, v) for v in rng.normal(size=(60, len(signs)))]),
        "sizes apart": sums * np.array([1e-3, 1.0, 1e3, 1e2])[:, None, None],
    }
    return stacks.get(case, sums), signs, {"huge C": 1e4, "tiny C": 1e-4}.get(case, 2.0)


@pytest.mark.parametrize("penalty", PENALTIES)
@pytest.mark.parametrize(
    "case",
    [
        "one kernel",
        "duplicates",
        "a zero kernel",
        "rank one",
        "more kernels than samples",
        "sizes apart",
        "huge C",
        "tiny C",
    ],
)
def test_awkward_sums_reach_the_optimum(case, penalty):
    K, signs, C = awkward(case)
    problem = GeneralizedProblem(DenseStack(K), CSVM(signs, C), SumOfKernels(), PENALTIES[penalty], 1.0, MEMORY)
    result = solve(problem, 1e-5)
    assert result.converged
    optimum(problem).proves(result.certificate, 1e-5)


@pytest.mark.parametrize("reg", [0.1, 5.0])
def test_squared_l2_penalty_is_l2_norm_mkl_on_scaled_kernels(reg):
    """With rho = ‖d‖₂ at the solution, J(d) is the optimum over the ball of radius rho, attained at d / rho."""
    problem = make_problem("sum", "l2", reg)
    result = solve(problem, 1e-8)
    rho = np.linalg.norm(result.weights)
    ball = MinMaxProblem(DenseStack(rho * problem.stack.to_array()), problem.inner, LpBall(2.0), MEMORY)
    expected = result_of(closed_form, ball, 1e-8)
    assert_allclose(result.certificate.primal - 0.5 * reg * rho**2, expected.certificate.primal, rtol=1e-6)
    assert_allclose(result.weights / rho, expected.weights, atol=1e-3)


@pytest.mark.parametrize("reg", [1.0, 50.0])
def test_l1_penalty_is_l1_norm_mkl_on_scaled_kernels(reg):
    problem = make_problem("sum", "l1", reg)
    result = solve(problem, 1e-7)
    rho = result.weights.sum()
    ball = MinMaxProblem(DenseStack(rho * problem.stack.to_array()), problem.inner, LpBall(1.0), MEMORY)
    certificate = ball.certificate(result.weights / rho, result.alpha)
    assert certificate.relative_gap <= 1e-5  # so d / rho is optimal there, whoever found it
    assert_allclose(certificate.primal, result.certificate.primal - reg * rho, rtol=1e-6)


def test_a_penalty_that_no_kernel_is_worth_leaves_zero_weights():
    problem = make_problem("sum", "l1", 1e6)
    result = solve(problem)
    assert result.converged
    assert_array_equal(result.weights, 0.0)
    smaller_class = min((problem.inner.signs > 0).sum(), (problem.inner.signs < 0).sum())
    assert_allclose(result.certificate.primal, 2 * problem.inner.C * smaller_class)


@pytest.mark.parametrize("scale", [1e-4, 1e4])
def test_the_scale_of_kernels_is_made_up_for_by_the_penalty(scale):
    """J(Σ d K) + reg Σ d with kernels times s is the same problem in d/s with reg s."""
    problem = make_problem("sum", "l1")
    scaled = GeneralizedProblem(
        DenseStack(scale * problem.stack.to_array()), problem.inner, SumOfKernels(), L1(), scale, MEMORY
    )
    first, second = solve(problem, 1e-7), solve(scaled, 1e-7)
    assert second.converged
    assert_allclose(second.certificate.primal, first.certificate.primal, rtol=1e-6)
    assert_allclose(scale * second.weights, first.weights, rtol=1e-2, atol=1e-3)


def test_single_precision_kernels_reach_the_same_optimum():
    problem = make_problem("sum", "l2")
    single = GeneralizedProblem(
        DenseStack(problem.stack.to_array().astype(np.float32)),
        problem.inner,
        SumOfKernels(),
        SquaredL2(),
        1.0,
        MEMORY,
    )
    result = solve(single, 1e-4)
    assert result.converged
    assert_allclose(result.certificate.primal, solve(problem).certificate.primal, rtol=2e-4)


# -- products --------------------------------------------------------------------------------------------------------


def test_product_with_one_feature_is_a_search_over_the_width():
    _, kernels, signs = make_data(n_kernels=1)
    reg, svm, squares = 0.5, CSVM(signs, 2.0), -np.log(kernels[0])
    problem = make_problem("product", "l1", reg, n_kernels=1)
    result = solve(problem)

    def objective(width):
        return svm.solve(np.exp(-width * squares), tol=1e-10)[0] + reg * width

    nearby = minimize_scalar(objective, bounds=(0.3 * result.weights[0], 3 * result.weights[0]), method="bounded")
    assert result.stopped == "stationary"
    assert_allclose(result.weights[0], nearby.x, rtol=1e-3)
    assert_allclose(result.certificate.primal, nearby.fun, rtol=1e-6)
    grid = [objective(width) for width in np.geomspace(1e-3, 1e2, 60)]
    assert result.certificate.primal <= min(grid) * (1 + 1e-6)


@pytest.mark.parametrize("penalty", PENALTIES)
def test_products_end_at_stationary_points_and_claim_no_more(penalty):
    problem = make_problem("product", penalty)
    result = solve(problem)
    assert result.stopped == "stationary"
    assert not result.converged
    assert np.isnan(result.certificate.gap)
    assert result.certificate.stationarity <= 1e-6
    assert all("stationarity" in row for row in result.history)
    # a stationary point by its definition: no small step along minus the gradient lowers the objective
    value, alpha = problem.solve_inner(result.weights, result.alpha, 1e-10)
    gradient = problem.gradient(result.weights, alpha)
    for step in (1e-3, 1e-2, 1e-1):
        there = problem.project(result.weights - step * gradient)
        assert problem.solve_inner(there, alpha, 1e-10)[0] >= value * (1 - 1e-8)


def test_a_loose_svm_is_not_taken_for_a_stationary_point():
    problem = make_problem("product")
    d = solve(problem).weights
    assert problem.certificate(d, problem.inner.start()).stationarity > 0.5


@pytest.mark.parametrize("seed", range(3))
def test_features_that_do_not_matter_get_a_width_of_about_zero(seed):
    X = np.random.default_rng(seed).normal(size=(900, 8))
    y = X[:, 0] ** 2 + X[:, 1] ** 2 > 1.4
    model = GMKLClassifier(combination="product", reg=40.0).fit(X[:300], y[:300])
    assert model.stationarity_ <= model.tol
    assert model.weights_[2:].max() < 0.05 * model.weights_[:2].min()
    equal_widths = KernelAverageClassifier([RBF(columns=[k]) for k in range(8)], how="product").fit(X[:300], y[:300])
    assert model.score(X[300:], y[300:]) > equal_widths.score(X[300:], y[300:]) + 0.03


def test_exponents_are_the_widths_of_the_features():
    model = GMKLClassifier(combination="product", reg=5.0).fit(BINARY_X[:70], BINARY_y[:70])
    bandwidths = np.array([((column[:, None] - column) ** 2).mean() for column in BINARY_X[:70].T])
    gammas = model.weights_ / bandwidths
    squares = (BINARY_X[70:, None, :] - BINARY_X[model.support_]) ** 2
    scores = np.exp(-squares @ gammas) @ model.dual_coef_[0] + model.intercept_[0]
    assert_allclose(model.decision_function(BINARY_X[70:]), scores, atol=1e-9)


def test_kernels_with_negative_entries_have_no_product():
    with pytest.raises(ValueError, match=r'kernel "linear" has .* negative ones here, the lowest -'):
        GMKLClassifier([RBF(), Linear()], "product").fit(BINARY_X, BINARY_y)


def test_zero_entries_count_as_the_smallest_number():
    K = np.stack([np.eye(3), np.full((3, 3), 0.5)])
    rule = ProductOfKernels()
    combined = rule.combine(rule.prepare(DenseStack(K)), np.array([0.0, 1.0]))
    assert_allclose(combined, 0.5)
    combined = rule.combine(rule.prepare(DenseStack(K)), np.array([1.0, 1.0]))
    assert_allclose(combined, 0.5 * np.eye(3), atol=1e-300)


def test_large_kernel_entries_do_not_overflow_the_search():
    """Powers of entries above one grow without limit; steps that go too far are taken back."""
    _, kernels, signs = make_data()
    rule = ProductOfKernels()
    stack = rule.prepare(DenseStack(1e30 * kernels))
    result = solve(GeneralizedProblem(stack, CSVM(signs, 2.0), rule, L1(), 1.0, MEMORY), 1e-3)
    assert np.isfinite(result.certificate.primal)
    assert result.stopped == "stationary"


def test_a_product_that_is_not_positive_semi_definite_is_an_error():
    block = np.array([[1.0, 0.8, 0.3], [0.8, 1.0, 0.8], [0.3, 0.8, 1.0]])
    K = np.kron(np.eye(4), block) + 1e-9
    assert np.linalg.eigvalsh(K)[0] > 0 > np.linalg.eigvalsh(K**0.1)[0] + 1e-3
    X = np.stack([K] + 9 * [np.ones((12, 12))], axis=-1)  # the start gives each the exponent 0.1
    y = np.tile([0, 1, 0], 4)
    with pytest.raises(ValueError, match=r"the combined kernel at weights .* is not positive semi-definite"):
        GMKLClassifier("precomputed", "product").fit(X, y)


def test_stacks_beyond_the_budget_are_read_through_logarithms():
    family = KernelFamily.fit(FAMILY, BINARY_X)
    lazy, dense = LazyStack(family, BINARY_X, memory=0), DenseStack(family.evaluate(BINARY_X))
    rule, d = ProductOfKernels(), np.array([0.3, 1.2, 0.0])
    through = rule.prepare(lazy)
    assert isinstance(through, BlockwiseStack)
    expected = np.prod(family.evaluate(BINARY_X) ** d[:, None, None], axis=0)
    assert_allclose(rule.combine(through, d), expected, rtol=1e-12)
    assert_allclose(rule.combine(rule.prepare(dense), d), expected, rtol=1e-12)
    assert_allclose(rule.diagonal(through, d), 1.0)
    alpha = np.random.default_rng(0).normal(size=(100, 2)) * (np.arange(100) % 3 == 0)[:, None]
    expected = rule.gradient(rule.prepare(dense), d, alpha)
    assert_allclose(rule.gradient(through, d, alpha), expected, rtol=1e-10)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("columns", [None, [0, 2, 2], [5]], ids=str)
def test_inner_products_with_a_matrix_are_sums_over_entries(columns, dtype):
    rng = np.random.default_rng(0)
    K = rng.normal(size=(3, 7, 7)).astype(dtype)
    part = DenseStack(K).take([1, 4, 4], columns, [2, 0])
    W = rng.normal(size=part.shape[:2])
    assert_allclose(part.inner_products(W), np.einsum("fij,ij->f", part.to_array(), W), rtol=1e-6)
