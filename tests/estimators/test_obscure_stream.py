"""Streams with a budget: which support vector goes, and that the two rules differ where they should."""

import numpy as np
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import load_iris

from multikernel import ObscureClassifier
from multikernel.kernels import RBF, Linear


def on_a_line(eviction, weights=(1.0, 1.0, 1.0)):
    """A sample of class 1 at ten, then two of class 0 near zero; the third is one too many."""
    model = ObscureClassifier([RBF(bandwidth=1.0)], p=2.0, eta=0.5, budget=2, eviction=eviction)
    X, y = np.array([[10.0], [0.0], [0.5]]), np.array([1, 0, 0])
    return model.partial_fit(X, y, classes=[0, 1], sample_weight=np.array(weights))


def test_the_oldest_goes_even_if_it_is_the_last_of_its_class():
    model = on_a_line("oldest")
    assert model.n_updates_ == 3
    assert_allclose(model.decision_function([[10.0]]), 0.0, atol=1e-12)


def test_of_equal_coefficients_the_one_goes_that_the_others_replace():
    model = on_a_line("smallest")
    assert model.n_updates_ == 3
    assert len(model.support_) == 2
    assert model.decision_function([[10.0]])[0] > 0.2  # class 1 has nobody else, the two near zero have each other
    assert model.decision_function([[0.0]])[0] < -0.2


def test_the_smallest_coefficient_goes_whatever_the_margins():
    model = on_a_line("smallest", weights=(0.1, 1.0, 1.0))
    assert_allclose(model.decision_function([[10.0]]), 0.0, atol=1e-12)


def test_the_two_rules_part_on_real_samples():
    X, y = load_iris(return_X_y=True)
    order = np.random.default_rng(0).permutation(150)
    scores = {}
    for eviction in ("oldest", "smallest"):
        model = ObscureClassifier([RBF(), Linear()], budget=10, eviction=eviction)
        for part in np.array_split(order, 5):
            model.partial_fit(X[part], y[part], classes=[0, 1, 2])
            assert len(model.support_) <= 10
        scores[eviction] = model.decision_function(X)
    assert np.abs(scores["oldest"] - scores["smallest"]).max() > 0.1


def test_mistakes_are_counted_before_the_label_is_seen():
    """A model that predicts each sample before it learns it counts the same mistakes; a tie is one, too."""
    X, y = load_iris(return_X_y=True)
    order = np.random.default_rng(1).permutation(150)
    model, wrong = ObscureClassifier([RBF(bandwidth=1.0), Linear()]), 0
    for k, i in enumerate(order):
        if k > 0:
            wrong += int(model.predict(X[i : i + 1])[0] != y[i])
        model.partial_fit(X[i : i + 1], y[i : i + 1], classes=[0, 1, 2])
    assert model.n_mistakes_ == wrong + 1  # nothing is known before the first
    assert sum(row["mistakes"] for row in model.history_) == model.n_mistakes_
    assert sum(row["updates"] for row in model.history_) == model.n_updates_ >= model.n_mistakes_


def test_a_stream_is_repeatable_and_needs_no_random_numbers():
    X, y = load_iris(return_X_y=True)
    models = [ObscureClassifier([RBF(), Linear()], random_state=seed) for seed in (0, 1)]
    first, second = (model.partial_fit(X, y, classes=[0, 1, 2]) for model in models)
    assert_array_equal(first.dual_coef_, second.dual_coef_)
