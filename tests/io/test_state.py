"""Model files of strangers: whatever they hold is refused, or a model that predicts what its arrays say."""

import copy
import io
import json
import zipfile

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.sparse import csr_array
from sklearn.gaussian_process.kernels import RBF as GaussianRBF
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import multikernel
from multikernel import (
    GMKLClassifier,
    KernelAverageClassifier,
    LPBetaClassifier,
    MKLClassifier,
    MKLOneClass,
    MKLRegressor,
    MultilabelMKLClassifier,
    ObscureClassifier,
    SVRGMKLRegressor,
)
from multikernel.estimators.registry import available
from multikernel.gram import gram_stack
from multikernel.io.models import ModelFileError, load, read_manifest, save
from multikernel.io.state import described
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
    Sigmoid,
    SpatialPyramid,
)
from multikernel.problems.obscure import MulticlassHinge

pytestmark = [
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
    pytest.mark.filterwarnings("ignore::RuntimeWarning"),
    pytest.mark.filterwarnings("ignore::UserWarning"),
]
RNG = np.random.default_rng(0)
X, NEW = np.abs(RNG.normal(size=(24, 4))), np.abs(RNG.normal(size=(5, 4)))
y = np.arange(24) % 3
ESTIMATORS = [*dict.fromkeys(method.estimator for method in available().values())]
ESTIMATORS += [MKLOneClass, MKLRegressor, SVRGMKLRegressor]
VIEWS = [Linear(), RBF(), RBF(columns=[0, 2])]
SQUARED = ((X[:, None] - X[None]) ** 2).sum(axis=-1)
# Kernels of every kind, and models whose state has other parts than that of most.
OTHERS = [
    (KernelAverageClassifier([ChiSquared(), ChiSquared(additive=True), HistogramIntersection(), Laplacian()]), X, y),
    (KernelAverageClassifier([Cosine(), Polynomial(), Sigmoid()], psd="ignore", multi_class="ovo"), X, y),
    (KernelAverageClassifier([SpatialPyramid(levels=(1, 2)), RBF()], how="product"), X, y),
    (KernelAverageClassifier([Nystroem(rank=4), RandomFourier(rank=6), Nystroem(kernel=Linear(), rank=9)]), X, y),
    (KernelAverageClassifier([RBF(), Linear()], normalize=["center", "trace", "cosine"]), X, y),
    (KernelAverageClassifier([Sigmoid(coef0=-1.0), Linear()], psd="clip"), X, y),
    (KernelAverageClassifier([FromGaussianProcess(kernel=GaussianRBF(1.5)), Linear()]), X, y > 0),
    (
        KernelAverageClassifier([FromDistance(columns=0), FromDistance(columns=1)]),
        np.dstack([SQUARED, 2 * SQUARED]),
        y,
    ),
    (MKLClassifier([ChiSquared(), RBF(), Nystroem(rank=4)], weights="per-class"), csr_array(X), y),
    (GMKLClassifier(combination="product"), X, y),
    (LPBetaClassifier(VIEWS, shared=False), X, y),
    (MultilabelMKLClassifier(VIEWS), X, np.column_stack([y == 0, y == 1, y >= 0]).astype(int)),
]


def kernels_between(A, B):
    squared = ((A[:, None] - B[None]) ** 2).sum(axis=-1)
    return np.stack([A @ B.T, np.exp(-squared), np.exp(-4.0 * squared)], axis=-1)


def fast(estimator, kernels):
    """A model that takes no time to fit, and does nothing to precomputed kernels."""
    known = estimator().get_params()
    wanted = {"random_state": 0, "max_iter": 5, "cv": 2, "ps": [2.0], "regs": [1.0], "ts": [2.0]}
    if kernels == "precomputed":
        wanted["normalize"] = None
    return estimator(kernels, **{name: value for name, value in wanted.items() if name in known})


