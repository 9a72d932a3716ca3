"""``multikernel compare``."""

from __future__ import annotations

import argparse
import json
import os
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from multikernel.cli.task import CommandTask
    from multikernel.compare.tuning import Split


def run_compare(options: argparse.Namespace) -> int:
    """Compare, print the table, write the page; 130 if interrupted, 1 if no method could be fitted."""
    import multikernel.estimators  # noqa: F401 (methods register themselves)
    from multikernel.cli.parser import known_names
    from multikernel.cli.progress import ProgressBar
    from multikernel.cli.task import check_outputs, grid_of, memory_of, read_task, scale_remarks, steps_of
    from multikernel.compare import compare
    from multikernel.estimators.registry import available

    methods = None if options.methods is None else known_names(options.methods, list(available()), "method")
    grid, steps, memory = grid_of(options), steps_of(options), memory_of(options)
    check_outputs({"--output": options.output, "--json": options.json}, {"--data": options.data})
    task = read_task(options)
    if not options.quiet:
        print(f"{task.name}: {task.description}", file=sys.stderr)
        for remark in scale_remarks(task, steps):
            print(remark, file=sys.stderr)
    with ProgressBar(options.quiet, "comparing") as progress:
        comparison = compare(
            task.X,
            task.y,
            task.kernels,
            methods=methods,
            cv=_splits(task) or options.cv or 5,
            test_size=_test_size(options, len(task.y)),
            inner_cv=options.inner_cv,
            grid=grid,
            normalize=steps,
            single_kernels=not options.no_single,
            kernel_names=task.kernel_names,
            random_state=options.seed,
            scoring=options.scoring,
            class_weight=options.class_weight,
            max_time=options.max_time,
            memory=memory,
            scale=task.scale,
            psd=options.psd,
            progress=progress,
            data=task.name[:1].upper() + task.name[1:] if not options.data else task.name,
            description=task.description,
            command=shlex.join(["multikernel", *options.command_line]),
        )
    return _finish(comparison, options)


def _splits(task: CommandTask) -> list[Split] | None:
    """Splits that the file gives, if it was asked."""
    return None if task.data is None else task.data.splits


def _test_size(options: argparse.Namespace, n_samples: int) -> float | None:
    """The share to hold out; None for cross-validation, which few samples need and many make slow."""
    if options.cv is None and options.test_size is None and n_samples > 1000:
        return 0.3
    return options.test_size


def _finish(comparison, options: argparse.Namespace) -> int:
    """Print and write what was found, if anything was."""
    from multikernel.compare.table import text_table
    from multikernel.io.files import write_text
    from multikernel.report import write_report

    anything = comparison.best() is not None
    if anything or not comparison.interrupted:
        grey = sys.stdout.isatty() and "NO_COLOR" not in os.environ
        print(text_table(comparison, grey=grey), flush=True)
        for remark in [] if options.quiet else comparison.remarks:
            print(f"remark: {remark}", file=sys.stderr)
    if anything:
        write_report(comparison, options.output)
        if options.json:
            text = json.dumps(comparison.to_dict(), indent=1, allow_nan=False, ensure_ascii=False)
            write_text(options.json, text + "\n")
        if not options.quiet:
            print(f"report: {Path(options.output)}", file=sys.stderr)
    if comparison.interrupted:
        kept = "what was finished is in the report" if anything else "nothing was finished, nothing was written"
        print(f"multikernel: interrupted; {kept}", file=sys.stderr)
        return 130
    if not anything:
        print("multikernel: error: no method could be fitted; the reasons are above", file=sys.stderr)
        return 1
    return 0
