"""Runs in several processes, runs that are killed, quick runs on stand-ins, and the summary of what is finished."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace

import numpy as np
import pytest
from multikernel_experiments import all_protocols, reproduce
from multikernel_experiments.findings.against import over_splits, ranked
from multikernel_experiments.findings.drawing import pictures
from multikernel_experiments.findings.verdicts import Claim
from multikernel_experiments.page import page
from multikernel_experiments.protocol import HOLDS, Entry, along
from multikernel_experiments.protocols import flower17, which_p
from multikernel_experiments.results import Results
from multikernel_experiments.saved import load
from multikernel_experiments.standins import MAKERS, StandIns
from multikernel_experiments.summary import write_summary
from multikernel_experiments.tables import tables, text_tables

from multikernel.cli import main
from multikernel.io.files import DataError

SMALL = StandIns(size=6)


@pytest.fixture
def small():
    """Flower17's protocol with two cheap entries, two splits and one line against time."""
    entries = [Entry("average", "average", "average", {}, {"C": (1.0, 10.0)}), Entry("mkl", "mkl", "MKL", {"C": 1.0})]
    entries += along(Entry("silp", "mkl", "SILP", {"solver": "silp"}), (2,))
    return replace(flower17.PROTOCOL, entries=entries, n_splits=2, claims=())


def test_several_processes_find_what_one_finds(small, tmp_path):
    alone = reproduce(small, tmp_path / "one", data=SMALL)
    steps = []
    together = reproduce(small, tmp_path / "two", data=SMALL, jobs=2, say=steps.append)
    assert together.cells.keys() == alone.cells.keys()
    for place, record in together.cells.items():
        assert record["scores"] == alone.cells[place]["scores"]
        assert record["parameters"] == alone.cells[place]["parameters"]
        assert record["cores"] == 1
    assert [step.done for step in steps] == [1, 2, 3, 4, 5, 6]
    assert steps[0].left > 0
    assert "Times are those of fits on one core." in (tmp_path / "two" / "table.md").read_text()
    again = reproduce(small, tmp_path / "two", data=SMALL, jobs=2, say=steps.append)
    assert "finished before" in steps[6].text
    assert again.cells == together.cells


KILLED = """
import sys
from pathlib import Path
from multikernel_experiments import reproduce
from multikernel_experiments.protocol import Entry
from multikernel_experiments.protocols import flower17
from multikernel_experiments.standins import StandIns
from dataclasses import replace
entries = [Entry(f"e{k}", "average", f"e{k}", {}, {"C": (1.0 + k, 10.0 + k)}) for k in range(10)]
protocol = replace(flower17.PROTOCOL, entries=entries, n_splits=2, claims=())
folder, jobs = sys.argv[1], int(sys.argv[2])
reproduce(protocol, folder, data=StandIns(size=6), jobs=jobs, say=lambda step: print(step, flush=True))
"""


def test_a_run_that_is_killed_goes_on_where_it_was(tmp_path):
    folder = tmp_path / "out"
    command = [sys.executable, "-c", KILLED, str(folder)]
    process = subprocess.Popen([*command, "2"], stdout=subprocess.PIPE, text=True)
    for _ in range(2):
        assert process.stdout.readline()
    os.kill(process.pid, signal.SIGKILL)  # no chance to write anything more, or to end the processes it started
    process.stdout.read()  # until they have ended too
    process.stdout.close()
    process.wait()
    finished = sorted(path.name for path in (folder / "cells").glob("*.json"))
    assert 2 <= len(finished) < 20
    for name in finished:
        assert json.loads((folder / "cells" / name).read_text())["scores"]
    before = {name: (folder / "cells" / name).stat().st_mtime_ns for name in finished}
    done = subprocess.run([*command, "1"], stdout=subprocess.PIPE, text=True, check=True)
    assert f"{len(finished)} cells were finished before" in done.stdout.splitlines()[0]
    assert {name: (folder / "cells" / name).stat().st_mtime_ns for name in finished} == before
    assert len(list((folder / "cells").glob("*.json"))) == 20
    assert (folder / "page.html").is_file()


