"""Peak memory of one call, measured without slowing it down where the system can."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

_PROC = Path("/proc/self")


def can_measure() -> bool:
    """Whether the peak of the resident set can be reset and read back (Linux)."""
    try:
        (_PROC / "clear_refs").write_text("5")
        return _status_bytes("VmHWM") > 0
    except (OSError, StopIteration):
        return False


def peak_memory(function: Callable[[], Any]) -> tuple[Any, float]:
    """Call ``function`` and return its result with the bytes it added at its peak.

    The kernel's own high-water mark of resident memory is reset before the call and read after it; what was
    resident before is subtracted. So everything counts, compiled code and libraries included, and nothing
    runs alongside. Memory that the process had already, such as the Gram matrices that are passed in, does
    not count. Pages that the allocator kept from earlier calls would hide new allocations: they are given
    back first. Where this is not possible (not Linux), the bytes are ``nan``.

    Examples
    --------
    >>> import numpy as np
    >>> from multikernel.compare.memory import can_measure, peak_memory
    >>> length, peak = peak_memory(lambda: len(np.ones(4_000_000)))
    >>> length, not can_measure() or peak > 30e6
    (4000000, True)
    """
    if sys.platform.startswith("linux") and (trim := getattr(ctypes.CDLL(None), "malloc_trim", None)):
        trim(0)  # not every C library has it
    if not can_measure():  # which resets the mark
        return function(), float("nan")
    before = _status_bytes("VmRSS")
    result = function()
    return result, float(max(_status_bytes("VmHWM") - before, 0))


def _status_bytes(key: str) -> int:
    """A size from the process's status, in bytes."""
    lines = (_PROC / "status").read_text().splitlines()
    return 1024 * int(next(line for line in lines if line.startswith(key + ":")).split()[1])
