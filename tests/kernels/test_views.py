"""Lists and dicts of views become one X with known columns."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal
from scipy import sparse
from sklearn.datasets import load_iris

from multikernel import KernelAverageClassifier
from multikernel.kernels import RBF, join_views, kernel_grid


def test_views_keep_their_values_and_names():
    a, b = np.arange(6.0).reshape(3, 2), pd.DataFrame({"x": [7.0, 8.0, 9.0]})
    X, columns = join_views({"a": a, "b": b})
    assert_array_equal(X[:, columns["a"]], a)
    assert_array_equal(X[:, columns["b"]], b)
    X, columns = join_views([a, np.arange(3)])
    assert list(columns) == ["view0", "view1"]
    assert X.shape == (3, 3)


def test_sparse_views_make_a_sparse_matrix():
    X, columns = join_views({"a": sparse.eye(3), "b": np.ones((3, 2))})
    assert sparse.issparse(X)
    assert_array_equal(X[:, columns["b"]].toarray(), np.ones((3, 2)))


def test_joined_views_feed_an_estimator():
    iris, y = load_iris(return_X_y=True)
    X, columns = join_views({"sepals": iris[:, :2], "petals": iris[:, 2:]})
    model = KernelAverageClassifier(kernel_grid(columns, [RBF()], ["mean"])).fit(X, y)
    assert list(model.kernel_names_) == ["rbf(mean) on sepals", "rbf(mean) on petals"]


def test_frames_are_joined_by_their_index():
    rna = pd.DataFrame({"g": [1.0, 2.0, 3.0]}, index=["p1", "p2", "p3"])
    age = pd.Series([30.0, 10.0, 20.0], index=["p3", "p1", "p2"])
    X, columns = join_views({"rna": rna, "age": age})
    assert_array_equal(X[:, columns["rna"]].ravel(), [1.0, 2.0, 3.0])
    assert_array_equal(X[:, columns["age"]].ravel(), [10.0, 20.0, 30.0])
    # arrays have no IDs: they follow the order that all frames share
    X, _ = join_views([rna, np.array([7.0, 8.0, 9.0])])
    assert_array_equal(X, [[1.0, 7.0], [2.0, 8.0], [3.0, 9.0]])


def _frame(*ids):
    return pd.DataFrame({"x": np.arange(float(len(ids)))}, index=list(ids))


@pytest.mark.parametrize(
    ("views", "message"),
    [
        ([_frame("a", "b", "c"), _frame("b", "c", "d")], "1 IDs are missing in 'view1', 'a' for .*in 'view0', 'd'"),
        ([_frame("a", "b", "c"), _frame("a", "b")], "different samples: 1 IDs are missing in 'view1', 'c'"),
        ([_frame("a", "b"), _frame(0, 1)], "2 IDs are missing in 'view1'"),
        ([_frame("a", "a", "b"), _frame("a", "b", "c")], "'view0' has the same ID in several rows, 'a'"),
        ([_frame("a", "b"), _frame("b", "a"), np.ones(2)], "'view2' has none, so the order"),
    ],
)
def test_frames_of_other_samples_are_refused(views, message):
    with pytest.raises(ValueError, match=message):
        join_views(views)


@pytest.mark.parametrize(
    ("views", "message"),
    [
        ({"a": np.ones((3, 2)), "b": np.ones((4, 2))}, "'a' has 3, 'b' has 4"),
        ({}, "no views"),
        ({"a": np.array([["x"]])}, "not numbers"),
        ({"a": np.ones((2, 2, 2))}, "table of shape"),
    ],
)
def test_views_that_do_not_fit_are_named(views, message):
    with pytest.raises(ValueError, match=message):
        join_views(views)


def test_annotated_data_are_refused_with_what_to_pass_instead():
    class AnnData:
        obs_names = ("a", "b")

    with pytest.raises(TypeError, match=r"view 'rna' is an AnnData: pass its to_df\(\)"):
        join_views({"rna": AnnData(), "protein": np.ones((2, 3))})
