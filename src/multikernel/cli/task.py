"""From options to a task: samples, labels and kernels."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from multikernel.cli.parser import UsageError, known_names, refuse
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
# options that only make sense for columns, or for arrays in a file
_OF_COLUMNS = ("kernels", "scale", "view", "drop")
_OF_FILES = ("id", "view", "drop", "scale", "precomputed", "distances", "split")
# ratio of mean k(x, x) from which a remark is due, and samples that are enough to estimate it
_FAR_APART = 1e3
_SCALE_SAMPLES = 500


@dataclass(frozen=True)
class CommandTask:
    """What to learn from: samples (n, d) or (n, n, F), or images; labels, how kernels are made, the files."""

    summary: str  # the name of the data, a colon, and what they are
    X: np.ndarray
    y: np.ndarray
    preparation: Preparation
    data: Dataset | None = None
    classes: list[str] | None = None  # of a table of labels

    @property
    def images(self) -> bool:
        """Whether X holds paths of images."""
        return self.X.dtype.kind == "U"

    @property
    def kernel_names(self) -> list[str] | None:
        """Names of precomputed kernels."""
        return self.data.kernel_names if self.data is not None and self.preparation.precomputed else None


def say(options: argparse.Namespace, text: str) -> None:
    """Print to standard error, unless the command is to be quiet."""
    if not options.quiet:
        print(text, file=sys.stderr)


def begin(options: argparse.Namespace) -> CommandTask:
    """Check options and outputs, read the task that the options describe, and say what it is."""
    steps = None
    if options.normalize is not None:
        known_names(options.normalize, STEPS, "step of normalisation")
        steps = [step.strip() for step in options.normalize.split(",")]  # a step may come twice
    check_outputs(options)
    if options.images and options.data:
        raise UsageError("--data and --images are given: samples come from one of them")
    prepared = partial(Preparation, psd=options.psd, missing=options.missing, normalize=steps, memory=options.memory)
    task = (_images if options.images else _read if options.data else _embedded)(options, prepared)
    say(options, task.summary)
    for remark in [] if options.quiet else _scale_remarks(task):
        say(options, f"remark: {remark}")
    return task


def _read(options: argparse.Namespace, prepared: Callable[..., Preparation]) -> CommandTask:
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
    scale = None
    if data.is_precomputed:
        idle = _OF_COLUMNS if data.distances else (*_OF_COLUMNS, "bandwidths")
        refuse(options, idle, "applies to feature columns, but the file holds matrices")
        if not data.distances:
            return CommandTask(data.describe(), data.X, data.y, prepared("precomputed"), data)
        kernels = kernel_grid({view: f for f, view in enumerate(data.kernel_names)}, ["distance"], bandwidths)
    else:
        kernels = kernel_grid(data.views, families, bandwidths)
        usual = "standard" if data.is_table and not _OF_HISTOGRAMS.intersection(families) else None
        scale = {"none": None, None: usual}.get(options.scale, options.scale)
    summary = f"{data.describe()}, {len(kernels)} kernel{'s' * (len(kernels) != 1)}"
    summary += f", columns scaled ({scale})" if scale else ""
    return CommandTask(summary, data.X, data.y, prepared(kernels, scale), data)


def _images(options: argparse.Namespace, prepared: Callable[..., Preparation]) -> CommandTask:
    """The task in a folder or list of images."""
    refuse(options, (*_OF_FILES, "bandwidths", "regression"), "is for tables of numbers, and not for --images")
    family = options.kernels if "kernels" in options.given else "flower17"
    known_names(family, list(VISUAL), "family of kernels on images")
    found = read_images(options.images, options.target)
    say_left_out(options, found.left_out)
    cues, kernels = visual_kernels(family, random_state=options.seed, n_jobs=-1, memory=options.cache)
    n_cues = len(cues.transformer_list)
    summary = f"{found.describe()}, {len(kernels)} kernels ({family}) on {n_cues} cue{'s' * (n_cues != 1)}"
    assert found.y is not None
    return CommandTask(summary, found.paths, found.y, prepared(kernels, cues), classes=found.labels or None)


def say_left_out(options: argparse.Namespace, files: list[str]) -> None:
    """Name the files that are no images."""
    if files:
        shown = [*files[:20], *(["…"] if len(files) > 20 else [])]
        say(options, "\n  ".join([f"remark: {len(files)} file{'s' * (len(files) > 1)} left out:", *shown]))


def _embedded(options: argparse.Namespace, prepared: Callable[..., Preparation]) -> CommandTask:
    """The digits; options that only make sense with a file are refused."""
    refuse(options, ("target", *_OF_FILES), "needs a file: add --data FILE")
    digits = load_digits_quadrants()
    n, d = digits.X.shape
    summary = (
        f"{digits.name.capitalize()}: {n} samples, {d} features in {len(digits.views)} views, "
        f"{len(np.unique(digits.y))} classes, {len(digits.kernels)} kernels"
    )
    return CommandTask(summary, digits.X, digits.y, prepared(digits.kernels))


def check_outputs(options: argparse.Namespace) -> None:
    """Refuse, before any work, files that could not be written or that would replace another of the command."""
    taken = [("--data", path) for path in getattr(options, "data", None) or ()]
    for name, option in (("images", "--images"), ("model", "MODEL"), ("file", "FILE")):
        taken += [(option, path) for path in [getattr(options, name, None)] if path]
    for option in ("output", "json", "weights"):
        path = getattr(options, option, None)
        if not isinstance(path, str):  # not given, or a flag
            continue
        target = Path(os.path.realpath(path))  # where a link leads
        for other, used in taken:
            if target == Path(os.path.realpath(used)):
                raise UsageError(
                    f"--{option} {path} is also the file of {other}, which would be overwritten: choose another name"
                )
        taken.append((f"--{option}", path))
        if target.is_symlink():
            raise DataError(f"cannot write {path}: it is a link that points back to itself")
        if target.is_dir():
            raise DataError(f"cannot write {path}: it is a folder")
        if not target.parent.is_dir():
            raise DataError(f"cannot write {path}: there is no folder {os.path.dirname(path)}")
        if not os.access(target.parent, os.W_OK):
            raise DataError(f"cannot write {path}: no permission to write in {target.parent}")


def _scale_remarks(task: CommandTask) -> list[str]:
    """What to say about columns, or kernels, that differ so much in size that the large ones are all that counts."""
    if task.images or (task.data is not None and task.data.distances):  # exp(-D / mean D): all of one size
        return []
    rows = np.unique(np.linspace(0, len(task.y) - 1, _SCALE_SAMPLES).astype(int))
    remarks = []
    if task.kernel_names is not None:
        names, diagonals = task.kernel_names, task.X[rows, rows].T
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
