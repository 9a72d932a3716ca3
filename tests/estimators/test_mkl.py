"""MKLClassifier: what users see, whatever the solver; paths along C and p."""

import warnings

import numpy as np
import pytest
from mkl_problems import make_kernels
from numpy.testing import assert_allclose
from references import claim, reference
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_iris, make_classification
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import SVC

from multikernel import KernelAverageClassifier, MKLClassifier, gram_stack, mkl_path
from multikernel.kernels import RBF, Linear
from multikernel.problems.weight_sets import LpBall

KERNELS = [RBF(columns=[0, 1], name="sepals"), RBF(columns=[2, 3], name="petals"), Linear(name="all")]


@pytest.fixture(scope="module")
def iris():
    return load_iris(return_X_y=True)


@pytest.fixture(scope="module")
def cancer():
    X, y = load_breast_cancer(return_X_y=True)
    X = (X - X.mean(0)) / X.std(0)
    kernels = [RBF(columns=[j]) for j in range(6)] + [RBF(), Linear()]
    return X[:250], y[:250], kernels


def test_objective_and_gap_are_those_of_the_problem():
    K, signs, C = make_kernels(n=40)
    X, y = np.moveaxis(K, 0, -1), np.where(signs > 0, "yes", "no")
    for p in (1.0, 1.5, 2.0, np.inf):
        model = MKLClassifier("precomputed", p=p, C=C, tol=1e-6).fit(X, y)
        reference(LpBall(p), n=40).proves(claim(model), 1e-6)
        assert 0.0 <= model.dual_gap_ <= 1e-6 * model.objective_
        assert model.weights_.shape == (5,)
        # the objective is the SVM's optimum on the combined kernel
        combined = np.tensordot(model.weights_, K, axes=1)
        svc = SVC(kernel="precomputed", C=C, tol=1e-8).fit(combined, signs)
        alpha = np.zeros(len(signs))
        alpha[svc.support_] = svc.dual_coef_[0]
        assert_allclose(np.abs(alpha).sum() - 0.5 * alpha @ combined @ alpha, model.objective_, rtol=1e-5)
        assert_allclose(model.decision_function(X), svc.decision_function(combined), atol=2e-2)


@pytest.mark.parametrize("solver", ["newton", "simplemkl", "silp", "level", "group-lasso"])
def test_all_solvers_agree_on_real_data(cancer, solver):
    X, y, kernels = cancer
    reference = MKLClassifier(kernels, C=10.0, tol=1e-6).fit(X, y)
    model = MKLClassifier(kernels, C=10.0, solver=solver).fit(X, y)
    assert model.converged_
    assert abs(model.objective_ - reference.objective_) <= 1e-3 * model.objective_
    assert (model.predict(X) == reference.predict(X)).mean() >= 0.99


@pytest.mark.parametrize("multi_class", ["ovr", "ovo"])
@pytest.mark.parametrize("weights", ["shared", "per-class"])
def test_multiclass_weights_are_shared_or_per_task(iris, multi_class, weights):
    model = MKLClassifier(KERNELS, C=10.0, multi_class=multi_class, weights=weights).fit(*iris)
    assert model.weights_.shape == ((3,) if weights == "shared" else (3, 3))
    assert np.ndim(model.objective_) == (0 if weights == "shared" else 1)
    assert np.all(model.dual_gap_ <= 1e-3 * np.abs(model.objective_))
    assert model.score(*iris) >= 0.95
    assert model.decision_function(iris[0]).shape == (150, 3)


def test_weights_per_class_are_those_of_the_binary_problems(iris):
    X, y = iris
    model = MKLClassifier(KERNELS, C=10.0, weights="per-class", tol=1e-6).fit(X, y)
    for k in range(3):
        binary = MKLClassifier(KERNELS, C=10.0, tol=1e-6).fit(X, y == k)
        assert_allclose(model.objective_[k], binary.objective_, rtol=2e-6)
        assert_allclose(model.weights_[k], binary.weights_, atol=5e-3)
        assert_allclose(model.decision_function(X)[:, k], binary.decision_function(X), atol=2e-2)


def test_equal_weights_of_norm_infinity_are_the_sum_kernel(iris):
    X, y = iris
    model = MKLClassifier(KERNELS, p=1e6, C=1.0, tol=1e-6).fit(X, y)
    average = KernelAverageClassifier(KERNELS, C=3.0, tol=1e-6).fit(X, y)
    assert_allclose(model.weights_, 1.0)
    assert_allclose(model.decision_function(X), average.decision_function(X), atol=1e-2)


