"""Files on the command line: joined by IDs, scaled, distances, splits, numbers to predict."""

import json
import os
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_diabetes, load_iris, load_wine
from sklearn.preprocessing import RobustScaler, StandardScaler

from multikernel import KernelAverageClassifier, SVRGMKLClassifier
from multikernel.io.models import load
from multikernel.kernels import RBF


def write_csv(name, header, rows):
    Path(name).write_text("\n".join([",".join(header), *(",".join(map(str, row)) for row in rows)]) + "\n")


ONE = ("-m", "average", "--kernels", "rbf", "-C", "1")
QUICK = (*ONE, "--no-single", "--json", "all.json")


@pytest.fixture
def wine():
    X, y = load_wine(return_X_y=True)
    write_csv("wine.csv", [*(f"c{k}" for k in range(13)), "y"], np.column_stack([X, y]))
    return X, y


# -- scaling -------------------------------------------------------------------------------------------------


def test_columns_of_tables_are_standardised_with_training_statistics(run, wine):
    X, y = wine
    assert run("compare", "-d", "wine.csv", "--cv", 3, *QUICK)[0] == 0
    scaled = json.loads(Path("all.json").read_text())
    assert "columns scaled (standard) with training statistics" in scaled["protocol"]
    np.savez("split.npz", X=X, y=y, train=np.arange(0, 178, 2), test=np.arange(1, 178, 2))
    for scale, scaler in {"standard": StandardScaler(), "robust": RobustScaler()}.items():
        code, _, err = run("compare", "-d", "split.npz", "--split", "train,test", "--scale", scale, *QUICK)
        assert code == 0, err
        train, test = scaler.fit_transform(X[::2]), scaler.transform(X[1::2])
        expected = KernelAverageClassifier([RBF()]).fit(train, y[::2]).score(test, y[1::2])
        assert json.loads(Path("all.json").read_text())["methods"][0]["scores"] == [pytest.approx(expected)]
    _, _, err = run("compare", "-d", "wine.csv", "--cv", 3, *QUICK, "--scale", "none")
    assert "remark: columns of kernel 'rbf(mean) on all' differ in range by a factor of" in err
    assert "'c12' dominates" in err
    raw = json.loads(Path("all.json").read_text())
    # the finding that led here: 77.5 % raw, 98.3 % standardised
    assert np.mean(scaled["methods"][0]["scores"]) > np.mean(raw["methods"][0]["scores"]) + 0.15


def test_a_model_keeps_the_scaling(run, wine):
    X, y = wine
    code, _, err = run("fit", "-d", "wine.csv", *ONE, "-o", "model.mkl")
    assert code == 0, err
    assert "columns scaled (standard)" in err
    assert "warning" not in err
    expected = KernelAverageClassifier([RBF()]).fit(StandardScaler().fit_transform(X), y)
    model = load("model.mkl")
    np.testing.assert_allclose(
        model.decision_function(X), expected.decision_function(StandardScaler().fit_transform(X)), rtol=1e-12
    )
    code, out, _ = run("predict", "model.mkl", "-d", "wine.csv")
    assert [int(line) for line in out.splitlines()[1:]] == model.predict(X).tolist()


@pytest.mark.parametrize(("family", "scaled"), [("chi2", False), ("rbf", True)])
def test_histograms_are_not_standardised(run, family, scaled):
    rng = np.random.default_rng(0)
    y = np.arange(40) % 2
    write_csv("h.csv", ["a", "b", "y"], np.column_stack([rng.poisson(3 + 5 * y), rng.poisson(8 - 5 * y), y]))
    code, _, err = run("compare", "-d", "h.csv", "-m", "average", "--kernels", family, "-C", "1", "--no-single")
    assert code == 0, err
    assert ("columns scaled" in err) == scaled


def test_columns_of_different_units_earn_a_warning_in_python(wine):
    X, y = wine
    with pytest.warns(UserWarning, match=r"columns of kernel 'rbf\(mean\)' differ in range .*: column 12 dominates"):
        KernelAverageClassifier([RBF()]).fit(X, y)


# -- several files -------------------------------------------------------------------------------------------


@pytest.fixture
def patients():
    """Two files about the same samples in another order, one with the labels; IDs with leading zeros."""
    X, y = load_iris(return_X_y=True)
    X, y = X[::3], np.array(["setosa", "versicolor", "virginica"])[y[::3]]
    ids = [f"{k:03d}" for k in range(50)]
    order = np.random.default_rng(0).permutation(50)
    write_csv("sepals.csv", ["id", "length", "width", "kind"], zip(ids, X[:, 0], X[:, 1], y))
    write_csv("petals.csv", ["width", "id", "length"], ((X[k, 3], ids[k], X[k, 2]) for k in order))
    return X, y, ids


