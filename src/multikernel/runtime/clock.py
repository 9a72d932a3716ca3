"""One clock for everything that a fit does: limits that nest, that threads inherit, and that end any loop.

Whatever may take long calls :func:`check` now and then. It need not know who set a limit, or why.
"""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Iterator
from contextvars import ContextVar
from typing import Any

# Seconds for what must be done even if time is up: kernels of small data, the proof of the last solution, its bias.
GRACE = 0.5
# Entries of kernel rows that compiled steps go over between two looks at the clock: a quarter of a second.
ENTRIES_AT_ONCE = 10**8

now = time.monotonic


class OutOfTime(BaseException):
    """Time is up, or somebody asked to stop. Like KeyboardInterrupt, it is not for ``except Exception``.

    ``reached`` is what was interrupted leaves behind, if anything: an alpha that is feasible, if not optimal.
    """

    reached: Any = None


class Limit:
    """A point in time, no later than that of the limit around it, but not before ``least``."""

    def __init__(self, ends: float = math.inf, around: Limit | None = None, least: float = -math.inf):
        self.ends, self.around, self.least = ends, around, least

    @property
    def deadline(self) -> float:
        around = math.inf if self.around is None else self.around.deadline
        return max(min(self.ends, around), self.least)

    def end(self) -> None:
        """End the time now: for whoever asks to stop, on any thread."""
        self.ends = min(self.ends, now())


UNLIMITED = Limit()
_limit: ContextVar[Limit] = ContextVar("limit", default=UNLIMITED)


@contextlib.contextmanager
def time_limit(seconds: float | None) -> Iterator[Limit]:
    """Limit the ``with`` block to so many seconds; None leaves it to the limit around it."""
    with _limited(Limit(math.inf if seconds is None else now() + seconds, _limit.get())) as limit:
        yield limit


@contextlib.contextmanager
def grace() -> Iterator[None]:
    """Give the ``with`` block at least ``GRACE`` seconds, however late it is; nested blocks share them."""
    around = _limit.get()
    granted = around if around.least > -math.inf else Limit(around=around, least=now() + GRACE)
    with _limited(granted):
        yield


@contextlib.contextmanager
def _limited(limit: Limit) -> Iterator[Limit]:
    token = _limit.set(limit)
    try:
        yield limit
    finally:
        _limit.reset(token)


def left() -> float:
    """Seconds left, at least zero; infinite without a limit."""
    return max(_limit.get().deadline - now(), 0.0)


def late() -> bool:
    """Whether time is up."""
    limit = _limit.get()
    return limit is not UNLIMITED and now() >= limit.deadline


def check() -> None:
    """Raise OutOfTime if time is up; it costs a microsecond."""
    if late():
        raise OutOfTime
