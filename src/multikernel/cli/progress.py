"""Progress on standard error: a bar on a terminal, a few lines elsewhere."""

from __future__ import annotations

import contextlib
import logging
import sys
import threading
import time
from typing import Any

# Seconds until something is shown, whatever is at work; then it is every second, or ever more rarely in a log.
FIRST = 0.8


class ProgressBar(logging.Handler):
    """Called as ``progress(what, done, total)``; shows nothing when quiet.

    Between calls a thread says what goes on: that code is compiled, or what a solver, to whose log the bar
    listens, has reached.
    """

    def __init__(self, quiet: bool, what: str = "starting", total: int = 1):
        super().__init__(logging.DEBUG)
        self._quiet = quiet
        self._bar: Any = None
        self._shown = 0
        self._state = (what, 0, total)
        self._reached = ""
        self._logger = logging.getLogger("multikernel")
        self._over, self._drawing = threading.Event(), threading.Lock()

    def __enter__(self) -> ProgressBar:
        if not self._quiet:
            self._level = self._logger.level
            self._logger.addHandler(self)
            self._logger.setLevel(logging.DEBUG)
            self._thread = threading.Thread(target=self._beat, daemon=True)
            self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        if self._quiet:
            return
        self._over.set()
        self._thread.join()
        self._logger.removeHandler(self)
        self._logger.setLevel(self._level)
        if self._bar is not None:
            self._bar.close()

    def emit(self, record: logging.LogRecord) -> None:
        self._reached = record.getMessage()

    def __call__(self, what: str, done: int, total: int) -> None:
        if self._quiet:
            return
        with self._drawing:
            self._state = (what, done, total)
            if sys.stderr.isatty():
                self._draw(what)
                return
            fifth = 5 * done // max(total, 1)
            if fifth > self._shown:  # a line for every fifth of the work: logs should stay short
                self._shown = fifth
                print(f"{20 * fifth:3d} %  {what}", file=sys.stderr, flush=True)

    def _beat(self) -> None:
        started, pause = time.monotonic(), FIRST
        while not self._over.wait(pause):
            # an interpreter that waits for its end, or a stream that was closed, is none of a thread's business
            with self._drawing, contextlib.suppress(OSError, ValueError):
                text = f"{self._state[0]}: {'compiling' if _compiling() else self._reached or 'at work'}"
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


def _compiling() -> bool:
    """Whether a function is being compiled; no reason to load the compiler."""
    jit = sys.modules.get("multikernel.compiled.jit")
    return jit is not None and hasattr(jit, "compilations") and jit.compilations.running > 0