def test_a_run_that_is_asked_to_end_writes_what_is_finished(tmp_path, interruptible):
    command = [sys.executable, "-m", "multikernel", "reproduce", "which-p", "--quick", "--embedded", "-j", "1"]
    process = subprocess.Popen(
        [*command, "-o", str(tmp_path)], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )
    while not process.stderr.readline().startswith("[2/"):
        pass
    process.terminate()
    error = process.stderr.read()
    process.stderr.close()
    assert process.wait() == 130
    assert "the same command goes on" in error
    assert "Interrupted" in (tmp_path / "which-p-standin" / "table.md").read_text()


def test_a_process_that_dies_is_explained(small, tmp_path):
    def task(archives, setting, split, quick):
        if split == 1:
            os._exit(9)
        return flower17.task(archives, setting, split, quick)

    with pytest.raises(DataError, match="--jobs 1 needs less memory"):
        reproduce(replace(small, task=task), tmp_path, data=SMALL, jobs=2)


def test_a_data_set_that_an_archive_lacks_does_not_stop_the_others(tmp_path):
    arrays = {name: array for name, array in SMALL.load("uci_pack.npz").items() if not name.startswith("DNA")}
    np.savez(tmp_path / "uci_pack.npz", **arrays)
    entries = [replace(entry, grid={"C": (1.0,)}) for entry in which_p.PROTOCOL.entries[:2]]
    protocol = replace(
        which_p.PROTOCOL, entries=entries, settings=("DNA", "Sonar"), files=("uci_pack.npz",), n_splits=1,
        claims=(),
    )  # fmt: skip
    results = reproduce(protocol, tmp_path / "out", data=tmp_path)
    assert "uci_pack.npz has no array" in results.cells["DNA", 0, "average"]["error"]
    assert results.scores("average", "Sonar")
    assert len(list((tmp_path / "out" / "cells").iterdir())) == 2  # what failed is tried again next time


@pytest.mark.parametrize("name", list(all_protocols()))
def test_the_quick_run_on_embedded_data_does_all_that_a_protocol_asks_for(name, tmp_path):
    """What ``multikernel reproduce --quick --all`` does where there are no archives, on smaller stand-ins yet."""
    protocol = all_protocols()[name]
    needed = bool(protocol.files)  # simulated data are what they are
    shown = [text_tables(reproduce(protocol, tmp_path, data=SMALL, quick=True))]
    shown += [(tmp_path / name).read_text() for name in ("table.md", "page.html")]
    results = load(protocol, tmp_path)
    assert len(results.cells) == results.total
    assert [record["error"] for record in results.cells.values() if record["error"]] == []
    for text in shown:
        assert ("Stand-in data, not the paper's" in text) == needed
    for picture in pictures(protocol):
        # ranks need three data sets, and a quick run has two
        assert (tmp_path / f"{picture.name}.svg").is_file() != (name == "grand")


def test_of_several_experiments_those_with_data_are_run(small, tmp_path, monkeypatch, capsys):
    import multikernel_experiments

    other = replace(small, name="other", files=("unknown.npz",))
    monkeypatch.setattr(multikernel_experiments, "all_protocols", lambda: {"other": other, "flower17": small})
    np.savez(tmp_path / "flower17_dist.npz", **SMALL.load("flower17_dist.npz"))
    arguments = ["reproduce", "--all", "-j", "1", "--data-home", str(tmp_path), "-o", str(tmp_path)]
    assert main(arguments) == 1
    error = capsys.readouterr().err
    assert "other: experiment 'other' needs unknown.npz" in error
    assert "2 of 2: Flower17" in error
    assert (tmp_path / "flower17" / "page.html").is_file()


