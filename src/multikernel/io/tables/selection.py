"""Choose columns by name, position, range or pattern: what ``--view name=columns`` means."""

import fnmatch
from collections.abc import Mapping, Sequence

from multikernel.io.files import DataError, near_matches


def parse_view(text: str) -> tuple[str, str]:
    """Split ``name=columns``; a `ValueError` says what is wrong."""
    name, equals, columns = text.partition("=")
    if not (equals and name.strip() and columns.strip()):
        raise ValueError(f"{text!r} should be name=columns, such as petals=petal_length,petal_width or genes=4:20")
    return name.strip(), columns.strip()


def select_columns(
    selector: str, columns: Sequence[str], groups: Mapping[str, Sequence[int]] | None = None
) -> list[int]:
    """Positions of the columns that a comma-separated selector names, in order, each once.

    An entry is a column's name, a group's name (an array of an archive), a position, a range or a pattern.
    Ranges of positions are half-open as in Python (``0:4`` is four columns); ranges of names include both
    ends (``a:d``), as do pandas'. Patterns are those of the shell: ``gene_*``. A name wins over a position.

    Examples
    --------
    >>> from multikernel.io.tables import select_columns
    >>> names = ["id", "gene_a", "gene_b", "age"]
    >>> select_columns("gene_*", names), select_columns("gene_b:age,0", names), select_columns("1:3", names)
    ([1, 2], [2, 3, 0], [1, 2])
    """
    chosen: dict[int, None] = {}
    for entry in selector.split(","):
        chosen.update(dict.fromkeys(_entry(entry.strip(), list(columns), groups or {})))
    return list(chosen)


def _entry(entry: str, columns: list[str], groups: Mapping[str, Sequence[int]]) -> list[int]:
    """Positions that one entry of a selector names."""
    if not entry:
        raise DataError("an empty entry in the list of columns: two commas in a row?")
    if entry in columns:
        return [columns.index(entry)]
    if entry in groups:
        return list(groups[entry])
    if any(sign in entry for sign in "*?["):
        named = {**{name: [k] for k, name in enumerate(columns)}, **groups}
        found = [k for name, members in named.items() if fnmatch.fnmatchcase(name, entry) for k in members]
        if not found:
            stem = entry.translate(str.maketrans("", "", "*?[]"))
            raise DataError(f"no column matches {entry!r}; {near_matches(stem, [*columns, *groups])}")
        return found
    if ":" in entry:
        return _range(entry, columns)
    if not entry.lstrip("-").isdigit():
        raise DataError(f"there is no column {entry!r}; {near_matches(entry, [*groups, *columns])}")
    if not -len(columns) <= int(entry) < len(columns):
        raise DataError(f"there is no column number {entry}: the {len(columns)} columns are numbered from 0")
    return [int(entry) % len(columns)]


def _range(entry: str, columns: list[str]) -> list[int]:
    """``a:b`` with both ends names, or both positions, or open."""
    first, last = (part.strip() for part in entry.split(":", 1))
    if all(part == "" or (part.lstrip("-").isdigit() and part not in columns) for part in (first, last)):
        found = list(range(len(columns))[slice(*(int(p) if p else None for p in (first, last)))])
    else:
        for name in (first, last):
            if name and name not in columns:
                raise DataError(f"there is no column {name!r}; {near_matches(name, columns)}")
        start = columns.index(first) if first else 0
        stop = columns.index(last) if last else len(columns) - 1
        found = list(range(start, stop + 1))
    if not found:
        raise DataError(f"the range {entry!r} is empty: there are {len(columns)} columns, numbered from 0")
    return found
