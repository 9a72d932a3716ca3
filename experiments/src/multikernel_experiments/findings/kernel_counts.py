"""Scores and kernels against t: figures, and verdicts on where the best t is."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from multikernel_experiments.findings.drawing import COLOURS, common_legend, panels, plain, style
from multikernel_experiments.findings.sparsity import scores_along_t, used_along_t
from multikernel_experiments.findings.verdicts import Finding, graded
from multikernel_experiments.results import Results

Titles = Mapping[str, str]  # by key


def draw_along_t(results: Results, axes: Any, lines: Titles, ts: Sequence[int], settings: Sequence[str]) -> None:
    """Mean score against t ± one standard error."""
    for k, (key, title) in enumerate(lines.items()):
        scores = 100 * scores_along_t(results, key, ts, settings)
        if scores.shape[1]:
            error = scores.std(axis=1, ddof=1) / math.sqrt(scores.shape[1]) if scores.shape[1] > 1 else None
            label = f"{title}, mean of {scores.shape[1]}"  # not all lines have as many problems
            axes.errorbar(ts, scores.mean(axis=1), yerr=error, capsize=2, label=label, **style(k))
    axes.set(xlabel="t", ylabel=f"{results.protocol.metric} in percent", xticks=ts)
    plain(axes)


def draw_levels(results: Results, axes: Any, levels: Titles, settings: Sequence[str]) -> None:
    """Mean scores of entries without t, as horizontal lines."""
    for k, (key, title) in enumerate(levels.items()):
        scores = [score for setting in settings for score in results.scores(key, setting)]
        if scores:
            axes.axhline(100 * np.mean(scores), color=COLOURS[-1 - k], linestyle="--", label=title)


def score_against_t(
    results: Results, figure: Any, lines: Titles, levels: Titles, ts: Sequence[int], panel_titles: Titles
) -> None:
    """Accuracy against t for each choice of widths, mean ± one standard error over seeds.

    A panel for each setting in which the first line was done.
    """
    settings = [s for s in results.protocol.settings if scores_along_t(results, next(iter(lines)), ts, [s]).size]
    if not settings:
        return
    for axes, setting in zip(panels(figure, len(settings), (3.6 * len(settings) + 1.5, 4.2)), settings):
        draw_along_t(results, axes, lines, ts, [setting])
        draw_levels(results, axes, levels, [setting])
        axes.set_title(panel_titles[setting], fontsize=10)
    common_legend(figure, ncols=3)


def kernels_against_t(results: Results, figure: Any, lines: Titles, ts: Sequence[int]) -> None:
    """Kernels with a weight against t, mean over seeds; dotted: t itself."""
    settings = results.protocol.settings
    if not scores_along_t(results, next(iter(lines)), ts, settings).size:
        return
    axes = figure.add_subplot()
    for k, (key, title) in enumerate(lines.items()):
        axes.plot(ts, used_along_t(results, key, ts, settings), label=title, **style(k))
    axes.plot(ts, ts, ":", color="black")
    axes.set(xlabel="t", ylabel="kernels with a weight")
    plain(axes)
    axes.legend(frameon=False)


def best_inside(results: Results, key: str, ts: Sequence[int]) -> Finding | None:
    """Whether a t between the ends is better than both, by more than two standard errors, in every setting."""
    found, parts = [], []
    for setting in results.protocol.settings:
        scores = 100 * scores_along_t(results, key, ts, [setting])
        if scores.shape[1] < 2:  # one split has no error to judge by
            continue
        best = int(scores.mean(axis=1).argmax())
        end = int(scores[[0, -1]].mean(axis=1).argmax())
        lead = scores[best] - scores[[0, -1]][end]
        error = float(lead.std(ddof=1)) / math.sqrt(len(lead))
        found.append(0 < best < len(ts) - 1 and float(lead.mean()) > 2 * error)
        parts.append(
            f"{setting}: best t = {ts[best]} ({scores[best].mean():.2f}), t = {ts[0]} {scores[0].mean():.2f}, "
            f"t = {ts[-1]} {scores[-1].mean():.2f}, lead {lead.mean():+.2f} ± {error:.2f}"
        )
    return (graded(found), "; ".join(parts)) if found else None
