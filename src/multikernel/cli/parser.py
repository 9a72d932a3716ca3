"""Options of the command line, as tables; the work is in the other files, imported when it is called for."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from importlib import import_module
from importlib.metadata import entry_points
from typing import Any

from multikernel.io.versions import multikernel_version


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
  multikernel fit --data flowers.csv --target species --method average --output flowers.mkl
  multikernel predict flowers.mkl --data new.csv --output predictions.csv
  multikernel info flowers.mkl
  multikernel reproduce flower17 --quick
      an experiment of the papers, on the archives in the folder that MULTIKERNEL_DATA names
"""


def whole(least: int) -> Callable[[str], int]:
    """Type of an option: a whole number of at least ``least``."""

    def parse(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            raise argparse.ArgumentTypeError(f"{text!r} is not a whole number") from None
        if value < least:
            raise argparse.ArgumentTypeError(f"{value} is too small: give at least {least}")
        return value

    return parse


def _number(what: str, high: float) -> Callable[[str], float]:
    """Type of an option: a number above 0 and below ``high``; ``what`` says so."""

    def parse(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            value = -1.0
        if not 0 < value < high:
            raise argparse.ArgumentTypeError(f"{text!r} is not {what}")
        return value

    return parse


# What is said of an option wherever it occurs: names, and what argparse wants to know.
OPTIONS: dict[str, dict[str, Any]] = {
    "-d --data": {
        "metavar": "FILE",
        "action": "append",
        "help": ".csv, .tsv, .parquet, .npz or .mat; repeat it for files to be joined by --id, one view per file",
    },
    "--id": {"metavar": "COLUMN", "help": "sample IDs, used to join files and repeated with predictions"},
    "-t --target": {"metavar": "NAME", "help": "column or array with the labels"},
    "--view": {
        "metavar": "NAME=COLUMNS",
        "action": "append",
        "default": [],
        "help": "columns that belong together, by name, position, range a:b or pattern, separated by commas; "
        "repeat it for more views",
    },
    "--drop": {"metavar": "COLUMNS", "help": "columns that are not features"},
    "--scale": {
        "choices": ("standard", "robust", "none"),
        "help": "scale each column to mean 0 and deviation 1, or to median 0 and quartiles 1 apart, learnt on "
        "training samples (default: standard for tables, none for arrays and for histogram kernels)",
    },
    "--precomputed": {
        "metavar": "ARRAY",
        "nargs": "?",
        "const": True,
        "help": "the arrays, or this array, are kernels; usually detected from the shapes",
    },
    "--distances": {"action": "store_true", "help": "the arrays are distances D: kernels are exp(-D / mean D)"},
    "--split": {
        "metavar": "TRAIN,TEST",
        "help": "arrays in the file with the training and the test rows; one row per split if two-dimensional",
    },
    "--kernels": {"metavar": "LIST", "default": "linear,polynomial,rbf", "help": "families (default: %(default)s)"},
    "--bandwidths": {
        "metavar": "LIST",
        "default": "1",
        "help": "multiples of the mean distance between training samples, for families that have a bandwidth "
        "(default: %(default)s)",
    },
    "--normalize": {
        "metavar": "STEP[,STEP]",
        "help": "put the kernels on one scale, with statistics of the training samples: center, cosine, trace, "
        "variance, or several, applied in the given order (default: none)",
    },
    "--psd": {
        "choices": ("raise", "clip", "ignore"),
        "default": "raise",
        "help": "kernels that are not positive semi-definite: reject them, drop their negative part, or ignore it "
        "(default: raise)",
    },
    "-m --methods": {"metavar": "LIST", "help": "methods to run (default: all)"},
    "--cv": {"metavar": "FOLDS", "type": whole(2), "help": "cross-validation (default: 5 folds up to 1000 samples)"},
    "--test-size": {
        "metavar": "SHARE",
        "type": _number("a share between 0 and 1, such as 0.3", 1.0),
        "help": "hold out this share of the samples once (default: 0.3 beyond 1000 samples)",
    },
    "--no-single": {"action": "store_true", "help": "do not score each kernel alone"},
    "-m --method": {"metavar": "NAME", "help": "method (default: average)"},
    "--regression": {"action": "store_true", "help": "the target is a number: fit SVRGMKLRegressor"},
    "-C": {
        "metavar": "LIST",
        "dest": "C",
        "help": "values of C to choose from by validation (default: the method's own)",
    },
    "--inner-cv": {
        "metavar": "FOLDS",
        "type": whole(2),
        "default": 3,
        "help": "folds for that validation (default: 3)",
    },
    "--scoring": {
        "choices": ("accuracy", "balanced_accuracy", "roc_auc"),
        "default": "accuracy",
        "help": "score for choosing parameters and ranking methods (default: accuracy); roc_auc: each class against "
        "the rest, averaged over classes",
    },
    "--class-weight": {"choices": ("balanced",), "help": "weight samples by the inverse of their class size"},
    "--max-time": {
        "metavar": "SECONDS",
        "type": _number("a positive number of seconds", float("inf")),
        "help": "time limit for each fit",
    },
    "--memory": {"metavar": "SIZE", "help": "memory for kernels, such as 2GB (default: half of what is free)"},
    "--seed": {"metavar": "N", "type": whole(0), "default": 0, "help": "seed for the splits (default: 0)"},
    "-o --output": {"metavar": "FILE"},
    "--json": {"metavar": "FILE", "help": "also write all results as JSON"},
    "--scores": {"action": "store_true", "help": "add decision values"},
    "--proba": {"action": "store_true", "help": "add probabilities, for methods that have them (svrg)"},
}

DATA = ("-d --data", "--id", "-t --target", "--view", "--drop", "--scale", "--precomputed", "--distances")
KERNELS = ("--kernels", "--bandwidths", "--normalize", "--psd")
TUNING = ("-C", "--inner-cv", "--scoring", "--class-weight", "--max-time", "--memory", "--seed")

# Name, where it runs, what it does, usage, groups of options; a change of an option stands behind its name.
Group = tuple[str, tuple[Any, ...]]
COMMANDS: tuple[tuple[str, str, str, str, tuple[Group, ...]], ...] = (
    (
        "compare",
        "multikernel.cli.comparing:run_compare",
        "compare methods on the same splits and kernels; print a table, write a report",
        "[--data FILE --target NAME]",
        (
            ("data; without a file, the built-in digits in four quadrants", DATA),
            ("kernels, one per view, family and bandwidth", KERNELS),
            ("comparison", ("-m --methods", ("--cv", "--test-size", "--split"), "--no-single")),
            ("parameters, chosen on the training samples", TUNING),
            (
                "output",
                ({"-o --output": {"default": "report.html", "help": "report (default: %(default)s)"}}, "--json"),
            ),
        ),
    ),
    (
        "fit",
        "multikernel.cli.models:run_fit",
        "fit one method to all samples of a file and write a model file: arrays and JSON, no code",
        "--data FILE --output MODEL",
        (
            ("data", ({"-d --data": {"required": True}}, *DATA[1:])),
            ("kernels, one per view, family and bandwidth", KERNELS),
            (
                "model",
                (
                    "-m --method",
                    "--regression",
                    {"-o --output": {"required": True, "help": "model file to write, such as model.mkl"}},
                ),
            ),
            ("parameters", TUNING),
        ),
    ),
    (
        "predict",
        "multikernel.cli.models:run_predict",
        "predict the labels of new samples with a model file; report the accuracy if the target is known",
        "MODEL --data FILE",
        (
            (
                "model and data",
                (
                    {"model": {"metavar": "MODEL", "help": "model file, from multikernel fit"}},
                    {
                        "-d --data": {
                            "required": True,
                            "help": "new samples, or their kernels with the training samples; the same number of "
                            "files as the model was fitted on, in the same order",
                        }
                    },
                    {"--id": {"help": "IDs to write with predictions (default: those used in fit, if present)"}},
                ),
            ),
            (
                "output",
                (
                    {"-o --output": {"help": "csv file to write (default: standard output)"}},
                    "--scores",
                    "--proba",
                ),
            ),
        ),
    ),
    (
        "info",
        "multikernel.cli.info:run_info",
        "describe a model or data file; without a file, list methods, kernels and versions",
        "[FILE]",
        (
            (
                "what",
                (
                    {"file": {"metavar": "FILE", "nargs": "?", "help": "model or data file"}},
                    {"--json": {"metavar": None, "action": "store_true", "help": "as JSON"}},
                ),
            ),
        ),
    ),
)


def build_parser() -> argparse.ArgumentParser:
    """The parser of all subcommands, those of other distributions included (entry points "multikernel.commands")."""
    parser = argparse.ArgumentParser(
        prog="multikernel",
        description="Multiple kernel learning on files: learn from several kernels at once.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"multikernel {multikernel_version()}")
    parser.add_argument("--traceback", action="store_true", help="show a full traceback on errors")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for name, run, summary, usage, groups in COMMANDS:
        command = _command(
            commands,
            name,
            _imported(run),
            summary,
            description=summary[:1].upper() + summary[1:] + ".",
            usage=f"multikernel {name} {usage} [options]",
        )
        for title, entries in groups:
            _add(command.add_argument_group(title), entries)
    added = {point.name: point.load() for point in entry_points(group="multikernel.commands")}
    for name, summary in EXPERIMENTS.items():
        add = added.pop(name, None)
        if add is None:
            _command(commands, name, missing, summary)
        else:
            add(commands, _command)
    for add in added.values():
        add(commands, _command)
    return parser


# What the distribution multikernel-experiments adds, to say so where it is not installed.
EXPERIMENTS = {
    "reproduce": "rerun an experiment from the papers",
    "data": "list the data archives for the experiments, or download some",
}


def missing(options: argparse.Namespace) -> int:
    """Say what to install."""
    raise UsageError("the experiments are in a separate package: pip install multikernel-experiments")


def _command(commands: Any, name: str, run: Callable[[Any], int], summary: str, **options: Any) -> Any:
    """A subcommand with the options that all have."""
    parser = commands.add_parser(name, help=summary, formatter_class=argparse.RawDescriptionHelpFormatter, **options)
    parser.register("action", None, _Once)
    parser.set_defaults(run=run, parser=parser)
    parser.add_argument("-q", "--quiet", action="store_true", help="no progress and no remarks")
    # given again after the subcommand; its absence there must not undo what came before
    parser.add_argument("--traceback", action="store_true", default=argparse.SUPPRESS, help=argparse.SUPPRESS)
    return parser


def _imported(place: str) -> Callable[[Any], int]:
    """A function that is imported when it is called: help should not load numerical libraries."""
    module, name = place.split(":")
    return lambda options: getattr(import_module(module), name)(options)


def _add(group: Any, entries: Sequence[Any]) -> None:
    """Options by name; a dict changes what is said of them, a tuple lists some of which only one may be given."""
    for entry in entries:
        if isinstance(entry, tuple):
            _add(group.add_mutually_exclusive_group(), entry)
            continue
        [(names, changes)] = entry.items() if isinstance(entry, dict) else [(entry, {})]
        settings = {**OPTIONS.get(names, {}), **changes}
        if settings.get("action") in ("store_true",):
            settings.pop("metavar", None)
        group.add_argument(*names.split(), **settings)


class _Once(argparse.Action):
    """Store a value, and refuse another: the last one would win without a word."""

    def __call__(self, parser: Any, namespace: Any, values: Any, option_string: str | None = None) -> None:
        given = namespace.__dict__.setdefault("given", set())
        if self.dest in given and option_string is not None:
            raise argparse.ArgumentError(self, "given twice, but allowed only once")
        given.add(self.dest)
        setattr(namespace, self.dest, values)


def numbers(text: str, option: str) -> list[float]:
    """Positive numbers separated by commas, or a `UsageError`.

    Examples
    --------
    >>> from multikernel.cli.parser import numbers
    >>> numbers("0.25,1,4", "--bandwidths")
    [0.25, 1.0, 4.0]
    """
    try:
        values = [float(part) for part in text.split(",")]
    except ValueError:
        values = []
    if not values or not all(0 < value < float("inf") for value in values):
        raise UsageError(f"{option} {text!r}: expected positive numbers separated by commas, such as 0.1,1,10")
    return values


def known_names(text: str, choices: Sequence[str], what: str) -> list[str]:
    """Names separated by commas, each one of ``choices``; else a `UsageError` suggests the nearest."""
    from multikernel.io.files import near_matches

    names = [part.strip() for part in text.split(",")]
    for name in names:
        if name not in choices:
            raise UsageError(f"there is no {what} {name!r}; {near_matches(name, list(choices))}")
    return list(dict.fromkeys(names))
