"""What users may pass as labels, as signs: +1, −1, and 0 where it is not known."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.exceptions import DataConversionWarning

from multikernel.runtime.warnings import warn_user


@dataclass(frozen=True)
class Labels:
    """Labels of n samples.

    Parameters
    ----------
    signs : ndarray of shape (n, M)
        +1, −1, or 0 for an entry that is missing.
    names : ndarray of shape (M,)
        Labels by column.
    """

    signs: NDArray[np.float64]
    names: NDArray


def is_table(Y: Any) -> bool:
    """Whether Y holds labels of several kinds a sample, not one class a sample."""
    if sparse.issparse(Y) or is_sets(Y):
        return True
    table = np.asarray(Y)
    return table.ndim == 2 and (table.shape[1] != 1 or _is_indicator(table))


def is_sets(Y: Any) -> bool:
    """Whether Y is a list, or a column of objects, of label sets: sets, tuples or lists of any lengths."""
    if getattr(Y, "ndim", None) == 1 and getattr(Y, "dtype", np.dtype(float)).kind == "O":
        Y = list(Y)
    if not isinstance(Y, (list, tuple)) or not len(Y):
        return False
    if any(isinstance(item, (set, frozenset)) for item in Y):
        return True
    if not all(isinstance(item, (list, tuple)) for item in Y):
        return False
    # lists of the same length may be rows of a table; labels that are words, or rows of many lengths, are not
    return len({len(item) for item in Y}) > 1 or any(isinstance(x, str) for item in Y for x in item)


def parse_labels(Y: Any, names: NDArray | None = None) -> Labels:
    """Signs of a table of labels.

    - A table with −1 anywhere holds −1, +1, and 0 for missing; any other holds 1 for present and 0 for absent.
      NaN is missing in both. Booleans, frames and sparse matrices are tables.
    - A list of label sets names the labels of each sample; none of its entries is missing.

    Parameters
    ----------
    Y : array-like or sparse matrix of shape (n, M), or list of label sets
        The labels.
    names : ndarray of shape (M,), optional
        Labels that are known, for sets.

    Examples
    --------
    >>> from multikernel.estimators.multilabel_labels import parse_labels
    >>> parse_labels([{"cat"}, {"cat", "dog"}, set()]).signs
    array([[ 1., -1.],
           [ 1.,  1.],
           [-1., -1.]])
    >>> parse_labels([[1, -1], [0, 1]]).signs
    array([[ 1., -1.],
           [ 0.,  1.]])
    """
    if is_sets(Y):
        return _from_sets(Y, names)
    columns = getattr(Y, "columns", None)
    table = Y.toarray() if sparse.issparse(Y) else np.asarray(Y)
    if table.ndim != 2 or not table.shape[1]:
        raise ValueError(f"Y has shape {table.shape}, expected (n, M): one column per label, and at least one label.")
    try:
        values = table.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"Y holds entries that are not numbers ({error}): pass 0/1, −1/+1, or a list of label sets."
        ) from error
    missing = np.isnan(values)
    signed = bool((values == -1.0).any())
    wrong = ~missing & ~np.isin(values, (-1.0, 0.0, 1.0))
    if wrong.any():
        row, column = (int(i) for i in np.argwhere(wrong)[0])
        raise ValueError(
            f"Unknown label type: Y has {int(wrong.sum())} entries that are not -1, 0 or 1, the first "
            f"{values[row, column]:g} at row {row}, column {column}. For one class per sample, pass y of shape (n,)."
        )
    signs = np.where(missing, 0.0, values if signed else 2.0 * values - 1.0)
    known = np.arange(signs.shape[1]) if columns is None else np.array(list(columns), dtype=object)
    return Labels(signs, known)


def _from_sets(Y: Iterable[Iterable[Any]], names: NDArray | None) -> Labels:
    rows = [set(item) for item in Y]
    if names is None:
        found = set().union(*rows)
        if not found:
            raise ValueError("the label sets are all empty: there is no label to learn.")
        names = _sorted(found)
    position = {name: k for k, name in enumerate(np.asarray(names).tolist())}
    signs = np.full((len(rows), len(position)), -1.0)
    for i, row in enumerate(rows):
        for name in row:
            if name not in position:
                raise ValueError(f"sample {i} has the label {name!r}, which the model was not trained on.")
            signs[i, position[name]] = 1.0
    return Labels(signs, np.asarray(names))


def _sorted(labels: set[Any]) -> NDArray:
    try:
        return np.array(sorted(labels))
    except TypeError as error:
        kinds = sorted({type(label).__name__ for label in labels})
        raise ValueError(
            f"the label sets hold labels of types {', '.join(kinds)}, which have no common order: use one type, "
            "such as words or numbers."
        ) from error


def one_class_each(y: Any) -> Any:
    """y of shape (n,); a single column that is no indicator is flattened, with scikit-learn's warning."""
    if getattr(y, "ndim", 1) == 2 and y.shape[1] == 1:
        warn_user("A column-vector y was passed when a 1d array was expected.", DataConversionWarning)
        return np.asarray(y).ravel()
    return y


def _is_indicator(table: NDArray) -> bool:
    if table.dtype == bool:
        return True
    try:
        values = table.astype(np.float64)
    except (TypeError, ValueError):
        return False
    return bool((np.isnan(values) | np.isin(values, (-1.0, 0.0, 1.0))).all())
