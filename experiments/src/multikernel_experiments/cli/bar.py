"""Progress of an experiment on standard error: a bar on a terminal, lines elsewhere."""

from __future__ import annotations

import sys
from types import TracebackType
from typing import Any

from multikernel_experiments.progress import remaining


class CellBar:
    """Called with each `~multikernel_experiments.progress.Step`: a bar on a terminal, lines elsewhere."""

    def __init__(self, quiet: bool):
        self._quiet = quiet
        self._bar: Any = None

    def __enter__(self) -> CellBar:
        return self

    def line(self, text: str) -> None:
        """A line that stays."""
        if not self._quiet:
            print(text, file=sys.stderr, flush=True)

    def __call__(self, step: Any) -> None:
        if self._quiet:
            return
        if not sys.stderr.isatty():
            print(step, file=sys.stderr, flush=True)
            return
        if self._bar is None:
            from tqdm import tqdm

            layout = "{n_fmt}/{total_fmt} |{bar:24}| {elapsed}{desc}"
            self._bar = tqdm(total=step.total, bar_format=layout, file=sys.stderr, leave=False, dynamic_ncols=True)
        left = remaining(step.left)
        self._bar.set_description_str(f"{', ' * bool(left)}{left}  {step.text}", refresh=False)
        self._bar.update(step.done - self._bar.n)
        self._bar.refresh()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.close()