def test_files_are_joined_by_id_and_are_views(run, patients):
    X, _, ids = patients
    files = ("-d", "sepals.csv", "-d", "petals.csv", "--id", "id")
    code, _, err = run("fit", *files, "-t", "kind", "-m", "svrg", "-C", "1", "--kernels", "rbf", "-o", "m.mkl")
    assert code == 0, err
    assert "50 samples, 4 features in 2 views, 3 classes, 2 kernels" in err
    model = load("m.mkl")
    assert list(model[-1].kernel_names_) == ["rbf(mean) on sepals", "rbf(mean) on petals"]
    Z = np.column_stack([X[:, :2], X[:, 3], X[:, 2]])
    code, out, err = run("predict", "m.mkl", "-d", "sepals.csv", "-d", "petals.csv", "--scores", "--proba")
    assert code == 0, err
    lines = [line.split(",") for line in out.splitlines()]
    assert lines[0][:2] == ["id", "prediction"]
    assert [line[0] for line in lines[1:]] == ids
    assert [line[1] for line in lines[1:]] == model.predict(Z).tolist()
    values = np.array([line[2:] for line in lines[1:]], dtype=float)
    np.testing.assert_array_equal(values, np.hstack([model.decision_function(Z), model.predict_proba(Z)]))
    assert lines[0][-1] == "probability_virginica"
    assert isinstance(model[-1], SVRGMKLClassifier)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda text: text.replace("007", "700"), "1 IDs are missing in 'petals', '007' for instance"),
        (lambda text: text.replace("007", "008"), "view 'petals' has the same ID in several rows: '008'"),
        (lambda text: text.replace("id", "name"), "petals.csv has no column 'id' with IDs"),
        (lambda text: text.replace("007", ""), "1 rows have no ID in 'id'"),
    ],
)
def test_files_about_other_samples_are_refused(run, patients, change, message):
    Path("petals.csv").write_text(change(Path("petals.csv").read_text()))
    code, _, err = run("compare", "-d", "sepals.csv", "-d", "petals.csv", "--id", "id", "-t", "kind", *ONE)
    assert code == 1
    assert message in err


def test_files_that_lack_samples_are_joined_outer_with_a_mask(run, patients):
    X, y, ids = patients
    write_csv("sepals.csv", ["id", "a", "b", "kind"], zip(ids[:40], X[:, 0], X[:, 1], y))
    write_csv("petals.csv", ["id", "c", "d", "kind"], zip(ids[10:], X[10:, 2], X[10:, 3], y[10:]))
    files = ("-d", "sepals.csv", "-d", "petals.csv", "--id", "id")
    code, _, err = run("fit", *files, "-t", "kind", *ONE, "-o", "m.mkl")
    assert code == 1
    assert "10 IDs are missing in 'sepals', '040' for instance; 10 IDs are missing in 'petals', '000'" in err
    assert "--missing mask" in err
    code, _, err = run("fit", *files, "-t", "kind", *ONE, "--missing", "mask", "-o", "m.mkl")
    assert code == 0, err
    assert "50 samples, 4 features in 2 views (10 without sepals, 10 without petals), 3 classes" in err
    assert "sepals  10" in run("info", "m.mkl")[1]
    holes = X.copy()
    holes[40:, :2] = holes[:10, 2:] = np.nan
    expected = load("m.mkl").predict(holes)
    code, out, err = run("predict", "m.mkl", "-d", "sepals.csv", "-d", "petals.csv")
    assert code == 0, err
    assert out.splitlines()[1:] == [f"{own},{label}" for own, label in zip(ids, expected)]
    assert f"accuracy {100 * np.mean(expected == y):.1f} % " in err  # labels are those of either file
    write_csv("petals.csv", ["id", "c", "d", "kind"], zip(ids[10:], X[10:, 2], X[10:, 3], [""] * 40))
    _, _, err = run("predict", "m.mkl", "-d", "sepals.csv", "-d", "petals.csv")
    assert "of 40 samples)" in err  # those without a label are predicted, not scored
    code, _, err = run("compare", *files, "-t", "kind", *ONE, "--missing", "mask", "-o", "r.html")
    assert code == 1
    assert "missing in 10 of 50 rows" in err


