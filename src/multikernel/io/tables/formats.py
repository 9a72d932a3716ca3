"""Files as a `Table` of named blocks of columns: one reader per format, several files joined by sample ID."""

import csv
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from multikernel.io.files import DataError, near_matches
from multikernel.kernels.views import aligned_rows, take_rows

MISSING = frozenset({"", "na", "n/a", "nan", "null", "none", "?"})
Blocks = dict[str, np.ndarray]


@dataclass(frozen=True)
class Table:
    """Arrays as a file holds them, by name."""

    source: str  # the file's name, for messages
    blocks: Blocks  # a column of a table has shape (n,); an archive's arrays keep the shape they have
    is_archive: bool = False  # whether lengths and meanings of the arrays are free
    ids: list[str] | None = None
    views: dict[str, list[str]] = field(default_factory=dict)  # columns by the file that they come from


def read_table(path: str | os.PathLike[str], *, text: str | None = None) -> Table:
    """Read a file by its ending: .csv, .tsv, .parquet, .npz or .mat; a `DataError` says what is wrong with it.

    ``text`` is a column of a text file that is not to be read as numbers: IDs such as 007.
    """
    path = Path(path)
    if path.is_dir():
        raise DataError(f"{path} is a folder, not a file")
    if not path.exists():
        if path.is_symlink():
            raise DataError(f"{path} is a broken link to {os.readlink(path)}")
        if not path.parent.is_dir():
            raise DataError(f"there is no file {path} (nor a folder {path.parent})")
        raise DataError(f"there is no file {path}; {near_matches(path.name, os.listdir(path.parent), count=1)}")
    reader = READERS.get(path.suffix.lower())
    if reader is None:
        raise DataError(f"{path}: unknown file type {path.suffix!r}; supported are {', '.join(READERS)}")
    if path.stat().st_size == 0:
        raise DataError(f"{path} is empty (0 bytes)")
    try:
        blocks = reader(path, text)
    except (DataError, MemoryError):
        raise
    except PermissionError:
        raise DataError(f"{path} cannot be read: permission denied") from None
    except Exception as error:  # readers raise a dozen unrelated types on damaged files
        reason = (str(error).strip() or type(error).__name__).splitlines()[0].rstrip(".")
        raise DataError(
            f"{path} is not a complete {path.suffix} file: {reason}. It may be truncated: write it again"
        ) from None
    if not blocks:
        raise DataError(f"{path} holds no arrays")
    return Table(str(path), blocks, is_archive=reader in (_read_npz, _read_mat))


