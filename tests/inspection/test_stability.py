"""Stability of weights: what resampling finds on planted problems, and what its numbers are."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import multikernel as mk
from multikernel.inspection import weight_stability
from multikernel.inspection.stability import weight_shares
from multikernel.kernels import RBF

KERNELS = [RBF(columns=[j]) for j in range(6)]


def planted(n=120, seed=0):
    """Columns 0 and 1 know the class, four do not."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 2
    X = rng.normal(size=(n, 6))
    X[:, :2] += 2.0 * y[:, None]
    return X, y


@pytest.mark.parametrize("p", [1.0, 2.0])
def test_useful_kernels_are_selected_and_noise_is_not(p):
    X, y = planted()
    model = mk.MKLClassifier(KERNELS, p=p)
    result = weight_stability(make_pipeline(StandardScaler(), model).fit(X, y), X, y, n_resamples=20, random_state=0)
    assert result.weights.shape == (20, 6)
    assert len(result.names) == 6
    assert_allclose(result.weights.sum(axis=1), 1.0)
    assert result.frequencies[:2].min() > 0.9 > 0.6 > result.frequencies[2:].max()
    assert (result.intervals[:, 0] <= np.median(result.weights, axis=0)).all()
    assert (result.intervals[:, 1] >= np.median(result.weights, axis=0)).all()
    assert result.agreement > 0.5


def test_numbers_are_those_of_their_formulas():
    X, y = planted()
    model = mk.MKLClassifier(KERNELS, p=2.0).fit(X, y)
    result = weight_stability(model, X, y, n_resamples=8, threshold=0.2, level=0.5, random_state=1)
    selected = result.weights > 0.2
    assert_allclose(result.frequencies, selected.mean(axis=0))
    often = result.frequencies > 0.5
    bound = selected.sum(axis=1).mean() ** 2 / 6 / (2 * result.frequencies[often] - 1)
    assert_allclose(result.false_selections[often], bound)
    assert np.isinf(result.false_selections[~often]).all()
    assert_allclose(result.intervals, np.quantile(result.weights, [0.25, 0.75], axis=0).T)
    pairs = [np.corrcoef(a, b)[0, 1] for a, b in zip(result.weights[::2], result.weights[1::2])]
    assert_allclose(result.agreement, np.mean(pairs))


def test_the_start_from_the_whole_fit_changes_nothing():
    """Fits to halves agree with fits that were not started anywhere."""
    from sklearn.model_selection import StratifiedShuffleSplit

    X, y = planted()
    model = mk.MKLClassifier(KERNELS, p=1.5, tol=1e-8).fit(X, y)
    result = weight_stability(model, X, y, n_resamples=4, random_state=3)
    halves = StratifiedShuffleSplit(2, test_size=0.5, random_state=np.random.RandomState(3)).split(X, y)
    for row, half in zip(result.weights, (half for pair in halves for half in pair)):
        fresh = mk.MKLClassifier(KERNELS, p=1.5, tol=1e-8).fit(X[half], y[half])
        assert_allclose(row, weight_shares(fresh), atol=1e-4)


def test_precomputed_per_class_multilabel_and_regression():
    X, y = planted()
    stack = mk.gram_stack(X, KERNELS)
    array = np.moveaxis(stack.to_array(), 0, -1)
    given = weight_stability(
        mk.MKLClassifier("precomputed", tol=1e-8).fit(stack, y), stack, y, n_resamples=4, random_state=0
    )
    same = weight_stability(
        mk.MKLClassifier("precomputed", tol=1e-8).fit(array, y), array, y, n_resamples=4, random_state=0
    )
    assert_allclose(given.weights, same.weights, atol=1e-4)
    three = np.arange(120) % 3
    X[:, 0] += three
    per_class = mk.MKLClassifier(KERNELS, weights="per-class").fit(X, three)
    assert_allclose(weight_stability(per_class, X, three, n_resamples=2).weights.sum(axis=1), 1.0)
    labels = np.eye(3, dtype=int)[three]
    assert weight_stability(
        mk.MultilabelMKLClassifier(KERNELS).fit(X, labels), X, labels, n_resamples=2
    ).weights.shape == (2, 6)
    regressor = mk.SVRGMKLRegressor(KERNELS).fit(X, X[:, 0])
    assert weight_stability(regressor, X, X[:, 0], n_resamples=2).frequencies[0] == 1.0


def test_what_a_search_chose_is_refitted():
    X, y = planted()
    search = GridSearchCV(make_pipeline(StandardScaler(), mk.MKLClassifier(KERNELS)), {"mklclassifier__C": [0.1]})
    found, expected = (
        weight_stability(model, X, y, n_resamples=2, random_state=0)
        for model in (search.fit(X, y), search.best_estimator_)
    )
    assert_allclose(found.weights, expected.weights)


def test_bad_parameters_are_named():
    X, y = planted()
    model = mk.MKLClassifier(KERNELS).fit(X, y)
    with pytest.raises(ValueError, match="n_resamples=5 must be even"):
        weight_stability(model, X, y, n_resamples=5)
    with pytest.raises(ValueError, match="level=2 must be between"):
        weight_stability(model, X, y, level=2)
