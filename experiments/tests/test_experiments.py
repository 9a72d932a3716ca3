"""The runner of experiments, on simulated archives in the layout of the real ones."""

from __future__ import annotations

import csv
import importlib
import io
import json
import math
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from multikernel_experiments import Entry, Protocol, Task, Verdict, all_protocols, protocols, reproduce
from multikernel_experiments.archives import Archives, from_distances, from_features, joined, unfold
from multikernel_experiments.findings.drawing import Picture, pictures
from multikernel_experiments.findings.lines import against_time, excesses, race, values
from multikernel_experiments.findings.score_figures import gains_over_baseline
from multikernel_experiments.findings.verdicts import HERE, Claim
from multikernel_experiments.fitting import average_precision, run_entry
from multikernel_experiments.papers import papers
from multikernel_experiments.protocol import OWN, along
from multikernel_experiments.protocols import flower17, obscure_time, which_p
from multikernel_experiments.results import Results
from multikernel_experiments.standins import MAKERS
from multikernel_experiments.tables import csv_table, score_text, tables

from multikernel.cli import main
from multikernel.compare.tuning import accuracy
from multikernel.io.files import DataError
from multikernel.kernels import RBF

N_CLASSES, PER_CLASS = 3, 24
PROTOCOL_FILES = sorted(Path(protocols.__path__[0]).glob("[a-z]*.py"))


@pytest.fixture(scope="module")
def flowers(tmp_path_factory):
    """A folder with a small archive in the layout of flower17_dist.npz: 7 distances, 3 given splits."""
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(N_CLASSES), PER_CLASS)
    rows, columns = np.triu_indices(len(y), 1)
    upper = []
    for k in range(7):
        X = rng.standard_normal((len(y), 4)) + (1.5 if k < 4 else 0.0) * np.eye(N_CLASSES, 4)[y]
        upper.append(((X[rows] - X[columns]) ** 2).sum(axis=1))
    parts = {}
    for split in range(3):
        shuffled = [rng.permutation(np.flatnonzero(y == label)) for label in range(N_CLASSES)]
        for part, piece in (("trn", slice(0, 12)), ("val", slice(12, 18)), ("tst", slice(18, 24))):
            parts[f"{part}{split + 1}"] = np.concatenate([s[piece] for s in shuffled]).astype(np.int16)
    folder = tmp_path_factory.mktemp("data")
    names = np.array([f"view {k}" for k in range(7)])
    np.savez(folder / "flower17_dist.npz", D_triu=np.array(upper, np.float32), names=names, y=y, **parts)
    return folder


@pytest.fixture
def small():
    """Flower17's protocol with three cheap entries and a line against time."""
    chosen = [entry for entry in flower17.ENTRIES if entry.key in ("average", "mkl", "mkfda")]
    entries = [entry.thinned() for entry in chosen]
    entries += along(Entry("silp", "mkl", "SILP", {"solver": "silp"}), (1, 50))
    figures = (*flower17.PROTOCOL.figures, Picture("against_time", against_time, problems={"p = 1": ["silp"]}))
    return replace(flower17.PROTOCOL, entries=entries, figures=figures, n_splits=2, claims=())


def test_a_run_writes_tables_figures_and_a_page(flowers, small, tmp_path):
    results = reproduce(small, tmp_path / "out", data=flowers)
    assert not results.interrupted
    written = {path.name for path in (tmp_path / "out").iterdir()}
    figures = {f"{name}.{kind}" for name in ("score_intervals", "against_time") for kind in ("png", "svg")}
    assert written == {"cells", "results.json", "table.csv", "table.md", "page.html", *figures}
    assert len(list((tmp_path / "out" / "cells").iterdir())) == 2 * (3 + 2)
    page = (tmp_path / "out" / "page.html").read_text()
    assert "84.9 ± 1.9" in page
    assert page.count("<img") == 2
    assert "SILP" not in (tmp_path / "out" / "table.md").read_text()  # points of lines are in figures only
    assert "<script" not in page
    assert 'src="http' not in page


