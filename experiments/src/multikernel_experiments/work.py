"""What one process does in a run: build the stacks of a split, fit on it what is asked for, keep what is done."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

from multikernel.compare.results import MethodResult
from multikernel_experiments.archives import Archives, MissingArray
from multikernel_experiments.cells import Cells
from multikernel_experiments.fitting import run_entry
from multikernel_experiments.interruption import interruption
from multikernel_experiments.protocol import Entry, Protocol, Task

Found = tuple[Entry, dict[str, Any]]


@dataclass(frozen=True, eq=False)
class Work:
    """What every job of a run needs; sent to the processes that do them."""

    protocol: Protocol
    archives: Archives
    cells: Cells
    quick: bool


@dataclass(frozen=True, eq=False)
class Job:
    """Entries to be fitted on one split of one setting."""

    setting: str
    split: int
    entries: Sequence[tuple[Entry, Path]] = ()


# The archives, with what was made from them, and the task of the job before: the next is often on the same split.
_kept: dict[str, Any] = {}


def run_job(
    work: Work, job: Job, tell: Callable[[Entry, dict[str, Any]], None] = lambda entry, record: None
) -> list[Found]:
    """Fit what the job asks for, keep the cells, and return them; ``tell`` is called after each."""
    found: list[Found] = []
    with interruption() as check:
        start = time.perf_counter()
        try:
            task = _task(work, job.setting, job.split)
        except MissingArray as error:  # the other settings go on
            return [_failed(entry, str(error), tell) for entry, _ in job.entries]
        kernels = time.perf_counter() - start  # said once, by the first cell
        for entry, path in job.entries:
            record = _timed(partial(run_entry, work.protocol, entry.placed(job.setting, job.split), task, check))
            record["kernel_seconds"], kernels = kernels, 0.0
            check()  # a fit that was interrupted returns what it has: not to be kept
            if record["error"] is None:
                work.cells.write(path, record)
            found.append((entry, record))
            tell(entry, record)
    return found


def _failed(entry: Entry, reason: str, tell: Callable[[Entry, dict[str, Any]], None]) -> Found:
    """The record of an entry that could not be fitted; it is not kept."""
    record = {**asdict(MethodResult(entry.key, entry.title, error=reason)), "n_train": 0, "n_test": 0}
    record.update(seconds=0.0, kernel_names=[])
    tell(entry, record)
    return entry, record


def _timed(run: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """The record, with its time, and the cores that a fit could use."""
    from multikernel.runtime.clock import thread_count

    start = time.perf_counter()
    record = run()
    return {**record, "seconds": time.perf_counter() - start, "cores": thread_count()}


def _task(work: Work, setting: str, split: int) -> Task:
    """The task of a split, from what this process has already if it can be."""
    where = (work.archives.key, work.protocol.name, work.quick)
    if _kept.get("where") != where or _kept.get("protocol") is not work.protocol.task:
        _kept.clear()
        _kept.update(where=where, protocol=work.protocol.task, archives=work.archives)
    if _kept.get("place") != (setting, split):
        _kept.pop("task", None)  # not two at a time: stacks are large
        _kept["task"] = work.protocol.task(_kept["archives"], setting, split, work.quick)
        _kept["place"] = (setting, split)
    return _kept["task"]


@cache
def exit_with_parent(parent: int) -> None:
    """End this process soon after the one that started it has ended, even if that was killed."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1.0)
        os._exit(1)  # cells are written completely or not at all

    threading.Thread(target=watch, daemon=True).start()


def forget() -> None:
    """Let go of what this process keeps."""
    _kept.clear()
