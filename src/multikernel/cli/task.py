"""From options to a task: samples, labels and kernels."""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from multikernel.cli.parser import UsageError, known_names, numbers
from multikernel.io.files import DataError

if TYPE_CHECKING:
    from multikernel.io.tables import Dataset

# kernels that need more than columns of numbers cannot be described on the command line
_NOT_FROM_COLUMNS = ("pyramid", "distance", "precomputed")
# and these need columns that are not negative
_OF_HISTOGRAMS = ("chi2", "additive_chi2", "intersection")
# ratio of mean k(x, x) from which a remark is due, and samples that are enough to estimate it
_FAR_APART = 1e3
_SCALE_SAMPLES = 500


@dataclass(frozen=True)
class CommandTask:
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
    scale : {"standard", "robust"} or None
        Scaling of the columns of X.
    data : Dataset, optional
        The files, if there are any.
    """

    name: str
    description: str
    X: np.ndarray
    y: np.ndarray
    kernels: Any
    kernel_names: list[str] | None = None
    scale: str | None = None
    data: Dataset | None = None


def family_names() -> list[str]:
    """Kernel families that the command line offers."""
    from multikernel.kernels.family import NAMED_KERNELS

    return [name for name in NAMED_KERNELS if name not in _NOT_FROM_COLUMNS]


def read_task(options: argparse.Namespace) -> CommandTask:
    """The task that the data and kernel options describe; the embedded digits without a file."""
    if not options.data:
        return _embedded(options)
    from multikernel.io.tables import read_dataset

    families = known_names(options.kernels, family_names(), "kernel")
    bandwidths = [f"{m:g}*mean" if m != 1 else "mean" for m in numbers(options.bandwidths, "--bandwidths")]
    if len(options.data) > 1 and options.id is None:
        raise UsageError("several --data files are joined by sample ID: name the ID column with --id")
    dataset = read_dataset(
        options.data,
        target=options.target,
        views=parse_views(options.view),
        drop=options.drop,
        precomputed=options.precomputed,
        distances=options.distances,
        id=options.id,
        split=_split_names(getattr(options, "split", None)),
        regression=getattr(options, "regression", False),
    )
    name, _, description = dataset.describe().partition(": ")
    from multikernel.kernels import kernel_grid

    if dataset.is_precomputed:
        _refuse_for_matrices(options, dataset.distances)
        if not dataset.distances:
            names = dataset.kernel_names
            return CommandTask(name, description, dataset.X, dataset.y, "precomputed", names, data=dataset)
        kernels = kernel_grid({name: f for f, name in enumerate(dataset.kernel_names)}, ["distance"], bandwidths)
    else:
        kernels = kernel_grid(dataset.views, families, bandwidths)
    description += f", {len(kernels)} kernel{'s' * (len(kernels) != 1)}"
    scale = _scale(options.scale, dataset, families)
    description += f", columns scaled ({scale})" if scale else ""
    return CommandTask(name, description, dataset.X, dataset.y, kernels, scale=scale, data=dataset)


def _scale(asked: str | None, dataset: Dataset, families: list[str]) -> str | None:
    """How columns are scaled: as asked, else standardised in tables unless a kernel is of histograms."""
    if asked is None:
        return "standard" if dataset.is_table and not set(families) & set(_OF_HISTOGRAMS) else None
    return None if asked == "none" else asked


def _split_names(text: str | None) -> tuple[str, str] | None:
    """The two arrays of ``--split``, or a `UsageError`."""
    if text is None:
        return None
    names = [name.strip() for name in text.split(",")]
    if len(names) != 2 or not all(names):
        raise UsageError(f"--split {text!r} should name two arrays, such as train,test")
    return names[0], names[1]


def _refuse_for_matrices(options: argparse.Namespace, distances: bool) -> None:
    """Options that say what to do with columns mean nothing where matrices are given."""
    idle = ("kernels", "scale", "view", "drop") if distances else ("kernels", "bandwidths", "scale", "view", "drop")
    given = [name for name in idle if name in getattr(options, "given", ())]
    if given:
        raise UsageError(f"--{given[0]} applies to feature columns, but the file holds matrices")


def parse_views(texts: list[str]) -> dict[str, str]:
    """Selectors by view name, or a `UsageError`."""
    from multikernel.io.tables import parse_view

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


def _embedded(options: argparse.Namespace) -> CommandTask:
    """The digits; options that only make sense with a file are refused."""
    needy = ("id", "target", "view", "drop", "scale", "precomputed", "distances", "split")
    given = [f"--{name}" for name in needy if getattr(options, name)]
    if given:
        raise UsageError(f"{given[0]} needs a file: add --data FILE")
    from multikernel.datasets import load_digits_quadrants

    digits = load_digits_quadrants()
    n, d = digits.X.shape
    description = (
        f"{n} samples, {d} features in {len(digits.views)} views, {len(np.unique(digits.y))} classes, "
        f"{len(digits.kernels)} kernels"
    )
    return CommandTask(digits.name, description, digits.X, digits.y, digits.kernels)


def check_outputs(outputs: Mapping[str, str | None], inputs: Mapping[str, Sequence[str] | None]) -> None:
    """Refuse, before any work is done, files that could not be written or that would replace another of the command.

    Parameters
    ----------
    outputs, inputs : mapping of str to path, or paths, or None
        By the option that gave them; None where it was not given.
    """
    taken = [(option, path) for option, paths in inputs.items() for path in paths or ()]
    for option, path in outputs.items():
        if path is None:
            continue
        for other, used in taken:
            if _same_file(path, used):
                raise UsageError(
                    f"{option} {path} is also the file of {other}, which would be overwritten: choose another name"
                )
        _check_output(path)
        taken.append((option, path))


def _same_file(first: str, second: str) -> bool:
    """Whether two paths lead to one file, through links or not; the file need not exist yet."""
    try:
        return os.path.samefile(first, second)
    except OSError:
        return os.path.realpath(first) == os.path.realpath(second)


def _check_output(path: str) -> None:
    """Refuse a file that could not be written."""
    target = Path(os.path.realpath(path))  # where a link leads
    if target.is_symlink():
        raise DataError(f"cannot write {path}: it is a link that points back to itself")
    if target.is_dir():
        raise DataError(f"cannot write {path}: it is a folder")
    if not target.parent.is_dir():
        raise DataError(f"cannot write {path}: there is no folder {os.path.dirname(path)}")
    if not os.access(target.parent, os.W_OK):
        raise DataError(f"cannot write {path}: no permission to write in {target.parent}")


def steps_of(options: argparse.Namespace) -> list[str] | None:
    """Steps of normalisation in the order given, or a `UsageError`."""
    from multikernel.gram.normalization import STEPS

    if options.normalize is None:
        return None
    known_names(options.normalize, STEPS, "step of normalisation")
    return [step.strip() for step in options.normalize.split(",")]  # a step may come twice


def scale_remarks(task: CommandTask, steps: list[str] | None) -> list[str]:
    """What to say about columns, or kernels, that differ so much in size that the large ones are all that counts."""
    rows = np.unique(np.linspace(0, len(task.y) - 1, _SCALE_SAMPLES).astype(int))
    if task.data is not None and task.data.distances:  # exp(-D / mean D): all of one size
        return []
    remarks = []
    if isinstance(task.kernels, str):
        names = task.kernel_names or [f"kernel {k}" for k in range(task.X.shape[2])]
        diagonals = task.X[rows, rows].T
    else:
        from multikernel.compare.stacks import make_scaler
        from multikernel.kernels import KernelFamily

        try:
            scaler = make_scaler(task.scale)
            X = task.X[rows] if scaler is None else scaler.fit_transform(task.X[rows])
            family = KernelFamily.fit(task.kernels, X, None if task.data is None else task.data.feature_names)
            names, diagonals = list(family.names), family.diagonal(X)
        except (ValueError, ArithmeticError):  # the work itself will say what is wrong, on all samples
            return []
        remarks = [f"remark: {remark}" for remark in [family.remark_on_scales(X)] if remark]
    sizes = np.asarray(diagonals, dtype=np.float64).mean(axis=1)
    low, high = np.where(sizes > 0, sizes, np.inf).argmin(), sizes.argmax()
    if steps is None and sizes[high] > _FAR_APART * sizes[low] > 0:
        remarks.append(
            f"remark: kernels differ in size by a factor of {sizes[high] / sizes[low]:.0e}: k(x, x) is "
            f"{sizes[low]:.2g} on average for {names[low]!r} and {sizes[high]:.2g} for {names[high]!r}. The large "
            "ones dominate any sum; --normalize variance puts all kernels on one scale"
        )
    return remarks


def memory_of(options: argparse.Namespace) -> int | None:
    """The budget for kernels in bytes, or a `UsageError`."""
    from multikernel.gram import parse_memory

    try:
        return None if options.memory is None else parse_memory(options.memory)
    except ValueError as error:
        raise UsageError(f"--memory: {error}") from None


def grid_of(options: argparse.Namespace) -> dict[str, list[float]] | None:
    """Values of parameters that were given."""
    return {"C": numbers(options.C, "-C")} if options.C else None
