"""What is read off curves: exponents, where a goal is reached, how far an objective is above its optimum."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from multikernel_experiments.results import Results


def exponent(x: Sequence[float], y: Sequence[float]) -> float:
    """Slope of log y against log x, by least squares over the finite points; nan with fewer than two.

    Examples
    --------
    >>> from multikernel_experiments.findings.curves import exponent
    >>> round(exponent([10, 20, 40], [3.0, 12.0, 48.0]), 6)
    2.0
    """
    points = [(a, b) for a, b in zip(x, y) if a > 0 and b > 0 and math.isfinite(b)]
    if len({a for a, _ in points}) < 2:
        return math.nan
    logs = np.log(np.array(points))
    return float(np.polyfit(logs[:, 0], logs[:, 1], 1)[0])


def first_reach(x: Sequence[float], y: Sequence[float], goal: float) -> float:
    """Where y, falling along x, first gets to ``goal``: interpolated on log axes; inf if it never does.

    Examples
    --------
    >>> from multikernel_experiments.findings.curves import first_reach
    >>> round(first_reach([1, 10, 100], [1.0, 0.1, 0.01], 0.05), 2), first_reach([1, 2], [1.0, 0.5], 0.1)
    (20.0, inf)
    """
    for k, value in enumerate(y):
        if value <= goal:
            if k == 0 or value <= 0.0:
                return float(x[k])
            share = math.log(y[k - 1] / goal) / math.log(y[k - 1] / value)
            return float(x[k - 1] * (x[k] / x[k - 1]) ** share)
    return math.inf


def excess(results: Results, key: str, setting: str, split: int, oracle: str) -> float:
    """Objective of an entry above the lower bound that another one proved, as a share of that bound."""
    found, proof = results.cells.get((setting, split, key)), results.cells.get((setting, split, oracle))
    if not found or not proof or not found.get("objectives") or not proof.get("objectives"):
        return math.nan
    bound = proof["objectives"][0] * (1.0 - proof["gaps"][0])
    return max(found["objectives"][0] / bound - 1.0, 1e-12)