def read_tables(
    paths: Sequence[str | os.PathLike[str]],
    id: str | None = None,
    *,
    names: Sequence[str] | None = None,
    needs_id: bool = True,
    outer: bool = False,
) -> Table:
    """Read one file, or join several by the column ``id``; samples are in the order in which they turn up.

    All files must have the same samples, unless ``outer``: then cells are empty where a file lacks a sample. A column
    that several files have with the same values is one column. Where the values differ, it is ``view.column`` for
    each file, and files are called by their names. With ``names`` of the views, known from an earlier join, every
    column of the result has its name with and without the view.
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
    ids, rows = aligned_rows({view: table.ids or [] for view, table in zip(views, tables)})
    lacking = {view: [ids[k] for k in np.flatnonzero(own < 0)] for view, own in rows.items()}
    told = [
        f"{len(own)} IDs are missing in {view!r}, {own[0]!r} for instance" for view, own in lacking.items() if own
    ]
    if told and not outer:
        raise DataError(
            f"the files hold different samples: {'; '.join(told)}. Keep all of them with --missing mask, or only "
            "those that all files have"
        )
    aligned = {view: _taken(table, rows[view]) for view, table in zip(views, tables)}
    blocks, columns = _merged(aligned) if names is None else (_all_names(aligned), {})
    return Table(", ".join(table.source for table in tables), blocks, ids=list(map(str, ids)), views=columns)


def _with_ids(path: str | os.PathLike[str], id: str, needed: bool) -> Table:
    """A file with its IDs as text, apart from its columns."""
    table = read_table(path, text=id)
    if id not in table.blocks and not needed:
        return table
    if id not in table.blocks:
        raise DataError(f"{table.source} has no column {id!r} with IDs; {near_matches(id, list(table.blocks))}")
    column = table.blocks.pop(id).ravel()
    # the same text whether a file holds an ID as text, as a whole number or as a float
    ids = [f"{value:.15g}" if column.dtype.kind == "f" else str(value).strip() for value in column]
    empty = np.flatnonzero(empty_cells(column) | (np.array(ids) == ""))
    if len(empty):
        raise DataError(f"{table.source}: {len(empty)} rows have no ID in {id!r}, first row {empty[0]}")
    return Table(table.source, table.blocks, table.is_archive, ids)


def _taken(table: Table, rows: np.ndarray) -> Blocks:
    """The columns of a table, in another order of rows; empty cells for -1."""
    n_ids = len(table.ids or ())
    for name, block in table.blocks.items():
        if len(block) != n_ids:
            raise DataError(f"{table.source}: {name!r} has {len(block)} rows for {n_ids} IDs: it cannot be joined")
    return {name: take_rows(block, rows) for name, block in table.blocks.items()}


def _merged(views: dict[str, Blocks]) -> tuple[Blocks, dict[str, list[str]]]:
    """All columns under names of their own, and which of them belong to each view."""
    blocks: Blocks = {}
    columns: dict[str, list[str]] = {}
    for view, table in views.items():
        for name, block in table.items():
            one = _one_column([other[name] for other in views.values() if name in other])
            known = f"{view}.{name}" if one is None else name
            blocks.setdefault(known, block if one is None else one)
            columns.setdefault(view, []).append(known)
    return blocks, columns


def _one_column(twins: list[np.ndarray]) -> np.ndarray | None:
    """What several files say of a column, where they say the same; cells that are empty in one may be in another."""
    one, *others = [twin for twin in twins if not empty_cells(twin).all()] or twins[:1]
    for other in others:
        if one.shape != other.shape or (one.dtype == object) != (other.dtype == object):
            return None
        both = ~empty_cells(one) & ~empty_cells(other)
        if not np.array_equal(one[both], other[both]):
            return None
        one = np.where(empty_cells(one), other, one)
    return one


def empty_cells(block: np.ndarray) -> np.ndarray:
    """Which numbers are NaN, or which texts are empty."""
    if block.dtype.kind in "OUS":
        return np.array(block == "", dtype=bool)
    return np.isnan(block) if block.dtype.kind == "f" else np.zeros(block.shape, dtype=bool)


def _all_names(views: dict[str, Blocks]) -> Blocks:
    """All columns by their own names, where several differ by the first, and with the name of their view."""
    plain, _ = _merged(views)
    for table in views.values():
        plain = {**table, **plain}
    return {**plain, **{f"{view}.{name}": block for view, table in views.items() for name, block in table.items()}}


def _read_delimited(path: Path, text_column: str | None) -> Blocks:
    """Read a text table with a header line; the columns become float64 where every entry is a number."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise DataError(f"{path} is not UTF-8 text (byte {error.start}): save it as UTF-8") from None
    if "\0" in text:
        raise DataError(f"{path} holds binary data, not text: is its extension right?")
    lines = text.splitlines(keepends=True)
    header = next((line for line in lines if line.strip()), "")
    delimiter = "\t" if path.suffix.lower() == ".tsv" else max(",;\t|", key=header.count)  # a comma in doubt
    reader = csv.reader(lines, delimiter=delimiter, strict=True)
    usual = csv.field_size_limit(max(len(text), 1))  # no field is too long: memory holds the file already
    try:
        names, rows = _header_and_rows(path, reader)
    except csv.Error as error:
        raise DataError(f"{path}, line {reader.line_num}: {error}; the file may be truncated") from None
    finally:
        csv.field_size_limit(usual)
    columns = [list(column) for column in zip(*rows)]
    return {
        name: np.array(column, dtype=object) if name == text_column else _typed(column)
        for name, column in zip(names, columns)
    }


def _header_and_rows(path: Path, reader: Any) -> tuple[list[str], list[list[str]]]:
    """Check that names are unique and that every line has as many fields as the header."""
    header = [name.strip() for name in next((row for row in reader if row), [])]
    repeated = sorted({name for name in header if header.count(name) > 1})
    if repeated:
        raise DataError(f"{path}: the column name {repeated[0]!r} occurs {header.count(repeated[0])} times")
    rows = []
    for row in reader:
        if not row:
            continue
        if len(row) != len(header):
            raise DataError(
                f"{path}, line {reader.line_num}: {len(row)} fields, but the header has {len(header)}; "
                "the file may be truncated"
            )
        rows.append(row)
    if not rows:
        raise DataError(f"{path} has a header of {len(header)} columns and no rows")
    return header, rows


