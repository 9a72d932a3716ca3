"""The command line: what it prints and writes, and what it says when something is wrong."""

import csv
import json
import logging
import os
import pkgutil
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_iris
from sklearn.model_selection import StratifiedKFold

import multikernel.cli.parser
from multikernel import KernelAverageClassifier, __version__
from multikernel.cli import main
from multikernel.cli.progress import ProgressBar
from multikernel.io.models import load

COLUMNS = ["sepal_length", "sepal_width", "petal_length", "petal_width"]


@pytest.fixture
def flowers(tmp_path):
    X, y = load_iris(return_X_y=True)
    names = ["setosa", "versicolor", "virginica"]
    lines = [",".join([*COLUMNS, "species"])]
    lines += [",".join([*map(str, row), names[label]]) for row, label in zip(X[::2], y[::2])]
    path = tmp_path / "flowers.csv"
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.fixture
def kernels(tmp_path):
    X, y = load_iris(return_X_y=True)
    X, y = X[::3], y[::3]
    K = np.stack([X @ X.T, np.exp(-((X[:, None] - X[None]) ** 2).sum(-1))])
    np.savez(tmp_path / "kernels.npz", K=K, y=y)
    np.savez(tmp_path / "new.npz", K=K[:, :10])
    return tmp_path / "kernels.npz"


FAST = ("-C", "1", "--inner-cv", "2")
VIEWS = ("--view", "petals=petal_*", "--view", "sepals=0:2")


# -- compare -------------------------------------------------------------------------------------------------


def test_compare_prints_a_table_and_writes_a_page_and_json(run, flowers):
    given = ("--data", flowers, "--target", "species", *VIEWS, "--methods", "average,mkl", *FAST)
    code, out, err = run("compare", *given, "--cv", 3, "--json", "all.json")
    assert code == 0, err
    lines = out.splitlines()
    scores = ["accuracy", "balanced", "accuracy", "AUC"]
    assert lines[0].split() == ["method", *scores, "fit", "time", "gap", "kernels", "memory", "parameters"]
    assert lines[1].startswith("Most frequent class")
    assert lines[2].startswith("Average kernel SVM")
    assert "±" in lines[2]
    assert "6 of 6" in lines[2]
    page = Path("report.html").read_text(encoding="utf-8")
    assert "virginica" in page
    assert "multikernel compare --data" in page
    found = json.loads(Path("all.json").read_text(encoding="utf-8"))
    families = ("linear", "poly(3)", "rbf(mean)")
    assert found["kernel_names"] == [f"{family} on {view}" for view in ("petals", "sepals") for family in families]
    assert found["classes"] == ["setosa", "versicolor", "virginica"]
    assert "flowers.csv: 75 samples, 4 features in 2 views, 3 classes, 6 kernels" in err
    assert "100 %" in err
    assert "report: report.html" in err


@pytest.mark.parametrize(
    ("n_samples", "options", "protocol"),
    [
        (100, [], "5-fold stratified cross-validation"),
        (1100, [], "330 stratified samples held out"),
        (1100, ["--cv", "2"], "2-fold stratified cross-validation"),
        (100, ["--test-size", "0.2"], "20 stratified samples held out"),
    ],
)
def test_few_samples_are_cross_validated_and_many_held_out_unless_told(run, n_samples, options, protocol):
    rng = np.random.default_rng(0)
    y = np.arange(n_samples) % 2
    np.savez("data.npz", X=rng.normal(size=(n_samples, 2)) + 3 * y[:, None], y=y)
    chosen = ("--methods", "average", "--kernels", "linear", "--no-single", "--json", "all.json", *FAST)
    assert run("compare", "--data", "data.npz", *chosen, *options)[0] == 0
    assert json.loads(Path("all.json").read_text())["protocol"].startswith(protocol)


def test_quiet_leaves_standard_error_empty(run, kernels):
    few = ("--methods", "average", "--no-single")
    code, out, err = run("compare", "--data", kernels, "--test-size", 0.4, *FAST, *few, "--quiet")
    assert code == 0
    assert err == ""
    assert "2 of 2" in out


def noisy(function):
    """The function, after a warning of NumPy's in its thread and in another."""

    def wrapper(*arguments, **options):
        with ThreadPoolExecutor(1) as pool:
            pool.submit(lambda: np.log(np.zeros(1))).result()
        np.float64(1.0) / np.zeros(1)
        return function(*arguments, **options)

    return wrapper


