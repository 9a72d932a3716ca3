"""MultilabelMKLClassifier: what goes in, what comes out, and scikit-learn's tools around it."""

import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.datasets import load_iris, make_multilabel_classification
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import f1_score

from multikernel import MultilabelMKLClassifier
from multikernel.estimators.multilabel import parse_labels
from multikernel.gram import DenseStack
from multikernel.kernels import RBF, Linear
from multikernel.problems.multilabel import LabelSumProblem, best_threshold, left_out_scores
from multikernel.solvers.catalogue import SOLVERS
from multikernel.svm import LabelSVMs


@pytest.fixture(scope="module")
def data():
    X, Y = make_multilabel_classification(n_samples=90, n_features=8, n_classes=4, random_state=0)
    return X, Y


KERNELS = [Linear(), RBF(), RBF(bandwidth="4*mean", columns=[0, 1, 2])]


def model(**options):
    return MultilabelMKLClassifier(KERNELS, normalize="variance", **{"random_state": 0, **options})


@pytest.mark.parametrize(
    ("objective", "solver"),
    [
        (o, s)
        for o in ("max", "sum")
        for s in SOLVERS[f"multilabel {o}"]
        if s not in ("sa", "sa-printed", "subgradient")
    ],
)
def test_every_certified_solver_finds_the_same_objective(data, objective, solver):
    a = model(objective=objective, solver=solver).fit(*data)
    b = model(objective=objective, solver="level", tol=1e-5).fit(*data)
    assert a.converged_
    assert a.dual_gap_ <= 1e-3 * a.objective_
    assert_allclose(a.objective_, b.objective_, rtol=1e-3)
    whole = a.label_objectives_.max() if objective == "max" else a.label_objectives_.sum()
    assert_allclose(a.objective_, whole)
    assert_allclose(a.label_weights_.sum(), 1.0)


def test_tables_sparse_tables_and_sets_are_the_same_labels(data):
    X, Y = data
    names = np.array(["a", "b", "c", "d"])
    sets = [set(names[row > 0]) for row in Y]
    expected = model(solver="level").fit(X, Y).predict(X)
    for other in (sparse.csr_matrix(Y), Y.astype(bool), 2 * Y - 1, sets, Y.astype(float)):
        assert_array_equal(model(solver="level").fit(X, other).predict(X), expected)
    assert_array_equal(model(solver="level").fit(X, sets).classes_, names)


def test_missing_entries_take_no_part(data):
    X, Y = data
    signs = np.where(Y > 0, 1, -1)
    holes = np.random.default_rng(0).uniform(size=Y.shape) < 0.2
    with_zero, with_nan = np.where(holes, 0, signs), np.where(holes, np.nan, Y)
    a, b = model(solver="level").fit(X, with_zero), model(solver="level").fit(X, with_nan)
    assert_allclose(a.weights_, b.weights_)
    assert_allclose(a.dual_coef_, b.dual_coef_)
    alpha = np.zeros(Y.shape)
    alpha[a.support_] = a.dual_coef_.T
    assert (alpha[holes] == 0.0).all()
    assert (alpha != 0.0).any()
    right = (a.predict(X) == Y) | holes
    assert_allclose(a.score(X, with_zero), right.all(axis=1).mean())


def test_constant_labels_are_kept_warned_about_and_predicted_constant(data):
    X, Y = data
    more = np.column_stack([np.ones(len(Y)), Y, np.zeros(len(Y)), np.full(len(Y), np.nan)])
    with pytest.warns(UserWarning, match="3 of 7 labels have only one class"):
        fitted = model(solver="level").fit(X, more)
    assert_array_equal(fitted.constant_labels_, [0, 5, 6])
    predicted = fitted.predict(X)
    assert (predicted[:, 0] == 1).all()
    assert (predicted[:, 5:] == 0).all()
    assert_allclose(fitted.label_weights_[[0, 5, 6]], 0.0)
    plain = model(solver="level").fit(X, Y)
    assert_allclose(fitted.objective_, plain.objective_, rtol=2e-3)
    with pytest.raises(ValueError, match="only one class"):
        model().fit(X, np.ones((len(X), 2)))


def test_bad_labels_are_explained(data):
    X, Y = data
    bad = Y.copy()
    bad[3, 1] = 5
    with pytest.raises(ValueError, match="row 3, column 1"):
        model().fit(X, bad)
    with pytest.raises(ValueError, match="not known for multilabel"):
        model(solver="newton").fit(X, Y)
    with pytest.raises(ValueError, match="tables of labels"):
        model(threshold="f1").fit(X, Y[:, 0])
    with pytest.raises(ValueError, match="not trained on"):
        parse_labels([{"a"}, {"z"}], np.array(["a", "b"]))


def test_mistakes_are_explained_before_anything_is_solved(data):
    X, Y = data
    for options, message in (
        ({"eta": -1.0}, "eta=-1.0"),
        ({"delta": 2.0}, "delta=2.0"),
        ({"stop": "soon"}, "stop='soon'"),
    ):
        with pytest.raises(ValueError, match=message):
            model(**options).fit(X, Y)
    with pytest.raises(ValueError, match="at least one"):
        model().fit(X, Y[:, :0])
    with pytest.raises(ValueError, match="types int, str"):
        model().fit(X, [{"a"}, {1}] * 45)
    with pytest.raises(ValueError, match="all empty"):
        model().fit(X, [set()] * 90)


def test_a_column_of_sets_is_a_list_of_sets(data):
    X, Y = data
    sets = [set(np.flatnonzero(row).tolist()) for row in Y]
    column = np.empty(len(sets), dtype=object)
    column[:] = sets
    assert_array_equal(parse_labels(column)[0], parse_labels(sets)[0])
    assert_array_equal(model().fit(X, column).predict(X), model().fit(X, sets).predict(X))


