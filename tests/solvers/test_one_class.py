"""ℓp-norm MKL with a one-class SVM: the joint optimum, scikit-learn's OneClassSVM, and what estimators promise."""

import pickle

import cvxpy as cp
import numpy as np
import pytest
from mkl_problems import AWKWARD, make_kernels
from numpy.testing import assert_allclose, assert_array_equal
from references import joint_optimum
from sklearn.base import clone, is_outlier_detector
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import OneClassSVM as ScikitOneClassSVM

from multikernel import MKLOneClass, gram_stack
from multikernel.gram import LowRankStack
from multikernel.inspection import results_frame, view_importance
from multikernel.io.models import load, save
from multikernel.kernels import RBF
from multikernel.solvers.catalogue import SOLVERS

VIEWS = [RBF(columns=[0, 1], name="first"), RBF(columns=[2, 3], name="second")]


def kernels(n=30, seed=0, **options):
    return np.moveaxis(make_kernels(n=n, seed=seed, **options)[0], 0, -1)


def samples(n=150):
    """Two views, and samples that are new in the second."""
    rng = np.random.default_rng(0)
    X, new = rng.normal(size=(n, 4)), rng.normal(size=(30, 4))
    return X, new + np.array([0.0, 0.0, 4.0, 4.0])


def optimum(K, nu, p, weight):
    """min over weights of the one-class SVM's optimum."""
    alpha = cp.Variable(len(K), nonneg=True)
    return joint_optimum(K, p, alpha, 0.0, [alpha <= weight, cp.sum(alpha) == nu * weight.sum()])


@pytest.mark.numerical
@pytest.mark.parametrize("nu", [0.05, 0.4, 1.0])
@pytest.mark.parametrize("p", [1.0, 4 / 3, 2.0, np.inf])
def test_the_optimum_is_that_of_the_joint_problem(p, nu):
    for seed in (0, 1):
        K = kernels(seed=seed)
        weight = np.random.default_rng(seed).integers(0, 4, size=len(K)).astype(float)
        model = MKLOneClass("precomputed", p, nu, tol=1e-8).fit(K, sample_weight=weight)
        assert model.converged_
        assert 0.0 <= model.dual_gap_ <= 1e-8 * abs(model.objective_)
        assert model.objective_ == pytest.approx(optimum(K, nu, p, weight), rel=1e-6)
        # the primal, from fitted attributes
        alpha = np.zeros(len(K))
        alpha[model.support_] = model.dual_coef_[0]
        scores = K @ model.weights_ @ alpha
        losses = np.maximum(model.offset_ - scores, 0.0)
        value = 0.5 * alpha @ scores + weight @ losses - nu * model.offset_ * weight.sum()
        assert model.objective_ == pytest.approx(value, rel=1e-8)


@pytest.mark.numerical
@pytest.mark.parametrize("solver", [name for name in SOLVERS["mkl"] if name != "smo"])
def test_every_solver_finds_the_optimum(solver):
    K, found = kernels(), SOLVERS["mkl"][solver]
    for p in (p for p in (1.0, 2.0) if found.smallest <= p <= found.largest):
        model = MKLOneClass("precomputed", p, 0.3, solver, tol=1e-6).fit(K)
        assert model.converged_
        assert model.objective_ == pytest.approx(optimum(K, 0.3, p, np.ones(len(K))), rel=2e-6)


@pytest.mark.numerical
@pytest.mark.parametrize("case", [case for case in AWKWARD if case not in ("tiny C", "huge C", "unbalanced classes")])
def test_awkward_problems_are_certified_and_optimal(case):
    K = kernels(**{name: value for name, value in AWKWARD[case].items() if name != "C"})
    for p in (1.0, 2.0):
        model = MKLOneClass("precomputed", p, 0.3, tol=1e-6).fit(K)
        assert model.converged_
        scale = 0.15 * len(K) ** 2 * K.max()  # optima of kernels of low rank are zero
        if case != "kernels of very different size":
            best = optimum(K, 0.3, p, np.ones(len(K)))
            assert model.objective_ == pytest.approx(best, rel=1e-5, abs=1e-10 * scale)


