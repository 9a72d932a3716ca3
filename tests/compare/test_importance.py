"""Which views matter in a comparison: planted ones, cheaply, in the table, on the page and in the file of results."""

import json

import numpy as np
import pytest

from multikernel.compare import compare
from multikernel.compare.importance import PooledParts, views_of
from multikernel.compare.table import text_table
from multikernel.gram import gram_stack
from multikernel.kernels import RBF, Linear, kernel_grid
from multikernel.report.page import render

RNG = np.random.default_rng(0)
Y = np.arange(150) % 3
X = RNG.normal(size=(150, 6)) + np.pad(1.5 * np.eye(3)[Y], ((0, 0), (0, 3)))
KERNELS = kernel_grid({"signal": [0, 1, 2], "noise": [3, 4, 5]})


@pytest.fixture(scope="module")
def found():
    return compare(
        X, Y, KERNELS, methods=["average", "mkl", "product"], cv=3, grid={"C": [1.0]}, single_kernels=False
    )


def test_the_planted_view_matters_and_noise_does_not(found):
    assert found.best().title in [one.method for one in found.importance] or found.best().name == "product"
    assert "Average kernel SVM" in [one.method for one in found.importance]
    for one in found.importance:
        assert one.views == ["signal", "noise"]
        assert one.drops[0] > 0.2 > one.drops[1]
        assert one.p_values[0] < 0.05


def test_p_values_of_noise_are_rarely_small():
    small = 0
    for seed in range(12):
        rng = np.random.default_rng(seed)
        noisy = np.column_stack([X[:90, :3], rng.normal(size=(90, 3))])
        kernels = [RBF(columns=[0, 1, 2]), RBF(columns=[3, 4, 5])]
        result = compare(noisy, Y[:90], kernels, methods=["average"], cv=3, grid={"C": [1.0]}, single_kernels=False)
        small += result.importance[0].p_values[1] < 0.05
    assert small <= 2


def test_it_is_in_the_table_on_the_page_and_in_the_results(found):
    assert "Which views matter: accuracy lost on test samples" in text_table(found)
    assert text_table(found).splitlines()[-2].startswith("signal")
    assert "<h2>Which views matter</h2>" in render(found)
    assert json.loads(json.dumps(found.to_dict(), allow_nan=False))["importance"][0]["views"] == ["signal", "noise"]


def test_it_can_be_left_out_and_keeps_to_its_time(found, monkeypatch):
    orders = []
    monkeypatch.setattr(PooledParts, "_score", lambda self, score, view, rng: orders.append(view) or rng.uniform())
    PooledParts("average", {"a": np.array([0]), "b": np.array([1])}).importance(None, 0.0, 0)
    assert orders == [None, *[0] * 19, *[1] * 19]  # the fewest that tell anything
    monkeypatch.undo()
    options = {"methods": ["average"], "cv": 3, "grid": {"C": [1.0]}, "single_kernels": False}
    without = compare(X, Y, KERNELS, importance=False, **options)
    assert without.importance == []
    assert "Which views" not in text_table(without) + render(without)
    pooled = compare(gram_stack(X, KERNELS), Y, **options, scoring="roc_auc")
    assert len(pooled.importance[0].views) == len(KERNELS)
    assert compare(X, Y, [RBF()], **options).importance == []  # of one view


def test_views_are_columns():
    kernels = [Linear(), RBF(), RBF(columns=[1], name="rbf on a"), Linear(columns=[1], name="linear on a")]
    found = views_of(kernels, [kernel.label for kernel in kernels])
    assert {name: list(members) for name, members in found.items()} == {"all columns": [0, 1], "a": [2, 3]}
    named = [Linear(columns=[0], name="top left linear"), RBF(columns=[0], name="top left rbf")]
    assert list(views_of(named, [kernel.label for kernel in named])) == ["top left"]
    assert list(views_of("precomputed", ["k on a", "l"])) == ["a", "l"]
