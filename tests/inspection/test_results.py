"""Everything that is known about the kernels of a model is in one table."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from multikernel import MKLClassifier
from multikernel.inspection import results_frame, view_importance, weight_stability, write_uns
from multikernel.kernels import RBF, Linear, kernel_grid

COLUMNS = ["kernel", "view", "weight", "share", "importance", "p_value", "low", "high", "frequency"]


@pytest.fixture(scope="module")
def task():
    rng = np.random.default_rng(0)
    y = np.arange(80) % 2
    X = rng.normal(size=(80, 4))
    X[:, 0] += 2 * y
    kernels = kernel_grid({"rna": [0, 1], "protein": [2, 3]}, [RBF(), Linear()], ["mean"])
    return X, y, make_pipeline(StandardScaler(), MKLClassifier(kernels)).fit(X, y)


def test_weights_alone_make_a_table(task):
    *_, model = task
    table = results_frame(model)
    assert list(table.columns) == COLUMNS
    assert list(table["kernel"]) == list(model[-1].kernel_names_)
    assert list(table["view"]) == ["rna", "rna", "protein", "protein"]
    assert_array_equal(table["weight"], model[-1].weights_)
    assert_allclose(table["share"].sum(), 1.0)
    assert table[COLUMNS[4:]].isna().to_numpy().all()


def test_importance_is_of_views_and_stability_of_kernels(task):
    X, y, model = task
    importance = view_importance(model, X, y, random_state=0)
    stability = weight_stability(model, X, y, n_resamples=4, random_state=0)
    table = results_frame(model, importance, stability)
    assert_array_equal(table["importance"], importance.importances_mean[[0, 0, 1, 1]])
    assert_array_equal(table["p_value"], importance.p_values[[0, 0, 1, 1]])
    assert_array_equal(table[["low", "high"]], stability.intervals)
    assert_array_equal(table["frequency"], stability.frequencies)


def test_views_are_those_of_the_importance(task):
    X, y, model = task
    views = {"linear on rna alone": [1]}
    importance = view_importance(model, X, y, views=views, random_state=0)
    table = results_frame(model, importance, views=views)
    assert list(table["view"]) == ["", "linear on rna alone", "", ""]
    assert_array_equal(table["importance"].isna(), [True, False, True, True])
    with pytest.raises(ValueError, match="importance is not of view 'rna', but of linear on rna alone"):
        results_frame(model, importance)


def test_weights_per_class_are_averaged():
    X, y = np.random.default_rng(0).normal(size=(60, 2)), np.arange(60) % 3
    kernels = [RBF(columns=[0]), RBF(columns=[1])]
    model = MKLClassifier(kernels, p=2.0, weights="per-class").fit(X, y)
    assert_allclose(results_frame(model)["weight"], model.weights_.mean(axis=0))
    other = weight_stability(MKLClassifier(kernels[:1]).fit(X, y), X, y, n_resamples=2, random_state=0)
    with pytest.raises(ValueError, match="other kernels"):
        results_frame(model, stability=other)


def test_results_are_kept_with_the_data(task, tmp_path):
    anndata = pytest.importorskip("anndata")
    X, y, model = task
    data = anndata.AnnData(X)
    write_uns(data, model, view_importance(model, X, y, random_state=0))
    data.write_h5ad(tmp_path / "data.h5ad")
    kept = anndata.read_h5ad(tmp_path / "data.h5ad").uns["multikernel"]
    pd.testing.assert_frame_equal(kept, data.uns["multikernel"], check_dtype=False)
    assert list(kept["view"]) == ["rna", "rna", "protein", "protein"]
