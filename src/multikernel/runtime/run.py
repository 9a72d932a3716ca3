"""One run: a fit from start to finish, with its clock, threads, progress, callbacks, Ctrl-C and checkpoint."""

from __future__ import annotations

import contextlib
import logging
import math
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, wait
from contextvars import copy_context
from functools import partial
from typing import Any

import numpy as np
from joblib import effective_n_jobs
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

from multikernel.problems.certificate import Certificate
from multikernel.runtime.checkpoint import Checkpoint
from multikernel.runtime.clock import (
    UNLIMITED,
    Limit,
    OutOfTime,
    check,
    grace,
    late,
    leave_pool,
    left,
    take_pool,
    time_limit,
)
from multikernel.runtime.monitor import Monitor, Problem, Result
from multikernel.runtime.warnings import warn_user

logger = logging.getLogger(__name__)

State = tuple[NDArray, NDArray]
# A solver: problem, monitor, and the (weights, alpha) to start from or None.
Solver = Callable[[Any, Monitor, State | None], Any]

# Share of the remaining time that a search before the last fit may take.
SEARCH_SHARE = 0.8

WHY = {
    "iterations": "max_iter was reached",
    "rounding": "no further progress was possible (rounding, or a kernel that is not positive semi-definite)",
    "settled": "the weights hardly changed any more, which proves nothing,",
    "time": "max_time was reached",
    "callback": "the callback asked to stop",
    "interrupted": "it was interrupted",
}


