"""Commands on large Parquet files, read a block of rows at a time, in this process or on a Dask cluster."""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.pipeline import Pipeline

from multikernel.cli.parser import UsageError, known_names
from multikernel.cli.progress import ProgressBar
from multikernel.cli.task import CommandTask, begin, say
from multikernel.compare.results import Comparison, MethodResult
from multikernel.compare.stacks import make_scaler
from multikernel.compare.trial import relative_gap
from multikernel.compare.tuning import candidates, configured
from multikernel.estimators import SVRGMKLClassifier, SVRGMKLRegressor
from multikernel.estimators.registry import Method, available
from multikernel.inspection.stability import weight_shares
from multikernel.io.versions import all_versions
from multikernel.kernels import Nystroem
from multikernel.kernels.sources import ParquetSource, PartSource, Source
from multikernel.runtime.executors import connected, executor_for

# Rows up to which a file is read as a whole, and of the sample that all choices but those of a fit are made on.
ROWS = 20_000


def in_blocks(options: argparse.Namespace) -> bool:
    """Whether the data are a Parquet file, or a folder of them, too large to be read as a whole, or asked to be."""
    if len(options.data or ()) != 1 or not (Path(options.data[0]).is_dir() or options.data[0].endswith(".parquet")):
        if options.scheduler or options.workers:
            raise UsageError(
                "--scheduler and --workers read blocks of rows: give one Parquet file or folder as --data"
            )
        return False
    if options.scheduler or options.workers or Path(options.data[0]).is_dir():
        return True
    return Path(options.data[0]).is_file() and ParquetSource(options.data[0]).shape[0] > ROWS


@contextmanager
def cluster(options: argparse.Namespace) -> Iterator[None]:
    """Context in which blocks are worked on where the options say."""
    with ExitStack() as stack:
        if options.scheduler:
            stack.enter_context(connected(options.scheduler))
        elif options.workers:
            from distributed import Client, LocalCluster

            many = stack.enter_context(
                LocalCluster(n_workers=options.workers, threads_per_worker=1, dashboard_address=None)
            )
            stack.enter_context(Client(many))
        yield


class BlockTask:
    """What to learn from in a large table: columns, kernels and scaling are read off a sample of its rows."""

    def __init__(self, options: argparse.Namespace):
        self.options, self.path = options, options.data[0]
        whole = ParquetSource(self.path)
        rows = np.sort(np.random.default_rng(options.seed).permutation(whole.shape[0])[:ROWS])
        with tempfile.TemporaryDirectory() as folder:
            options.data = [f"{folder}/{Path(self.path).stem}.parquet"]
            whole.write_rows(rows, options.data[0])
            sample = begin(options)
        options.data = [self.path]
        assert sample.data is not None
        how = sample.preparation
        self.scaler = make_scaler(how.scale)
        X = sample.X if self.scaler is None else self.scaler.fit_transform(sample.X)
        self.sample: CommandTask = replace(sample, X=X)
        self.kernels = [
            k if k.has_features else Nystroem(kernel=k, rank=options.rank, name=k.label) for k in how.kernels
        ]
        self.settings = {name: getattr(how, name) for name in ("missing", "memory", "normalize")}
        names = sample.data.feature_names
        source = ParquetSource(self.path, [name for name in whole.names if name not in names])
        self.source: Source = PartSource(source, transform=None if self.scaler is None else self.scaler.transform)
        self.y = source.column(sample.data.target)
        say(
            options,
            f"{self.path}: {source.shape[0]} rows in blocks, {len(self.kernels)} kernels with explicit features",
        )

    def method(self, name: str) -> Method:
        """A method that reads blocks."""
        if getattr(self.options, "regression", False):
            return Method("svrg-regression", "SVRG-MKL regression", SVRGMKLRegressor, grid={"C": (1.0, 10.0, 100.0)})
        average = Method(
            "average", "Average kernel, logistic loss", SVRGMKLClassifier, {"p": np.inf}, {"C": (1.0, 10.0)}
        )
        known = {"average": average, **{key: available()[key] for key in ("svrg", "mkfda", "mkfda-p2")}}
        if name not in known:
            raise UsageError(f"{name!r} needs all samples at once; of blocks of rows learn {', '.join(known)}")
        limits = {"class_weight": self.options.class_weight, "max_time": self.options.max_time}
        return configured(known[name], "accuracy", **limits)

    def choose(self, method: Method) -> dict[str, Any]:
        """Parameters that are best on half of the sample, fitted to the other half."""
        tried = candidates(method, {"C": self.options.C} if self.options.C else None)
        if len(tried) == 1:
            return tried[0]
        X, y = self.sample.X, self.sample.y
        scores = [self.make(method, one).fit(X[::2], y[::2]).score(X[1::2], y[1::2]) for one in tried]
        return tried[int(np.argmax(scores))]

    def make(self, method: Method, parameters: dict[str, Any]) -> Any:
        """The estimator."""
        return method.make(self.kernels, **self.settings, **parameters)

    def fit(self, method: Method, parameters: dict[str, Any], rows: np.ndarray | None = None) -> Any:
        """The estimator, fitted to all rows or to some, behind its scaler."""
        y = self.y if rows is None else self.y[rows]
        model = self.make(method, parameters)
        model._keep_interrupted = False  # half a model is none to keep
        model.fit(PartSource(self.source, rows), y)
        del model._keep_interrupted
        return model if self.scaler is None else Pipeline([("scale", self.scaler), ("model", model)])