@pytest.mark.parametrize(
    "where", ["multikernel.compare.stacks.Preparation.stacks", "multikernel.KernelAverageClassifier.fit"]
)
def test_quiet_keeps_the_warnings_of_numpy_to_itself(run, flowers, monkeypatch, where):
    owner, name = where.rsplit(".", 1)
    target = pkgutil.resolve_name(owner)
    monkeypatch.setattr(target, name, noisy(getattr(target, name)))
    data = ("-d", flowers, "-t", "species", "-m", "average", "-C", "1,10")
    assert run("fit", *data, "-o", "model.mkl", "-q")[::2] == (0, "")
    assert run("compare", *data, "--test-size", "0.3", "-q")[::2] == (0, "")
    code, _, err = run("fit", *data, "-o", "model.mkl")
    assert code == 0
    assert "multikernel: warning: divide by zero" in err


def test_methods_and_bandwidths_are_chosen(run, flowers):
    given = ("-d", flowers, "-t", "species", "--test-size", "0.3", *FAST, "--no-single", "--json", "all.json")
    code, out, _ = run("compare", *given, "--methods", "average", "--kernels", "rbf", "--bandwidths", "0.5,1,2")
    assert code == 0
    assert len(out.splitlines()) == 3
    names = json.loads(Path("all.json").read_text(encoding="utf-8"))["kernel_names"]
    assert names == ["rbf(0.5*mean) on all", "rbf(mean) on all", "rbf(2*mean) on all"]


# -- fit, predict, info -------------------------------------------------------------------------------------


def test_a_model_is_fitted_saved_described_and_used(run, flowers, tmp_path):
    code, _, err = run("fit", "-d", flowers, "-t", "species", *VIEWS, "-C", "1,10", "-o", "model.mkl")
    assert code == 0, err
    assert "chosen by 3-fold validation" in err
    code, out, err = run("predict", "model.mkl", "--data", flowers)
    assert code == 0
    predictions = out.splitlines()
    assert predictions[0] == "prediction"
    assert set(predictions[1:]) == {"setosa", "versicolor", "virginica"}
    assert len(predictions) == 76
    assert "accuracy 9" in err
    code, out, _ = run("info", "model.mkl")
    assert code == 0
    assert "class: StandardScaler, KernelAverageClassifier" in out
    assert "rbf(mean) on petals" in out
    code, out, _ = run("info", "model.mkl", "--json", "--weights", "weights.csv")
    assert json.loads(out)["target"] == "species"
    rows = list(csv.DictReader((tmp_path / "weights.csv").open()))
    assert ("rbf(mean) on petals", "petals") in [(row["kernel"], row["view"]) for row in rows]
    assert [float(row["share"]) for row in rows] == pytest.approx([1.0 / len(rows)] * len(rows))
    for wrong in ([flowers, "--weights", "weights.csv"], ["model.mkl", "--weights", "model.mkl"]):
        code, _, err = run("info", *wrong)
        assert code == 2
        assert "--weights" in err


def test_columns_are_found_by_name_in_any_order_and_scores_written(run, flowers):
    run("fit", "-d", flowers, "-t", "species", "-C", "1", "-o", "model.mkl", "-q")
    rows = [line.split(",") for line in flowers.read_text().splitlines()]
    shuffled = "\n".join(",".join([row[3], row[1], row[0], "0", row[2]]) for row in rows[1:])
    with open("new.csv", "w") as stream:
        stream.write("petal_width,sepal_width,sepal_length,extra,petal_length\n" + shuffled + "\n")
    code, _, err = run("predict", "model.mkl", "-d", "new.csv", "-o", "out.csv", "--scores")
    assert code == 0
    assert "accuracy" not in err
    lines = [line.split(",") for line in Path("out.csv").read_text().splitlines()]
    assert lines[0] == ["prediction", "score_setosa", "score_versicolor", "score_virginica"]
    X = np.array([[float(v) for v in row[:4]] for row in rows[1:]])
    model = load("model.mkl")
    assert [line[0] for line in lines[1:]] == model.predict(X).tolist()
    np.testing.assert_array_equal([[float(v) for v in line[1:]] for line in lines[1:]], model.decision_function(X))