def test_given_kernels_may_lack_samples(run):
    average = ("-m", "average", "-C", "1")
    rng = np.random.default_rng(0)
    y = np.arange(40) % 2
    K = np.stack([Z @ Z.T for Z in rng.normal(size=(2, 40, 3)) + y[:, None]])
    K[1, :8] = K[1, :, :8] = np.nan
    np.savez("kernels.npz", K=K, y=y)
    code, _, err = run("fit", "-d", "kernels.npz", *average, "-o", "m.mkl")
    assert code == 1
    assert "kernel 1 has 576 values that are missing" in err
    code, _, err = run("fit", "-d", "kernels.npz", *average, "--missing", "mask", "-o", "m.mkl")
    assert code == 0, err
    assert "2 precomputed kernels (8 without K[1])" in err
    model = load("m.mkl")
    assert list(model.n_missing_.values()) == [0, 8]
    np.savez("new.npz", K=K, y=y)
    code, out, err = run("predict", "m.mkl", "-d", "new.npz")
    assert code == 0, err
    assert out.splitlines()[1:] == [str(label) for label in model.predict(np.moveaxis(K, 0, -1))]
    code, out, err = run("compare", "-d", "kernels.npz", "--methods", "average", "--missing", "mask", "-o", "r.html")
    assert code == 0, err


def test_several_files_need_an_id_and_other_options_are_given_once(run, patients):
    for arguments, message in {
        ("compare", "-d", "sepals.csv", "-d", "petals.csv", "-t", "kind"): "name the ID column with --id",
        ("compare", "-d", "sepals.csv", "-t", "kind", "-t", "width"): "-t/--target: given twice",
        ("fit", "-d", "sepals.csv", "-o", "a", "-o", "b"): "-o/--output: given twice",
        ("compare", "--colour", "red"): "unrecognized arguments: --colour red",
    }.items():
        code, _, err = run(*arguments)
        assert code == 2
        assert message in err
        assert err.startswith(f"usage: multikernel {arguments[0]} ")


def test_predictions_need_as_many_files_and_carry_ids_where_there_are_some(run, patients):
    run("fit", "-d", "sepals.csv", "--id", "id", "-t", "kind", *ONE, "-o", "one.mkl")
    assert run("predict", "one.mkl", "-d", "sepals.csv")[1].startswith("id,prediction\n000,")
    write_csv("bare.csv", ["length", "width"], [[5.0, 3.0]])
    assert run("predict", "one.mkl", "-d", "bare.csv")[1].startswith("prediction\n")
    code, _, err = run("predict", "one.mkl", "-d", "sepals.csv", "-d", "petals.csv")
    assert code == 1
    assert "fitted on one file, but --data gives 2" in err
    code, _, err = run("predict", "one.mkl", "-d", "bare.csv", "--id", "who")
    assert code == 1
    assert "bare.csv has no column 'who' with IDs" in err
    code, _, err = run("predict", "one.mkl", "-d", "bare.csv", "--proba")
    assert code == 1
    assert "has no predict_proba: fit with --proba" in err
    run("fit", "-d", "sepals.csv", "--id", "id", "-t", "kind", *ONE, "--proba", "-o", "one.mkl")
    lines = run("predict", "one.mkl", "-d", "bare.csv", "--proba")[1].splitlines()
    assert lines[0] == "prediction,probability_setosa,probability_versicolor,probability_virginica"
    assert sum(map(float, lines[1].split(",")[1:])) == pytest.approx(1.0)


def test_columns_that_two_files_share_are_one_or_named_by_their_file(run, patients):
    X, y, ids = patients
    write_csv("a.csv", ["id", "size", "kind"], zip(ids, X[:, 0], y))
    write_csv("b.csv", ["id", "size", "kind"], zip(ids, X[:, 2], y))  # the same labels, another size
    code, _, err = run("fit", "-d", "a.csv", "-d", "b.csv", "--id", "id", "-t", "kind", *ONE, "-o", "m.mkl")
    assert code == 0, err
    assert "columns: a.size, b.size" in run("info", "m.mkl")[1]
    os.rename("b.csv", "new.csv")
    code, out, _ = run("predict", "m.mkl", "-d", "a.csv", "-d", "new.csv")
    assert code == 0
    assert [line.split(",")[1] for line in out.splitlines()[1:]] == load("m.mkl").predict(X[:, [0, 2]]).tolist()


# -- matrices and splits -------------------------------------------------------------------------------------


