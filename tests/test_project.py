"""The project as a whole: citations resolve, importing is cheap, and what the documents show is true."""

from __future__ import annotations

import argparse
import doctest
import importlib
import json
import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

import multikernel

ROOT = Path(__file__).resolve().parents[1]
SOURCES = sorted((ROOT / "src").rglob("*.py"))
PAGES = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").glob("*.md")])
BIBLIOGRAPHY = runpy.run_path(str(ROOT / "docs" / "bibliography.py"))
KEYS = set(BIBLIOGRAPHY["entries"](BIBLIOGRAPHY["BIB"].read_text(encoding="utf-8")))
HEAVY = ["numba", "matplotlib", "pandas", "polars", "pyarrow", "scipy.optimize", "scipy.stats", "cvxpy"]

LOADED = """
import json, sys
import sklearn
before = set(sys.modules)
import multikernel
loaded = [sorted(set(sys.modules) - before)]
for name in multikernel.__all__:
    getattr(multikernel, name)
print(json.dumps([*loaded, sorted(set(sys.modules) - before)]))
"""


# Other systems lack these modules and names. All is imported twice: by then, other packages have what they need.
IMPORT_ELSEWHERE = """
import os, pkgutil, signal, sys
from importlib import import_module
import multikernel

def import_all():
    package = import_module("multikernel")
    for module in pkgutil.walk_packages(package.__path__, "multikernel."):
        if not module.name.endswith("__main__"):
            import_module(module.name)

import_all()
for name in [name for name in sys.modules if name.partition(".")[0] == "multikernel"]:
    del sys.modules[name]
for name in ("fcntl", "grp", "posix", "pwd", "resource", "select", "syslog", "termios"):
    sys.modules[name] = None
for name in ("fork", "getuid", "nice", "sched_getaffinity", "sysconf", "uname"):
    vars(os).pop(name, None)
for name in ("SIGALRM", "SIGHUP", "SIGKILL", "alarm"):
    vars(signal).pop(name, None)
import_all()
print(sum(name.partition(".")[0] == "multikernel" for name in sys.modules))
"""


def identify(path: Path) -> str:
    return str(path.relative_to(ROOT))


def citations(text: str) -> set[str]:
    """Keys cited, those without a year too where what follows shows that a citation is meant."""
    loose = re.findall(r"\[([A-Z]\w+), (?:eqs?\.|secs?\.|alg|table|lemma|theorem|problem)", text)
    return {match[0] for match in BIBLIOGRAPHY["CITATION"].findall(text)} | set(loose) - {"KEY"}


def test_citations_are_recognised_with_and_without_an_equation():
    text = "see [KBSZ11, eq. (26)], [FCL05], [CSKL, sec. 2] and x[ABC] or K[0], written as [KEY, eq. (n)]"
    assert citations(text) == {"KBSZ11", "FCL05", "CSKL"}


@pytest.mark.parametrize("path", SOURCES + PAGES, ids=identify)
def test_every_citation_is_in_the_bibliography(path):
    unknown = citations(path.read_text(encoding="utf-8")) - KEYS
    assert not unknown, f"{identify(path)} cites {sorted(unknown)}: add them to docs/references.bib"


def test_the_page_of_references_is_written_from_the_bibliography():
    expected = BIBLIOGRAPHY["page"](BIBLIOGRAPHY["BIB"].read_text(encoding="utf-8"))
    assert BIBLIOGRAPHY["PAGE"].read_text(encoding="utf-8") == expected, "run python docs/bibliography.py"


def test_importing_loads_what_is_used_and_nothing_heavy():
    run = subprocess.run([sys.executable, "-c", LOADED], check=True, capture_output=True, text=True)
    at_once, when_used = map(set, json.loads(run.stdout))
    assert at_once == {"multikernel"}
    assert "multikernel.estimators.mkl" in when_used
    assert when_used.isdisjoint(HEAVY)


def test_every_module_can_be_imported_without_what_only_posix_has():
    command = [sys.executable, "-W", "error", "-c", IMPORT_ELSEWHERE]
    run = subprocess.run(command, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    assert int(run.stdout) == len(SOURCES) - 1  # all but __main__


def code_blocks(path: Path) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```", path.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("path", [page for page in PAGES if code_blocks(page)], ids=identify)
def test_the_python_shown_on_a_page_runs(path, tmp_path, monkeypatch):
    """Blocks of a page share their variables, top to bottom; those with prompts also show what is printed."""
    monkeypatch.chdir(tmp_path)
    namespace: dict = {"__name__": "page"}
    flags = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
    for number, block in enumerate(code_blocks(path)):
        if ">>>" in block:
            example = doctest.DocTestParser().get_doctest(block, namespace, f"block {number}", identify(path), 0)
            runner = doctest.DocTestRunner(optionflags=flags)
            output: list[str] = []
            runner.run(example, out=output.append, clear_globs=False)
            assert runner.summarize(verbose=False).failed == 0, "".join(output)
            namespace.update(example.globs)
        else:
            exec(compile(block, f"{identify(path)}, block {number}", "exec"), namespace)


@pytest.mark.parametrize("path", PAGES, ids=identify)
def test_every_library_name_on_a_page_exists(path):
    for dotted in re.findall(r"`(multikernel(?:\.\w+)+)`", path.read_text(encoding="utf-8")):
        assert resolves(dotted), f"{identify(path)} speaks of {dotted}, which does not exist"


def resolves(dotted: str) -> bool:
    module, _, name = dotted.rpartition(".")
    try:
        importlib.import_module(dotted)
    except ModuleNotFoundError:
        return bool(module) and hasattr(importlib.import_module(module), name)
    return True


def test_every_public_estimator_is_in_the_reference_and_among_the_models():
    estimators = [name for name in multikernel.__all__ if name.endswith("Classifier")]
    assert estimators
    for page in ("api.rst", "models.md"):
        text = (ROOT / "docs" / page).read_text(encoding="utf-8")
        assert [name for name in estimators if name not in text] == [], f"missing on docs/{page}"


def test_every_option_on_the_command_line_page_exists():
    from multikernel.cli.parser import build_parser

    page = (ROOT / "docs" / "command-line.md").read_text(encoding="utf-8")
    commands = next(a.choices for a in build_parser()._actions if isinstance(a, argparse._SubParsersAction))
    assert set(re.findall(r"`multikernel (\w+)`", page)) == set(commands)
    known = {option for parser in commands.values() for option in parser._option_string_actions}
    assert set(re.findall(r"(?<![\w-])--[a-z]+(?:-[a-z]+)*", page)) <= known


def test_the_changelog_has_the_current_version():
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert f"## {multikernel.__version__}" in changelog


def test_the_citation_has_the_current_version():
    assert f"\nversion: {multikernel.__version__}\n" in (ROOT / "CITATION.cff").read_text(encoding="utf-8")
