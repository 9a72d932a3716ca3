"""Memory budgets: how they are written, and what is used when none is given."""

from __future__ import annotations

import os
import re

UNITS = {"": 1, "B": 1, "KB": 1 << 10, "MB": 1 << 20, "GB": 1 << 30, "TB": 1 << 40}


def default_memory() -> int:
    """Half of the memory that is free now; 2 GB where the system does not tell."""
    try:
        return int(os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2)
    except (ValueError, OSError, AttributeError):
        return 2 << 30


def parse_memory(memory: int | float | str | None) -> int:
    """A budget in bytes from a number of bytes, a string such as ``"2GB"``, or ``None`` (half the free memory).

    Examples
    --------
    >>> from multikernel.gram import parse_memory
    >>> parse_memory("1.5 GB")
    1610612736
    """
    if memory is None:
        return default_memory()
    if isinstance(memory, str):
        match = re.fullmatch(r"\s*([0-9]*\.?[0-9]+)\s*([kKmMgGtT]?[bB]?)\s*", memory)
        unit = match.group(2).upper() if match else ""
        if unit in ("K", "M", "G", "T"):
            unit += "B"
        if match is None or unit not in UNITS:
            raise ValueError(f'memory={memory!r} is not a size: write bytes as a number, or a string like "2GB".')
        memory = float(match.group(1)) * UNITS[unit]
    if not 0 < memory < float("inf"):
        raise ValueError(
            f"memory={memory!r} must be positive and finite: give bytes as a number, or a string like '2GB'."
        )
    return int(memory)