def test_constant_labels_have_no_weight_in_the_sum(data):
    X, Y = data
    with pytest.warns(UserWarning, match="1 of 5 labels"):
        fitted = model(objective="sum").fit(X, np.column_stack([Y, np.ones(len(Y))]))
    assert_allclose(fitted.label_weights_, [0.25, 0.25, 0.25, 0.25, 0.0])


def test_labels_given_twice_and_labels_turned_round_change_nothing(data):
    X, Y = data
    once = model(tol=1e-6).fit(X, Y)
    assert_allclose(model(tol=1e-6).fit(X, np.column_stack([Y, Y])).objective_, once.objective_, rtol=1e-5)
    assert_allclose(model(tol=1e-6).fit(X, np.column_stack([Y, 1 - Y])).objective_, once.objective_, rtol=1e-5)


def test_the_stop_rule_of_the_paper_warns_that_nothing_is_proved(data):
    X, Y = data
    with pytest.warns(ConvergenceWarning, match="hardly changed"):
        fitted = model(solver="sa", stop="change").fit(X, Y)
    assert not fitted.converged_
    assert fitted.n_iter_ == 1
    assert fitted.dual_gap_ > 0.0


def test_classes_are_labels_one_against_the_rest():
    X, y = load_iris(return_X_y=True)
    names = np.array(["setosa", "versicolor", "virginica"])[y]
    fitted = MultilabelMKLClassifier([RBF(columns=[0, 1]), RBF(columns=[2, 3])], C=10.0, random_state=0).fit(X, names)
    assert fitted.score(X, names) > 0.93
    assert fitted.decision_function(X).shape == (150, 3)
    assert_array_equal(fitted.predict_top(X, 1)[:, 0], fitted.predict(X))
    assert fitted.label_weights_[0] < 0.01  # setosa is easy


def test_top_labels_are_those_with_the_highest_scores(data):
    X, Y = data
    fitted = model(solver="level").fit(X, Y)
    top, scores = fitted.predict_top(X, 2), fitted.decision_function(X)
    rows = np.arange(len(X))
    assert_allclose(scores[rows, top[:, 0]], scores.max(axis=1))
    assert_allclose(scores[rows, top[:, 1]], np.sort(scores, axis=1)[:, -2])
    with pytest.raises(ValueError, match="k=9"):
        fitted.predict_top(X, 9)


@pytest.mark.parametrize("n_labels", [2, 3])
def test_contributions_of_kernels_add_up_for_each_label(data, n_labels):
    X, Y = data
    fitted = model(solver="level").fit(X, Y[:, :n_labels])
    shares = fitted.kernel_contributions(X)
    assert shares.shape == (len(X), len(KERNELS), n_labels)
    assert_allclose(shares.sum(axis=1) + fitted.intercept_, fitted.decision_function(X), atol=1e-9)


@pytest.mark.parametrize("criterion", ["f1", "accuracy"])
def test_a_threshold_is_the_best_of_all(criterion):
    rng = np.random.default_rng(0)
    scores = np.round(rng.normal(size=60), 1)  # with ties
    signs = np.where(scores + rng.normal(size=60) > 0.8, 1.0, -1.0)
    signs[:5] = 0.0

    def quality(cut):
        used = signs != 0
        predicted, truth = scores[used] > cut, signs[used] > 0
        return f1_score(truth, predicted) if criterion == "f1" else np.mean(predicted == truth)

    best = best_threshold(scores, signs, criterion)
    assert_allclose(quality(best), max(quality(cut) for cut in np.arange(-4.025, 4.0, 0.05)))


def test_thresholds_come_from_samples_left_out(data):
    X, Y = data
    plain, tuned = (model(solver="level", threshold=t).fit(X, Y) for t in (None, "f1"))
    assert_array_equal(plain.thresholds_, 0.0)
    assert (tuned.thresholds_ != 0.0).any()
    assert_allclose(tuned.decision_function(X), plain.decision_function(X))
    assert_array_equal(tuned.predict(X), tuned.decision_function(X) > tuned.thresholds_)
    K, inner = np.eye(20) + 0.5, LabelSVMs(np.where(np.arange(20) % 2, 1.0, -1.0)[:, None], bias=False)
    train, test = np.arange(10), np.arange(10, 20)
    _, alpha = LabelSVMs(inner.signs[train], bias=False).solve(K[:10, :10], tol=1e-9)
    for memory in (1 << 28, 0):  # the kernel in memory, and streamed
        problem = LabelSumProblem(DenseStack(np.stack([K, 3 * K])), inner, memory)
        found = left_out_scores(problem, np.array([0.25, 0.25]), np.zeros((20, 1)), [(train, test)], 1e-9)
        assert_allclose(found[test], K[10:, :10] @ alpha, atol=1e-6)


def test_a_bias_and_weights_of_signs_change_the_solution(data):
    X, Y = data
    assert_array_equal(model(solver="level").fit(X, Y).intercept_, 0.0)
    assert (model(solver="level", bias=True).fit(X, Y).intercept_ != 0.0).all()
    more = model(solver="level", class_weight={-1: 0.01, 1: 1.0}).fit(X, Y).predict(X)
    assert more.sum() > model(solver="level").fit(X, Y).predict(X).sum()


def test_random_state_decides_and_warm_starts_go_on(data):
    X, Y = data
    a, b = (model(solver="sa-vr").fit(X, Y) for _ in range(2))
    assert_array_equal(a.weights_, b.weights_)
    assert_array_equal(a.dual_coef_, b.dual_coef_)
    cold = model(solver="level", warm_start=True).fit(X, Y)
    first = cold.n_iter_
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert cold.fit(X, Y).n_iter_ <= first
