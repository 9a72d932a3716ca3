"""The diagram of mean ranks with the critical difference."""

from __future__ import annotations

from typing import Any

from multikernel.experiments.against import ranked
from multikernel.experiments.drawing import COLOURS
from multikernel.experiments.results import Results
from multikernel.experiments.significance import Ranking


def critical_difference(results: Results, figure: Any) -> None:
    """Mean ranks over data sets, best on the left; methods under one bar do not differ at the level of 5 percent."""
    found = ranked(results)
    if found is None:
        return
    titles = {entry.key: entry.title for entry in results.protocol.entries}
    half, groups = -(-len(found.ranks) // 2), found.groups()
    height = 1.5 + 0.28 * half + 0.14 * len(groups)
    figure.set_size_inches(9.0, height)
    axes = figure.add_subplot()
    worst = len(found.ranks)
    axes.set(xlim=(1 - 0.3 * worst, worst + 0.3 * worst), ylim=(-half - 0.5 * len(groups) - 0.8, 2.2))
    axes.axis("off")
    _scale(axes, found, worst)
    for k, keys in enumerate(groups):  # bars between the scale and the names
        ends = found.ranks[keys[0]], found.ranks[keys[-1]]
        axes.plot([ends[0] - 0.05, ends[1] + 0.05], [-0.45 - 0.4 * k] * 2, color="black", linewidth=3)
    first = -0.5 * len(groups) - 0.9
    ordered = list(found.ranks.items())
    for k, (key, rank) in enumerate(ordered):
        left = k < half
        row = first - (k if left else len(ordered) - 1 - k)
        edge = 0.7 if left else worst + 0.3
        axes.plot([rank, rank, edge], [0.0, row, row], color=COLOURS[0 if left else 1], linewidth=1)
        text = f"{titles[key]}  {rank:.1f}" if left else f"{rank:.1f}  {titles[key]}"
        axes.text(edge + (-0.1 if left else 0.1), row, text, ha="right" if left else "left", va="center")


def _scale(axes: Any, found: Ranking, worst: int) -> None:
    axes.plot([1, worst], [0, 0], color="black", linewidth=1)
    for rank in range(1, worst + 1):
        axes.plot([rank, rank], [0, 0.15], color="black", linewidth=1)
        axes.text(rank, 0.3, str(rank), ha="center", va="bottom", fontsize=8)
    axes.plot([1, 1 + found.critical_difference], [1.3, 1.3], color="black", linewidth=2)
    text = f"critical difference {found.critical_difference:.2f}; Friedman p = {found.p:.1g}"
    axes.text(1, 1.45, f"{text}; {found.n_settings} data sets", ha="left", va="bottom", fontsize=9)


def score_and_time(results: Results, figure: Any) -> None:
    """Mean rank against the mean time of a fit: the best methods are at the bottom, the fastest on the left."""
    found = ranked(results)
    if found is None:
        return
    from multikernel.experiments.drawing import plain

    axes = figure.add_subplot()
    titles = {entry.key: entry.title for entry in results.protocol.entries}
    for key, rank in found.ranks.items():
        seconds = results.value("fit_seconds", key)
        axes.plot(seconds, rank, "o", color=COLOURS[0], markersize=5)
        axes.annotate(titles[key], (seconds, rank), xytext=(5, 3), textcoords="offset points", fontsize=8)
    axes.set(xscale="log", xlabel="mean time of a fit in seconds", ylabel="mean rank of the score, 1 is best")
    axes.margins(x=0.2)
    plain(axes)
