"""Tables in blocks of rows: the same model from every source and executor, and errors that say where."""

import tracemalloc
import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.sparse import csr_matrix
from sklearn.model_selection import StratifiedKFold

from multikernel import (
    KernelAverageClassifier,
    MKFDAClassifier,
    MKFDAClassifierCV,
    MKLClassifier,
    MKLOneClass,
    MultilabelMKLClassifier,
    SVRGMKLClassifier,
    SVRGMKLRegressor,
)
from multikernel.gram import DenseStack, LowRankStack
from multikernel.gram.features import FeatureBlocks, FeatureMap
from multikernel.io.models import load, save
from multikernel.kernels import RBF, KernelFamily, Linear, Nystroem, RandomFourier
from multikernel.kernels.sources import ArraySource

RANDOM = np.random.default_rng(0)
N = 700
X = RANDOM.normal(size=(N, 8))
SCORES = X[:, 0] * X[:, 1] + X[:, 2] + 0.3 * RANDOM.normal(size=N)
Y = np.where(SCORES > 0, "yes", "no")
KERNELS = [
    Nystroem(kernel=RBF(), rank=15, columns=[0, 1], name="a"),
    Nystroem(kernel=RBF(), rank=15, columns=[2, 3], landmarks="kmeans", name="b"),
    RandomFourier(kernel=RBF(), rank=20, columns=[4, 5, 6], name="c"),
    Linear(columns=[7], name="d"),
]
OPTIONS = {"p": 1.5, "C": 1.0, "tol": 1e-8}


def fitted(X=X, y=Y, **options):
    return SVRGMKLClassifier(KERNELS, **{**OPTIONS, **options}).fit(X, y)


@pytest.fixture(scope="module")
def in_memory():
    return fitted()


def assert_same(model, other):
    assert_allclose(model.objective_, other.objective_, rtol=1e-6)
    assert_allclose(model.weights_, other.weights_, atol=1e-4)
    assert model.converged_


@pytest.mark.parametrize(
    ("p", "normalize"),
    [(1.0, None), (np.inf, None)]
    + [(1.5, steps) for steps in (None, "variance", ["center", "trace"], "cosine", {"a": "center", "*": "trace"})],
)
def test_the_dense_kernel_has_the_same_optimum(p, normalize):
    # the objective is flat in the weights: a relative gap of 1e-8 leaves up to 7e-4 of them open
    options = {**OPTIONS, "p": p, "normalize": normalize, "tol": 1e-10}
    model = fitted(**options)
    gram = DenseStack(KernelFamily.fit(KERNELS, X).evaluate(X), names=list("abcd"))
    dense = SVRGMKLClassifier("precomputed", **options).fit(gram, Y)
    assert_same(model, dense)
    assert_allclose(model.decision_function(X), dense.decision_function(gram), atol=2e-3)
    assert model._n_train == 15 + 15 + 20 + 1


@pytest.mark.parametrize("loss", ["logistic", "squared_hinge", "smoothed_hinge"])
def test_several_classes_and_weights_have_the_optimum_of_the_kernels(loss):
    y = np.digitize(SCORES, [-0.7, 0.7])
    weight = 1.0 + np.arange(N) % 3
    options = {**OPTIONS, "tol": 1e-7, "loss": loss, "class_weight": {0: 2.0, 1: 1.0, 2: 1.0}}
    model = SVRGMKLClassifier(KERNELS, **options).fit(X, y, sample_weight=weight)
    roots = LowRankStack.from_family(KernelFamily.fit(KERNELS, X), X)
    by_samples = SVRGMKLClassifier("precomputed", **options).fit(roots, y, sample_weight=weight)
    assert_allclose(model.objective_, by_samples.objective_, rtol=1e-6)
    assert_allclose(model.weights_, by_samples.weights_, atol=1e-3)


