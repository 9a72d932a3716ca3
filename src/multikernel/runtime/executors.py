"""Where blocks of rows are worked on: by one thread, by several, or by the workers of a Dask cluster."""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache, reduce
from typing import Any

from multikernel.runtime.clock import check, map_threads, one_blas_thread, thread_count

# Partial sums that are added up by one task.
FAN = 16
# Options of glibc's mallopt, and how many freed bytes a worker keeps.
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3
KEPT_BYTES = 1 << 26


class Executor:
    """Calls a function on every block, and adds the results up; this one on threads of this process.

    A *part* is a function and arguments that make a block. What stands for the blocks is up to the executor. Sums are
    taken in the order of the blocks, whatever order they are done in.
    """

    local = True  # whether blocks are in this process

    def __init__(self, n_threads: int | None = None):
        self.n_threads = thread_count() if n_threads is None else n_threads

    def share(self, value: Any) -> Any:
        """Something that many calls get, in a form that travels once."""
        return value

    def make(self, parts: Sequence[tuple[Callable[..., Any], tuple]]) -> list[Any]:
        """The blocks."""
        return self._each(_call, parts)

    def map(
        self, function: Callable[..., Any], blocks: Sequence[Any], *shared: Any, own: Sequence[Any] | None = None
    ) -> list[Any]:
        """``function(block, *shared)`` of each block, which takes its place; what is its own comes after it."""
        return self._each(function, _arguments(blocks, shared, own))

    def collect(
        self, function: Callable[..., Any], blocks: Sequence[Any], *shared: Any, own: Sequence[Any] | None = None
    ) -> list[Any]:
        """The same, the results here."""
        return self.map(function, blocks, *shared, own=own)

    def total(self, function: Callable[..., tuple], blocks: Sequence[Any], *shared: Any) -> tuple:
        """Sums of ``function(block, *shared)``, a tuple, over the blocks."""
        return added(self.map(function, blocks, *shared))

    def _each(self, function: Callable[..., Any], arguments: Sequence[tuple]) -> list[Any]:
        with one_blas_thread():
            return map_threads(function, arguments, self.n_threads)


