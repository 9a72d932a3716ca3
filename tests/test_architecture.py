"""The house: every module imports from its left only, imports inside functions included; a fit passes few files."""

from __future__ import annotations

import ast
import importlib
import inspect
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from multikernel import MKFDAClassifier, MKLClassifier, MultilabelMKLClassifier, ObscureClassifier
from multikernel.kernels import RBF
from multikernel.problems.minmax import KernelProblem, SVMProblem

PACKAGE = Path(__file__).resolve().parents[1] / "src" / "multikernel"

# Modules that import nothing but each other: anybody may use them.
FLOOR = {
    "compiled",
    "runtime.clock",
    "runtime.executors",
    "runtime.monitor",
    "runtime.warnings",
    "io.files",
    "io.state",
    "io.versions",
    "problems.certificate",
    "inspection.displays",
}
ORDER = [
    "kernels",
    "images",
    "gram",
    "svm",
    "problems",
    "solvers",
    "runtime",
    "estimators",
    "inspection",
    "metrics",
    "io",
    "datasets",
    "compare",
    "report",
    "cli",
]
# Names of version 0.1, and the package itself: they only pass on what is elsewhere.
PASSING_ON = {"__init__", "__main__", "persistence", "plotting", "views"}


def name_of(path: Path) -> str:
    return ".".join(path.relative_to(PACKAGE).with_suffix("").parts).removesuffix(".__init__")


MODULES = {name_of(path): path for path in sorted(PACKAGE.rglob("*.py"))}


def imports(tree: ast.AST) -> Iterator[str]:
    """Modules of the package that are imported when the code runs, wherever that is."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            continue
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "multikernel":
            module = node.module.partition(".")[2]
            for alias in node.names:
                inside = f"{module}.{alias.name}".lstrip(".")
                yield inside if inside in MODULES else module
        elif isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[2] for alias in node.names if alias.name.startswith("multikernel."))
        yield from imports(node)


def rank(module: str) -> int:
    """How far to the right a module is; -1 on the floor."""
    parts = module.split(".")
    if any(".".join(parts[:k]) in FLOOR for k in range(1, len(parts) + 1)):
        return -1
    return ORDER.index(parts[0])


@pytest.mark.parametrize("module", [name for name in MODULES if name not in PASSING_ON])
def test_a_module_imports_from_its_left_only(module):
    used = {name for name in imports(ast.parse(MODULES[module].read_text(encoding="utf-8"))) if name}
    assert {name for name in used if rank(name) > rank(module)} == set()


def test_every_problem_can_be_judged_and_repaired():
    """What a monitor asks of a problem; estimators hand them over as ``Any``, so no type check sees a gap."""
    classes = {
        kind
        for module in MODULES
        if module.split(".")[0] in ("problems", "solvers", "estimators")
        for kind in vars(importlib.import_module(f"multikernel.{module}")).values()
        if inspect.isclass(kind) and kind.__module__.startswith("multikernel.") and hasattr(kind, "certificate")
    }
    problems = {kind for kind in classes if kind.__name__.endswith("Problem")} - {KernelProblem, SVMProblem}
    asked = ("start", "certificate", "repaired")
    assert len(problems) >= 12
    assert {(kind.__name__, name) for kind in problems for name in asked if not hasattr(kind, name)} == set()


def test_every_module_has_a_place():
    assert {name.split(".")[0] for name in MODULES} - PASSING_ON <= {*ORDER, "compiled"}
    assert {name for name in FLOOR if name not in MODULES} == set()


X = np.random.default_rng(0).normal(size=(60, 4))
LABELS = (X[:, :3] > 0.0).astype(int)
KERNELS = [RBF(columns=[k]) for k in range(4)]


@pytest.mark.parametrize(
    ("model", "y", "most"),
    [
        (MKLClassifier(p=2), LABELS[:, 0], 25),
        (ObscureClassifier(KERNELS, memory=4000), np.digitize(X[:, 0], [-0.5, 0.5]), 20),
        (MKFDAClassifier(KERNELS), LABELS[:, 0], 20),
        (MultilabelMKLClassifier(KERNELS), LABELS, 25),
    ],
    ids=["mkl", "obscure on the fly", "fisher", "multilabel"],
)
def test_one_fit_passes_few_files(model, y, most):
    files = set()

    def enter(frame, event, argument):
        path = Path(frame.f_code.co_filename)
        if event == "call" and path.is_relative_to(PACKAGE):
            files.add(str(path.relative_to(PACKAGE)))

    model.fit(X, y)  # compiles
    threading.setprofile(enter)
    sys.setprofile(enter)
    try:
        model.fit(X, y)
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    assert "estimators/base.py" in files
    assert len(files) <= most, sorted(files)
