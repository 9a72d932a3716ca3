"""What a fit may take: time, in limits that nest, that threads inherit and that end any loop; and cores.

Whatever may take long calls :func:`check` now and then. It need not know who set a limit, or why. Compiled functions,
which release the GIL, run on all cores, BLAS on one.
"""

from __future__ import annotations

import contextlib
import math
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextvars import ContextVar, copy_context
from functools import cache
from itertools import pairwise
from typing import Any

import joblib
import numpy as np
from numpy.typing import NDArray
from scipy.linalg import lapack
from threadpoolctl import ThreadpoolController

# Seconds for what must be done even if time is up: kernels of small data, the proof of the last solution, its bias.
GRACE = 0.5
# Entries of kernel rows that compiled steps go over between two looks at the clock: a quarter of a second.
ENTRIES_AT_ONCE = 10**8

# Rows from which on a factorisation that is to end in time is made of parts, and the columns of a part. As a whole it
# is a quarter faster.
LARGE, PANEL = 5000, 512

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


def cholesky(A: NDArray) -> tuple[NDArray, int]:
    """Lower Cholesky factor of A, which is in Fortran order and is overwritten; and 0 unless it failed."""
    n = len(A)
    if n < LARGE or left() == np.inf:
        return lapack.dpotrf(A, lower=1, overwrite_a=1, clean=0)
    for start in range(0, n, PANEL):
        stop = min(start + PANEL, n)
        factor, failed = lapack.dpotrf(A[start:stop, start:stop], lower=1, clean=0)
        if failed:
            return A, start + failed
        A[start:stop, start:stop] = factor
        A[stop:, start:stop] = lapack.dtrtrs(factor, A[stop:, start:stop].T, lower=1)[0].T
        for first in range(stop, n, PANEL):
            check()
            last = min(first + PANEL, n)
            A[first:, first:last] -= (A[first:last, start:stop] @ A[first:, start:stop].T).T
    return A, 0


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


_idle: dict[int, list[ThreadPoolExecutor]] = {}


def take_pool(n_threads: int) -> ThreadPoolExecutor:
    """A pool for one fit: one that an earlier fit left behind (:func:`leave_pool`), or a new one."""
    try:
        return _idle[n_threads].pop()
    except (KeyError, IndexError):
        return ThreadPoolExecutor(n_threads, thread_name_prefix="multikernel-fit")


def leave_pool(pool: ThreadPoolExecutor, n_threads: int) -> None:
    """Keep a pool with nothing left to do for the next fit: starting threads takes as long as a small fit."""
    _idle.setdefault(n_threads, []).append(pool)


# A forked child has none of its parent's threads, and would wait for them forever.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pool.cache_clear)
    os.register_at_fork(after_in_child=_idle.clear)

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


_one_thread = False  # whether a block of one_blas_thread is at work


@contextlib.contextmanager
def one_blas_thread() -> Iterator[None]:
    """Limit BLAS to one thread inside a ``with`` block: for many small factorisations.

    Handing each to several threads costs more than it saves, and a hundred times as much where the cores are busy
    with something else (OpenBLAS threads wait for each other in a loop). The limit holds for the whole process. It
    belongs to the first thread that sets it; in others the block does nothing, so whoever starts threads sets it
    before.
    """
    global _one_thread
    if _one_thread:  # asking the libraries takes a third of a millisecond
        yield
        return
    _one_thread = True
    try:
        with _blas().limit(limits=1, user_api="blas"):
            yield
    finally:
        _one_thread = False