class DaskExecutor(Executor):
    """Blocks are on the workers of a cluster, and made again where a worker is lost.

    In a pass a worker gets what is shared once for each of its threads, and hands back one sum: its traffic does not
    grow with the number of rows or blocks.

    Parameters
    ----------
    client : distributed.Client
    """

    local = False

    def __init__(self, client: Any):
        self.client = client
        workers = client.scheduler_info(n_workers=-1)["workers"]
        if not workers:
            raise RuntimeError(f"the cluster of {client} has no workers: start some first.")
        self.places = [address for address, info in sorted(workers.items()) for _ in range(info["nthreads"])]

    def make(self, parts: Sequence[tuple[Callable[..., Any], tuple]]) -> list[Any]:
        n = len(parts)
        return [
            self.client.submit(
                _made,
                function,
                *arguments,
                pure=False,
                workers=[self.places[k * len(self.places) // n]],
                allow_other_workers=True,
            )
            for k, (function, arguments) in enumerate(parts)
        ]

    def share(self, value: Any) -> Any:
        return self.client.submit(_itself, value, pure=False)  # a task, which the scheduler can do again

    def map(
        self, function: Callable[..., Any], blocks: Sequence[Any], *shared: Any, own: Sequence[Any] | None = None
    ) -> list[Any]:
        return [self.client.submit(function, *given, pure=False) for given in _arguments(blocks, shared, own)]

    def collect(
        self, function: Callable[..., Any], blocks: Sequence[Any], *shared: Any, own: Sequence[Any] | None = None
    ) -> list[Any]:
        return self._gather(self.map(function, blocks, *shared, own=own))

    def total(self, function: Callable[..., tuple], blocks: Sequence[Any], *shared: Any) -> tuple:
        n = min(len(self.places), len(blocks))
        groups = [blocks[k * len(blocks) // n : (k + 1) * len(blocks) // n] for k in range(n)]
        sums = [self.client.submit(_total, function, list(group), shared, pure=False) for group in groups]
        while len(sums) > FAN:
            sums = [self.client.submit(added, sums[k : k + FAN], pure=False) for k in range(0, len(sums), FAN)]
        return added(self._gather(sums))

    def _gather(self, futures: list[Any]) -> list[Any]:
        from distributed import wait
        from distributed.utils import TimeoutError as NotYet

        try:
            while True:
                check()
                try:
                    with self.client.as_current():
                        wait(futures, timeout=1.0)
                    return self.client.gather(futures)
                except (NotYet, TimeoutError):
                    continue
        except BaseException:
            self.client.cancel(futures)
            raise


def _arguments(blocks: Sequence[Any], shared: tuple, own: Sequence[Any] | None) -> list[tuple]:
    return [(block, *shared) for block in blocks] if own is None else [(b, o, *shared) for b, o in zip(blocks, own)]


def _itself(value: Any) -> Any:
    return value


def _made(function: Callable[..., Any], *arguments: Any) -> Any:
    keep_freed_memory()
    return function(*arguments)


@cache
def keep_freed_memory() -> None:
    """Let glibc keep some memory that is freed, as it does unless told otherwise.

    Dask tells it to give all back at once. Fetching it again for every temporary array doubled the time of features.
    """
    with suppress(AttributeError, OSError, TypeError):
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(M_MMAP_THRESHOLD, KEPT_BYTES // 2)
        mallopt(M_TRIM_THRESHOLD, KEPT_BYTES)


def _call(function: Callable[..., Any], arguments: tuple) -> Any:
    return function(*arguments)


def _total(function: Callable[..., tuple], blocks: list[Any], shared: tuple) -> tuple:
    return added([function(block, *shared) for block in blocks])


def added(sums: Sequence[tuple]) -> tuple:
    """Tuples of arrays, added entry by entry."""
    return reduce(lambda a, b: tuple(x + y for x, y in zip(a, b)), sums)


def executor_for(executor: Any = None) -> Executor:
    """What an estimator's ``executor=`` stands for: None is the active Dask client if there is one, else threads.

    Parameters
    ----------
    executor : distributed.Client, address of a scheduler, "threads", "serial", or None

    Examples
    --------
    >>> executor_for("serial").n_threads
    1
    """
    if isinstance(executor, Executor):
        return executor
    if executor is None and (executor := active_client()) is None:
        return Executor()
    if executor in ("threads", "serial"):
        return Executor(1 if executor == "serial" else None)
    if isinstance(executor, str):
        client = connected(executor, set_as_default=False)  # nobody else's: it is closed with what uses it
        found = DaskExecutor(client)
        weakref.finalize(found, client.close)
        return found
    if not hasattr(executor, "scheduler_info"):
        raise TypeError(
            f"executor={executor!r} is no distributed.Client, address of a scheduler, 'threads', 'serial' or None."
        )
    return DaskExecutor(executor)


def active_client() -> Any:
    """The client that is in use, if any; nothing is imported to find out.

    Inside a task there is none: one that waits for others takes the place that these need.
    """
    import sys

    if "distributed" not in sys.modules:
        return None
    from distributed import default_client, get_worker

    with suppress(ValueError):
        get_worker()
        return None
    with suppress(ValueError):
        return default_client()
    return None


def connected(address: str, **options: Any) -> Any:
    """A client of the scheduler at an address; an error that says so if there is none."""
    try:
        from distributed import Client
    except ImportError:
        raise ImportError('a scheduler needs distributed: pip install "multikernel[distributed]".') from None
    try:
        return Client(address, timeout=5, **options)
    except (OSError, ValueError, TimeoutError) as error:
        raise ConnectionError(
            f"the scheduler at {address} cannot be reached ({error}): check the address, and that `dask scheduler` "
            "runs there."
        ) from error
