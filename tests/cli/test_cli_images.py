"""The command line on folders and lists of images."""

import csv
import json

import numpy as np
import pytest

from multikernel.io.files import DataError
from multikernel.io.image_folders import read_images

pytest.importorskip("skimage")
Image = pytest.importorskip("PIL.Image")

FAST = ("--kernels", "phog", "--methods", "average,mkl-p2", "-C", "1", "--inner-cv", "2", "--cv", "2")


def stripes(kind, seed, side=32):
    """Bars of one of three directions, at random places, in any colour."""
    rng = np.random.default_rng(seed)
    rows, columns = np.mgrid[:side, :side] + rng.integers(0, 12, (2, 1, 1))
    along = (columns, rows, rows + columns)[kind]
    light, dark = rng.random((2, 3)) * [[0.4], [0.4]] + [[0.6], [0.0]]
    return Image.fromarray((np.where((along // 4 % 2)[..., None], light, dark) * 255).astype(np.uint8))


@pytest.fixture
def folder(tmp_path):
    """Three classes of eight images, and files that are no images."""
    for kind, name in enumerate(("down", "across", "slanted")):
        (tmp_path / "photos" / name).mkdir(parents=True)
        for k in range(8):
            stripes(kind, 10 * kind + k).save(tmp_path / "photos" / name / f"{k}.png")
    (tmp_path / "photos" / "down" / "notes.txt").write_text("not an image")
    (tmp_path / "photos" / "across" / "cut.png").write_bytes((tmp_path / "photos/across/0.png").read_bytes()[:60])
    (tmp_path / "photos" / "readme.md").write_text("neither")
    (tmp_path / "photos" / ".hidden").mkdir()
    return tmp_path / "photos"


def test_compare_shows_images_of_each_class_and_names_files_that_are_none(run, folder, tmp_path):
    code, out, err = run("compare", "--images", folder, *FAST, "--json", "all.json", "--cache", "kept")
    assert code == 0, err
    assert "photos: 24 images, 3 classes, 4 kernels (phog) on 1 cue" in err
    assert "3 files left out" in err
    assert all(name in err for name in ("notes.txt", "cut.png", "readme.md"))
    assert "Average kernel SVM" in out
    found = json.loads((tmp_path / "all.json").read_text())
    assert found["classes"] == ["across", "down", "slanted"]
    assert found["kernel_names"][0] == "phog 1x1"
    page = (tmp_path / "report.html").read_text()
    assert page.count("data:image/jpeg;base64,") >= 3 * 6
    assert (tmp_path / "kept").is_dir()
    wrong = sum(len(method["mistakes"]) for method in found["methods"])
    right = sum(row[k] for method in found["methods"] for k, row in enumerate(method["confusion"]))
    assert wrong + right == 2 * 24


def test_images_that_are_confused_are_shown(tmp_path):
    """A class that looks like another: the page shows which images, and what they were taken for."""
    from multikernel.compare.results import Comparison, MethodResult
    from multikernel.report import Pictures, render

    for k in range(4):
        stripes(0, k).save(tmp_path / f"{k}.png")
    paths, y = np.array([str(tmp_path / f"{k}.png") for k in range(4)]), np.array(["a", "a", "b", "b"])
    best = MethodResult("average", "Average", scores=[0.5], confusion=[[1, 1], [1, 1]], mistakes=[[1, 1], [3, 0]])
    best.weights, best.fit_seconds, best.parameters = [[1.0]], [0.1], [{}]
    comparison = Comparison("toy", ["a", "b"], ["k"], "", 1, n_train=[4], n_test=[4], methods=[best])
    page = render(comparison, Pictures(paths, y))
    section = page[page.index("Most confused") :]
    assert section.index("a taken for b") < section.index("1.png") < section.index("b taken for a")
    assert "Most confused" not in render(comparison)


def test_fit_and_predict_on_folders(run, folder, tmp_path):
    code, _, err = run("fit", "--images", folder, "--kernels", "phog", "-C", 1, "--output", "model.mkl")
    assert code == 0, err
    assert "fitted on 24 samples; on these, accuracy 100.0 %" in err
    code, out, err = run("predict", "model.mkl", "--images", folder)
    assert code == 0
    rows = list(csv.DictReader(out.splitlines()))
    assert [row["path"].split("/")[-2] for row in rows] == [row["prediction"] for row in rows]
    assert "accuracy 100.0 % (24 of 24 samples)" in err
    new = tmp_path / "new"
    new.mkdir()
    stripes(1, 99).save(new / "x.png")
    (new / "y.png").write_text("none")
    code, out, err = run("predict", "model.mkl", "--images", new)
    assert out.splitlines()[1].endswith("x.png,across")
    assert "y.png is not an image" in err
    assert "accuracy" not in err


def test_a_list_of_paths_and_classes(run, folder, tmp_path):
    lines = [f"{path.relative_to(tmp_path)},{path.parent.name}" for path in sorted(folder.glob("*/[0-9].png"))]
    (tmp_path / "list.csv").write_text("\n".join(["path,species", *lines]) + "\n")
    code, _, err = run(
        "fit", "--images", "list.csv", "--target", "species", "--kernels", "phog", "-C", 1, "-o", "m.mkl"
    )
    assert code == 0, err
    assert "list.csv: 24 images, 3 classes" in err


def test_classes_that_are_numbers_keep_their_names(folder, tmp_path):
    files = sorted(folder.glob("*/[0-9].png"))[:4]
    for classes in (["0", "1", "1", "0"], ["0", "1", "", "0"]):
        lines = [f"{path},{name}" for path, name in zip(files, classes)]
        (tmp_path / "list.csv").write_text("\n".join(["path,label", *lines]) + "\n")
        if "" in classes:
            with pytest.raises(DataError, match="1 rows have no 'label', first row 2"):
                read_images(tmp_path / "list.csv")
        else:
            assert read_images(tmp_path / "list.csv").y.tolist() == classes


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["compare", "--images", "absent"], "no file absent"),
        (["compare", "--images", "photos/down"], "no files in sub-folders"),
        (["compare", "--images", "one"], "images of one class, 'down'"),
        (["compare", "--images", "photos", "--data", "x.csv"], "samples come from one of them"),
        (["compare", "--images", "photos", "--kernels", "rbf"], "no family of kernels on images 'rbf'"),
        (["compare", "--images", "photos", "--view", "a=b"], "--view is for tables"),
        (["compare", "--images", "broken.csv"], "no column of paths"),
        (["compare", "--images", "unlabelled.csv"], "no column of labels"),
        (["fit", "--output", "m.mkl"], "nothing to learn from"),
    ],
)
def test_what_cannot_be_read_is_said(run, folder, tmp_path, arguments, message):
    (tmp_path / "one" / "down").mkdir(parents=True)
    stripes(0, 0).save(tmp_path / "one" / "down" / "0.png")
    (tmp_path / "broken.csv").write_text("x,y\n1,a\n2,b\n")
    (tmp_path / "unlabelled.csv").write_text("path,x\nphotos/down/0.png,0.5\nphotos/down/1.png,0.7\n")
    code, _, err = run(*arguments)
    assert code in (1, 2)
    assert message in err


def test_a_model_of_images_wants_images(run, folder):
    assert run("fit", "--images", folder, "--kernels", "phog", "-C", 1, "--output", "model.mkl")[0] == 0
    code, _, err = run("predict", "model.mkl", "--data", "x.csv")
    assert (code, "--images" in err) == (2, True)


def test_tables_of_labels_are_compared_by_methods_that_take_them(run, folder, tmp_path):
    """Bars have a direction and a size: two labels, neither or both of which may hold."""
    lines = []
    for k in range(24):
        image = np.asarray(stripes(k % 2, k))
        Image.fromarray(image if k % 3 else image[:16, :16]).resize((32, 32)).save(tmp_path / f"{k}.png")
        lines.append((f"{k}.png", k % 2, int(k % 3 == 0)))
    rows = [f"{path},{across},{coarse}" for path, across, coarse in lines]
    (tmp_path / "flags.csv").write_text("\n".join(["image,across,coarse", *rows]) + "\n")
    words = [";".join(name for name, on in zip(("across", "coarse"), row[1:]) if on) for row in lines]
    (tmp_path / "words.csv").write_text(
        "\n".join(["path,label", *(f"{r[0]},{w}" for r, w in zip(lines, words))]) + "\n"
    )
    for file in ("flags.csv", "words.csv"):
        how = ("--kernels", "phog", "--methods", "average,ml-mkl-sum", "-C", 1, "--inner-cv", 2, "--cv", 2)
        code, out, err = run("compare", "--images", file, *how, "--json", "all.json")
        assert code == 0, err
        assert "24 images, 2 labels" in err
        found = json.loads((tmp_path / "all.json").read_text())
        assert found["classes"] == ["across", "coarse"]
        average, several = found["methods"]
        assert "table of labels" in average["left_out"]
        assert np.mean(several["scores"]) > found["baseline"]["scores"][0]
    code, _, err = run(
        "fit", "--images", "flags.csv", "--kernels", "phog", "--method", "ml-mkl-sum", "-C", 1, "-o", "m.mkl"
    )
    assert code == 0, err
    code, out, _ = run("predict", "m.mkl", "--images", "flags.csv")
    assert out.splitlines()[0] == "path,across,coarse"
