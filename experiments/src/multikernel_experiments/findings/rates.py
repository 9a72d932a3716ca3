"""Rates of convergence against passes over the samples: a table and verdicts.

Lines are keys of entries, each with the key of the entry that proves its optimum.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise

from multikernel_experiments.findings.passes import Course, at, course, decades, flattening, overtakes
from multikernel_experiments.findings.verdicts import Finding, graded
from multikernel_experiments.protocol import UNDECIDED
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
    straight = [second <= 1.5 * max(first, 1.0) for first, second in speed.values()]  # inf where it is not reached
    high, low = (f"1e{math.log10(value):.0f}" for value in between)
    text = ", ".join(f"{s}: {first:.1f}, then {second:.1f}" for s, (first, second) in speed.items())
    return graded(straight), f"passes a decade in the upper and in the lower half from {high} to {low}: {text}"


def flatten(results: Results, lines: Lines, keys: Sequence[str], budgets: Sequence[int]) -> Finding | None:
    """Whether these gain less than half as much in ten passes between the last two budgets as before.

    Where nothing was judged so early there is nothing to tell: such settings are left out.
    """
    found = _courses(results, lines)
    if found is None:
        return None
    gains = {key: {s: flattening(*found[key, s], budgets) for s in results.protocol.settings} for key in keys}
    known = [pair for each in gains.values() for pair in each.values() if all(map(math.isfinite, pair))]
    text = "; ".join(
        f"{key} " + ", ".join(f"{s}: {first:.2f}, then {second:.2f}" for s, (first, second) in each.items())
        for key, each in gains.items()
    )
    low, middle, high = budgets
    text = f"decades in ten passes, {low} to {middle} and {middle} to {high}: {text}"
    return (graded(second < 0.5 * first for first, second in known) if known else UNDECIDED), text


def costs(
    results: Results, lines: Lines, key: str, setting: str, errors: Sequence[float]
) -> list[tuple[float, float]]:
    """Passes, and seconds, until the objective is within each share of its optimum; inf where it never is."""
    passes, far = course(results, key, setting, lines[key])
    record = results.cells.get((setting, 0, key))
    times = [row["time"] for row in record["history"] if "objective" in row][: len(passes)] if record else []
    reached = [next((k for k, value in enumerate(far) if value <= error), None) for error in errors]
    return [(passes[k], times[k]) if k is not None and k < len(times) else (math.inf, math.inf) for k in reached]


def complexity_table(
    results: Results, lines: Lines, rows: Mapping[str, str], errors: Sequence[float]
) -> list[tuple[str, Table]]:
    """Passes over the samples, of the level method its iterations, and seconds, to each relative error."""
    settings = results.protocol.settings
    heads = ["method", "published", *(f"{s}, ε = {error:g}" for s in settings for error in errors)]
    body = []
    for key, published in rows.items():
        found = [pair for s in settings for pair in costs(results, lines, key, s, errors)]
        shown = [
            f"{passes:.0f} ({spent:.2f} s)" if math.isfinite(passes) else "not reached" for passes, spent in found
        ]
        body.append([_title(results, key), published, *shown])
    return [("Passes and seconds to a relative error, and the published complexity", (heads, body))]


def grows_like_log(results: Results, lines: Lines, key: str, errors: Sequence[float]) -> Finding | None:
    """Whether the last decade costs no more than twice the passes of one before; in some settings; or in none.

    It is the last one that was reached: how far a run gets that ends by itself is another question. A setting where
    fewer than two errors were reached is left out.
    """
    if _courses(results, lines) is None:
        return None
    found = {s: [passes for passes, _ in costs(results, lines, key, s, errors)] for s in results.protocol.settings}
    text = "; ".join(
        f"{s}: " + ", ".join(f"{n:.0f}" if math.isfinite(n) else "never" for n in each) for s, each in found.items()
    )
    straight = []
    for each in found.values():
        decades_of = [b - a for a, b in pairwise([0.0, *(n for n in each if math.isfinite(n))])]
        if len(decades_of) > 1:
            straight.append(decades_of[-1] <= 2 * max(decades_of[:-1]))
    return graded(
        straight
    ) if straight else UNDECIDED, f"passes to relative errors of {', '.join(f'{e:g}' for e in errors)}: {text}"


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
