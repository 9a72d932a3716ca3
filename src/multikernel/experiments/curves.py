"""Convergence and cost of methods along settings that are numbers: what claims read off, and how it is drawn."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from multikernel.experiments.drawing import COLOURS, MARKERS, plain, style
from multikernel.experiments.protocol import FAILS, HOLDS, IN_PART, Verdict
from multikernel.experiments.results import Results


def exponent(x: Sequence[float], y: Sequence[float]) -> float:
    """Slope of log y against log x, by least squares over the finite points; nan with fewer than two.

    Examples
    --------
    >>> from multikernel.experiments.curves import exponent
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
    >>> from multikernel.experiments.curves import first_reach
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


def race(results: Results, key: str, rival: str, share: float, claim: str, source: str) -> list[Verdict]:
    """Whether a course gets to a share above the optimum of its problem in fewer iterations than another does."""
    if not {key, rival} <= set(results.courses):
        return []
    problem = {line.key: line.problem for line in results.protocol.course}
    same = [name for name in results.courses if problem[name] == problem[key]]
    bound = max(point["bound"] for name in same for point in results.courses[name]["points"])
    parts, ends = [], {}
    for name in (key, rival):
        points = results.courses[name]["points"]
        hit = next((point for point in points if point["objective"] <= (1.0 + share) * bound), None)
        ends[name] = math.inf if hit is None else hit["max_iter"]
        when = "not reached" if hit is None else f"{hit['max_iter']} epochs, {hit['seconds']:.2f} s"
        parts.append(f"{results.courses[name]['title']}: {when}")
    verdict = HOLDS if ends[key] < ends[rival] else IN_PART if ends[key] == ends[rival] else FAILS
    return [Verdict(claim, source, verdict, f"{100 * share:.0f} % above the optimum after " + "; ".join(parts))]


def excess_by_budget(
    results: Results, figure: Any, budgets: Mapping[str, int], oracle: str, label: str = "kernels"
) -> None:
    """Objective above its optimum, and score, against budgets: a line a setting, means over splits."""
    settings = [s for s in results.protocol.settings if results.scores(oracle, s)]
    if not settings:
        return
    figure.set_size_inches(9.0, 4.5)
    left, right = figure.subplots(1, 2)
    for k, setting in enumerate(settings):
        splits = range(results.protocol.n_splits)
        far = [np.nanmean([excess(results, key, setting, s, oracle) for s in splits]) for key in budgets]
        left.plot(list(budgets.values()), far, label=f"{setting} {label}", **style(k))
        score = [100 * results.score(key, setting) for key in budgets]
        right.plot(list(budgets.values()), score, **style(k))
        right.axhline(100 * results.score(oracle, setting), color=style(k)["color"], linestyle=":", linewidth=1)
    left.set(xscale="log", yscale="log", xlabel="epochs", ylabel="objective above the optimum, as a share")
    right.set(xscale="log", xlabel="epochs", ylabel=f"test {results.protocol.metric} in percent (dotted: optimum)")
    plain(left)
    plain(right)
    figure.legend(loc="outside upper center", ncols=5, frameon=False)


def time_by_size(results: Results, figure: Any, families: Mapping[str, Mapping[str, int]]) -> None:
    """Time of a fit against the number of samples on log axes, a panel for each family of settings."""
    shown = {
        name: {s: n for s, n in sizes.items() if s in results.protocol.settings} for name, sizes in families.items()
    }
    shown = {name: sizes for name, sizes in shown.items() if sizes}
    if not results.entries_done() or not shown:
        return
    figure.set_size_inches(9.0, 4.5)
    for panel, (name, sizes) in zip(np.atleast_1d(figure.subplots(1, len(shown))), shown.items()):
        for k, entry in enumerate(results.entries_done()):
            seconds = [results.value("fit_seconds", entry.key, setting) for setting in sizes]
            slope = round(exponent(list(sizes.values()), seconds), 1) + 0.0  # no minus zero
            panel.plot(list(sizes.values()), seconds, label=f"{entry.title}: n^{slope:.1f}", **style(k))
        panel.set(
            xscale="log", yscale="log", title=name, xlabel="training samples", ylabel="time of a fit in seconds"
        )
        ticks = sorted(set(sizes.values()))
        panel.set_xticks(ticks, [str(n) for n in ticks])
        panel.minorticks_off()
        panel.legend(frameon=False, fontsize=8)
        plain(panel)


def score_by_time(results: Results, figure: Any) -> None:
    """Score of each method against the time of its fit, kernels given and parameters chosen: means over splits."""
    (setting,) = results.protocol.settings
    entries = results.entries_done()
    if not entries:
        return
    axes = figure.add_subplot()
    for k, entry in enumerate(entries):
        seconds, score = results.value("fit_seconds", entry.key, setting), 100 * results.score(entry.key, setting)
        look = {**style(k), "marker": MARKERS[(k + k // len(COLOURS)) % len(MARKERS)], "markersize": 7}
        axes.plot(seconds, score, linestyle="none", label=entry.title, **look)
    axes.set(xscale="log", xlabel="time of a fit in seconds", ylabel=f"{results.protocol.metric} in percent")
    plain(axes)
    figure.legend(loc="outside right upper", frameon=False, fontsize=8)
