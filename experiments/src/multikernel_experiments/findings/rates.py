"""Rates of convergence against passes over the samples: a table and verdicts.

Lines are keys of entries, each with the key of the entry that proves its optimum.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from multikernel_experiments.findings.passes import Course, at, course, decades, flattening, overtakes
from multikernel_experiments.findings.verdicts import Finding, graded
from multikernel_experiments.results import Results
from multikernel_experiments.tables import Table

Lines = Mapping[str, str]


def gap_table(results: Results, lines: Lines, budgets: Sequence[int]) -> list[tuple[str, Table]]:
    """Objective above the optimum after so many passes."""
    heads = ["method", *(f"{s}, {b} passes" for s in results.protocol.settings for b in budgets)]
    rows = []
    for entry in results.protocol.entries:
        courses = [course(results, entry.key, setting, lines[entry.key]) for setting in results.protocol.settings]
        values = [at(*found, budget) for found in courses for budget in budgets]
        rows.append([entry.title, *(f"{value:.0e}" if math.isfinite(value) else "–" for value in values)])
    return [("Objective above its own optimum, as a share", (heads, rows))]


def falls_linearly(results: Results, lines: Lines, key: str, between: tuple[float, float]) -> Finding | None:
    """Whether a decade takes about as many passes in the second half of the way down as in the first."""
    found = _courses(results, lines)
    if found is None:
        return None
    speed = {s: decades(*found[key, s], between) for s in results.protocol.settings}
    straight = [second <= 1.5 * max(first, 1.0) for first, second in speed.values()]
    high, low = (f"1e{math.log10(value):.0f}" for value in between)
    text = ", ".join(f"{s}: {first:.1f}, then {second:.1f}" for s, (first, second) in speed.items())
    return graded(straight), f"passes a decade in the upper and in the lower half from {high} to {low}: {text}"


def flatten(results: Results, lines: Lines, keys: Sequence[str], budgets: Sequence[int]) -> Finding | None:
    """Whether these gain less than half as much in ten passes between the last two budgets as before."""
    found = _courses(results, lines)
    if found is None:
        return None
    gains = {key: {s: flattening(*found[key, s], budgets) for s in results.protocol.settings} for key in keys}
    slower = [second < 0.5 * first for each in gains.values() for first, second in each.values()]
    text = "; ".join(
        f"{key} " + ", ".join(f"{s}: {first:.2f}, then {second:.2f}" for s, (first, second) in each.items())
        for key, each in gains.items()
    )
    low, middle, high = budgets
    return graded(slower), f"decades in ten passes, {low} to {middle} and {middle} to {high}: {text}"


def overtakes_all(
    results: Results, lines: Lines, key: str, rivals: Sequence[str], beside: Sequence[str], within: int
) -> Finding | None:
    """Whether an entry gets below its rivals for good; those ``beside`` them are said, not judged."""
    found = _courses(results, lines)
    if found is None:
        return None
    settings = results.protocol.settings
    ahead = {
        rival: {s: overtakes(found[key, s], found[rival, s], 1e-6, within) for s in settings}
        for rival in (*rivals, *beside)
    }
    text = "; ".join(
        f"{rival} " + ", ".join(f"{s}: {p:.0f}" if math.isfinite(p) else f"{s}: never" for s, p in where.items())
        for rival, where in ahead.items()
    )
    won = [math.isfinite(passes) for rival in rivals for passes in ahead[rival].values()]
    return graded(won), f"passes from which on {_title(results, key)} is lower: {text}"


def lower_after(results: Results, lines: Lines, key: str, rival: str, budget: int) -> Finding | None:
    """Whether an entry is below another after so many passes."""
    found = _courses(results, lines)
    if found is None:
        return None
    pairs = {s: (at(*found[key, s], budget), at(*found[rival, s], budget)) for s in results.protocol.settings}
    text = ", ".join(f"{s}: {ours:.0e} against {theirs:.0e}" for s, (ours, theirs) in pairs.items())
    return graded(ours < theirs for ours, theirs in pairs.values()), f"after {budget} passes: {text}"


def _courses(results: Results, lines: Lines) -> dict[tuple[str, str], Course] | None:
    """Courses of all lines in all settings; None if one is missing."""
    settings = results.protocol.settings
    found = {(key, s): course(results, key, s, oracle) for key, oracle in lines.items() for s in settings}
    return found if all(passes for passes, _ in found.values()) else None


def _title(results: Results, key: str) -> str:
    return next(entry.title for entry in results.protocol.entries if entry.key == key)
