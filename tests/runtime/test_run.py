"""Long fits: progress, callbacks, time limits, Ctrl-C, checkpoints that survive a kill."""

import json
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import load_iris
from sklearn.exceptions import ConvergenceWarning

from multikernel import BestKernelClassifier, KernelAverageClassifier, MKLClassifier
from multikernel.estimators import best
from multikernel.io.files import DataError
from multikernel.kernels import RBF, Linear
from multikernel.problems.certificate import Certificate
from multikernel.runtime.checkpoint import Checkpoint
from multikernel.runtime.clock import late
from multikernel.runtime.monitor import Monitor
from multikernel.runtime.run import Run

X, y = load_iris(return_X_y=True)


@pytest.fixture
def ctrl_c(interruptible):
    """Ctrl-C as in a terminal, from a solver's thread, which goes on once the fit has been told to stop."""

    def press():
        os.kill(os.getpid(), signal.SIGINT)
        deadline = time.monotonic() + 60
        while not late() and time.monotonic() < deadline:
            time.sleep(0.001)

    return press


class Countdown:
    """A problem whose gap is ``alpha[0]``, certified against an optimum of 1."""

    def start(self):
        return np.ones(2) / 2, np.array([1.0, 0.0])

    def certificate(self, weights, alpha):
        return Certificate(primal=1.0, dual=1.0 - alpha[0])

    def repaired(self, weights, alpha):
        return weights, alpha


def halve(problem, monitor, start):
    weights, alpha = problem.start() if start is None else start
    for _ in range(60):
        alpha = np.array([alpha[0] / 2, alpha[1] + 1])
        if monitor(weights, alpha):
            break


def test_results_come_in_order_with_history_and_certificate():
    results = Run(tol=1e-3, n_jobs=2).solve([Countdown()] * 3, halve)
    for k, result in enumerate(results):
        assert result.converged
        assert result.stopped == "converged"
        assert result.n_iter == 10
        assert_array_equal(result.alpha, [2.0**-10, 10])
        assert {row["problem"] for row in result.history} == {k}
        assert [row["gap"] for row in result.history] == [2.0**-i for i in range(1, 11)]


def test_the_best_solution_and_the_best_bound_are_kept():
    class Bounds(Countdown):
        def certificate(self, weights, alpha):
            return Certificate(primal=alpha[0], dual=alpha[1])

    monitor = Monitor(Bounds(), tol=1e-9)
    for bounds in ([3.0, 0.5], [1.5, 0.2], [2.0, 1.0]):
        monitor(np.ones(1), np.array(bounds))
    result = monitor.result()
    assert (result.certificate.primal, result.certificate.dual) == (1.5, 1.0)
    assert_array_equal(result.alpha, [1.5, 0.2])
    assert_array_equal(monitor.current[1], [2.0, 1.0])
    assert [row["gap"] for row in result.history] == [2.5, 1.0, 1.0]


def test_time_spent_monitoring_is_off_the_clock(monkeypatch):
    clock = [100.0]
    monkeypatch.setattr(time, "perf_counter", lambda: clock[0])
    monitor = Monitor(Countdown(), tol=1e-9, on_record=lambda row, monitor: clock.append(clock.pop() + 7.0))
    for _ in range(2):
        clock[0] += 1.0
        monitor(np.ones(1), np.ones(1))
    assert [row["time"] for row in monitor.history] == [1.0, 2.0]


def test_a_problem_without_a_dual_never_converges():
    class Blind(Countdown):
        def certificate(self, weights, alpha):
            return Certificate(primal=1.0, dual=float("nan"))

    monitor = Monitor(Blind(), tol=1e9)
    assert not monitor(np.ones(1), np.ones(1))
    assert not monitor.result().converged


def test_a_callback_stops_the_fit_and_is_told_about():
    rows = []

    def callback(row):
        rows.append(row)
        return len(rows) == 4

    with pytest.warns(ConvergenceWarning, match="the callback asked to stop at a relative duality gap of 0.06"):
        (result,) = Run(callback=callback).solve([Countdown()], halve)
    assert len(rows) == 4
    assert result.stopped == "callback"


def test_max_time_stops_and_problems_not_begun_get_their_start(fake_clock):
    def tick(row):
        fake_clock.time += 1.0

    with pytest.warns(ConvergenceWarning, match="max_time was reached"):
        results = Run(tol=1e-9, max_time=5.0, callback=tick).solve([Countdown()] * 3, halve)
    assert results[0].n_iter == 5
    assert [result.stopped for result in results] == ["time"] * 3
    assert_array_equal(results[2].alpha, Countdown().start()[1])


