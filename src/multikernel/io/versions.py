"""Versions of the library and of what it runs on, for reports and model files."""

from __future__ import annotations

import platform
from importlib import metadata


def multikernel_version() -> str:
    """Version of the library that is running."""
    from multikernel import __version__

    return __version__


def all_versions() -> dict[str, str]:
    """Versions that results may depend on, by name."""
    found = {"multikernel": multikernel_version(), "Python": platform.python_version()}
    for title in ("NumPy", "SciPy", "scikit-learn", "numba"):
        found[title] = metadata.version(title)
    found["platform"] = f"{platform.system()} {platform.machine()}"
    return found