class Run:
    """The context of one fit. The clock starts with the ``with`` block.

    When ``max_time`` seconds are up, those that a checkpoint tells of included, the best solutions so far are
    returned; without it, a limit around the run ends it with OutOfTime. ``n_jobs`` are threads over problems. The
    callback gets each history row, the problem's index under ``"problem"``; a true value stops the fit. Ctrl-C ends
    the fit with the best solutions so far if ``keep_interrupted``; if not, it is raised once solvers have stopped.
    """

    def __init__(
        self,
        title: str = "fit",
        tol: float = 1e-3,
        *,
        max_time: float | None = None,
        n_jobs: int | None = None,
        verbose: bool | int = False,
        callback: Callable[[dict[str, Any]], Any] | None = None,
        keep_interrupted: bool = True,
    ):
        self.title, self.tol, self.max_time, self.n_jobs, self.verbose = title, tol, max_time, n_jobs, verbose
        self.callback, self.keep_interrupted = callback, keep_interrupted
        self._checkpoint: Checkpoint | None = None
        self._lock = threading.RLock()
        self._interrupted = self._asked_to_stop = False
        self._bar: Any = None
        self._finished: set[int] = set()
        self._monitors: list[Monitor] = []
        self._limit: Limit = UNLIMITED

    def __enter__(self) -> Run:
        self._clock = time_limit(self.max_time)
        self._clock.__enter__()
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        self._clock.__exit__(None, None, None)
        if isinstance(error, OutOfTime) and self.max_time is not None:  # else the limit is somebody else's
            raise TimeoutError(
                f"{self.title} had no model yet when max_time={self.max_time:g} s ran out: computing the kernels and "
                "a first solution takes longer. Allow more time, or use fewer samples or kernels, or kernels with "
                "explicit features such as Nystroem(rank=200)."
            ) from None

    # -- before the last fit -----------------------------------------------------------------------------------

    @contextlib.contextmanager
    def search(self, total: int, unit: str, consequence: str, *, needed: int = 1) -> Iterator[Search]:
        """A search for parameters or for the best kernel, which may take most of the remaining time.

        When that is up, or with Ctrl-C, it ends with what it has, and a warning; by the exception if fewer items
        than ``needed`` are done.
        """
        search = Search()
        with self._progress_bar(total, unit):
            search.bar = self._bar
            try:
                with time_limit(SEARCH_SHARE * left()):
                    yield search
            except (KeyboardInterrupt, OutOfTime) as end:
                interrupted = isinstance(end, KeyboardInterrupt)
                if search.done < needed or not (self.keep_interrupted if interrupted else self.max_time is not None):
                    raise
                search.complete = False
                why = "it was interrupted" if interrupted else "max_time was nearly used up"
                warn_user(
                    f"{self.title} finished only {search.done} of {total} {unit}s: {why}. {consequence}",
                    ConvergenceWarning,
                )

    # -- the last fit ------------------------------------------------------------------------------------------

    def solve(
        self,
        problems: Sequence[Any],
        solver: Solver,
        starts: Sequence[State | None] | None = None,
        *,
        checkpoint: Checkpoint | None = None,
        patience: int | None = None,
    ) -> list[Result]:
        """Solve every problem, from the solutions in ``starts`` if there are any.

        The checkpoint is read at the start if the file is there, written every few seconds and after each problem,
        and removed at the end unless time ran out, or the fit was interrupted or failed. ``patience`` is how many
        iterations, beside one per kernel, may leave a gap as it is before a solver is stopped.
        """
        self._checkpoint = checkpoint
        self._monitors = [Monitor(p, self.tol, on_record=partial(self._watch, k)) for k, p in enumerate(problems)]
        for monitor, problem in zip(self._monitors, problems):
            monitor.patience = None if patience is None else patience + problem.n_kernels
            monitor.resumable = checkpoint is not None
            monitor.overdue, monitor.write = self._overdue, self._write_checkpoint
        if checkpoint is not None:
            self._finished = checkpoint.restore(self._monitors)
        spent = sum(monitor.elapsed for monitor in self._monitors)
        with time_limit(None if self.max_time is None else self.max_time - spent) as self._limit:
            with self._progress_bar(len(problems), "problem", len(self._finished)):
                try:
                    self._solve_all(problems, solver, starts or [None] * len(problems))
                except BaseException:
                    self._write_checkpoint()
                    raise
            self.callback = None  # whoever asked to stop is not called again
            with grace():
                results = [self._result(*pair) for pair in zip(self._monitors, problems)]
        if any(result.stopped in ("interrupted", "time", "callback") for result in results):
            self._write_checkpoint()
        elif checkpoint is not None:
            checkpoint.remove()
        for k, result in enumerate(results):
            what = self.title, k, result.stopped, result.n_iter, result.certificate.relative_gap
            logger.info("%s, problem %d: %s after %d iterations, gap %.2g", *what)
        self._warn(results)
        return results

    def _result(self, monitor: Monitor, problem: Problem) -> Result:
        """The best solution; for a problem that was never begun, a start that costs nothing, with its honest gap."""
        with contextlib.suppress(OutOfTime):
            if monitor.best is None:
                monitor(*problem.start())
                monitor.stopped = self._reason()
            if monitor.intercept is None and hasattr(problem, "intercept"):
                assert monitor.best is not None
                monitor.intercept = problem.intercept(*monitor.best)
        return monitor.result()

    def _solve_all(self, problems: Sequence[Problem], solver: Solver, starts: Sequence[State | None]) -> None:
        submitted = threading.Event()

        def work(k: int) -> None:
            monitor = self._monitors[k]
            submitted.wait()  # an executor that is interrupted while it starts a thread would not join that thread
            try:
                check()
                solver(problems[k], monitor, starts[k] if monitor.current is None else monitor.current)
            except KeyboardInterrupt:  # raised by a callback: it means the same as Ctrl-C in the main thread
                self._interrupt()
                monitor.stopped = self._reason()
            except OutOfTime as end:
                monitor.stopped = self._reason()
                if isinstance(end.reached, tuple) and end.reached[1] is not None:
                    with contextlib.suppress(OutOfTime):
                        monitor(*problems[k].repaired(*end.reached))
            self._finish(k)

        todo = [k for k in range(len(problems)) if k not in self._finished]
        # Solvers run on other threads, so that Ctrl-C reaches this one at once; their monitors then stop them.
        futures: list[Future] = []
        n_threads = 1 if len(problems) < 2 else min(effective_n_jobs(self.n_jobs), len(problems))
        pool = take_pool(n_threads)
        try:
            futures.extend(pool.submit(copy_context().run, work, k) for k in todo)
            submitted.set()
            # Python may miss a signal that comes as it begins to wait, and on Windows all of them until the end
            while wait(futures, timeout=0.2, return_when=FIRST_EXCEPTION).not_done and not _failed(futures):
                pass
        except KeyboardInterrupt:
            self._interrupt()
        except BaseException:  # raised by a signal's handler, such as that of an alarm
            self._limit.end()
            raise
        finally:
            submitted.set()
            if _failed(futures):
                self._limit.end()
            if len(futures) == len(todo):
                wait(futures)
                leave_pool(pool, n_threads)
            else:  # there may be one that was not returned
                pool.shutdown()
        for future in futures:
            future.result()
        if self._interrupted and not self.keep_interrupted:
            raise KeyboardInterrupt
        if self.max_time is None and self._reason() == "time":
            check()  # the limit is somebody else's, and so is the decision what to do with half a solution

    def _watch(self, k: int, row: dict[str, Any], monitor: Monitor) -> bool:
        """Tell everybody about an iteration of problem k; true to stop."""
        row["problem"] = k
        logger.debug("%s, problem %d: objective %.9g, gap %.2g", self.title, k, row["objective"], row["gap"])
        with self._lock:
            if self._bar is not None:
                measure = "stationarity" if math.isnan(row["gap"]) and "stationarity" in row else "relative_gap"
                name = measure.removeprefix("relative_")
                self._bar.set_postfix_str(f"objective {row['objective']:.5g}, {name} {row[measure]:.1e}")
            if self._overdue():
                self._write_checkpoint()
            if self.callback is not None and self.callback(row):
                self._asked_to_stop = True
                self._limit.end()
        if late():
            monitor.stopped = self._reason()
        return late()

    def _interrupt(self) -> None:
        self._interrupted = True
        self._limit.end()

    def _reason(self) -> str:
        return "interrupted" if self._interrupted else "callback" if self._asked_to_stop else "time"

    def _finish(self, k: int) -> None:
        with self._lock:
            if not late() or self._monitors[k].stopped in ("converged", "stationary"):
                self._finished.add(k)
            if self._bar is not None:
                self._bar.update()
            if len(self._monitors) > 1:
                self._write_checkpoint()

    def _overdue(self) -> bool:
        return self._checkpoint is not None and self._checkpoint.due()

    def _write_checkpoint(self) -> None:
        with self._lock:
            if self._checkpoint is not None:
                self._checkpoint.write(self._monitors, self._finished)

    @contextlib.contextmanager
    def _progress_bar(self, total: int, unit: str, initial: int = 0) -> Iterator[None]:
        if not self.verbose:
            yield
            return
        from tqdm.auto import tqdm

        with tqdm(total=total, initial=initial, desc=self.title, unit=unit) as self._bar:
            yield
        self._bar = None

    def _warn(self, results: list[Result]) -> None:
        short = [k for k, result in enumerate(results) if not (result.converged or result.stopped == "stationary")]
        if not short:
            return
        worst = max(short, key=lambda k: _distance(results[k].certificate)[1])
        measure, distance = _distance(results[worst].certificate)
        many = "" if len(results) == 1 else f" in {len(short)} of {len(results)} problems (worst: number {worst})"
        why, meaning = WHY[results[worst].stopped], _meaning(results[worst])
        warn_user(
            f"{self.title} did not converge{many}: {why} at a relative {measure} of {distance:.2g}, above "
            f"tol={self.tol:.2g}. {meaning}Raise max_iter, max_time or tol, or fit again with warm_start=True to "
            "continue from here.",
            ConvergenceWarning,
        )


class Search:
    """How far a search has come."""

    def __init__(self) -> None:
        self.done, self.complete = 0, True
        self.bar: Any = None
        self._lock = threading.Lock()

    def advance(self) -> None:
        """Count one more item; from any thread."""
        with self._lock:
            self.done += 1
            if self.bar is not None:
                self.bar.update()


def _failed(futures: list[Future]) -> bool:
    return any(future.done() and future.exception() for future in futures)


def _distance(certificate: Certificate) -> tuple[str, float]:
    """Name and value of the distance from convergence: the gap, or stationarity where there is no dual."""
    if math.isnan(certificate.dual) and not math.isnan(certificate.stationarity):
        return "stationarity", certificate.stationarity
    return "duality gap", certificate.relative_gap


def _meaning(result: Result) -> str:
    """What a solution that missed tol is worth, as a sentence; empty where nothing is known."""
    gap = result.certificate.relative_gap
    if not np.any(result.alpha) or gap >= 1.0:
        return "The model is untrained: it may be no better than a constant. "
    return "" if math.isnan(gap) else f"The optimum is at most {100 * gap:.2g} % below its objective. "