def test_the_table_repeats_what_the_public_estimators_give(flowers, small, tmp_path):
    from multikernel import KernelAverageClassifier

    results = reproduce(small, tmp_path, data=flowers)
    task = small.task(Archives(flowers), "all", 1, False)
    record = results.cells["all", 1, "average"]
    model = KernelAverageClassifier("precomputed", **record["parameters"][0]).fit(task.training, task.y_train)
    assert record["scores"] == [model.score(task.testing, task.y_test)]
    rows = list(csv.DictReader(io.StringIO(csv_table(results))))
    assert len(rows) == 2 * (3 + 2)
    row = next(row for row in rows if (row["entry"], row["split"]) == ("average", "2"))
    assert float(row["score"]) == pytest.approx(record["scores"][0], abs=1e-6)
    expected = np.mean([results.cells["all", split, "average"]["scores"][0] for split in range(2)])
    assert results.score("average") == pytest.approx(expected)
    (_, (heads, shown)), *_ = tables(results)
    assert shown[0][heads.index("here")].startswith(f"{100 * expected:.1f}")


def test_an_interrupted_run_keeps_finished_cells_and_goes_on(flowers, small, tmp_path, monkeypatch):
    from multikernel_experiments import work

    calls = []

    def interrupted(protocol, entry, task, step):
        calls.append(entry.key)
        if len(calls) == 5:
            raise KeyboardInterrupt
        return run_entry(protocol, entry, task, step)

    monkeypatch.setattr(work, "run_entry", interrupted)
    first = reproduce(small, tmp_path, data=flowers)
    assert first.interrupted
    assert len(first.cells) == 4
    assert "Interrupted" in (tmp_path / "page.html").read_text()
    lines = []
    second = reproduce(small, tmp_path, data=flowers, say=lambda step: lines.append(str(step)))
    assert not second.interrupted
    assert len(calls) == 5 + 6  # the four that were finished were not fitted again
    assert lines[0].endswith("4 cells were finished before")
    assert " s left" in lines[0]  # known from the times of those cells
    for place, record in first.cells.items():
        assert second.cells[place]["scores"] == record["scores"]


def test_a_damaged_cell_is_fitted_again_and_fresh_fits_all(flowers, small, tmp_path):
    protocol = replace(small, entries=small.entries[:1])
    reproduce(protocol, tmp_path, data=flowers)
    cells = sorted((tmp_path / "cells").iterdir())
    cells[0].write_text("{ not json")
    steps = []
    reproduce(protocol, tmp_path, data=flowers, say=steps.append)
    assert steps[0].text == "1 cells were finished before"
    assert json.loads(cells[0].read_text())["scores"]
    steps.clear()
    reproduce(protocol, tmp_path, data=flowers, say=steps.append, fresh=True)
    assert [step.done for step in steps] == [1, 2]
    assert not any("finished before" in step.text for step in steps)


def test_cells_depend_on_the_grid_and_the_data(flowers, small, tmp_path):
    protocol = replace(small, entries=small.entries[:1], n_splits=1)
    reproduce(protocol, tmp_path, data=flowers)
    other = replace(protocol, entries=[replace(protocol.entries[0], grid={"C": [5.0]})])
    results = reproduce(other, tmp_path, data=flowers)
    assert results.cells["all", 0, "average"]["parameters"] == [{"C": 5.0}]


def test_a_method_that_fails_is_shown_and_not_kept(flowers, small, tmp_path):
    wrong = Entry("wrong", "mkl", "wrong", {"p": 0.5}, {"C": [1.0]})
    protocol = replace(small, entries=[small.entries[0], wrong], n_splits=1)
    results = reproduce(protocol, tmp_path, data=flowers)
    assert results.cells["all", 0, "wrong"]["error"]
    assert len(list((tmp_path / "cells").iterdir())) == 1
    assert "failed" in (tmp_path / "table.md").read_text()


def test_parameters_are_chosen_without_test_samples(flowers, small):
    entry = next(entry for entry in small.entries if entry.key == "mkfda")
    task = small.task(Archives(flowers), "all", 0, False)
    honest = run_entry(small, entry, task, lambda: None)
    spoilt = Task(task.training, task.testing, task.y_train, task.y_test[::-1].copy(), task.folds)
    assert run_entry(small, entry, spoilt, lambda: None)["parameters"] == honest["parameters"]


