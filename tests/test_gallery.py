"""The gallery and the comparison with peers: what can be checked without building pages or installing packages."""

from __future__ import annotations

import ast
import runpy
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[1]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
ORDER = runpy.run_path(str(ROOT / "docs" / "gallery_order.py"))["ORDER"]


@pytest.fixture
def peers(monkeypatch):
    """The modules of the comparison, which is a script and not installed."""
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    yield
    for name in [name for name in sys.modules if name == "peers" or name.startswith("peers.")]:
        del sys.modules[name]


def test_the_gallery_shows_every_example_in_the_order_that_was_chosen():
    assert set(ORDER) == {path.name for path in EXAMPLES}


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_is_short_has_a_title_and_draws_something(path):
    text = path.read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 60
    title, underline = ast.get_docstring(ast.parse(text)).splitlines()[:2]
    assert underline == "=" * len(title)
    assert "plt.show()" in text
    assert "print(" in text


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_that_reads_archives_says_so_on_the_picture_where_it_shows_a_stand_in(path):
    text = path.read_text(encoding="utf-8")
    assert ("data_home()" in text) == ("stand-in" in text)
    if "data_home()" in text:
        assert "title=data" in text


def test_peers_are_compared_in_multiples_of_the_yardstick(peers):
    from peers.report import table

    row = {"accuracy": 0.5, "peak": 4e6, "predict_seconds": 0.01, "version": "1"}
    rows = {"svc": {**row, "seconds": 0.2}, "mkl-1": {**row, "seconds": 0.5, "peak": 1e7}}
    text = table({"toy": {**rows, "mklpy-pwmk": {"skipped": "not installed: no wheel"}}})
    line = next(line for line in text.splitlines() if "MKL, p = 1 |" in line)
    assert [cell.strip() for cell in line.split("|")[3:8]] == ["50.0", "0.50 s", "2.5", "10 MB", "2.5"]
    assert "| – | not installed: no wheel |" in text


def test_without_the_yardstick_times_are_seconds(peers):
    from peers.report import overview, table

    row = {"accuracy": 0.5, "peak": 4e6, "predict_seconds": 0.01, "version": "1", "seconds": 0.5}
    for results in ({"toy": {"mkl-1": row}}, {"toy": {"mkl-1": row, "svc": {"skipped": "more than 1 s"}}}):
        assert "50.0 %, 0.50 s, 4 MB" in overview(results).replace("\N{NO-BREAK SPACE}", " ")
        assert "| 0.50 s | – |" in table(results)


def test_a_binary_learner_for_each_class_votes_by_its_score(peers):
    from peers.methods import OneVsRest

    class Centroid:
        def __init__(self, X, y):
            self.centre = X[y == 1].mean(axis=0)

        def decision_function(self, X):
            return -((X - self.centre) ** 2).sum(axis=1)

    X = np.array([[0.0, 0.0], [0.0, 1.0], [5.0, 0.0], [5.0, 1.0], [0.0, 9.0], [0.0, 8.0]])
    y = np.array(["a", "a", "b", "b", "c", "c"])
    model = OneVsRest(lambda signs: Centroid(X, signs), y)
    assert len(model.models) == 3
    assert (model.predict(X) == y).all()


def test_a_package_that_cannot_be_installed_is_named_with_its_reason_and_tried_once(peers, tmp_path, monkeypatch):
    from peers import environments

    commands = []

    def fail(command, seconds):
        commands.append(command)
        raise environments.Unavailable("no matching distribution")

    monkeypatch.setenv("MULTIKERNEL_CACHE", str(tmp_path))
    monkeypatch.setattr(environments, "_run", fail)
    for _ in range(2):
        with pytest.raises(environments.Unavailable, match="no matching distribution"):
            environments.python_of("himalaya")
    assert len(commands) == 1