@pytest.mark.numerical
@pytest.mark.parametrize("nu", [0.1, 0.5])
def test_equal_weights_are_scikit_learns_machine_on_the_sum_of_the_kernels(nu):
    X, new = samples()
    model = MKLOneClass(VIEWS, np.inf, nu, tol=1e-10).fit(X)
    K, K_new = gram_stack(X, VIEWS).to_array().sum(axis=0), model.kernel_(new, X)
    reference = ScikitOneClassSVM(kernel="precomputed", nu=nu, tol=1e-9).fit(K)
    assert_allclose(model.kernel_(X), K, atol=1e-12)
    assert_allclose(model.score_samples(new), reference.score_samples(K_new), atol=1e-4)
    assert_allclose(model.decision_function(new), reference.decision_function(K_new), atol=1e-4)
    assert_allclose(model.offset_, reference.offset_, atol=1e-4)
    assert_array_equal(model.predict(new), reference.predict(K_new))
    assert_allclose(model.dual_coef_.sum(), nu * len(X))


def test_nu_bounds_outliers_and_support_vectors():
    X, new = samples()
    for nu in (0.05, 0.2, 0.6):
        model = MKLOneClass(VIEWS, nu=nu, tol=1e-8).fit(X)
        outliers = (model.decision_function(X) < -1e-6 * model.offset_).sum()
        assert outliers <= nu * len(X) <= len(model.support_)
    model = MKLOneClass(VIEWS, nu=0.05).fit(X)
    assert (model.predict(new) == -1).mean() > 0.8
    assert (model.predict(X) == 1).mean() > 0.9
    assert_array_equal(model.fit_predict(X), model.predict(X))
    assert_allclose(model.decision_function(new), model.score_samples(new) - model.offset_)


@pytest.mark.numerical
def test_whole_weights_are_repeated_samples_and_order_does_not_matter():
    K = kernels()
    weight = np.random.default_rng(3).integers(0, 4, size=len(K))
    rows = np.random.default_rng(4).permutation(np.repeat(np.arange(len(K)), weight))
    weighted = MKLOneClass("precomputed", 1.5, 0.3, tol=1e-9).fit(K, sample_weight=weight)
    repeated = MKLOneClass("precomputed", 1.5, 0.3, tol=1e-9).fit(K[np.ix_(rows, rows)][:, :, ::-1])
    assert weighted.objective_ == pytest.approx(repeated.objective_, rel=1e-8)
    assert_allclose(weighted.weights_, repeated.weights_[::-1], atol=1e-5)
    assert_allclose(weighted.decision_function(K), repeated.decision_function(K[:, rows][:, :, ::-1]), atol=1e-4)


@pytest.mark.parametrize("p", [1.0, 2.0])
def test_degenerate_samples(p):
    same = MKLOneClass("precomputed", p, 0.5, tol=1e-9).fit(np.ones((6, 6, 2)))
    assert same.converged_
    assert same.objective_ == pytest.approx(-0.5 * 9.0 * 2.0 ** (1.0 - 1.0 / p))
    zero = MKLOneClass("precomputed", p, 0.5, tol=1e-9).fit(np.zeros((6, 6, 2)))
    assert zero.converged_
    assert zero.objective_ == zero.dual_gap_ == zero.offset_ == 0.0
    two = MKLOneClass("precomputed", p, 1.0, tol=1e-9).fit(np.eye(2)[:, :, None])
    assert_allclose(two.dual_coef_, 1.0)
    # the origin is between the samples: no margin, an optimum of zero
    opposite = np.array([[1.0, -1.0], [-1.0, 1.0]])[:, :, None]
    assert MKLOneClass("precomputed", p, 0.5, tol=1e-9).fit(opposite).converged_


