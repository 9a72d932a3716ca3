"""Ctrl-C during many fits, some of which would return what they have."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any


@contextmanager
def interruption() -> Iterator[Callable[[], None]]:
    """Context that remembers Ctrl-C, on the main thread; gives a function that raises it again.

    A fit that is interrupted returns a model that is usable but not finished: whoever runs many must not count it.
    """
    asked = False
    previous: Any = signal.getsignal(signal.SIGINT)
    listens = callable(previous) and threading.current_thread() is threading.main_thread()

    def remember(number: int, frame: FrameType | None) -> None:
        nonlocal asked
        asked = True
        previous(number, frame)

    def check() -> None:
        if asked:
            raise KeyboardInterrupt

    if listens:
        signal.signal(signal.SIGINT, remember)
    try:
        yield check
    finally:
        if listens:
            signal.signal(signal.SIGINT, previous)
