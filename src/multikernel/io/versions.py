"""Versions of the library and of what it runs on, for reports and model files."""

import platform
from importlib import metadata

from multikernel import __version__


def all_versions() -> dict[str, str]:
    """Versions that results may depend on, by name."""
    found = {"multikernel": __version__, "Python": platform.python_version()}
    for title in ("NumPy", "SciPy", "scikit-learn", "numba"):
        found[title] = metadata.version(title)
    return {**found, "platform": f"{platform.system()} {platform.machine()}"}
