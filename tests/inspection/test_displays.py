"""Displays draw what the estimators hold."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.base import BaseEstimator
from sklearn.datasets import load_iris
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from multikernel import KernelAverageClassifier, MKLClassifier
from multikernel.inspection import ConvergenceDisplay, KernelWeightsDisplay, WeightPathDisplay
from multikernel.kernels import RBF, Linear

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("Agg")


@pytest.fixture(autouse=True)
def close_figures():
    yield
    import matplotlib.pyplot as plt

    plt.close("all")


@pytest.fixture(scope="module")
def model():
    X, y = load_iris(return_X_y=True)
    return KernelAverageClassifier([Linear(name="line"), RBF(name="bell")]).fit(X, y)


class Fitted(BaseEstimator):
    """An estimator with the fitted attributes that a test wants."""

    def fit(self, X, y):
        raise NotImplementedError

    def __sklearn_is_fitted__(self):
        return True


def fitted(**attributes):
    estimator = Fitted()
    vars(estimator).update(attributes)
    return estimator


def history(weights, problem=0):
    return [
        {"problem": problem, "time": 0.1 * (k + 1), "relative_gap": 10.0**-k, "weights": np.array(w)}
        for k, w in enumerate(weights)
    ]


def test_bars_are_the_weights_in_order(model):
    display = KernelWeightsDisplay.from_estimator(model)
    assert_allclose([bar.get_width() for bar in display.bars_[0]], model.weights_)
    assert [label.get_text() for label in display.ax_.get_yticklabels()] == ["line", "bell"]


def test_weights_per_class_are_groups_of_bars_with_a_legend():
    weights = np.array([[0.1, 0.9, 0.0], [0.5, 0.2, 0.3]])
    estimator = fitted(weights_=weights, kernel_names_=["a", "b", "c"], classes_=["x", "y"])
    display = KernelWeightsDisplay.from_estimator(estimator)
    assert_allclose([[bar.get_width() for bar in bars] for bars in display.bars_], weights)
    assert [text.get_text() for text in display.ax_.get_legend().get_texts()] == ["x", "y"]


def test_only_the_largest_weights_are_drawn_when_asked():
    estimator = fitted(weights_=np.array([0.1, 0.5, 0.0, 0.4]), kernel_names_=list("abcd"))
    display = KernelWeightsDisplay.from_estimator(estimator, max_kernels=2)
    assert display.kernel_names == ["b", "d"]


def test_the_curve_ends_at_the_largest_gap_of_the_fit(model):
    display = ConvergenceDisplay.from_estimator(model, name="average")
    final = np.max(model.dual_gap_ / model.objective_)
    assert_allclose(display.line_.get_ydata()[-1], max(final, 1e-16))
    assert (np.diff(display.line_.get_xdata()) >= 0).all()


def test_curves_of_two_fits_share_axes(model):
    first = ConvergenceDisplay.from_estimator(model)
    second = ConvergenceDisplay.from_estimator(model, ax=first.ax_, color="black")
    assert second.ax_ is first.ax_
    assert len(first.ax_.lines) == 2
    assert second.line_.get_color() == "black"


def test_the_curve_is_the_worst_problem_and_those_not_begun_count_one():
    rows = [
        {"problem": 0, "time": 0.1, "relative_gap": 0.2},
        {"problem": 1, "time": 0.3, "relative_gap": 0.05},
        {"problem": 0, "time": 0.2, "relative_gap": 0.01},
    ]
    display = ConvergenceDisplay.from_estimator(fitted(history_=rows, n_iter_=3))
    assert_allclose(display.gap, [1.0, 1.0, 0.05])


def test_the_path_follows_one_problem():
    rows = history([[0.5, 0.5], [0.8, 0.2]]) + history([[0.1, 0.9]], problem=1)
    estimator = fitted(history_=rows, kernel_names_=["a", "b"])
    display = WeightPathDisplay.from_estimator(estimator)
    assert_allclose(display.lines_[0].get_ydata(), [0.5, 0.8])
    assert_allclose(WeightPathDisplay.from_estimator(estimator, problem=1).weights, [[0.1, 0.9]])
    with pytest.raises(ValueError, match=r"no problem 2 in the history; there are \[0, 1\]"):
        WeightPathDisplay.from_estimator(estimator, problem=2)


def test_the_legend_names_the_largest_final_weights():
    estimator = fitted(history_=history([[0.1, 0.2, 0.7]]), kernel_names_=["a", "b", "c"])
    display = WeightPathDisplay.from_estimator(estimator, max_labels=2)
    assert [text.get_text() for text in display.ax_.get_legend().get_texts()] == ["b", "c"]


def test_unfitted_estimators_are_refused():
    with pytest.raises(NotFittedError):
        KernelWeightsDisplay.from_estimator(KernelAverageClassifier())


def test_displays_accept_pipelines():
    X, y = load_iris(return_X_y=True)
    pipeline = make_pipeline(StandardScaler(), MKLClassifier([RBF(), Linear()])).fit(X, y)
    for display in (KernelWeightsDisplay, ConvergenceDisplay, WeightPathDisplay):
        assert display.from_estimator(pipeline).ax_ is not None
