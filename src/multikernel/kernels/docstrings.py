"""Docstrings of dataclasses: a parameter is described once, in the class that introduces it."""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Iterable
from dataclasses import fields
from typing import TypeVar

Class = TypeVar("Class", bound=type)
HEADING = re.compile(r"\n\n(\S[^\n]*)\n-{3,}\n")


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
