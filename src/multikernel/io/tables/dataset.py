"""From the arrays of a file to a learning task: labels, features with views, or precomputed kernels."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from multikernel.io.files import DataError, near_matches
from multikernel.io.tables.formats import Table, empty_cells, read_table, read_tables
from multikernel.io.tables.precomputed import find_kernels
from multikernel.io.tables.selection import select_columns

USUAL_TARGETS = ("y", "y_train", "target", "label", "labels", "class", "classes", "gnd", "truth")


@dataclass(frozen=True)
class Dataset:
    """A task: classification, or regression."""

    name: str  # for titles: the files' names
    X: np.ndarray  # (n, d), or (n, n, F) for precomputed kernels or distances
    y: np.ndarray  # (n,): labels, integers or text; floats to predict
    views: dict[str, list[int]] = field(default_factory=dict)  # columns of X that belong together
    feature_names: list[str] = field(default_factory=list)
    kernel_names: list[str] = field(default_factory=list)  # of precomputed kernels
    target: str = "y"  # where the labels came from
    ids: list[str] | None = None
    splits: list[tuple[np.ndarray, np.ndarray]] | None = None  # training and test samples, where the file has them
    is_table: bool = False  # whether X comes from columns of a table and not from an archive's arrays
    files: list[str] = field(default_factory=list)  # views that were joined, in the order of their files
    distances: bool = False  # whether X holds distances and not kernels

    @property
    def is_precomputed(self) -> bool:
        """Whether X holds kernels, or distances, and not features."""
        return self.X.ndim == 3

    def describe(self) -> str:
        """One line for people: samples, features or kernels, classes, and how many samples lack a view."""
        what = (
            f"{self.X.shape[2]} {'matrices of distances' if self.distances else 'precomputed kernels'}"
            if self.is_precomputed
            else f"{self.X.shape[1]} features in {len(self.views)} view{'s' * (len(self.views) != 1)}"
        )
        classes = "" if self.y.dtype.kind == "f" else f", {len(np.unique(self.y))} classes"
        return f"{self.name}: {len(self.y)} samples, {what}{self._lacking()}{classes}"

    def _lacking(self) -> str:
        """How many samples lack which view, in brackets."""
        if self.is_precomputed:
            gone = dict(zip(self.kernel_names, np.isnan(np.diagonal(self.X)).sum(axis=1)))
        else:
            gone = {view: np.isnan(self.X[:, members]).all(axis=1).sum() for view, members in self.views.items()}
        told = ", ".join(f"{count} without {view}" for view, count in gone.items() if count)
        return f" ({told})" if told else ""


def read_dataset(
    path: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    *,
    target: str | None = None,
    views: Mapping[str, str] | None = None,
    drop: str | None = None,
    precomputed: bool | str | None = None,
    distances: bool = False,
    id: str | None = None,
    split: tuple[str, str] | None = None,
    regression: bool = False,
    allow_nan: bool = False,
) -> Dataset:
    """Read a task from a file, or from several.

    Parameters
    ----------
    path : path, or sequence of path
        A .csv, .tsv, .parquet, .npz or .mat file; several are joined by ``id``, and each is a view by default.
    target : str, optional
        Column or array with the labels; by default one with a usual name, such as ``y`` or ``label``.
    views : mapping of str to str, optional
        Selectors of columns by view, as in `select_columns`. By default every array of an archive is a view,
        and all columns of a table are one.
    drop : str, optional
        Selector of columns that are not features.
    precomputed : bool or str, optional
        Whether the arrays are kernels: of shape (F, n, n) or (n, n, F), or several of shape (n, n). By
        default this is seen from the shapes. A name picks one array of several.
    distances, regression : bool
        Whether matrices are distances, and not kernels, and the target a number, and not a class.
    id : str, optional
        Column, or array, with the ID of each sample.
    split : pair of str, optional
        Arrays of an archive with the rows to train and to test on: numbers from 0, or from 1 if they reach the number
        of samples, or masks; one row per split where they are two-way.
    allow_nan : bool
        Whether cells of features may be empty: they are NaN then. Files need not have the same samples.
    """
    paths = [path] if isinstance(path, (str, os.PathLike)) else list(path)
    table = read_tables(paths, id, outer=allow_nan)
    target = _target_name(table, target)
    y = _labels(table, target, regression=regression)
    name = ", ".join(Path(path).name for path in paths)
    splits = None if split is None else _take_splits(table, split, len(y))
    known: dict[str, Any] = {"target": target, "ids": table.ids, "splits": splits}
    precomputed = precomputed or distances or None
    if table.is_archive and not views:
        kernels, kernel_names = find_kernels(table, target, len(y), precomputed, allow_nan and not distances)
        if kernels is not None:
            _check_diagonal(table, kernels, kernel_names, distances)
            return Dataset(name, kernels, y, kernel_names=kernel_names, distances=distances, **known)
    if precomputed:
        raise DataError(f"{table.source}: precomputed kernels come from .npz or .mat files, not from a table")
    columns, groups = _columns(_feature_blocks(table, target, len(y), views))
    chosen = _views(table, list(columns), groups, views, drop, target)
    used = sorted(set().union(*chosen.values()))
    position = {index: k for k, index in enumerate(used)}
    all_names = list(columns)
    names = [all_names[index] for index in used]
    return Dataset(
        name,
        _matrix(table.source, columns, names, allow_nan),
        y,
        {view: [position[index] for index in members] for view, members in chosen.items()},
        names,
        is_table=not table.is_archive,
        files=list(table.views),
        **known,
    )


def read_features(
    source: str | os.PathLike[str] | Table, names: Sequence[str], allow_nan: bool = False
) -> tuple[np.ndarray, Table]:
    """Read the columns ``names``, in that order: new samples for a model, (m, len(names)), and all of the file."""
    table = source if isinstance(source, Table) else read_table(source)
    columns, _ = _columns(table.blocks)
    missing = [name for name in names if name not in columns]
    if missing:
        raise DataError(
            f"{table.source} lacks {len(missing)} of the {len(names)} columns that the model was fitted on, "
            f"first {missing[0]!r}; {near_matches(missing[0], list(columns))}"
        )
    _check_lengths(table.source, {name: columns[name] for name in names})
    return _matrix(table.source, columns, list(names), allow_nan), table


def known_labels(
    table: Table, target: str, n_samples: int, *, regression: bool = False
) -> tuple[np.ndarray, np.ndarray] | None:
    """Rows of the new samples whose labels, or numbers, the file has, and these, to score predictions."""
    values = table.blocks.get(target, np.zeros(0)).ravel()
    known = np.flatnonzero(~empty_cells(values))
    if values.size != n_samples or not known.size:
        return None
    return known, _labels(replace(table, blocks={target: values[known]}), target, regression=regression, fewest=1)


def _take_splits(table: Table, split: tuple[str, str], n_samples: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """Pairs of rows to train and to test on, taken out of the arrays of an archive."""
    parts = []
    for name in split:
        if not table.is_archive or name not in table.blocks:
            there = near_matches(name, list(table.blocks)) if table.is_archive else "it is a table"
            raise DataError(f"{table.source} has no array {name!r} of rows for a split; {there}")
        block = np.asarray(table.blocks.pop(name))
        if block.dtype.kind not in "biu" and not (block.dtype.kind == "f" and (block == np.round(block)).all()):
            raise DataError(f"{table.source}: the split {name!r} holds {block.dtype}, not row numbers or a mask")
        block = block.reshape(1, -1) if block.size == max(block.shape, default=0) else block
        masks = block.dtype.kind == "b"
        parts.append([np.flatnonzero(row) if masks else row.astype(np.int64) for row in block])
    if len(parts[0]) != len(parts[1]):
        raise DataError(f"{table.source}: {split[0]!r} has {len(parts[0])} splits, {split[1]!r} has {len(parts[1])}")
    rows = np.concatenate([row for part in parts for row in part])
    first = 1 if len(rows) and rows.min() >= 1 and rows.max() == n_samples else 0  # as MATLAB counts
    return [(train - first, test - first) for train, test in zip(*parts)]


def _check_diagonal(table: Table, kernels: np.ndarray, names: list[str], distances: bool) -> None:
    """Refuse distances that are taken for kernels, and the other way round."""
    for f, name in enumerate(names):
        is_zero = not np.diagonal(kernels[:, :, f]).any()
        if is_zero and not distances and kernels[:, :, f].any():
            raise DataError(
                f"{table.source}: the diagonal of {name!r} is zero, which fits distances but not kernels. "
                "If these are distances D, add --distances to use the kernels exp(-D / mean D)"
            )
        if distances and not is_zero:
            raise DataError(f"{table.source}: the diagonal of {name!r} is not zero: these are not distances")


def _target_name(table: Table, target: str | None) -> str:
    """The target as asked, else the only array with a usual name."""
    if target is not None:
        if target not in table.blocks:
            choices = near_matches(target, list(table.blocks))
            raise DataError(f"{table.source} has no column {target!r} for the target; {choices}")
        return target
    usual = [name for name in table.blocks if name.lower() in USUAL_TARGETS]
    if table.is_archive:
        usual = _as_long_as_samples(table, usual)
    if len(usual) != 1:
        found = "several columns could be" if usual else "no column is obviously"
        some = near_matches("", usual or list(table.blocks))
        raise DataError(f"{table.source}: {found} the target; say which with --target ({some})")
    return usual[0]


def _as_long_as_samples(table: Table, usual: list[str]) -> list[str]:
    """Those of an archive's candidates that are as long as its data, the longest: ``classes`` is often names only."""
    blocks = table.blocks
    lengths = {
        k: blocks[k].size if blocks[k].size == max(blocks[k].shape, default=1) else len(blocks[k]) for k in usual
    }
    data = [block for name, block in blocks.items() if block.ndim >= 2 and name not in usual]
    # the last axis too: kernels may be stored as (F, n, n)
    sides = {block.shape[0] for block in data} | {block.shape[-1] for block in data if block.ndim == 3}
    fitting = {name: length for name, length in lengths.items() if not sides or length in sides}
    if not fitting:  # labels of another length are reported where they are put beside the data
        return [name for name in usual if name.lower() not in ("class", "classes")]
    return [name for name, length in fitting.items() if length == max(fitting.values())]


