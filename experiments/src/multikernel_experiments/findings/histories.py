"""Longer and longer fits: objective, score and weights against time and budgets, and verdicts on them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from multikernel_experiments.findings.drawing import COLOURS, panels, plain, style
from multikernel_experiments.findings.verdicts import Finding, graded, listed, on_scores, within
from multikernel_experiments.protocol import FAILS, HOLDS, Course
from multikernel_experiments.results import Results

# Share of the weights from which a kernel has a line of its own.
SHOWN = 0.05


def scores_and_weights_against_time(results: Results, figure: Any) -> None:
    """Score and kernel weights of longer and longer fits, kernels above 5 % at some time [BJJ10, Figures 1 and 2]."""
    lines = _lines(results)
    if not lines:
        return
    figure.set_size_inches(10.0, 7.5)
    grid = figure.add_gridspec(2, len(lines), height_ratios=[1.2, 1.0])
    top = figure.add_subplot(grid[0, :])
    names = next(iter(results.cells.values()))["kernel_names"]
    shares = {line.key: np.array([point["weights"] for point in record["points"]]) for line, record in lines}
    shown = np.flatnonzero(np.max([weights.max(axis=0) for weights in shares.values()], axis=0) >= SHOWN)
    first: Any = None
    for k, (line, record) in enumerate(lines):
        seconds = [point["seconds"] for point in record["points"]]
        top.plot(seconds, [100 * point["score"] for point in record["points"]], label=line.title, **style(k))
        axes = first = figure.add_subplot(grid[1, k], sharey=first, sharex=top)
        for turn, j in enumerate(shown):
            again, colour = divmod(turn, len(COLOURS))
            look = {"color": COLOURS[colour], "linestyle": "--" if again else "-", "marker": "."}
            axes.plot(seconds, shares[line.key][:, j], label=names[j], **look)
        axes.set(title=line.title, xscale="log", xlabel="seconds")
        axes.title.set_fontsize(9)
        plain(axes)
        if k == 0:
            axes.set_ylabel("weight")
    figure.legend(*first.get_legend_handles_labels(), loc="outside lower center", ncols=6, frameon=False, fontsize=8)
    top.set(xscale="log", xlabel="time of the fit in seconds", ylabel=f"test {results.protocol.metric} in percent")
    top.legend(frameon=False, fontsize=9)
    plain(top)


def against_time(results: Results, figure: Any) -> None:
    """Objective above the best lower bound of its problem, and score, against the time of longer and longer fits."""
    lines = _lines(results)
    if not lines:
        return
    bounds: dict[str, float] = {}
    for line, record in lines:
        found = [p["bound"] for p in record["points"] if math.isfinite(p["bound"])]
        bounds[line.problem] = max([bounds.get(line.problem, -math.inf), *found])
    left, right = panels(figure, 2, (9.0, 4.8))
    for k, (line, record) in enumerate(lines):
        points, bound = record["points"], bounds[line.problem]
        seconds = [point["seconds"] for point in points]
        far = [max(point["objective"] - bound, 1e-12) / abs(bound) for point in points]
        left.plot(seconds, far, label=line.title, **style(k))
        right.plot(seconds, [100 * point["score"] for point in points], **style(k))
    left.set(xscale="log", yscale="log", xlabel="time of the fit in seconds", ylabel="objective above best bound")
    right.set(xscale="log", xlabel="time of the fit in seconds", ylabel=f"test {results.protocol.metric} in percent")
    plain(left)
    plain(right)
    figure.legend(loc="outside upper center", ncols=4, frameon=False)


def scores_by_budget(results: Results, figure: Any, families: Mapping[str, Sequence[str]]) -> None:
    """Score against the number of SVMs solved, a panel for each family of courses."""
    shown = {title: [key for key in keys if key in results.courses] for title, keys in families.items()}
    if not any(shown.values()):
        return
    titles = {course.key: course.title for course in results.protocol.course}
    for axes, (title, keys) in zip(panels(figure, len(shown), (9.0, 4.5), sharey=True), shown.items()):
        for c, key in enumerate(keys):
            points = results.courses[key]["points"]
            budgets, scores = [p["max_iter"] for p in points], [100 * p["score"] for p in points]
            axes.plot(budgets, scores, label=titles[key], **style(c))
        axes.set(title=title, xscale="log", xlabel="SVMs", ylabel=f"test {results.protocol.metric} in percent")
        axes.tick_params(labelleft=True)
        axes.legend(frameon=False)
        plain(axes)


def _lines(results: Results) -> list[tuple[Course, dict[str, Any]]]:
    """Courses of the protocol that were done, with their records."""
    return [(line, results.courses[line.key]) for line in results.protocol.course if line.key in results.courses]


def race(results: Results, key: str, rival: str, share: float = 0.05, margin: float = 1.5) -> Finding | None:
    """Whether a course gets to a share above the optimum of its problem ``margin`` times as fast as another does.

    It must be in epochs and in time, for budgets are coarse and clocks are noisy; in part: in one of them.
    """
    if not {key, rival} <= set(results.courses):
        return None
    problem = {line.key: line.problem for line in results.protocol.course}
    same = [name for name in results.courses if problem[name] == problem[key]]
    bound = max(point["bound"] for name in same for point in results.courses[name]["points"])
    parts, ends = [], []
    for name in (key, rival):
        points = results.courses[name]["points"]
        hit = next((point for point in points if point["objective"] <= (1.0 + share) * bound), None)
        ends.append((math.inf, math.inf) if hit is None else (hit["max_iter"], hit["seconds"]))
        when = "not reached" if hit is None else f"{hit['max_iter']} epochs, {hit['seconds']:.2f} s"
        parts.append(f"{results.courses[name]['title']}: {when}")
    won = graded(math.isfinite(ours) and margin * ours <= theirs for ours, theirs in zip(*ends))
    text = f"{100 * share:.0f} % above the optimum after {'; '.join(parts)}; "
    return won, text + f"won if {margin:g} times as fast, in epochs and in time"


@on_scores
def alike_at_the_end(
    results: Results, keys: Sequence[str], close: float, near: float | None = None, beside: Sequence[str] = ()
) -> Finding | None:
    """Whether the last scores of courses are within so many points; those ``beside`` them are said, not judged."""
    final = _final(results, [*beside, *keys])
    if final is None:
        return None
    judged = [final[key] for key in keys]
    return within(max(judged) - min(judged), close, near), listed(final)


@on_scores
def ends_are_worst(results: Results, keys: Sequence[str]) -> Finding | None:
    """Whether the first and the last of these courses have the lowest last scores."""
    final = _final(results, keys)
    if final is None:
        return None
    ends, others = [final[keys[0]], final[keys[-1]]], [final[key] for key in keys[1:-1]]
    return HOLDS if max(ends) < min(others) else FAILS, listed(final)


def _final(results: Results, keys: Sequence[str]) -> dict[str, float] | None:
    """Last scores in percent; None if a course is missing."""
    if not set(keys) <= set(results.courses):
        return None
    return {key: 100 * results.courses[key]["points"][-1]["score"] for key in keys}