def test_precomputed_kernels_are_fitted_and_predicted(run, kernels):
    assert run("fit", "-d", kernels, "-m", "best", "-C", "1", "-o", "k.mkl")[0] == 0
    code, out, _ = run("predict", "k.mkl", "-d", "new.npz")
    assert code == 0
    assert len(out.splitlines()) == 11
    code, _, err = run("predict", "k.mkl", "-d", "wrong.npz")
    assert code == 1
    assert "there is no file wrong.npz" in err


def test_warnings_are_said_and_kernels_named(run):
    X, y = load_iris(return_X_y=True)
    K = [np.exp(-((X[:, None, j] - X[:, j]) ** 2)) for j in (0, 2)]
    np.savez("kernels.npz", K=1e3 * np.stack(K), y=y, names=["sepals", "petals"])
    code, _, err = run("fit", "-d", "kernels.npz", "-m", "mkl", "-C", "1", "--max-time", "1e-6", "-o", "model.mkl")
    assert code == 0
    assert "\nmultikernel: warning: MKLClassifier did not converge" in err
    code, out, _ = run("info", "model.mkl")
    assert code == 0
    assert "petals" in out.partition("share of each kernel")[2].partition("method")[0]


def test_weights_are_a_table_of_kernels_that_have_one_the_largest_first(run, tmp_path):
    X, y = load_iris(return_X_y=True)
    noise = np.random.default_rng(0).normal(size=(len(X), 6))
    K = [np.exp(-((z[:, None] - z) ** 2)) for z in np.hstack([X, noise]).T]
    np.savez("kernels.npz", K=np.stack(K), y=y, names=[f"k{j}" for j in range(10)])
    assert run("fit", "-d", "kernels.npz", "-m", "mkl", "-C", "1", "-o", "model.mkl")[0] == 0
    _, out, _ = run("info", "model.mkl", "--json", "--weights", "weights.csv")
    facts, rows = json.loads(out), list(csv.DictReader((tmp_path / "weights.csv").open()))
    shares = [float(row["share"]) for row in rows]
    assert shares == sorted(shares, reverse=True) == list(facts["share of each kernel"].values())
    assert 0 < len(rows) < 10
    assert min(shares) > 0.0
    assert facts["kernels without a weight"] == 10 - len(rows)


def test_info_describes_data_and_the_installation(run, flowers):
    code, out, _ = run("info", flowers)
    assert code == 0
    assert "species" in out
    assert "3 values: setosa, versicolor, virginica" in out
    code, out, _ = run("info")
    assert code == 0
    assert "Average kernel SVM" in out
    assert __version__ in out


def test_info_describes_precomputed_kernels_in_numbers(run, tmp_path):
    y = np.array([0, 0, 1, 1])
    signs = 2.0 * y - 1.0
    np.savez(tmp_path / "kernels.npz", good=np.outer(signs, signs), empty=np.eye(4), y=y)
    code, out, _ = run("info", tmp_path / "kernels.npz", "--json")
    facts = json.loads(out)
    assert code == 0
    assert facts["centred alignment"] == pytest.approx({"good": 1.0, "empty": 3**-0.5})
    assert facts["spectral ratio"] == pytest.approx({"good": 0.0, "empty": 1.0})
    assert facts["trace norm"] == pytest.approx({"good": 4.0, "empty": 4.0})


def test_the_version_is_printed(run):
    code, out, _ = run("--version")
    assert (code, out.strip()) == (0, f"multikernel {__version__}")


@pytest.mark.parametrize("command", [[], ["compare"], ["fit"], ["predict"], ["info"]])
def test_every_command_has_help(run, command):
    code, out, _ = run(*command, "--help")
    assert code == 0
    assert "usage: multikernel" in out


# -- progress ------------------------------------------------------------------------------------------------


def lines_until(capsys, *wanted):
    """What is printed to standard error until all that is wanted has come; a minute at most."""
    printed, end = "", time.monotonic() + 60.0
    while not all(text in printed for text in wanted) and time.monotonic() < end:
        time.sleep(0.01)
        printed += capsys.readouterr().err
    return printed


def test_a_thread_says_what_goes_on_until_the_work_is_done(capsys, monkeypatch):
    from multikernel.compiled.jit import compilations

    monkeypatch.setattr("multikernel.cli.progress.FIRST", 0.01)
    logger = logging.getLogger("multikernel.runtime.run")
    monkeypatch.setattr(compilations, "running", 1)
    with ProgressBar(False, "fitting"):
        assert "s  fitting: compiling\n" in lines_until(capsys, "compiling")
        compilations.running = 0
        assert "s  fitting: at work\n" in lines_until(capsys, "at work")
        logger.debug("objective 3")
        assert "s  fitting: objective 3\n" in lines_until(capsys, "objective 3")
    assert (logger.level, logger.handlers) == (logging.NOTSET, [])
    with ProgressBar(True, "fitting"):
        time.sleep(0.05)
    assert capsys.readouterr().err == ""


