"""Run a protocol: every cell that is not finished yet, then tables, figures and the page."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

from multikernel.compare.interruption import Interruption
from multikernel.experiments.archives import Archives
from multikernel.experiments.cells import Cells
from multikernel.experiments.fitting import run_course, run_entry
from multikernel.experiments.protocol import Course, Entry, Protocol, Task
from multikernel.experiments.results import Results
from multikernel.files import atomic_write, write_text

Say = Callable[[str], None]


def reproduce(
    protocol: Protocol,
    folder: str | os.PathLike[str],
    *,
    data: str | os.PathLike[str] | None = None,
    quick: bool = False,
    fresh: bool = False,
    say: Say = lambda text: None,
    command: str = "",
) -> Results:
    """Run an experiment and write ``table.csv``, ``table.md``, ``page.html`` and figures to a folder.

    Each finished cell (one method on one split of one setting) is kept in ``folder/cells``, so that a run that was
    stopped goes on where it was. Ctrl-C writes what is finished and returns it with ``interrupted``.

    Parameters
    ----------
    protocol : Protocol
    folder : path
        Made if it is not there.
    data : path, optional
        Folder of the data archives; by default that of ``MULTIKERNEL_DATA``.
    quick : bool
        Fewer splits, settings and grid points.
    fresh : bool
        Whether to do everything anew.
    say : callable
        Called with a line of text after each cell.
    command : str
        What the page says it was made with.

    Returns
    -------
    Results

    Raises
    ------
    DataError
        When an archive is missing or cannot be read.
    """
    from multikernel.versions import multikernel_version

    archives = Archives(data)
    context = {
        "protocol": protocol.name,
        "files": archives.require(protocol.name, protocol.files),
        "version": multikernel_version(),
        "quick": quick,
    }
    protocol = protocol.quickened() if quick else protocol
    folder = Path(folder)
    started = datetime.now().astimezone().isoformat(timespec="seconds")
    results = Results(protocol, quick, started=started, command=command)
    run = _Run(results, archives, Cells(folder / "cells", context, fresh=fresh), say)
    with Interruption() as interruption:
        try:
            run.table(interruption.check)
            run.courses(interruption.check)
        except KeyboardInterrupt:
            results.interrupted = True
    results.seconds = run.elapsed
    if results.cells:
        write(results, folder)
    return results


class _Run:
    """The work of one run."""

    def __init__(self, results: Results, archives: Archives, cells: Cells, say: Say) -> None:
        self.results, self.archives, self.cells, self.say = results, archives, cells, say
        protocol = results.protocol
        self.total = len(protocol.entries) * len(protocol.settings) * protocol.n_splits + len(protocol.course)
        self.done = 0
        self.fitted = 0
        self.start = time.perf_counter()

    @property
    def elapsed(self) -> float:
        return time.perf_counter() - self.start

    def table(self, check: Callable[[], None]) -> None:
        """All cells of the table."""
        protocol = self.results.protocol
        for setting, split in self._places():
            pending: list[tuple[Entry, Path]] = []
            for entry in protocol.entries:
                path = self.cells.path(f"{setting}-{split + 1}-{entry.key}", _facts(setting, split, entry))
                record = self.cells.read(path)
                if record is None:
                    pending.append((entry, path))
                else:
                    self._finish(setting, split, entry, record, "kept")
            if not pending:
                continue
            task = self._task(setting, split)
            for entry, path in pending:
                record = run_entry(protocol, entry, task, check)
                check()  # a fit that was interrupted returns what it has: not to be kept
                if record["error"] is None:
                    self.cells.write(path, record)
                self.fitted += 1
                self._finish(setting, split, entry, record, f"{record['seconds']:.1f} s")

    def courses(self, check: Callable[[], None]) -> None:
        """Fits with growing budgets on the first split of the first setting."""
        protocol = self.results.protocol
        setting = protocol.settings[0]
        for course in protocol.course:
            known = self.results.cells.get((setting, 0, course.like))
            if not known or not known["parameters"]:
                self.done += 1
                continue
            chosen = known["parameters"][0]
            path = self.cells.path(f"course-{course.key}", _course_facts(course, chosen))
            record = self.cells.read(path)
            if record is None:
                start = time.perf_counter()
                record = run_course(protocol, course, self._task(setting, 0), chosen, check)
                check()
                self.cells.write(path, record)
                self.fitted += 1
                self._line(f"{course.title} against time ({time.perf_counter() - start:.1f} s)")
            else:
                self._line(f"{course.title} against time (kept)")
            self.results.courses[course.key] = record

    def _places(self) -> Iterator[tuple[str, int]]:
        protocol = self.results.protocol
        return ((setting, split) for setting in protocol.settings for split in range(protocol.n_splits))

    def _task(self, setting: str, split: int) -> Task:
        return self.results.protocol.task(self.archives, setting, split, self.results.quick)

    def _finish(self, setting: str, split: int, entry: Entry, record: dict[str, Any], how: str) -> None:
        self.results.cells[setting, split, entry.key] = record
        found = f"failed: {record['error']}" if record["error"] else f"{100 * record['scores'][0]:.1f} %"
        where = f"split {split + 1}" if len(self.results.protocol.settings) == 1 else f"{setting}, split {split + 1}"
        self._line(f"{where}, {entry.title}: {found} ({how})")

    def _line(self, text: str) -> None:
        """A line of progress, with what is left at the pace so far."""
        self.done += 1
        left = ""
        if self.fitted and self.done < self.total:
            minutes = self.elapsed / self.fitted * (self.total - self.done) / 60
            left = f", about {max(minutes, 0.1):.1f} min left" if minutes < 10 else f", about {minutes:.0f} min left"
        self.say(f"[{self.done}/{self.total}{left}] {text}")


def _facts(setting: str, split: int, entry: Entry) -> dict[str, Any]:
    """What a cell depends on."""
    grid = {name: list(values) for name, values in entry.grid.items()}
    return {"at": [setting, split], "method": entry.method, "params": dict(entry.params), "grid": grid}


def _course_facts(course: Course, chosen: dict[str, Any]) -> dict[str, Any]:
    facts = {"course": course.method, "params": dict(course.params), "budgets": list(course.budgets)}
    return {**facts, "chosen": chosen}


def write(results: Results, folder: Path) -> None:
    """Write tables, figures and page, each file completely or not at all."""
    from multikernel.experiments.drawing import render
    from multikernel.experiments.page import page
    from multikernel.experiments.tables import csv_table, markdown_page

    images: dict[str, tuple[str, bytes]] = {}
    for draw in results.protocol.figures:
        name = draw.__name__
        rendered = render(draw, results)
        if rendered is None:
            continue
        for kind, data in rendered.items():
            with atomic_write(folder / f"{name}.{kind}") as stream:
                stream.write(data)
        caption = " ".join((draw.__doc__ or name).split("\n\n")[0].split())
        images[name] = caption, rendered["png"]
    write_text(folder / "table.csv", csv_table(results))
    write_text(folder / "table.md", markdown_page(results, list(images)))
    write_text(folder / "page.html", page(results, images))