@pytest.fixture
def distances():
    X, y = load_iris(return_X_y=True)
    X, y = X[::2], y[::2]
    D = np.stack([np.abs(X[:, None] - X).sum(axis=-1), ((X[:, None] - X) ** 2).sum(axis=-1)])
    rows = np.random.default_rng(0).permutation(75)
    np.savez("d.npz", D=D, y=y, train=np.stack([rows[:50], rows[25:]]), test=np.stack([rows[50:], rows[:25]]))
    return D, y, rows


def test_distances_become_kernels_of_their_training_mean(run, distances):
    D, y, rows = distances
    code, _, err = run("compare", "-d", "d.npz", "--split", "train,test")
    assert code == 1
    assert "the diagonal of 'D[0]' is zero" in err
    assert "add --distances to use the kernels exp(-D / mean D)" in err
    options = ("-d", "d.npz", "--distances", "-m", "average", "-C", "1")
    code, _, err = run("compare", *options, "--split", "train,test", "--no-single", "--json", "all.json")
    assert code == 0, err
    expected = []
    for train, test in ((rows[:50], rows[50:]), (rows[25:], rows[:25])):
        means = D[np.ix_([0, 1], train, train)].mean(axis=(1, 2))[:, None, None]
        K = np.moveaxis(np.exp(-D / means), 0, -1)
        model = KernelAverageClassifier("precomputed").fit(K[np.ix_(train, train)], y[train])
        expected.append(model.score(K[np.ix_(test, train)], y[test]))
    found = json.loads(Path("all.json").read_text())
    assert found["methods"][0]["scores"] == pytest.approx(expected)
    assert found["protocol"].startswith("2 given splits (50 training and 25 test samples)")
    assert run("fit", *options, "-o", "d.mkl")[0] == 0
    np.savez("new.npz", D=D[:, :10])
    code, out, _ = run("predict", "d.mkl", "-d", "new.npz")
    K = np.moveaxis(np.exp(-D / D.mean(axis=(1, 2))[:, None, None]), 0, -1)
    assert [int(line) for line in out.split()[1:]] == (
        KernelAverageClassifier("precomputed").fit(K, y).predict(K[:10]).tolist()
    )


def test_splits_may_be_masks_and_may_count_from_one(run, distances):
    D, y, rows = distances
    mask = np.isin(np.arange(75), rows[:50])
    scores = []
    for train, test in ((rows[:50], rows[50:]), (rows[:50] + 1, rows[50:] + 1), (mask, ~mask)):
        np.savez("s.npz", D=D, y=y, train=train, test=test)
        options = ("--distances", "--split", "train,test", "-m", "average", "-C", "1", "--no-single")
        assert run("compare", "-d", "s.npz", *options, "--json", "all.json")[0] == 0
        scores.append(json.loads(Path("all.json").read_text())["methods"][0]["scores"])
    assert scores[0] == scores[1] == scores[2]


@pytest.mark.parametrize(
    ("arguments", "message", "code"),
    [
        (["--split", "train"], "is not the names of two arrays", 2),
        (["--split", "train,tset"], "no array 'tset' of rows for a split; did you mean 'test'?", 1),
        (["--split", "train,y"], "'train' has 2 splits, 'y' has 1", 1),
        (["--split", "train,test", "--cv", "3"], "not allowed with argument", 2),
        (["--distances", "--kernels", "rbf"], "--kernels applies to feature columns", 2),
        (["--distances", "--memory", "much"], "--memory", 2),
        (["--max-time", "-1"], "positive number of seconds", 2),
        (["--scoring", "acuracy"], "invalid choice", 2),
    ],
    ids=str,
)
def test_options_that_make_no_sense_say_so(run, distances, arguments, message, code):
    found, _, err = run("compare", "-d", "d.npz", *arguments)
    assert (found, message in err) == (code, True), err


def test_indefinite_kernels_are_clipped_when_asked(run):
    rng = np.random.default_rng(0)
    y = np.arange(40) % 2
    X = rng.normal(size=(40, 3)) + 2 * y[:, None]
    K = np.tanh(X @ X.T - 2.0)
    np.savez("k.npz", K=K[None], y=y)
    options = ("-d", "k.npz", "-m", "average", "-C", "1")
    code, _, err = run("compare", *options, "--no-single")
    assert code == 1
    assert "positive semi-definite" in err
    assert "--psd clip" in err
    assert run("compare", *options, "--no-single", "--psd", "clip", "--json", "all.json")[0] == 0
    assert run("fit", *options, "--psd", "clip", "-o", "k.mkl")[0] == 0
    expected = KernelAverageClassifier("precomputed", psd="clip").fit(K[:, :, None], y)
    np.testing.assert_allclose(
        load("k.mkl").decision_function(K[:, :, None]), expected.decision_function(K[:, :, None])
    )