@pytest.fixture(scope="module")
def models():
    """Fitted models, and new samples for them."""
    given, K = kernels_between(X, X), kernels_between(NEW, X)
    found = [(fast(estimator, "precomputed").fit(given, y > 0), K) for estimator in ESTIMATORS]
    found += [(fast(estimator, VIEWS).fit(X, y), NEW) for estimator in ESTIMATORS]
    found += [(model.fit(data, labels), NEW if data.ndim == 2 else data[:5]) for model, data, labels in OTHERS]
    found.append((ObscureClassifier(VIEWS).partial_fit(X, y, classes=[0, 1, 2]), NEW))
    for model, _ in found:
        model.history_ = []  # a list of plain numbers that no prediction depends on
    return found


def unpacked(model, path):
    save(model, path)
    with zipfile.ZipFile(path) as archive:
        manifest = json.loads(archive.read("manifest.json"))
        entries = [archive.open(f"arrays/{k}.npy") for k in range(manifest["arrays"])]
        return manifest, [np.lib.format.read_array(entry) for entry in entries]


def pack(path, manifest, arrays):
    """A model file with valid checksums."""
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("manifest.json", json.dumps(manifest))
        for k, array in enumerate(arrays):
            stream = io.BytesIO()
            np.lib.format.write_array(stream, array, allow_pickle=False)
            archive.writestr(f"arrays/{k}.npy", stream.getvalue())


VALUES = [
    *(None, True, -1, 0, 3, 10**9, 2**63, 1e300, 0.5, "x", "center", [], [1], {"$": "float", "value": "nan"}),
    *({"$": "float", "value": "inf"}, {"$": "dict", "items": []}, {"$": "tuple", "items": []}),
]
CHANGES = [
    lambda a, rng: a + np.array(rng.choice([1, 40, 10**6, 10**9, -1, -(10**9)])).astype(a.dtype),
    lambda a, rng: a * rng.choice([1e300, 1e150, 0.0, -1.0]),
    lambda a, rng: np.where(rng.random(a.shape) < 0.2, rng.choice([np.nan, np.inf, 1e308, -1.0]), a),
    lambda a, rng: np.where(rng.random(a.shape) < 0.2, rng.choice([-1, 24, 10**6]), a).astype(a.dtype),
    lambda a, rng: rng.permutation(a.ravel()).reshape(a.shape),
    lambda a, rng: a[:-1],
    lambda a, rng: np.concatenate([a, a]),
    lambda a, rng: a[None],
    lambda a, rng: a.T,
    lambda a, rng: a[:0],
    *(lambda a, rng, kind=kind: a.astype(kind) for kind in ("f4", "i8", "U", "c16", ">f8", "f2", "?")),
]


def leaves(tree, path=()):
    """Places in a manifest: of values, and of references to arrays."""
    yield path, tree.get("array") if isinstance(tree, dict) else None
    children = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    for key, child in children:
        if key not in ("$", "array", "axes"):
            yield from leaves(child, (*path, key))


def damage(manifest, arrays, rng):
    """Change an array or a value of the state at random."""
    manifest, arrays = copy.deepcopy(manifest), list(arrays)
    states = [leaves(entry["state"], (k, "state")) for k, entry in enumerate(manifest["objects"])]
    places = [place for state in states for place in state if len(place[0]) > 2]
    places = [place for place in places if (place[1] is None) == (rng.random() < 0.3)]
    path, array = places[rng.integers(len(places))]
    if array is None:
        parent = manifest["objects"]
        for key in path[:-1]:
            parent = parent[key]
        parent[path[-1]] = VALUES[rng.integers(len(VALUES))]
    else:
        try:
            arrays[array] = np.asarray(CHANGES[rng.integers(len(CHANGES))](arrays[array], rng))
        except (ValueError, TypeError, IndexError, OverflowError):
            arrays[array] = np.zeros((2, 0))
    return manifest, arrays


