"""Folders and lists of images as a task: paths and labels; files that are no images are named and left out."""

from __future__ import annotations

import os
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import joblib
import numpy as np
from numpy.typing import NDArray

from multikernel.images import ImageError, read_image
from multikernel.io.files import DataError, near_matches
from multikernel.io.tables import Table, read_table
from multikernel.io.tables.dataset import USUAL_TARGETS

PATH_COLUMNS = ("path", "image", "file", "filename", "image_path", "file_name")
SEVERAL = ";"  # between the labels of one image


@dataclass(frozen=True)
class ImageSet:
    """Images that can be read, with their labels."""

    name: str
    paths: NDArray  # (n,): text
    y: NDArray | None  # (n,): classes; (n, L): 0 or 1 for each label; None where nothing is known
    labels: list[str]  # of a table of labels
    left_out: list[str]  # which files are not used, and why

    def describe(self) -> str:
        """One line for people: images, classes or labels."""
        what = f"{len(self.labels)} labels" if self.labels else f"{len(np.unique(np.asarray(self.y)))} classes"
        return f"{self.name}: {len(self.paths)} images, {what}"


def read_images(source: str | os.PathLike[str], target: str | None = None, *, labelled: bool = True) -> ImageSet:
    """Find images and their labels, and try to read each, so that none fails later.

    Parameters
    ----------
    source : path
        A folder with a sub-folder for each class, or a table with a column of paths, from its own folder, and labels:
        a column of classes, of several labels separated by ``;``, or columns of 0 and 1.
    target : str, optional
        Column with the labels; by default one with a usual name, else all columns of 0 and 1.
    labelled : bool
        Whether labels are needed; without, images may lie in the folder itself.

    Raises
    ------
    DataError
        When there are no images, or too few classes to learn from.
    """
    path = Path(source)
    left_out: list[str] = []
    names: list[str] = []
    if path.is_dir():
        paths, y = _in_folders(path, labelled, left_out)
    else:
        paths, y, names = _listed(read_table(path), path.parent, target, labelled)
    if not paths:
        raise DataError(f"{source} holds no files{' in sub-folders, one for each class' * labelled}")
    errors = joblib.Parallel(n_jobs=-1, prefer="threads")(joblib.delayed(_error)(file) for file in paths)
    good = np.array([error is None for error in errors])
    left_out += filter(None, errors)
    if not good.any():
        raise DataError(f"{source} holds no images that can be read: {left_out[0]}")
    if y is not None:
        left_out += [f"class {name!r} has no images" for name in np.setdiff1d(y, y[good]).tolist() if not names]
        y = y[good]
    if labelled and not names and len(np.unique(y)) < 2:
        raise DataError(f"{source} holds images of one class, {str(y[0])!r}: at least two are needed")
    return ImageSet(path.name or str(path), np.array(paths, dtype=str)[good], y, names, left_out)


def _error(file: str) -> str | None:
    """Why a file cannot be used as an image."""
    try:
        read_image(file, 64)
    except ImageError as error:
        return str(error)
    return None


def _in_folders(folder: Path, labelled: bool, left_out: list[str]) -> tuple[list[str], Any]:
    """Files below the sub-folders of a folder, and the names of these; hidden ones do not count."""
    entries = sorted(entry for entry in folder.iterdir() if not entry.name.startswith("."))
    classes = [entry for entry in entries if entry.is_dir()]
    loose = [str(entry) for entry in entries if entry.is_file()]
    if not classes and not labelled:
        return loose, None
    files = {one.name: [str(file) for file in sorted(one.rglob("[!.]*")) if file.is_file()] for one in classes}
    left_out += [f"{file} is in no class's sub-folder" for file in loose]
    left_out += [f"{folder / name}: no files" for name, found in files.items() if not found]
    return [*chain(*files.values())], np.repeat(list(files), [len(found) for found in files.values()])


def _listed(table: Table, folder: Path, target: str | None, labelled: bool) -> tuple[list[str], Any, list[str]]:
    """Paths and labels in a table."""
    column = next((name for name in table.blocks if name.lower() in PATH_COLUMNS), None)
    if column is None:
        raise DataError(
            f"{table.source} has no column of paths: call it 'path' ({near_matches('', list(table.blocks))})"
        )
    paths = [str(folder / value) for value in _as_text(table.blocks[column])]
    others = {name: block for name, block in table.blocks.items() if name != column}
    if target is not None and target not in others:
        raise DataError(
            f"{table.source} has no column {target!r} for the target; {near_matches(target, list(others))}"
        )
    target = target or next((name for name in others if name.lower() in USUAL_TARGETS), None)
    if target is None:
        flags = {name: block for name, block in others.items() if _is_flags(block)}
        if not flags and labelled:
            raise DataError(
                f"{table.source} has no column of labels: name one with --target, or give columns of 0 and 1"
            )
        return paths, np.column_stack(list(flags.values())).astype(int) if flags else None, list(flags)
    values = _as_text(others[target])
    if any(SEVERAL in value for value in values):
        parts = [{part.strip() for part in value.split(SEVERAL)} for value in values]
        names = sorted(set().union(*parts) - {""})
        return paths, np.array([[name in part for name in names] for part in parts], dtype=int), names
    if labelled and "" in values:
        raise DataError(f"{table.source}: {values.count('')} rows have no {target!r}, first row {values.index('')}")
    return paths, np.array(values), []


def _as_text(block: NDArray) -> list[str]:
    """Cells as the file has them: whole numbers without a point, nothing where a number is missing."""
    if block.dtype.kind == "f":
        return ["" if np.isnan(value) else f"{value:.15g}" for value in block.ravel()]
    return [str(value).strip() for value in block.ravel()]


def _is_flags(block: NDArray) -> bool:
    return block.dtype.kind in "biuf" and bool(np.isin(block, (0, 1)).all())