def _labels(table: Table, target: str, *, regression: bool = False, fewest: int = 2) -> np.ndarray:
    """The target, shape (n,): finite floats, or labels as integers where they are whole numbers, else as text."""
    where, values = f"{table.source}: the target {target!r}", np.asarray(table.blocks[target])
    if values.dtype.kind not in "biufOUS":
        raise DataError(f"{where} holds {values.dtype}, neither numbers nor text")
    if values.ndim > 1 and values.size != max(values.shape):
        raise DataError(f"{where} has shape {values.shape}: expected one label per sample")
    if not values.size:
        raise DataError(f"{where} has no entries: there is nothing to learn from")
    if values.dtype.kind in "OUS":
        if regression:
            raise DataError(f"{where} is not numeric: regression needs numbers")
        y = np.array([str(value).strip() for value in values.ravel()])
        missing = y == ""
    else:
        y = values.ravel().astype(np.float64)
        missing = ~np.isfinite(y)
    if missing.any():
        first = int(np.argmax(missing))
        raise DataError(f"{where} is missing in {missing.sum()} of {len(y)} rows, first in row {first}: drop them")
    if regression:
        return y
    if y.dtype.kind == "f":
        fraction = y != np.round(y)
        if fraction.any():
            example = y[np.argmax(fraction)]
            raise DataError(f"{where} looks continuous ({example:g}): use classes, or `fit --regression`")
        y = y.astype(np.int64)
    classes = np.unique(y)
    if len(classes) < fewest:
        raise DataError(f"{where} has only one class ({classes[0]}) in {len(y)} rows: at least two are needed")
    if len(classes) > max(2, len(y) // 2):
        raise DataError(f"{where} has {len(classes)} different values in {len(y)} rows: is it the right column?")
    return y


def _feature_blocks(
    table: Table, target: str, n_samples: int, views: Mapping[str, str] | None
) -> dict[str, np.ndarray]:
    """Blocks that can be features: all columns of a table, an archive's arrays with a row per sample."""
    others = {name: block for name, block in table.blocks.items() if name != target}
    if not table.is_archive:
        if not others:
            raise DataError(f"{table.source} has no column besides the target {target!r}")
        return others
    numeric = {name: block for name, block in others.items() if block.dtype.kind in "biuf" and block.ndim >= 2}
    fitting = {name: block for name, block in numeric.items() if len(block) == n_samples}
    if len(fitting) < len(numeric) and not views:
        _check_lengths(table.source, {target: table.blocks[target].ravel(), **numeric})
    vectors = {k: b for k, b in others.items() if b.dtype.kind in "biuf" and b.shape == (n_samples,)}
    if not fitting and not vectors:
        shapes = ", ".join(f"{name} {block.shape}" for name, block in others.items())
        raise DataError(f"{table.source} has no array of {n_samples} rows to match the target {target!r}: {shapes}")
    return {**fitting, **vectors} if views or not fitting else fitting


def _check_lengths(source: str, blocks: Mapping[str, np.ndarray]) -> None:
    """All blocks must have as many rows as the first."""
    first = next(iter(blocks))
    for name, block in blocks.items():
        if len(block) != len(blocks[first]):
            raise DataError(
                f"{source}: {name!r} has {len(block)} rows, but {first!r} has {len(blocks[first])}; "
                "all views need one row per sample. Choose the arrays to use with --view name=array"
            )


def _columns(blocks: Mapping[str, np.ndarray]) -> tuple[dict[str, np.ndarray], dict[str, list[str]]]:
    """Columns by name, that of their block or ``block.0``, ``block.1``…; and the names of those of wide blocks."""
    columns: dict[str, np.ndarray] = {}
    groups: dict[str, list[str]] = {}
    for name, block in blocks.items():
        if block.ndim == 1:
            columns[name] = block
        else:
            flat = np.atleast_1d(block).reshape(-1, int(np.prod(block.shape[1:])))
            own = {f"{name}.{k}": column for k, column in enumerate(flat.T)}
            columns |= own
            groups[name] = list(own)
    return columns, groups


def _views(
    table: Table,
    columns: list[str],
    groups: Mapping[str, list[str]],
    views: Mapping[str, str] | None,
    drop: str | None,
    target: str,
) -> dict[str, list[int]]:
    """Positions of columns by view, without those dropped."""
    position = {name: k for k, name in enumerate(columns)}
    blocks = {block: [position[name] for name in own] for block, own in groups.items()}
    dropped = set(select_columns(drop, columns, blocks)) if drop else set()
    if views:
        for name, selector in views.items():
            if target in selector.split(","):
                raise DataError(f"view {name!r}: {target!r} is the target and cannot be a feature")
        chosen = {name: select_columns(selector, columns, blocks) for name, selector in views.items()}
    elif table.views:  # one view per file
        of_block = {**{name: [k] for name, k in position.items()}, **blocks}
        chosen = {view: [k for name in own for k in of_block.get(name, [])] for view, own in table.views.items()}
        chosen = {view: own for view, own in chosen.items() if own}  # one may hold the target alone
    else:
        chosen = blocks or {"all": list(range(len(columns)))}
    kept = {name: [k for k in own if k not in dropped] for name, own in chosen.items()}
    for name, own in kept.items():
        if not own:
            raise DataError(f"{table.source}: no column is left in view {name!r}")
    return kept


def _matrix(source: str, columns: Mapping[str, np.ndarray], names: list[str], allow_nan: bool) -> np.ndarray:
    """The columns ``names`` as numbers, finite or, if allowed, NaN; float32 stays float32."""
    wanted = [columns[name] for name in names]
    for name, column in zip(names, wanted):
        if column.dtype.kind not in "biuf":
            _refuse_text(source, name, column)
    single = all(column.dtype in (np.float32, np.float16) for column in wanted)
    X = np.empty((len(wanted[0]), len(wanted)), np.float32 if single else np.float64)
    for k, column in enumerate(wanted):
        X[:, k] = column
    finite = ~np.isinf(X) if allow_nan else np.isfinite(X)
    if not finite.all():
        row, worst = np.argwhere(~finite)[0]
        raise DataError(
            f"{source}: {X.size - finite.sum()} values are missing or not finite, first in column "
            f"{names[worst]!r}, row {row} (counted from 0). Drop these rows or fill them in; samples that lack whole "
            "views can be kept with --missing mask"
        )
    return X


def _refuse_text(source: str, name: str, column: np.ndarray) -> None:
    """Say where a column that should hold numbers does not."""
    for row, value in enumerate(column):
        try:
            float(value)
        except ValueError:
            raise DataError(
                f"{source}: column {name!r} is not numeric: row {row} (counted from 0) holds {str(value)[:60]!r}. "
                f"Leave it out with --drop {name}, or encode it as numbers"
            ) from None
    raise DataError(f"{source}: column {name!r} is not numeric. Leave it out with --drop {name}")