@pytest.mark.parametrize("file", [file for file in MAKERS if file.endswith(".npz")])
def test_stand_ins_have_the_layout_of_the_archives(file, data_home):
    real, made = np.load(data_home / file, allow_pickle=False), StandIns(size=6).load(file)
    missing = set(real.files) - set(made) - {"image"}  # names of image files are not used
    assert not missing
    for name, array in made.items():
        assert array.ndim == real[name].ndim, name
        kinds = {"i": "iu", "u": "uf", "f": "uf", "U": "U", "b": "b"}  # counts or shares: histograms have both
        assert array.dtype.kind in kinds[real[name].dtype.kind], name


def test_stand_ins_are_for_quick_runs_only(tmp_path, monkeypatch, capsys):
    monkeypatch.delenv("MULTIKERNEL_DATA", raising=False)
    assert main(["reproduce", "flower17", "-o", str(tmp_path)]) == 1
    error = capsys.readouterr().err
    assert "multikernel data" in error
    assert "--quick" in error
    assert main(["reproduce", "flower17", "--embedded"]) == 2
    assert "--quick" in capsys.readouterr().err
    with pytest.raises(DataError, match="no stand-in"):
        SMALL.require("other", ["unknown.npz"])


def test_the_command_says_that_data_are_stand_ins(small, tmp_path, monkeypatch, capsys):
    import multikernel_experiments

    monkeypatch.setattr(multikernel_experiments, "all_protocols", lambda: {"flower17": small})
    monkeypatch.setenv("MULTIKERNEL_DATA", str(tmp_path))  # which has no archives
    arguments = ["reproduce", "--all", "--quick", "--embedded", "-j", "1", "-o", str(tmp_path)]
    assert main(arguments) == 0
    captured = capsys.readouterr()
    assert "Stand-in data" in captured.out
    assert "84.9" not in captured.out  # published figures are not shown beside those of other data
    assert (tmp_path / "flower17-standin" / "page.html").is_file()


def filled(protocol, score, n_splits=3):
    """Results with scores that a function of setting, split and key gives."""
    results = Results(replace(protocol, n_splits=n_splits), machine={"cores": "2"}, versions={"NumPy": "2"})
    results.started = "2026-01-01T00:00:00"
    for setting in protocol.settings:
        for entry in protocol.entries:
            for split in range(n_splits):
                results.cells[setting, split, entry.key] = {
                    "name": entry.key, "title": entry.title, "scores": [score(setting, split, entry.key)],
                    "fit_seconds": [0.5], "gaps": [1e-4], "n_kernels": [3.0], "peak_bytes": [1.0], "weights": [[1.0]],
                    "parameters": [{"C": 1.0}], "history": [], "notes": [], "error": None, "n_train": 60,
                    "n_test": 40, "kernel_names": ["a", "b", "c"], "seconds": 2.0, "cores": 1,
                }  # fmt: skip
    return results


def test_differences_over_few_splits_are_flagged_and_corrected(small):
    third = Entry("product", "product", "product", {"C": 1.0})
    protocol = replace(small, entries=[*small.entries[:2], third])
    values = {"average": (0.8, 0.7, 0.9), "mkl": (0.85, 0.76, 0.94), "product": (0.8, 0.71, 0.9)}
    results = filled(protocol, lambda setting, split, key: values[key][split])
    texts = over_splits(results, "all")
    assert texts["mkl"].startswith("+5.0 (p = 0.0")
    assert texts["mkl"].endswith(", 3 splits)")
    assert "average" not in texts
    (_, (heads, rows)), *_ = tables(results)
    assert heads[2] == "against average"
    assert [row[2] for row in rows] == ["", texts["mkl"], texts["product"]]


def test_over_settings_there_are_ranks_wins_and_a_sign_test():
    order = [entry.key for entry in which_p.PROTOCOL.entries]
    results = filled(which_p.PROTOCOL, lambda setting, split, key: 0.9 - 0.01 * order.index(key), n_splits=2)
    title, (heads, rows) = tables(results)[1]
    assert title.startswith("Over all")
    table = {row[0]: dict(zip(heads, row)) for row in rows}
    assert [row[2] for row in rows] == ["1.0", "2.0", "3.0", "4.0", "5.0", "6.0"]
    assert table["p = 1"][heads[3]] == "0 / 0 / 9"
    assert table["p = 1"]["sign test p"] == f"{5 * 2 / 2**9:.2f}"
    assert ranked(results).n_settings == 9


