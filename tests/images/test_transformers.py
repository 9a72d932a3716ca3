"""Transformers of images: files of every kind, caches, processes, pipelines, families."""

import inspect
import io
import logging
import pickle
from itertools import chain

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.pipeline import make_pipeline
from sklearn.utils import estimator_checks
from threadpoolctl import threadpool_info, threadpool_limits

from multikernel import KernelAverageClassifier, MKLClassifier
from multikernel.images import (
    PHOG,
    ColorHistogram,
    GaborEnergies,
    ImageError,
    LocalBinaryPatterns,
    VisualWords,
    read_image,
    visual_kernels,
)
from multikernel.images import transformers as module
from multikernel.io.files import DataError
from multikernel.io.models import load, save
from multikernel.io.state import check_state
from multikernel.kernels import RBF, ChiSquared, KernelFamily, SpatialPyramid

pytest.importorskip("skimage")
Image = pytest.importorskip("PIL.Image")


def texture(kind, seed, side=40):
    """Stripes of one class and checks of another, at random places, in any colour."""
    rng = np.random.default_rng(seed)
    rows, columns = np.mgrid[:side, :side] + rng.integers(0, 12, (2, 1, 1))
    cells = columns // 4 % 2 if kind == 0 else (columns // 4 + rows // 4) % 2
    light, dark = rng.random((2, 3)) * [[0.4], [0.4]] + [[0.6], [0.0]]
    return (np.where(cells[..., None], light, dark) * 255).astype(np.uint8)


@pytest.fixture
def images(tmp_path):
    """Paths of 24 images, and their classes."""
    y = np.arange(24) % 2
    paths = []
    for k, kind in enumerate(y):
        paths.append(str(tmp_path / f"{k:02d}.png"))
        Image.fromarray(texture(kind, k)).save(paths[-1])
    return np.array(paths), y


# -- reading --------------------------------------------------------------------------------------------------


def saved(tmp_path, picture, name="image.png", **settings):
    picture.save(tmp_path / name, **settings)
    return tmp_path / name


def test_every_mode_of_a_picture_is_read_as_the_same_colours(tmp_path):
    rgb = Image.fromarray(texture(1, 0))
    expected = np.asarray(rgb, np.float32) / 255
    assert_array_equal(read_image(saved(tmp_path, rgb)), expected)
    assert_allclose(
        read_image(saved(tmp_path, rgb.convert("P", palette=Image.Palette.ADAPTIVE), "p.png")), expected, atol=0.03
    )
    assert_array_equal(read_image(saved(tmp_path, rgb.convert("RGBA"), "a.png")), expected)
    assert_allclose(read_image(saved(tmp_path, rgb.convert("CMYK"), "c.tif")), expected, atol=0.01)
    grey = rgb.convert("L")
    assert_array_equal(
        read_image(saved(tmp_path, grey, "l.png")), np.repeat(np.asarray(grey, np.float32)[..., None] / 255, 3, 2)
    )
    bilevel = read_image(saved(tmp_path, grey.convert("1"), "b.png"))
    assert set(np.unique(bilevel)) == {0.0, 1.0}


def test_transparent_parts_are_white(tmp_path):
    levels = np.zeros((4, 6, 4), np.uint8)
    levels[:, :3, 3] = 255  # the left half is black, the right transparent
    for name, picture in (("a.png", Image.fromarray(levels)), ("la.png", Image.fromarray(levels).convert("LA"))):
        image = read_image(saved(tmp_path, picture, name))
        assert (image[:, :3] == 0).all()
        assert (image[:, 3:] == 1).all()


def test_sixteen_bits_keep_their_range(tmp_path):
    levels = np.linspace(0, 65535, 60).astype(np.uint16).reshape(6, 10)
    for path in (saved(tmp_path, Image.fromarray(levels)), saved(tmp_path, Image.fromarray(levels), "i.tif")):
        assert_allclose(read_image(path)[..., 1], levels / 65535, atol=0.005)
    assert_allclose(read_image(levels)[..., 0], levels / 65535, atol=0.005)


def test_photographs_are_turned_as_their_camera_says(tmp_path):
    picture = Image.new("RGB", (12, 6), "black")
    picture.paste((255, 255, 255), (0, 0, 4, 6))  # white at the left
    exif = Image.Exif()
    exif[0x0112] = 6  # to be turned clockwise
    image = read_image(saved(tmp_path, picture, "turned.jpg", exif=exif, quality=95))
    assert image.shape == (12, 6, 3)
    assert image[:3].mean() > 0.9
    assert image[6:].mean() < 0.1


