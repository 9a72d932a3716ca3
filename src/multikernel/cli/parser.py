"""Options of the command line; the work is in the other files, imported when it is called for."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from typing import Any

from multikernel.versions import multikernel_version


class UsageError(Exception):
    """The command line is wrong: exit code 2."""


EXAMPLES = """\
examples:
  multikernel compare
      all methods on the embedded digits data, 4 views x 3 kernels; writes report.html
  multikernel compare --data flowers.csv --target species --view petals=petal_* --view sepals=0:2
      one kernel of each family per view, on columns of a table
  multikernel compare --data kernels.npz --methods average,best --test-size 0.3
      precomputed kernels, an array of shape (F, n, n) or (n, n, F) beside the labels y
  multikernel fit --data flowers.csv --target species --method average --output flowers.mkl
  multikernel predict flowers.mkl --data new.csv --output predictions.csv
  multikernel info flowers.mkl
  multikernel reproduce flower17 --quick
      an experiment of the papers, on the archives in the folder that MULTIKERNEL_DATA names
"""


def build_parser() -> argparse.ArgumentParser:
    """The parser of all subcommands."""
    parser = argparse.ArgumentParser(
        prog="multikernel",
        description="Multiple kernel learning on files: learn from several kernels at once.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"multikernel {multikernel_version()}")
    parser.add_argument("--traceback", action="store_true", help="show where in the program an error arose")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    _add_compare(commands)
    _add_fit(commands)
    _add_predict(commands)
    _add_info(commands)
    _add_reproduce(commands)
    _add_fetching(commands)
    return parser


def _command(commands: Any, name: str, run: Callable[[Any], int], summary: str, **options: Any) -> Any:
    """A subcommand with the options that all have."""
    parser = commands.add_parser(name, help=summary, formatter_class=argparse.RawDescriptionHelpFormatter, **options)
    parser.set_defaults(run=run)
    parser.add_argument("-q", "--quiet", action="store_true", help="no progress and no remarks")
    # given again after the subcommand; its absence there must not undo what came before
    parser.add_argument("--traceback", action="store_true", default=argparse.SUPPRESS, help=argparse.SUPPRESS)
    return parser


def _add_data(parser: argparse.ArgumentParser, *, required: bool) -> None:
    data = parser.add_argument_group("data")
    embedded = "" if required else "; without it, the embedded digits in four quadrants"
    data.add_argument(
        "-d", "--data", metavar="FILE", required=required, help=f".csv, .tsv, .parquet, .npz or .mat{embedded}"
    )
    data.add_argument("-t", "--target", metavar="NAME", help="column or array with the labels")
    data.add_argument(
        "--view",
        metavar="NAME=COLUMNS",
        action="append",
        default=[],
        help="columns that belong together, by name, position, range a:b or pattern, separated by commas; "
        "repeat for more views",
    )
    data.add_argument("--drop", metavar="COLUMNS", help="columns that are not features")
    data.add_argument(
        "--precomputed",
        metavar="ARRAY",
        nargs="?",
        const=True,
        help="the arrays are kernels, or this array is; usually seen from the shapes",
    )
    kernels = parser.add_argument_group("kernels, one per view, family and bandwidth")
    kernels.add_argument(
        "--kernels", metavar="LIST", default="linear,polynomial,rbf", help="families (default: %(default)s)"
    )
    kernels.add_argument(
        "--bandwidths",
        metavar="LIST",
        default="1",
        help="multiples of the mean distance between training samples, for families that have a bandwidth "
        "(default: %(default)s)",
    )
    kernels.add_argument(
        "--normalize",
        metavar="STEP[,STEP]",
        help="put the kernels on one scale, with statistics of the training samples: center, cosine, trace, "
        "variance, or several in this order of application (default: none)",
    )


def _add_tuning(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("parameters")
    group.add_argument(
        "-C", metavar="LIST", dest="C", help="values of C to choose from by validation (default: the method's own)"
    )
    group.add_argument(
        "--inner-cv", metavar="FOLDS", type=whole(2), default=3, help="folds of that validation (default: 3)"
    )
    group.add_argument("--seed", metavar="N", type=whole(0), default=0, help="seed of the splits (default: 0)")


def _add_compare(commands: Any) -> None:
    from multikernel.cli.comparing import run_compare

    parser = _command(
        commands,
        "compare",
        run_compare,
        "compare all methods on the same splits and kernels",
        description="Compare methods on the same splits and kernels; prints a table and writes a report page.",
        epilog="Parameters are chosen inside the training samples; test samples are used once, to score.",
    )
    _add_data(parser, required=False)
    protocol = parser.add_argument_group("comparison")
    protocol.add_argument("-m", "--methods", metavar="LIST", help="methods to run (default: all)")
    how = protocol.add_mutually_exclusive_group()
    how.add_argument(
        "--cv",
        metavar="FOLDS",
        type=whole(2),
        default=None,
        help="cross-validation (default: 5 folds up to 1000 samples)",
    )
    how.add_argument(
        "--test-size",
        metavar="SHARE",
        type=_share,
        help="hold out this share of the samples once (default: 0.3 beyond 1000 samples)",
    )
    protocol.add_argument("--no-single", action="store_true", help="do not score each kernel alone")
    _add_tuning(parser)
    output = parser.add_argument_group("output")
    output.add_argument("-o", "--output", metavar="FILE", default="report.html", help="page (default: %(default)s)")
    output.add_argument("--json", metavar="FILE", help="write all results as JSON too")


def _add_fit(commands: Any) -> None:
    from multikernel.cli.models import run_fit

    parser = _command(
        commands,
        "fit",
        run_fit,
        "fit one method and write a model file",
        description="Fit a method on all samples of a file and write a model file: arrays and JSON, no code.",
    )
    _add_data(parser, required=True)
    parser.add_argument("-m", "--method", metavar="NAME", default="average", help="method (default: %(default)s)")
    parser.add_argument(
        "-o", "--output", metavar="FILE", required=True, help="model file to write, such as model.mkl"
    )
    _add_tuning(parser)


def _add_predict(commands: Any) -> None:
    from multikernel.cli.models import run_predict

    parser = _command(
        commands,
        "predict",
        run_predict,
        "predict labels of new samples with a model file",
        description="Predict labels. If the file has the model's target too, accuracy is reported.",
    )
    parser.add_argument("model", metavar="MODEL", help="model file, from multikernel fit")
    parser.add_argument(
        "-d", "--data", metavar="FILE", required=True, help="new samples, or their kernels with the training samples"
    )
    parser.add_argument("-o", "--output", metavar="FILE", help="csv file to write (default: standard output)")
    parser.add_argument("--scores", action="store_true", help="decision values too")


def _add_info(commands: Any) -> None:
    from multikernel.cli.info import run_info

    parser = _command(
        commands,
        "info",
        run_info,
        "describe a model or data file; without one, methods and versions",
        description="Describe a model file or a data file. Without a file: methods, kernels and versions.",
    )
    parser.add_argument("file", metavar="FILE", nargs="?", help="model or data file")
    parser.add_argument("--json", action="store_true", help="as JSON")


def _add_reproduce(commands: Any) -> None:
    from multikernel.cli.reproducing import add_reproduce

    add_reproduce(commands, _command)


def _add_fetching(commands: Any) -> None:
    from multikernel.cli.fetching import add_fetching

    add_fetching(commands, _command)


def whole(least: int) -> Callable[[str], int]:
    """Type of an option: a whole number of at least ``least``."""

    def parse(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            raise argparse.ArgumentTypeError(f"{text!r} is not a whole number") from None
        if value < least:
            raise argparse.ArgumentTypeError(f"{value} is too small: at least {least}")
        return value

    return parse


def _share(text: str) -> float:
    """Type of an option: a number between 0 and 1."""
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 < value < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a share between 0 and 1, such as 0.3")
    return value


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
        raise UsageError(f"{option} {text!r}: positive numbers separated by commas are needed, such as 0.1,1,10")
    return values


def known_names(text: str, choices: Sequence[str], what: str) -> list[str]:
    """Names separated by commas, each one of ``choices``; else a `UsageError` suggests the nearest."""
    from multikernel.files import near_matches

    names = [part.strip() for part in text.split(",")]
    for name in names:
        if name not in choices:
            raise UsageError(f"there is no {what} {name!r}; {near_matches(name, list(choices))}")
    return list(dict.fromkeys(names))
