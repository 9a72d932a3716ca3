"""Scores against the share of missing entries: a figure, and verdicts on one way of dealing with them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from multikernel.compare.results import mean
from multikernel_experiments.findings.drawing import common_legend, panels, plain, style
from multikernel_experiments.findings.verdicts import Finding, graded, listed, on_scores
from multikernel_experiments.protocol import FAILS, HOLDS
from multikernel_experiments.results import Results

Shares = Mapping[str, Mapping[str, Mapping[str, float]]]  # share by setting, by kind of loss, by name of the data


def score_by_share(results: Results, figure: Any, shares: Shares) -> None:
    """Accuracy against the share of missing entries: full lines at random, broken lines by block."""
    done = {
        name: {kind: {s: x for s, x in at.items() if s in results.protocol.settings} for kind, at in kinds.items()}
        for name, kinds in shares.items()
    }
    done = {name: kinds for name, kinds in done.items() if any(kinds.values())}
    if not results.entries_done() or not done:
        return
    for panel, (name, kinds) in zip(panels(figure, len(done), (2.75 * len(done), 3.8)), done.items()):
        for line, (kind, at) in zip(("-", "--"), kinds.items()):
            for k, entry in enumerate(results.entries_done()):
                scores = [100 * results.score(entry.key, setting) for setting in at]
                panel.plot(
                    [100 * x for x in at.values()],
                    scores,
                    linestyle=line,
                    label=f"{entry.title}, {kind}",
                    **style(k),
                )
        panel.set(title=name, xlabel="missing entries in percent")
        plain(panel)
    figure.axes[0].set_ylabel(f"{results.protocol.metric} in percent")
    common_legend(figure, ncols=2, fontsize=8)


@on_scores
def never_behind(results: Results, key: str, other: str) -> Finding | None:
    """Whether an entry is at least as good as another in every setting that both have a score in."""
    leads = {s: 100 * results.difference(key, other, s)[0] for s in results.protocol.settings}
    leads = {setting: lead for setting, lead in leads.items() if math.isfinite(lead)}
    if not leads:
        return None
    behind = {setting: lead for setting, lead in leads.items() if lead < -1e-9}
    text = f"{mean(list(leads.values())):+.1f} points on average over {len(leads)} settings; behind in {len(behind)}"
    return graded(setting not in behind for setting in leads), text + (
        f": {listed(behind, '+.1f')}" if behind else ""
    )


@on_scores
def near_the_best(results: Results, key: str, points: float) -> Finding | None:
    """Whether an entry is within so many points of the best of each setting, on average over settings."""
    if not results.scores(key):
        return None
    keys = [entry.key for entry in results.entries_done()]
    lost = {}
    for setting in results.protocol.settings:
        found = [100 * results.score(k, setting) for k in keys]
        best = max(score for score in found if math.isfinite(score))
        lost[setting] = best - 100 * results.score(key, setting)
    worst = max(lost, key=lambda setting: lost[setting])
    average = mean(list(lost.values()))
    text = f"{average:.2f} points below the best on average, {lost[worst]:.1f} at worst ({worst})"
    return HOLDS if average <= points else FAILS, text