def test_compiling_is_noticed_while_it_lasts():
    from numba import njit

    from multikernel.compiled.jit import compilations

    seen = []
    original = compilations.on_end

    def noticed(event):
        seen.append(compilations.running)
        original(event)

    compilations.on_end = noticed
    try:
        assert njit(lambda x: x + 1)(1) == 2  # not from the cache
    finally:
        del compilations.on_end
    assert seen == [1]
    assert compilations.running == 0


def test_a_fit_shows_progress_from_the_first_second(run, flowers, monkeypatch):
    monkeypatch.setattr("multikernel.cli.progress.FIRST", 0.01)
    fit = KernelAverageClassifier.fit
    monkeypatch.setattr(KernelAverageClassifier, "fit", lambda *given: time.sleep(0.3) or fit(*given))
    code, _, err = run("fit", "-d", flowers, "-t", "species", "-o", "flowers.mkl", "-C", "1")
    assert code == 0
    assert "s  fitting Average kernel SVM: " in err
    code, _, err = run("fit", "-d", flowers, "-t", "species", "-o", "flowers.mkl", "-C", "1,10")
    assert code == 0
    assert "s  choosing parameters: " in err
    assert "100 %  choosing parameters\n" in err


# -- what goes wrong ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "required"),
        (["compre"], "invalid choice"),
        (["compare", "--methods", "averagee"], "there is no method 'averagee'; did you mean 'average'?"),
        (["compare", "--kernels", "rbff", "--data", "flowers.csv"], "there is no kernel 'rbff'; did you mean 'rbf'?"),
        (["compare", "--cv", "1"], "'1' is not a whole number of at least 2"),
        (["compare", "--cv", "x"], "'x' is not a whole number"),
        (["compare", "--test-size", "2"], "not a share between 0 and 1"),
        (["compare", "-C", "1,-1"], "positive numbers separated by commas"),
        (["compare", "--target", "y"], "--target needs a file: add --data FILE"),
        (
            ["compare", "--data", "flowers.csv", "--view", "petals"],
            "--view: 'petals' should be name=columns",
        ),
        (["compare", "--data", "flowers.csv", "--view", "a=0", "--view", "a=1"], "--view 'a' is given twice"),
        (["fit", "--data", "flowers.csv"], "required: -o/--output"),
        (["fit", "--data", "f.csv", "-o", "m", "--method", "bst"], "no method 'bst'; did you mean 'best'?"),
    ],
    ids=str,
)
def test_wrong_commands_exit_with_2(run, flowers, arguments, message):
    code, out, err = run(*arguments)
    assert code == 2
    assert message in err
    assert out == ""
    assert not os.path.exists("report.html")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["compare", "-d", "flowers.csv", "-o", "flowers.csv"], "--output flowers.csv is also the file of --data"),
        (["compare", "-d", "flowers.csv", "-o", "link.csv"], "--output link.csv is also the file of --data"),
        (
            ["compare", "-d", "flowers.csv", "--json", "./flowers.csv"],
            "--json ./flowers.csv is also the file of --data",
        ),
        (
            ["compare", "-d", "flowers.csv", "--json", "./report.html"],
            "--json ./report.html is also the file of --output",
        ),
        (["fit", "-d", "flowers.csv", "-o", "flowers.csv"], "--output flowers.csv is also the file of --data"),
        (
            ["predict", "model.mkl", "-d", "flowers.csv", "-o", "model.mkl"],
            "--output model.mkl is also the file of MODEL",
        ),
        (
            ["predict", "model.mkl", "-d", "flowers.csv", "-o", "link.csv"],
            "--output link.csv is also the file of --data",
        ),
    ],
    ids=str,
)
def test_a_command_does_not_overwrite_what_it_reads_or_writes(run, flowers, arguments, message):
    os.symlink(flowers, "link.csv")
    Path("model.mkl").write_bytes(b"a model")
    before = {path: path.read_bytes() for path in map(Path, os.listdir("."))}
    target = [] if arguments[0] == "predict" else ["-t", "species", "-C", "1"]
    code, out, err = run(*arguments, *target)
    assert (code, out) == (2, "")
    assert f"multikernel {arguments[0]}: error: {message}" in err
    assert err.startswith(f"usage: multikernel {arguments[0]} ")
    assert {path: path.read_bytes() for path in map(Path, os.listdir("."))} == before


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--data", "flower.csv"], "there is no file flower.csv; did you mean 'flowers.csv'?"),
        (["--data", "flowers.csv", "--target", "speceis"], "did you mean 'species'?"),
        (["--data", "flowers.csv", "--target", "species", "--view", "a=petl_width"], "did you mean 'petal_width'"),
        (["--data", "flowers.csv", "--target", "species", "--cv", "40"], "fewer than the 40 folds"),
        (["--data", "flowers.csv", "--target", "sepal_width"], "looks continuous"),
        (["--data", "nan.csv"], "1 values are missing or not finite, first in column 'a', row 1"),
        (["--data", "one.csv"], "only one class"),
        (["--data", "cut.csv"], "line 3: 1 fields, but the header has 2; the file may be truncated"),
        (["--data", "cut.npz"], "not a complete .npz file"),
        (["--data", "mixed.npz"], "'b' has 5 rows, but 'y' has 6"),
        (["--data", "flowers.csv", "--target", "species", "-o", "no/where.html"], "there is no folder no"),
        (["--data", "flowers.csv", "--target", "species", "-o", "."], "it is a folder"),
        (["--data", "negative.npz"], "positive semi-definite"),
    ],
    ids=str,
)
def test_bad_data_exits_with_1_and_writes_nothing(run, flowers, kernels, arguments, message):
    for name, text in {
        "nan.csv": "a,y\n1,0\n,1\n2,0\n3,1\n",
        "one.csv": "a,y\n1,0\n2,0\n",
        "cut.csv": "a,y\n1,0\n2",
    }.items():
        Path(name).write_text(text)
    Path("cut.npz").write_bytes(kernels.read_bytes()[:1000])
    np.savez("mixed.npz", a=np.ones((6, 2)), b=np.ones((5, 2)), y=np.arange(6) % 2)
    np.savez("negative.npz", K=-np.eye(30)[None].repeat(2, 0), y=np.arange(30) % 2)
    before = set(os.listdir("."))
    code, out, err = run("compare", *arguments)
    assert code == 1
    assert err.startswith("multikernel: error: ") or "\nmultikernel: error: " in err
    assert message in err
    assert out == ""
    assert set(os.listdir(".")) == before


