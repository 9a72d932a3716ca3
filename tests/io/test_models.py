"""Model files: the same predictions to the last bit, no code inside, clear words for files that cannot be used."""

import json
import shutil
import zipfile

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from numpy.testing import assert_array_equal
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.datasets import load_iris
from sklearn.decomposition import PCA
from sklearn.exceptions import NotFittedError
from sklearn.feature_selection import SelectKBest, f_classif
from sklearn.gaussian_process.kernels import RBF as GaussianRBF
from sklearn.gaussian_process.kernels import ConstantKernel
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, PowerTransformer, StandardScaler

from multikernel import BestKernelClassifier, KernelAverageClassifier, MKLClassifier
from multikernel.io.models import FORMAT, ModelFileError, load, read_manifest, save
from multikernel.io.versions import all_versions
from multikernel.kernels import (
    RBF,
    ChiSquared,
    Cosine,
    FromDistance,
    FromGaussianProcess,
    HistogramIntersection,
    Laplacian,
    Linear,
    Nystroem,
    Polynomial,
    RandomFourier,
)

X, Y = load_iris(return_X_y=True)
NAMES = np.array(["setosa", "versicolor", "virginica"], dtype=object)


class Doubled(Linear):
    """A kernel of the user's own."""


def saved(model, path, **options):
    save(model, path, **options)
    return path


@pytest.fixture
def model_file(tmp_path):
    return saved(KernelAverageClassifier([RBF(), Linear()]).fit(X, Y), tmp_path / "model.mkl")


@pytest.mark.parametrize(
    "model",
    [
        KernelAverageClassifier(),
        KernelAverageClassifier([Linear(columns=slice(0, 2)), RBF(bandwidth="4*mean", columns=[2, 3])], C=10.0),
        KernelAverageClassifier([ChiSquared(), HistogramIntersection(), Laplacian(), Cosine()], how="product"),
        KernelAverageClassifier([Polynomial(degree=2), RBF(gamma=0.5)], normalize=["center", "trace"]),
        KernelAverageClassifier([Linear(), RBF()], normalize={"linear": "cosine"}, multi_class="ovo"),
        KernelAverageClassifier([Nystroem(kernel=RBF(), rank=20), RandomFourier(rank=30)]),
        KernelAverageClassifier([FromGaussianProcess(kernel=ConstantKernel(2.0) * GaussianRBF(1.5))]),
        BestKernelClassifier([Linear(), RBF()], C=100.0, class_weight="balanced"),
    ],
    ids=str,
)
@pytest.mark.parametrize("labels", [Y, NAMES[Y]], ids=["integers", "text"])
def test_predictions_are_the_same_to_the_last_bit(tmp_path, model, labels):
    model = clone(model).fit(X, labels)
    restored = load(saved(model, tmp_path / "model.mkl"))
    assert_array_equal(restored.decision_function(X), model.decision_function(X))
    assert_array_equal(restored.predict(X), model.predict(X))
    assert restored.classes_.dtype == model.classes_.dtype
    assert repr(restored) == repr(model)


def test_precomputed_kernels_predict_alike(tmp_path):
    K = np.stack([X @ X.T, np.exp(-((X[:, None] - X[None]) ** 2).sum(-1))], axis=-1)
    model = KernelAverageClassifier("precomputed", normalize="trace").fit(K, Y)
    restored = load(saved(model, tmp_path / "model.mkl"))
    assert_array_equal(restored.decision_function(K[:20]), model.decision_function(K[:20]))


def test_distances_and_sparse_features_predict_alike(tmp_path):
    D = ((X[:, None] - X[None]) ** 2).sum(-1)
    for data, kernels in ((D, [FromDistance()]), (scipy.sparse.csr_array(X), [Linear(), RBF()])):
        model = KernelAverageClassifier(kernels).fit(data, Y)
        restored = load(saved(model, tmp_path / "model.mkl"))
        assert_array_equal(restored.decision_function(data), model.decision_function(data))


def test_names_of_columns_are_kept(tmp_path):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(X, columns=["a", "b", "c", "d"])
    model = KernelAverageClassifier([RBF(columns=["c", "d"])]).fit(frame, Y)
    restored = load(saved(model, tmp_path / "model.mkl"))
    assert_array_equal(restored.feature_names_in_, ["a", "b", "c", "d"])
    assert_array_equal(restored.decision_function(frame), model.decision_function(frame))


def test_a_restored_model_can_be_cloned_and_fitted_again(model_file):
    again = clone(load(model_file)).fit(X, Y)
    assert_array_equal(again.predict(X), load(model_file).predict(X))


def test_the_history_is_kept(tmp_path):
    model = KernelAverageClassifier().fit(X, Y)
    restored = load(saved(model, tmp_path / "model.mkl"))
    assert len(restored.history_) == len(model.history_)
    for ours, theirs in zip(restored.history_, model.history_):
        assert ours.keys() == theirs.keys()
        assert_array_equal(ours["weights"], theirs["weights"])
        assert ours["relative_gap"] == theirs["relative_gap"]