def test_nu_svms_bound_the_share_of_margin_errors(cancer):
    X, y, kernels = cancer
    model = MKLClassifier(kernels, nu=0.2, tol=1e-5).fit(X, y)
    assert model.objective_ < 0.0
    assert model.dual_gap_ <= 1e-5 * abs(model.objective_)
    assert np.mean(model.predict(X) != y) <= 0.2
    assert len(model.support_) >= 0.2 * len(X)


def test_sample_weights_count_as_repeated_samples(cancer):
    X, y, _ = cancer
    kernels = [RBF(bandwidth=3.0), RBF(bandwidth=30.0), Linear(columns=[0, 1, 2])]
    counts = np.random.default_rng(0).integers(1, 4, size=len(X))
    weighted = MKLClassifier(kernels, tol=1e-6).fit(X, y, sample_weight=counts)
    repeated = MKLClassifier(kernels, tol=1e-6).fit(np.repeat(X, counts, axis=0), np.repeat(y, counts))
    assert_allclose(weighted.objective_, repeated.objective_, rtol=3e-6)
    assert_allclose(weighted.decision_function(X), repeated.decision_function(X), atol=1e-2)


def test_class_weights_scale_c_for_a_class(cancer):
    X, y, kernels = cancer
    model = MKLClassifier(kernels, class_weight={0: 5.0, 1: 0.5}, tol=1e-6).fit(X, y)
    same = MKLClassifier(kernels, tol=1e-6).fit(X, y, sample_weight=np.where(y == 0, 5.0, 0.5))
    assert_allclose(model.objective_, same.objective_, rtol=2e-6)


def test_groups_all_count_and_compete_within(cancer):
    X, y, kernels = cancer
    for groups in ([[0, 1, 2, 3, 4, 5], [6, 7]], ["single"] * 6 + ["all"] * 2):
        model = MKLClassifier(kernels, C=10.0, groups=groups).fit(X, y)
        assert model.converged_
        assert model.weights_[:6].max() > 0.0
        assert model.weights_[6:].max() > 0.0
    published = MKLClassifier(kernels, C=10.0, groups=groups, solver="mirror").fit(X, y)
    assert_allclose(published.objective_, model.objective_, rtol=2e-3)


def test_one_group_is_the_l1_problem(cancer):
    X, y, kernels = cancer
    grouped = MKLClassifier(kernels, C=10.0, groups=[list(range(8))], tol=1e-5).fit(X, y)
    plain = MKLClassifier(kernels, C=10.0, tol=1e-5).fit(X, y)
    assert_allclose(grouped.objective_, plain.objective_, rtol=2e-5)


def test_a_fit_that_stops_early_says_so_and_can_go_on(cancer):
    X, y, kernels = cancer
    model = MKLClassifier(kernels, C=10.0, solver="simplemkl", max_iter=1, tol=1e-6, warm_start=True)
    with pytest.warns(ConvergenceWarning, match="gap"):
        model.fit(X, y)
    first = model.dual_gap_
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(X, y)
    assert model.dual_gap_ < first


def test_warm_starts_from_sparse_weights_do_not_trap_the_alternation(cancer):
    X, y, kernels = cancer
    model = MKLClassifier(kernels, C=10.0, p=1.0, warm_start=True).fit(X, y)
    assert (model.weights_ == 0.0).any()
    model.set_params(p=2.0, solver="lp").fit(X, y)
    assert model.converged_


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"p": 0.5}, "at least 1"),
        ({"solver": "nonsense"}, "not known"),
        ({"solver": "simplemkl", "p": 2.0}, "p = 1 only"),
        ({"weights": "each"}, "weights='each'"),
        ({"groups": [[0, 1], [2]], "p": 2.0}, "Leave p=1.0"),
        ({"groups": [[0, 1]]}, "group"),
        ({"nu": 0.99}, "not feasible"),
        ({"C": -1.0}, "C"),
    ],
)
def test_impossible_parameters_are_refused_with_advice(iris, params, message):
    with pytest.raises(ValueError, match=message):
        MKLClassifier(KERNELS, **params).fit(*iris)