def test_coefficients_of_features_give_the_objective(in_memory):
    model = in_memory
    family = KernelFamily.fit(KERNELS, X)
    features, owner = [kernel.features(X) for kernel in family.kernels], np.repeat(range(4), [15, 15, 20, 1])
    v = np.zeros(len(owner))
    v[model.support_] = model.dual_coef_[0]
    scores = np.hstack(features) @ (model.weights_[owner] * v)
    assert_allclose(model.decision_function(X), scores, atol=1e-9)
    value = (
        model.weights_ @ np.bincount(owner, v**2) / (2 * N)
        + np.logaddexp(0, -np.where(Y == "yes", 1, -1) * scores).mean()
    )
    assert_allclose(model.objective_, value, rtol=1e-9)
    assert_allclose(model.kernel_contributions(X).sum(axis=1), scores, atol=1e-9)
    assert_allclose(model.transform(X) @ model.dual_coef_[0], scores, atol=1e-9)
    assert_allclose(model.kernel_(X[:5], X[:3]), sum(w * f[:5] @ f[:3].T for w, f in zip(model.weights_, features)))


@pytest.mark.parametrize("executor", ["serial", "threads"])
@pytest.mark.parametrize("memory", [None, "1kB"])
def test_features_that_are_made_again_in_each_pass_give_the_same(in_memory, executor, memory):
    assert_same(fitted(memory=memory, executor=executor), in_memory)


@pytest.mark.parametrize("size", [13, 200, 5000])
def test_blocks_of_any_size_give_the_same(in_memory, monkeypatch, size):
    monkeypatch.setattr("multikernel.kernels.sources.Source.ranges", lambda self, _=0: _cuts(self.shape[0], size))
    assert_same(fitted(), in_memory)


def _cuts(n, size):
    return [(start, min(start + size, n)) for start in range(0, n, size)]


def test_a_memory_map_gives_the_same(in_memory, tmp_path):
    np.save(tmp_path / "X.npy", X)
    mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
    model = fitted(mapped)
    assert_same(model, in_memory)
    assert_allclose(model.decision_function(mapped), model.decision_function(X))


@pytest.mark.parametrize("layout", ["file", "folder"])
def test_parquet_gives_the_same(in_memory, tmp_path, layout):
    pyarrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    names = [f"x{k}" for k in range(8)]
    table = pyarrow.table({**dict(zip(names, X.T)), "label": Y})
    if layout == "file":
        path = tmp_path / "big.parquet"
        parquet.write_table(table, path, row_group_size=150)
    else:
        path = tmp_path
        parquet.write_table(table[:300], path / "part-0.parquet")
        parquet.write_table(table[300:], path / "part-1.parquet", row_group_size=100)
    model = fitted(path, "label")
    assert_same(model, in_memory)
    assert list(model.feature_names_in_) == names
    new = tmp_path / "new-samples.parquet"
    for columns in (names, ["label", *names[::-1]]):  # found by name
        parquet.write_table(table.select(columns), new, row_group_size=99)
        assert_allclose(model.decision_function(new), model.decision_function(X))
    parquet.write_table(table.drop_columns("x3"), new)
    with pytest.raises(ValueError, match=r"new-samples\.parquet has no column 'x3'"):
        model.predict(new)


def test_files_with_other_columns_are_refused(tmp_path):
    pyarrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    parquet.write_table(pyarrow.table({"a": [1.0], "b": [2.0]}), tmp_path / "0.parquet")
    parquet.write_table(pyarrow.table({"a": [1.0], "c": [2.0]}), tmp_path / "1.parquet")
    with pytest.raises(ValueError, match=r"1\.parquet has other columns than .*0\.parquet: 'b' differs"):
        fitted(tmp_path, [1])
    (tmp_path / "1.parquet").unlink()
    with pytest.raises(ValueError, match="has no column 'label'"):
        fitted(tmp_path, "label")


def test_zarr_gives_the_same(in_memory, tmp_path):
    zarr = pytest.importorskip("zarr")
    array = zarr.create_array(tmp_path / "X.zarr", data=X, chunks=(128, 8))
    assert_same(fitted(array), in_memory)


