"""Groups of kernels: reading what a user gives, and sums, maxima and simplices by group."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

Vector = NDArray[np.float64]


def parse_groups(groups: Any, names: Sequence[str]) -> list[NDArray[np.intp]]:
    """The groups as arrays of kernel positions, after a check that each kernel is in exactly one.

    Parameters
    ----------
    groups : list of lists, or array-like of shape (F,)
        Either one list per group of kernels, by position or by name, or one label per kernel: kernels with the same
        label are a group.
    names : sequence of str
        Names of the F kernels.

    Returns
    -------
    list of ndarray of int
        Positions, ascending within a group. Groups given by labels are in the order of their first kernels.

    Examples
    --------
    >>> from multikernel.problems.groups import parse_groups
    >>> parse_groups([["shape", "colour"], [1]], ["shape", "size", "colour"])
    [array([0, 2]), array([1])]
    >>> parse_groups(["a", "b", "a"], ["shape", "size", "colour"])
    [array([0, 2]), array([1])]
    """
    names = list(names)
    entries = list(groups) if not isinstance(groups, str) else [groups]
    if not entries:
        raise ValueError(f"groups is empty, but there are {len(names)} kernels: put each of them into a group.")
    nested = [isinstance(entry, (list, tuple, set, range, np.ndarray)) for entry in entries]
    if not any(nested):
        return _from_labels(entries, names)
    if not all(nested):
        k = nested.index(False)
        raise ValueError(
            f"groups[{k}] is {entries[k]!r}, not a list of kernels like the others: give one list per group."
        )
    parsed = [
        np.array(sorted(_position(e, k, names) for e in entry), dtype=np.intp) for k, entry in enumerate(entries)
    ]
    _check_partition(parsed, names)
    return parsed


def _from_labels(labels: list, names: list[str]) -> list[NDArray[np.intp]]:
    """Groups of kernels with equal labels."""
    if len(labels) != len(names):
        raise ValueError(
            f"groups has {len(labels)} labels for {len(names)} kernels: give one label per kernel, or a list "
            "of lists."
        )
    members: dict[Any, list[int]] = {}
    for position, label in enumerate(labels):
        members.setdefault(label, []).append(position)
    return [np.array(group, dtype=np.intp) for group in members.values()]


def _position(entry: Any, group: int, names: list[str]) -> int:
    """Position of a kernel given by position or by name."""
    if isinstance(entry, str):
        if entry not in names:
            known = ", ".join(names[:10]) + (", …" if len(names) > 10 else "")
            raise ValueError(f'groups[{group}] has the kernel "{entry}", which does not exist. There are: {known}.')
        return names.index(entry)
    if isinstance(entry, (bool, np.bool_)) or not isinstance(entry, (int, np.integer)):
        raise ValueError(f"groups[{group}] has {entry!r}: give positions (integers) or names of kernels.")
    if not 0 <= entry < len(names):
        raise ValueError(f"groups[{group}] has position {entry}, but kernels are numbered 0 to {len(names) - 1}.")
    return int(entry)


def _check_partition(groups: list[NDArray[np.intp]], names: list[str]) -> None:
    """Refuse empty groups, and kernels in no group or in several places."""
    for k, group in enumerate(groups):
        if not len(group):
            raise ValueError(f"groups[{k}] is empty: leave it out, or put kernels into it.")
    counts = np.bincount(np.concatenate(groups), minlength=len(names))
    for wrong, what in ((counts == 0, "in no group"), (counts > 1, "listed more than once")):
        if wrong.any():
            some = ", ".join(f'{k} ("{names[k]}")' for k in np.flatnonzero(wrong)[:5])
            raise ValueError(
                f"{int(wrong.sum())} of {len(names)} kernels are {what}, the first: {some}. "
                "Each kernel belongs to exactly one group."
            )


class Groups:
    """A partition of F kernels, as :func:`parse_groups` returns it, with the operations that go by group."""

    def __init__(self, groups: Sequence[ArrayLike]):
        self.members = [np.asarray(group, dtype=np.intp) for group in groups]
        self.n_kernels = sum(len(group) for group in self.members)
        self.label = np.empty(self.n_kernels, dtype=np.intp)
        for k, group in enumerate(self.members):
            self.label[group] = k

    def __len__(self) -> int:
        return len(self.members)

    def sum(self, values: ArrayLike) -> Vector:
        """Sum of ``values``, one per kernel, over each group."""
        totals = np.zeros(len(self))
        np.add.at(totals, self.label, np.asarray(values, dtype=np.float64))
        return totals

    def max(self, values: ArrayLike) -> Vector:
        """Largest of ``values``, one per kernel, in each group."""
        largest = np.full(len(self), -np.inf)
        np.maximum.at(largest, self.label, np.asarray(values, dtype=np.float64))
        return largest

    def spread(self, values: ArrayLike) -> Vector:
        """One value per group, given to each of its kernels."""
        return np.asarray(values, dtype=np.float64)[self.label]

    def shares(self, values: Vector) -> Vector:
        """Non-negative ``values`` scaled to sum to one in each group; equal shares where all are zero."""
        total = self.sum(values)
        equal = self.spread(1.0 / self.sum(np.ones(self.n_kernels)))
        return np.where(self.spread(total) > 0.0, values / np.maximum(self.spread(total), 1e-300), equal)
