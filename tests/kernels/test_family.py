"""Families of kernels: shared work, kept distances, columns of every kind of table, grids, real data."""

from __future__ import annotations

import sys
import warnings
from importlib import util

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.compose import make_column_selector
from sklearn.model_selection import GridSearchCV
from sklearn.svm import SVC

from multikernel import KernelAverageClassifier
from multikernel.gram import LowRankStack, gram_stack
from multikernel.kernels import (
    RBF,
    ChiSquared,
    FromDistance,
    HistogramIntersection,
    KernelFamily,
    Laplacian,
    Linear,
    Nystroem,
    Polynomial,
    SpatialPyramid,
    as_kernel,
    default_kernels,
    kernel_grid,
)
from multikernel.kernels import histograms as histogram_quantities
from multikernel.kernels.quantities import InnerProducts, SquaredDistances

NAMES = ["petal length", "petal width", "sepal length", "sepal width"]


def data(n_samples=50, n_columns=8, seed=0):
    return np.random.default_rng(seed).gamma(1.0, size=(n_samples, n_columns))


@pytest.fixture
def count(monkeypatch):
    """Count how many entries each quantity computes."""
    computed: dict[str, int] = {}

    def counting(cls):
        original = cls.compute

        def compute(self, window):
            values = original(self, window)
            computed[type(self).__name__] = computed.get(type(self).__name__, 0) + values.size
            return values

        monkeypatch.setattr(cls, "compute", compute)

    for cls in (InnerProducts, SquaredDistances, histogram_quantities.Histograms):
        counting(cls)
    return computed


MANY = [
    Linear(),
    Polynomial(),
    RBF(bandwidth=1.0),
    RBF(bandwidth="mean"),
    RBF(bandwidth="4*mean"),
    Laplacian(),
    Laplacian(bandwidth="2*median"),
    ChiSquared(),
    ChiSquared(bandwidth="0.5*mean"),
    ChiSquared(additive=True),
    HistogramIntersection(),
    SpatialPyramid(levels=(1, 2)),
    RBF(columns=[0, 3]),
]


def test_kernels_on_the_same_columns_compute_products_and_distances_once(count):
    X, Z = data(), data(30, seed=1)
    family = KernelFamily.fit([k for k in MANY if not isinstance(k, SpatialPyramid)], X)
    count.clear()
    family.evaluate(Z, X)
    once = 30 * 50
    assert count == {
        "InnerProducts": 2 * once,  # all columns, and columns 0 and 3
        "SquaredDistances": 2 * once,
        "L1Distances": once,
        "ChiSquaredDistances": once,
        "Intersections": once,
    }


def test_pyramids_share_their_levels(count):
    X = data(40, 16)
    base = ChiSquared(bandwidth=1.0)
    levels = [SpatialPyramid(levels=(k,), grid=4, base=base) for k in (1, 2, 4)]
    family = KernelFamily.fit([*levels, SpatialPyramid(levels=(1, 2, 4), base=base), ChiSquared()], X)
    count.clear()
    family.take([0, 1, 2, 3, 4]).evaluate(X, X[:10])
    assert count["ChiSquaredDistances"] == 3 * 40 * 10  # the 4 x 4 level is the histogram itself


def test_sharing_does_not_change_the_values():
    X, Z = data(), data(30, seed=1)
    family = KernelFamily.fit(MANY, X)
    for kernel, K, square in zip(MANY, family.evaluate(Z, X), family.evaluate(X)):
        alone = clone(kernel).fit(X)
        assert_allclose(K, alone(Z, X), rtol=1e-12)
        assert_allclose(square, alone(X), rtol=1e-12)


def test_distances_behind_the_bandwidth_are_used_again_for_the_gram_matrix(count):
    X = data(60)
    family = KernelFamily.fit([ChiSquared(), ChiSquared(bandwidth="2*mean"), Laplacian()], X)
    first = family.evaluate(X)
    assert count["ChiSquaredDistances"] == count["L1Distances"] == 60 * 60
    assert_allclose(family.evaluate(X), first, rtol=1e-12)  # computed again: they were given out once
    assert count["ChiSquaredDistances"] == 2 * 60 * 60


