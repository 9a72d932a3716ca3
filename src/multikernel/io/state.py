"""What fitted objects hold, said once: kinds, shapes and limits of attributes, so that files can be checked.

A class says in ``_state`` what its attributes are, beside those of the classes it derives from, and in ``_sizes`` how
long the axes are that are named there. ``_check_loaded``, if it has one, looks at what is left. What an attribute
must be is a function of its value and of the sizes that raises a `DataError` unless it is that.
"""

import functools
from collections.abc import Callable, Mapping
from typing import Any, Concatenate, NamedTuple, ParamSpec

import numpy as np
from scipy.sparse import issparse

from multikernel.io.files import DataError

Sizes = Mapping[str, int]
Spec = Callable[[Any, Sizes], None]
P = ParamSpec("P")


class Maybe(NamedTuple):
    """An attribute that need not be there."""

    spec: Spec


def spec(check: Callable[Concatenate[Any, Sizes, P], None]) -> Callable[P, Spec]:
    """Decorator: a check of a value, given sizes and what it should be, becomes a function of the latter alone."""

    @functools.wraps(check)
    def given(*args: P.args, **kwargs: P.kwargs) -> Spec:
        return lambda value, sizes: check(value, sizes, *args, **kwargs)

    return given


@spec
def array(
    value: Any, sizes: Sizes, kinds: str, *axes: str, least: float = -np.inf, below: str = "", sparse: bool = False
) -> None:
    """Finite numbers of some of NumPy's kinds, on axes that have the named sizes ("" for any); one number if none.

    No entry is smaller than ``least``, all are smaller than the size ``below``. With ``sparse`` it may be a sparse
    matrix.
    """
    entries = np.asarray(value.data if sparse and issparse(value) else value)
    if entries.dtype.kind not in kinds or entries.dtype.itemsize > 8 or not entries.dtype.isnative:
        raise DataError(f"holds {entries.dtype}")
    shape = np.shape(value)
    expected = tuple(sizes[axis] if axis else length for axis, length in zip(axes, shape))
    if len(shape) != len(axes) or shape != expected:
        raise DataError(f"has shape {shape}, not {tuple(sizes.get(axis, axis) for axis in axes)}")
    if entries.size and not (np.isfinite(entries).all() and entries.min() >= least):
        raise DataError(f"has entries that are not finite, or smaller than {least:g}")
    if entries.size and below and entries.max() >= sizes[below]:
        raise DataError(f"has entries that are not below {sizes[below]}")


def reals(*axes: str, least: float = -np.inf) -> Spec:
    """Finite numbers in single or double precision."""
    return array("f", *axes, least=least)


def samples(rows: str, columns: str) -> Spec:
    """Features of samples, dense or sparse."""
    return array("f", rows, columns, sparse=True)


def positions(*axes: str, below: str) -> Spec:
    """Indices of something of which there are as many as the size ``below``."""
    return array("iu", *axes, least=0, below=below)


def flags(*axes: str) -> Spec:
    """True or False."""
    return array("b", *axes)


REAL, COUNT = array("fiu"), array("iu", least=0)
POSITIVE = array("fiu", least=np.finfo(float).tiny)


@spec
def labels(value: Any, sizes: Sizes, axis: str, plain: tuple[type, ...] = (str,)) -> None:
    """A list or an array with one axis, of text or of other plain values."""
    if not isinstance(value, (list, np.ndarray)) or np.ndim(value) != 1 or len(value) != sizes[axis]:
        raise DataError(f"is not a list of {sizes[axis]} entries")
    if not all(isinstance(entry, plain) for entry in np.asarray(value).tolist()):
        raise DataError("has entries that are not labels")


def text(value: Any, sizes: Sizes) -> None:
    """A string."""
    if not isinstance(value, str):
        raise DataError(f"is a {type(value).__name__}, not text")


def anything(value: Any, sizes: Sizes) -> None:
    """Whatever it is."""


@spec
def part(value: Any, sizes: Sizes, kind: type, **same: str) -> None:
    """An instance of a class, itself as it should be; ``its_size="size here"`` says which sizes must agree."""
    if not isinstance(value, kind):
        raise DataError(f"is a {type(value).__name__}, not a {kind.__name__}")
    check_state(value)
    found: Sizes = value._sizes()  # type: ignore[attr-defined]
    for theirs, ours in same.items():
        if found.get(theirs, sizes[ours]) != sizes[ours]:
            raise DataError(f"is made for {found[theirs]} {theirs}, not {sizes[ours]}")


@spec
def each(value: Any, sizes: Sizes, entry_spec: Spec, size: str = "") -> None:
    """A list of things of one kind, as many as ``size`` says if it is given."""
    if not isinstance(value, list) or (size and len(value) != sizes[size]):
        raise DataError(f"is not a list of {sizes.get(size, 'entries')}")
    for entry in value:
        entry_spec(entry, sizes)


@spec
def keyed(value: Any, sizes: Sizes, keys: Spec, values: Spec) -> None:
    """A dict of things of one kind."""
    if not isinstance(value, dict):
        raise DataError("is not a dict")
    for key, entry in value.items():
        keys(key, sizes)
        values(entry, sizes)


@spec
def record(value: Any, sizes: Sizes, **entries: Spec | Maybe) -> None:
    """A dict with the named entries and no others."""
    if not isinstance(value, dict) or value.keys() - entries.keys():
        raise DataError(f"is not a dict of {', '.join(entries)}")
    _check_all(entries, value, sizes)


@spec
def either(value: Any, sizes: Sizes, *specs: Spec) -> None:
    """One of several things."""
    reasons = []
    for one in specs:
        try:
            return one(value, sizes)
        except DataError as error:
            reasons.append(str(error))
    raise DataError(", ".join(reasons))


@spec
def only(value: Any, sizes: Sizes, *values: Any) -> None:
    """One of the values given."""
    if isinstance(value, (np.ndarray, np.generic)) and value.ndim == 0:
        value = value.item()
    if not any(type(value) is type(known) and value == known for known in values):
        raise DataError(f"is not {' or '.join(map(repr, values))}")


def optional(other: Spec) -> Spec:
    """None, or something else."""
    return either(only(None), other)


def attributes(*reports: str, **specs: Spec | Maybe) -> dict[str, Any]:
    """What the attributes of a class are; of those that are only named, predictions do not depend."""
    return {**dict.fromkeys(reports, anything), **specs}


def described(kind: type) -> dict[str, Spec | Maybe]:
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


def _check_all(specs: Mapping[str, Spec | Maybe], state: Mapping[str, Any], sizes: Sizes) -> None:
    for name, spec in specs.items():
        if isinstance(spec, Maybe):
            if name not in state:
                continue
            spec = spec.spec
        if name not in state:
            raise DataError(f"{name} is missing")
        try:
            spec(state[name], sizes)
        except DataError as error:
            raise DataError(f"{name} {error}") from None
