"""Compiled code: kept on disk where that can be written, shared by processes, and the same without a compiler."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import numpy as np
import pytest
from numpy.testing import assert_allclose

# quadratic forms for the given types, how often code was found and compiled, and what was remarked
SCRIPT = """
import errno, json, sys, warnings
from numba.core import caching

def fail(*_, **__):
    raise OSError(errno.EROFS, "read-only file system")

{prepare}

with warnings.catch_warnings(record=True) as remarks:
    warnings.simplefilter("always")
    import numpy as np
    from multikernel.compiled.gram import quadratic_forms

    forms = []
    for dtype in {dtypes}:
        K = np.add.outer(np.arange(3.0), np.add.outer(np.arange(5.0), np.arange(5.0))).astype(dtype)
        quadratic_forms(K, np.arange(3), np.arange(5.0), total := np.zeros(3), 0, 5)
        forms.append(total.tolist())
found, compiled = (sum(c.values()) for c in (quadratic_forms.stats.cache_hits, quadratic_forms.stats.cache_misses))
print(json.dumps([forms, found, compiled, [str(remark.message) for remark in remarks]]))
"""
# a bit of everything that is compiled
EVERYTHING = """
import numpy as np
from scipy.sparse import csr_matrix
from multikernel import CSKLClassifier, MKLClassifier, MultilabelMKLClassifier
from multikernel import ObscureClassifier, SVRGMKLClassifier, UFOMKLClassifier
from multikernel.kernels import RBF, ChiSquared, HistogramIntersection, Laplacian, Linear

y = np.arange(18) % 2
X = np.abs(np.random.default_rng(0).normal(size=(18, 6)) + y[:, None])
kernels = [Linear(), RBF(bandwidth=3.0), RBF(bandwidth=9.0)]
short = dict(max_iter=3, random_state=0)
models = {
    "newton": MKLClassifier(kernels, C=10.0),
    "smo": MKLClassifier(kernels, p=2.0, solver="smo"),
    "exact": CSKLClassifier(kernels, t=2, exact=True),
    "labels": MultilabelMKLClassifier(kernels),
    "obscure": ObscureClassifier(kernels, **short),
    "sdca": ObscureClassifier(kernels, solver="sdca", **short),
    "ufo": UFOMKLClassifier(kernels, **short),
    "svrg": SVRGMKLClassifier(kernels, solver="svrg", **short),
    "paper": SVRGMKLClassifier(kernels, solver="paper", **short),
}
values = {}
for name, model in models.items():
    labels = np.column_stack([y, 1 - y]) if name == "labels" else y
    values[name] = np.ravel(model.fit(X, labels).objective_).tolist()
for kernel in (ChiSquared(bandwidth=1.0), HistogramIntersection(), Laplacian(bandwidth=1.0), RBF(bandwidth=3.0)):
    for name, data in (("dense", X), ("single", X.astype(np.float32)), ("sparse", csr_matrix(np.where(X > 1, X, 0)))):
        values[f"{type(kernel).__name__} {name}"] = np.ravel(kernel.fit(data)(data)).tolist()
"""
EXPECTED = [[10.0 * (60.0 + 10.0 * k) for k in range(3)]] * 2
TYPES = ("float64", "float32")


def start(folder, dtypes=TYPES, prepare="") -> subprocess.Popen:
    script = SCRIPT.format(dtypes=dtypes, prepare=prepare)
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(folder)}
    return subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True, env=environment)


def outcome(process: subprocess.Popen) -> list:
    text = process.communicate()[0]
    assert process.returncode == 0
    return json.loads(text)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A cache that three processes filled at once."""
    folder = tmp_path_factory.mktemp("cache")
    for process in [start(folder), start(folder, TYPES[::-1]), start(folder)]:
        forms, _, _, remarks = outcome(process)
        assert forms == EXPECTED
        assert not remarks
    return folder


def test_processes_that_fill_the_cache_at_once_leave_it_sound(folder):
    # one of two that wrote at the same moment may have to be compiled again
    assert outcome(start(folder))[0] == EXPECTED
    assert outcome(start(folder)) == [EXPECTED, 2, 0, []]


def test_code_for_other_types_is_not_run(folder):
    first, second = sorted(folder.rglob("*quadratic_forms-*.nbc"))
    code = first.read_bytes(), second.read_bytes()
    first.write_bytes(code[1])
    second.write_bytes(code[0])
    assert outcome(start(folder)) == [EXPECTED, 0, 2, []]
    assert outcome(start(folder)) == [EXPECTED, 2, 0, []]


@pytest.mark.parametrize(
    "prepare",
    ["caching.tempfile.TemporaryFile = fail", "caching.IndexDataCacheFile.save = fail"],
    ids=["nowhere to write", "a full disk"],
)
def test_without_a_place_for_the_cache_there_is_one_remark(tmp_path, prepare):
    forms, found, _, remarks = outcome(start(tmp_path, TYPES[:1], prepare))
    assert (forms, found) == (EXPECTED[:1], 0)
    assert len(remarks) == 1
    assert "NUMBA_CACHE_DIR" in remarks[0]


@pytest.mark.filterwarnings("ignore")
def test_python_gives_what_the_compiler_gives():
    script = EVERYTHING + "import json; print(json.dumps(values))"
    environment = {**os.environ, "NUMBA_DISABLE_JIT": "1", "PYTHONWARNINGS": "ignore"}
    run = subprocess.run(
        [sys.executable, "-c", script], env=environment, stdout=subprocess.PIPE, check=True, text=True
    )
    interpreted = json.loads(run.stdout)
    exec(EVERYTHING, compiled := {})
    for name, value in compiled["values"].items():
        # a distance of up to 10 is a sum of 6 terms in another order, and the relative error of exp is its error
        rtol = 100 * np.finfo(np.float32).eps if "single" in name else 1e-9
        assert_allclose(interpreted[name], value, rtol=rtol, err_msg=name)
