"""Time of a fit against sizes, of samples or of labels: figures with fitted exponents, and verdicts."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from multikernel.compare.results import mean
from multikernel_experiments.findings.curves import excess, exponent
from multikernel_experiments.findings.drawing import panels, plain, sizes_on_log_axes, style
from multikernel_experiments.findings.lines import values
from multikernel_experiments.findings.verdicts import Finding, complete, graded, listed
from multikernel_experiments.protocol import FAILS, HOLDS
from multikernel_experiments.results import Results

Families = Mapping[str, Mapping[str, int]]  # sizes by setting, by name of the data


def time_by_size(results: Results, figure: Any, families: Families) -> None:
    """Time of a fit against the number of training samples on log axes, and the exponents fitted to it."""
    shown = {
        name: {s: n for s, n in sizes.items() if s in results.protocol.settings} for name, sizes in families.items()
    }
    shown = {name: sizes for name, sizes in shown.items() if sizes}
    if not results.entries_done() or not shown:
        return
    for panel, (name, sizes) in zip(panels(figure, len(shown), (9.0, 4.5)), shown.items()):
        for k, entry in enumerate(results.entries_done()):
            seconds = [results.value("fit_seconds", entry.key, setting) for setting in sizes]
            slope = round(exponent(list(sizes.values()), seconds), 1) + 0.0  # no minus zero
            panel.plot(list(sizes.values()), seconds, label=f"{entry.title}: n^{slope:.1f}", **style(k))
        panel.set(title=name, xlabel="training samples", ylabel="time of a fit in seconds")
        sizes_on_log_axes(panel, list(sizes.values()))
        panel.legend(frameon=False, fontsize=8)
        plain(panel)


def time_by_labels(results: Results, figure: Any, labels: Mapping[str, int]) -> None:
    """Time of a fit to a gap of 1 % against the number of labels, with fitted exponents.

    Circles are around times that ``max_time`` ended.
    """
    entries = results.entries_done()
    if not entries:
        return
    axes = figure.add_subplot()
    for k, entry in enumerate(entries):
        done = [s for s in results.protocol.settings if results.records(s, entry.key)]
        counts, seconds = [labels[s] for s in done], [results.value("fit_seconds", entry.key, s) for s in done]
        slope = exponent(counts, seconds)
        axes.plot(counts, seconds, label=f"{entry.title}: labels^{slope:.2f}", **style(k))
        late = [s for s in done if not results.value("gaps", entry.key, s) <= entry.params.get("tol", 0.01)]
        at = [labels[s] for s in late], [results.value("fit_seconds", entry.key, s) for s in late]
        axes.plot(*at, linestyle="none", marker="o", markersize=10, fillstyle="none", color=style(k)["color"])
    axes.set(xlabel="labels", ylabel="time of a fit in seconds (○: not certified)")
    sizes_on_log_axes(axes, [labels[s] for s in results.protocol.settings])
    plain(axes)
    figure.legend(loc="outside upper center", ncols=2, frameon=False, fontsize=9)


def exponents(results: Results, key: str, families: Families) -> dict[str, float]:
    """Exponent of the time of a fit in the number of samples, for each data set."""
    found = {}
    for name, sizes in families.items():
        done = {s: n for s, n in sizes.items() if s in results.protocol.settings and results.scores(key, s)}
        found[name] = exponent(list(done.values()), [results.value("fit_seconds", key, s) for s in done])
    return {name: value for name, value in found.items() if math.isfinite(value)}


def time_is_linear(results: Results, key: str, families: Families, most: float = 1.2) -> Finding | None:
    """Whether the exponents of an entry are about 1 on all data sets, or on one; those of all entries are said."""
    slopes = {entry.key: exponents(results, entry.key, families) for entry in results.protocol.entries}
    if not all(slopes.values()):
        return None
    text = "; ".join(f"{e.title} {listed(slopes[e.key], '.2f', ' ')}" for e in results.protocol.entries)
    return graded(slope <= most for slope in slopes[key].values()), f"exponents: {text}"


def excess_is_steady(results: Results, key: str, oracle: str, families: Families) -> Finding | None:
    """Whether the objective is as far above its optimum at all sizes, within a factor of two or below 2 percent."""
    if not all(exponents(results, entry.key, families) for entry in results.protocol.entries):
        return None
    settings = [s for sizes in families.values() for s in sizes if s in results.protocol.settings]
    splits = range(results.protocol.n_splits)
    far = {s: 100 * mean([excess(results, key, s, split, oracle) for split in splits]) for s in settings}
    steady = max(far.values()) <= 2 * max(min(far.values()), 1.0)
    epochs = next(entry.params["max_iter"] for entry in results.protocol.entries if entry.key == key)
    text = f"objective above the optimum after {epochs} epochs, in percent: {listed(far)}"
    return HOLDS if steady else FAILS, text


def time_to_score(
    results: Results, key: str, sizes: Mapping[str, int], slack: float, most: float = 1.2
) -> Finding | None:
    """Whether the time until a line is within ``slack`` points of its last score has an exponent of about 1."""
    spent = {}
    for setting, n in sizes.items():
        if setting in results.protocol.settings:
            scores, seconds = (values(results, key, name, setting) for name in ("scores", "fit_seconds"))
            near = [t for score, t in zip(scores, seconds) if score >= scores[-1] - slack / 100]
            spent[n] = near[0] if near else math.nan
    slope = exponent(list(spent), list(spent.values()))
    if not math.isfinite(slope):
        return None
    text = f"seconds to within {slack:g} points of the last score: {listed(spent, '.2f')}; n^{slope:.2f}"
    return HOLDS if slope <= most else FAILS, text


def gains_with_size(results: Results, key: str, other: str, families: Families) -> Finding | None:
    """Whether the time of another entry, as a multiple of this one's, is larger at the last size than first."""
    found = {}
    for name, sizes in families.items():
        done = [
            s for s in sizes if s in results.protocol.settings and results.scores(key, s) and results.scores(other, s)
        ]
        found[name] = [results.value("fit_seconds", other, s) / results.value("fit_seconds", key, s) for s in done]
    if not all(len(ratios) > 1 for ratios in found.values()):
        return None
    text = "; ".join(f"{name}: " + ", ".join(f"{ratio:.2f}" for ratio in ratios) for name, ratios in found.items())
    return graded(ratios[-1] > ratios[0] for ratios in found.values()), f"time of {other} over that of {key}: {text}"


