"""The report of a comparison: one HTML page that needs nothing but itself."""

from __future__ import annotations

import os

from multikernel.compare.results import Comparison
from multikernel.io.files import write_text
from multikernel.report.page import render

__all__ = ["render", "write_report"]


def write_report(comparison: Comparison, path: str | os.PathLike[str]) -> None:
    """Write the page, atomically."""
    write_text(path, render(comparison))
