"""GMKLClassifier: what it learns, how it predicts, and that it behaves as an estimator should."""

import numpy as np
import pandas as pd
import pytest
from mkl_problems import CubicSum, Quartic
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.datasets import load_iris, make_classification
from sklearn.exceptions import ConvergenceWarning

from multikernel import GMKLClassifier
from multikernel.gram import DenseStack
from multikernel.io.models import load, save
from multikernel.kernels import RBF, KernelFamily, Laplacian
from multikernel.problems.gmkl import as_rule, prepared
from multikernel.svm import CSVM

IRIS_X, IRIS_y = load_iris(return_X_y=True)
BINARY_X, BINARY_y = make_classification(100, 6, n_informative=4, flip_y=0.1, random_state=0)
FAMILY = [RBF(columns=[0, 1]), RBF(columns=[2, 3]), Laplacian(columns=[0])]


@pytest.fixture(params=["sum", "product"])
def combination(request):
    return request.param


def test_shared_weights_minimise_the_sum_of_the_objectives(combination):
    """Weights per class can only be better together, and alone are those of the binary problem."""
    options = {"combination": combination, "C": 5.0, "reg": 2.0, "tol": 1e-6}
    shared = GMKLClassifier(FAMILY, **options).fit(IRIS_X, IRIS_y)
    own = GMKLClassifier(FAMILY, weights="per-class", **options).fit(IRIS_X, IRIS_y)
    penalties = own.weights_.sum(axis=1)
    assert shared.objective_ >= (own.objective_ - 2.0 * penalties).sum() * (1 - 1e-5)
    for t in range(3):
        alone = GMKLClassifier(FAMILY, **options).fit(IRIS_X, IRIS_y == t)
        assert_allclose(alone.objective_, own.objective_[t], rtol=1e-5)
    rule, family = as_rule(combination), KernelFamily.fit(FAMILY, IRIS_X)
    stack = prepared(rule, DenseStack(family.evaluate(IRIS_X)))
    svms = [CSVM(np.where(IRIS_y == t, 1.0, -1.0), 5.0) for t in range(3)]

    def total(d):
        return sum(svm.solve(rule.combine(stack, d), tol=1e-9)[0] for svm in svms) + 2.0 * d.sum()

    assert_allclose(total(shared.weights_), shared.objective_, rtol=1e-5)
    for k in range(3):
        shift = 0.02 * shared.weights_.max() * np.eye(3)[k]
        assert total(shared.weights_ + shift) >= shared.objective_ * (1 - 1e-6)
        assert total(np.maximum(shared.weights_ - shift, 0.0)) >= shared.objective_ * (1 - 1e-6)


def test_combinations_and_penalties_of_ones_own_are_used():
    model = GMKLClassifier(FAMILY, CubicSum(), Quartic(), reg=0.5, tol=1e-5).fit(BINARY_X, BINARY_y)
    assert np.isnan(model.dual_gap_)
    assert model.stationarity_ <= 1e-5
    K = np.tensordot(model.weights_**3, KernelFamily.fit(FAMILY, BINARY_X).evaluate(BINARY_X), axes=1)
    value, _ = CSVM(np.where(BINARY_y == 1, 1.0, -1.0), 1.0).solve(K, tol=1e-9)
    assert_allclose(model.objective_, value + 0.5 * (model.weights_**4).sum(), rtol=1e-5)
    assert_allclose(
        model.decision_function(BINARY_X), K[:, model.support_] @ model.dual_coef_[0] + model.intercept_, atol=1e-9
    )
    lazy = clone(model).set_params(memory="40kB").fit(BINARY_X, BINARY_y)
    assert_allclose(lazy.objective_, model.objective_, rtol=1e-4)


def test_a_penalty_without_a_bound_stops_at_stationary_points():
    model = GMKLClassifier(FAMILY, "sum", Quartic(), tol=1e-6).fit(BINARY_X, BINARY_y)
    assert np.isnan(model.dual_gap_)
    assert not model.converged_
    assert model.stationarity_ <= 1e-6


def test_a_gradient_of_the_wrong_shape_is_an_error():
    class Short(CubicSum):
        def gradient(self, stack, d, alpha):
            return np.zeros(1)

    with pytest.raises(ValueError, match="expected 3 finite numbers"):
        GMKLClassifier(FAMILY, Short()).fit(BINARY_X, BINARY_y)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"combination": "quotient"}, "combination='quotient' is not known"),
        ({"regularizer": "l3"}, "regularizer='l3' is not known"),
        ({"reg": 0.0}, "reg=0.0 must be a positive number"),
        ({"weights": "own"}, "weights='own' is not known"),
    ],
)
def test_bad_parameters_are_named(parameters, message):
    with pytest.raises(ValueError, match=message):
        GMKLClassifier(**parameters).fit(BINARY_X, BINARY_y)