def grows_slower(results: Results, key: str, others: str, labels: Mapping[str, int]) -> Finding | None:
    """Whether an entry's time has a smaller exponent in the labels than those whose keys begin with ``others``."""
    seconds = _seconds(results)
    if seconds is None:
        return None
    counts = [labels[s] for s in results.protocol.settings]
    slopes = {name: exponent(counts, values) for name, values in seconds.items()}
    slower = [slopes[key] < slope - 0.1 for name, slope in slopes.items() if name.startswith(others)]
    return graded(slower), f"time ~ labels^e, e: {listed(slopes, '.2f', ' ')}"


def times_as_fast(results: Results, key: str, other: str, factor: float) -> Finding | None:
    """Whether another entry takes so many times as long in the last setting."""
    seconds = _seconds(results)
    if seconds is None:
        return None
    ratios = {name: values[-1] / seconds[key][-1] for name, values in seconds.items() if name != key}
    verdict = HOLDS if ratios[other] >= factor else FAILS
    return verdict, f"time as a multiple of the default's: {listed(ratios, '.1f', ' ')}"


def as_accurate(results: Results, key: str, other: str, points: float = 1.0) -> Finding | None:
    """Whether an entry is at most so many points behind another in the last setting."""
    if _seconds(results) is None:
        return None
    last = results.protocol.settings[-1]
    scores = {entry.key: 100 * results.score(entry.key, last) for entry in results.protocol.entries}
    lead = scores[key] - scores[other]
    verdict = HOLDS if lead >= -points else FAILS
    return verdict, f"{last}: {lead:+.1f} points; {listed(scores, '.1f', ' ')}"


def _seconds(results: Results) -> dict[str, list[float]] | None:
    """Times of fits by key, settings in order; None unless all entries have a score in the last one."""
    settings, keys = results.protocol.settings, [entry.key for entry in results.protocol.entries]
    if not complete(results) or not all(results.scores(key, settings[-1]) for key in keys):
        return None
    return {key: [results.value("fit_seconds", key, s) for s in settings] for key in keys}
