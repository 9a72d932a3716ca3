"""Which columns of the data a kernel looks at, and how to cut them out of any kind of table."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy import sparse

from multikernel.io.files import near_matches


def as_data(X: Any) -> Any:
    """Return X as a 2-D array, CSR matrix or data frame (3-D arrays of stacked matrices pass as they are)."""
    if sparse.issparse(X):
        return X.tocsr()
    if is_frame(X):
        return X
    X = np.asarray(X)
    if X.ndim not in (2, 3):
        raise ValueError(
            f"X has {X.ndim} dimension(s), shape {X.shape}; a kernel needs rows and columns. "
            "Use X.reshape(-1, 1) for one column, X.reshape(1, -1) for one sample."
        )
    return X


def is_frame(X: Any) -> bool:
    """Whether X is a pandas or polars data frame (neither library is imported)."""
    return hasattr(X, "columns") and (hasattr(X, "iloc") or hasattr(X, "get_column"))


def is_annotated(X: Any) -> bool:
    """Whether X is AnnData or MuData (neither library is imported)."""
    return hasattr(X, "obs_names") and hasattr(X, "var_names")


def names_of(X: Any) -> list[str] | None:
    """Column names of a data frame; None for anything else, or when they are not all strings."""
    if not is_frame(X):
        return None
    names = list(X.columns)
    return names if all(isinstance(name, str) for name in names) else None


def resolve_columns(columns: Any, X: Any, feature_names: Sequence[str] | None = None) -> np.ndarray:
    """Positions of the selected columns, shape (d,).

    ``columns`` is as in scikit-learn's ``ColumnTransformer``: None (all), a name, a position, a slice (of names, with
    its end), a sequence of names or positions, a mask, or a callable that is called with X and returns any of these.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.zeros((2, 4))
    >>> resolve_columns(slice(1, 3), X), resolve_columns(["d", "a"], X, feature_names=["a", "b", "c", "d"])
    (array([1, 2]), array([3, 0]))
    """
    columns = columns(X) if callable(columns) else columns
    n_features = X.shape[1]
    names = list(feature_names) if feature_names is not None else names_of(X)
    if columns is None:
        return np.arange(n_features)
    select = _from_slice if isinstance(columns, slice) else _from_sequence
    selected = select(columns, n_features, names)
    if selected.size == 0:
        raise ValueError(f"columns={columns!r} selects none of the {n_features} columns; a kernel needs one.")
    return selected


def _from_slice(columns: slice, n_features: int, names: list[str] | None) -> np.ndarray:
    ends: list[Any] = [columns.start, columns.stop]
    for k, end in enumerate(ends):
        if isinstance(end, str):
            ends[k] = int(_positions_of([end], names)[0]) + k  # the end of a slice of names belongs to it
    return np.arange(n_features)[slice(ends[0], ends[1], columns.step)]


def _from_sequence(columns: Any, n_features: int, names: list[str] | None) -> np.ndarray:
    columns = np.atleast_1d(np.asarray(columns))
    if columns.size == 0:
        return np.empty(0, np.intp)
    if columns.ndim != 1:
        raise TypeError(f"columns has shape {columns.shape}; give a flat list of names or positions.")
    if columns.dtype == bool:
        if len(columns) != n_features:
            raise ValueError(f"columns is a mask of {len(columns)} entries, but X has {n_features} columns.")
        return np.flatnonzero(columns)
    if all(isinstance(c, str) for c in columns.tolist()):
        return _positions_of(columns.tolist(), names)
    if not np.issubdtype(columns.dtype, np.integer):
        raise TypeError(
            f"columns has entries of type {columns.dtype}; give names, integer positions, "
            "a boolean mask, a slice or a callable."
        )
    outside = columns[(columns < -n_features) | (columns >= n_features)]
    if outside.size:
        raise IndexError(
            f"columns asks for position {outside[0]}, but X has {n_features} columns (0 to {n_features - 1})."
        )
    return (columns % n_features).astype(np.intp)


def _positions_of(wanted: list[str], names: list[str] | None) -> np.ndarray:
    if names is None:
        raise ValueError(
            f"columns are chosen by name ({describe(wanted)}), but X has no column names: pass a data frame, or "
            "choose them by position."
        )
    position = {name: k for k, name in enumerate(names)}
    missing = [name for name in wanted if name not in position]
    if missing:
        others = f" nor {len(missing) - 1} more of the {len(wanted)} that were chosen" if len(missing) > 1 else ""
        raise ValueError(f"X has no column named {missing[0]!r}{others}; {near_matches(missing[0], names)}")
    return np.array([position[name] for name in wanted], np.intp)


def take_columns(X: Any, columns: np.ndarray, dtype: Any = None) -> Any:
    """The selected columns as a C-contiguous float array, or CSR where X is sparse; no copy where none is needed."""
    contiguous = bool((np.diff(columns) == 1).all())  # a slice needs no copy
    if hasattr(X, "iloc"):
        selected = X.iloc[:, columns].to_numpy()
    elif is_frame(X):
        selected = X[:, columns.tolist()].to_numpy()
    else:
        chosen = slice(int(columns[0]), int(columns[-1]) + 1) if contiguous else columns
        selected = X if contiguous and len(columns) == X.shape[1] else X[:, chosen]
    dtype = dtype or (np.float32 if selected.dtype == np.float32 else np.float64)
    if sparse.issparse(selected):
        return selected.astype(dtype, copy=False)
    try:
        return np.ascontiguousarray(selected, dtype=dtype)
    except (TypeError, ValueError) as error:
        raise TypeError(f"The selected columns {describe(columns.tolist())} are not all numbers: {error}") from None


def take_rows(X: Any, rows: Any) -> Any:
    """Some samples of any kind of data."""
    return X.iloc[rows] if hasattr(X, "iloc") else X[rows]


def describe(columns: Any) -> str:
    """A few words that say which columns are meant, for labels and messages.

    Examples
    --------
    >>> describe("petals"), describe(slice(0, 10)), describe([0, 1, 2, 3, 4])
    ('petals', 'columns 0:10', 'columns 0, 1, … 4')
    """
    if isinstance(columns, str):
        return columns
    if isinstance(columns, slice):
        parts = [columns.start, columns.stop] + ([columns.step] if columns.step is not None else [])
        return "columns " + ":".join("" if part is None else str(part) for part in parts)
    if callable(columns):
        return getattr(columns, "__name__", type(columns).__name__)
    entries = np.atleast_1d(np.asarray(columns)).tolist()
    shown = [str(entry) for entry in entries]
    shown = shown if len(shown) <= 3 else [*shown[:2], "… " + shown[-1]]
    named = bool(entries) and isinstance(entries[0], str)
    return ("" if named else "columns " if len(entries) > 1 else "column ") + ", ".join(shown)


def checksum(X: Any) -> int:
    """A number that tells the content of an array or a sparse matrix from others."""
    if sparse.issparse(X):
        return zlib.crc32(X.data, zlib.crc32(X.indices))
    return zlib.crc32(np.ascontiguousarray(X).data)


def refuse_nonfinite(X: Any, name: str) -> None:
    """An error if X is the reason why a kernel is not finite."""
    values = X.data if sparse.issparse(X) else np.asarray(X)
    bad = ~np.isfinite(values.astype(np.float64))
    if bad.any():
        position = tuple(int(k) for k in np.argwhere(bad)[0])
        where = "" if sparse.issparse(X) else f" at {position}"
        raise ValueError(
            f"X holds {values[position]}{where} ({int(bad.sum())} such values in all), so kernel {name!r} is not "
            "finite. Impute or drop missing values first."
        )
