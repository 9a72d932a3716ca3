"""Progress on standard error: a bar on a terminal, a few lines elsewhere."""

from __future__ import annotations

import sys
from types import TracebackType
from typing import Any


class ProgressBar:
    """Called as ``progress(what, done, total)``; shows nothing when quiet."""

    def __init__(self, quiet: bool):
        self._quiet = quiet
        self._bar: Any = None
        self._shown = 0

    def __enter__(self) -> ProgressBar:
        return self

    def __call__(self, what: str, done: int, total: int) -> None:
        if self._quiet:
            return
        if not sys.stderr.isatty():
            self._print(what, done, total)
            return
        if self._bar is None:
            from tqdm import tqdm

            layout = "{percentage:3.0f}% |{bar:24}| {elapsed}<{remaining}  {desc}"
            self._bar = tqdm(total=total, bar_format=layout, file=sys.stderr, leave=False, dynamic_ncols=True)
        self._bar.set_description_str(what, refresh=False)
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
        if self._bar is not None:
            self._bar.close()