def test_single_precision_reaches_the_same_optimum(in_memory):
    single = fitted(X.astype(np.float32), tol=1e-4)
    assert single._feature_type == "float32"
    assert_allclose(single.objective_, in_memory.objective_, rtol=2e-4)
    assert single.dual_gap_ <= 1e-4 * single.objective_


def test_missing_views_are_masked_as_in_memory(tmp_path):
    holes = X.copy()
    holes[::7, 2:4] = np.nan
    model = fitted(holes, missing="mask", normalize="center")
    np.save(tmp_path / "X.npy", holes)
    mapped = fitted(np.load(tmp_path / "X.npy", mmap_mode="r"), missing="mask", normalize="center", memory="1kB")
    by_samples = fitted(holes, missing="mask", normalize="center", keep="all")
    assert_same(mapped, by_samples)
    assert_same(model, by_samples)
    assert model.n_missing_["b"] == mapped.n_missing_["b"] == 100
    assert_allclose(mapped.decision_function(holes[:20]), by_samples.decision_function(holes[:20]), atol=2e-3)


def test_regression_on_blocks_has_the_optimum_of_the_kernels():
    for loss in ("squared", "huber"):
        model = SVRGMKLRegressor(KERNELS, loss=loss, C=1.0, tol=1e-8).fit(X, SCORES)
        by_samples = SVRGMKLRegressor(KERNELS, loss=loss, C=1.0, tol=1e-8, keep="all").fit(X, SCORES)
        assert_same(model, by_samples)
        assert_allclose(model.predict(X[:9]), by_samples.predict(X[:9]), atol=2e-3)


@pytest.mark.parametrize("p", [1.0, 1.5, np.inf])
@pytest.mark.parametrize("cuts", [[0.0], [-0.7, 0.7]])
def test_discriminants_on_blocks_are_those_of_the_kernels(tmp_path, p, cuts):
    y, weight = np.digitize(SCORES, cuts), 1.0 + np.arange(N) % 3
    np.save(tmp_path / "X.npy", X)
    mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
    options = {"p": p, "reg": 1e-3, "tol": 1e-8}
    model = MKFDAClassifier(KERNELS, **options).fit(mapped, y, sample_weight=weight)
    by_samples = MKFDAClassifier(KERNELS, **options).fit(X, y, sample_weight=weight)
    assert model._on_features
    assert not by_samples._on_features
    assert_same(model, by_samples)
    assert_allclose(model.transform(X), by_samples.transform(X), atol=1e-4)
    assert_allclose(model.decision_function(X), by_samples.decision_function(X), atol=1e-4)


@pytest.mark.parametrize("cuts", [[0.0], [-0.7, 0.7]])
def test_the_grid_of_discriminants_on_blocks_is_that_of_fits_to_the_folds(tmp_path, cuts):
    y, weight, grid = (
        np.digitize(SCORES, cuts),
        1.0 + np.arange(N) % 3,
        {"ps": [1.0, 2.0], "regs": [1e-3, 1.0]},
    )
    np.save(tmp_path / "X.npy", X)
    mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
    model = MKFDAClassifierCV(KERNELS, **grid, cv=2, tol=1e-8).fit(mapped, y, sample_weight=weight)
    assert model._on_features
    assert (model.grid_gaps_ <= 1e-8).all()
    features = model._feature_map()(X)  # normalised by all samples
    given = [Linear(columns=np.flatnonzero(model._feature_map().owner == k)) for k in range(4)]
    for fold, (train, test) in enumerate(StratifiedKFold(2).split(X, y)):
        for i, p in enumerate(grid["ps"]):
            for j, reg in enumerate(grid["regs"]):
                alone = MKFDAClassifier(given, p=p, reg=reg, normalize=None, tol=1e-8)
                alone.fit(features[train], y[train], sample_weight=weight[train])
                assert_allclose(model.grid_weights_[fold, i, j], alone.weights_, atol=1e-3)
                assert abs(model.split_scores_[fold, i, j] - alone.score(features[test], y[test])) <= 1 / len(test)
    best = MKFDAClassifier(KERNELS, p=model.p_, reg=model.reg_, tol=1e-8).fit(mapped, y, sample_weight=weight)
    assert_allclose(model.weights_, best.weights_)
    with pytest.raises(ValueError, match='use criterion="cv"'):
        model.set_params(criterion="loo").fit(mapped, y)


