"""Options of the command line, as a table; the work is in the other files, imported when it is called for."""

from __future__ import annotations

import argparse
import pkgutil
from collections.abc import Callable, Sequence
from importlib.metadata import entry_points
from typing import Any

from multikernel import __version__


class UsageError(Exception):
    """The command line is wrong: exit code 2."""


EXAMPLES = """\
examples:
  multikernel compare
      all methods on the embedded digits data, 4 views x 3 kernels; writes report.html
  multikernel compare --data flowers.csv --target species --view petals=petal_* --view sepals=0:2
      one kernel of each family per view, on columns of a table
  multikernel compare --data rna.csv --data protein.csv --id patient --target subtype
      a view a file, joined by the IDs of the samples
  multikernel compare --data kernels.npz --methods average,best --test-size 0.3
      precomputed kernels, an array of shape (F, n, n) or (n, n, F) beside the labels y
  multikernel compare --images photographs/
      a sub-folder for each class; seven kernels of colour, shape and texture
  multikernel fit --data flowers.csv --target species --method average --output flowers.mkl
  multikernel predict flowers.mkl --data new.csv --output predictions.csv
  multikernel info flowers.mkl
  multikernel fit --data big.parquet --target y --method svrg --memory 2GB --workers 4 --output big.mkl
      more rows than memory holds: blocks of them, with Nyström features of the kernels
  multikernel reproduce flower17 --quick
      an experiment of the papers, on the archives in the folder that MULTIKERNEL_DATA names
"""


def _imported(place: str) -> Callable[[Any], Any]:
    """A function that is imported when it is called: help should not load numerical libraries."""
    return lambda argument: pkgutil.resolve_name(place)(argument)