def test_equal_models_are_equal_files(tmp_path):
    model = KernelAverageClassifier([Linear()]).fit(X, Y)
    model.history_ = []  # times differ from fit to fit
    first, second = (saved(model, tmp_path / name).read_bytes() for name in "ab")
    assert first == second


def test_metadata_and_versions_can_be_read_without_the_model(tmp_path):
    path = saved(KernelAverageClassifier().fit(X, Y), tmp_path / "m.mkl", metadata={"columns": ["é", "b"]})
    manifest = read_manifest(path)
    assert manifest["metadata"] == {"columns": ["é", "b"]}
    assert manifest["class"] == "KernelAverageClassifier"
    assert manifest["versions"] == all_versions()


def test_a_file_holds_only_json_and_plain_arrays(model_file):
    with zipfile.ZipFile(model_file) as archive:
        for name in archive.namelist():
            if name.endswith(".npy"):
                with archive.open(name) as entry:
                    np.lib.format.read_array(entry, allow_pickle=False)
            else:
                assert name == "manifest.json"
                json.loads(archive.read(name))


# -- what cannot be saved -----------------------------------------------------------------------------------


def linear(A, B):
    return A @ B.T


def test_a_function_is_refused_and_the_message_says_what_to_do(tmp_path):
    model = KernelAverageClassifier([RBF(), linear]).fit(X, Y)
    with pytest.raises(ModelFileError, match=r'kernels\[1\].*\(linear\).*kernels="precomputed"'):
        save(model, tmp_path / "model.mkl")
    assert not list(tmp_path.iterdir())


def test_columns_by_function_are_refused(tmp_path):
    model = KernelAverageClassifier([RBF(columns=lambda X: [0, 1])]).fit(X, Y)
    with pytest.raises(ModelFileError, match=r"columns is a Python function or class"):
        save(model, tmp_path / "model.mkl")


def test_a_callback_is_left_out_because_it_belongs_to_the_fit(tmp_path):
    model = KernelAverageClassifier(callback=lambda row: None).fit(X, Y)
    assert load(saved(model, tmp_path / "model.mkl")).callback is None


def test_an_unfitted_model_is_refused(tmp_path):
    with pytest.raises(NotFittedError):
        save(KernelAverageClassifier(), tmp_path / "model.mkl")


def test_classes_of_ones_own_are_stored_only_when_trusted(tmp_path):
    model = KernelAverageClassifier([Doubled()]).fit(X, Y)
    with pytest.raises(ModelFileError, match=r"Doubled, which a model file cannot hold.*trusted=\[\.\.\.\]"):
        save(model, tmp_path / "model.mkl")
    path = saved(model, tmp_path / "model.mkl", trusted=[Doubled])
    with pytest.raises(ModelFileError, match=r"it holds a Doubled, .*trusted=\[Doubled\]"):
        load(path)
    assert_array_equal(load(path, trusted=[Doubled]).predict(X), model.predict(X))


def test_an_object_that_contains_itself_is_refused(tmp_path):
    model = KernelAverageClassifier().fit(X, Y)
    model.self_ = model
    with pytest.raises(ModelFileError, match="refers back to an object that contains it"):
        save(model, tmp_path / "model.mkl")


# -- what cannot be loaded ----------------------------------------------------------------------------------


def rewrite(path, change):
    """Change the manifest of a model file."""
    changed = path.with_suffix(".changed")
    with zipfile.ZipFile(path) as source, zipfile.ZipFile(changed, "w") as target:
        for name in source.namelist():
            content = source.read(name)
            if name == "manifest.json":
                manifest = json.loads(content)
                change(manifest)
                content = json.dumps(manifest)
            target.writestr(name, content)
    shutil.move(changed, path)


@pytest.mark.parametrize(
    ("version", "advice"),
    [(FORMAT + 1, "upgrade with pip install -U multikernel"), (FORMAT - 1, r"fit the model again, .* 9\.8\.7")],
)
def test_another_format_is_refused_with_advice(model_file, version, advice):
    def change(manifest):
        manifest["format"] = version
        manifest["versions"]["multikernel"] = "9.8.7"

    rewrite(model_file, change)
    with pytest.raises(ModelFileError, match=rf"has format {version}, written by multikernel 9\.8\.7.*{advice}"):
        load(model_file)
    with pytest.raises(ModelFileError, match=rf"has format {version}"):
        read_manifest(model_file)


def test_an_unknown_class_is_refused(model_file):
    rewrite(model_file, lambda manifest: manifest["objects"][0].update({"class": "os.system"}))
    with pytest.raises(ModelFileError, match=r"it holds a os\.system, which multikernel does not have"):
        load(model_file)


