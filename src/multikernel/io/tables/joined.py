"""Several files about the same samples as one table, by the IDs of the samples."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from multikernel.io.files import DataError, near_matches
from multikernel.io.tables.formats import Table, read_table
from multikernel.kernels.views import matching_rows


def read_tables(
    paths: Sequence[str | os.PathLike[str]],
    id: str | None = None,
    *,
    names: Sequence[str] | None = None,
    needs_id: bool = True,
) -> Table:
    """Read one file, or join several by the column ``id``; rows are in the order of the first file.

    A column that several files have with the same values is one column. Where the values differ, it is
    ``view.column`` for each file.

    Parameters
    ----------
    paths : sequence of path
    id : str, optional
        Column, or array, with the ID of each sample; it is not among the columns of the result.
    names : sequence of str, optional
        Names of the views, in the order of the files, where they are known from an earlier join: then every column
        of the result has its name with and without the view. By default files are called by their names.
    needs_id : bool
        Whether a file without the column ``id`` is refused.

    Raises
    ------
    DataError
        When a file cannot be read, or the files are not about the same samples.
    """
    if id is None:
        if len(paths) > 1:
            raise DataError(f"{len(paths)} files are joined by sample ID: name the ID column with --id")
        return read_table(paths[0])
    tables = [_with_ids(path, id, needs_id) for path in paths]
    if len(tables) == 1:
        return tables[0]
    views = [Path(path).stem for path in paths] if names is None else list(names)
    if len(set(views)) < len(views):
        raise DataError(f"two files are named {views[0]!r}: each view needs its own file name")
    rows = matching_rows({view: table.ids or [] for view, table in zip(views, tables)})
    aligned = {view: _taken(table, rows[view]) for view, table in zip(views, tables)}
    blocks, columns = _merged(aligned) if names is None else (_all_names(aligned), {})
    return Table(", ".join(table.source for table in tables), blocks, ids=tables[0].ids, views=columns)


def _with_ids(path: str | os.PathLike[str], id: str, needed: bool) -> Table:
    """A file with its IDs as text, apart from its columns."""
    table = read_table(path, text=id)
    if id not in table.blocks and not needed:
        return table
    if id not in table.blocks:
        raise DataError(f"{table.source} has no column {id!r} with IDs; {near_matches(id, list(table.blocks))}")
    ids = [_as_text(value) for value in table.blocks.pop(id).ravel()]
    empty = [row for row, identity in enumerate(ids) if not identity]
    if empty:
        raise DataError(f"{table.source}: {len(empty)} rows have no ID in {id!r}, first row {empty[0]}")
    return Table(table.source, table.blocks, table.is_archive, ids)


def _as_text(value: object) -> str:
    """An ID as text, the same whether a file holds it as text, as a whole number or as a float."""
    if isinstance(value, (float, np.floating)):
        return "" if np.isnan(value) else f"{value:.15g}"
    return str(value).strip()


def _taken(table: Table, rows: list[int]) -> dict[str, np.ndarray]:
    """The columns of a table, in another order of rows."""
    for name, block in table.blocks.items():
        if len(block) != len(rows):
            raise DataError(
                f"{table.source}: {name!r} has {len(block)} rows for {len(rows)} IDs: it cannot be joined"
            )
    return {name: block[rows] for name, block in table.blocks.items()}


def _merged(views: dict[str, dict[str, np.ndarray]]) -> tuple[dict[str, np.ndarray], dict[str, list[str]]]:
    """All columns under names of their own, and which of them belong to each view."""
    blocks: dict[str, np.ndarray] = {}
    columns: dict[str, list[str]] = {}
    for view, table in views.items():
        for name, block in table.items():
            twins = [other[name] for key, other in views.items() if key != view and name in other]
            plain = all(block.shape == twin.shape and np.array_equal(block, twin) for twin in twins)
            known = name if plain else f"{view}.{name}"
            blocks.setdefault(known, block)
            columns.setdefault(view, []).append(known)
    return blocks, columns


def _all_names(views: dict[str, dict[str, np.ndarray]]) -> dict[str, np.ndarray]:
    """All columns by their own names, where several have one by the first, and with the name of their view."""
    plain = {name: block for table in reversed(views.values()) for name, block in table.items()}
    return {**plain, **{f"{view}.{name}": block for view, table in views.items() for name, block in table.items()}}
