"""From options to a task: samples, labels and kernels."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from multikernel.cli.parser import UsageError, known_names
from multikernel.compare.stacks import Preparation, make_scaler
from multikernel.datasets import load_digits_quadrants
from multikernel.gram.normalization import STEPS
from multikernel.images.families import FAMILIES as VISUAL
from multikernel.images.families import visual_kernels
from multikernel.io.files import DataError
from multikernel.io.image_folders import read_images
from multikernel.io.tables import Dataset, read_dataset
from multikernel.kernels import KernelFamily, kernel_grid
from multikernel.kernels.family import NAMED_KERNELS

# kernels that need more than columns of numbers cannot be described on the command line
FAMILIES = [name for name in NAMED_KERNELS if name not in ("pyramid", "distance", "precomputed")]
# and these need columns that are not negative
_OF_HISTOGRAMS = {"chi2", "additive_chi2", "intersection"}
# ratio of mean k(x, x) from which a remark is due, and samples that are enough to estimate it
_FAR_APART = 1e3
_SCALE_SAMPLES = 500


@dataclass(frozen=True)
class CommandTask:
    """What to learn from: samples (n, d) or (n, n, F), or images; labels, how kernels are made, the files."""

    name: str
    description: str
    X: np.ndarray
    y: np.ndarray
    preparation: Preparation
    grid: Mapping[str, list[float]] | None
    kernel_names: list[str] | None = None  # of precomputed kernels
    data: Dataset | None = None
    classes: list[str] | None = None  # of a table of labels

    @property
    def images(self) -> bool:
        """Whether X holds paths of images."""
        return self.X.dtype.kind == "U"


def say(options: argparse.Namespace, text: str) -> None:
    """Print to standard error, unless the command is to be quiet."""
    if not options.quiet:
        print(text, file=sys.stderr)


def begin(options: argparse.Namespace) -> CommandTask:
    """Check options and outputs, read the task that the options describe, and say what it is."""
    grid = {"C": options.C} if options.C else None
    steps = None
    if options.normalize is not None:
        known_names(options.normalize, STEPS, "step of normalisation")
        steps = [step.strip() for step in options.normalize.split(",")]  # a step may come twice
    check_outputs(options)
    prepared = {"psd": options.psd, "missing": options.missing, "normalize": steps, "memory": options.memory}
    if options.images and options.data:
        raise UsageError("--data and --images are given: samples come from one of them")
    read = _images if options.images else _read if options.data else _embedded
    task = read(options, prepared, grid)
    say(options, f"{task.name}: {task.description}")
    for remark in [] if options.quiet else _scale_remarks(task):
        say(options, f"remark: {remark}")
    return task


def _read(options: argparse.Namespace, prepared: dict[str, Any], grid: Any) -> CommandTask:
    """The task in the files."""
    families = known_names(options.kernels, FAMILIES, "kernel")
    bandwidths = [f"{m:g}*mean" if m != 1 else "mean" for m in options.bandwidths]
    names = [name for name, _ in options.view]
    for name in names:
        if names.count(name) > 1:
            raise UsageError(f"--view {name!r} is given twice: put its columns in one list, separated by commas")
    if len(options.data) > 1 and options.id is None:
        raise UsageError("several --data files are joined by sample ID: name the ID column with --id")
    data = read_dataset(
        options.data,
        target=options.target,
        views=dict(options.view),
        drop=options.drop,
        precomputed=options.precomputed,
        distances=options.distances,
        id=options.id,
        split=getattr(options, "split", None),
        regression=getattr(options, "regression", False),
        allow_nan=options.missing == "mask",
    )
    name, _, description = data.describe().partition(": ")
    scale = None
    if data.is_precomputed:
        idle = ("kernels", "scale", "view", "drop", *(() if data.distances else ("bandwidths",)))
        given = [option for option in idle if option in getattr(options, "given", ())]
        if given:
            raise UsageError(f"--{given[0]} applies to feature columns, but the file holds matrices")
        if not data.distances:
            preparation = Preparation("precomputed", **prepared)
            return CommandTask(name, description, data.X, data.y, preparation, grid, data.kernel_names, data)
        kernels = kernel_grid({view: f for f, view in enumerate(data.kernel_names)}, ["distance"], bandwidths)
    else:
        kernels = kernel_grid(data.views, families, bandwidths)
        scale = options.scale
        if scale is None and data.is_table and not _OF_HISTOGRAMS.intersection(families):
            scale = "standard"
        scale = None if scale == "none" else scale
    description += f", {len(kernels)} kernel{'s' * (len(kernels) != 1)}"
    description += f", columns scaled ({scale})" if scale else ""
    return CommandTask(name, description, data.X, data.y, Preparation(kernels, scale, **prepared), grid, data=data)


def _images(options: argparse.Namespace, prepared: dict[str, Any], grid: Any) -> CommandTask:
    """The task in a folder or list of images."""
    chosen = getattr(options, "given", ())
    for option in ("id", "view", "drop", "scale", "precomputed", "distances", "split", "bandwidths", "regression"):
        if option in chosen or (option != "bandwidths" and getattr(options, option, None)):
            raise UsageError(f"--{option} is for tables of numbers, and not for --images")
    family = options.kernels if "kernels" in chosen else "flower17"
    known_names(family, list(VISUAL), "family of kernels on images")
    found = read_images(options.images, options.target)
    say_left_out(options, found.left_out)
    cues, kernels = visual_kernels(family, random_state=options.seed, n_jobs=-1, memory=options.cache)
    name, _, description = found.describe().partition(": ")
    n_cues = len(cues.transformer_list)
    description += f", {len(kernels)} kernels ({family}) on {n_cues} cue{'s' * (n_cues != 1)}"
    assert found.y is not None
    preparation = Preparation(kernels, cues, **prepared)
    return CommandTask(name, description, found.paths, found.y, preparation, grid, classes=found.labels or None)


def say_left_out(options: argparse.Namespace, files: list[str]) -> None:
    """Name the files that are no images."""
    if files:
        shown = [*files[:20], *(["…"] if len(files) > 20 else [])]
        say(options, "\n  ".join([f"remark: {len(files)} file{'s' * (len(files) > 1)} left out:", *shown]))


def _embedded(options: argparse.Namespace, prepared: dict[str, Any], grid: Any) -> CommandTask:
    """The digits; options that only make sense with a file are refused."""
    needy = ("id", "target", "view", "drop", "scale", "precomputed", "distances", "split")
    given = [f"--{name}" for name in needy if getattr(options, name)]
    if given:
        raise UsageError(f"{given[0]} needs a file: add --data FILE")
    digits = load_digits_quadrants()
    n, d = digits.X.shape
    description = (
        f"{n} samples, {d} features in {len(digits.views)} views, {len(np.unique(digits.y))} classes, "
        f"{len(digits.kernels)} kernels"
    )
    name = digits.name[:1].upper() + digits.name[1:]
    return CommandTask(name, description, digits.X, digits.y, Preparation(digits.kernels, **prepared), grid)


def check_outputs(options: argparse.Namespace) -> None:
    """Refuse, before any work, files that could not be written or that would replace another of the command."""
    taken = [("--data", path) for path in getattr(options, "data", None) or ()]
    taken += [("--images", path) for path in [getattr(options, "images", None)] if path]
    taken += [(name.upper(), vars(options)[name]) for name in ("model", "file") if vars(options).get(name)]
    for option in ("output", "json", "weights"):
        path = getattr(options, option, None)
        if not isinstance(path, str):  # not given, or a flag
            continue
        for other, used in taken:
            if _same_file(path, used):
                raise UsageError(
                    f"--{option} {path} is also the file of {other}, which would be overwritten: choose another name"
                )
        taken.append((f"--{option}", path))
        target = Path(os.path.realpath(path))  # where a link leads
        if target.is_symlink():
            raise DataError(f"cannot write {path}: it is a link that points back to itself")
        if target.is_dir():
            raise DataError(f"cannot write {path}: it is a folder")
        if not target.parent.is_dir():
            raise DataError(f"cannot write {path}: there is no folder {os.path.dirname(path)}")
        if not os.access(target.parent, os.W_OK):
            raise DataError(f"cannot write {path}: no permission to write in {target.parent}")


def _same_file(first: str, second: str) -> bool:
    """Whether two paths lead to one file, through links or not; the file need not exist yet."""
    try:
        return os.path.samefile(first, second)
    except OSError:
        return os.path.realpath(first) == os.path.realpath(second)


def _scale_remarks(task: CommandTask) -> list[str]:
    """What to say about columns, or kernels, that differ so much in size that the large ones are all that counts."""
    if task.images or (task.data is not None and task.data.distances):  # exp(-D / mean D): all of one size
        return []
    rows = np.unique(np.linspace(0, len(task.y) - 1, _SCALE_SAMPLES).astype(int))
    remarks = []
    if task.preparation.precomputed:
        names = task.kernel_names or [f"kernel {k}" for k in range(task.X.shape[2])]
        diagonals = task.X[rows, rows].T
    else:
        try:
            scaler = make_scaler(task.preparation.scale)
            X = task.X[rows] if scaler is None else scaler.fit_transform(task.X[rows])
            columns = None if task.data is None else task.data.feature_names
            family = KernelFamily.fit(task.preparation.kernels, X, columns)
            names, diagonals = list(family.names), family.diagonal(X)
        except (ValueError, ArithmeticError):  # the work itself will say what is wrong, on all samples
            return []
        remarks = [remark for remark in [family.remark_on_scales(X)] if remark]
    sizes = np.asarray(diagonals, dtype=np.float64).mean(axis=1)
    low, high = np.where(sizes > 0, sizes, np.inf).argmin(), sizes.argmax()
    if task.preparation.normalize is None and sizes[high] > _FAR_APART * sizes[low] > 0:
        remarks.append(
            f"kernels differ in size by a factor of {sizes[high] / sizes[low]:.0e}: k(x, x) is {sizes[low]:.2g} on "
            f"average for {names[low]!r} and {sizes[high]:.2g} for {names[high]!r}. The large ones dominate any sum; "
            "--normalize variance puts all kernels on one scale"
        )
    return remarks