@pytest.mark.numerical
def test_storage_does_not_matter():
    X, new = samples()
    kept = MKLOneClass(VIEWS, nu=0.2, tol=1e-8).fit(X)
    lazy = MKLOneClass(VIEWS, nu=0.2, tol=1e-8, memory="20kB").fit(X)
    given = MKLOneClass("precomputed", nu=0.2, tol=1e-8).fit(gram_stack(X, VIEWS))
    assert_allclose(lazy.decision_function(new), kept.decision_function(new), atol=1e-5 * kept.offset_)
    assert_allclose(given.weights_, kept.weights_, atol=1e-6)
    features = [np.abs(X[:, :2]), np.abs(X[:, 2:])]
    K = np.stack([Z @ Z.T for Z in features], axis=-1)
    dense = MKLOneClass("precomputed", nu=0.2, tol=1e-8).fit(K)
    low = MKLOneClass("precomputed", nu=0.2, tol=1e-8).fit(LowRankStack(features))
    assert low.objective_ == pytest.approx(dense.objective_, rel=1e-7)
    assert_allclose(low.decision_function(K), dense.decision_function(K), atol=1e-5 * dense.offset_)


def test_samples_may_lack_views():
    X, new = samples()
    X = X.copy()
    X[::4, :2] = np.nan
    model = MKLOneClass(VIEWS, nu=0.1, missing="mask").fit(X)
    assert model.n_missing_ == {"first": 38, "second": 0}
    assert (model.predict(new) == -1).mean() > 0.8


def test_copies_and_files_decide_the_same(tmp_path):
    X, new = samples()
    model = MKLOneClass(VIEWS, nu=0.1).fit(X)
    save(model, tmp_path / "model.mkl")
    again = clone(model).fit(X)
    for copy in (pickle.loads(pickle.dumps(model)), load(tmp_path / "model.mkl"), again):
        assert_array_equal(copy.decision_function(new), model.decision_function(new))
        assert copy.offset_ == model.offset_
    assert is_outlier_detector(model)


def test_pipelines_searches_and_inspection_take_it():
    X, new = samples()
    both, known = np.vstack([X[75:], new]), np.append(np.ones(75), -np.ones(30))
    pipeline = make_pipeline(StandardScaler(), MKLOneClass(VIEWS, normalize="cosine"))
    folds = StratifiedKFold(3, shuffle=True, random_state=0)  # scores need both kinds of samples
    search = GridSearchCV(pipeline, {"mkloneclass__nu": [0.1, 0.5]}, scoring="roc_auc", cv=folds)
    assert search.fit(both, known).best_score_ > 0.5
    model = MKLOneClass(VIEWS, nu=0.1).fit(X[:75])
    assert roc_auc_score(known, model.score_samples(both)) > 0.95
    assert_allclose(model.kernel_contributions(new).sum(axis=1) + model.intercept_, model.decision_function(new))
    assert_allclose(model.transform(new) @ model.dual_coef_[0] + model.intercept_, model.decision_function(new))
    importance = view_importance(model, both, known, scoring="roc_auc", random_state=0)
    assert importance.importances_mean[1] > importance.importances_mean[0]
    pytest.importorskip("pandas")
    assert list(results_frame(model, importance)["kernel"]) == ["first", "second"]


def test_a_fit_goes_on_from_the_last_one_and_from_a_checkpoint(tmp_path):
    X, _ = samples()
    model = MKLOneClass(VIEWS, nu=0.2, tol=1e-9, checkpoint=tmp_path / "fit.npz").fit(X)
    assert model.set_params(warm_start=True, checkpoint=None).fit(X).n_iter_ == 1


@pytest.mark.parametrize("nu", [0.0, -0.5, 1.5, np.nan])
def test_a_share_outside_its_range_is_refused(nu):
    with pytest.raises(ValueError, match="nu"):
        MKLOneClass(VIEWS, nu=nu).fit(samples()[0])