def test_an_error_in_one_problem_is_raised():
    def fail(problem, monitor, start):
        raise ZeroDivisionError("in the solver")

    with pytest.raises(ZeroDivisionError, match="in the solver"):
        Run().solve([Countdown()] * 2, fail)


def test_ctrl_c_leaves_the_best_solution_so_far(ctrl_c):
    run = Run(tol=1e-30, callback=lambda row: row["iteration"] == 4 and ctrl_c())
    with pytest.warns(ConvergenceWarning, match="it was interrupted"):
        (result,) = run.solve([Countdown()], halve)
    assert result.stopped == "interrupted"
    assert result.n_iter == 5


def test_ctrl_c_before_every_problem_is_handed_out_is_an_interruption(monkeypatch):
    submit, calls = ThreadPoolExecutor.submit, []

    def submit_one(*arguments):
        calls.append(True)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return submit(*arguments)

    monkeypatch.setattr(ThreadPoolExecutor, "submit", submit_one)
    with pytest.warns(ConvergenceWarning, match="it was interrupted"):
        results = Run().solve([Countdown()] * 3, halve)
    assert [result.stopped for result in results] == ["interrupted"] * 3


def test_threads_stay_for_the_next_run():
    threads = []

    def solver(*arguments):
        threads.append(threading.current_thread())
        halve(*arguments)

    for _ in range(3):
        Run().solve([Countdown()], solver)
    assert len(set(threads)) == 1
    assert threads[0] is not threading.current_thread()


def test_a_checkpoint_resumes_where_it_was(tmp_path):
    path = tmp_path / "state.npz"
    calls = []

    def callback(row):
        calls.append(row)
        return len(calls) == 5

    with pytest.warns(ConvergenceWarning):
        Run(callback=callback).solve([Countdown()], halve, checkpoint=Checkpoint(path, "a"))
    assert path.exists()
    (resumed,) = Run().solve([Countdown()], halve, checkpoint=Checkpoint(path, "a"))
    (straight,) = Run().solve([Countdown()], halve)
    assert_array_equal(resumed.alpha, straight.alpha)
    assert resumed.n_iter == straight.n_iter
    assert not path.exists()


