"""Several tables about the same samples as one X, so that everything of scikit-learn works on it."""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from multikernel.kernels.quantities import is_annotated, is_frame
from multikernel.runtime.warnings import warn_user


def join_views(
    views: Any, *, id: str | None = None, how: str = "outer", parts: Any = "X"
) -> tuple[Any, dict[str, slice]]:
    """Put tables side by side; returns the joint X and where each view's columns are.

    Tables that know their samples are matched by them: pandas frames by their index, AnnData by ``obs_names``, and
    frames of any kind by a column, with ``id``. A sample that a table lacks is a row of NaN there, which
    ``missing="mask"`` of all estimators takes. Other tables (arrays, frames that are only numbered) are joined by
    position.

    Parameters
    ----------
    views : dict of name to table, list of tables, MuData or AnnData
        Arrays, sparse matrices, data frames or AnnData of shape (n, d_v). A vector is taken for one column. In a
        list views are called ``view0``, ``view1``, … Each modality of a MuData is a view.
    id : str, optional
        Column, or name of the index, that holds the ID of a sample in every table (pandas or polars).
    how : {"outer", "inner"}
        Samples that are in any table, in the order in which they turn up (in that of ``mdata.obs_names``), or those
        that are in all.
    parts : str, sequence of str, or dict of view to these
        What is taken of AnnData: "X", "layers/counts", "obsm/X_pca". Several are a view each.

    Returns
    -------
    X : DataFrame, ndarray or CSR matrix of shape (n, Σ d_v)
        A pandas frame with columns such as ``rna:TP53`` if all tables name their columns; polars frames do with
        ``id``. Sparse if any view is and no sample is missing.
    columns : dict of name to slice
        To be used as ``columns=`` of kernels, or as ``views`` of :func:`~multikernel.kernels.kernel_grid`.

    Examples
    --------
    >>> import pandas as pd
    >>> from multikernel.kernels import join_views, kernel_grid
    >>> rna = pd.DataFrame({"TP53": [1.0, 2.0], "MYC": [3.0, 4.0]}, index=["p1", "p2"])
    >>> clinic = pd.DataFrame({"age": [50.0, 60.0]}, index=["p2", "p3"])
    >>> X, columns = join_views({"rna": rna, "clinic": clinic})
    >>> X
        rna:TP53  rna:MYC  clinic:age
    p1       1.0      3.0         NaN
    p2       2.0      4.0        50.0
    p3       NaN      NaN        60.0
    >>> [kernel.label for kernel in kernel_grid(columns, ["rbf"], ["mean"])]
    ['rbf(mean) on rna', 'rbf(mean) on clinic']
    """
    if how not in ("outer", "inner"):
        raise ValueError(f"how={how!r} is not known: use 'outer' or 'inner'.")
    order = list(views.obs_names) if is_annotated(views) else None
    tables = _tables(views, id, parts)
    ids, rows = _alignment(tables, how, order)
    blocks = [take_rows(table.values, rows.get(name)) for name, table in tables.items()]
    ends = np.cumsum([block.shape[1] for block in blocks])
    columns = {name: slice(int(end - block.shape[1]), int(end)) for name, block, end in zip(tables, blocks, ends)}
    gaps = any((own < 0).any() for own in rows.values())
    if any(sparse.issparse(block) for block in blocks) and not gaps:
        return sparse.hstack(blocks, format="csr"), columns
    X = np.hstack([block.toarray() if sparse.issparse(block) else block for block in blocks])
    if any(table.names is None for table in tables.values()):
        return X, columns
    return _framed(X, ids, [name for table in tables.values() for name in table.names or ()]), columns


@dataclass
class _Table:
    """The numbers of a view, with the names of rows and columns where it has them."""

    values: Any
    ids: list[Hashable] | None = None
    names: list[str] | None = None


def annotated_table(X: Any, y: Any = None) -> tuple[Any, Any]:
    """AnnData and MuData as the table that :func:`join_views` makes of them, and y that names a column of ``obs``."""
    if isinstance(y, str):
        if y not in X.obs:
            raise ValueError(f"y={y!r} is no column of obs; there are: {', '.join(map(str, X.obs.columns))}.")
        y = np.asarray(X.obs[y])
    return join_views(X)[0], y