def test_kernels_are_scaled_by_training_distances(flowers):
    archive = Archives(flowers).load("flower17_dist.npz")
    D = unfold(archive["D_triu"], len(archive["y"]))
    train, test = archive["trn1"].astype(int), archive["tst1"].astype(int)
    training, testing = from_distances(D, list(archive["names"]), train, test)
    scale = D[2][np.ix_(train, train)].mean()
    np.testing.assert_allclose(training.to_array()[2], np.exp(-D[2][np.ix_(train, train)] / scale), rtol=1e-5)
    np.testing.assert_allclose(testing.to_array()[2], np.exp(-D[2][np.ix_(test, train)] / scale), rtol=1e-5)
    assert training.dtype == np.float32


def test_features_are_standardised_by_training_samples_only():
    rng = np.random.default_rng(0)
    X, columns = joined({"a": rng.random((30, 2, 3)), "b": rng.random((30, 4))}, ["a", "b"])
    kernels = [RBF(columns=place, name=name) for name, place in columns.items()]
    train, test = np.arange(20), np.arange(20, 30)
    first, _ = from_features(X, kernels, train, test)
    spoilt = X.copy()
    spoilt[20:] *= 100.0
    second, _ = from_features(spoilt, kernels, train, test)
    np.testing.assert_array_equal(first.to_array(), second.to_array())
    assert list(first.names) == ["a", "b"]


def test_average_precision_ranks_the_larger_label_first():
    class Model:
        classes_ = np.array([-1, 1])

        def decision_function(self, scores):
            return scores

    y = np.array([1, -1, 1, -1])
    assert average_precision(Model(), np.array([4.0, 1.0, 3.0, 2.0]), y) == 1.0
    assert average_precision(Model(), np.array([4.0, 3.0, 2.0, 1.0]), y) == pytest.approx((1 + 2 / 3) / 2)


def test_every_protocol_names_registered_methods_and_thins_its_grids():
    for name, protocol in all_protocols().items():
        assert protocol.name == name
        quick = protocol.quickened()
        assert set(quick.settings) <= set(protocol.settings)
        for entry in quick.entries:
            assert issubclass(entry.registered().estimator, object)
            assert all(len(values) > 0 for values in entry.grid.values())


@pytest.mark.parametrize("path", PROTOCOL_FILES, ids=lambda path: path.stem)
def test_a_protocol_file_is_short_and_declares_data_methods_splits_and_metric(path):
    text = path.read_text(encoding="utf-8")
    assert text.count("\n") < 140
    assert not {"HOLDS", "FAILS", "set_xlabel", "add_subplot"} & set(re.findall(r"\w+", text))  # findings do that
    protocol = importlib.import_module(f"{protocols.__name__}.{path.stem}").PROTOCOL
    assert protocol.name == path.stem.replace("_", "-")
    assert all(
        (protocol.title, protocol.about, protocol.source, protocol.entries, protocol.settings, protocol.metric)
    )
    assert protocol.n_splits >= protocol.quick_splits >= 1
    assert set(protocol.files) <= set(MAKERS)
    drawn = pictures(protocol)
    assert len({picture.name for picture in drawn}) == len(drawn) > 0
    assert all(picture.caption for picture in drawn)
    assert protocol.verdicts(Results(protocol)) == []  # nothing is said of nothing


def test_one_split_gives_figures_and_no_verdict():
    scores = {**dict.fromkeys((*flower17.TABLE_3, "obscure"), 0.81), "average": 0.80, "mkfda": 0.95, "best": 0.5}
    verdicts = {}
    for n_splits in (1, 3):
        results = Results(replace(flower17.PROTOCOL, n_splits=n_splits))
        (setting,) = results.protocol.settings
        for split in range(n_splits):
            for key, score in scores.items():
                results.cells[setting, split, key] = {"scores": [score + 0.01 * split], "n_test": 340}
        verdicts[n_splits] = results.protocol.verdicts(results)
        assert ("±" in score_text(results, "mkfda", setting)) == (n_splits > 1)
    assert [v.verdict for v in verdicts[1]] == ["undecidable here"] * 2
    assert all(v.evidence.startswith("one split; ") for v in verdicts[1])
    assert all("over splits" not in v.evidence for v in verdicts[1])
    assert "MK-FDA 95.0" in verdicts[1][0].evidence
    assert verdicts[3][0].verdict == "holds"
    assert "± 1.0 over splits" in verdicts[3][1].evidence


