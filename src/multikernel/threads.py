"""Run a compiled function that releases the GIL over ranges of rows, on all cores."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from itertools import pairwise
from typing import Any

import joblib

_cores = cache(joblib.cpu_count)  # asking the system takes a millisecond or more


def thread_count() -> int:
    """Threads to use: every core, unless ``OMP_NUM_THREADS`` (which joblib sets in its workers) says less."""
    limit = os.environ.get("OMP_NUM_THREADS", "")
    return max(1, min(_cores(), int(limit)) if limit.isdigit() else _cores())


def map_threads(function: Callable[..., Any], arguments: Iterable[tuple], n_threads: int | None = None) -> list:
    """Call ``function(*a)`` for each tuple of arguments on threads; results in order.

    Examples
    --------
    >>> from multikernel.threads import map_threads
    >>> map_threads(pow, [(2, 3), (3, 2)])
    [8, 9]
    """
    arguments = list(arguments)
    n_threads = min(thread_count() if n_threads is None else n_threads, len(arguments))
    if n_threads <= 1:
        return [function(*a) for a in arguments]
    with ThreadPoolExecutor(n_threads) as pool:
        return list(pool.map(lambda a: function(*a), arguments))


def over_rows(function: Callable[[int, int], Any], n_rows: int, *, work: float = float("inf")) -> list:
    """Call ``function(start, stop)`` on ranges that cover ``n_rows``, on threads.

    ``work`` is the number of elementary operations in all: below a hundred thousand starting threads
    costs more than it saves, and one call does everything.
    """
    n_threads = thread_count()
    if work < 1e5 or n_threads == 1 or n_rows < 2:
        return [function(0, n_rows)]
    # a few ranges per thread, so that a thread that is held up does not hold up the rest
    bounds = [n_rows * k // (4 * n_threads) for k in range(4 * n_threads + 1)]
    return map_threads(function, [(a, b) for a, b in pairwise(bounds) if a < b], n_threads)
