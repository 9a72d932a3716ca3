"""Lists and dicts of views become one X with known columns."""

import warnings

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal
from scipy import sparse
from sklearn.datasets import load_iris
from sklearn.preprocessing import StandardScaler

from multikernel import KernelAverageClassifier, MKLClassifier
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
    assert list(X.index) == ["p1", "p2", "p3"]
    assert list(X.columns) == ["rna:g", "age:age"]
    assert_array_equal(X.iloc[:, columns["rna"]], [[1.0], [2.0], [3.0]])
    assert_array_equal(X.iloc[:, columns["age"]], [[10.0], [20.0], [30.0]])
    # arrays have no IDs: they follow the order that all frames share
    X, _ = join_views([rna, np.array([7.0, 8.0, 9.0])])
    assert_array_equal(X, [[1.0, 7.0], [2.0, 8.0], [3.0, 9.0]])


def _frame(*ids, name="x"):
    return pd.DataFrame({name: np.arange(float(len(ids)))}, index=list(ids))


def test_samples_that_a_table_lacks_are_rows_of_nan():
    patients = [f"p{k}" for k in range(25)]
    X, columns = join_views({"rna": _frame(*patients[:20]), "protein": _frame(*patients[5:])})
    assert list(X.index) == patients
    assert columns == {"rna": slice(0, 1), "protein": slice(1, 2)}
    assert_array_equal(X.index[X["protein:x"].isna()], patients[:5])
    assert_array_equal(X.index[X["rna:x"].isna()], patients[20:])
    assert_array_equal(X["protein:x"].dropna(), np.arange(20.0))
    common, _ = join_views({"rna": _frame(*patients[:20]), "protein": _frame(*patients[5:])}, how="inner")
    pd.testing.assert_frame_equal(common, X.dropna())


def test_a_table_without_rows_is_a_view_that_all_samples_lack():
    X, columns = join_views({"rna": _frame("a", "b"), "protein": _frame("c").iloc[:0]})
    assert_array_equal(X.iloc[:, columns["protein"]], [[np.nan], [np.nan]])


@pytest.mark.parametrize("module", ["pandas", "polars"])
def test_frames_are_joined_by_a_column_of_ids(module):
    frame = pytest.importorskip(module).DataFrame
    rna = frame({"patient": ["b", "a"], "TP53": [1.0, 2.0], "MYC": [3, 4]})
    X, columns = join_views({"rna": rna, "age": frame({"age": [30, 40], "patient": ["a", "c"]})}, id="patient")
    assert list(X.columns) == ["rna:TP53", "rna:MYC", "age:age"]
    assert list(X.index) == ["b", "a", "c"]
    assert_array_equal(X, [[1.0, 3.0, np.nan], [2.0, 4.0, 30.0], [np.nan, np.nan, 40.0]])
    assert columns == {"rna": slice(0, 2), "age": slice(2, 3)}


def test_the_index_may_be_called_like_the_column_of_ids():
    rna = _frame("b", "a").rename_axis("patient")
    X, _ = join_views({"rna": rna, "age": pd.DataFrame({"patient": ["a"], "age": [30]})}, id="patient")
    assert_array_equal(X, [[0.0, np.nan], [1.0, 30.0]])


def test_numbered_frames_are_joined_by_position():
    a, b = pd.DataFrame({"x": [1, 2]}), _frame("p", "q")
    X, _ = join_views({"a": a, "b": b})
    assert_array_equal(X, [[1.0, 0.0], [2.0, 1.0]])
    assert list(X.index) == ["p", "q"]
    with pytest.raises(ValueError, match=r"'a' has 2, 'b' has 3.*id= names"):
        join_views({"a": a, "b": pd.DataFrame({"x": [1, 2, 3]})})


def test_values_keep_their_precision_and_know_pandas_na():
    single = _frame("a", "b").astype(np.float32)
    assert join_views([single, single.iloc[:1]])[0].to_numpy().dtype == np.float32
    nullable = pd.DataFrame({"n": pd.array([1, None], dtype="Int64")}, index=["a", "b"])
    assert_array_equal(join_views([single, nullable])[0], [[0.0, 1.0], [1.0, np.nan]])