def _typed(column: list[str]) -> np.ndarray:
    """Numbers as float64 (missing entries as NaN) if all are numbers, else text."""
    try:
        return np.array(column, dtype=np.float64)
    except ValueError:
        pass
    entries = [entry.strip() for entry in column]
    try:
        return np.array([np.nan if e.lower() in MISSING else float(e) for e in entries])
    except ValueError:
        return np.array(entries, dtype=object)


def _read_parquet(path: Path, text_column: str | None) -> Blocks:
    try:
        from pyarrow import parquet
    except ImportError:
        raise DataError(
            f"{path}: reading parquet needs pyarrow: pip install 'multikernel[tables]' (or save as csv)"
        ) from None
    table = parquet.read_table(path)
    # pandas stores an unnamed row index as such a column: it is not data
    names = [name for name in table.column_names if not name.startswith("__index_level_")]
    blocks = {name: _arrow_column(table[name]) for name in names}
    if not blocks or table.num_rows == 0:
        raise DataError(f"{path} has {len(blocks)} columns and {table.num_rows} rows: nothing to learn from")
    return blocks


def _arrow_column(column: Any) -> np.ndarray:
    """A column as float64, or as text; missing numbers are NaN."""
    import pyarrow.types

    if pyarrow.types.is_dictionary(column.type):  # pandas' categories
        column = column.cast(column.type.value_type)
    values = column.to_numpy()
    if values.dtype.kind in "biuf":
        return values.astype(np.float64)
    if all(value is None or isinstance(value, (int, float)) for value in values):  # decimals stay text
        return np.array([np.nan if value is None else value for value in values], dtype=np.float64)
    return np.array(["" if value is None else str(value) for value in values], dtype=object)


def _read_npz(path: Path, text_column: str | None) -> Blocks:
    """Read an archive of arrays; pickled objects are refused."""
    blocks, key = {}, None
    try:
        with np.load(path, allow_pickle=False) as archive:
            for key in archive.files:
                blocks[key] = archive[key]
    except ValueError as error:
        if "Object arrays" not in str(error):
            raise
        raise DataError(
            f"{path}: the array {key!r} holds pickled objects, which may run code when read; "
            "save plain arrays of numbers or text"
        ) from None
    return blocks


def _read_mat(path: Path, text_column: str | None) -> Blocks:
    """Read a MATLAB file (version 7 or older); cells become lists of arrays, structs are left out."""
    from scipy.io import loadmat

    try:
        content = loadmat(path)
    except NotImplementedError:
        raise DataError(
            f"{path} is a MATLAB 7.3 (HDF5) file, which is not supported. In MATLAB: save('{path.name}', ..., '-v7')"
        ) from None
    blocks: Blocks = {}
    for key, value in content.items():
        if not key.startswith("__"):
            blocks.update(_mat_blocks(key, value))
    return blocks


def _mat_blocks(key: str, value: Any) -> dict[str, np.ndarray]:
    """A matrix as it is; a cell of texts as one array; a cell of matrices as ``key{1}``, ``key{2}``…"""
    if hasattr(value, "toarray"):
        return {key: value.toarray()}
    if not isinstance(value, np.ndarray) or value.dtype.kind == "V":
        return {}
    if value.dtype.kind != "O":
        return {key: value}
    cells = list(value.ravel(order="F"))
    if all(isinstance(cell, np.ndarray) and cell.dtype.kind in "US" for cell in cells):
        return {key: np.array(["".join(cell.ravel()) for cell in cells], dtype=object)}
    numeric = [isinstance(cell, np.ndarray) and cell.dtype.kind in "biuf" for cell in cells]
    return {f"{key}{{{i + 1}}}": cell for i, cell in enumerate(cells)} if all(numeric) else {}


READERS: dict[str, Callable[[Path, str | None], Blocks]] = {
    ".csv": _read_delimited,
    ".tsv": _read_delimited,
    ".parquet": _read_parquet,
    ".npz": _read_npz,
    ".mat": _read_mat,
}
