"""``multikernel data``: which archives there are, and fetching those with a public home."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any


def add_data(commands: Any, command: Any) -> None:
    """Add the subcommand; ``command`` makes a parser with the options that all have."""
    parser = command(
        commands,
        "data",
        run_data,
        "list the data archives for the experiments, or download some",
        description="Without names: list the archives, which are at hand, and where the others come from. "
        "With names: download, check and convert them.",
        epilog="A download that breaks off goes on where it was when the command is given again.",
    )
    parser.add_argument("names", metavar="NAME", nargs="*", help="archives to fetch, such as mnist; all: all of them")
    parser.add_argument(
        "--data-home", metavar="FOLDER", help="where the archives are, instead of MULTIKERNEL_DATA; made if need be"
    )


def run_data(options: argparse.Namespace) -> int:
    """List or fetch; 1 if an archive could not be fetched."""
    from multikernel.cli.parser import UsageError, known_names
    from multikernel.datasets import data_home
    from multikernel_experiments.sources import SOURCES

    folder = Path(options.data_home) if options.data_home else data_home()
    if not options.names:
        _print_list(folder)
        return 0
    if folder is None:
        raise UsageError("where to? Name a folder with --data-home, or set MULTIKERNEL_DATA")
    every = "all" in options.names
    names = list(SOURCES) if every else known_names(",".join(options.names), list(SOURCES), "archive to fetch")
    return max(_fetch(name, folder, options.quiet) for name in names)


def _print_list(folder: Path | None) -> None:
    from multikernel_experiments.sources import NOT_FETCHED, SOURCES

    def at_hand(archive: str) -> str:
        return "at hand" if folder is not None and (folder / archive).is_file() else "missing"

    print(f"archives in {folder}:" if folder else "archives (MULTIKERNEL_DATA is not set):")
    for name, source in SOURCES.items():
        lacks = f"; without {source.lacks}" if source.lacks else ""
        print(f"  {source.archive} ({at_hand(source.archive)}): {source.about}; licence: {source.licence}")
        print(f"    multikernel data {name}{lacks}")
    for archive, how in NOT_FETCHED.items():
        print(f"  {archive} ({at_hand(archive)}): {how}")


def _fetch(name: str, folder: Path, quiet: bool) -> int:
    from multikernel.io.files import DataError
    from multikernel_experiments.sources import fetch

    def say(text: str) -> None:
        if not quiet:
            print(text, file=sys.stderr, flush=True)

    try:
        with _Bar(quiet) as bar:
            path = fetch(name, folder, say=say, progress=bar)
    except DataError as error:
        print(f"multikernel: error: {error}", file=sys.stderr)
        return 1
    print(path)
    return 0


class _Bar:
    """Bytes of a download, on a terminal."""

    def __init__(self, quiet: bool) -> None:
        self._shown = not quiet and sys.stderr.isatty()
        self._bar: Any = None

    def __enter__(self) -> _Bar:
        return self

    def __call__(self, done: int, total: int | None) -> None:
        if not self._shown:
            return
        if self._bar is None or self._bar.total != total:
            from tqdm import tqdm

            self.__exit__()
            self._bar = tqdm(total=total, unit="B", unit_scale=True, file=sys.stderr, leave=False)
        self._bar.update(done - self._bar.n)

    def __exit__(self, *error: object) -> None:
        if self._bar is not None:
            self._bar.close()
