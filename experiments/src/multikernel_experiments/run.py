"""Run a protocol: every cell that is not finished yet, then tables, figures and the page."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

from multikernel.datasets import data_home
from multikernel.io.files import DataError, atomic_write, write_text
from multikernel_experiments.archives import Archives
from multikernel_experiments.cells import Cells
from multikernel_experiments.computer import machine
from multikernel_experiments.interruption import interruption
from multikernel_experiments.progress import Step, TimeLeft
from multikernel_experiments.protocol import Entry, Protocol
from multikernel_experiments.results import Results
from multikernel_experiments.work import Found, Job, Work, exit_with_parent, forget, run_job

Say = Callable[[Step], None]
Where = str | os.PathLike[str] | Archives | None
Cell = tuple[str, str]  # key of an entry, and setting


def reproduce(
    protocol: Protocol,
    folder: str | os.PathLike[str],
    *,
    data: Where = None,
    quick: bool = False,
    fresh: bool = False,
    jobs: int = 1,
    say: Say = lambda step: None,
    command: str = "",
) -> Results:
    """Run an experiment; write tables (csv, Markdown), figures, ``page.html`` and ``results.json`` to a folder.

    Each finished cell (one method on one split of one setting) is kept in ``folder/cells``, so that a run that was
    stopped goes on where it was. Ctrl-C writes what is finished and returns it with ``interrupted``.

    Parameters
    ----------
    protocol : Protocol
    folder : path
        Made if it is not there.
    data : path or Archives, optional
        Folder of the data archives; by default that of ``MULTIKERNEL_DATA``. A quick run without any has small
        stand-ins, and its tables say so.
    quick : bool
        Fewer splits, settings and grid points.
    fresh : bool
        Whether to do everything anew.
    jobs : int
        Cells to make at the same time, each by a process that uses one core. With one, fits use all cores.
    say : callable
        Called with a `Step` after each cell.
    command : str
        What the page says it was made with.

    Returns
    -------
    Results

    Raises
    ------
    DataError
        When an archive is missing or cannot be read, or a process was killed.
    """
    archives = open_archives(data, quick=quick or not protocol.files)
    folder = Path(folder)
    cells = Cells(folder / "cells", _context(protocol, archives, quick), fresh=fresh)
    protocol = protocol.quickened() if quick else protocol
    results = _empty(protocol, archives, quick=quick, jobs=jobs, command=command)
    run = _Run(results, Work(protocol, archives, cells, quick), jobs, say)
    with interruption() as check:
        try:
            run.all(check)
        except KeyboardInterrupt:
            results.interrupted = True
            run.read()  # what other processes had finished but not told yet
        finally:
            forget()
    results.seconds = time.perf_counter() - run.start
    if results.cells:
        write(results, folder)
    return results


def _context(protocol: Protocol, archives: Archives, quick: bool) -> dict[str, Any]:
    """What all cells of a run depend on."""
    from multikernel import __version__

    files = archives.require(protocol.name, protocol.files)
    return {"protocol": protocol.name, "files": files, "version": __version__, "quick": quick}


def _empty(protocol: Protocol, archives: Archives, *, quick: bool, jobs: int, command: str) -> Results:
    """Results in which nothing has been done yet."""
    from multikernel.io.versions import all_versions

    return Results(
        protocol,
        quick,
        started=datetime.now().astimezone().isoformat(timespec="seconds"),
        command=command,
        stand_in=archives.stand_in and bool(protocol.files),
        jobs=jobs,
        machine=machine(),
        versions=all_versions(),
    )


def open_archives(data: Where = None, *, quick: bool = False) -> Archives:
    """The archives in a folder, in that of ``MULTIKERNEL_DATA``, or for a quick run without either stand-ins."""
    from multikernel_experiments.standins import StandIns

    if isinstance(data, Archives):
        return data
    return StandIns() if quick and data is None and data_home() is None else Archives(data)


class _Run:
    """The work of one run."""

    def __init__(self, results: Results, work: Work, jobs: int, say: Say) -> None:
        self.results, self.work, self.jobs, self.say = results, work, jobs, say
        self.total = results.total
        self.done = 0
        self.pending: list[Cell] = []
        self.unmade: set[tuple[str, int]] = set()  # settings and splits whose kernels are still to be made
        self.pace, self.kernel_pace = TimeLeft(jobs), TimeLeft(jobs)
        self.start = time.perf_counter()

    def all(self, check: Callable[[], None]) -> None:
        """All cells that are not finished."""
        places = list(self._unfinished())
        self.pending = [(entry.key, job.setting) for job in places for entry, _ in job.entries]
        self.unmade = {(job.setting, job.split) for job in places}
        if self.done:
            self._say(f"{self.done} cells were finished before")
        self._do(places, check)

    def read(self) -> None:
        """Take over all cells that are kept."""
        for _ in self._unfinished():
            pass

    def _do(self, places: list[Job], check: Callable[[], None]) -> None:
        """All jobs, in this process or in several; whatever is missing afterwards failed with an error of its own."""
        if self.jobs == 1 or sum(len(job.entries) for job in places) < 2:
            for job in places:
                run_job(self.work, job, partial(self._finish, job))
                check()
            return
        # few places: cell by cell, so that no process waits for the last; many: stacks are made once for each
        parts = places if len(places) >= 2 * self.jobs else [part for job in places for part in _cut(job)]
        for job, found in _in_processes(self.work, parts, self.jobs):
            for what, record in found:
                self._finish(job, what, record)
            check()

    def _unfinished(self) -> Iterator[Job]:
        """What is left to fit on each split, split by split: a run that is stopped then has whole tables."""
        protocol, cells = self.results.protocol, self.work.cells
        for split in range(protocol.n_splits):
            for setting in protocol.settings:
                pending: list[tuple[Entry, Path]] = []
                for entry in protocol.entries:
                    if setting in entry.leaves_out:
                        continue
                    path = cells.path(f"{setting}-{split + 1}-{entry.key}", _facts(setting, split, entry))
                    record = cells.read(path)
                    if record is None:
                        pending.append((entry, path))
                    else:
                        self.results.cells[setting, split, entry.key] = record
                        self._count(entry.key, setting, record)
                        self.done += 1
                if pending:
                    yield Job(setting, split, pending)

    def _finish(self, job: Job, what: Entry, record: dict[str, Any]) -> None:
        self.done += 1
        self.pending.remove((what.key, job.setting))
        self.unmade.discard((job.setting, job.split))
        self._count(what.key, job.setting, record)
        self.results.cells[job.setting, job.split, what.key] = record
        found = f"failed: {record['error']}" if record["error"] else f"{100 * record['scores'][0]:.1f} %"
        where = f"split {job.split + 1}"
        where = where if len(self.results.protocol.settings) == 1 else f"{job.setting}, {where}"
        self._say(f"{where}, {what.title}: {found} ({record['seconds']:.1f} s)")

    def _count(self, key: str, setting: str, record: dict[str, Any]) -> None:
        """Learn from a finished cell what others like it will take."""
        self.pace.add(key, setting, record["seconds"])
        if record.get("kernel_seconds", 0.0) > 0.01:  # kernels that were kept took no time
            self.kernel_pace.add("kernels", setting, record["kernel_seconds"])

    def _say(self, text: str) -> None:
        left = self.pace.left(self.pending) if self.pending else 0.0
        kernels = self.kernel_pace.left(("kernels", setting) for setting, _ in self.unmade)
        self.say(Step(self.done, self.total, left + (kernels if kernels > 0 else 0.0), text))


def _cut(job: Job) -> Iterator[Job]:
    """The job cell by cell."""
    for entry in job.entries:
        yield Job(job.setting, job.split, [entry])


def _in_processes(work: Work, parts: list[Job], jobs: int) -> Iterator[tuple[Job, list[Found]]]:
    """Jobs as they are finished, each done by a process with one core for itself."""
    from joblib import Parallel, delayed, parallel_config
    from joblib.externals.loky.process_executor import TerminatedWorkerError

    try:
        with parallel_config(backend="loky", inner_max_num_threads=1):
            parallel = Parallel(n_jobs=jobs, return_as="generator_unordered", batch_size=1)
            for k, found in parallel(delayed(_numbered)(work, k, job, os.getpid()) for k, job in enumerate(parts)):
                yield parts[k], found
    except TerminatedWorkerError:
        raise DataError(
            "a process was killed, most likely for lack of memory. What is finished is kept: the same command goes "
            "on, and --jobs 1 needs less memory"
        ) from None


def _numbered(work: Work, k: int, job: Job, parent: int) -> tuple[int, list[Found]]:
    exit_with_parent(parent)
    return k, run_job(work, job)


def _facts(setting: str, split: int, entry: Entry) -> dict[str, Any]:
    """What a cell depends on."""
    grid = {name: list(values) for name, values in entry.grid.items()}
    return {
        "at": [setting, split],
        "method": entry.method,
        "params": dict(entry.placed(setting, split).params),
        "grid": grid,
    }


def write(results: Results, folder: Path) -> None:
    """Write tables, figures and page, each file completely or not at all."""
    from multikernel_experiments.findings.drawing import pictures, render
    from multikernel_experiments.page import page
    from multikernel_experiments.saved import save
    from multikernel_experiments.tables import csv_table, markdown_page

    images: dict[str, tuple[str, bytes]] = {}
    for picture in pictures(results.protocol):
        rendered = render(picture, results)
        if rendered is None:
            continue
        for kind, data in rendered.items():
            with atomic_write(folder / f"{picture.name}.{kind}") as stream:
                stream.write(data)
        images[picture.name] = picture.legend, rendered["png"]
    save(results, folder)
    write_text(folder / "table.csv", csv_table(results))
    write_text(folder / "table.md", markdown_page(results, list(images)))
    write_text(folder / "page.html", page(results, images))