# -- numbers and rare classes --------------------------------------------------------------------------------


def test_numbers_are_predicted(run):
    X, y = load_diabetes(return_X_y=True)
    X, y = X[:150], y[:150] + 0.5
    write_csv("d.csv", [*(f"c{k}" for k in range(10)), "y"], np.column_stack([X, y]))
    code, _, err = run("compare", "-d", "d.csv", *ONE)
    assert code == 1
    assert "use classes, or `fit --regression`" in err
    code, _, err = run("fit", "-d", "d.csv", "--regression", "--kernels", "rbf", "-C", "1,10", "-o", "r.mkl")
    assert code == 0, err
    assert "chosen by 3-fold validation (R² 0." in err
    code, out, err = run("predict", "r.mkl", "-d", "d.csv")
    assert code == 0
    np.testing.assert_array_equal([float(line) for line in out.split()[1:]], load("r.mkl").predict(X))
    assert "R² 0." in err
    assert "root mean square error" in err
    assert "SVRGMKLRegressor" in run("info", "r.mkl")[1]
    for option in ("--scores", "--proba"):
        assert "it predicts numbers" in run("predict", "r.mkl", "-d", "d.csv", option)[2]
    code, _, err = run("fit", "-d", "d.csv", "--regression", "-m", "mkl-p2", "-C", "100", "-o", "r.mkl")
    assert code == 0, err
    assert "MKLRegressor" in run("info", "r.mkl")[1]
    code, _, err = run("fit", "-d", "d.csv", "--regression", "-m", "easymkl", "-o", "r.mkl")
    assert code == 2
    assert "with --regression it is one of svrg, mkl, mkl-p2" in err


def test_rare_classes_can_be_weighed_and_scored_alike(run):
    rng = np.random.default_rng(0)
    y = np.where(np.arange(120) % 8 == 0, "ill", "well")
    X = rng.normal(size=(120, 2)) + 1.2 * (y == "ill")[:, None]
    np.savez("d.npz", X=X, y=y)
    code, out, err = run("compare", "-d", "d.npz", "--cv", 3, *QUICK)
    assert code == 0
    assert "remark: classes are unbalanced: 105 of 120 samples belong to class 'well', 15 to 'ill'" in err
    assert "classes are unbalanced" in Path("report.html").read_text(encoding="utf-8").lower()
    assert out.splitlines()[1].startswith("Most frequent class  87.5 ±")
    plain = json.loads(Path("all.json").read_text())["methods"][0]["metrics"]["balanced_accuracy"]
    weights = ("--class-weight", "balanced", "--scoring", "balanced_accuracy")
    code, out, err = run("compare", "-d", "d.npz", "--cv", 3, *QUICK, *weights)
    assert code == 0
    assert "remark" not in err
    assert out.splitlines()[0].split()[1:3] == ["balanced", "accuracy"]
    balanced = json.loads(Path("all.json").read_text())["methods"][0]["scores"]
    assert np.mean(balanced) > np.mean(plain) + 0.1
    assert run("fit", "-d", "d.npz", *ONE[:4], "-C", "1,10", *weights, "-o", "m.mkl")[0] == 0
    assert load("m.mkl").class_weight == "balanced"


# -- found by fuzzing ----------------------------------------------------------------------------------------


