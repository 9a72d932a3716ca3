"""Estimators as dataclasses: a parameter and its description are stated once, in the class that introduces it."""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Iterable
from dataclasses import KW_ONLY, dataclass, fields
from typing import Any, TypeVar, dataclass_transform

Class = TypeVar("Class", bound=type)
HEADING = re.compile(r"\n\n(\S[^\n]*)\n-{3,}\n")


@dataclass_transform(eq_default=False)
def estimator(cls: Class) -> Class:
    """Class decorator: annotated attributes become parameters, and the docstring covers inherited ones too."""
    dataclass(eq=False, repr=False, match_args=False)(cls)  # equality and repr are scikit-learn's
    return described(cls)


def described(cls: Class) -> Class:
    """Class decorator: complete the docstring with what base classes say of parameters and fitted attributes.

    The description in the nearest class wins; a parameter that nobody describes is a ``KeyError``.
    """
    if sys.flags.optimize < 2:  # python -OO strips docstrings
        _complete_docstring(cls)
    return cls


def _complete_docstring(cls: type) -> None:
    intro, *rest = HEADING.split(inspect.cleandoc(cls.__doc__ or ""))
    sections = dict(zip(rest[::2], rest[1::2]))
    own = {title: _entries(sections.pop(title, "")) for title in ("Parameters", "Attributes")}
    cls._own_descriptions = own  # type: ignore[attr-defined]
    parameters, attributes = _inherited(cls, "Parameters"), _inherited(cls, "Attributes")
    positional = [field.name for field in fields(cls) if not field.kw_only]
    names = [*positional, *own["Parameters"], *(field.name for field in fields(cls))]
    completed = {
        "Parameters": _joined(parameters[name] for name in names),
        "Attributes": _joined(attributes[name] for name in [*own["Attributes"], *attributes]),
    }
    parts = [f"{title}\n{'-' * len(title)}\n{text}" for title, text in {**completed, **sections}.items() if text]
    cls.__doc__ = "\n\n".join([intro, *parts])


def _entries(section: str) -> dict[str, str]:
    """The entries of a numpydoc section by name; one of several names, such as ``a, b : int``, appears under each."""
    found: dict[str, str] = {}
    for entry in re.split(r"\n(?=\S)", section) if section else []:
        names = entry.partition("\n")[0].partition(" : ")[0]
        found |= dict.fromkeys(names.split(", "), entry)
    return found


def _inherited(cls: type, section: str) -> dict[str, str]:
    """Descriptions by the class and its bases; the nearest wins."""
    found: dict[str, str] = {}
    for base in reversed(cls.__mro__):
        found |= vars(base).get("_own_descriptions", {}).get(section, {})
    return found


def _joined(entries: Iterable[str]) -> str:
    return "\n".join(dict.fromkeys(entries))


@estimator
class Resumable:
    """Mixin of estimators whose fit can resume after the process was killed.

    Parameters
    ----------
    checkpoint : path, optional
        File that keeps the state of a long fit, so that it can resume after being killed.
    """

    _: KW_ONLY
    checkpoint: Any = None


@estimator
class Restartable(Resumable):
    """Mixin of estimators that can also start from an earlier solution.

    Parameters
    ----------
    warm_start : bool
        Whether to start from the solution of the previous fit.
    """

    _: KW_ONLY
    warm_start: bool = False