@pytest.mark.parametrize(("parameter", "values"), [("C", [100.0, 0.1, 1.0]), ("p", [1.0, 1.5, np.inf])])
def test_a_path_has_the_models_of_separate_fits(cancer, parameter, values):
    X, y, kernels = cancer
    model = MKLClassifier(kernels, C=10.0, tol=1e-5)
    path = mkl_path(model, X, y, **{parameter: values})
    assert_allclose(path.values, values)
    for value, fitted in zip(values, path.estimators):
        alone = clone(model).set_params(**{parameter: value}).fit(X, y)
        assert getattr(fitted, parameter) == value
        assert_allclose(fitted.objective_, alone.objective_, rtol=2e-5)
        assert_allclose(fitted.decision_function(X), alone.decision_function(X), atol=0.05)
    assert path.weights.shape == (3, 8)
    assert path.scores(X, y).min() > 0.5
    assert (path.dual_gaps <= 1e-5 * path.objectives).all()


def test_a_path_needs_one_parameter(cancer):
    X, y, kernels = cancer
    with pytest.raises(ValueError, match="one parameter"):
        mkl_path(MKLClassifier(kernels), X, y)
    with pytest.raises(ValueError, match="exactly one"):
        mkl_path(MKLClassifier(kernels), X, y, C=[1.0], p=[1.0])
    with pytest.raises(ValueError, match="set nu=None"):
        mkl_path(MKLClassifier(kernels, nu=0.1), X, y, C=[1.0])


def test_a_path_is_drawn_over_its_values(cancer):
    pytest.importorskip("matplotlib").use("Agg")
    X, y, kernels = cancer
    display = mkl_path(MKLClassifier(kernels), X, y, C=[10.0, 1.0]).plot()
    assert display.ax_.get_xlabel() == "C"
    assert [label.get_text() for label in display.ax_.get_xticklabels()] == ["1", "10"]
    assert_allclose(display.lines_[0].get_ydata(), display.weights[:, 0])


@pytest.mark.parametrize(("before", "after"), [(2.0, 1.0), (1.0, 2.0), (np.inf, 1.5)])
def test_a_warm_start_from_another_norm_has_weights_of_this_one(cancer, before, after):
    X, y, kernels = cancer
    model = MKLClassifier(kernels, p=before, warm_start=True).fit(X, y)
    model.set_params(p=after).fit(X, y)
    alone = MKLClassifier(kernels, p=after).fit(X, y)
    assert_allclose((model.weights_**after).sum(), 1.0, rtol=1e-6)
    assert_allclose(model.objective_, alone.objective_, rtol=2e-3)


@pytest.mark.parametrize("p", [1.0, 2.0])
def test_single_precision_does_not_keep_a_huge_C_from_its_tolerance(p):
    X, y = make_classification(300, n_features=12, n_informative=4, flip_y=0.1, random_state=0)
    squares = (X**2).sum(axis=1)
    D = np.maximum(squares[:, None] + squares - 2.0 * X @ X.T, 0.0)
    K = np.stack([np.exp(-D / width) for width in (20.0, 100.0, 500.0, 2500.0)], axis=-1)
    model = MKLClassifier("precomputed", p=p, C=1e5, psd="ignore")
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)
        single = clone(model).fit(K.astype(np.float32), y)
        double = clone(model).fit(K.astype(np.float32).astype(np.float64), y)
    assert single.dual_gap_ <= 1e-3 * single.objective_
    assert_allclose(single.objective_, double.objective_, rtol=2e-3)


@pytest.mark.parametrize("scale", [1e-20, 1e-12, 1e12])
def test_a_nu_svm_does_not_depend_on_the_size_of_its_kernels(cancer, scale):
    X, y, kernels = cancer
    K = np.moveaxis(gram_stack(X, kernels).to_array(), 0, -1)
    model = MKLClassifier("precomputed", nu=0.3)
    small, plain = clone(model).fit(scale * K, y), clone(model).fit(K, y)
    assert_allclose(small.objective_, scale * plain.objective_, rtol=1e-6)
    assert_allclose(small.weights_, plain.weights_, atol=1e-6)


@pytest.mark.parametrize("solver", ["newton", "simplemkl", "silp", "level"])
@pytest.mark.parametrize("max_iter", [2, 3])
def test_no_more_iterations_than_asked_for(cancer, solver, max_iter):
    X, y, kernels = cancer
    with pytest.warns(ConvergenceWarning):
        model = MKLClassifier(kernels[:6], solver=solver, max_iter=max_iter, tol=1e-6).fit(X, y)
    assert model.n_iter_ == max_iter