@pytest.mark.parametrize(
    ("views", "message"),
    [
        ([_frame("a", "b"), _frame(0, 1)], "'view0' and 'view1' hold different samples.*one has 'a', the other 0"),
        ([_frame("a", "a", "b"), _frame("a", "b", "c")], r"'view0' has the same ID in several rows: 'a' \(3 rows, 2"),
        ([_frame("a", "b"), _frame("b", "a"), np.ones(2)], "'view2' has none, so the order"),
        ([_frame("a", "b"), _frame("b"), np.ones(2)], "'view2' has none, so the order"),
        ([_frame("a", None)], "1 rows without an ID, the first at row 1"),
    ],
)
def test_samples_that_cannot_be_matched_are_named(views, message):
    with pytest.raises(ValueError, match=message):
        join_views(views)


def test_options_that_do_not_fit_are_named():
    with pytest.raises(ValueError, match="how='left' is not known"):
        join_views([_frame("a")], how="left")
    with pytest.raises(ValueError, match="no sample is in all views"):
        join_views([_frame("a", "b"), _frame("b", "c"), _frame("c", "a")], how="inner")
    with pytest.raises(ValueError, match="view 'view1' has no column 'patient'"):
        join_views([_frame("a").rename_axis("patient"), np.ones(1)], id="patient")


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


def test_samples_without_a_view_are_masked():
    rng = np.random.default_rng(0)
    ids = np.array([f"p{k}" for k in range(60)])
    y = pd.Series(np.arange(60) % 2, index=ids)
    rna = pd.DataFrame(rng.normal(size=(50, 3)) + y.to_numpy()[:50, None], index=ids[:50])
    protein = pd.DataFrame(rng.normal(size=(50, 2)) + y.to_numpy()[10:, None], index=ids[10:])
    X, columns = join_views({"rna": rna, "protein": protein})
    model = MKLClassifier(kernel_grid(columns), missing="mask").fit(X, y[X.index])
    assert model.n_missing_ == {"rna": 10, "protein": 10}
    assert model.score(X, y[X.index]) > 0.8


def test_tumours_without_protein_are_classified(data_home):
    archive = np.load(data_home / "breast_tcga.npz")
    views = {}
    for name in ("mrna", "mirna", "protein"):
        tables = {part: archive[f"{name}_{part}"] for part in ("train", "test") if f"{name}_{part}" in archive}
        rows = [f"{part}{row}" for part, table in tables.items() for row in range(len(table))]
        scale = StandardScaler().fit(tables["train"])
        views[name] = pd.DataFrame(scale.transform(np.vstack(list(tables.values()))), index=rows)
    X, columns = join_views(views)
    train = X.index.str.startswith("train")
    assert X.iloc[:, columns["protein"]].isna().all(axis=1).sum() == (~train).sum() == 70
    model = MKLClassifier(kernel_grid(columns), p=2.0, C=10.0, missing="mask").fit(X[train], archive["y_train"])
    assert model.score(X[~train], archive["y_test"]) > 0.9


@pytest.fixture
def mdata():
    """RNA of p0 to p39, sparse, with a layer and an embedding; protein of p10 to p49; the label is in both."""
    anndata, mudata = pytest.importorskip("anndata"), pytest.importorskip("mudata")
    rng = np.random.default_rng(0)
    obs = pd.DataFrame({"subtype": np.where(np.arange(50) % 2, "b", "a")}, index=[f"p{k}" for k in range(50)])
    shift = (obs["subtype"] == "b").to_numpy()[:, None]
    counts = rng.poisson(1.0 + 2.0 * shift, size=(50, 4)).astype(np.float32)
    rna = anndata.AnnData(
        sparse.csr_matrix(counts[:40]), obs[:40], pd.DataFrame(index=["TP53", "MYC", "EGFR", "KRAS"])
    )
    rna.layers["log"] = rna.X.log1p()
    rna.obsm["X_pca"] = rng.normal(size=(40, 2))
    protein = anndata.AnnData(rng.normal(size=(40, 2)) + shift[10:], obs[10:], pd.DataFrame(index=["p53", "HER2"]))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        data = mudata.MuData({"rna": rna, "protein": protein})
    data.obs["subtype"] = obs["subtype"]
    return data