def _value(make: Callable[[str], Any], fits: Callable[[Any], bool] = bool, what: str = "") -> Callable[[str], Any]:
    """Type of an option: what is made of its text, if it fits; ``what`` says what does, or else the ValueError."""

    def parse(text: str) -> Any:
        try:
            value = make(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(f"{text!r} is not {what}" if what else str(error)) from None
        if not fits(value):
            raise argparse.ArgumentTypeError(f"{text!r} is not {what}")
        return value

    return parse


def whole(least: int) -> Callable[[str], int]:
    """Type of an option: a whole number of at least ``least``."""
    return _value(int, lambda value: value >= least, f"a whole number of at least {least}")


SHARE = _value(float, lambda value: 0 < value < 1, "a share between 0 and 1, such as 0.3")
SECONDS = _value(float, lambda value: 0 < value < float("inf"), "a positive number of seconds")
NUMBERS = _value(
    lambda text: [float(part) for part in text.split(",")],
    lambda values: all(0 < value < float("inf") for value in values),
    "a list of positive numbers separated by commas, such as 0.1,1,10",
)
TWO_NAMES = _value(
    lambda text: [name.strip() for name in text.split(",")],
    lambda names: len(names) == 2 and all(names),
    "the names of two arrays, such as train,test",
)
IMAGES = "images: a folder with a sub-folder for each class, or a table with a column path and labels"
VIEW = _value(_imported("multikernel.io.tables:parse_view"))
MEMORY = _value(_imported("multikernel.gram:parse_memory"))


def _option(names: str, metavar: str | None, text: str, **settings: Any) -> tuple[list[str], dict[str, Any]]:
    """What argparse wants to know of an option."""
    return names.split(), {"help": text, **({} if metavar is None else {"metavar": metavar}), **settings}


def _flag(name: str, text: str) -> tuple[list[str], dict[str, Any]]:
    return _option(name, None, text, action="store_true")


FILES = ".csv, .tsv, .parquet, .npz or .mat; repeat it for files to be joined by --id, one view per file"
COLUMNS = "columns that belong together: names, positions, ranges a:b or patterns; repeat it for more views"
SCALE = "columns to mean 0 and deviation 1, or median 0 and quartiles 1 apart, learnt on training samples "
SCALE += "(default: standard for tables, none for arrays and for histogram kernels)"
DATA = (
    _option("-d --data", "FILE", FILES, action="append"),
    _option("--images", "FOLDER", IMAGES),
    _option("--id", "COLUMN", "sample IDs, used to join files and repeated with predictions"),
    _option("-t --target", "NAME", "column or array with the labels"),
    _option("--view", "NAME=COLUMNS", COLUMNS, action="append", default=[], type=VIEW),
    _option("--drop", "COLUMNS", "columns that are not features"),
    _option("--scale", None, SCALE, choices=("standard", "robust", "none")),
    _option(
        "--precomputed", "ARRAY", "the arrays, or this one, are kernels; usually detected", nargs="?", const=True
    ),
    _flag("--distances", "the arrays are distances D: kernels are exp(-D / mean D)"),
    _option("--cache", "FOLDER", "where descriptors of images are kept, to be read the next time"),
)

BLOCKS = (
    [
        _option("--scheduler", "ADDRESS", "Dask scheduler whose workers read blocks of rows, tcp://host:8786"),
        _option("--workers", "N", "processes that read blocks of rows (default: threads)", type=whole(1)),
    ],
)
FAMILIES = "families (default: %(default)s); for images flower17, caltech39, voc16 or phog (default: flower17)"
WIDTHS = "multiples of the mean distance between training samples (default: 1)"
STEPS = "put kernels on one scale: center, cosine, trace, variance, or several in order (default: none)"
PSD = "kernels that are not positive semi-definite: reject, drop the negative part, or ignore it (default: raise)"
MISSING = "samples with empty cells in all columns of a view: reject, or let other views speak (default: raise)"
KERNELS = (
    _option("--kernels", "LIST", FAMILIES, default="linear,polynomial,rbf"),
    _option("--bandwidths", "LIST", WIDTHS, type=NUMBERS, default=[1.0]),
    _option("--normalize", "STEP[,STEP]", STEPS),
    _option("--rank", "N", "Nyström features of each kernel, for rows in blocks", type=whole(1), default=128),
    _option("--psd", None, PSD, choices=("raise", "clip", "ignore"), default="raise"),
    _option("--missing", None, MISSING, choices=("raise", "mask"), default="raise"),
)

VALUES = "values of C to choose from by validation (default: the method's own)"
SCORE = "score for choosing parameters and ranking methods (default: accuracy); roc_auc: mean over the classes"
SCORES = ("accuracy", "balanced_accuracy", "roc_auc")
TUNING = (
    _option("-C", "LIST", VALUES, dest="C", type=NUMBERS),
    _option("--inner-cv", "FOLDS", "folds for that validation (default: 3)", type=whole(2), default=3),
    _option("--scoring", None, SCORE, choices=SCORES, default="accuracy"),
    _option("--class-weight", None, "weight samples by the inverse of their class size", choices=("balanced",)),
    _option("--max-time", "SECONDS", "time limit for each fit", type=SECONDS),
    _option("--memory", "SIZE", "memory for kernels, such as 2GB (default: half of what is free)", type=MEMORY),
    _option("--seed", "N", "seed for the splits (default: 0)", type=whole(0), default=0),
)

HELD_OUT = "hold out a share once (default: 0.3 beyond 1000 samples)"
NEW_SAMPLES = "new samples, or their kernels with the training samples; as many files, in the same order, as in fit"

# Name, what it does, usage, groups of options; of a list only one may be given.
COMMANDS: tuple[tuple[str, str, str, dict[str, tuple[Any, ...]]], ...] = (
    (
        "compare",
        "compare methods on the same splits and kernels; print a table, write a report",
        "[--data FILE --target NAME]",
        {
            "data; without a file, the built-in digits in four quadrants": DATA,
            "kernels, one per view, family and bandwidth": KERNELS,
            "Parquet files of more than 20,000 rows, which are read in blocks": BLOCKS,
            "comparison": (
                _option("-m --methods", "LIST", "methods to run (default: all)"),
                [
                    _option("--cv", "FOLDS", "cross-validation (default: 5 folds up to 1000 samples)", type=whole(2)),
                    _option("--test-size", "SHARE", HELD_OUT, type=SHARE),
                    _option("--split", "TRAIN,TEST", "arrays of training and test rows in the file", type=TWO_NAMES),
                ],
                _flag("--no-single", "do not score each kernel alone"),
                _flag("--no-importance", "do not say which views matter"),
            ),
            "parameters, chosen on the training samples": TUNING,
            "output": (
                _option("-o --output", "FILE", "report (default: %(default)s)", default="report.html"),
                _option("--json", "FILE", "also write all results as JSON"),
            ),
        },
    ),
    (
        "fit",
        "fit one method to all samples of a file and write a model file: arrays and JSON, no code",
        "--data FILE --output MODEL",
        {
            "data": DATA,
            "kernels, one per view, family and bandwidth": KERNELS,
            "Parquet files of more than 20,000 rows, which are read in blocks": BLOCKS,
            "model": (
                _option("-m --method", "NAME", "method (default: %(default)s)", default="average"),
                _flag("--regression", "the target is a number; --method svrg (default), mkl or mkl-p2"),
                _flag("--proba", "calibrate probabilities, by five more fits (not needed for svrg)"),
                _option("-o --output", "FILE", "model file to write, such as model.mkl", required=True),
            ),
            "parameters": TUNING,
        },
    ),
    (
        "predict",
        "predict the labels of new samples with a model file; report the accuracy if the target is known",
        "MODEL --data FILE",
        {
            "model and data": (
                _option("model", "MODEL", "model file, from multikernel fit"),
                _option("-d --data", "FILE", NEW_SAMPLES, action="append"),
                _option("--images", "FOLDER", "new images, in a folder or listed in a table"),
                _option("--id", "COLUMN", "IDs to write with predictions (default: those used in fit, if present)"),
            ),
            "Parquet files, for a model that was fitted on blocks of rows": BLOCKS,
            "output": (
                _option("-o --output", "FILE", "csv file to write (default: standard output)"),
                _flag("--scores", "add decision values"),
                _flag("--proba", "add probabilities, for models fitted with --proba or --method svrg"),
            ),
        },
    ),
    (
        "info",
        "describe a model or data file; without a file, list methods, kernels and versions",
        "[FILE]",
        {
            "what": (
                _option("file", "FILE", "model or data file", nargs="?"),
                _flag("--json", "as JSON"),
                _option("--weights", "FILE", "also write kernels with a weight, and their views, as csv"),
            ),
        },
    ),
)

# What the distribution multikernel-experiments adds, to say so where it is not installed.
EXPERIMENTS = {
    "reproduce": "rerun an experiment from the papers",
    "data": "list the data archives for the experiments, or download some",
}


def build_parser() -> argparse.ArgumentParser:
    """The parser of all subcommands, those of other distributions included (entry points "multikernel.commands")."""
    parser = argparse.ArgumentParser(
        prog="multikernel",
        description="Multiple kernel learning on files: learn from several kernels at once.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"multikernel {__version__}")
    parser.add_argument("--traceback", action="store_true", help="show a full traceback on errors")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for name, summary, usage, groups in COMMANDS:
        command = _command(
            commands,
            name,
            _imported(f"multikernel.cli.commands:run_{name}"),
            summary,
            description=summary[:1].upper() + summary[1:] + ".",
            usage=f"multikernel {name} {usage} [options]",
        )
        for title, entries in groups.items():
            _add(command.add_argument_group(title), entries)
    added = {point.name: point.load() for point in entry_points(group="multikernel.commands")}
    for name in [*EXPERIMENTS, *(name for name in added if name not in EXPERIMENTS)]:
        if name in added:
            added[name](commands, _command)
        else:
            _command(commands, name, missing, EXPERIMENTS[name])
    return parser


def missing(options: argparse.Namespace) -> int:
    """Say what to install."""
    raise UsageError("the experiments are in a separate package: pip install multikernel-experiments")


def _command(commands: Any, name: str, run: Callable[[Any], int], summary: str, **options: Any) -> Any:
    """A subcommand with the options that all have."""
    parser = commands.add_parser(name, help=summary, formatter_class=argparse.RawDescriptionHelpFormatter, **options)
    parser.register("action", None, _Once)
    parser.set_defaults(run=run, parser=parser, given=set())
    parser.add_argument("-q", "--quiet", action="store_true", help="no progress and no remarks")
    # given again after the subcommand; its absence there must not undo what came before
    parser.add_argument("--traceback", action="store_true", default=argparse.SUPPRESS, help=argparse.SUPPRESS)
    return parser


def _add(group: Any, entries: Sequence[Any]) -> None:
    for entry in entries:
        if isinstance(entry, list):
            _add(group.add_mutually_exclusive_group(), entry)
        else:
            names, settings = entry
            group.add_argument(*names, **settings)


class _Once(argparse.Action):
    """Store a value, and refuse another: the last one would win without a word."""

    def __call__(self, parser: Any, namespace: Any, values: Any, option_string: str | None = None) -> None:
        if self.dest in namespace.given and option_string is not None:
            raise argparse.ArgumentError(self, "given twice, but allowed only once")
        namespace.given.add(self.dest)
        setattr(namespace, self.dest, values)


def refuse(options: argparse.Namespace, names: Sequence[str], why: str) -> None:
    """A `UsageError` if one of these options was given; ``why`` it cannot be."""
    for name in names:
        if name in options.given or getattr(options, name, None) != options.parser.get_default(name):
            raise UsageError(f"--{name.replace('_', '-')} {why}")


def known_names(text: str, choices: Sequence[str], what: str) -> list[str]:
    """Names separated by commas, each one of ``choices``; else a `UsageError` suggests the nearest."""
    from multikernel.io.files import near_matches

    names = [part.strip() for part in text.split(",")]
    for name in names:
        if name not in choices:
            raise UsageError(f"there is no {what} {name!r}; {near_matches(name, list(choices))}")
    return list(dict.fromkeys(names))
