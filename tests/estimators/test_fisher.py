"""scikit-learn's own checks of the Fisher discriminant classifiers, and scikit-learn's tools around them."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import load_iris, make_multilabel_classification
from sklearn.model_selection import cross_val_score
from sklearn.multiclass import OneVsRestClassifier

from multikernel import MKFDAClassifier, MKFDAClassifierCV, gram_stack
from multikernel.inspection import GridScoresDisplay
from multikernel.kernels import RBF, Linear


@pytest.fixture(scope="module")
def iris():
    """Features, labels, kernels, and the same kernels computed, shape (n, n, F)."""
    X, y = load_iris(return_X_y=True)
    kernels = [Linear(), RBF(columns=[0, 1], bandwidth=1.0), RBF(columns=[2, 3], bandwidth=1.0)]
    return X, y, kernels, np.moveaxis(gram_stack(X, kernels).to_array(), 0, -1)


def test_one_vs_rest_solves_a_binary_problem_for_each_label():
    X, Y = make_multilabel_classification(n_samples=80, n_features=6, n_classes=3, random_state=0)
    kernels = [Linear(), RBF()]
    model = OneVsRestClassifier(MKFDAClassifier(kernels, reg=1e-2)).fit(X, Y)
    alone = MKFDAClassifier(kernels, reg=1e-2).fit(X, Y[:, 1])
    assert_allclose(model.decision_function(X)[:, 1], alone.decision_function(X), rtol=1e-9)


def test_one_vs_rest_takes_precomputed_kernels(iris):
    _, y, _, K = iris
    model = OneVsRestClassifier(MKFDAClassifier("precomputed", reg=1e-2)).fit(K, y)
    assert model.decision_function(K).shape == (150, 3)
    assert (model.predict(K) == y).mean() > 0.9


def test_transform_gives_named_columns_of_a_frame(iris):
    pytest.importorskip("pandas")
    X, y, kernels, _ = iris
    model = MKFDAClassifier(kernels, reg=1e-2).set_output(transform="pandas").fit(X, y)
    frame = model.transform(X)
    assert list(frame.columns) == [f"mkfdaclassifier{k}" for k in range(3)]
    assert_array_equal(model.predict(X), model.classes_[model.decision_function(X).argmax(axis=1)])


def test_cross_validated_scores_of_the_grid_are_those_of_separate_fits(iris):
    X, y, kernels, _ = iris
    ps, regs = [1.0, 1.5, np.inf], [1e-3, 1e-1]
    grid = MKFDAClassifierCV(kernels, ps=ps, regs=regs, cv=3, scoring="balanced_accuracy", tol=1e-8).fit(X, y)
    for i, p in enumerate(ps):
        for j, reg in enumerate(regs):
            alone = MKFDAClassifier(kernels, p=p, reg=reg, tol=1e-8)
            expected = cross_val_score(alone, X, y, cv=3, scoring="balanced_accuracy")
            assert_allclose(grid.split_scores_[:, i, j], expected)
    best = np.unravel_index(grid.scores_.argmax(), grid.scores_.shape)
    assert grid.best_score_ == grid.scores_[best]
    alone = MKFDAClassifier(kernels, p=grid.p_, reg=grid.reg_, tol=1e-8).fit(X, y)
    assert_allclose(grid.weights_, alone.weights_, rtol=1e-4, atol=1e-4)


def test_binary_grid_scores_rankings_on_a_given_split(iris):
    _, y, _, K = iris
    binary = (y == 1).astype(int)
    train, test = np.arange(0, 150, 2), np.arange(1, 150, 2)
    grid = MKFDAClassifierCV(
        "precomputed", ps=[1.0, 2.0], regs=[1e-2], cv=[(train, test)], scoring="average_precision", n_jobs=2
    ).fit(K, binary)
    alone = MKFDAClassifier("precomputed", p=2.0, reg=1e-2).fit(K[np.ix_(train, train)], binary[train])
    from sklearn.metrics import average_precision_score

    expected = average_precision_score(binary[test], alone.decision_function(K[np.ix_(test, train)]))
    assert grid.split_scores_[0, 1, 0] == pytest.approx(expected, rel=1e-3)


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"solver": "simplex"}, "solver='simplex' is not known"),
        ({"reg": 0.0}, "reg=0.0 must be positive"),
        ({"p": 0.5}, "p=0.5 must be at least 1"),
    ],
)
def test_wrong_parameters_are_explained(iris, params, message):
    X, y, kernels, _ = iris
    with pytest.raises(ValueError, match=message):
        MKFDAClassifier(kernels, **params).fit(X, y)


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"criterion": "aic"}, "criterion='aic' is not known"),
        ({"criterion": "loo", "scoring": "accuracy"}, "leave scoring=None"),
        ({"ps": []}, "ps=.* must be a list of numbers, each at least 1"),
        ({"regs": [1.0, -1.0]}, "regs=.* must be a list of numbers"),
    ],
)
def test_wrong_grids_are_explained(iris, params, message):
    X, y, kernels, _ = iris
    with pytest.raises(ValueError, match=message):
        MKFDAClassifierCV(kernels, **params).fit(X, y)


def test_callbacks_see_the_objective_that_is_stored(iris):
    X, y, kernels, _ = iris
    rows = []
    model = MKFDAClassifier(kernels, p=1.5, reg=1e-2, callback=lambda row: rows.append(row["objective"])).fit(X, y)
    assert rows == [row["objective"] for row in model.history_]
    assert rows[-1] == model.objective_ < 0.0
    assert all(np.diff(rows) >= 0.0)  # the paper's problem is a maximum


def test_the_heat_map_shows_the_scores_and_frames_the_chosen_pair(iris):
    pytest.importorskip("matplotlib").use("Agg")
    X, y, kernels, _ = iris
    model = MKFDAClassifierCV(kernels, ps=[1.0, np.inf], regs=[1e-4, 1e-2, 1.0], criterion="loo").fit(X, y)
    display = GridScoresDisplay.from_estimator(model)
    assert_array_equal(display.image_.get_array(), model.scores_)
    assert [label.get_text() for label in display.ax_.get_xticklabels()] == ["1e-4", "0.01", "1"]
    assert [label.get_text() for label in display.ax_.get_yticklabels()] == ["1", "∞"]
    frame = display.ax_.patches[0].get_xy()
    assert model.scores_[int(frame[1] + 0.5), int(frame[0] + 0.5)] == model.best_score_


def test_a_stack_can_be_fitted_and_predicted_more_than_once(iris):
    X, y, kernels, _ = iris
    stack = gram_stack(X, kernels)
    first = MKFDAClassifier("precomputed", reg=1e-2).fit(stack, y)
    scores = first.decision_function(stack)
    second = MKFDAClassifier("precomputed", reg=1e-2).fit(stack, y)
    assert_array_equal(second.decision_function(stack), scores)