def test_models_that_cannot_be_read_exit_with_1(run, flowers):
    Path("bad.mkl").write_text("nothing")
    for model, message in {"bad.mkl": "not a complete model file", "none.mkl": "no such file"}.items():
        for command in (["predict", model, "-d", flowers], ["info", model]):
            code, out, err = run(*command)
            assert (code, out) == (1, "")
            assert message in err


def test_missing_columns_at_prediction_are_named(run, flowers):
    run("fit", "-d", flowers, "-t", "species", "-C", "1", "-o", "model.mkl", "-q")
    Path("new.csv").write_text("sepal_length,sepal_width,petal_len,petal_width\n1,2,3,4\n")
    code, _, err = run("predict", "model.mkl", "-d", "new.csv", "-o", "out.csv")
    assert code == 1
    assert "lacks 1 of the 4 columns" in err
    assert "'petal_length'; did you mean 'petal_len'" in err
    assert not os.path.exists("out.csv")


def test_when_every_method_fails_the_reasons_are_shown_and_nothing_is_written(run, flowers, monkeypatch):
    from multikernel import KernelAverageClassifier

    def fail(self, *arguments, **options):
        raise RuntimeError("broken on purpose")

    monkeypatch.setattr(KernelAverageClassifier, "fit", fail)
    before = set(os.listdir("."))
    data = ("-d", flowers, "-t", "species", "--methods", "average")
    code, out, err = run("compare", *data, "--json", "all.json", "-q")
    assert code == 1
    assert "RuntimeError: broken on purpose" in out
    assert err == "multikernel: error: no method could be fitted, for the reasons above; no report was written\n"
    assert set(os.listdir(".")) == before


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs a device that is full")
@pytest.mark.parametrize("folder", [False, True])
def test_what_cannot_be_written_is_called_by_its_name(run, flowers, folder, monkeypatch):
    if folder:  # as on a disk that is full: the temporary file is what fails
        monkeypatch.setattr(os, "fsync", lambda descriptor: os.write(os.open("/dev/full", os.O_WRONLY), b"x"))
    target = "model.mkl" if folder else "/dev/full"
    code, _, err = run("fit", "-d", flowers, "-t", "species", "-C", "1", "-o", target, "-q")
    assert code == 1
    assert err == f"multikernel: error: {target}: No space left on device\n"
    assert [name for name in os.listdir(".") if name != "flowers.csv"] == []


