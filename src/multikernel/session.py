"""One fit, from start to finish: several problems on threads, progress, callbacks, Ctrl-C, checkpoints."""

from __future__ import annotations

import contextlib
import math
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from typing import Any

from joblib import effective_n_jobs
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

from multikernel.certificate import Certificate
from multikernel.checkpoint import Checkpoint
from multikernel.monitor import Monitor, Problem, Result
from multikernel.warning import warn_user

State = tuple[NDArray, NDArray]
# A solver as a session calls it: problem, monitor, and the (weights, alpha) to start from or None.
Solve = Callable[[Any, Monitor, State | None], Any]


class Session:
    """Solve the problems of one fit (one per class or pair of classes) under one clock.

    Parameters
    ----------
    tol : float
        Relative duality gap for each problem.
    max_time : float, optional
        Seconds for all problems together.
    n_jobs : int, optional
        Threads over problems, as in scikit-learn: ``None`` is 1, -1 all cores.
    verbose : bool
        Show a progress bar.
    callback : callable, optional
        Called with each history row, a dict, the problem's index under ``"problem"``; a true value stops the fit.
    checkpoint : Checkpoint, optional
        Where to keep the state: read at the start if the file is there, written every few seconds and after each
        problem, removed at the end unless time ran out or the fit was interrupted.
    keep_interrupted : bool
        Whether Ctrl-C ends the fit with the best solutions so far; if not, it is raised once solvers have stopped.
    title : str
        Shown on the progress bar and in warnings.
    """

    def __init__(
        self,
        tol: float = 1e-3,
        *,
        max_time: float | None = None,
        n_jobs: int | None = None,
        verbose: bool | int = False,
        callback: Callable[[dict[str, Any]], Any] | None = None,
        checkpoint: Checkpoint | None = None,
        keep_interrupted: bool = True,
        title: str = "fit",
    ):
        self.tol, self.max_time, self.n_jobs, self.verbose = tol, max_time, n_jobs, verbose
        self.callback, self.checkpoint, self.title = callback, checkpoint, title
        self.keep_interrupted = keep_interrupted
        self._lock = threading.RLock()
        self._interrupted = False
        self._asked_to_stop = False
        self._bar: Any = None
        self._finished: set[int] = set()
        self._monitors: list[Monitor] = []

    def run(
        self, problems: Sequence[Problem], solve: Solve, starts: Sequence[State | None] | None = None
    ) -> list[Result]:
        """Solve every problem; ``starts`` are (weights, alpha) pairs to continue from."""
        self._monitors = [Monitor(p, self.tol, on_record=self._watch(k)) for k, p in enumerate(problems)]
        for monitor in self._monitors:
            monitor.must_stop = self._must_stop
        if self.checkpoint is not None:
            self._finished = self.checkpoint.restore(self._monitors)
        spent = sum(monitor.elapsed for monitor in self._monitors)
        self._deadline = float("inf") if self.max_time is None else time.monotonic() + self.max_time - spent
        with self._progress_bar(len(problems)):
            self._solve_all(problems, solve, starts or [None] * len(problems))
        for monitor, problem in zip(self._monitors, problems):
            if monitor.best is None:  # never begun: a start that costs nothing, with its honest gap
                self.callback = None  # nobody who asked to stop wants to be called again
                monitor(*problem.start())
        results = [monitor.result() for monitor in self._monitors]
        self._close_checkpoint(results)
        self._warn(results)
        return results

    def _solve_all(self, problems: Sequence[Problem], solve: Solve, starts: Sequence[State | None]) -> None:
        def work(k: int) -> None:
            monitor = self._monitors[k]
            if self._must_stop():
                monitor.stopped = self._reason()  # a checkpoint may have begun it
                return
            try:
                solve(problems[k], monitor, starts[k] if monitor.current is None else monitor.current)
            except KeyboardInterrupt:  # raised by a callback: it means the same as Ctrl-C in the main thread
                self._interrupted = True
                monitor.stopped = self._reason()
            self._finish(k)

        todo = [k for k in range(len(problems)) if k not in self._finished]
        # Solvers run on other threads, so that Ctrl-C reaches this one at once; their monitors then stop them.
        futures: list[Future] = []
        with ThreadPoolExecutor(max(1, min(effective_n_jobs(self.n_jobs), len(problems)))) as pool:
            try:
                futures.extend(pool.submit(work, k) for k in todo)
                wait(futures, return_when=FIRST_EXCEPTION)
            except KeyboardInterrupt:
                self._interrupted = True
            if any(future.done() and future.exception() for future in futures):
                self._asked_to_stop = True
        for future in futures:
            future.result()
        if self._interrupted and not self.keep_interrupted:
            raise KeyboardInterrupt

    def _watch(self, k: int) -> Callable[[dict[str, Any], Monitor], bool]:
        def on_record(row: dict[str, Any], monitor: Monitor) -> bool:
            row["problem"] = k
            with self._lock:
                if self._bar is not None:
                    self._bar.set_postfix_str(f"objective {row['objective']:.5g}, {_progress_of(row)}")
                if self.checkpoint is not None and self.checkpoint.due():
                    self.checkpoint.write(self._monitors, self._finished)
                if self.callback is not None and self.callback(row):
                    self._asked_to_stop = True
            if self._must_stop():
                monitor.stopped = self._reason()
            return self._must_stop()

        return on_record

    def _must_stop(self) -> bool:
        return self._interrupted or self._asked_to_stop or time.monotonic() >= self._deadline

    def _reason(self) -> str:
        return "interrupted" if self._interrupted else "callback" if self._asked_to_stop else "time"

    def _finish(self, k: int) -> None:
        with self._lock:
            if not self._must_stop() or self._monitors[k].stopped in ("converged", "stationary"):
                self._finished.add(k)
            if self._bar is not None:
                self._bar.update()
            if self.checkpoint is not None and len(self._monitors) > 1:
                self.checkpoint.write(self._monitors, self._finished)

    def _close_checkpoint(self, results: list[Result]) -> None:
        if self.checkpoint is None:
            return
        if any(result.stopped in ("interrupted", "time", "callback") for result in results):
            self.checkpoint.write(self._monitors, self._finished)
        else:
            self.checkpoint.remove()

    @contextlib.contextmanager
    def _progress_bar(self, n_problems: int) -> Iterator[None]:
        if not self.verbose:
            yield
            return
        from tqdm.auto import tqdm

        with tqdm(total=n_problems, initial=len(self._finished), desc=self.title, unit="problem") as self._bar:
            yield
        self._bar = None

    def _warn(self, results: list[Result]) -> None:
        late = [k for k, result in enumerate(results) if not (result.converged or result.stopped == "stationary")]
        if not late:
            return
        worst = max(late, key=lambda k: _distance(results[k].certificate)[1])
        measure, distance = _distance(results[worst].certificate)
        why = results[worst].stopped
        reason = {
            "iterations": "max_iter was reached",
            "rounding": "no further progress was possible (rounding, or a kernel that is not positive semi-definite)",
            "settled": "the weights hardly changed any more, which proves nothing,",
            "time": "max_time was reached",
            "callback": "the callback asked to stop",
            "interrupted": "it was interrupted",
        }[why]
        many = "" if len(results) == 1 else f" in {len(late)} of {len(results)} problems, the worst number {worst}"
        warn_user(
            f"{self.title} did not converge{many}: {reason} at a relative {measure} of {distance:.2g}, above "
            f"tol={self.tol:.2g}. The model is usable but not certified to tol. Raise max_iter, max_time or tol, "
            "or fit again with warm_start=True to go on from here.",
            ConvergenceWarning,
        )


def _distance(certificate: Certificate) -> tuple[str, float]:
    """What says how far a solution is from done, and how far that is: the gap, or stationarity without a dual."""
    if math.isnan(certificate.dual) and not math.isnan(certificate.stationarity):
        return "stationarity", certificate.stationarity
    return "duality gap", certificate.relative_gap


def _progress_of(row: dict[str, Any]) -> str:
    """The same for a row of the history, in few words."""
    if math.isnan(row["gap"]) and "stationarity" in row:
        return f"stationarity {row['stationarity']:.1e}"
    return f"gap {row['relative_gap']:.1e}"
