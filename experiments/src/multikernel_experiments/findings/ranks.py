"""Mean ranks over data sets: the diagram with the critical difference, ranks against time, and a verdict."""

from __future__ import annotations

import math
from typing import Any

from multikernel_experiments.findings.against import over_settings, ranked
from multikernel_experiments.findings.drawing import COLOURS, plain
from multikernel_experiments.findings.significance import Ranking, holm
from multikernel_experiments.findings.verdicts import Finding
from multikernel_experiments.protocol import FAILS, HOLDS, IN_PART
from multikernel_experiments.results import Results


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
    axes = figure.add_subplot()
    titles = {entry.key: entry.title for entry in results.protocol.entries}
    for key, rank in found.ranks.items():
        seconds = results.value("fit_seconds", key)
        axes.plot(seconds, rank, "o", color=COLOURS[0], markersize=5)
        axes.annotate(titles[key], (seconds, rank), xytext=(5, 3), textcoords="offset points", fontsize=8)
    axes.set(xscale="log", xlabel="mean time of a fit in seconds", ylabel="mean rank of the score, 1 is best")
    axes.margins(x=0.2)
    plain(axes)


def hard_to_beat(results: Results, key: str) -> Finding | None:
    """Whether no entry is significantly better than this one, and the best mean rank is not critically ahead."""
    found = ranked(results)
    if found is None:
        return None
    titles = {entry.key: entry.title for entry in results.protocol.entries}
    beaten = {other: over_settings(results, other, key) for other in found.ranks if other != key}
    corrected = holm({other: test[3] for other, test in beaten.items()})
    better = [other for other, test in beaten.items() if corrected[other] < 0.05 and test[0] > test[2]]
    first, rank = next(iter(found.ranks)), found.ranks.get(key, math.nan)
    lead = rank - found.ranks[first]
    text = f"mean rank {rank:.1f} of {len(found.ranks)}; significantly better "
    text += f"(sign test, corrected): {', '.join(titles[other] for other in better) or 'none'}"
    text += f"; the best rank is that of {titles[first]}, {lead:.1f} ahead (critical {found.critical_difference:.1f})"
    return HOLDS if not better and lead <= found.critical_difference else IN_PART if not better else FAILS, text