def racing(ours, theirs):
    """Two lines of OBSCURE's problem with objectives by point, an optimum of 1 that is proved, a second an epoch."""
    results = Results(obscure_time.PROTOCOL)
    for setting in results.protocol.settings:
        for split in range(results.protocol.n_splits):
            for entry in results.protocol.entries:
                k = [e.key for e in results.protocol.entries if e.line == entry.line].index(entry.key)
                far = {"printed": ours, "pegasos": theirs}.get(entry.line, [0.0] * 6)[k]
                seconds = float(entry.params.get("max_iter", 1)) + split
                results.cells[setting, split, entry.key] = {
                    "scores": [0.8], "objectives": [1.0 + far], "gaps": [far / (1.0 + far)], "fit_seconds": [seconds],
                }  # fmt: skip
    return results


@pytest.mark.parametrize(
    ("ours", "theirs", "verdict"),
    [
        ([1.0, 0.2, 0.1, 0.05, 0.04, 0.03], [1.0, 0.9, 0.8, 0.6, 0.4, 0.1], "holds"),
        ([99.0, 50.0, 9.0, 7.0, 6.0, 5.0], [9e3, 8e3, 7e3, 6e3, 5e3, 4e3], "holds"),  # both far from the optimum
        ([1.0, 0.9, 0.8, 0.6, 0.4, 0.1], [1.0, 0.9, 0.8, 0.6, 0.4, 0.11], "does not hold here"),
        ([1.0, 0.9, 0.8, 0.6, 0.4, 0.2], [1.0, 0.2, 0.15, 0.1, 0.1, 0.1], "does not hold here"),
    ],
)
def test_a_race_is_won_by_a_margin_in_epochs_and_in_time(ours, theirs, verdict):
    results = racing(ours, theirs)
    found, text = race(results, "printed", "pegasos", obscure_time.GROUP)
    assert found == verdict
    assert "won if 2 times as fast, in epochs and in time" in text
    assert excesses(results, "printed", obscure_time.GROUP, "C = 10") == pytest.approx(ours)
    assert values(results, "printed", "fit_seconds", "C = 10")[0] == 2.0  # the mean over splits


def test_claims_of_our_own_cite_no_paper_and_others_do():
    with pytest.raises(ValueError, match="our own claims cite"):
        Claim("We are fast", "OJC10, Figure 1", race, by="us", about=OWN)
    with pytest.raises(ValueError, match="others a paper"):
        Claim("They are fast", HERE, race, by="them")
    for protocol in all_protocols().values():
        for claim in protocol.claims:
            assert claim.by, claim.text
            assert (claim.source == HERE) == (claim.about == OWN)


def test_every_item_of_a_paper_is_answered_and_every_citation_names_an_item():
    items = {f"{paper.key}, {item.name}": item for paper in papers() for item in paper.items}
    keys = tuple(f"{paper.key}," for paper in papers())
    cited = {claim.source for protocol in all_protocols().values() for claim in protocol.claims}
    cited |= {of for protocol in all_protocols().values() for picture in pictures(protocol) for of in picture.of}
    assert {source for source in cited if source.startswith(keys)} <= set(items)
    for source, item in items.items():
        assert source in cited or item.remark, f"{source} has no experiment and no word about why"


def test_an_entry_has_parameters_by_setting_and_a_seed_for_each_split():
    entry = Entry("x", "obscure", "x", {"C": 1.0, "random_state": 3}, at={"large": {"C": 1000.0}})
    assert entry.placed("large", 2).params == {"C": 1000.0, "random_state": 5}
    assert entry.placed("small", 0).params == entry.params


def test_verdicts_follow_from_the_figures():
    protocol = replace(which_p.PROTOCOL, settings=["data"], n_splits=3)
    results = Results(protocol)

    def fill(scores):
        for split in range(3):
            for key, score in scores.items():
                results.cells["data", split, key] = {"scores": [score + 0.01 * split], "n_test": 100}

    fill({"average": 0.7, "1": 0.8, "1.25": 0.75, "2": 0.7, "4": 0.7, "∞": 0.7})
    sparse, dense = which_p.PROTOCOL.verdicts(results)
    assert sparse.verdict == "holds"
    assert dense.verdict == "does not hold here"
    fill({"average": 0.8, "1": 0.75, "1.25": 0.75, "2": 0.85, "4": 0.8, "∞": 0.8})
    sparse, dense = which_p.PROTOCOL.verdicts(results)
    assert sparse.verdict == "does not hold here"
    assert dense.verdict == "holds"
    mean, deviation, count = results.difference("2", "1")
    assert (round(mean, 6), round(deviation, 6), count) == (0.1, 0.0, 3)


