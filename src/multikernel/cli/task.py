"""From options to a task: samples, labels and kernels."""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from multikernel.cli.parser import UsageError, known_names, numbers
from multikernel.files import DataError

# kernels that need more than columns of numbers cannot be described on the command line
_NOT_FROM_COLUMNS = ("pyramid", "distance", "precomputed")
# ratio of mean k(x, x) from which a remark is due, and samples that are enough to estimate it
_FAR_APART = 1e3
_SCALE_SAMPLES = 500


@dataclass(frozen=True)
class Task:
    """What to learn from.

    Parameters
    ----------
    name, description : str
        For titles.
    X : ndarray of shape (n, d), or (n, n, F)
    y : ndarray of shape (n,)
    kernels : list of Kernel, or "precomputed"
    kernel_names : list of str, optional
        Names of precomputed kernels.
    columns : list of str
        Names of the columns of X.
    target : str
        Name of the labels.
    """

    name: str
    description: str
    X: np.ndarray
    y: np.ndarray
    kernels: Any
    kernel_names: list[str] | None = None
    columns: list[str] = field(default_factory=list)
    target: str = "y"


def family_names() -> list[str]:
    """Kernel families that the command line offers."""
    from multikernel.kernels.grid import NAMED_KERNELS

    return [name for name in NAMED_KERNELS if name not in _NOT_FROM_COLUMNS]


def read_task(options: argparse.Namespace) -> Task:
    """The task that the data and kernel options describe; the embedded digits without a file."""
    if options.data is None:
        return _embedded(options)
    from multikernel.tables import read_dataset

    families = known_names(options.kernels, family_names(), "kernel")
    bandwidths = [f"{m:g}*mean" if m != 1 else "mean" for m in numbers(options.bandwidths, "--bandwidths")]
    dataset = read_dataset(
        options.data,
        target=options.target,
        views=parse_views(options.view),
        drop=options.drop,
        precomputed=options.precomputed,
    )
    name, _, description = dataset.describe().partition(": ")
    if dataset.is_precomputed:
        names = dataset.kernel_names
        return Task(name, description, dataset.X, dataset.y, "precomputed", names, target=dataset.target)
    from multikernel.kernels import kernel_grid

    kernels = kernel_grid(dataset.views, families, bandwidths)
    description += f", {len(kernels)} kernels"
    return Task(name, description, dataset.X, dataset.y, kernels, None, dataset.feature_names, dataset.target)


def parse_views(texts: list[str]) -> dict[str, str]:
    """Selectors by view name, or a `UsageError`."""
    from multikernel.tables import parse_view

    views: dict[str, str] = {}
    for text in texts:
        try:
            name, columns = parse_view(text)
        except ValueError as error:
            raise UsageError(f"--view {error}") from None
        if name in views:
            raise UsageError(f"--view {name!r} is given twice: put its columns in one list, separated by commas")
        views[name] = columns
    return views


def _embedded(options: argparse.Namespace) -> Task:
    """The digits; options that only make sense with a file are refused."""
    given = [f"--{name}" for name in ("target", "view", "drop", "precomputed") if getattr(options, name)]
    if given:
        raise UsageError(f"{given[0]} needs a file: add --data FILE")
    from multikernel.datasets import load_digits_quadrants

    digits = load_digits_quadrants()
    n, d = digits.X.shape
    description = (
        f"{n} samples, {d} features in {len(digits.views)} views, {len(np.unique(digits.y))} classes, "
        f"{len(digits.kernels)} kernels"
    )
    return Task(digits.name, description, digits.X, digits.y, digits.kernels)


def check_outputs(outputs: Mapping[str, str | None], inputs: Mapping[str, str | None]) -> None:
    """Refuse, before any work is done, files that could not be written or that would replace another of the command.

    Parameters
    ----------
    outputs, inputs : mapping of str to str or None
        Paths by the option that gave them; None where it was not given.
    """
    taken = {option: path for option, path in inputs.items() if path is not None}
    for option, path in outputs.items():
        if path is None:
            continue
        for other, used in taken.items():
            if _same_file(path, used):
                raise UsageError(
                    f"{option} {path} is the file of {other} too, which would be overwritten: give another name"
                )
        _check_output(path)
        taken[option] = path


def _same_file(first: str, second: str) -> bool:
    """Whether two paths lead to one file, through links or not; the file need not exist yet."""
    try:
        return os.path.samefile(first, second)
    except OSError:
        return Path(first).resolve() == Path(second).resolve()


def _check_output(path: str) -> None:
    """Refuse a file that could not be written."""
    target = Path(path)
    if target.is_dir():
        raise DataError(f"cannot write {path}: it is a folder")
    if not target.parent.is_dir():
        raise DataError(f"cannot write {path}: there is no folder {target.parent}")
    if not os.access(target.parent, os.W_OK):
        raise DataError(f"cannot write {path}: no permission to write in {target.parent.resolve()}")


def steps_of(options: argparse.Namespace) -> list[str] | None:
    """Steps of normalisation in the order given, or a `UsageError`."""
    from multikernel.normalization import STEPS

    if options.normalize is None:
        return None
    known_names(options.normalize, STEPS, "step of normalisation")
    return [step.strip() for step in options.normalize.split(",")]  # a step may come twice


def scale_remark(task: Task) -> str | None:
    """What to say about kernels whose sizes differ so much that the large ones are all that counts."""
    rows = np.unique(np.linspace(0, len(task.y) - 1, _SCALE_SAMPLES).astype(int))
    if isinstance(task.kernels, str):
        names = task.kernel_names or [f"kernel {k}" for k in range(task.X.shape[2])]
        diagonals = task.X[rows, rows].T
    else:
        from multikernel.kernels import KernelFamily

        try:
            family = KernelFamily.fit(task.kernels, task.X[rows])
            names, diagonals = list(family.names), family.diagonal(task.X[rows])
        except (ValueError, ArithmeticError):  # the work itself will say what is wrong, on all samples
            return None
    sizes = np.asarray(diagonals, dtype=np.float64).mean(axis=1)
    low, high = np.where(sizes > 0, sizes, np.inf).argmin(), sizes.argmax()
    if not sizes[high] > _FAR_APART * sizes[low] > 0:
        return None
    return (
        f"remark: kernels differ in size by a factor of {sizes[high] / sizes[low]:.0e}: k(x, x) is {sizes[low]:.2g} "
        f"on average for {names[low]!r} and {sizes[high]:.2g} for {names[high]!r}. Sums of them are ruled by the "
        "large ones; --normalize cosine gives all the same size"
    )


def grid_of(options: argparse.Namespace) -> dict[str, list[float]] | None:
    """Values of parameters that were given."""
    return {"C": numbers(options.C, "-C")} if options.C else None