def test_what_fuzzing_found_is_said_in_words(run, tmp_path):
    y = np.arange(20) % 2
    np.savez("empty.npz", X=np.zeros((0, 4)), y=np.zeros(0))
    np.savez("records.npz", X=np.zeros(20, dtype=[("a", "f8"), ("b", "i4")]), y=y)
    np.savez("target.npz", X=np.zeros((20, 2)), y=np.zeros(20, dtype=[("a", "f8")]))
    os.symlink("loop.csv", "pool.csv")
    os.symlink("pool.csv", "loop.csv")
    write_csv("long.csv", ["a", "note", "y"], [[k, "x" * (200_000 if k == 7 else 3), k % 2] for k in range(20)])
    for arguments, message in {
        ("compare", "-d", "empty.npz"): "the target 'y' has no entries",
        ("compare", "-d", "records.npz"): "no array of 20 rows",
        ("compare", "-d", "target.npz"): "the target 'y' holds [('a', '<f8')], neither numbers nor text",
        ("compare", "-d", "loop.csv"): "loop.csv is a broken link to pool.csv",
        ("compare", "-d", "long.csv", "-o", "loop.csv"): "cannot write loop.csv: it is a link that points back",
        ("compare", "-d", "long.csv"): "column 'note' is not numeric",
    }.items():
        code, _, err = run(*arguments)
        assert (code, message in err) == (1, True), err
    assert run("compare", "-d", "long.csv", "--drop", "note", *QUICK)[0] == 0
    assert "[('a', '<f8'), ('b', '<i4')] (20,)" in run("info", "records.npz")[1]
    assert "float64 (0, 4)" in run("info", "empty.npz")[1]
    for arguments, message in {
        ("compare", "-m", ""): "there is no method ''",
        (
            "fit",
            "-d",
            "long.csv",
            "-m",
            "average,best",
            "-o",
            "m",
        ): "fit takes one method; use compare to run several",
    }.items():
        code, _, err = run(*arguments)
        assert (code, message in err) == (2, True), err


def test_quiet_is_quiet_about_numpy(run, monkeypatch):
    original = KernelAverageClassifier.fit

    def noisy(self, *arguments, **options):
        np.array([1e308]) * 10
        return original(self, *arguments, **options)

    monkeypatch.setattr(KernelAverageClassifier, "fit", noisy)
    np.savez("d.npz", X=np.random.default_rng(0).normal(size=(20, 2)), y=np.arange(20) % 2)
    assert "overflow" in run("fit", "-d", "d.npz", *ONE, "-o", "m.mkl")[2]
    code, _, err = run("fit", "-d", "d.npz", *ONE, "-o", "m.mkl", "-q")
    assert (code, err) == (0, "")


def test_no_report_is_written_when_every_method_failed(run, monkeypatch):
    monkeypatch.setattr(KernelAverageClassifier, "fit", lambda *arguments, **options: 1 / 0)
    np.savez("d.npz", X=np.zeros((20, 2)), y=np.arange(20) % 2)
    code, _, err = run("compare", "-d", "d.npz", *QUICK)
    assert code == 1
    assert "no method could be fitted" in err
    assert sorted(os.listdir(".")) == ["d.npz"]


def test_messages_name_the_file_and_not_its_temporary_twin(run, monkeypatch):
    def full(*arguments):
        names = [name for name in arguments[:1] if isinstance(name, str)]  # fsync has a number
        raise OSError(28, "No space left on device", *names)

    np.savez("d.npz", X=np.random.default_rng(0).normal(size=(20, 2)), y=np.arange(20) % 2)
    for function in ("fsync", "replace"):
        with monkeypatch.context() as patch:
            patch.setattr(os, function, full)
            code, _, err = run("fit", "-d", "d.npz", *ONE, "-o", "m.mkl", "-q")
        assert code == 1
        assert err == "multikernel: error: m.mkl: No space left on device\n"
        assert ".part" not in err


def test_samples_may_lack_whole_views(run):
    X, y = load_wine(return_X_y=True)
    rows = [[*map(str, row), str(label)] for row, label in zip(X, y)]
    for k in range(0, len(rows), 3):
        rows[k][:4] = [""] * 4
    write_csv("wine.csv", [*(f"c{k}" for k in range(13)), "y"], rows)
    views = ("--view", "a=c0,c1,c2,c3", "--view", "b=c4:c12")
    code, _, err = run("compare", "-d", "wine.csv", *views, *QUICK)
    assert code == 1
    assert "240 values are missing" in err
    assert "--missing mask" in err
    assert run("compare", "-d", "wine.csv", "--cv", 3, *views, *QUICK, "--missing", "mask")[0] == 0
    found = json.loads(Path("all.json").read_text())
    assert "missing views masked" in found["protocol"]
    assert run("fit", "-d", "wine.csv", *views, *ONE, "--missing", "mask", "-o", "w.mkl")[0] == 0
    code, out, _ = run("predict", "w.mkl", "-d", "wine.csv")
    assert code == 0
    holes = X.copy()
    holes[::3, :4] = np.nan
    kernels = [RBF(columns=slice(0, 4), bandwidth="mean"), RBF(columns=slice(4, 13), bandwidth="mean")]
    model = KernelAverageClassifier(kernels, missing="mask").fit(StandardScaler().fit_transform(holes), y)
    expected = model.predict(StandardScaler().fit_transform(holes))
    assert out.split()[1:] == [str(float(label)) if "." in out else str(label) for label in expected]