def test_settings_in_rows_get_means_and_published_figures(tmp_path, flowers):
    def task(archives, setting, split, quick):
        given = flower17.task(archives, "all", split, quick)
        return Task(given.training.take(kernels=[int(setting)]), given.testing.take(kernels=[int(setting)]),
                    given.y_train, given.y_test, [])  # fmt: skip

    protocol = Protocol(
        name="by-kernel",
        title="Kernel by kernel",
        about="One kernel at a time.",
        source="none",
        files=("flower17_dist.npz",),
        entries=[Entry("average", "average", "average", {"C": 1.0}), Entry("mkl", "mkl", "MKL", {"C": 1.0})],
        task=task,
        settings=("0", "5"),
        n_splits=2,
        mean_row="mean",
        published_row={"mkl": "50.0"},
        figures=(gains_over_baseline,),
        claims=[lambda results: [Verdict("a | b", "nobody", "holds", "so")]],
    )
    results = reproduce(protocol, tmp_path, data=flowers)
    _, (heads, rows) = tables(results)[0]
    assert heads == ["data", "average", "MKL"]
    assert [row[0] for row in rows] == ["0", "5", "mean", "published"]
    means = [results.score("average", setting) for setting in ("0", "5")]
    assert rows[2][1] == f"{50 * sum(means):.1f}"
    assert results.protocol.score is accuracy
    assert math.isfinite(results.spread("average", "0"))
    claims = (
        "| verdict | claim | judged | figures | source |\n|---|---|---|---|---|\n| holds | a \\| b |  | so | nobody |"
    )
    assert claims in (tmp_path / "table.md").read_text()


def test_the_command_lists_and_runs(flowers, small, tmp_path, monkeypatch, capsys):
    import multikernel_experiments

    assert main(["reproduce", "--list"]) == 0
    assert "flower17_dist.npz" in capsys.readouterr().out
    monkeypatch.setattr(multikernel_experiments, "all_protocols", lambda: {"flower17": small})
    arguments = ["reproduce", "flower17", "--quick", "--data-home", str(flowers), "-o", str(tmp_path)]
    assert main(arguments) == 0
    captured = capsys.readouterr()
    assert "MKL, p = 1" in captured.out
    assert "[1/5" in captured.err
    assert "multikernel reproduce flower17 --quick" in (tmp_path / "flower17-quick" / "page.html").read_text()


def test_wrong_names_and_missing_data_are_explained(tmp_path, monkeypatch, capsys):
    assert main(["reproduce", "flower7"]) == 2
    assert "did you mean 'flower17" in capsys.readouterr().err
    assert main(["reproduce"]) == 2
    assert "--all" in capsys.readouterr().err
    assert main(["reproduce", "flower17", "--data-home", str(tmp_path), "-o", str(tmp_path)]) == 1
    error = capsys.readouterr().err
    assert "flower17_dist.npz" in error
    assert str(tmp_path) in error
    monkeypatch.delenv("MULTIKERNEL_DATA", raising=False)
    assert main(["reproduce", "flower17", "-o", str(tmp_path)]) == 1
    assert "MULTIKERNEL_DATA" in capsys.readouterr().err
    (tmp_path / "flower17_dist.npz").write_bytes(b"not an archive")
    with pytest.raises(DataError, match="cannot be read"):
        reproduce(flower17.PROTOCOL, tmp_path / "out", data=tmp_path)


def test_an_unknown_method_is_an_error_that_suggests_a_name():
    with pytest.raises(DataError, match="did you mean"):
        Entry("x", "averag", "x").registered()
    with pytest.raises(ValueError, match="keys of entries must differ"):
        replace(flower17.PROTOCOL, entries=[flower17.ENTRIES[0]] * 2)
