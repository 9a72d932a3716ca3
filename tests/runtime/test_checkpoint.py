"""Checkpoints: of these data only, nothing in them is taken on trust, and no fault of theirs ends a fit."""

import os
import signal
import subprocess
import sys
import threading
import time
import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.sparse import csr_array
from sklearn.exceptions import ConvergenceWarning

from multikernel import (
    CSKLClassifier,
    GMKLClassifier,
    KernelAverageClassifier,
    MKFDAClassifier,
    MKLClassifier,
    MKLOneClass,
    MKLRegressor,
    MultilabelMKLClassifier,
    ObscureClassifier,
    SVRGMKLClassifier,
    SVRGMKLRegressor,
    UFOMKLClassifier,
)
from multikernel.io.files import DataError, atomic_write
from multikernel.kernels import RBF, Linear, Nystroem
from multikernel.problems.certificate import Certificate
from multikernel.problems.cskl import SelectionProblem
from multikernel.problems.fisher import DenseSystem
from multikernel.problems.svrg import SmoothProblem
from multikernel.runtime.checkpoint import Checkpoint
from multikernel.runtime.monitor import Monitor
from multikernel.runtime.run import Run
from multikernel.solvers.obscure.obscure import ScoreTable
from multikernel.svm.binary import CSVM


def task(n=30, n_classes=2):
    """Samples of which the first is far from all others, and labels."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 3))
    X[0] = 1e4
    return X, rng.permutation(n) % n_classes


def stopped(model, X, y, rows=2):
    """Fit with a callback that stops it early, leaving a checkpoint."""
    seen = []
    model.set_params(callback=lambda row: seen.append(row) or len(seen) >= rows)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(X, y)
    return model.set_params(callback=None)


def plain(A, B):
    return A @ B.T


def other(A, B):
    return A @ B.T + 1.0


def matrices(X):
    return np.stack([X @ X.T, np.exp(-((X[:, None] - X[None]) ** 2).sum(axis=-1))], axis=-1)


@pytest.mark.parametrize(
    ("kernels", "convert"),
    [
        ([RBF(columns=[j], gamma=1.0) for j in range(3)], np.asarray),
        ([RBF(gamma=1.0), Linear()], csr_array),
        ([Nystroem(kernel=RBF(gamma=1.0), rank=5), Linear()], np.asarray),
        ("precomputed", matrices),
    ],
    ids=["dense", "sparse", "features", "precomputed"],
)
def test_a_checkpoint_of_other_data_is_refused_wherever_they_differ(tmp_path, kernels, convert):
    X, y = task()
    changed = X.copy()
    changed[-1, -1] += 1e-9
    model = stopped(MKLClassifier(kernels, tol=1e-9, checkpoint=tmp_path / "state.npz"), convert(X), y, rows=1)
    with pytest.raises(DataError, match="belongs to another fit"):
        model.fit(convert(changed), y)
    assert model.set_params(memory="1MB").fit(convert(X), y).converged_  # the same data, however they are stored


@pytest.mark.parametrize(
    ("one", "two"),
    [
        ({"kernels": [plain]}, {"kernels": [other]}),
        ({"kernels": [RBF(gamma=1.0)]}, {"kernels": [RBF(gamma=2.0)]}),
        ({"kernels": [RBF(columns=[0])]}, {"kernels": [RBF(columns=[1])]}),
        ({"groups": [[0, 1, 2], [3]]}, {"groups": [[0, 1], [2, 3]]}),
    ],
    ids=["functions", "parameters", "columns", "groups"],
)
def test_a_checkpoint_of_other_kernels_is_refused(tmp_path, one, two):
    X, y = task()
    stopped(MKLClassifier(tol=1e-9, checkpoint=tmp_path / "state.npz", **one), X, y, rows=1)
    with pytest.raises(DataError, match="belongs to another fit"):
        MKLClassifier(tol=1e-9, checkpoint=tmp_path / "state.npz", **two).fit(X, y)


def forge(path, change):
    """Change the arrays of a checkpoint, and what it says of itself."""
    import json

    with np.load(path) as archive:
        arrays = dict(archive)
    meta = json.loads(arrays["meta"].tobytes())
    change(meta, arrays)
    arrays["meta"] = np.frombuffer(json.dumps(meta).encode(), dtype=np.uint8)
    np.savez(path, **arrays)


def promise(meta, arrays):
    """A history of zero gaps, and the word that everything is done."""
    for state in meta["problems"].values():
        state.update(finished=True, stopped="converged")
        for row in state["history"]:
            row.update(gap=0.0, relative_gap=0.0)


def exaggerate(meta, arrays):
    """The same, with a dual solution that is far too large and weights outside of their set."""
    promise(meta, arrays)
    for name in arrays:
        arrays[name] = arrays[name] * (1.0 if name == "meta" else 100.0)
    arrays["meta"] = arrays["meta"].astype(np.uint8)


def mislead(meta, arrays):
    """The same, with alphas that were found elsewhere, and cuts that are far above what they prove."""
    promise(meta, arrays)
    for name in arrays:
        kind = name.partition(".kept.")[2]
        if kind in ("alphas", "cuts", "pivots"):
            arrays[name] = arrays[name][::-1]
        elif kind in ("constants", "forms", "hoped"):
            arrays[name] = arrays[name] * {"constants": 3.0, "forms": 0.2, "hoped": 0.5}[kind]


RESUMABLE = [
    CSKLClassifier,
    GMKLClassifier,
    KernelAverageClassifier,
    MKFDAClassifier,
    MKLClassifier,
    MKLOneClass,
    MKLRegressor,
    MultilabelMKLClassifier,
    ObscureClassifier,
    SVRGMKLClassifier,
    SVRGMKLRegressor,
    UFOMKLClassifier,
]
VARIANTS = [
    *((estimator, {}) for estimator in RESUMABLE),
    *((MKLClassifier, {"solver": solver}) for solver in ("simplemkl", "silp", "level", "group-lasso")),
    *((MKLClassifier, {"solver": solver, "p": 1.5}) for solver in ("lp", "smo", "silp")),
    (MKLClassifier, {"groups": [[0, 1], [2, 3]]}),
    (MKLClassifier, {"nu": 0.5}),
    (CSKLClassifier, {"exact": True, "t": 2}),
    (ObscureClassifier, {"solver": "sdca"}),
    (SVRGMKLClassifier, {"solver": "paper"}),
]


@pytest.mark.parametrize("forgery", [promise, exaggerate, mislead])
@pytest.mark.parametrize(("estimator", "parameters"), VARIANTS)
def test_no_forged_checkpoint_gives_a_wrong_certified_objective(tmp_path, estimator, parameters, forgery):
    X, y = task(40)
    X[0] = 1.0
    given = {"tol": 1e-2 if estimator is UFOMKLClassifier else 1e-3, "random_state": 0, **parameters}
    straight = estimator(**given).fit(X, y)
    model = stopped(estimator(**given, checkpoint=tmp_path / "state.npz"), X, y, rows=1)
    if not (tmp_path / "state.npz").exists():  # it was done at once
        assert model.converged_
        return
    forge(tmp_path / "state.npz", forgery)
    model.fit(X, y)
    assert model.converged_ == straight.converged_
    # both lie within their gap of the same optimum
    assert abs(model.objective_ - straight.objective_) <= model.dual_gap_ + straight.dual_gap_ + 1e-9


# -- what is left to do ------------------------------------------------------------------------------------------


@pytest.fixture
def work(monkeypatch):
    """Count what costs time: SVMs, linear systems, epochs, passes over kernels."""
    done, smooth = [], []

    def counted(owner, name):
        original = getattr(owner, name)

        def count(self, *arguments, **options):
            done.append(name)
            return original(self, *arguments, **options)

        monkeypatch.setattr(owner, name, count)

    counted(CSVM, "solve")
    counted(SelectionProblem, "solve_roughly")
    counted(DenseSystem, "solve")
    counted(ScoreTable, "online")
    counted(ScoreTable, "proximal")
    counted(ScoreTable, "averaging")
    make = SmoothProblem.__init__
    monkeypatch.setattr(
        SmoothProblem, "__init__", lambda self, *a, **k: (smooth.append(self), make(self, *a, **k))[1]
    )
    return lambda: len(done) + sum(problem.passes for problem in set(smooth))


@pytest.fixture
def kills(monkeypatch, work):
    """Have checkpoints written as often as they can be; each with the work that had been done then."""
    states = []
    write = Checkpoint.write

    def write_and_copy(self, *arguments):
        write(self, *arguments)
        if self.path.exists():
            states.append((work(), self.path.read_bytes()))

    monkeypatch.setattr(Checkpoint, "write", write_and_copy)
    monkeypatch.setattr(Checkpoint, "due", lambda self: True)
    return states


def hard_task():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 6))
    score = X[:, 0] + X[:, 1] * X[:, 2] + 0.7 * rng.normal(size=40)
    labels = np.column_stack([X[:, k] * X[:, k - 1] + 0.5 * rng.normal(size=40) > 0.0 for k in range(6)])
    return X, np.digitize(score, [-0.7, 0.7]), labels.astype(int)


LEFT = [
    (MKLClassifier, {"tol": 1e-8}),
    (MKLClassifier, {"tol": 1e-4, "solver": "simplemkl", "weights": "per-class"}),
    (MKLClassifier, {"tol": 1e-5, "solver": "silp"}),
    (MKLClassifier, {"tol": 1e-5, "solver": "level"}),
    (MKLClassifier, {"tol": 1e-5, "solver": "lp", "p": 1.2}),
    (CSKLClassifier, {"tol": 1e-5, "t": 3, "solver": "reduced-gradient"}),
    (CSKLClassifier, {"tol": 1e-4, "t": 3, "exact": True}),
    (GMKLClassifier, {"tol": 1e-6}),
    (MKFDAClassifier, {"tol": 1e-4, "solver": "sip"}),
    (MultilabelMKLClassifier, {"tol": 1e-5}),
    (MultilabelMKLClassifier, {"tol": 1e-4, "objective": "sum", "solver": "silp"}),
    (MultilabelMKLClassifier, {"tol": 3e-4, "solver": "sa-vr"}),
    (MultilabelMKLClassifier, {"tol": 8e-2, "solver": "sa"}),
    (ObscureClassifier, {"tol": 1e-2}),
    (SVRGMKLClassifier, {"tol": 1e-6, "C": 100.0}),
    (UFOMKLClassifier, {"tol": 3e-2}),
]


@pytest.mark.parametrize(("estimator", "parameters"), LEFT)
def test_a_fit_that_is_killed_anywhere_has_only_the_rest_to_do(tmp_path, work, kills, estimator, parameters):
    X, y, labels = hard_task()
    y = labels if estimator is MultilabelMKLClassifier else y
    kernels = [RBF(columns=[k, (k + 1) % 6], gamma=gamma) for k in range(6) for gamma in (0.1, 1.0)]
    parameters = {"random_state": 0, **parameters}
    model = estimator(kernels, checkpoint=tmp_path / "state.npz", **parameters).fit(X, y)
    assert model.converged_
    total, objective, gap = work(), model.objective_, model.dual_gap_
    # some way into the fit, wherever a checkpoint was written
    done, content = min(kills, key=lambda state: abs(state[0] - 0.4 * total))
    assert 0.1 * total <= done <= 0.7 * total
    (tmp_path / "state.npz").write_bytes(content)
    model.fit(X, y)
    assert model.converged_
    assert_allclose(model.objective_, objective, atol=np.max(gap + model.dual_gap_))
    # the point where it was is judged again
    assert work() - total <= 1.2 * (total - done) + 1 + labels.shape[1] * (estimator is MultilabelMKLClassifier)


# -- damaged files -----------------------------------------------------------------------------------------------


class Countdown:
    """A problem whose gap is ``alpha[0]``, certified against an optimum of 1."""

    def start(self):
        return np.ones(2) / 2, np.array([1.0, 0.0])

    def certificate(self, weights, alpha):
        return Certificate(primal=1.0, dual=1.0 - alpha[0])

    def repaired(self, weights, alpha):
        return weights, np.clip(alpha, 0.0, None)


def halve(problem, monitor, start):
    weights, alpha = problem.start() if start is None else start
    while not monitor(weights, np.array([alpha[0] / 2, alpha[1] + 1])):
        weights, alpha = monitor.current
        time.sleep(0.002)


@pytest.fixture
def state(tmp_path):
    """A checkpoint of a fit that was stopped."""
    path = tmp_path / "state.npz"
    with pytest.warns(ConvergenceWarning):
        Run(callback=lambda row: True).solve([Countdown()], halve, checkpoint=Checkpoint(path, "a"))
    return path


def test_a_flipped_bit_anywhere_is_noticed_or_does_not_matter(state):
    content = bytearray(state.read_bytes())
    expected, refused = Monitor(Countdown()), 0
    Checkpoint(state, "a").restore([expected])
    for place in range(0, len(content), 7):
        content[place] ^= 1 << place % 8
        state.write_bytes(content)
        content[place] ^= 1 << place % 8
        monitor = Monitor(Countdown())
        try:
            Checkpoint(state, "a").restore([monitor])
        except DataError:
            refused += 1
        else:
            assert_array_equal(monitor.best, expected.best)
    assert refused > 0.5 * len(content) / 7


@pytest.mark.parametrize(
    "change",
    [
        lambda meta, arrays: meta.clear(),
        lambda meta, arrays: meta.update(problems=[1]),
        lambda meta, arrays: meta["problems"]["0"].update(history=[{}]),
        lambda meta, arrays: meta["problems"]["0"].update(history="x"),
        lambda meta, arrays: meta["problems"]["0"]["history"][0].update(gap="small"),
        lambda meta, arrays: meta["problems"]["0"].update(elapsed=-1.0),
        lambda meta, arrays: meta["problems"]["0"].update(elapsed=None),
        lambda meta, arrays: meta["problems"]["0"].update(finished=True, stopped="soon"),
        lambda meta, arrays: meta["problems"].update({"0": None}),
        lambda meta, arrays: arrays.pop("0.alpha"),
        lambda meta, arrays: arrays.update({"0.alpha": np.ones(7)}),
        lambda meta, arrays: arrays.update({"0.weights": np.ones((2, 1))}),
        lambda meta, arrays: arrays.update({"0.best_alpha": np.full(2, np.nan)}),
        lambda meta, arrays: arrays.update({"0.best_alpha": np.array(["a", "b"])}),
    ],
)
def test_a_checkpoint_made_by_hand_is_refused_like_a_damaged_one(state, change):
    forge(state, change)
    with pytest.raises(DataError, match=r"checkpoint .*state\.npz cannot be read"):
        Checkpoint(state, "a").restore([Monitor(Countdown())])


def test_a_compressed_checkpoint_is_not_unpacked(state):
    np.savez_compressed(state, meta=np.zeros(10**7, dtype=np.uint8))
    with pytest.raises(DataError, match="entries are compressed"):
        Checkpoint(state, "a").restore([Monitor(Countdown())])


# -- disks, kills and signals ------------------------------------------------------------------------------------


@pytest.fixture
def full_disk(monkeypatch):
    """Make temporary files ones that nothing can be written to."""
    monkeypatch.setattr("tempfile.mkstemp", lambda dir, prefix, suffix: (os.open("/dev/full", os.O_WRONLY), "none"))


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_full_disk_ends_neither_a_fit_nor_its_last_checkpoint(state, full_disk):
    before, rows = state.read_bytes(), []
    run = Run(callback=lambda row: rows.append(row) or len(rows) == 5)
    with pytest.warns(UserWarning, match="could not be written") as caught:
        run.solve([Countdown()], halve, checkpoint=Checkpoint(state, "a", 0.0))
    assert len(rows) == 5
    first, second = (str(warning.message) for warning in caught)  # about the file once, however often it failed
    assert "state.npz could not be written (No space left on device): the state written last is kept" in first
    assert "the callback asked to stop" in second
    assert state.read_bytes() == before


def test_the_file_that_could_not_be_written_is_named(tmp_path, full_disk):
    with (
        pytest.raises(OSError, match=r"No space left on device: '.*/model\.mkl'"),
        atomic_write(tmp_path / "model.mkl") as stream,
    ):
        stream.write(b"x")


def test_what_a_killed_process_left_half_written_is_removed_and_nothing_else(tmp_path):
    script = f"""
