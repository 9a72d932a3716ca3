"""Verdicts on one kernel for many labels, setting by setting."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from multikernel_experiments.findings.drawing import common_legend, panels, plain, style
from multikernel_experiments.findings.verdicts import Finding, graded, listed
from multikernel_experiments.results import Results


def level_with(results: Results, key: str, other: str, points: float = 1.0) -> Finding | None:
    """Whether two entries are within so many points in every setting that has both."""
    leads = {s: 100 * (results.score(key, s) - results.score(other, s)) for s in _both(results, key, other)}
    return (graded(abs(lead) <= points for lead in leads.values()), listed(leads, "+.1f")) if leads else None


def at_least_as_good(results: Results, key: str, others: Sequence[str], beside: str) -> Finding | None:
    """Whether an entry is not behind any of the others that were run, in settings that have the one ``beside`` it.

    Behind is half a point or more: scores are published in whole points.
    """
    leads = {
        s: {o: 100 * (results.score(key, s) - results.score(o, s)) for o in others if results.scores(o, s)}
        for s in _both(results, key, beside)
    }
    found = graded(lead > -0.5 for each in leads.values() for lead in each.values())
    text = "; ".join(f"{s}: {listed(each, '+.1f', ' ')}" for s, each in leads.items())
    return (found, f"points ahead, {text}") if leads else None


def time_and_score_bars(results: Results, figure: Any) -> None:
    """Score and training time of each method, settings in panels; means over splits."""
    settings = [s for s in results.protocol.settings if results.scores(results.protocol.in_tables[0].key, s)]
    if not settings:
        return
    for axes, setting in zip(panels(figure, len(settings), (3.2 * len(settings) + 1.0, 4.4)), settings):
        for k, entry in enumerate(e for e in results.entries_done() if results.scores(e.key, setting)):
            at = results.value("fit_seconds", entry.key, setting), 100 * results.score(entry.key, setting)
            axes.plot(*at, linestyle="none", label=entry.title, **{**style(k), "markersize": 7})
        axes.set(xscale="log", xlabel="time of a fit in seconds", ylabel=f"{results.protocol.metric} in percent")
        axes.set_title(setting, fontsize=10)
        plain(axes)
    common_legend(figure, ncols=4, fontsize=8)


def _both(results: Results, key: str, other: str) -> list[str]:
    return [s for s in results.protocol.settings if results.scores(key, s) and results.scores(other, s)]