def answers(call: Callable[[Any], Any], source: Source) -> Iterator[Any]:
    """``call`` of each block of rows, in order; few at a time are in memory."""
    executor, edges = executor_for(), source.ranges()
    shared, size = executor.share(call), 4 * len(getattr(executor, "places", "ab"))
    for first in range(0, len(edges), size):
        some = edges[first : first + size]
        yield from executor.collect(_answer, [source.part(*edge) for edge in some], shared, own=some)


def _answer(source: Source, edge: tuple[int, int], call: Callable[[Any], Any]) -> Any:
    return call(source.read(*edge))


def compare_blocks(options: argparse.Namespace) -> Comparison:
    """Methods that read blocks, on one split of the rows."""
    names = ["average", "svrg", "mkfda", "mkfda-p2"]
    asked = names if options.methods is None else known_names(options.methods, list(available()), "method")
    if options.cv is not None or options.split is not None:
        raise UsageError("blocks of rows are compared on one split: use --test-size")
    task, start = BlockTask(options), time.perf_counter()
    methods = [task.method(name) for name in asked]
    n = len(task.y)
    held = np.random.default_rng(options.seed).random(n) < (options.test_size or 0.3)
    train, test = np.flatnonzero(~held), np.flatnonzero(held)
    truth, raw = task.y[test], PartSource(task.source.source, test)  # type: ignore[attr-defined]
    classes, counts = np.unique(task.y[train], return_counts=True)
    found = Comparison(
        data=Path(task.path).name,
        classes=[str(label) for label in classes],
        kernel_names=[kernel.label for kernel in task.kernels],
        protocol=f"{len(test)} rows held out, {len(train)} to train on, in blocks; parameters chosen on "
        f"{len(task.sample.y)} rows{task.sample.preparation}",
        n_splits=1,
        description=f"{n} rows",
        started=datetime.now().astimezone().isoformat(timespec="seconds"),
        versions=all_versions(),
        command=" ".join(["multikernel", *options.command_line]),
        baseline=MethodResult("baseline", "Most frequent class"),
        n_train=[len(train)],
        n_test=[len(test)],
    )
    assert found.baseline is not None
    share = float(np.mean(truth == classes[counts.argmax()]))
    found.baseline.add(share, {"accuracy": share})
    with ProgressBar(options.quiet, "comparing", len(methods)) as progress, cluster(options):
        for k, method in enumerate(methods):
            progress(method.title, k, len(methods))
            row = MethodResult(method.name, method.title)
            found.methods.append(row)
            row.parameters.append(task.choose(method))
            clock = time.perf_counter()
            model = task.fit(method, row.parameters[0], train)
            row.fit_seconds.append(time.perf_counter() - clock)
            score = float(np.mean(np.concatenate(list(answers(model.predict, raw))) == truth))
            row.add(score, {"accuracy": score})
            last = model[-1] if isinstance(model, Pipeline) else model
            row.gaps.append(relative_gap(last))
            row.n_kernels.append(float(last.n_kernels_))
            row.weights.append(weight_shares(last).tolist())
    found.seconds = time.perf_counter() - start
    return found
