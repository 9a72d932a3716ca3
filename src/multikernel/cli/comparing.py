"""``multikernel compare``."""

from __future__ import annotations

import argparse
import json
import os
import shlex
import sys

from multikernel.cli.parser import known_names
from multikernel.cli.progress import ProgressBar
from multikernel.cli.task import begin, say
from multikernel.compare import Comparison, compare
from multikernel.compare.table import text_table
from multikernel.estimators.registry import available
from multikernel.io.files import write_text
from multikernel.report import write_report


def run_compare(options: argparse.Namespace) -> int:
    """Compare, print the table, write the page; 130 if interrupted, 1 if no method could be fitted."""
    methods = None if options.methods is None else known_names(options.methods, list(available()), "method")
    task = begin(options)
    how = task.preparation
    splits = None if task.data is None else task.data.splits
    test_size = options.test_size
    if options.cv is None and test_size is None and len(task.y) > 1000:  # cross-validation of so many is slow
        test_size = 0.3
    with ProgressBar(options.quiet, "comparing") as progress:
        comparison = compare(
            task.X,
            task.y,
            how.kernels,
            methods=methods,
            cv=splits or options.cv or 5,
            test_size=test_size,
            inner_cv=options.inner_cv,
            grid=task.grid,
            normalize=how.normalize,
            single_kernels=not options.no_single,
            kernel_names=task.kernel_names,
            random_state=options.seed,
            scoring=options.scoring,
            class_weight=options.class_weight,
            max_time=options.max_time,
            memory=how.memory,
            scale=how.scale,
            psd=how.psd,
            progress=progress,
            data=task.name,
            description=task.description,
            command=shlex.join(["multikernel", *options.command_line]),
        )
    return _finish(comparison, options)


def _finish(comparison: Comparison, options: argparse.Namespace) -> int:
    """Print and write what was found, if anything was."""
    anything = comparison.best() is not None
    if anything or not comparison.interrupted:
        grey = sys.stdout.isatty() and "NO_COLOR" not in os.environ
        print(text_table(comparison, grey=grey), flush=True)
        for remark in comparison.remarks:
            say(options, f"remark: {remark}")
    if anything:
        write_report(comparison, options.output)
        if options.json:
            text = json.dumps(comparison.to_dict(), indent=1, allow_nan=False, ensure_ascii=False)
            write_text(options.json, text + "\n")
        say(options, f"report: {options.output}")
    if comparison.interrupted:
        kept = "what was finished is in the report" if anything else "nothing was finished, nothing was written"
        print(f"multikernel: interrupted; {kept}", file=sys.stderr)
        return 130
    if not anything:
        print(
            "multikernel: error: no method could be fitted, for the reasons above; no report was written",
            file=sys.stderr,
        )
        return 1
    return 0
