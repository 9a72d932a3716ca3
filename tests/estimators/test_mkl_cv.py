"""C and p by cross-validation: the scores of a grid search, the rules, and the model that is left."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.model_selection import GridSearchCV

import multikernel as mk
from multikernel.io.models import load, save
from multikernel.kernels import RBF

KERNELS = [RBF(columns=[0, 1]), RBF(columns=[2, 3]), RBF(columns=[4])]
CS, PS = [0.1, 1.0, 10.0], [1.0, 2.0, np.inf]


def table(n=90, n_classes=3):
    rng = np.random.default_rng(0)
    y = np.arange(n) % n_classes
    X = rng.normal(size=(n, 5))
    X[:, :2] += 0.8 * y[:, None]
    return X, y


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("precomputed", [False, True])
def test_scores_are_those_of_a_grid_search(n_classes, precomputed):
    X, y = table(n_classes=n_classes)
    kernels = "precomputed" if precomputed else KERNELS
    data = np.moveaxis(mk.gram_stack(X, KERNELS).to_array(), 0, -1) if precomputed else X
    model = mk.MKLClassifierCV(kernels, CS, PS, cv=3, tol=1e-9).fit(data, y)
    search = GridSearchCV(mk.MKLClassifier(kernels, tol=1e-9), {"C": CS, "p": PS}, cv=3).fit(data, y)
    theirs = dict(
        zip([(q["C"], q["p"]) for q in search.cv_results_["params"]], search.cv_results_["mean_test_score"])
    )
    for pair, mean in zip(model.cv_results_["params"], model.cv_results_["mean_test_score"]):
        assert_allclose(mean, theirs[pair["C"], pair["p"]], atol=1e-12)
    assert model.best_score_ == pytest.approx(search.best_score_)
    assert sorted(model.cv_results_["rank_test_score"])[0] == 1
    plain = mk.MKLClassifier(kernels, C=model.C_, p=model.p_, tol=1e-9).fit(data, y)
    assert model.objective_ == pytest.approx(plain.objective_, rel=1e-8)
    assert_allclose(model.weights_, plain.weights_, atol=1e-3)
    assert model.best_params_ == {"C": model.C_, "p": model.p_}


def test_rules_of_choice():
    from multikernel.estimators.mkl import _chosen, _results

    pairs = [{"C": C, "p": p} for p in (1.0, 2.0) for C in (0.1, 1.0)]
    scores = np.array([[0.84, 0.9, 0.7, 0.9], [0.86, 0.84, 0.7, 0.84]])
    results = _results(pairs, scores)
    assert pairs[_chosen(results, "best")] == {"C": 1.0, "p": 2.0}  # of equals the smallest C, the largest p
    assert pairs[_chosen(results, "one-se")] == {"C": 0.1, "p": 1.0}  # 0.85 is within 0.03 of 0.87
    assert results["rank_test_score"].tolist() == [3, 1, 4, 1]


def test_other_scores_weights_missing_views_and_files(tmp_path):
    X, y = table(n_classes=2)
    X[::7, 2:4] = np.nan
    weight = np.random.default_rng(1).random(len(y))
    model = mk.MKLClassifierCV(KERNELS, CS, PS, cv=2, scoring="roc_auc", rule="one-se", missing="mask")
    model.fit(X, y, sample_weight=weight)
    assert 0.5 < model.best_score_ <= 1.0
    save(model, tmp_path / "model.mkl")
    again = load(tmp_path / "model.mkl")
    assert_allclose(again.decision_function(X), model.decision_function(X))
    assert again.best_params_ == model.best_params_
    with pytest.raises(ValueError, match="rule='first' is not known"):
        mk.MKLClassifierCV(KERNELS, rule="first").fit(X, y)