def test_entries_that_lack_settings_are_not_ranked():
    results = filled(which_p.PROTOCOL, lambda setting, split, key: 0.5 + 0.01 * len(setting), n_splits=1)
    for setting in which_p.PROTOCOL.settings[:2]:
        results.cells[setting, 0, "2"]["scores"] = []
    found = ranked(results)
    assert "2" not in found.ranks
    rows = {row[0]: row[1] for row in tables(results)[1][1][1]}
    assert rows["p = 2"].endswith(" (of 7)")
    assert "of" not in rows["p = 4"]
    assert found.n_settings == 9
    results.cells["mfeat", 0, "1"]["scores"] = []
    assert ranked(results).n_settings == 8


def test_the_best_mean_on_a_page_is_one_over_all_settings():
    better = {"1": 0.9, "4": 0.8}
    results = filled(which_p.PROTOCOL, lambda setting, split, key: better.get(key, 0.5), n_splits=1)
    assert "90.0 %</strong><span>p = 1<" in page(results, {})
    results.cells["mfeat", 0, "1"]["scores"] = []
    assert "80.0 %</strong><span>p = 4<" in page(results, {})


def test_the_time_left_counts_kernels_that_are_still_to_be_made(small, tmp_path):
    def task(archives, setting, split, quick):
        time.sleep(0.3)
        return flower17.task(archives, "all", split, quick)

    steps = []
    entries = small.entries[:2]
    protocol = replace(small, task=task, settings=("a", "b"), entries=entries, n_splits=1, figures=())
    found = reproduce(protocol, tmp_path, data=SMALL, say=steps.append)
    expected = sum(found.cells["a", 0, key]["seconds"] for key in ("average", "mkl"))
    kernels = found.cells["a", 0, "average"]["kernel_seconds"]
    assert kernels > 0.3
    assert steps[1].left == pytest.approx(expected + kernels)  # all that is left is like what was done
    assert steps[3].left == 0.0


def test_the_summary_is_written_from_saved_results_alone(small, tmp_path):
    claim = Claim("of mine", "YMBCK10, Table 3", lambda results: (HOLDS, "so"), by="it")
    small = replace(small, claims=(claim,))
    reproduce(small, tmp_path / "runs" / "flower17", data=SMALL)
    saved = load(small, tmp_path / "runs" / "flower17")
    assert saved.cells
    protocols = {"flower17": small, "which-p": which_p.PROTOCOL}
    page = tmp_path / "docs" / "results.md"
    page.parent.mkdir()
    assert write_summary(protocols, tmp_path / "runs", page) == ["flower17"]
    text = page.read_text()
    assert "Not run, or not half of it: `which-p`." in text
    assert f"{100 * saved.score('average'):.1f}" in text
    assert "cores: " in text
    assert str(tmp_path) not in text
    pictures = sorted(path.name for path in (page.parent / "_static" / "results").iterdir())
    assert pictures == ["flower17-score-intervals.png"]
    for picture in pictures:
        assert f"(_static/results/{picture})" in text
    paper = (page.parent / "papers" / "mk-fda.md").read_text()
    table = next(line for line in paper.splitlines() if line.startswith("| Table 3 "))
    assert "[flower17](../results.md#flower17-seven-kernels)" in table
    assert "**holds**: of mine (problem, solved here: it; flower17, 2 splits)" in table
    assert flower17.DIFFERS in table
    with pytest.raises(DataError, match="no finished experiments"):
        write_summary(protocols, tmp_path / "empty", page)


def test_saved_results_of_another_experiment_are_refused(small, tmp_path):
    (tmp_path / "results.json").write_text("{")
    with pytest.raises(DataError, match="cannot be read"):
        load(small, tmp_path)
    (tmp_path / "results.json").write_text('{"protocol": "other"}')
    with pytest.raises(DataError, match="is of 'other'"):
        load(small, tmp_path)
