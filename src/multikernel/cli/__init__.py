"""The command ``multikernel``: compare, fit, predict, info, reproduce, data."""

from __future__ import annotations

import contextlib
import os
import sys
import warnings
from collections.abc import Sequence

from multikernel.cli.parser import UsageError, build_parser, missing

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code.

    0: done. 1: the data, a file or all methods failed. 2: the command itself is wrong. 130: interrupted.
    """
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    options, unknown = build_parser().parse_known_args(arguments)
    if unknown and options.run is not missing:
        options.parser.error(f"unrecognized arguments: {' '.join(unknown)}")
    options.command_line = arguments
    try:
        with warnings.catch_warnings():
            warnings.showwarning = _remark  # type: ignore[assignment]
            if options.quiet:
                warnings.simplefilter("ignore")
            code = options.run(options)
        sys.stdout.flush()
        return code
    except UsageError as error:
        options.parser.print_usage(sys.stderr)
        print(f"{options.parser.prog}: error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("\nmultikernel: interrupted; nothing was written", file=sys.stderr)
        return 130
    except BrokenPipeError:  # the reader of our output has gone, for instance `| head`
        with contextlib.suppress(OSError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except Exception as error:
        from multikernel.compare.trial import in_words

        if options.traceback:
            raise
        print(f"multikernel: error: {in_words(error)}", file=sys.stderr)
        return 1


def _remark(message: object, *_where: object) -> None:
    """Show a warning without the line of the program that it arose at."""
    print(f"multikernel: warning: {message}", file=sys.stderr)
