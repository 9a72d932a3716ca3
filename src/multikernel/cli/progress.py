"""Progress on standard error: a bar on a terminal, a few lines elsewhere."""

from __future__ import annotations

import contextlib
import logging
import sys
import threading
import time
from types import TracebackType
from typing import Any

# Seconds until something is shown, whatever is at work; then it is every second, or ever more rarely in a log.
FIRST = 0.8


class ProgressBar:
    """Called as ``progress(what, done, total)``; shows nothing when quiet.

    Between calls a thread says what goes on: that code is compiled, or what a solver has reached.
    """

    def __init__(self, quiet: bool, what: str = "starting", total: int = 1):
        self._quiet = quiet
        self._bar: Any = None
        self._shown = 0
        self._state = (what, 0, total)
        self._reached = LastMessage()
        self._over, self._lock = threading.Event(), threading.Lock()

    def __enter__(self) -> ProgressBar:
        self._thread = threading.Thread(target=self._beat, daemon=True)
        if not self._quiet:
            self._reached.listen()
            self._thread.start()
        return self

    def __call__(self, what: str, done: int, total: int) -> None:
        if self._quiet:
            return
        with self._lock:
            self._state = (what, done, total)
            if sys.stderr.isatty():
                self._draw(what)
            else:
                self._print(what, done, total)

    def _beat(self) -> None:
        started, pause = time.monotonic(), FIRST
        while not self._over.wait(pause):
            # an interpreter that waits for its end, or a stream that was closed, is none of a thread's business
            with self._lock, contextlib.suppress(OSError, ValueError):
                text = f"{self._state[0]}: {'compiling' if _compiling() else self._reached.text or 'at work'}"
                if sys.stderr.isatty():
                    pause = 1.0
                    self._draw(text)
                    self._bar.refresh()
                else:
                    spent = time.monotonic() - started
                    pause = max(spent, 1.0)
                    print(f"{spent:3.0f} s  {text}", file=sys.stderr, flush=True)

    def _draw(self, text: str) -> None:
        _, done, total = self._state
        if self._bar is None:
            from tqdm import tqdm

            layout = "{percentage:3.0f}% |{bar:24}| {elapsed}<{remaining}  {desc}"
            self._bar = tqdm(total=total, bar_format=layout, file=sys.stderr, leave=False, dynamic_ncols=True)
        self._bar.set_description_str(text, refresh=False)
        self._bar.update(done - self._bar.n)

    def _print(self, what: str, done: int, total: int) -> None:
        """A line for every fifth of the work: logs should stay short."""
        fifth = 5 * done // max(total, 1)
        if fifth > self._shown:
            self._shown = fifth
            print(f"{20 * fifth:3d} %  {what}", file=sys.stderr, flush=True)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        if not self._quiet:
            self._thread.join()
            self._reached.ignore()
        if self._bar is not None:
            self._bar.close()


class LastMessage(logging.Handler):
    """What solvers said last of their progress."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.text = ""
        self._logger = logging.getLogger("multikernel.runtime.session")

    def listen(self) -> None:
        """Begin to listen."""
        self._level = self._logger.level
        self._logger.addHandler(self)
        self._logger.setLevel(logging.DEBUG)

    def ignore(self) -> None:
        """Listen no more."""
        self._logger.removeHandler(self)
        self._logger.setLevel(self._level)

    def emit(self, record: logging.LogRecord) -> None:
        self.text = record.getMessage()


def _compiling() -> bool:
    """Whether a function is being compiled; no reason to load the compiler."""
    jit = sys.modules.get("multikernel.compiled.jit")
    return jit is not None and hasattr(jit, "compilations") and jit.compilations.running > 0