def test_kept_distances_serve_the_training_data_only(count):
    X = data(60)
    changed_in_place = data(60)
    family = KernelFamily.fit([ChiSquared()], changed_in_place)
    changed_in_place[0] *= [1, 2, 3, 4, 5, 6, 7, 8]
    assert_allclose(family.evaluate(changed_in_place)[0], family.kernels[0](changed_in_place), rtol=1e-12)
    family = KernelFamily.fit([ChiSquared()], X)
    other = data(60, seed=1)
    assert_allclose(family.evaluate(other)[0], family.kernels[0](other), rtol=1e-12)
    assert family.evaluate(X, dtype=np.float32).dtype == np.float32
    frugal = KernelFamily.fit([ChiSquared()], X, keep=0)
    count.clear()
    frugal.evaluate(X)
    assert count["ChiSquaredDistances"] == 60 * 60


def test_blocks_of_rows_give_the_same_matrices(monkeypatch):
    X, Z = data(90, 16), data(70, 16, seed=1)
    kernels = [*MANY[:-1], as_kernel(lambda A, B: (A @ B.T) ** 2)]
    whole = KernelFamily.fit(kernels, X)
    expected, rectangle = whole.evaluate(X), whole.evaluate(Z, X)
    monkeypatch.setattr("multikernel.kernels.quantities.BLOCK_BYTES", 8 * 90 * 20)
    family = KernelFamily.fit(kernels, X)
    square = family.evaluate(X)
    assert_allclose(square, expected, rtol=1e-10, atol=1e-13)
    assert_array_equal(square, square.transpose(0, 2, 1))
    assert_allclose(family.evaluate(Z, X), rectangle, rtol=1e-10, atol=1e-13)


def test_prepared_data_can_be_cut_and_used_again():
    X, Z = data(), data(30, seed=1)
    family = KernelFamily.fit(MANY, X)
    ready = family.prepare(X)
    assert_allclose(family.evaluate(family.prepare(Z), ready), family.evaluate(Z, X), rtol=1e-12)
    rows = [7, 3, 11]
    assert_allclose(family.evaluate(ready.take(rows), ready), family.evaluate(X[rows], X), rtol=1e-12)
    assert_allclose(family.evaluate(ready), family.evaluate(X), rtol=1e-12)


def test_output_goes_where_asked(tmp_path):
    X = data()
    family = KernelFamily.fit([Linear(), RBF(), ChiSquared()], X)
    out = np.lib.format.open_memmap(tmp_path / "K.npy", "w+", np.float32, (3, 50, 50))
    assert family.evaluate(X, out=out) is out
    assert_allclose(out, family.evaluate(X), rtol=1e-4)
    assert_allclose(family.diagonal(X), np.diagonal(family.evaluate(X), axis1=1, axis2=2), rtol=1e-12)


def test_names_are_unique_and_subsets_keep_them():
    family = KernelFamily.fit([RBF(), RBF(), Linear(name="mine"), "rbf"], data())
    assert family.names == ["rbf(mean)", "rbf(mean) #2", "mine", "rbf(mean) #3"]
    assert family.take([3, 2]).names == ["rbf(mean) #3", "mine"]
    assert len(family) == 4


def test_kernels_passed_in_are_not_touched():
    kernels = [RBF(), ChiSquared()]
    KernelFamily.fit(kernels, data())
    assert not any(hasattr(kernel, "columns_") for kernel in kernels)
    assert [type(k).__name__ for k in KernelFamily.fit(None, data()).kernels] == ["Linear", "RBF", "RBF", "RBF"]


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        (None, [0, 1, 2, 3]),
        ("petal width", [1]),
        (["sepal width", "petal length"], [3, 0]),
        (slice("petal width", "sepal length"), [1, 2]),
        (slice(1, None), [1, 2, 3]),
        ([-1, 0], [3, 0]),
        (2, [2]),
        (np.array([True, False, True, False]), [0, 2]),
        (lambda X: [0, X.shape[1] - 1], [0, 3]),
    ],
)
def test_columns_are_selected_as_in_a_column_transformer(columns, expected):
    X = data(20, 4)
    pandas, polars = pytest.importorskip("pandas"), pytest.importorskip("polars")
    wanted = X[:, expected] @ X[:, expected].T
    tables = [
        (X, NAMES),
        (sparse.csr_matrix(X), NAMES),
        (pandas.DataFrame(X, columns=NAMES), None),
        (polars.DataFrame(X, schema=NAMES), None),
    ]
    for table, names in tables:
        fitted = Linear(columns=columns).fit(table, names)
        assert_array_equal(fitted.columns_, expected)
        assert fitted.column_names_ == [NAMES[k] for k in expected]
        assert_allclose(fitted(table), wanted, rtol=1e-12)