def test_a_model_does_not_grow_with_the_samples(tmp_path):
    sizes = []
    for k in (1, 4):
        model = fitted(np.tile(X, (k, 1)), np.tile(Y, k), tol=1e-3)
        model.history_ = []
        save(model, tmp_path / f"{k}.mkl")
        sizes.append((tmp_path / f"{k}.mkl").stat().st_size)
        assert_allclose(load(tmp_path / f"{k}.mkl").decision_function(X), model.decision_function(X))
    assert abs(sizes[1] - sizes[0]) < 0.05 * sizes[0]


def test_a_warm_start_is_the_solution():
    model = fitted(warm_start=True)
    passes = model.history_[-1]["passes"]
    assert model.fit(X, Y).history_[-1]["passes"] < passes / 2


@pytest.mark.parametrize("model", [KernelAverageClassifier(KERNELS, C=0.1), MKLClassifier(KERNELS, C=0.1, tol=1e-2)])
def test_explicit_features_make_no_kernel_whatever_the_memory(model):
    X = np.random.default_rng(0).normal(size=(6000, 8))
    tracemalloc.start()
    model.set_params(memory="1TB").fit(X, X[:, 2] > 0)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 0.5 * 8 * len(X) ** 2  # a working set does not grow with n


def test_few_features_give_the_optimum_of_their_kernel():
    X = np.random.default_rng(0).normal(size=(2100, 8))
    y = X[:, 0] * X[:, 1] + X[:, 2] > 0
    gram = DenseStack(KernelFamily.fit(KERNELS, X).evaluate(X))
    model = MKLClassifier(KERNELS, p=2.0, tol=1e-5).fit(X, y)
    dense = MKLClassifier("precomputed", p=2.0, tol=1e-5).fit(gram, y)
    assert_allclose(model.objective_, dense.objective_, rtol=2e-5)
    assert_allclose(model.weights_, dense.weights_, atol=2e-3)


def test_features_far_from_the_origin_are_centred():
    X = np.random.default_rng(0).normal(size=(2100, 4))
    kernels = [Linear(columns=[0, 1]), Linear(columns=[2, 3])]
    near, far = (KernelAverageClassifier(kernels, tol=1e-4).fit(X + shift, X[:, 0] > 0.5) for shift in (0.0, 1e4))
    assert far.converged_
    assert_allclose(far.objective_, near.objective_, rtol=2e-4)


# -- bad input -------------------------------------------------------------------------------------------------------


def test_rows_with_nan_are_named(tmp_path):
    spoilt = X.copy()
    spoilt[613, 3] = np.nan
    np.save(tmp_path / "X.npy", spoilt)
    with pytest.raises(ValueError, match=r"NaN or infinity in 1 of the rows .* the first in row 613"):
        fitted(np.load(tmp_path / "X.npy", mmap_mode="r"))


@pytest.mark.parametrize("memory", [None, "1kB"])
def test_nan_in_block_37_says_which_rows(monkeypatch, memory):
    spoilt = X.copy()
    spoilt[37 * 13 + 5, 3] = np.inf
    monkeypatch.setattr("multikernel.kernels.sources.Source.ranges", lambda self, _=0: _cuts(self.shape[0], 13))
    source = ArraySource(spoilt)
    with pytest.raises(ValueError, match=r"NaN or infinity in 1 of the rows 481 to 494, the first in row 486"):
        FeatureBlocks(source, FeatureMap(KernelFamily.fit(KERNELS, X)), memory=0.0 if memory else np.inf)