def test_a_class_that_had_other_parameters_is_refused(model_file):
    def change(manifest):
        for entry in manifest["objects"]:
            if entry["class"] == "RBF":
                del entry["state"]["bandwidth"]

    rewrite(model_file, change)
    with pytest.raises(ModelFileError, match=r"whose RBF had no parameter 'bandwidth'. Fit the model again"):
        load(model_file)


@pytest.mark.parametrize("kept", [0.02, 0.3, 0.7, 0.99])
def test_truncated_files_are_refused(model_file, kept):
    content = model_file.read_bytes()
    model_file.write_bytes(content[: int(kept * len(content))])
    with pytest.raises(ModelFileError, match="not a complete model file"):
        load(model_file)


def test_a_damaged_byte_is_noticed_or_does_not_matter(model_file):
    content, expected = model_file.read_bytes(), load(model_file).decision_function(X)
    noticed = 0
    places = range(0, len(content), 97)
    for place in places:
        damaged = bytearray(content)
        damaged[place] ^= 0xFF
        model_file.write_bytes(damaged)
        try:
            restored = load(model_file)
        except ModelFileError:
            noticed += 1
        else:  # dates and sizes that zip files hold twice are not read
            assert_array_equal(restored.decision_function(X), expected)
    assert noticed > 0.7 * len(places)


def test_other_files_are_refused(tmp_path, model_file):
    (tmp_path / "text.mkl").write_text("hello")
    (tmp_path / "empty.mkl").touch()
    np.savez(tmp_path / "arrays.npz", a=np.ones(3))
    rewrite(model_file, lambda manifest: manifest.update(magic="something else"))
    for name, message in {
        "text.mkl": "not a complete model file",
        "empty.mkl": "is empty",
        "arrays.npz": "not a model file",
        "model.mkl": "not a multikernel model file",
        "missing.mkl": "no such file",
        "": "a folder",
    }.items():
        with pytest.raises(ModelFileError, match=message):
            load(tmp_path / name)


@pytest.mark.parametrize(
    "state",
    [{"$": "exec"}, {"$": "object", "index": 99}, {"$": "array", "array": 99}, {"$": "dict", "items": 3}, {}],
    ids=str,
)
def test_nonsense_in_the_manifest_is_refused(model_file, state):
    rewrite(model_file, lambda manifest: manifest["objects"][0].update(state={"kernels": state}))
    with pytest.raises(ModelFileError):
        load(model_file)


def test_pipelines_of_scikit_learns_transformers_need_no_trust(tmp_path):
    frame = pd.DataFrame(X.copy(), columns=["a", "b", "c", "d"])
    frame.iloc[3, 1] = np.nan
    frame["kind"] = np.where(X[:, 0] > 5.5, "long", "short")
    numbers = make_pipeline(SimpleImputer(), PowerTransformer(), SelectKBest(f_classif, k=3), PCA(2, random_state=0))
    columns = ColumnTransformer(
        [("numbers", numbers, ["a", "b", "c", "d"]), ("kind", OneHotEncoder(sparse_output=False), ["kind"])]
    )
    model = make_pipeline(columns, StandardScaler(), MKLClassifier([RBF(), Linear()])).fit(frame, Y)
    path = saved(model, tmp_path / "model.mkl")
    copy = load(path)
    assert_array_equal(copy.decision_function(frame), model.decision_function(frame))
    assert copy[0].named_transformers_["numbers"][2].score_func is f_classif


@pytest.mark.parametrize("name", ["sklearn.utils.Bunch", "sklearn.impute.os", "os.system", "sklearn.pipeline."])
def test_other_parts_of_scikit_learn_are_refused(tmp_path, name):
    model = make_pipeline(StandardScaler(), KernelAverageClassifier([Linear()])).fit(X, Y)
    path = saved(model, tmp_path / "model.mkl")
    for kind in ("class", "function"):
        manifest = read_manifest(path)
        if kind == "class":
            entry = next(o for o in manifest["objects"] if o["class"] == "sklearn.preprocessing.StandardScaler")
            entry["class"] = name
        else:
            manifest["model"] = {"$": "function", "name": name}
        forged = tmp_path / f"{kind}.mkl"
        with zipfile.ZipFile(path) as source, zipfile.ZipFile(forged, "w") as target:
            for entry in source.namelist():
                target.writestr(entry, json.dumps(manifest) if entry == "manifest.json" else source.read(entry))
        with pytest.raises(ModelFileError, match="cannot be used"):
            load(forged)


def test_functions_of_ones_own_in_a_pipeline_are_refused(tmp_path):
    model = make_pipeline(FunctionTransformer(np.log1p), KernelAverageClassifier([Linear()])).fit(X, Y)
    with pytest.raises(ModelFileError, match="Python function or class"):
        save(model, tmp_path / "model.mkl")