def test_unexpected_errors_are_one_line_unless_the_traceback_is_asked_for(run, flowers, monkeypatch):
    def fail(*arguments, **options):
        raise ZeroDivisionError("a mistake of ours")

    monkeypatch.setattr("multikernel.cli.commands.compare", fail)
    code, _, err = run("compare", "-d", flowers, "-t", "species")
    assert code == 1
    assert "multikernel: error: ZeroDivisionError: a mistake of ours" in err
    for command in (["--traceback", "compare"], ["compare", "--traceback"]):
        with pytest.raises(ZeroDivisionError):
            main([*command, "-d", str(flowers), "-t", "species"])


# -- normalisation -------------------------------------------------------------------------------------------


@pytest.fixture
def uneven():
    """Two kernels: a good one, and noise that is a million times as large; and 12 new samples."""
    rng = np.random.default_rng(0)
    y = np.arange(72) % 2
    X, noise = rng.normal(size=(72, 2)) + 3 * y[:, None], 1e3 * rng.normal(size=(72, 20))
    K = np.stack([X @ X.T, noise @ noise.T])
    train, new = slice(0, 60), slice(60, 72)
    np.savez("uneven.npz", K=K[:, train, train], y=y[train])
    np.savez("bare.npz", K=K[:, new, train], y=y[new])
    np.savez("new.npz", K=K[:, new, train], y=y[new], self_similarity=np.diagonal(K, axis1=1, axis2=2)[:, new])
    return K, y


def test_normalised_kernels_are_compared_with_training_statistics_only(run, uneven):
    from multikernel import KernelAverageClassifier
    from multikernel.gram import gram_stack

    options = ("-d", "uneven.npz", "-m", "average", "--cv", "3", "-C", "1", "--no-single", "--json", "all.json")
    scores = {}
    for steps in (None, "cosine", "center,variance"):
        code, _, err = run("compare", *options, *(["--normalize", steps] if steps else []))
        assert code == 0, err
        found = json.loads(Path("all.json").read_text())
        scores[steps] = found["methods"][0]["scores"]
        assert ("remark: " in err) == (steps is None)
        ending = f"kernels normalised with training statistics ({steps.replace(',', ', ')})" if steps else "samples"
        assert found["protocol"].endswith(ending)
        assert not steps or ending in Path("report.html").read_text(encoding="utf-8")
    K, y = uneven
    stack = gram_stack(np.moveaxis(K[:, :60, :60], 0, -1))
    for steps in ("cosine", "center,variance"):
        by_hand = [
            np.mean(
                KernelAverageClassifier("precomputed", normalize=steps.split(","))
                .fit(stack.take(train, train), y[train])
                .predict(stack.take(test, train))
                == y[test]
            )
            for train, test in StratifiedKFold(3, shuffle=True, random_state=0).split(np.zeros(60), y[:60])
        ]
        assert scores[steps] == pytest.approx(by_hand)
    assert np.mean(scores["cosine"]) > np.mean(scores[None]) + 0.1


def test_kernels_of_very_different_size_earn_a_remark_unless_quiet(run, uneven):
    command = ("fit", "-d", "uneven.npz", "-C", "1", "-o", "model.mkl")
    _, _, err = run(*command)
    sizes = np.diagonal(uneven[0], axis1=1, axis2=2)[:, :60].mean(axis=1)
    assert f"remark: kernels differ in size by a factor of {sizes[1] / sizes[0]:.0e}" in err
    assert "for 'K[1]'" in err
    assert "--normalize variance" in err
    assert run(*command, "--quiet")[2] == ""
    assert "remark" not in run(*command, "--normalize", "trace")[2]
    rng = np.random.default_rng(0)
    y = np.arange(60) % 2
    np.savez("features.npz", X=100 * rng.normal(size=(60, 20)) + y[:, None], y=y)
    assert "remark: " in run("fit", "-d", "features.npz", "-C", "1", "-o", "model.mkl")[2]
    near = ("fit", "-d", "features.npz", "-C", "1", "-o", "model.mkl", "--kernels", "rbf,laplacian")
    assert "remark" not in run(*near)[2]


