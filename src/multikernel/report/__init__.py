"""The report of a comparison: one HTML page that needs nothing but itself."""

from multikernel.report.page import render, write_report

__all__ = ["render", "write_report"]