def test_labels_of_another_length_are_refused(tmp_path):
    np.save(tmp_path / "X.npy", X)
    with pytest.raises(ValueError, match="X has 700 rows, but y has 699 entries"):
        fitted(np.load(tmp_path / "X.npy", mmap_mode="r"), Y[:-1])


def test_kernels_without_features_and_estimators_without_blocks_are_named(tmp_path):
    pytest.importorskip("pyarrow")
    with pytest.raises(ValueError, match="no Parquet file"):
        fitted(tmp_path, Y)
    zarr = pytest.importorskip("zarr")
    array = zarr.create_array(tmp_path / "X.zarr", data=X, chunks=(128, 8))
    with pytest.raises(ValueError, match=r"kernels \['rbf\(mean\)'\] have no explicit features"):
        SVRGMKLClassifier([RBF()]).fit(array, Y)
    with pytest.raises(TypeError, match="MKLClassifier cannot read X in blocks"):
        MKLClassifier(KERNELS).fit(array, Y)


def test_words_nothing_and_labels_that_are_missing_are_named(tmp_path):
    pyarrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    table = pyarrow.table({**{f"x{k}": column for k, column in enumerate(X.T)}, "label": Y})
    path, model = tmp_path / "X.parquet", fitted(tol=1e-3)
    parquet.write_table(table.append_column("where", pyarrow.array(["here"] * N)), path)
    with pytest.raises(ValueError, match=r"rows 0 to 700 of column 'where' are not all numbers"):
        fitted(path, "label")
    parquet.write_table(table.set_column(8, "label", pyarrow.array([None, *Y[1:]])), path)
    with pytest.raises(ValueError, match="y has no label for 1 samples, the first at row 0"):
        fitted(path, "label")
    parquet.write_table(table[:0], path)
    for call in (lambda: fitted(path, "label"), lambda: model.predict(path)):
        with pytest.raises(ValueError, match="X has no rows"):
            call()


def test_row_groups_without_rows_are_passed_over(in_memory, tmp_path):
    pyarrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    table = pyarrow.table({f"x{k}": column for k, column in enumerate(X.T)})
    with parquet.ParquetWriter(tmp_path / "X.parquet", table.schema) as writer:
        for part in (table[:0], table[:1], table[:0], table[1:], table[:0]):
            writer.write_table(part)
    assert_same(fitted(tmp_path / "X.parquet"), in_memory)


def test_what_a_fit_in_blocks_needs_is_said(tmp_path):
    zarr = pytest.importorskip("zarr")
    with pytest.raises(TypeError, match='pass an array, or leave solver="auto" and keep="support"'):
        fitted(zarr.create_array(tmp_path / "X.zarr", data=X, chunks=(128, 8)), solver="svrg")
    with pytest.raises(ValueError, match="X is a Zarr Group of shape"):
        fitted(zarr.open_group(tmp_path / "group.zarr"))


# -- Dask ------------------------------------------------------------------------------------------------------------


def test_dask_arrays_are_read_in_chunks_and_answered_lazily(in_memory):
    da = pytest.importorskip("dask.array")
    given = da.from_array(X, chunks=(100, 4))
    model = fitted(given, da.from_array(Y, chunks=100))
    assert_same(model, in_memory)
    for answer in ("predict", "decision_function", "predict_proba"):
        lazy = getattr(model, answer)(given)
        assert isinstance(lazy, da.Array)
        assert lazy.shape == getattr(model, answer)(X).shape
        np.testing.assert_array_equal(lazy.compute(scheduler="synchronous"), getattr(model, answer)(X))


@pytest.mark.parametrize("chunks", [((1,) * N, (8,)), ((1, 0, 349, 0, 350), (3, 5))])
def test_chunks_of_one_row_and_of_none_give_the_same(in_memory, chunks):
    da = pytest.importorskip("dask.array")
    given = da.from_array(X, chunks=chunks)
    assert_same(fitted(given), in_memory)
    assert_allclose(in_memory.decision_function(given).compute(), in_memory.decision_function(X))


