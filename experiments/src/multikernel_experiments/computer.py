"""The machine that results were made on: cores and memory, and no names."""

from __future__ import annotations

import os
from pathlib import Path


def machine() -> dict[str, str]:
    """Processor, cores and memory, as text.

    Examples
    --------
    >>> from multikernel_experiments.computer import machine
    >>> "cores" in machine()
    True
    """
    import joblib

    found = {"cores": str(joblib.cpu_count())}
    model = _line(Path("/proc/cpuinfo"), "model name")
    if model:
        found["processor"] = " ".join(model.split())
    if hasattr(os, "sysconf") and "SC_PHYS_PAGES" in os.sysconf_names:
        gigabytes = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 1e9
        found["memory"] = f"{gigabytes:.0f} GB"
    return found


def _line(path: Path, key: str) -> str:
    """What follows the first ``key :`` in a file of the system; empty if there is none."""
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return ""
    return next((line.partition(":")[2].strip() for line in lines if line.startswith(key)), "")