def _tables(views: Any, id: str | None, parts: Any) -> dict[str, _Table]:
    """The views by name."""
    if is_annotated(views) and not hasattr(views, "mod"):
        views = {"": views}
    elif is_annotated(views):
        if getattr(views, "axis", 0) != 0:
            raise ValueError(
                f"the modalities of this MuData share variables, not samples (axis={views.axis}): join those that "
                "hold the same samples, join_views({name: mdata[name], …})."
            )
        views = views.mod
    elif not isinstance(views, Mapping):
        views = {f"view{v}": table for v, table in enumerate(views)}
    if not views:
        raise ValueError("there are no views to join: pass at least one table.")
    tables: dict[str, _Table] = {}
    for name, table in views.items():
        if is_annotated(table):
            tables |= _parts_of(table, name, parts)
        else:
            tables[name] = _plain_table(table, name, id)
    return tables


def _parts_of(data: Any, name: str, parts: Any) -> dict[str, _Table]:
    """What is asked for of one AnnData, each a view."""
    wanted = parts.get(name, "X") if isinstance(parts, Mapping) else parts
    wanted = [wanted] if isinstance(wanted, str) else list(wanted)
    held = {"X": data.X, **{f"layers/{key}": data.layers[key] for key in data.layers}}
    tables, ids = {}, list(data.obs_names)
    names = dict.fromkeys(held, data.var_names)
    held |= {f"obsm/{key}": data.obsm[key] for key in data.obsm}
    for part in wanted:
        short = part.rpartition("/")[2]
        view = name if name and len(wanted) == 1 else "/".join(filter(None, [name, short]))
        if held.get(part) is None:
            there = ", ".join(repr(key) for key, values in held.items() if values is not None)
            raise ValueError(f"view {view!r} has no {part!r}; parts are {there}.")
        values = held[part]
        values = _in_memory(values, view) if part == "X" and getattr(data, "isbacked", False) else values
        columns = names.get(part, getattr(values, "columns", range(values.shape[1])))
        tables[view] = _Table(_numbers(values, view), ids, [f"{view}:{column}" for column in columns])
    return tables


def _in_memory(values: Any, view: str) -> Any:
    """What a file holds, with a remark: kernels read all of it, several times."""
    read = values.to_memory() if hasattr(values, "to_memory") else values[:]
    size = (read.data.nbytes if sparse.issparse(read) else read.nbytes) / 2**20
    warn_user(
        f"view {view!r} is backed by a file: {read.shape[0]:,} × {read.shape[1]:,} entries were read to memory "
        f"({size:,.0f} MB). Choose variables first if that is too much: adata[:, genes].to_memory().",
        UserWarning,
    )
    return read


def _plain_table(table: Any, name: str, id: str | None) -> _Table:
    """A view from an array, a sparse matrix, or a frame or series of pandas or polars."""
    pandas = hasattr(table, "iloc")
    if pandas and not hasattr(table, "columns"):
        table = table.to_frame(name if table.name is None else table.name)
    if id is None:
        numbered = (
            pandas and type(table.index).__name__ == "RangeIndex" and list(table.index[:2]) in ([], [0], [0, 1])
        )
        ids = list(table.index) if pandas and not numbered else None
    elif is_frame(table) and id in table.columns:
        ids = list(table[id])
        table = table.drop(columns=id) if pandas else table.drop(id)
    elif pandas and table.index.name == id:
        ids = list(table.index)
    else:
        raise ValueError(f"view {name!r} has no column {id!r} with the IDs of its samples.")
    if empty := [row for row, own in enumerate(ids or ()) if own is None or own != own]:
        raise ValueError(f"view {name!r} has {len(empty)} rows without an ID, the first at row {empty[0]}.")
    named = pandas or (ids is not None and is_frame(table))
    return _Table(_numbers(table, name), ids, [f"{name}:{column}" for column in table.columns] if named else None)


def _numbers(table: Any, name: str) -> Any:
    """The values of a table: an array of numbers, or a sparse matrix."""
    if sparse.issparse(table):
        return table
    array = np.asarray(table)
    if array.dtype == object and hasattr(table, "iloc") and all(kind.kind in "fiub" for kind in table.dtypes):
        array = table.to_numpy(np.float64, na_value=np.nan)  # pandas' own types, which know NA
    if array.ndim == 1:
        array = array[:, None]
    if array.ndim != 2:
        raise ValueError(f"view {name!r} has shape {array.shape}: pass a table of shape (n, d).")
    if array.dtype.kind not in "fiub":
        raise ValueError(f"view {name!r} holds {array.dtype}, not numbers: encode categories and texts first.")
    return array