def test_modalities_are_views(mdata):
    X, columns = join_views(mdata)
    assert columns == {"rna": slice(0, 4), "protein": slice(4, 6)}
    assert list(X.index) == list(mdata.obs_names)
    assert list(X.columns[:2]) + list(X.columns[4:]) == ["rna:TP53", "rna:MYC", "protein:p53", "protein:HER2"]
    assert_array_equal(X.loc["p20"], [*mdata["rna"]["p20"].X.toarray().ravel(), *mdata["protein"]["p20"].X.ravel()])
    assert X.loc["p45"].isna().to_numpy().tolist() == [True] * 4 + [False] * 2
    assert join_views(mdata, how="inner")[0].shape == (30, 6)
    separately, _ = join_views({name: mdata[name] for name in ("rna", "protein")})
    pd.testing.assert_frame_equal(separately.loc[X.index], X)


def test_layers_and_embeddings_are_views(mdata):
    X, columns = join_views(mdata["rna"], parts=["X", "layers/log", "obsm/X_pca"])
    assert list(columns) == ["X", "log", "X_pca"]
    assert_array_equal(X[:, columns["log"]].toarray(), mdata["rna"].layers["log"].toarray())
    X, columns = join_views(mdata, parts={"rna": "obsm/X_pca"})
    assert list(X.columns) == ["rna:0", "rna:1", "protein:p53", "protein:HER2"]
    assert list(join_views(mdata, parts={"rna": ("X", "obsm/X_pca")})[1]) == ["rna/X", "rna/X_pca", "protein"]
    with pytest.raises(ValueError, match=r"'rna' has no 'layers/raw'; parts are 'X', 'layers/log', 'obsm/X_pca'"):
        join_views(mdata, parts={"rna": "layers/raw"})


def test_sparse_counts_stay_sparse(mdata):
    X, _ = join_views(mdata["rna"])
    assert sparse.issparse(X)
    both, _ = join_views({"rna": mdata["rna"], "log": mdata["rna"][::-1].copy()})
    assert_array_equal(both.toarray(), np.hstack([X.toarray()] * 2))


def test_backed_files_are_read_with_a_remark(mdata, tmp_path):
    import anndata

    X, _ = join_views(mdata["rna"])
    for name, values in {"sparse.h5ad": X, "dense.h5ad": X.toarray()}.items():
        anndata.AnnData(values, mdata["rna"].obs, mdata["rna"].var).write_h5ad(tmp_path / name)
        backed = anndata.read_h5ad(tmp_path / name, backed="r")
        with pytest.warns(UserWarning, match="'X' is backed by a file: 40 × 4 entries were read to memory"):
            read, _ = join_views(backed)
        assert_array_equal(read.toarray() if sparse.issparse(read) else read, X.toarray())


def test_annotated_data_go_straight_into_an_estimator(mdata):
    _, columns = join_views(mdata)
    model = MKLClassifier(kernel_grid(columns), missing="mask").fit(mdata, "subtype")
    assert model.n_missing_ == {"rna": 10, "protein": 10}
    assert (model.predict(mdata) == mdata.obs["subtype"]).mean() > 0.8
    rna = KernelAverageClassifier().fit(mdata["rna"], "subtype")
    assert rna.score(mdata["rna"], mdata["rna"].obs["subtype"]) > 0.8
    with pytest.raises(ValueError, match="y='tumour' is no column of obs; there are: subtype"):
        rna.fit(mdata["rna"], "tumour")


def test_modalities_that_share_variables_are_refused(mdata):
    import mudata

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        other = mudata.MuData(dict(mdata.mod), axis=1)
    with pytest.raises(ValueError, match=r"share variables, not samples \(axis=1\)"):
        join_views(other)
