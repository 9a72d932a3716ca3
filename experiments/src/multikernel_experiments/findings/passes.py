"""Progress against passes over the samples: how far above its optimum each method is, and how fast that falls."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from multikernel_experiments.findings.curves import first_reach
from multikernel_experiments.findings.drawing import panels, plain, style
from multikernel_experiments.results import Results

Course = tuple[list[float], list[float]]  # passes, and the share by which the best objective so far is too high
LEAST = 1e-12  # below lies rounding


def course(results: Results, key: str, setting: str, oracle: str, unit: str = "passes") -> Course:
    """Objective above the lower bound that the entry ``oracle`` proved, against passes, on the first split."""
    found, proof = results.cells.get((setting, 0, key)), results.cells.get((setting, 0, oracle))
    if not found or not proof or not found.get("history") or not proof.get("objectives"):
        return [], []
    bound = proof["objectives"][0] * (1.0 - proof["gaps"][0])
    rows = [row for row in found["history"] if "objective" in row]
    rows = [row for row in rows if unit in row] or rows  # SVRG's last is of an alpha made after its last pass
    best = np.minimum.accumulate([row["objective"] for row in rows])
    far = np.maximum(best / bound - 1.0, LEAST)
    # outer methods count iterations
    return [row.get(unit, row.get("epoch", k + 1)) for k, row in enumerate(rows)], far.tolist()


def at(passes: Sequence[float], far: Sequence[float], budget: float) -> float:
    """What is reached within ``budget`` passes; nan if nothing was judged so early.

    Examples
    --------
    >>> from multikernel_experiments.findings.passes import at
    >>> at([5.0, 20.0], [0.1, 0.01], 10.0)
    0.1
    """
    done = [value for p, value in zip(passes, far) if p <= budget]
    return done[-1] if done else math.nan


def decades(passes: Sequence[float], far: Sequence[float], between: tuple[float, float]) -> tuple[float, float]:
    """Passes that a decade takes between two heights, in the first and in the second half of the way down.

    Equal for a straight line on a log axis; ten times as many in the next decade for a rate of 1/t.

    Examples
    --------
    >>> from multikernel_experiments.findings.passes import decades
    >>> decades([1, 2, 3, 4, 5], [1e-1, 1e-2, 1e-3, 1e-4, 1e-5], (1e-1, 1e-5))
    (1.0, 1.0)
    """
    high, low = (math.log10(value) for value in between)
    middle = (high + low) / 2.0
    start, half, end = (_reach(passes, far, 10.0**height) for height in (high, middle, low))
    return (half - start) / (high - middle), (end - half) / (middle - low)


def _reach(passes: Sequence[float], far: Sequence[float], goal: float) -> float:
    """Where ``far`` gets to ``goal``, straight between points on a log axis; inf if it never does."""
    for k, value in enumerate(far):
        if value <= goal:
            if k == 0 or value == far[k - 1]:
                return float(passes[k])
            share = math.log(far[k - 1] / goal) / math.log(far[k - 1] / value)
            return float(passes[k - 1] + share * (passes[k] - passes[k - 1]))
    return math.inf


def overtakes(leader: Course, other: Course, floor: float, within: float) -> float:
    """Passes from which on ``leader`` is lower, differences below ``floor`` not counted; inf if not ``within`` these.

    Examples
    --------
    >>> from multikernel_experiments.findings.passes import overtakes
    >>> overtakes(([1, 2, 3], [1.0, 0.1, 0.01]), ([1, 2, 3], [0.5, 0.2, 0.1]), 1e-6, 100)
    2
    """
    places = [p for p in sorted({*leader[0], *other[0]}) if p <= within]
    pairs = [(max(at(*leader, p), floor), max(at(*other, p), floor)) for p in places]
    behind = [k for k, (mine, yours) in enumerate(pairs) if mine > yours]
    later = pairs[behind[-1] + 1 :] if behind else pairs
    ahead = [k for k, (mine, yours) in enumerate(later) if mine < yours]
    return places[len(pairs) - len(later) + ahead[0]] if ahead else math.inf


def flattening(passes: Sequence[float], far: Sequence[float], budgets: Sequence[float]) -> tuple[float, float]:
    """Decades gained in ten passes, between the first two budgets and between the next two; equal on straight lines.

    Examples
    --------
    >>> from multikernel_experiments.findings.passes import flattening
    >>> [round(value, 6) for value in flattening([10, 30, 100], [1.0, 0.1, 0.01], (10, 30, 100))]
    [0.5, 0.142857]
    """
    heights = [-math.log10(at(passes, far, budget)) for budget in budgets]
    gained = [10 * (b - a) / (q - p) for a, b, p, q in zip(heights, heights[1:], budgets, budgets[1:])]
    return gained[0], gained[1]


def gap_by_passes(results: Results, figure: Any, groups: Mapping[str, str]) -> None:
    """Objective above its own optimum against passes over the samples, C = 1; straight lines are linear rates.

    A panel for each setting, with the entries in ``groups``, each with the entry that proves its optimum.
    """
    titles = {entry.key: entry.title for entry in results.protocol.entries}
    settings = [s for s in results.protocol.settings if any(course(results, k, s, o)[0] for k, o in groups.items())]
    if not settings:
        return
    sides = panels(figure, len(settings), (4.2 * len(settings), 4.6), sharey=True)
    for panel, setting in zip(sides, settings):
        for k, (key, oracle) in enumerate(groups.items()):
            passes, far = course(results, key, setting, oracle)
            label = titles[key] if setting == settings[0] else None
            panel.plot(passes, far, label=label, **{**style(k), "markersize": 3})
        panel.set(yscale="log", xlim=(0, 120), ylim=(1e-8, 10), title=setting, xlabel="passes over the samples")
        plain(panel)
    sides[0].set_ylabel("objective above its optimum, as a share")
    figure.legend(loc="outside upper center", ncols=4, frameon=False)


def passes_to(results: Results, key: str, setting: str, gap: float, unit: str = "passes") -> float:
    """Passes until best objective and best bound so far prove the relative gap ``gap``; inf if they never do."""
    record = results.cells.get((setting, 0, key))
    rows = [row for row in record["history"] if unit in row] if record else []
    if not rows:
        return math.inf
    objective = np.array([row["objective"] for row in rows])
    best = np.minimum.accumulate(objective)
    bound = np.maximum.accumulate(objective - np.abs(objective) * [row["relative_gap"] for row in rows])
    proved = np.maximum(best - bound, LEAST) / np.abs(best)
    return first_reach([row[unit] for row in rows], proved.tolist(), gap)
