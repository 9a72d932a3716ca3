"""Figures of scores: by method, setting, parameter and time; gains over a baseline; weights of kernels."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from multikernel_experiments.findings.drawing import COLOURS, MARKERS, plain, style
from multikernel_experiments.results import Results


def score_intervals(results: Results, figure: Any) -> None:
    """Score of each method: a dot for each split, a bar for the mean ± one deviation, a diamond where published."""
    (setting,) = results.protocol.settings
    entries = results.entries_done()
    if not entries:
        return
    axes = figure.add_subplot()
    for k, entry in enumerate(entries):
        scores = 100 * np.array(results.scores(entry.key, setting))
        half = 100 * results.spread(entry.key, setting)
        axes.errorbar(scores.mean(), k, xerr=np.nan_to_num(half), color=COLOURS[0], marker="o", capsize=3)
        axes.plot(scores, np.full(len(scores), k), ".", color=COLOURS[1], alpha=0.6, markersize=5)
        published = None if results.stand_in else _leading_number(entry.published)
        if published is not None:
            axes.plot(published, k, marker="D", color="black", fillstyle="none", linestyle="none")
    axes.set_yticks(range(len(entries)), [entry.title for entry in entries])
    axes.invert_yaxis()
    bars = "mean ± one deviation" if results.protocol.n_splits > 1 else "one split"
    axes.set_xlabel(f"{results.protocol.metric} in percent: {bars}; ◇ published")
    plain(axes)


def _leading_number(text: str) -> float | None:
    try:
        return float(text.split()[0])
    except (IndexError, ValueError):
        return None


def score_by_setting(results: Results, figure: Any) -> None:
    """Score of each method; bars are ± one deviation over splits, where there are several."""
    settings = results.protocol.settings
    entries = results.entries_done()
    if not entries:
        return
    axes = figure.add_subplot()
    for k, entry in enumerate(entries):
        scores = [100 * results.score(entry.key, setting) for setting in settings]
        half = [100 * results.spread(entry.key, setting) for setting in settings]
        shift = 0.05 * (k - (len(entries) - 1) / 2)  # bars side by side
        at = np.array([float(setting) for setting in settings]) + shift
        axes.errorbar(at, scores, yerr=np.nan_to_num(half), capsize=2, label=entry.title, **style(k))
    axes.set_xticks([float(setting) for setting in settings], list(settings))
    axes.set_xlabel(results.protocol.setting_title)
    axes.set_ylabel(f"{results.protocol.metric} in percent")
    plain(axes)
    figure.legend(loc="outside right upper", frameon=False)


def score_by_parameter(
    results: Results,
    figure: Any,
    values: Mapping[str, float],
    name: str,
    baselines: Sequence[str] = (),
    setting: str | None = None,
) -> None:
    """Score in a setting, the first by default, against a parameter, with baselines as horizontal lines."""
    setting = results.protocol.settings[0] if setting is None else setting
    if not any(results.scores(key, setting) for key in values):
        return
    axes = figure.add_subplot()
    titles = {entry.key: entry.title for entry in results.protocol.entries}
    done = [key for key in values if results.scores(key, setting)]
    scores = [100 * results.score(key, setting) for key in done]
    half = [100 * results.spread(key, setting) for key in done]
    axes.errorbar([values[key] for key in done], scores, yerr=np.nan_to_num(half), capsize=3, **style(0))
    for k, key in enumerate(baselines):
        if results.scores(key, setting):
            axes.axhline(100 * results.score(key, setting), color=COLOURS[k + 1], linestyle="--", label=titles[key])
    axes.set_xlabel(name)
    axes.set_ylabel(f"{results.protocol.metric} in percent")
    plain(axes)
    if baselines:
        axes.legend(frameon=False)


def gains_over_baseline(results: Results, figure: Any) -> None:
    """Score minus that of the first method, on the same splits: mean ± one standard error."""
    baseline, *others = results.protocol.entries
    settings = [s for s in results.protocol.settings if results.scores(baseline.key, s)]
    if not settings:
        return
    axes = figure.add_subplot()
    for k, entry in enumerate(others):
        found = [results.difference(entry.key, baseline.key, setting) for setting in settings]
        centre = [100 * mean for mean, _, _ in found]
        # ± one standard error of the mean difference
        half = [100 * deviation / math.sqrt(max(count, 1)) for _, deviation, count in found]
        at = np.arange(len(settings)) + 0.12 * (k - (len(others) - 1) / 2)
        bars = np.nan_to_num(half)
        axes.errorbar(centre, at, xerr=bars, linestyle="none", capsize=2, label=entry.title, **style(k))
    axes.axvline(0.0, color="black", linewidth=1)
    axes.set_yticks(range(len(settings)), settings)
    axes.invert_yaxis()
    axes.set_xlabel(f"{results.protocol.metric} minus that of {baseline.title}, in points; ± one standard error")
    plain(axes)
    figure.legend(loc="outside right upper", frameon=False)


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


def weight_panels(results: Results, figure: Any, setting: str, titles: Mapping[str, str]) -> None:
    """Shares of the kernels in a setting, the first one if it is not there: a panel for each entry, by key.

    Titles may name parameters that were chosen, as in ``"p = {p:.4g}"``.
    """
    setting = setting if setting in results.protocol.settings else results.protocol.settings[0]
    found = {key: results.records(setting, key) for key in titles}
    done = {key: records[0] for key, records in found.items() if records and records[0]["weights"]}
    if not done:
        return
    columns = min(len(done), 6)
    rows = -(-len(done) // columns)
    figure.set_size_inches(max(8.0, 1.7 * columns), 4.2 * rows)
    sides = figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False).ravel()
    for axes, (key, record) in zip(sides, done.items()):
        names = record["kernel_names"]
        axes.barh(range(len(names)), record["weights"][0], color=COLOURS[0])
        axes.set_yticks(range(len(names)), names)
        axes.set(title=titles[key].format(**record["parameters"][0]), xlabel="share")
        axes.spines[["top", "right"]].set_visible(False)
    sides[0].invert_yaxis()
