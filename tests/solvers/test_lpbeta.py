"""LP-β and LP-B: the linear program against cvxpy, held-out scores without leakage, and scikit-learn's tools."""

import pickle

import cvxpy as cp
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from references import conic_value, result_of
from sklearn.datasets import load_iris
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import ShuffleSplit, StratifiedKFold

from multikernel import KernelAverageClassifier, LPBetaClassifier
from multikernel.gram import DenseStack
from multikernel.kernels import RBF, Linear
from multikernel.problems.lpbeta import MarginProblem
from multikernel.solvers.lpbeta import lp_beta
from multikernel.svm import held_out as machines
from multikernel.svm.binary import CSVM
from multikernel.svm.held_out import KernelMachines

# -- the linear program ----------------------------------------------------------------------------------------


def score_table(n_kernels=5, n=40, n_classes=4, seed=0):
    """Scores (F, n, M) that know the class the better the later the kernel, classes, and sample weights."""
    rng = np.random.default_rng(seed)
    codes = np.arange(n) % n_classes
    scores = rng.normal(size=(n_kernels, n, n_classes))
    scores[:, np.arange(n), codes] += np.linspace(0.0, 1.5, n_kernels)[:, None]
    return scores, codes, rng.uniform(0.2, 2.0, size=n)


def cvxpy_optimum(scores, codes, nu, weight, shared):
    """The program as it is written down, constraint by constraint."""
    F, n, M = scores.shape
    beta = cp.Variable((M, F), nonneg=True)
    rho, xi = cp.Variable(), cp.Variable(n, nonneg=True)
    constraints = [cp.sum(beta, axis=1) == 1]
    if shared:
        constraints += [beta[r] == beta[0] for r in range(1, M)]
    for i in range(n):
        own = beta[codes[i]] @ scores[:, i, codes[i]]
        constraints += [own - beta[r] @ scores[:, i, r] >= rho - xi[i] for r in range(M) if r != codes[i]]
    objective = -rho + weight @ xi / (nu * weight.sum())
    return conic_value(cp.Problem(cp.Minimize(objective), constraints))


def solved(problem, tol=1e-9):
    return result_of(lp_beta, problem, tol)


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("nu", [0.05, 0.4, 1.0])
@pytest.mark.parametrize("shape", [(5, 40, 4), (1, 20, 3), (12, 10, 5), (4, 30, 2)])
def test_the_optimum_is_that_of_a_direct_formulation(shared, nu, shape):
    scores, codes, weight = score_table(*shape)
    result = solved(MarginProblem(scores, codes, nu, sample_weight=weight, shared=shared))
    assert result.converged
    expected = cvxpy_optimum(scores, codes, nu, weight, shared)
    assert result.certificate.primal == pytest.approx(expected, abs=1e-6)
    assert result.certificate.dual == pytest.approx(expected, abs=1e-6)
    assert_allclose(result.weights.sum(axis=-1), 1.0)
    assert result.weights.min() >= 0.0


@pytest.mark.parametrize("shared", [True, False])
def test_no_weights_and_no_prices_cross_the_optimum(shared):
    scores, codes, weight = score_table()
    problem = MarginProblem(scores, codes, 0.3, sample_weight=weight, shared=shared)
    optimum = solved(problem).certificate.primal
    rng = np.random.default_rng(1)
    for _ in range(50):
        weights = rng.dirichlet(np.ones(5), size=None if shared else 4)
        proof = problem.certificate(weights, rng.exponential(size=(40, 4)) ** 3)
        assert proof.dual < optimum < proof.primal


def test_repaired_prices_satisfy_every_constraint_of_the_dual():
    scores, codes, weight = score_table()
    problem = MarginProblem(scores, codes, 0.3, sample_weight=weight)
    rng = np.random.default_rng(2)
    for given in (rng.exponential(size=(40, 4)), np.zeros((40, 4)), rng.normal(size=(40, 4)) * 1e-3):
        prices = problem.prices(given)
        assert prices.min() >= 0.0
        assert_array_equal(prices[np.arange(40), codes], 0.0)
        assert prices.sum() == pytest.approx(1.0)
        assert (prices.sum(axis=1) <= problem.caps * (1 + 1e-12)).all()


def test_a_weight_of_zero_takes_a_sample_out_of_the_program():
    scores, codes, weight = score_table()
    weight[::3] = 0.0
    kept = weight > 0.0
    whole = solved(MarginProblem(scores, codes, 0.3, sample_weight=weight))
    part = solved(MarginProblem(scores[:, kept], codes[kept], 0.3, sample_weight=weight[kept]))
    assert whole.certificate.primal == pytest.approx(part.certificate.primal)


def test_at_most_a_share_nu_of_the_samples_misses_the_margin():
    scores, codes, _ = score_table(n=200)
    for nu in (0.1, 0.5):
        problem = MarginProblem(scores, codes, nu)
        weights = solved(problem).weights
        missed = problem.margins(weights).min(axis=1) < problem.margin(weights) - 1e-9
        assert missed.mean() <= nu