@pytest.mark.parametrize("steps", ["cosine", "center,trace"])
def test_a_model_keeps_its_normalisation(run, uneven, steps):
    code, _, err = run("fit", "-d", "uneven.npz", "-C", "0.1,1", "--normalize", steps, "-o", "model.mkl")
    assert code == 0, err
    model = load("model.mkl")
    assert model.normalize == steps.split(",")
    code, _, err = run("predict", "model.mkl", "-d", "new.npz", "-o", "out.csv")
    assert code == 0, err
    K, _ = uneven
    if steps == "cosine":
        root = np.sqrt(np.diagonal(K, axis1=1, axis2=2))
        K = K / (root[:, :, None] * root[:, None, :])
        plain = model.__class__("precomputed", C=model.C).fit(np.moveaxis(K[:, :60, :60], 0, -1), np.arange(60) % 2)
        expected = plain.predict(np.moveaxis(K[:, 60:, :60], 0, -1))
        assert Path("out.csv").read_text().split()[1:] == list(map(str, expected))


def test_cosine_normalisation_asks_for_the_self_similarity_of_new_samples(run, uneven):
    run("fit", "-d", "uneven.npz", "-C", "1", "--normalize", "cosine", "-o", "model.mkl", "-q")
    code, _, err = run("predict", "model.mkl", "-d", "bare.npz")
    assert code == 1
    assert "Add an array self_similarity of shape (2, 12)" in err
    K, _ = uneven
    np.savez("wrong.npz", K=K[:, 60:, :60], self_similarity=np.ones(3))
    code, _, err = run("predict", "model.mkl", "-d", "wrong.npz")
    assert code == 1
    assert "'self_similarity' has shape (3,), but k(x, x) of 12 samples for 2 kernels has (2, 12)" in err


@pytest.mark.parametrize("command", ["compare", "fit"])
def test_an_unknown_step_of_normalisation_suggests_the_nearest(run, flowers, command):
    code, _, err = run(command, "-d", flowers, "-t", "species", "--normalize", "center,cosin", "-o", "out")
    assert code == 2
    assert "no step of normalisation 'cosin'; did you mean 'cosine'?" in err


# -- as a process of its own ---------------------------------------------------------------------------------


def start(*arguments, **options):
    command = [sys.executable, "-u", "-m", "multikernel", *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options)


@pytest.mark.skipif(os.name == "nt", reason="signals are POSIX")
def test_an_interrupt_exits_with_130_and_keeps_what_is_finished(tmp_path, interruptible):
    """The first split of many is waited for, then the process is interrupted."""
    rng = np.random.default_rng(0)
    np.savez("data.npz", X=rng.normal(size=(120, 5)), y=np.arange(120) % 3)
    process = start("compare", "--data", "data.npz", "--cv", 40, "--methods", "average", "--no-single", "-C", "1")
    lines = []
    while not any(line.startswith(" 20 %") for line in lines):
        line = process.stderr.readline()
        assert line, "".join(lines)
        lines.append(line)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert "multikernel: interrupted; what was finished is in the report" in err
    assert "Traceback" not in err
    assert out.startswith("method")
    assert "Interrupted" in (tmp_path / "report.html").read_text(encoding="utf-8")


@pytest.mark.skipif(os.name == "nt", reason="pipes behave differently there")
def test_a_reader_that_goes_away_is_no_traceback(flowers):
    process = start("info", flowers)
    process.stdout.close()
    process.wait(timeout=60)
    assert "Traceback" not in process.stderr.read()
    process.stderr.close()


def test_help_does_not_load_the_numerical_libraries():
    code = (
        "import sys; from multikernel.cli.parser import build_parser; build_parser(); print('numba' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


@pytest.mark.parametrize("command", [["reproduce", "--list"], ["reproduce", "flower17", "--quick"], ["data"]])
def test_commands_of_a_package_that_is_not_there_say_what_to_install(command, capsys, monkeypatch):
    monkeypatch.setattr(multikernel.cli.parser, "entry_points", lambda group: [])
    assert main(command) == 2
    assert "pip install multikernel-experiments" in capsys.readouterr().err
