"""The SVM engine against scikit-learn and the definitions."""

import warnings
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from references import Ball, svm_bracket
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import SVC, NuSVC

from multikernel.svm import CSVM, LabelSVMs, NuSVM


def classification(n, seed=0, noise=0.5, d=5):
    generator = np.random.default_rng(seed)
    X = generator.normal(size=(n, d))
    signs = np.where(X[:, 0] + noise * generator.normal(size=n) > 0, 1.0, -1.0)
    signs[:2] = 1.0, -1.0
    return X, signs


def rbf(X, width=5.0):
    return np.exp(-((X[:, None] - X[None]) ** 2).sum(-1) / width)


def kernel(kind, X):
    n = len(X)
    if kind == "duplicates":
        return rbf(X[np.arange(n) % max(n // 3, 2)])
    return {
        "rbf": lambda: rbf(X),
        "narrow": lambda: rbf(X, 0.05),
        "wide": lambda: rbf(X, 1e4),
        "linear": lambda: X @ X.T,
        "rank one": lambda: np.outer(X[:, 0], X[:, 0]),
        "constant": lambda: np.full((n, n), 2.0),
        "zero": lambda: np.zeros((n, n)),
        "tiny": lambda: 1e-8 * rbf(X),
    }[kind]()


KINDS = ["rbf", "narrow", "wide", "linear", "rank one", "constant", "zero", "duplicates", "tiny"]


def dual_value(K, signs, alpha):
    return signs @ alpha - 0.5 * alpha @ K @ alpha


def sklearn_value(K, signs, C):
    model = SVC(kernel="precomputed", C=C, tol=1e-7, max_iter=300_000)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(K, signs)
    alpha = np.zeros(len(signs))
    alpha[model.support_] = model.dual_coef_[0]
    return dual_value(K, signs, alpha)


@pytest.mark.parametrize("C", [1e-3, 1.0, 1e3, 1e6])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n", [4, 60])
def test_value_is_at_least_that_of_scikit_learn_and_is_certified(n, kind, C):
    X, signs = classification(n)
    K = kernel(kind, X)
    svm = CSVM(signs, C)
    value, alpha = svm.solve(K, tol=1e-7)
    reference = sklearn_value(K, signs, C)
    assert value >= reference - 1e-6 * abs(reference)
    assert_allclose(value, dual_value(K, signs, alpha), rtol=1e-9)
    assert svm.violation(alpha) == 0.0
    assert svm.certificate(K @ alpha, alpha).relative_gap <= 1e-6


@pytest.mark.parametrize("C", [0.1, 10.0, 1000.0])
def test_value_agrees_with_scikit_learn_on_a_thousand_samples(C):
    X, signs = classification(1000, noise=0.3)
    K = rbf(X)
    value, _ = CSVM(signs, C).solve(K, tol=1e-8)
    assert_allclose(value, sklearn_value(K, signs, C), rtol=1e-6)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("C", [1e-3, 1.0, 1e4])
def test_box_problem_satisfies_the_kkt_conditions(kind, C):
    X, signs = classification(60)
    K = kernel(kind, X)
    svm = CSVM(signs, C, bias=False)
    _, alpha = svm.solve(K, tol=1e-7)
    assert svm.violation(alpha) == 0.0
    assert svm.intercept(K @ alpha) == 0.0
    margins = signs * (K @ alpha)
    # each sample's share of the gap: what its alpha loses by not being where its margin says
    shares = np.maximum(1 - margins, 0) * (C - np.abs(alpha)) + np.maximum(margins - 1, 0) * np.abs(alpha)
    primal = 0.5 * alpha @ K @ alpha + C * np.maximum(1 - margins, 0).sum()
    assert shares.sum() <= 1e-6 * primal
    assert svm.certificate(K @ alpha, alpha).relative_gap <= 1e-7


# not multiples of 2/n, for which the margin is not unique
@pytest.mark.parametrize(
    ("kind", "nu"),
    [("rbf", 0.06), ("rbf", 0.43), ("narrow", 0.43), ("narrow", 0.81), ("linear", 0.43), ("linear", 0.81)],
)
def test_nu_svm_agrees_with_scikit_learn(kind, nu):
    X, signs = classification(80, noise=0.3)
    K = kernel(kind, X)
    svm = NuSVM(signs, nu)
    value, alpha = svm.solve(K, tol=1e-8)
    model = NuSVC(kernel="precomputed", nu=nu, tol=1e-7, max_iter=1_000_000).fit(K, signs)
    reference = np.zeros(len(signs))
    reference[model.support_] = model.dual_coef_[0]
    reference *= nu / np.abs(reference).sum()  # scikit-learn divides by the margin
    assert_allclose(value, -0.5 * reference @ K @ reference, rtol=1e-6)
    assert svm.violation(alpha) == 0.0
    assert_allclose(np.abs(alpha).sum(), nu, rtol=1e-12)
    scores = (K @ alpha + svm.intercept(K @ alpha)) / svm.margin(K @ alpha)
    assert_allclose(scores, model.decision_function(K), atol=1e-4)


def test_nu_svm_stops_where_the_optimum_is_zero():
    X, signs = classification(80, noise=1.5)
    svm = NuSVM(signs, 0.05)  # the classes' hulls overlap: alpha'K alpha = 0 is within reach
    value, alpha = svm.solve(X @ X.T, tol=1e-8)
    assert svm.violation(alpha) == 0.0
    assert abs(value) <= 1e-15


@pytest.mark.parametrize("kind", ["constant", "zero", "duplicates", "rank one"])
def test_nu_svm_survives_degenerate_kernels(kind):
    X, signs = classification(20)
    K = kernel(kind, X)
    svm = NuSVM(signs, 0.3)
    _, alpha = svm.solve(K, tol=1e-7)
    certificate = svm.certificate(K @ alpha, alpha)
    assert svm.violation(alpha) == 0.0
    assert certificate.gap <= 1e-7 * abs(certificate.primal) + 1e-12


def test_infeasible_nu_says_the_largest_feasible_one():
    with pytest.raises(ValueError, match=r"at most 0\.5"):
        NuSVM([1, -1, -1, -1], 0.6)
    NuSVM([1, -1, -1, -1], 0.5).solve(np.eye(4))


problems = st.tuples(
    st.integers(1, 12),  # samples
    st.integers(1, 4),  # rank of the kernel
    st.sampled_from([0.0, 1e-3, 1.0, 100.0]),  # size of the kernel
    st.sampled_from([0.01, 1.0, 50.0]),  # C
    st.booleans(),  # bias
    st.booleans(),  # weights, some of them zero
    st.integers(0, 2**31),
)


@settings(max_examples=40, deadline=None, derandomize=True)
@given(problems)
def test_random_problems_are_solved(problem):
    n, rank, size, C, bias, weighted, seed = problem
    generator = np.random.default_rng(seed)
    features = np.sqrt(size) * generator.integers(-2, 3, size=(n, rank))  # integers: ties and duplicates
    signs = generator.choice([-1.0, 1.0], size=n, p=[0.3, 0.7])
    weight = generator.choice([0.0, 0.5, 2.0], size=n) if weighted else np.ones(n)
    K = (features @ features.T).astype(float)
    svm = CSVM(signs, C, sample_weight=weight, bias=bias)
    value, alpha = svm.solve(K, tol=1e-8)
    candidate = SimpleNamespace(weights=np.ones(1), alpha=alpha)
    proof = svm.certificate(K @ alpha, alpha)
    svm_bracket(K[None], svm, Ball(1.0), candidate).proves(proof, 1e-8)
    assert_allclose(value, proof.dual, rtol=1e-12)
    assert svm.violation(alpha) == 0.0
    assert np.all(alpha[weight == 0.0] == 0.0)


@settings(max_examples=40, deadline=None, derandomize=True)
@given(problems)
def test_certificate_brackets_the_optimum_at_any_feasible_point(problem):
    n, rank, size, C, bias, weighted, seed = problem
    generator = np.random.default_rng(seed)
    features = np.sqrt(size) * generator.normal(size=(n, rank))
    signs = generator.choice([-1.0, 1.0], size=n)
    weight = generator.choice([0.0, 0.5, 2.0], size=n) if weighted else np.ones(n)
    K = features @ features.T
    svm = CSVM(signs, C, sample_weight=weight, bias=bias)
    optimum, _ = svm.solve(K, tol=1e-9)
    alpha = svm.repair(generator.normal(size=n) * C)
    assert svm.violation(alpha) == 0.0
    certificate = svm.certificate(K @ alpha, alpha)
    assert certificate.dual <= optimum + 1e-8 * (1 + optimum)
    assert certificate.primal >= optimum - 1e-8 * (1 + optimum)


def test_intercept_is_the_best_bias():
    X, signs = classification(30)
    svm = CSVM(signs, 2.0, sample_weight=np.linspace(0.0, 2.0, 30))
    scores = rbf(X) @ np.random.default_rng(1).normal(size=30)
    candidates = np.linspace(-5, 5, 20_001)
    losses = (svm.upper[:, None] * np.maximum(1 - signs[:, None] * (scores[:, None] + candidates), 0)).sum(0)
    best = (svm.upper * np.maximum(1 - signs * (scores + svm.intercept(scores)), 0)).sum()
    assert losses.min() - 0.02 <= best <= losses.min() + 1e-12


@pytest.mark.parametrize("make", [CSVM, NuSVM], ids=["C", "nu"])
def test_any_warm_start_gives_the_same_optimum(make):
    X, signs = classification(150)
    K = rbf(X)
    svm = make(signs, 0.5)
    value, alpha = svm.solve(K, tol=1e-9)
    generator = np.random.default_rng(2)
    other = make(signs, 0.25).solve(K)[1]
    for warm in (alpha, other, 10 * generator.normal(size=150), np.zeros(150), np.full(150, 1e9), -alpha):
        again, found = svm.solve(K, warm, tol=1e-9)
        assert_allclose(again, value, rtol=1e-8)
        assert svm.violation(found) == 0.0


def test_a_solved_warm_start_is_returned_as_it_is():
    X, signs = classification(150)
    svm = CSVM(signs, 5.0)
    _, alpha = svm.solve(rbf(X), tol=1e-7)
    assert_array_equal(svm.solve(rbf(X), alpha, tol=1e-6)[1], alpha)


def test_repair_leaves_feasible_points_alone_and_keeps_bounds_exactly():
    X, signs = classification(50)
    svm = CSVM(signs, 1.0)
    _, alpha = svm.solve(rbf(X))
    assert_array_equal(svm.repair(alpha), alpha)
    assert svm.violation(alpha + 0.1) > 0.05
    assert svm.violation(svm.repair(alpha + 0.1)) == 0.0


def test_class_weights_are_sample_weights():
    X, signs = classification(60)
    K = rbf(X)
    weight = np.where(signs > 0, 3.0, 1.0)
    by_class = CSVM(signs, 1.0, class_weight={1: 3.0}).solve(K, tol=1e-9)
    by_sample = CSVM(signs, 1.0, sample_weight=weight).solve(K, tol=1e-9)
    assert_array_equal(by_class[1], by_sample[1])
    reference = SVC(kernel="precomputed", class_weight={1.0: 3.0}, tol=1e-8).fit(K, signs)
    alpha = np.zeros(60)
    alpha[reference.support_] = reference.dual_coef_[0]
    assert_allclose(by_class[0], dual_value(K, signs, alpha), rtol=1e-6)
    balanced = CSVM(signs, 1.0, class_weight="balanced")
    assert_allclose(balanced.upper[signs > 0].sum(), balanced.upper[signs < 0].sum())


def test_single_precision_kernels_stay_so_and_give_the_same_value():
    X, signs = classification(200)
    K = rbf(X)
    single = K.astype(np.float32)
    value, alpha = CSVM(signs, 3.0).solve(single, tol=1e-7)
    assert alpha.dtype == np.float64
    assert_allclose(value, CSVM(signs, 3.0).solve(single.astype(float), tol=1e-7)[0], rtol=1e-6)


@pytest.mark.parametrize("signs", [[1], [-1], [1, 1, 1], [0, 0], [1, 0, 0]])
def test_one_class_with_a_bias_has_nothing_to_solve(signs):
    value, alpha = CSVM(signs, 1.0).solve(np.eye(len(signs)))
    assert value == 0.0
    assert_array_equal(alpha, 0.0)


def test_kernels_that_are_not_positive_semi_definite_end_with_a_feasible_point():
    X, signs = classification(40)
    K = rbf(X) - 0.5 * np.eye(40)
    svm = CSVM(signs, 1.0)
    _, alpha = svm.solve(K, max_iter=20, warn=False)
    assert svm.violation(alpha) == 0.0


def test_too_few_bursts_warn_with_the_gap_reached():
    X, signs = classification(300)
    with pytest.warns(ConvergenceWarning, match=r"relative duality gap of .* Raise max_iter \(now 0\)"):
        CSVM(signs, 1e3).solve(rbf(X), max_iter=0)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: CSVM([1, 2]), "not -1, 0 or"),
        (lambda: CSVM([1, -1], C=0.0), "C must be a positive number"),
        (lambda: CSVM([1, -1], sample_weight=[1, -1]), "negative"),
        (lambda: CSVM([1, -1], sample_weight=[1]), r"sample_weight has shape \(1,\)"),
        (lambda: CSVM([1, -1], class_weight="uneven"), "balanced"),
        (lambda: CSVM([1, -1], class_weight=[1, 2]), "give .balanced., or a mapping"),
        (lambda: CSVM([1, -1], class_weight={"a": 2}), "class_weight={'a': 2}: .* a mapping from -1, "),
        (lambda: CSVM([1, -1], class_weight={1: -1}), "class_weight={1: -1}: .* at least 0"),
        (lambda: NuSVM([1, -1], class_weight={-1: np.nan}), "class_weight={-1: nan}: .* numbers"),
        (lambda: CSVM([1, -1], class_weight={1: "2"}), "class_weight={1: '2'}: .* numbers"),
        (lambda: CSVM([[1, -1], [-1, 1]]), r"signs has shape \(2, 2\), expected \(n,\): one sign per sample"),
        (lambda: NuSVM([[1], [-1]]), r"signs has shape \(2, 1\), expected \(n,\): one sign per sample"),
        (lambda: LabelSVMs(np.ones((3, 0))), r"signs has shape \(3, 0\), .* at least one sample and label"),
        (lambda: CSVM([1, -1]).solve(np.eye(2), tol=np.nan), "tol = nan must be a positive"),
        (lambda: CSVM([1, -1]).solve(np.eye(2), tol=0.0), r"tol = 0\.0 must be a positive"),
        (lambda: NuSVM([1, -1]).solve(np.eye(2), tol=-1e-3), r"tol = -0\.001 must be a positive"),
        (lambda: CSVM([1, -1]).solve(np.eye(3)), "there are 2 labels"),
        (lambda: CSVM([1, -1]).solve(np.ones((2, 3))), "square kernel"),
        (lambda: CSVM([1, -1]).solve(np.eye(2), warm=[0.0]), "warm has shape"),
        (lambda: CSVM([1, -1]).solve(np.eye(2), warm=[np.nan, 0.0]), "not finite"),
        (lambda: CSVM([1, -1]).solve(np.full((2, 2), np.nan)), "not finite"),
    ],
)
def test_bad_input_is_refused_with_a_reason(call, message):
    with pytest.raises(ValueError, match=message):
        call()