def test_large_images_are_made_smaller_and_small_ones_stay():
    image = np.zeros((30, 60, 3))
    assert read_image(image, 20).shape == (10, 20, 3)
    assert read_image(image, 60).shape == read_image(image, 90).shape == (30, 60, 3)
    assert read_image(np.zeros((1, 500)), 20).shape == (1, 20, 3)


def test_arrays_are_images_whatever_their_dtype():
    for image in (
        np.ones((3, 4), bool),
        np.ones((3, 4)),
        np.full((3, 4, 1), 255, np.uint8),
        np.ones((3, 4, 4), np.float32),
    ):
        assert_array_equal(read_image(image), np.ones((3, 4, 3)))
    assert_array_equal(read_image(np.full((3, 4), 65535, np.uint16)), np.ones((3, 4, 3)))


@pytest.mark.parametrize(
    ("image", "message"),
    [
        (np.zeros((3, 4, 2)), "shape"),
        (np.zeros((0, 4)), "shape"),
        (np.full((3, 4), 200.0), "from 200.0 to 200.0 .* divide floats"),
        (np.full((3, 4), np.nan), "from nan"),
        (np.full((3, 4), 200), "int64 .* convert integers to uint8 or uint16"),
        (b"no image", "not an image"),
    ],
)
def test_what_is_no_image_is_refused(image, message):
    with pytest.raises(ImageError, match=message):
        read_image(image)


