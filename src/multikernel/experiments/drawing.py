"""Figures of experiments, drawn with matplotlib on a figure that is given."""

from __future__ import annotations

import io
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from multikernel.experiments.results import Results

COLOURS = ("#2f5fd0", "#c2571a", "#1d8a5f", "#a43a86", "#8a6d00", "#0b8296", "#6a4bc4", "#7a5548")
MARKERS = "os^Dv<>P"


def render(draw: Callable[[Results, Any], None], results: Results, dpi: int = 150) -> dict[str, bytes] | None:
    """The figure as ``{"png": …, "svg": …}``; None if there was nothing to draw."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    # text stays text, and the same results give the same bytes
    with rc_context({"svg.fonttype": "none", "svg.hashsalt": "multikernel", "font.size": 10}):
        figure = Figure(figsize=(8.0, 4.5), layout="constrained")
        draw(results, figure)
        if not figure.axes:
            return None
        written = {}
        for kind, options in (("png", {"dpi": dpi}), ("svg", {"metadata": {"Date": None}})):
            stream = io.BytesIO()
            figure.savefig(stream, format=kind, **options)  # type: ignore[arg-type]
            written[kind] = stream.getvalue()
        return written


def style(k: int) -> dict[str, Any]:
    """Colour and marker of line k."""
    return {"color": COLOURS[k % len(COLOURS)], "marker": MARKERS[k % len(MARKERS)], "markersize": 4}


def plain(axes: Any) -> None:
    """Without a frame, with a faint grid."""
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(alpha=0.3)
    axes.set_axisbelow(True)


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
        axes.errorbar(scores.mean(), k, xerr=half, color=COLOURS[0], marker="o", capsize=3)
        axes.plot(scores, np.full(len(scores), k), ".", color=COLOURS[1], alpha=0.6, markersize=5)
        published = None if results.stand_in else _leading_number(entry.published)
        if published is not None:
            axes.plot(published, k, marker="D", color="black", fillstyle="none", linestyle="none")
    axes.set_yticks(range(len(entries)), [entry.title for entry in entries])
    axes.invert_yaxis()
    axes.set_xlabel(f"{results.protocol.metric} in percent: mean ± one deviation; ◇ published")
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
        several = results.protocol.n_splits > 1
        half = [100 * results.spread(entry.key, setting) if several else 0.0 for setting in settings]
        shift = 0.05 * (k - (len(entries) - 1) / 2)  # bars side by side
        at = np.array([float(setting) for setting in settings]) + shift
        axes.errorbar(at, scores, yerr=np.nan_to_num(half), capsize=2, label=entry.title, **style(k))
    axes.set_xticks([float(setting) for setting in settings], list(settings))
    axes.set_xlabel(results.protocol.setting_title)
    axes.set_ylabel(f"{results.protocol.metric} in percent")
    plain(axes)
    figure.legend(loc="outside right upper", frameon=False)


def along(results: Results, axes: Any, values: Mapping[str, float], name: str, baselines: Sequence[str] = ()) -> None:
    """Score in the only setting against a parameter, with baselines as horizontal lines."""
    (setting,) = results.protocol.settings
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


def against_time(results: Results, figure: Any) -> None:
    """Objective above the best lower bound of its problem, and score, against the time of longer and longer fits."""
    lines = [(line, results.courses[line.key]) for line in results.protocol.course if line.key in results.courses]
    if not lines:
        return
    figure.set_size_inches(9.0, 4.8)
    bounds: dict[str, float] = {}
    for line, record in lines:
        found = [p["bound"] for p in record["points"] if math.isfinite(p["bound"])]
        bounds[line.problem] = max([bounds.get(line.problem, -math.inf), *found])
    left, right = figure.subplots(1, 2)
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


def weight_panels(results: Results, figure: Any, setting: str, titles: Mapping[str, str]) -> None:
    """Shares of the kernels in a setting, the first one if it is not there: a panel for each entry, by key.

    Titles may name parameters that were chosen, as in ``"p = {p:.4g}"``.
    """
    setting = setting if setting in results.protocol.settings else results.protocol.settings[0]
    found = {key: results.records(setting, key) for key in titles}
    done = {key: records[0] for key, records in found.items() if records and records[0]["weights"]}
    if not done:
        return
    panels = np.atleast_1d(figure.subplots(1, len(done), sharex=True, sharey=True))
    for axes, (key, record) in zip(panels, done.items()):
        names = record["kernel_names"]
        axes.barh(range(len(names)), record["weights"][0], color=COLOURS[0])
        axes.set_yticks(range(len(names)), names)
        axes.set(title=titles[key].format(**record["parameters"][0]), xlabel="share")
        axes.spines[["top", "right"]].set_visible(False)
    panels[0].invert_yaxis()