def expected_scores(model, K):
    """Scores of a model on precomputed kernels, from its arrays by NumPy, which looks where indices point."""
    coefficients, K = model.dual_coef_, K[:, model.support_]
    if coefficients.ndim == 3:
        shares = np.einsum("msf,fts->mft", K, coefficients)
        factors = model._factors()
        scores = np.einsum("mft,ft->mt", shares, factors) + model.intercept_
    else:
        scores = np.einsum("msf,f,ts->mt", K, np.atleast_2d(model.weights_)[0], coefficients) + model.intercept_
    return scores[:, 0]


def test_models_with_changed_state_are_refused_or_predict_what_their_arrays_say(models, tmp_path):
    rng, outcomes = np.random.default_rng(0), {"refused": 0, "no prediction": 0, "loaded": 0, "compared": 0}
    contents = [unpacked(model, tmp_path / "model.mkl") for model, _ in models]
    for number in range(500):
        (model, data), content = models[number % len(models)], contents[number % len(models)]
        pack(tmp_path / "model.mkl", *damage(*content, rng))
        try:
            loaded = load(tmp_path / "model.mkl")
        except ModelFileError:
            outcomes["refused"] += 1
            continue
        outcomes["loaded"] += 1
        predict = loaded.decision_function if hasattr(loaded, "decision_function") else loaded.predict
        try:
            scores = predict(data)
        except (ValueError, FloatingPointError):  # too large for numbers, or not for as many samples
            outcomes["no prediction"] += 1
            continue
        assert np.isfinite(scores).all()
        loaded.predict(data)
        if (
            isinstance(model.kernels, str)
            and loaded.kernels == "precomputed"
            and getattr(loaded, "how", "") != "product"
        ):
            assert_allclose(scores, expected_scores(loaded, data), rtol=1e-6, atol=1e-9 * np.abs(scores).max())
            outcomes["compared"] += 1
    assert outcomes["refused"] > 150  # the changes are those that matter
    assert outcomes["compared"] > 50
    assert outcomes["no prediction"] < 20


def test_all_that_models_and_kernels_learn_is_described(models):
    for model, _ in models:
        parts = [model, model._normalization, *(model._family.kernels if model._family is not None else [])]
        for part in parts:
            parameters = set(getattr(type(part), "_get_param_names", list)())
            assert set(part.__getstate__()) - parameters <= set(described(type(part))), type(part)


@pytest.mark.parametrize("shift", [40, 10**6, 10**9, -(10**9)])
@pytest.mark.parametrize("piped", [False, True])
def test_columns_that_point_outside_of_a_kernel_are_refused(tmp_path, shift, piped):
    model = MKLClassifier(VIEWS if piped else "precomputed")
    whole = make_pipeline(StandardScaler(), model) if piped else model
    whole.fit(X if piped else kernels_between(X, X), y)
    manifest, arrays = unpacked(whole, tmp_path / "model.mkl")
    indices = [k for k, array in enumerate(arrays) if array.dtype.kind == "i" and array.shape == model.support_.shape]
    for k in indices:
        pack(tmp_path / "model.mkl", manifest, [a + shift * (j == k) for j, a in enumerate(arrays)])
        with pytest.raises(ModelFileError, match=r"MKLClassifier: .* has entries that are (not below 24|.* smaller)"):
            load(tmp_path / "model.mkl")
    assert len(indices) >= 1


def test_compiled_code_is_not_asked_for_samples_that_are_not_there():
    stack = gram_stack(kernels_between(X, X))
    for positions in ([24], [-25], [10**9]):
        with pytest.raises(IndexError, match="there are 24 samples"):
            stack.take(columns=positions)
        with pytest.raises(IndexError, match="there are 24 samples"):
            stack.take(rows=positions)
    with pytest.raises(ValueError, match="labels must be from 0 to 2"):
        MulticlassHinge([0, 3], 3)


@pytest.fixture
def content(tmp_path):
    return unpacked(MKLClassifier(VIEWS).fit(X, y), tmp_path / "model.mkl")


