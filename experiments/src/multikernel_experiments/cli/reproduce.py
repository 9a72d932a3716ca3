"""``multikernel reproduce``."""

from __future__ import annotations

import argparse
import contextlib
import shlex
import signal
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any


def add_reproduce(commands: Any, command: Any) -> None:
    """Add the subcommand; ``command`` makes a parser with the options that all have."""
    from multikernel.cli.parser import whole

    parser = command(
        commands,
        "reproduce",
        run_reproduce,
        "rerun an experiment from the papers",
        description="Run an experiment: tables (csv, Markdown), figures (png, svg) and a page.",
        epilog="Set MULTIKERNEL_DATA to the folder with the data archives; `multikernel data` downloads some. A "
        "quick run without that folder uses small stand-ins. Finished parts are kept: after an interruption, run the "
        "same command again to continue.",
    )
    parser.add_argument("names", metavar="NAME", nargs="*", help="experiments to run")
    parser.add_argument("--list", action="store_true", help="list the experiments, the data they need and their time")
    parser.add_argument("--all", action="store_true", help="run all of them")
    parser.add_argument("--quick", action="store_true", help="fewer splits, settings and grid points: minutes")
    parser.add_argument("--fresh", action="store_true", help="do everything anew, whatever is finished")
    parser.add_argument(
        "--embedded", action="store_true", help="with --quick: use the stand-ins even where there are archives"
    )
    parser.add_argument(
        "--summary",
        metavar="FILE",
        help="run nothing: write a page of Markdown about the finished runs in --output, with its figures",
    )
    parser.add_argument("--data-home", metavar="FOLDER", help="folder of the archives, instead of MULTIKERNEL_DATA")
    parser.add_argument(
        "-j",
        "--jobs",
        metavar="N",
        type=whole(1),
        default=None,
        help="cells to make at the same time, one core each (default: as many as there are cores; "
        "with 1, each fit uses all cores)",
    )
    parser.add_argument(
        "-o",
        "--output",
        metavar="FOLDER",
        default="experiments",
        help="each experiment gets a folder in it (default: %(default)s)",
    )


def run_reproduce(options: argparse.Namespace) -> int:
    """Run, print the tables, write the files; 130 if interrupted, 1 if a method failed on every split."""
    from multikernel.cli.parser import UsageError, known_names
    from multikernel_experiments import all_protocols
    from multikernel_experiments.times import expected

    known = all_protocols()
    if options.list:
        _print_list(known)
        return 0
    if bool(options.names) == options.all:
        raise UsageError(f"name experiments to run, or give --all; there are {', '.join(known)}")
    if options.embedded and (not options.quick or options.data_home):
        raise UsageError("--embedded goes with --quick and without --data-home: stand-ins are for quick runs")
    names = list(known) if options.all else known_names(",".join(options.names), list(known), "experiment")
    if options.summary:
        return _summarise({name: known[name] for name in names}, options)
    if not (options.quiet or options.quick):
        print(expected([known[name] for name in names]), file=sys.stderr)
    return max([_run_one(known[name], options, k, len(names)) for k, name in enumerate(names)])


def _run_one(protocol: Any, options: argparse.Namespace, number: int, count: int) -> int:
    """Run an experiment; of several, one that cannot be run says why and the others go on."""
    from multikernel.io.files import DataError

    try:
        return _run(protocol, options, f"{number + 1} of {count}: " if count > 1 else "")
    except Exception as error:  # one that fails must not lose the others
        if count == 1:
            raise
        reason = str(error) if isinstance(error, DataError) else f"{type(error).__name__}: {error}"
        print(f"multikernel: error: {protocol.name}: {reason}", file=sys.stderr)
        return 1


def _print_list(known: dict[str, Any]) -> None:
    from multikernel_experiments.times import expected

    width, titles = max(map(len, known)), max(len(protocol.title) for protocol in known.values())
    for name, protocol in known.items():
        minutes = "?" if protocol.minutes is None else f"{protocol.minutes:.0f}"
        files = ", ".join(protocol.files) or "no archives"
        if len(protocol.files) > 3:
            files = f"{', '.join(protocol.files[:2])} and {len(protocol.files) - 2} more"
        print(f"{name:<{width}}  {minutes:>3} min  {protocol.title:<{titles}}  {files}")
    print(expected(list(known.values())))


def _summarise(protocols: dict[str, Any], options: argparse.Namespace) -> int:
    from multikernel_experiments.summary import write_summary

    found = write_summary(protocols, Path(options.output), Path(options.summary))
    if not options.quiet:
        print(f"{options.summary}: {', '.join(found)}", file=sys.stderr)
    return 0


@contextlib.contextmanager
def _terminated_like_interrupted() -> Iterator[None]:
    """A request to end, as from ``timeout`` or a queue, is taken like Ctrl-C: what is finished gets its tables."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, lambda number, frame: signal.raise_signal(signal.SIGINT))
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _run(protocol: Any, options: argparse.Namespace, place: str) -> int:
    import joblib

    from multikernel_experiments import reproduce
    from multikernel_experiments.cli.bar import CellBar
    from multikernel_experiments.run import open_archives
    from multikernel_experiments.standins import StandIns
    from multikernel_experiments.tables import text_tables

    unneeded = options.embedded or not protocol.files
    archives = StandIns() if unneeded else open_archives(options.data_home, quick=options.quick)
    stand_in = archives.stand_in and bool(protocol.files)
    kind = "-standin" if stand_in else "-quick" if options.quick else ""
    folder = Path(options.output) / (protocol.name + kind)
    with CellBar(options.quiet) as bar, _terminated_like_interrupted():
        bar.line(f"{place}{protocol.title}: {folder}" + (" (stand-in data)" if stand_in else ""))
        results = reproduce(
            protocol,
            folder,
            data=archives,
            quick=options.quick,
            fresh=options.fresh,
            jobs=joblib.cpu_count() if options.jobs is None else options.jobs,
            say=bar,
            command=shlex.join(["multikernel", *options.command_line]),
        )
    print(text_tables(results))
    if results.interrupted:
        kept = f"{len(results.cells)} cells are finished; the same command goes on"
        print(f"multikernel: interrupted; {kept}", file=sys.stderr)
        raise SystemExit(130)
    if not options.quiet:
        print(f"page: {folder / 'page.html'}", file=sys.stderr)
    failed = [entry.title for entry in results.protocol.entries if not results.scores(entry.key)]
    if failed:
        print(f"multikernel: error: failed on every split: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0