def test_few_of_many_margins_enter_the_linear_programs(monkeypatch):
    import scipy.optimize

    seen, solve = [], scipy.optimize.linprog
    monkeypatch.setattr(
        scipy.optimize, "linprog", lambda *a, **k: (seen.append(k["A_ub"].shape[0]), solve(*a, **k))[1]
    )
    scores, codes, _ = score_table(n_kernels=6, n=200, n_classes=30)
    assert solved(MarginProblem(scores, codes, 0.3)).converged
    assert max(seen) < 0.3 * 200 * 29


# -- the SVMs behind it ----------------------------------------------------------------------------------------


def blobs(n=90, n_classes=3, separation=4.0, seed=0):
    """Kernels: a good one, a weaker one, and one that only knows each sample by itself."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) % n_classes
    X = rng.normal(size=(n, n_classes)) + separation * np.eye(n_classes)[y]
    weak = X + 2.0 * rng.normal(size=X.shape)
    return np.stack([X @ X.T + 1.0, weak @ weak.T + 1.0, np.eye(n)], axis=-1), y


def test_held_out_scores_are_those_of_svms_that_never_saw_the_sample():
    K, y = blobs()
    model = LPBetaClassifier("precomputed", C=[0.5, 1.0, 2.0], svm_tol=1e-9).fit(K, y)
    for train, test in StratifiedKFold(5).split(K, y):
        for j, C in enumerate([0.5, 1.0, 2.0]):
            for r in range(3):
                signs = np.where(y[train] == r, 1.0, -1.0)
                svm, kernel = CSVM(signs, C), K[np.ix_(train, train)][:, :, j]
                _, alpha = svm.solve(kernel, tol=1e-9)
                bias = svm.intercept(kernel @ alpha)
                expected = K[np.ix_(test, train)][:, :, j] @ alpha + bias
                assert_allclose(model.oof_scores_[test, j, r], expected, atol=2e-4)


@pytest.mark.parametrize("shared", [True, False])
def test_a_kernel_that_memorises_gets_no_weight(shared):
    K, y = blobs(separation=2.5)
    model = LPBetaClassifier("precomputed", C=100.0, nu=0.3, shared=shared).fit(K, y)
    own = model.kernel_scores(K)[:, 2]
    assert (own.argmax(axis=1) == y).all()  # it is perfect on the samples it was trained on
    # and of others it can only tell a constant, the same for all samples of a fold
    for _, test in StratifiedKFold(5).split(K, y):
        assert np.ptp(model.oof_scores_[test, 2], axis=0).max() < 1e-12
    assert np.atleast_2d(model.weights_)[:, 2].max() <= 1e-8
    trained_on = MarginProblem(np.moveaxis(model.kernel_scores(K), 1, 0), y, 0.3)
    assert solved(trained_on).weights[2] > 0.5  # with scores of training samples it would have won


def test_changing_a_label_does_not_change_the_samples_own_held_out_score():
    K, y = blobs()
    folds = [(np.flatnonzero(np.arange(90) % 5 != k), np.flatnonzero(np.arange(90) % 5 == k)) for k in range(5)]
    flipped = y.copy()
    flipped[7] = (y[7] + 1) % 3
    before = LPBetaClassifier("precomputed", cv=folds, C=10.0).fit(K, y)
    after = LPBetaClassifier("precomputed", cv=folds, C=10.0).fit(K, flipped)
    same_fold = np.arange(90) % 5 == 7 % 5
    assert_array_equal(before.oof_scores_[same_fold], after.oof_scores_[same_fold])
    assert np.abs(before.oof_scores_ - after.oof_scores_)[~same_fold].max() > 0.0


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("shared", [True, False])
def test_one_kernel_gives_the_svm_of_that_kernel(n_classes, shared):
    K, y = blobs(n_classes=n_classes)
    model = LPBetaClassifier("precomputed", C=0.7, shared=shared, svm_tol=1e-9).fit(K[:, :, :1], y)
    svm = KernelAverageClassifier("precomputed", C=0.7, tol=1e-9).fit(K[:, :, :1], y)
    assert_array_equal(model.weights_, 1.0)
    assert_allclose(model.decision_function(K[:, :, :1]), svm.decision_function(K[:, :, :1]), atol=2e-4)


def test_noise_kernels_get_no_weight():
    K, y = blobs(n=150)
    rng = np.random.default_rng(3)
    noise = rng.normal(size=(6, 150, 150))
    noise = noise @ noise.transpose(0, 2, 1) / 150
    stack = np.concatenate([K[:, :, :1], np.moveaxis(noise, 0, -1)], axis=2)
    model = LPBetaClassifier("precomputed", nu=0.6).fit(stack, y)
    assert_allclose(model.weights_, [1.0] + [0.0] * 6, atol=1e-8)
    assert model.n_kernels_ == 1


def test_each_kernel_gets_the_price_with_the_best_held_out_accuracy():
    K, y = blobs()
    Cs = [1e-3, 0.1, 10.0]
    model = LPBetaClassifier("precomputed", C="cv", Cs=Cs, svm_tol=1e-6).fit(K, y)
    for j in range(3):
        alone = [LPBetaClassifier("precomputed", C=C, svm_tol=1e-6).fit(K[:, :, [j]], y) for C in Cs]
        accuracies = [(m.oof_scores_[:, 0].argmax(axis=1) == y).mean() for m in alone]
        assert model.C_[j] == Cs[int(np.argmax(accuracies))]


def test_sample_weights_scale_the_price_and_the_program():
    K, y = blobs()
    weight = np.random.default_rng(0).uniform(0.2, 2.0, size=90)
    signs = np.where(y[:, None] == np.arange(3), 1.0, -1.0)
    folds = list(StratifiedKFold(5).split(K, y))
    trained = KernelMachines(
        DenseStack(np.moveaxis(K, -1, 0)), signs, folds, [[2.0]] * 3, sample_weight=weight, memory=10**9, tol=1e-8
    )
    trained.train()
    expected = solved(MarginProblem(trained.held_out, y, 0.3, sample_weight=weight)).certificate.primal
    model = LPBetaClassifier("precomputed", nu=0.3, C=2.0, svm_tol=1e-8).fit(K, y, sample_weight=weight)
    assert model.objective_ == pytest.approx(expected, rel=1e-6)


# -- the estimator ---------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def iris():
    X, y = load_iris(return_X_y=True)
    kernels = [Linear(), RBF(columns=[0, 1], bandwidth=1.0), RBF(columns=[2, 3], bandwidth=1.0)]
    from multikernel import gram_stack

    return X, y, kernels, np.moveaxis(gram_stack(X, kernels).to_array(), 0, -1)


def test_objective_gap_and_margin_follow_from_the_stored_scores(iris):
    X, y, kernels, _ = iris
    model = LPBetaClassifier(kernels, nu=0.3, C=10.0).fit(X, y)
    mixed = np.einsum("nfr,f->nr", model.oof_scores_, model.weights_)
    margins = np.array([row[c] - np.delete(row, c).max() for row, c in zip(mixed, y)])
    value = np.maximum(model.margin_ - margins, 0.0).sum() / (0.3 * 150) - model.margin_
    assert model.objective_ == pytest.approx(value)
    assert 0.0 <= model.dual_gap_ <= 1e-6 * abs(model.objective_)
    assert model.svm_gap_ <= model.svm_tol
    assert model.converged_


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("binary", [True, False])
def test_contributions_and_kernel_scores_make_up_the_decision(iris, shared, binary):
    X, y, kernels, _ = iris
    y = (y == 1).astype(int) if binary else y
    model = LPBetaClassifier(kernels, C=10.0, shared=shared).fit(X, y)
    scores = model.decision_function(X)
    assert_allclose(model.kernel_contributions(X).sum(axis=1) + model.intercept_, scores.reshape(150, -1).squeeze())
    own = model.kernel_scores(X).reshape(150, 3, -1)
    weights = np.broadcast_to(np.atleast_2d(model.weights_), (own.shape[2], 3))
    mixed = np.einsum("nfr,rf->nr", own, weights).squeeze()
    assert_allclose(mixed, scores, atol=1e-10)


def test_reweighting_equals_fitting_again(iris):
    X, y, kernels, _ = iris
    model = LPBetaClassifier(kernels, nu=0.2, C=10.0).fit(X, y)
    before = model.weights_.copy()
    for params in ({"nu": 0.7}, {"shared": False}):
        again = LPBetaClassifier(kernels, **{"nu": 0.2, "C": 10.0, **params}).fit(X, y)
        other = model.reweighted(**params)
        assert_allclose(other.weights_, again.weights_)
        assert_allclose(other.decision_function(X), again.decision_function(X))
        assert_allclose(pickle.loads(pickle.dumps(model)).reweighted(**params).weights_, again.weights_)
    assert_array_equal(model.weights_, before)


def test_kernels_that_time_does_not_reach_get_no_weight(iris, fake_clock):
    X, y, kernels, _ = iris
    fake_clock.jump_in(machines, "_train", call=2, seconds=90.0)
    with pytest.warns(ConvergenceWarning, match="finished only 1 of 3 kernels"):
        model = LPBetaClassifier(kernels, max_time=100.0).fit(X, y)
    assert_array_equal(model.weights_, [1.0, 0.0, 0.0])
    assert not model.converged_
    assert model.score(X, y) > 0.8


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"nu": 0.0}, "nu=0.0 must be above 0"),
        ({"C": "best"}, "C='best' is not known"),
        ({"C": [1.0, 2.0]}, "one for each of the 3 kernels"),
        ({"C": -1.0}, "C=-1.0 must be positive"),
        ({"C": "cv", "Cs": []}, "Cs=.* must be positive"),
        ({"svm_tol": 0.0}, "svm_tol=0.0 must be positive"),
        ({"cv": ShuffleSplit(1, test_size=0.2, random_state=0)}, "holds out 30 of 150 samples"),
    ],
)
def test_wrong_parameters_are_explained(iris, params, message):
    X, y, kernels, _ = iris
    with pytest.raises(ValueError, match=message):
        LPBetaClassifier(kernels, **params).fit(X, y)
