"""``multikernel reproduce``."""

from __future__ import annotations

import argparse
import shlex
import sys
from pathlib import Path
from typing import Any


def add_reproduce(commands: Any, command: Any) -> None:
    """Add the subcommand; ``command`` makes a parser with the options that all have."""
    parser = command(
        commands,
        "reproduce",
        run_reproduce,
        "repeat an experiment of the papers",
        description="Run an experiment: tables (csv, Markdown), figures (png, svg) and a page.",
        epilog="Data archives are looked for in the folder that MULTIKERNEL_DATA names. What is finished is kept: "
        "the same command goes on after an interruption.",
    )
    parser.add_argument("names", metavar="NAME", nargs="*", help="experiments to run")
    parser.add_argument("--list", action="store_true", help="list the experiments and the data they need")
    parser.add_argument("--all", action="store_true", help="run all of them")
    parser.add_argument("--quick", action="store_true", help="fewer splits, settings and grid points: minutes")
    parser.add_argument("--fresh", action="store_true", help="do everything anew, whatever is finished")
    parser.add_argument("--data-home", metavar="FOLDER", help="folder of the archives, instead of MULTIKERNEL_DATA")
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
    from multikernel.experiments import all_protocols

    known = all_protocols()
    if options.list:
        _print_list(known)
        return 0
    if bool(options.names) == options.all:
        raise UsageError(f"name experiments to run, or give --all; there are {', '.join(known)}")
    names = list(known) if options.all else known_names(",".join(options.names), list(known), "experiment")
    return max(_run(known[name], options) for name in names)


def _print_list(known: dict[str, Any]) -> None:
    width = max(map(len, known))
    for name, protocol in known.items():
        print(f"{name:<{width}}  {protocol.title} ({', '.join(protocol.files)})")


def _run(protocol: Any, options: argparse.Namespace) -> int:
    from multikernel.experiments import reproduce
    from multikernel.experiments.tables import text_tables

    folder = Path(options.output) / (protocol.name + "-quick" * options.quick)
    say = (lambda text: None) if options.quiet else _say
    say(f"{protocol.title}: {folder}")
    results = reproduce(
        protocol,
        folder,
        data=options.data_home,
        quick=options.quick,
        fresh=options.fresh,
        say=say,
        command=shlex.join(["multikernel", *options.command_line]),
    )
    print(text_tables(results))
    if results.interrupted:
        kept = f"{len(results.cells)} cells are finished; the same command goes on"
        print(f"multikernel: interrupted; {kept}", file=sys.stderr)
        raise SystemExit(130)
    say(f"page: {folder / 'page.html'}")
    failed = [entry.title for entry in results.protocol.entries if not results.scores(entry.key)]
    if failed:
        print(f"multikernel: error: failed on every split: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