def test_a_checkpoint_of_another_fit_or_a_broken_one_is_refused(tmp_path):
    path = tmp_path / "state.npz"
    monitor = Monitor(Countdown())
    monitor(np.ones(2), np.ones(2))
    Checkpoint(path, "a").write([monitor], set())
    with pytest.raises(DataError, match="belongs to another fit"):
        Checkpoint(path, "b").restore([Monitor(Countdown())])
    stored = path.read_bytes()
    path.write_bytes(stored[: len(stored) // 2])
    with pytest.raises(DataError, match="cannot be read"):
        Checkpoint(path, "a").restore([Monitor(Countdown())])


FIT = """
    import json, sys, time, warnings
    import numpy as np
    import multikernel.runtime.checkpoint
    from multikernel import BestKernelClassifier, KernelAverageClassifier
    from multikernel.kernels import RBF

    warnings.simplefilter("ignore")
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 4))
    y = (np.abs(X[:, :2]).sum(axis=1) + rng.normal(size=300)).round().astype(int).clip(0, 3)
    slow = float(sys.argv[2])

    def plain(A, B):
        return A @ B.T

    def callback(row):
        time.sleep(slow)

    model = KernelAverageClassifier(
        [RBF(), RBF(columns=lambda table: [0, 1]), plain], C=50.0, tol=1e-7, checkpoint=sys.argv[1], callback=callback
    )
    model.fit(X, y)
    print(json.dumps([model.dual_coef_.tolist(), model.intercept_.tolist()]))
"""


def test_a_killed_fit_goes_on_to_the_same_result(tmp_path):
    script = tmp_path / "fit.py"
    script.write_text(textwrap.dedent(FIT))
    path = tmp_path / "state.npz"
    straight = subprocess.run([sys.executable, script, tmp_path / "other.npz", "0"], capture_output=True, check=True)
    victim = subprocess.Popen([sys.executable, script, path, "1.0"], stdout=subprocess.DEVNULL)
    deadline = time.monotonic() + 60
    while not path.exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    victim.kill()
    victim.wait()
    assert path.exists()
    resumed = subprocess.run([sys.executable, script, path, "0"], capture_output=True, check=True)
    assert json.loads(resumed.stdout) == json.loads(straight.stdout)
    assert not path.exists()


def test_an_interrupted_estimator_is_usable_and_flagged(ctrl_c):
    model = KernelAverageClassifier([RBF()], callback=lambda row: ctrl_c())
    with pytest.warns(ConvergenceWarning, match="interrupted"):
        model.fit(X, y)
    assert not model.converged_
    assert model.predict(X).shape == y.shape
    assert (model.dual_gap_ >= 0).all()


def test_ctrl_c_while_kernels_are_compared_is_not_taken_for_a_score(ctrl_c, monkeypatch):
    rng = np.random.default_rng(0)
    data, labels = rng.normal(size=(400, 5)), rng.integers(0, 3, size=400)
    kernels = [RBF(bandwidth=f"{k}*mean") for k in range(1, 60)]
    original, calls = best.fold_scores, []

    def interrupted(*arguments, **options):
        calls.append(True)
        if len(calls) == 3:
            ctrl_c()
        return original(*arguments, **options)

    monkeypatch.setattr(best, "fold_scores", interrupted)
    with pytest.warns(ConvergenceWarning, match=r"only 2 of 59 kernels: it was interrupted"):
        model = BestKernelClassifier(kernels, C=1e3, tol=1e-9).fit(data, labels)
    reached = np.isfinite(model.kernel_scores_)
    assert reached.sum() == 2
    assert not model.converged_
    assert model.predict(data).shape == labels.shape


def test_warm_start_continues_from_the_previous_solution():
    cold = KernelAverageClassifier([RBF()], C=10.0, tol=1e-8, warm_start=True).fit(X, y)
    gaps = [row["relative_gap"] for row in cold.history_ if row["iteration"] == 0]
    again = cold.fit(X, y)
    assert all(row["relative_gap"] <= 1e-8 for row in again.history_ if row["iteration"] == 0)
    assert len(gaps) == 3
    other = cold.set_params(C=20.0).fit(X, y)
    fresh = KernelAverageClassifier([RBF()], C=20.0, tol=1e-8).fit(X, y)
    assert_allclose(other.objective_, fresh.objective_, rtol=1e-7)
    smaller = cold.fit(X[:140], y[:140])
    assert smaller.dual_coef_.shape[1] == len(smaller.support_)


def test_progress_is_shown_when_asked(capsys):
    KernelAverageClassifier([RBF()], verbose=True).fit(X, y)
    shown = capsys.readouterr().err
    assert "KernelAverageClassifier" in shown
    assert "3/3" in shown
    KernelAverageClassifier([RBF()]).fit(X, y)
    assert capsys.readouterr().err == ""


def test_scikit_learn_callbacks_are_called():
    pytest.importorskip("sklearn.callback")

    class Recorder:
        def __init__(self):
            self.events = []

        def setup(self, estimator, context):
            self.events.append("setup")

        def on_fit_task_begin(self, estimator, context):
            self.events.append(f"begin {context.task_name}")

        def on_fit_task_end(self, estimator, context):
            self.events.append(f"end {context.task_name}")

        def teardown(self, estimator, context):
            self.events.append("teardown")

    recorder = Recorder()
    KernelAverageClassifier([RBF()]).set_callbacks(recorder).fit(X, y)
    assert recorder.events[:2] == ["setup", "begin fit"]
    assert recorder.events[-2:] == ["end fit", "teardown"]
    assert recorder.events.count("begin iteration") == recorder.events.count("end iteration") >= 3


def test_a_warning_says_what_the_gap_means():
    X, y = load_iris(return_X_y=True)
    with pytest.warns(ConvergenceWarning, match="The model is untrained: it may be no better"):
        MKLClassifier([RBF(), Linear()], max_time=1e-9).fit(X, y)
    with pytest.warns(ConvergenceWarning, match=r"The optimum is at most [\d.]+ % below its obj"):
        model = MKLClassifier([RBF(), Linear()], solver="simplemkl", max_iter=1, tol=1e-9).fit(X, y)
    assert model.dual_gap_ < model.objective_


def test_fits_are_logged_for_those_who_ask_and_for_nobody_else(caplog, capfd):
    X, y = load_iris(return_X_y=True)
    KernelAverageClassifier([RBF()]).fit(X, y)
    assert capfd.readouterr() == ("", "")
    with caplog.at_level("INFO", logger="multikernel"):
        KernelAverageClassifier([RBF()]).fit(X, y)
    assert "KernelAverageClassifier, problem 2: converged" in caplog.text


def test_a_solver_that_no_longer_moves_its_gap_is_stopped():
    class Stuck:
        def certificate(self, weights, alpha):
            return Certificate(primal=1.0, dual=max(0.5, 0.9 - alpha[0]))

    monitor = Monitor(Stuck(), tol=1e-6)
    monitor.patience = 10
    gaps_fall = [1.0 / k for k in range(3, 8)]
    rounds = 0
    while not monitor(np.ones(1), np.array([gaps_fall[min(rounds, 4)]])):
        rounds += 1
        assert rounds < 100
    assert rounds == 14
    assert monitor.result().stopped == "rounding"