from multikernel.io.files import atomic_write
with atomic_write({str(tmp_path / "state.npz")!r}) as stream:
    print("writing", flush=True)
    input()
"""
    with subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as victim:
        assert victim.stdout.readline() == b"writing\n"
        (part,) = tmp_path.glob(".state.npz.*.part")
        with atomic_write(tmp_path / "state.npz"), atomic_write(tmp_path / "state.npz"):
            assert part.exists()  # its process lives
            assert len(list(tmp_path.glob(".state.npz.*.part"))) == 3  # and so do those of this one
        victim.kill()
    with atomic_write(tmp_path / "other.npz"):
        assert part.exists()  # not of this file
    with atomic_write(tmp_path / "state.npz"):
        assert not part.exists()


class Alarm(Exception):
    pass


@pytest.mark.parametrize("problem", [Alarm, SystemExit])
def test_any_exception_of_the_main_thread_ends_the_solvers_and_keeps_their_state(tmp_path, problem):
    def ring(*_):
        raise problem

    previous = signal.signal(signal.SIGUSR1, ring)
    before = threading.active_count()
    threading.Timer(0.1, lambda: os.kill(os.getpid(), signal.SIGUSR1)).start()
    try:
        with pytest.raises(problem):  # otherwise this has no end
            Run(tol=1e-300).solve([Countdown()], halve, checkpoint=Checkpoint(tmp_path / "state.npz", "a"))
    finally:
        signal.signal(signal.SIGUSR1, previous)
    assert threading.active_count() <= before
    monitor = Monitor(Countdown())
    Checkpoint(tmp_path / "state.npz", "a").restore([monitor])
    assert len(monitor.history) > 1