def test_data_frames_may_hold_columns_that_no_kernel_reads():
    pandas = pytest.importorskip("pandas")
    X = data(20, 4)
    frame = pandas.DataFrame(X, columns=NAMES).assign(species="setosa")
    family = KernelFamily.fit([RBF(columns=NAMES[:2]), ChiSquared(columns=make_column_selector("sepal"))], frame)
    K = family.evaluate(frame)
    assert_allclose(K[0], RBF()(X[:, :2]), rtol=1e-12)
    assert_allclose(K[1], ChiSquared()(X[:, 2:]), rtol=1e-12)
    with pytest.raises(TypeError, match="not all numbers"):
        RBF().fit(frame)


def test_reordered_data_frames_are_refused():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(data(20, 4), columns=NAMES)
    fitted = RBF(columns=["petal width"]).fit(frame)
    with pytest.raises(ValueError, match="fitted with column 'petal width' at position 1"):
        fitted(frame[NAMES[::-1]])


def test_integers_and_lists_are_data_too():
    X = np.arange(12, dtype=np.uint8).reshape(6, 2)
    assert_allclose(RBF(bandwidth=9.0)(X), RBF(bandwidth=9.0)(X.astype(float)))
    assert_allclose(Linear()([[1, 2], [3, 4]]), [[5, 11], [11, 25]])


def test_grid_has_a_kernel_per_view_family_and_bandwidth():
    views = {"petals": NAMES[:2], "sepals": NAMES[2:]}
    grid = kernel_grid(views, ["linear", RBF, ChiSquared(normalize=False)], ["mean", 3.0])
    assert len(grid) == 2 * (1 + 2 + 2)
    assert [k.label for k in grid[:3]] == ["linear on petals", "rbf(mean) on petals", "rbf(3) on petals"]
    assert grid[4] == ChiSquared(normalize=False, bandwidth=3.0, columns=NAMES[:2], name="chi2(3) on petals")
    assert len(KernelFamily.fit(grid, data(20, 4), NAMES)) == 10
    assert [k.label for k in kernel_grid([[0, 1], slice(2, 4)], "rbf", ["mean"])] == [
        "rbf(mean) on columns 0, 1",
        "rbf(mean) on columns 2:4",
    ]
    pyramids = kernel_grid(None, [SpatialPyramid(levels=(1, 2))], ["mean", "2*mean"])
    assert [k.base.bandwidth for k in pyramids] == ["mean", "2*mean"]
    assert len(kernel_grid(None, [RBF(gamma=1.0), ChiSquared(additive=True)])) == 2


def test_beyond_a_number_of_samples_the_default_family_has_explicit_features(monkeypatch):
    monkeypatch.setattr("multikernel.kernels.family.LARGE", 30)
    X = data(31)
    y = np.arange(31) % 2
    with pytest.warns(UserWarning, match=r"kernels=None with 31 samples, more than 30, uses Nystroem\(.*rank=200\)"):
        model = KernelAverageClassifier().fit(X, y)
    assert all(isinstance(kernel, Nystroem) for kernel in model._family.kernels)
    assert isinstance(model._test_stack(X), LowRankStack)
    with pytest.warns(UserWarning, match="uses Nystroem"):
        assert isinstance(gram_stack(X, None), LowRankStack)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert KernelAverageClassifier().fit(X[:30], y[:30])._family.kernels[0] == Linear()