@pytest.mark.parametrize("model", [[], [{"$": "object", "index": 0}], None, 3, {"$": "array", "array": 0}], ids=str)
def test_what_is_not_a_model_is_refused(tmp_path, content, model):
    manifest, arrays = content
    pack(tmp_path / "model.mkl", {**manifest, "model": model}, arrays)
    with pytest.raises(ModelFileError, match="instead of a model"):
        load(tmp_path / "model.mkl")


@pytest.mark.parametrize("part", range(5))
def test_kernels_and_parts_of_models_are_not_models(tmp_path, content, part):
    manifest, arrays = content
    name = manifest["objects"][part]["class"]
    pack(tmp_path / "model.mkl", {**manifest, "model": {"$": "object", "index": part}, "class": name}, arrays)
    with pytest.raises(ModelFileError, match=f"it holds a {name} instead of a model"):
        load(tmp_path / "model.mkl")


def test_attributes_that_would_hide_methods_are_refused(tmp_path, content):
    manifest, arrays = content
    manifest["objects"][-1]["state"]["decision_function"] = 3
    pack(tmp_path / "model.mkl", manifest, arrays)
    with pytest.raises(ModelFileError, match="decision_function is not one of its attributes"):
        load(tmp_path / "model.mkl")


def test_a_model_without_numbers_for_coefficients_is_neither_saved_nor_loaded(tmp_path):
    model = MKLClassifier(VIEWS).fit(X, y)
    model.dual_coef_[0, 0] = np.nan
    with pytest.raises(
        ModelFileError, match="cannot be saved: MKLClassifier: dual_coef_ has entries that are not finite"
    ):
        save(model, tmp_path / "model.mkl")
    assert not list(tmp_path.iterdir())


# -- sizes -------------------------------------------------------------------------------------------------------


def test_compressed_files_are_not_unpacked(tmp_path, content):
    with zipfile.ZipFile(tmp_path / "bomb.mkl", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("manifest.json", " " * 10**7)
    for read in (load, read_manifest):
        with pytest.raises(ModelFileError, match="entries are compressed"):
            read(tmp_path / "bomb.mkl")


def test_a_manifest_has_a_largest_size(tmp_path, content, monkeypatch):
    manifest, arrays = content
    pack(tmp_path / "model.mkl", {**manifest, "metadata": {"note": "x" * 10**6}}, arrays)
    monkeypatch.setattr(multikernel.io.models, "LARGEST_MANIFEST", 10**5)
    for read in (load, read_manifest):
        with pytest.raises(ModelFileError, match="its manifest has"):
            read(tmp_path / "model.mkl")
    with pytest.raises(ModelFileError, match=r"take \d+ bytes"):
        save(MKLClassifier(VIEWS).fit(X, y), tmp_path / "other.mkl", metadata={"note": "x" * 10**6})


@pytest.mark.parametrize("shape", [(10**12,), (3, 10**10), (10**18, 10**18)], ids=str)
def test_arrays_that_claim_to_be_huge_are_not_made(tmp_path, content, shape):
    manifest, arrays = content
    pack(tmp_path / "model.mkl", manifest, arrays)
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "<f8", "fortran_order": False, "shape": shape})
    with zipfile.ZipFile(tmp_path / "model.mkl") as source, zipfile.ZipFile(tmp_path / "huge.mkl", "w") as target:
        for name in source.namelist():
            target.writestr(name, header.getvalue() if name == "arrays/0.npy" else source.read(name))
    with pytest.raises(ModelFileError, match="is not as long as its header says"):
        load(tmp_path / "huge.mkl")


def test_entries_that_share_their_bytes_are_refused(tmp_path, content):
    manifest, arrays = content
    pack(tmp_path / "model.mkl", manifest, arrays)
    with zipfile.ZipFile(tmp_path / "model.mkl", "a") as archive:
        entry = copy.copy(archive.getinfo("manifest.json"))
        for k in range(50):
            twin = copy.copy(entry)
            twin.filename = f"{k}.json"
            archive.filelist.append(twin)
        archive._didModify = True
    with pytest.raises(ModelFileError, match="larger than the file"):
        load(tmp_path / "model.mkl")
