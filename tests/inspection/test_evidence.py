"""Displays of evidence draw what they are given."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

import multikernel as mk
from multikernel.inspection import (
    DecisionDisplay,
    ViewImportanceDisplay,
    WeightStabilityDisplay,
    view_importance,
    weight_stability,
)
from multikernel.kernels import RBF

pytest.importorskip("matplotlib").use("Agg")


@pytest.fixture
def fitted():
    rng = np.random.default_rng(0)
    y = np.arange(90) % 3
    X = rng.normal(size=(90, 3))
    X[:, 0] += 2.0 * y
    return mk.MKLClassifier([RBF(columns=[j]) for j in range(3)], p=2.0).fit(X, y), X, y


def test_importance_has_the_largest_view_on_top(fitted):
    model, X, y = fitted
    result = view_importance(model, X, y, random_state=0)
    for display in (
        ViewImportanceDisplay.from_results(result),
        ViewImportanceDisplay.from_estimator(model, X, y, random_state=0),
    ):
        labels = [label.get_text() for label in display.ax_.get_yticklabels()]
        assert labels[-1] == result.names[result.importances_mean.argmax()] == "column 0"
        assert len(display.ax_.texts) == 3
        assert display.ax_.texts[-1].get_text() == "p < 0.001"


def test_stability_draws_intervals_and_frequencies(fitted):
    model, X, y = fitted
    result = weight_stability(model, X, y, n_resamples=4, random_state=0)
    display = WeightStabilityDisplay.from_results(result, max_kernels=2)
    assert len(display.ax_.get_yticklabels()) == 2
    assert display.ax_.texts[-1].get_text() == "100 %"
    ends = [segment[1, 0] for segment in display.ax_.collections[0].get_segments()]
    assert_allclose(ends[-1], result.intervals[0, 1])


def test_a_waterfall_ends_at_the_score(fitted):
    pytest.importorskip("pandas")
    model, X, _ = fitted
    display = DecisionDisplay.from_estimator(model, X, sample=5)
    scores = model.decision_function(X[5:6])[0]
    assert display.table["class"].iloc[0] == model.classes_[scores.argmax()]
    last = display.ax_.patches[-1]
    assert_allclose(last.get_x() + last.get_width(), scores.max())
    other = DecisionDisplay.from_estimator(model, X, sample=5, class_name=0)
    assert_allclose(other.table["contribution"].sum(), scores[0])
    with pytest.raises(ValueError, match="class_name=9 is not one of 0, 1, 2"):
        DecisionDisplay.from_estimator(model, X, class_name=9)
