"""Several tables about the same samples as one X, so that everything of scikit-learn works on it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from scipy import sparse


def join_views(views: Mapping[str, Any] | Sequence[Any]) -> tuple[Any, dict[str, slice]]:
    """Put tables side by side; returns the joint X and where each view's columns are.

    Parameters
    ----------
    views : dict of name to table, or list of tables
        Arrays, sparse matrices or data frames of shape (n, d_v). A vector is taken for one column. In a list views
        are called ``view0``, ``view1``, … Tables with a row index (pandas) are about the same samples: their rows
        are put in the order of the first index. Tables without one (NumPy, SciPy, polars) are joined by position.

    Returns
    -------
    X : ndarray or CSR matrix of shape (n, Σ d_v)
        Sparse if any view is.
    columns : dict of name to slice
        To be used as ``columns=`` of kernels, or as ``views`` of
        :func:`~multikernel.kernels.kernel_grid`.

    Examples
    --------
    >>> import numpy as np
    >>> from multikernel.kernels import kernel_grid
    >>> from multikernel.kernels.views import join_views
    >>> X, columns = join_views({"rna": np.zeros((5, 3)), "protein": np.ones((5, 2))})
    >>> X.shape, columns
    ((5, 5), {'rna': slice(0, 3, None), 'protein': slice(3, 5, None)})
    >>> [kernel.label for kernel in kernel_grid(columns, ["rbf"], ["mean"])]
    ['rbf(mean) on rna', 'rbf(mean) on protein']
    """
    named = dict(views) if isinstance(views, Mapping) else {f"view{v}": table for v, table in enumerate(views)}
    if not named:
        raise ValueError("there are no views to join: pass at least one table.")
    tables = {name: _as_table(name, table) for name, table in _aligned(named).items()}
    lengths = {name: table.shape[0] for name, table in tables.items()}
    if len(set(lengths.values())) > 1:
        listed = ", ".join(f"{name!r} has {length}" for name, length in lengths.items())
        raise ValueError(
            f"views have different numbers of samples: {listed}. Rows must be the same samples in the same order; "
            "drop or impute samples that are missing in a view."
        )
    ends = np.cumsum([table.shape[1] for table in tables.values()])
    columns = {name: slice(int(end - table.shape[1]), int(end)) for (name, table), end in zip(tables.items(), ends)}
    if any(sparse.issparse(table) for table in tables.values()):
        return sparse.hstack(list(tables.values()), format="csr"), columns
    return np.hstack(list(tables.values())), columns


def _aligned(views: dict[str, Any]) -> dict[str, Any]:
    """The views with rows in the order of the first index; refused where that order is not known for all."""
    rows = matching_rows({name: list(table.index) for name, table in views.items() if hasattr(table, "iloc")})
    moved = {name: chosen for name, chosen in rows.items() if chosen != list(range(len(chosen)))}
    if moved and len(rows) < len(views):
        first, plain = next(iter(rows)), next(name for name in views if name not in rows)
        raise ValueError(
            f"views {first!r} and {next(iter(moved))!r} have their IDs in different orders, and {plain!r} has none, "
            "so the order of its rows is unknown. Give it an index as well, or sort all views the same way."
        )
    return {name: table.iloc[moved[name]] if name in moved else table for name, table in views.items()}


def matching_rows(ids: Mapping[str, Sequence[Any]]) -> dict[str, list[int]]:
    """Rows of each view, in the order of the first view's IDs; an error if they are not the same IDs, each once."""
    positions = {}
    for name, own in ids.items():
        positions[name] = {identity: row for row, identity in enumerate(own)}
        if len(positions[name]) < len(own):
            twice = next(identity for row, identity in enumerate(own) if positions[name][identity] != row)
            raise ValueError(
                f"view {name!r} has the same ID in several rows, {twice!r} for instance ({len(own)} rows, "
                f"{len(positions[name])} IDs): keep one row per sample."
            )
    first = next(iter(ids), "")
    for name, found in positions.items():
        _refuse_other_samples(first, positions[first], name, found)
    return {name: [found[identity] for identity in positions[first]] for name, found in positions.items()}


def _refuse_other_samples(first: str, expected: Mapping, name: str, found: Mapping) -> None:
    """An error if two views do not have the same IDs, with how many are missing where."""
    lacks = [(name, [i for i in expected if i not in found]), (first, [i for i in found if i not in expected])]
    told = [f"{len(ids)} IDs are missing in {view!r}, {ids[0]!r} for instance" for view, ids in lacks if ids]
    if told:
        raise ValueError(
            f"views {first!r} and {name!r} hold different samples: {'; '.join(told)}. Keep only the samples that all "
            "views have."
        )


def _as_table(name: str, table: Any) -> Any:
    if sparse.issparse(table):
        return table
    if hasattr(table, "obs_names"):
        raise TypeError(
            f"view {name!r} is an {type(table).__name__}: pass its to_df(), whose index joins samples, or a layer "
            "as an array."
        )
    array = np.asarray(table)
    if array.ndim == 1:
        array = array[:, None]
    if array.ndim != 2:
        raise ValueError(f"view {name!r} has shape {array.shape}: pass a table of shape (n, d).")
    if array.dtype.kind not in "fiub":
        raise ValueError(f"view {name!r} holds {array.dtype}, not numbers: encode categories and texts first.")
    return array
