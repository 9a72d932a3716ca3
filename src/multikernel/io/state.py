"""What fitted objects hold, said once: kinds, shapes and limits of attributes, so that files can be checked.

A class says in ``_state`` what its attributes are, beside those of the classes it derives from, and in ``_sizes`` how
long the axes are that are named there. ``_check_loaded``, if it has one, looks at what is left.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from scipy.sparse import issparse

from multikernel.io.files import DataError

Sizes = Mapping[str, int]


class Spec(Protocol):
    """What an attribute must be."""

    def check(self, value: Any, sizes: Sizes) -> None:
        """Raise a `DataError` unless ``value`` is that."""


@dataclass(frozen=True)
class Array:
    """An array of numbers, finite ones, with axes that have the named sizes; a number if there are none.

    Parameters
    ----------
    kinds : str
        NumPy's letters for the kinds of numbers that are allowed.
    axes : tuple of str
        Names of sizes; "" for any.
    least : float
        No entry is smaller.
    below : str, optional
        All entries are smaller than this size: they are positions.
    sparse : bool
        Whether it may be a sparse matrix.
    """

    kinds: str
    axes: tuple[str, ...] = ()
    least: float = -np.inf
    below: str | None = None
    sparse: bool = False

    def check(self, value: Any, sizes: Sizes) -> None:
        entries = np.asarray(value.data if self.sparse and issparse(value) else value)
        if entries.dtype.kind not in self.kinds or entries.dtype.itemsize > 8 or not entries.dtype.isnative:
            raise DataError(f"holds {entries.dtype}")
        shape = np.shape(value)
        expected = tuple(sizes[axis] if axis else length for axis, length in zip(self.axes, shape))
        if len(shape) != len(self.axes) or shape != expected:
            raise DataError(f"has shape {shape}, not {tuple(sizes.get(axis, axis) for axis in self.axes)}")
        if entries.size and not (np.isfinite(entries).all() and entries.min() >= self.least):
            raise DataError(f"has entries that are not finite, or smaller than {self.least:g}")
        if entries.size and self.below is not None and entries.max() >= sizes[self.below]:
            raise DataError(f"has entries that are not below {sizes[self.below]}")


def reals(*axes: str, least: float = -np.inf) -> Array:
    """Finite numbers in single or double precision."""
    return Array("f", axes, least)


def table(rows: str, columns: str) -> Array:
    """Features of samples, dense or sparse."""
    return Array("f", (rows, columns), sparse=True)


def positions(*axes: str, below: str) -> Array:
    """Indices of something of which there are as many as the size ``below``."""
    return Array("iu", axes, 0, below)


def flags(*axes: str) -> Array:
    """True or False."""
    return Array("b", axes)


REAL, COUNT = Array("fiu"), Array("iu", least=0)
POSITIVE = Array("fiu", least=np.finfo(float).tiny)


@dataclass(frozen=True)
class Labels:
    """A list or an array with one axis, of text or of any plain values."""

    axis: str
    text: bool = True

    def check(self, value: Any, sizes: Sizes) -> None:
        if not isinstance(value, (list, np.ndarray)) or np.ndim(value) != 1 or len(value) != sizes[self.axis]:
            raise DataError(f"is not a list of {sizes[self.axis]} entries")
        plain = str if self.text else (str, int, float)
        if not all(isinstance(entry, plain) for entry in np.asarray(value).tolist()):
            raise DataError("has entries that are not labels")


class Text:
    """A string."""

    def check(self, value: Any, sizes: Sizes) -> None:
        if not isinstance(value, str):
            raise DataError(f"is a {type(value).__name__}, not text")


@dataclass(frozen=True)
class Part:
    """An instance of a class, itself as it should be, with sizes, by their names there, that are sizes here."""

    kind: type
    sizes: Mapping[str, str]

    def check(self, value: Any, sizes: Sizes) -> None:
        if not isinstance(value, self.kind):
            raise DataError(f"is a {type(value).__name__}, not a {self.kind.__name__}")
        check_state(value)
        found: Sizes = value._sizes()  # type: ignore[attr-defined]
        for theirs, ours in self.sizes.items():
            if found.get(theirs, sizes[ours]) != sizes[ours]:
                raise DataError(f"is made for {found[theirs]} {theirs}, not {sizes[ours]}")


def part(kind: type, **sizes: str) -> Part:
    """An instance of a class; ``its size="size here"``."""
    return Part(kind, sizes)


@dataclass(frozen=True)
class Each:
    """A list of things of one kind, as many as ``size`` says if it is given."""

    spec: Spec
    size: str = ""

    def check(self, value: Any, sizes: Sizes) -> None:
        if not isinstance(value, list) or (self.size and len(value) != sizes[self.size]):
            raise DataError(f"is not a list of {sizes.get(self.size, 'entries')}")
        for entry in value:
            self.spec.check(entry, sizes)


@dataclass(frozen=True)
class Keyed:
    """A dict of things of one kind."""

    keys: Spec
    values: Spec

    def check(self, value: Any, sizes: Sizes) -> None:
        if not isinstance(value, dict):
            raise DataError("is not a dict")
        for key, entry in value.items():
            self.keys.check(key, sizes)
            self.values.check(entry, sizes)


class Record:
    """A dict with the named entries and no others."""

    def __init__(self, **entries: Spec):
        self.entries = entries

    def check(self, value: Any, sizes: Sizes) -> None:
        if not isinstance(value, dict) or value.keys() != self.entries.keys():
            raise DataError(f"is not a dict of {', '.join(self.entries)}")
        _check_all(self.entries, value, sizes)


class Either:
    """One of several things."""

    def __init__(self, *specs: Spec):
        self.specs = specs

    def check(self, value: Any, sizes: Sizes) -> None:
        reasons = []
        for spec in self.specs:
            try:
                return spec.check(value, sizes)
            except DataError as error:
                reasons.append(str(error))
        raise DataError(", ".join(reasons))


class Only:
    """One of the values given."""

    def __init__(self, *values: Any):
        self.values = values

    def check(self, value: Any, sizes: Sizes) -> None:
        if isinstance(value, (np.ndarray, np.generic)) and value.ndim == 0:
            value = value.item()
        if not any(type(value) is type(known) and value == known for known in self.values):
            raise DataError(f"is not {' or '.join(map(repr, self.values))}")


def optional(spec: Spec) -> Either:
    """None, or something else."""
    return Either(Only(None), spec)


class Anything:
    """Whatever it is."""

    def check(self, value: Any, sizes: Sizes) -> None:
        pass


def attributes(*reports: str, **specs: Spec) -> Mapping[str, Spec]:
    """What the attributes of a class are; of those that are only named, predictions do not depend."""
    return {**dict.fromkeys(reports, Anything()), **specs}


class Maybe(Either):
    """An attribute that need not be there."""


def described(kind: type) -> dict[str, Spec]:
    """What a class, and those that it derives from, say of their attributes."""
    return {name: spec for cls in reversed(kind.__mro__) for name, spec in vars(cls).get("_state", {}).items()}


def check_state(value: Any) -> None:
    """Refuse an object with a `DataError` unless its attributes are what its class says.

    Of others none may hide what the class has, such as a method.
    """
    kind, specs = type(value), described(type(value))
    try:
        state = value.__getstate__() if hasattr(value, "__getstate__") else vars(value)
        known = {*specs, *getattr(kind, "_get_param_names", list)()}
        hiding = sorted(name for name in set(state) - known if hasattr(kind, name))
        if hiding:
            raise DataError(f"{hiding[0]} is not one of its attributes")
        _check_all(specs, state, getattr(value, "_sizes", dict)())
        if hasattr(value, "_check_loaded"):
            value._check_loaded()
    except Exception as error:  # a size that is not a number, say, shows as whatever Python makes of it
        raise DataError(f"{kind.__name__}: {error}") from None


def _check_all(specs: Mapping[str, Spec], state: Mapping[str, Any], sizes: Sizes) -> None:
    for name, spec in specs.items():
        if name not in state:
            if isinstance(spec, Maybe):
                continue
            raise DataError(f"{name} is missing")
        try:
            spec.check(state[name], sizes)
        except DataError as error:
            raise DataError(f"{name} {error}") from None
