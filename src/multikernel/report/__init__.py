"""The report of a comparison: one HTML page that needs nothing but itself."""

from multikernel.report.page import render, write_report
from multikernel.report.pictures import Pictures

__all__ = ["Pictures", "render", "write_report"]