def test_blocks_of_one_class_give_the_same():
    da = pytest.importorskip("dask.array")
    order = np.argsort(Y, kind="stable")
    halves = [Linear(columns=slice(4)), Linear(columns=slice(4, 8))]  # landmarks would depend on the order
    by_class = SVRGMKLClassifier(halves, **OPTIONS).fit(da.from_array(X[order], chunks=(100, 8)), Y[order])
    assert_same(by_class, SVRGMKLClassifier(halves, **OPTIONS).fit(X, Y))


def test_columns_of_a_dask_data_frame_are_found_by_name(in_memory):
    pd, dd = pytest.importorskip("pandas"), pytest.importorskip("dask.dataframe")
    frame = pd.DataFrame(X, columns=list("abcdefgh")).assign(label=Y)
    given = dd.from_pandas(frame, npartitions=3)
    model = fitted(given, "label")
    assert_same(model, in_memory)
    assert list(model.feature_names_in_) == list("abcdefgh")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        scores = model.decision_function(given[["label", *"hgfedcba"]]).compute()
    assert_allclose(scores, in_memory.decision_function(X), atol=1e-4)
    with pytest.raises(ValueError, match="X has no column 'c'"):
        model.predict(given.drop(columns="c"))
    with pytest.raises(ValueError, match="X has no column 'class'"):
        fitted(given, "class")


def test_projections_outliers_and_several_labels_are_answered_lazily():
    da = pytest.importorskip("dask.array")
    given = da.from_array(X, chunks=(100, 8))
    several = np.column_stack([SCORES > 0, SCORES > 0.5]).astype(int)
    for model, answer in (
        (MKFDAClassifier(KERNELS).fit(X, Y), "transform"),
        (fitted(tol=1e-3), "transform"),
        (MKLOneClass(KERNELS).fit(X), "predict"),
        (MultilabelMKLClassifier(KERNELS).fit(X, several), "predict"),
    ):
        lazy = getattr(model, answer)(given)
        assert isinstance(lazy, da.Array)
        assert_allclose(lazy.compute(), getattr(model, answer)(X), atol=1e-12)


def test_answers_say_which_rows_cannot_be_read(in_memory):
    da = pytest.importorskip("dask.array")
    spoilt = X.copy()
    spoilt[613, 3] = np.nan
    lazy = in_memory.predict(da.from_array(spoilt, chunks=(100, 8)))
    with pytest.raises(ValueError, match=r"in rows 600 to 700: .* the first at row 13"):
        lazy.compute(scheduler="synchronous")


def test_chunks_left_empty_by_a_choice_of_rows_have_no_answers(in_memory):
    da = pytest.importorskip("dask.array")
    given, few = da.from_array(X, chunks=(50, 8)), X[:, 0] > 2.0
    answers = in_memory.predict(given[given[:, 0] > 2.0]).compute()
    np.testing.assert_array_equal(answers, in_memory.predict(X[few]))


def test_sparse_chunks_and_default_kernels_have_features():
    da = pytest.importorskip("dask.array")
    holes = np.where(np.abs(X) > 0.5, X, 0.0)
    chunks = da.from_array(holes, chunks=(100, 8)).map_blocks(csr_matrix)
    kernels = [Linear(columns=[0, 1]), Nystroem(kernel=RBF(), rank=10, columns=[2, 3])]
    sparse = SVRGMKLClassifier(kernels, **OPTIONS).fit(chunks, Y)
    assert_same(sparse, SVRGMKLClassifier(kernels, **OPTIONS).fit(csr_matrix(holes), Y))
    for model in (SVRGMKLClassifier(), MKFDAClassifierCV(ps=[1.0], regs=[1e-3], cv=2)):
        assert model.fit(da.from_array(X, chunks=(100, 8)), Y).score(X, Y) > 0.8


def test_unknown_chunk_sizes_are_named():
    da = pytest.importorskip("dask.array")
    given = da.from_array(X, chunks=100)
    with pytest.raises(ValueError, match="compute_chunk_sizes"):
        fitted(given[given[:, 0] > 0], Y)