def test_files_that_are_no_images_are_all_named_in_one_error(tmp_path, images):
    paths = list(images[0])
    stream = io.BytesIO()
    Image.fromarray(texture(0, 0)).save(stream, "JPEG")
    (tmp_path / "cut.jpg").write_bytes(stream.getvalue()[: len(stream.getvalue()) // 2])
    (tmp_path / "text.png").write_text("hello")
    (tmp_path / "empty.png").write_bytes(b"")
    bad = [str(tmp_path / name) for name in ("cut.jpg", "text.png", "empty.png", "absent.png")]
    for memory in (None, tmp_path / "cache"):
        with pytest.raises(ImageError, match="4 of 28 images cannot be read") as caught:
            ColorHistogram(memory=memory and str(memory)).transform(paths[:3] + bad + paths[3:])
        assert all(name in str(caught.value) for name in ("cut.jpg", "text.png", "empty.png"))
    with pytest.raises(ImageError, match=r"(?i)truncated"):
        read_image(bad[0])


# -- transformers ---------------------------------------------------------------------------------------------


def test_paths_and_arrays_give_the_same_in_any_container(images):
    pandas = pytest.importorskip("pandas")
    paths, _ = images
    arrays = np.array([read_image(path) for path in paths])
    expected = ColorHistogram().transform(list(paths))
    for X in (
        paths,
        paths[:, None],
        paths.astype(object),
        pandas.Series(paths),
        pandas.DataFrame({"path": paths}),
        arrays,
    ):
        assert_array_equal(ColorHistogram().fit_transform(X), expected)


@pytest.mark.parametrize(
    ("X", "message"),
    [("a.png", "one image"), ([], "no images"), ([3], "neither a path"), (np.zeros((4, 5)), "shape")],
)
def test_what_holds_no_images_is_refused(X, message):
    with pytest.raises((ValueError, TypeError), match=message):
        PHOG().transform(X)


def test_processes_change_nothing_and_the_seed_does(images, monkeypatch):
    paths, _ = images
    monkeypatch.setattr(module, "BATCH", 4)

    def words(**settings):
        return VisualWords(patches="hsv", n_words=12, random_state=0).set_params(**settings).fit_transform(paths)

    assert_array_equal(words(), words())
    assert_array_equal(words(), words(n_jobs=2))
    assert not np.array_equal(words(), words(random_state=1))


def test_what_is_sampled_of_an_image_does_not_depend_on_the_others(images):
    paths, _ = images
    words = VisualWords(patches="hsv")
    first, again, other = (words._sampled(read_image(paths[k]), count=5, seed=3) for k in (0, 0, 1))
    assert_array_equal(first, again)
    assert not np.array_equal(first, other)


def test_descriptors_are_computed_once_and_again_when_image_or_parameters_change(images, tmp_path, monkeypatch):
    paths, _ = images
    calls = []
    monkeypatch.setattr(module, "read_image", lambda source, size: calls.append(size) or read_image(source, size))
    cue = ColorHistogram(memory=str(tmp_path / "cache"))
    first = cue.transform(paths)
    assert len(calls) == len(paths)
    assert_array_equal(clone(cue).transform(paths[::-1]), first[::-1])
    assert len(calls) == len(paths)
    cue.set_params(bins=(4, 4, 4)).transform(paths[:1])
    cue.set_params(size=20).transform(paths[:1])
    Image.fromarray(texture(1, 99)).save(paths[0])
    changed = cue.transform(paths[:1])
    assert len(calls) == len(paths) + 3
    assert_array_equal(changed, ColorHistogram(bins=(4, 4, 4), size=20).transform(paths[:1]))


def test_progress_is_shown_and_logged(images, capsys, caplog):
    with caplog.at_level(logging.DEBUG, "multikernel.images"):
        ColorHistogram(verbose=True).transform(images[0])
    assert "ColorHistogram" in capsys.readouterr().err
    assert "24 of 24 images" in caplog.text


def test_fewer_descriptors_than_words_leave_columns_empty():
    X = VisualWords(patches="hsv", n_words=50, random_state=0).fit_transform(np.zeros((3, 1, 1)))
    assert X.shape == (3, 50)
    assert (X.sum(axis=1) == 1).all()


@pytest.mark.parametrize(
    ("cue", "message"),
    [
        (VisualWords(patches="swift"), "sift"),
        (VisualWords(n_words=0), "n_words=0 must be a whole number of at least 1"),
        (VisualWords(n_samples=2.5), "n_samples=2.5"),
        (ColorHistogram(space="lab"), "lab"),
        (ColorHistogram(bins=(4, 4)), r"bins=\(4, 4\) must be three"),
        (ColorHistogram(bins=(4, 0, 4)), "bins"),
        (LocalBinaryPatterns(radius=0), "radius=0"),
        (GaborEnergies(scales=5), "scales=5 are more than 4"),
        (PHOG(orientations=0), "orientations=0"),
        (PHOG(grid=0), "grid=0"),
        (PHOG(size=-1), "size=-1"),
    ],
)
def test_parameters_that_count_nothing_are_refused(cue, message, images):
    for method in (cue.fit, cue.fit_transform):
        with pytest.raises(ValueError, match=message):
            method(images[0])


CUES = [PHOG(), ColorHistogram(), LocalBinaryPatterns(), GaborEnergies(), VisualWords()]


@pytest.mark.parametrize("cue", CUES, ids=str)
@pytest.mark.parametrize(
    "check",
    [
        "check_estimator_cloneable",
        "check_get_params_invariance",
        "check_no_attributes_set_in_init",
        "check_parameters_default_constructible",
        "check_set_params",
    ],
)
def test_cues_follow_scikit_learn(cue, check):
    """Those of its checks that do not give tables of numbers to the estimator."""
    getattr(estimator_checks, check)(type(cue).__name__, cue)


@pytest.mark.parametrize("cue", CUES, ids=str)
def test_docstrings_describe_every_parameter_once(cue):
    section = inspect.getdoc(type(cue)).partition("Parameters\n----------\n")[2].partition("\n\n")[0]
    heads = [line.partition(" : ")[0].split(", ") for line in section.split("\n") if not line.startswith(" ")]
    assert sorted(chain(*heads)) == sorted(cue.get_params())


@pytest.mark.parametrize("cue", CUES, ids=str)
def test_cues_fill_data_frames(cue, images):
    pytest.importorskip("pandas")
    paths = images[0][:4]
    frame = clone(cue).set_output(transform="pandas").fit(paths).transform(paths)
    assert frame.shape == (4, cue.n_columns)
    assert frame.columns[0] == f"{type(cue).__name__.lower()}0"


def test_small_products_are_left_to_one_thread(images, monkeypatch):
    from sklearn.cluster import MiniBatchKMeans

    seen = []

    def watched(function):
        def watch(*arguments, **settings):
            seen.append({library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"})
            return function(*arguments, **settings)

        return watch

    monkeypatch.setattr(MiniBatchKMeans, "fit", watched(MiniBatchKMeans.fit))
    monkeypatch.setattr(module, "read_image", watched(read_image))
    with threadpool_limits(2):
        VisualWords(patches="hsv", n_words=3).fit_transform(images[0][:4])
    assert seen == 9 * [{1}]


def test_words_that_do_not_fit_their_columns_are_refused(images):
    words = VisualWords(patches="hsv", n_words=3, random_state=0).fit(images[0][:4])
    check_state(words)
    for damaged in (np.vstack([words.words_, words.words_]), words.words_[0], words.words_ * np.nan):
        words.words_ = damaged
        with pytest.raises(DataError, match="words_"):
            check_state(words)


def test_words_must_be_learnt_first(images):
    from sklearn.exceptions import NotFittedError

    with pytest.raises(NotFittedError):
        VisualWords().transform(images[0])


# -- families -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("family", "n_kernels", "n_cues"), [("flower17", 7, 7), ("caltech39", 39, 12), ("voc16", 16, 10), ("phog", 4, 1)]
)
def test_a_family_has_its_kernels_on_all_columns(family, n_kernels, n_cues, images):
    paths, _ = images
    cues, kernels = visual_kernels(family, n_words=5)
    X = cues.fit_transform(paths[:6])
    assert (len(kernels), len(cues.transformer_list)) == (n_kernels, n_cues)
    assert X.shape[1] == len(cues.get_feature_names_out()) == max(kernel.columns.stop for kernel in kernels)
    family = KernelFamily.fit(kernels, X)
    assert len(set(family.names)) == n_kernels
    values = family.evaluate(X)
    assert np.linalg.eigvalsh(values.astype(np.float64)).min() > -1e-5
    assert {type(kernel) for kernel in kernels} <= {ChiSquared, SpatialPyramid, RBF}


def test_a_level_of_a_family_is_the_pooled_histogram():
    cues, kernels = visual_kernels("phog")
    X = cues.fit_transform(np.random.default_rng(0).random((4, 32, 32)))
    coarse = PHOG(orientations=20, signed=False, grid=2).transform(np.random.default_rng(0).random((4, 32, 32)))
    assert_allclose(kernels[1](X), ChiSquared()(coarse), rtol=1e-4)


def test_an_unknown_family_is_refused():
    with pytest.raises(ValueError, match="flower17"):
        visual_kernels("flower18")
    with pytest.raises(ValueError, match="n_words=0"):
        visual_kernels(n_words=0)[0].fit(np.zeros((2, 8, 8)))


def test_a_pipeline_goes_from_paths_to_predictions(images, tmp_path):
    paths, y = images
    cues, kernels = visual_kernels("flower17", n_words=20)
    model = make_pipeline(cues, MKLClassifier(kernels, p=2.0, C=10.0)).fit(paths[:16], y[:16])
    assert model.score(paths[16:], y[16:]) == 1.0
    assert model[-1].weights_.shape == (7,)
    assert list(model[-1].kernel_names_) == [kernel.name for kernel in kernels]
    save(model, tmp_path / "model.mkl")
    for again in (load(tmp_path / "model.mkl"), pickle.loads(pickle.dumps(model))):
        assert_array_equal(again.decision_function(paths), model.decision_function(paths))


def test_no_word_comes_from_images_that_are_held_out(images, tmp_path):
    """Whatever the held-out images of a fold show, its words stay the same; those of the other fold do not."""
    paths, y = (part[:8] for part in images)
    cues, kernels = visual_kernels("flower17", n_words=4, memory=str(tmp_path / "cache"))
    folds = list(KFold(2).split(paths))

    def words():
        """Of each fold of a search, all vocabularies one after the other."""
        found = []

        def score(model, X, y):
            learnt = [cue.words_.ravel() for _, cue in model[0].transformer_list if str(cue) != "PHOG"]
            found.append(np.concatenate(learnt))
            return model.score(X, y)

        model = make_pipeline(cues, KernelAverageClassifier(kernels))
        GridSearchCV(model, {"kernelaverageclassifier__C": [1.0]}, cv=folds, scoring=score, refit=False).fit(paths, y)
        return found

    before = words()
    for path in paths[folds[0][1]]:
        Image.fromarray(255 - np.asarray(Image.open(path))).save(path)
    after = words()
    assert_array_equal(before[0], after[0])
    assert len(before[1]) != len(after[1]) or not np.allclose(before[1], after[1])