def test_a_fit_that_was_cut_short_warns_with_what_it_reached(combination):
    measure = "duality gap" if combination == "sum" else "stationarity"
    with pytest.warns(ConvergenceWarning, match=f"max_iter was reached at a relative {measure} of [0-9]"):
        model = GMKLClassifier(FAMILY, combination, max_iter=1, tol=1e-8).fit(BINARY_X, BINARY_y)
    assert not model.converged_
    with pytest.warns(ConvergenceWarning, match=f"max_time was reached at a relative {measure} of [0-9]"):
        GMKLClassifier(FAMILY, combination, max_time=1e-9).fit(BINARY_X, BINARY_y)


def test_no_warning_at_a_stationary_point(recwarn):
    model = GMKLClassifier(FAMILY, "product").fit(BINARY_X, BINARY_y)
    assert not [w for w in recwarn if issubclass(w.category, ConvergenceWarning)]
    assert not model.converged_
    assert model.history_[-1]["stationarity"] == model.stationarity_ <= model.tol


def test_warm_start_goes_on_from_the_last_solution(combination):
    model = GMKLClassifier(FAMILY, combination, warm_start=True, tol=1e-5).fit(BINARY_X, BINARY_y)
    first = model.n_iter_
    objective = model.objective_
    model.fit(BINARY_X, BINARY_y)
    assert model.n_iter_ <= min(2, first)
    assert_allclose(model.objective_, objective, rtol=1e-6)


def test_sample_weights_stand_for_repetitions():
    counts = np.arange(100) % 3
    repeated = np.repeat(np.arange(100), counts)
    kernels = [RBF(bandwidth=2.0), RBF(bandwidth=10.0)]
    weighted = GMKLClassifier(kernels, tol=1e-8).fit(BINARY_X, BINARY_y, sample_weight=counts)
    copied = GMKLClassifier(kernels, tol=1e-8).fit(BINARY_X[repeated], BINARY_y[repeated])
    assert_allclose(weighted.objective_, copied.objective_, rtol=1e-7)
    assert_allclose(weighted.decision_function(BINARY_X), copied.decision_function(BINARY_X), atol=1e-3)


def test_checkpoint_of_a_stopped_fit_is_taken_up(combination, tmp_path):
    path = tmp_path / "state.npz"
    options = {"kernels": FAMILY, "combination": combination, "tol": 1e-6, "checkpoint": path}
    with pytest.warns(ConvergenceWarning, match="the callback asked to stop"):
        GMKLClassifier(**options, callback=lambda row: row["iteration"] == 3).fit(BINARY_X, BINARY_y)
    assert path.exists()
    resumed = GMKLClassifier(**options).fit(BINARY_X, BINARY_y)
    straight = GMKLClassifier(**{**options, "checkpoint": None}).fit(BINARY_X, BINARY_y)
    assert not path.exists()
    assert_allclose(resumed.objective_, straight.objective_, rtol=3e-6)
    assert [row["iteration"] for row in resumed.history_] == list(range(resumed.n_iter_))


def test_objects_of_ones_own_are_stored_if_trusted(tmp_path):
    model = GMKLClassifier(FAMILY, CubicSum(), Quartic()).fit(BINARY_X, BINARY_y)
    save(model, tmp_path / "model.mkl", trusted=[CubicSum, Quartic])
    copy = load(tmp_path / "model.mkl", trusted=[CubicSum, Quartic])
    assert_array_equal(copy.decision_function(BINARY_X), model.decision_function(BINARY_X))


def test_default_product_has_a_width_for_each_column_of_a_frame():
    frame = pd.DataFrame(IRIS_X, columns=["a", "b", "c", "d"])
    model = GMKLClassifier(combination="product").fit(frame, IRIS_y)
    assert model.weights_.shape == (4,)
    assert list(model.feature_names_in_) == list(frame.columns)
    assert model.score(frame, IRIS_y) > 0.9
    plain = GMKLClassifier(combination="product").fit(IRIS_X, IRIS_y)
    assert_array_equal(plain.decision_function(IRIS_X), model.decision_function(frame))
