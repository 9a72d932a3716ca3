"""Figures of experiments with many labels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from multikernel.experiments.curves import exponent
from multikernel.experiments.drawing import COLOURS, plain, style
from multikernel.experiments.results import Results

# Share of the weights from which a kernel has a line of its own.
SHOWN = 0.05
DASHES = ("-", "--", ":")


def scores_and_weights_against_time(results: Results, figure: Any) -> None:
    """Score of longer and longer fits against their time, and below, for each method, the weights of its kernels."""
    lines = [(line, results.courses[line.key]) for line in results.protocol.course if line.key in results.courses]
    if not lines:
        return
    figure.set_size_inches(10.0, 7.5)
    grid = figure.add_gridspec(2, len(lines), height_ratios=[1.2, 1.0])
    top = figure.add_subplot(grid[0, :])
    names = next(iter(results.cells.values()))["kernel_names"]
    shares = {line.key: np.array([point["weights"] for point in record["points"]]) for line, record in lines}
    shown = np.flatnonzero(np.max([weights.max(axis=0) for weights in shares.values()], axis=0) >= SHOWN)
    first = None
    for k, (line, record) in enumerate(lines):
        seconds = [point["seconds"] for point in record["points"]]
        top.plot(seconds, [100 * point["score"] for point in record["points"]], label=line.title, **style(k))
        axes = first = figure.add_subplot(grid[1, k], sharey=first)
        for colour, j in enumerate(shown):
            axes.plot(
                seconds, shares[line.key][:, j], color=COLOURS[colour % len(COLOURS)], label=names[j], marker="."
            )
        axes.set(title=line.title, xscale="log", xlabel="seconds")
        axes.title.set_fontsize(9)
        plain(axes)
        if k == 0:
            axes.set_ylabel("weight")
        if k == len(lines) - 1:
            axes.legend(frameon=False, fontsize=7)
    top.set(xscale="log", xlabel="time of the fit in seconds", ylabel=f"test {results.protocol.metric} in percent")
    top.legend(frameon=False, fontsize=9)
    plain(top)


def time_by_labels(results: Results, figure: Any, labels: Mapping[str, int]) -> None:
    """Time of a fit against the number of labels, with fitted exponents; hollow where max_time ended it."""
    entries = results.entries_done()
    if not entries:
        return
    axes = figure.add_subplot()
    for k, entry in enumerate(entries):
        done = [s for s in results.protocol.settings if results.records(s, entry.key)]
        counts, seconds = [labels[s] for s in done], [results.value("fit_seconds", entry.key, s) for s in done]
        slope = exponent(counts, seconds)
        axes.plot(counts, seconds, label=f"{entry.title}: labels^{slope:.2f}", **style(k))
        late = [s for s in done if results.value("gaps", entry.key, s) > entry.params["tol"]]
        at = [labels[s] for s in late], [results.value("fit_seconds", entry.key, s) for s in late]
        axes.plot(*at, linestyle="none", marker="o", markersize=10, fillstyle="none", color=style(k)["color"])
    axes.set(xscale="log", yscale="log", xlabel="labels", ylabel="time of a fit in seconds (○: not certified)")
    counts = [labels[s] for s in results.protocol.settings]
    axes.set_xticks(counts, [str(count) for count in counts])
    axes.minorticks_off()
    plain(axes)
    figure.legend(loc="outside upper center", ncols=2, frameon=False, fontsize=9)


def scores_by_budget(results: Results, figure: Any, panels: Mapping[str, Sequence[str]]) -> None:
    """Score against the number of SVMs, a panel for each family of courses."""
    shown = {title: [key for key in keys if key in results.courses] for title, keys in panels.items()}
    if not any(shown.values()):
        return
    figure.set_size_inches(9.0, 4.5)
    titles = {course.key: course.title for course in results.protocol.course}
    first = None
    for k, (title, keys) in enumerate(shown.items()):
        axes = first = figure.add_subplot(1, len(shown), k + 1, sharey=first)
        for c, key in enumerate(keys):
            points = results.courses[key]["points"]
            budgets, scores = [p["max_iter"] for p in points], [100 * p["score"] for p in points]
            axes.plot(budgets, scores, label=titles[key], **style(c))
        axes.set(title=title, xscale="log", xlabel="SVMs", ylabel=f"test {results.protocol.metric} in percent")
        axes.legend(frameon=False)
        plain(axes)
