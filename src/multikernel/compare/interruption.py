"""Notice Ctrl-C even when a fit catches it to return what it has."""

from __future__ import annotations

import signal
import threading
from types import FrameType, TracebackType
from typing import Any


class Interruption:
    """Context in which an interrupt is remembered, and raised again by `check`.

    A fit that is interrupted stops early and returns a model that is usable but not finished. Whoever runs
    many fits must know, to end and not to count that model. Outside the main thread nothing is remembered.
    """

    def __init__(self) -> None:
        self._asked = False
        self._previous: Any = None

    def __enter__(self) -> Interruption:
        if threading.current_thread() is threading.main_thread():
            self._previous = signal.getsignal(signal.SIGINT)
            if callable(self._previous):
                signal.signal(signal.SIGINT, self._remember)
        return self

    def _remember(self, number: int, frame: FrameType | None) -> None:
        self._asked = True
        self._previous(number, frame)

    def check(self) -> None:
        """Raise KeyboardInterrupt if there was one."""
        if self._asked:
            raise KeyboardInterrupt

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if callable(self._previous):
            signal.signal(signal.SIGINT, self._previous)
