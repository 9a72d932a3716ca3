"""Compiled functions, which release the GIL, on all cores; BLAS on one."""

import os
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import AbstractContextManager
from contextvars import copy_context
from functools import cache
from itertools import pairwise
from typing import Any

import joblib
from threadpoolctl import ThreadpoolController

from multikernel.runtime.clock import check

# Elementary operations between two looks at the clock, on a single thread: a fraction of a second.
MOST_AT_ONCE = 2e8

_cores = cache(joblib.cpu_count)  # asking the system takes a millisecond or more


def thread_count() -> int:
    """Threads to use: every core, unless ``OMP_NUM_THREADS`` (which joblib sets in its workers) says less."""
    limit = os.environ.get("OMP_NUM_THREADS", "")
    return max(1, min(_cores(), int(limit)) if limit.isdigit() else _cores())


@cache
def _pool(n_threads: int) -> ThreadPoolExecutor:
    """A pool that stays: starting threads for every call costs more than many calls take."""
    return ThreadPoolExecutor(n_threads, thread_name_prefix="multikernel")


# A forked child has none of its parent's threads, and would wait for them forever.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pool.cache_clear)

_here = threading.local()


def map_threads(function: Callable[..., Any], arguments: Iterable[tuple], n_threads: int | None = None) -> list:
    """Call ``function(*a)`` for each tuple of arguments on threads; results in order.

    On a thread that is already at work for such a call everything is done by that thread: the cores are taken. No
    call is begun once time is up, and none is at work any more when this one ends, be it by an exception.
    """
    arguments = list(arguments)
    n_threads = thread_count() if n_threads is None else n_threads
    if min(n_threads, len(arguments)) <= 1 or getattr(_here, "busy", False):
        return [_checked(function, a) for a in arguments]

    def call(a: tuple) -> Any:
        _here.busy = True
        try:
            return _checked(function, a)
        finally:
            _here.busy = False

    futures = [_pool(n_threads).submit(copy_context().run, call, a) for a in arguments]
    try:
        return [future.result() for future in futures]
    except BaseException:
        for future in futures:
            future.cancel()
        wait(futures)
        raise


def _checked(function: Callable[..., Any], arguments: tuple) -> Any:
    check()
    return function(*arguments)


def over_rows(function: Callable[[int, int], Any], n_rows: int, *, work: float = float("inf")) -> list:
    """Call ``function(start, stop)`` on ranges that cover ``n_rows``, on threads.

    ``work`` is the number of elementary operations in all: below a hundred thousand handing them to threads costs
    more than it saves, and one call does everything.
    """
    n_threads = thread_count()
    few = n_threads == 1 and work < MOST_AT_ONCE
    if work < 1e5 or few or n_rows < 2:
        return [function(0, n_rows)]
    # a few ranges per thread, so that a thread that is held up does not hold up the rest
    n_ranges = max(4 * n_threads, int(min(work / MOST_AT_ONCE, 1000)))
    bounds = [n_rows * k // n_ranges for k in range(n_ranges + 1)]
    return map_threads(function, [(a, b) for a, b in pairwise(bounds) if a < b], n_threads)


@cache
def _blas() -> ThreadpoolController:
    # finding the libraries takes milliseconds: once per process, after SciPy has loaded its own
    import scipy.linalg.lapack  # noqa: F401

    return ThreadpoolController()


def one_blas_thread() -> AbstractContextManager:
    """Limit BLAS to one thread inside a ``with`` block: for many small factorisations.

    Handing each to several threads costs more than it saves, and a hundred times as much where the cores are busy
    with something else (OpenBLAS threads wait for each other in a loop). The limit holds for the whole process. It
    belongs to the first thread that sets it; in others the block does nothing, so whoever starts threads sets it
    before.
    """
    return _blas().limit(limits=1, user_api="blas")
