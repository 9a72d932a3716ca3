"""Weights in proportion to each kernel's own accuracy: by their definition, and with little to go by."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.datasets import load_breast_cancer
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import cross_val_score
from sklearn.svm import SVC

from multikernel import PWMKClassifier
from multikernel.gram import DenseStack


@pytest.fixture(scope="module")
def cancer():
    X, y = load_breast_cancer(return_X_y=True)
    X, y = ((X - X.mean(axis=0)) / X.std(axis=0))[:150], y[:150]
    noise = np.random.default_rng(0).normal(size=(150, 3))
    return np.stack([rbf_kernel(X[:, :3]), rbf_kernel(X[:, 3:9]), rbf_kernel(noise)]), y


@pytest.mark.parametrize("delta", [0.0, 0.7, 1.0])
def test_weights_are_in_proportion_to_cross_validated_accuracies(cancer, delta):
    K, y = cancer
    model = PWMKClassifier("precomputed", C=2.0, delta=delta, cv=3, tol=1e-6).fit(DenseStack(K), y)
    machine = SVC(kernel="precomputed", C=2.0, tol=1e-6)
    scores = np.array([cross_val_score(machine, kernel, y, cv=3).mean() for kernel in K])
    expected = scores - delta * scores.min()
    assert_allclose(model.kernel_scores_, scores)
    assert_allclose(model.weights_, expected / expected.sum())
    combined = np.tensordot(model.weights_, K, axes=1)
    theirs = machine.fit(combined, y).decision_function(combined)
    assert_allclose(model.decision_function(DenseStack(K)), theirs, atol=1e-3)


def test_order_does_not_matter_and_equal_scores_are_equal_weights(cancer):
    K, y = cancer
    weights = PWMKClassifier("precomputed", delta=0.5).fit(DenseStack(K), y).weights_
    moved = PWMKClassifier("precomputed", delta=0.5).fit(DenseStack(np.ascontiguousarray(K[::-1])), y).weights_
    assert_allclose(moved, weights[::-1])
    twins = PWMKClassifier("precomputed", delta=1.0).fit(DenseStack(np.stack([K[0], K[0]])), y)
    assert_allclose(twins.weights_, 0.5)


def test_scores_below_zero_and_shares_out_of_range_are_refused(cancer):
    K, y = cancer
    with pytest.raises(ValueError, match="at least 0, such as accuracy"):
        PWMKClassifier("precomputed", scoring="neg_mean_squared_error").fit(DenseStack(K), y)
    with pytest.raises(ValueError, match=r"delta=1\.5 must be from 0 to 1"):
        PWMKClassifier("precomputed", delta=1.5).fit(DenseStack(K), y)