def _alignment(
    tables: Mapping[str, _Table], how: str, order: Sequence[Hashable] | None
) -> tuple[list[Hashable] | None, dict[str, NDArray[np.intp]]]:
    """IDs of all samples, and of each view that has IDs their rows in it, -1 where it lacks one."""
    known = {name: table.ids for name, table in tables.items() if table.ids is not None}
    everyone, rows = aligned_rows(known, how, order)
    plain = [name for name in tables if name not in known]
    moved = [name for name, own in rows.items() if not np.array_equal(own, np.arange(tables[name].values.shape[0]))]
    if moved and plain:
        raise ValueError(
            f"views {next(iter(rows))!r} and {moved[0]!r} have different samples or other orders of IDs, and "
            f"{plain[0]!r} has none, so the order of its rows is unknown. Give it an index as well, or sort all "
            "views the same way."
        )
    lengths = {name: table.values.shape[0] for name, table in tables.items() if not moved}
    if len(set(lengths.values())) > 1:
        listed = ", ".join(f"{name!r} has {length}" for name, length in lengths.items())
        raise ValueError(
            f"views have different numbers of samples: {listed}. Without IDs, rows must be the same samples in the "
            "same order. Data frames with an index, or with a column of IDs that id= names, may lack some."
        )
    return everyone if known else None, rows if moved else {}


def aligned_rows(
    ids: Mapping[str, Iterable[Hashable]], how: str = "outer", order: Sequence[Hashable] | None = None
) -> tuple[list[Hashable], dict[str, NDArray[np.intp]]]:
    """IDs of all samples, in ``order`` or as they turn up, and their rows in each view, -1 where it lacks one."""
    positions = {name: _row_of_id(name, own) for name, own in ids.items()}
    everyone = list(dict.fromkeys(order or (own for found in positions.values() for own in found)))
    if how == "inner":
        everyone = [own for own in everyone if all(own in found for found in positions.values())]
    _refuse_strangers(positions, everyone)
    return everyone, {
        name: np.array([found.get(own, -1) for own in everyone], np.intp) for name, found in positions.items()
    }


def _refuse_strangers(positions: Mapping[str, Mapping], everyone: Sequence[Hashable]) -> None:
    """An error where a view has no sample in common with any other, or none is left: IDs are of two kinds."""
    for name, found in positions.items():
        others = {other: theirs for other, theirs in positions.items() if other != name and theirs}
        if found and others and not any(own in theirs for theirs in others.values() for own in found):
            other, theirs = next(iter(others.items()))
            raise ValueError(
                f"views {name!r} and {other!r} hold different samples, none in common: one has "
                f"{next(iter(found))!r}, the other {next(iter(theirs))!r}. Write IDs alike in all tables."
            )
    if positions and not everyone:
        raise ValueError("no sample is in all views: use how='outer'.")


def _row_of_id(name: str, ids: Iterable[Hashable]) -> dict[Hashable, int]:
    """The row of each ID; an error that names those of several rows."""
    ids = list(ids)
    found = {own: row for row, own in enumerate(ids)}
    if len(found) < len(ids):
        twice = list(dict.fromkeys(own for row, own in enumerate(ids) if found[own] != row))
        others = f" and {len(twice) - 3} more" if len(twice) > 3 else ""
        raise ValueError(
            f"view {name!r} has the same ID in several rows: {', '.join(map(repr, twice[:3]))}{others} "
            f"({len(ids)} rows, {len(found)} IDs). Keep one row per sample."
        )
    return found


def take_rows(values: Any, rows: NDArray[np.intp] | None) -> Any:
    """Rows of a view, NaN for -1, "" where it holds text; None is all."""
    if rows is None:
        return values
    known = rows >= 0
    taken = (values.tocsr() if sparse.issparse(values) else values)[rows[known]]
    if known.all():
        return taken
    text = values.dtype.kind in "OUS"
    fill, dtype = ("", object) if text else (np.nan, np.result_type(values.dtype, np.float32))
    table = np.full((len(rows), *values.shape[1:]), fill, dtype)
    table[known] = taken.toarray() if sparse.issparse(taken) else taken
    return table


def _framed(X: NDArray, ids: list[Hashable] | None, names: list[str]) -> Any:
    try:
        import pandas as pd
    except ImportError:
        raise ImportError(
            "views that are joined by IDs make a pandas frame: pip install 'multikernel[tables]'"
        ) from None
    return pd.DataFrame(X, index=ids, columns=names)