def test_default_family_is_linear_and_three_widths():
    assert default_kernels() == [Linear(), *(RBF(bandwidth=b) for b in ("0.25*mean", "mean", "4*mean"))]


class SumOfKernels(ClassifierMixin, BaseEstimator):
    """A smallest possible user of kernels, to search over them."""

    def __init__(self, kernels=None):
        self.kernels = kernels

    def fit(self, X, y):
        self.family_ = KernelFamily.fit(self.kernels, X)
        self.X_, self.classes_ = X, np.unique(y)
        self.svm_ = SVC(kernel="precomputed").fit(self.family_.evaluate(X).sum(axis=0), y)
        return self

    def predict(self, X):
        return self.svm_.predict(self.family_.evaluate(X, self.X_).sum(axis=0))


def test_grid_search_runs_over_lists_of_kernels():
    X = data(80, 4)
    y = (((X - 1) ** 2).sum(axis=1) > 3).astype(int)
    candidates = [[Linear()], [RBF(bandwidth="0.25*mean")], [RBF(bandwidth=1e-9)]]
    search = GridSearchCV(SumOfKernels(), {"kernels": candidates}, cv=3).fit(X, y)
    assert search.best_params_["kernels"] == [RBF(bandwidth="0.25*mean")]
    assert candidates == [[Linear()], [RBF(bandwidth="0.25*mean")], [RBF(bandwidth=1e-9)]]


@pytest.fixture(scope="module")
def reference(data_home):
    """The reference construction of distances from views, which comes with the data."""
    spec = util.spec_from_file_location("kernels_from_views", data_home / "kernels_from_views.py")
    module = util.module_from_spec(spec)
    sys.dont_write_bytecode, before = True, sys.dont_write_bytecode
    spec.loader.exec_module(module)
    sys.dont_write_bytecode = before
    return module


def test_caltech_kernels_agree_with_the_reference(data_home, reference):
    archive = np.load(data_home / "caltech102_views.npz")
    rows = archive["trn1"][::5]
    for view, levels in (("sift", (1, 2, 4)), ("phog180", (1, 2, 4, 8)), ("hsv", (1, 2))):
        cells = archive[view][rows].astype(np.float32)
        X = cells.reshape(len(rows), -1)
        side = int(np.sqrt(cells.shape[1]))
        kernels = [SpatialPyramid(levels=(k,), grid=side) for k in levels]
        kernels.append(SpatialPyramid(levels=levels, grid=side))
        D = [reference.chi2_dist(reference.level(cells, k)) for k in levels]
        D.append(np.mean(D, axis=0))
        expected = [reference.kernel_from_dist(distances) for distances in D]
        assert_allclose(KernelFamily.fit(kernels, X).evaluate(X), expected, rtol=1e-5)


def test_flower_kernels_agree_with_the_published_distances(data_home, reference):
    views, given = np.load(data_home / "flower17_views.npz"), np.load(data_home / "flower17_dist.npz")
    D = reference.unpack_triu(given["D_triu"], 1360)
    train, test = given["trn1"][::4], given["tst1"][::4]
    whole = {name: views[name].reshape(1360, -1).astype(np.float32) for name in ("sift", "phog360", "ssim")}
    recipes = {
        "sift": (1, ChiSquared()),
        "phog360": (4, SpatialPyramid(levels=(1, 2, 4), weights=(0.25, 0.25, 0.5))),
        "ssim": (5, SpatialPyramid(levels=(1, 2))),
    }
    for name, (position, kernel) in recipes.items():
        X, distances = whole[name], D[position].astype(np.float64)
        if isinstance(kernel, SpatialPyramid):
            kernel.grid = int(np.sqrt(views[name].shape[1]))
        fitted = clone(kernel).fit(X[train])
        given_kernel = FromDistance().fit(distances[np.ix_(train, train)])
        assert_allclose(
            fitted(X[test], X[train]), given_kernel(distances[np.ix_(test, train)]), rtol=1e-5, err_msg=name
        )
