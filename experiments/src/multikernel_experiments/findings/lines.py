"""Lines of entries, see :func:`multikernel_experiments.protocol.along`: longer and longer fits against time.

A point is the mean over splits; objectives are held against the best lower bound proved on the same split.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from multikernel.compare.results import mean
from multikernel.compare.table import seconds as in_words
from multikernel_experiments.findings.curves import first_reach
from multikernel_experiments.findings.drawing import COLOURS, common_legend, panels, plain, style
from multikernel_experiments.findings.verdicts import Finding, graded, listed, on_scores, within
from multikernel_experiments.protocol import FAILS, HOLDS, UNDECIDED, Entry
from multikernel_experiments.results import Results
from multikernel_experiments.tables import Table

Keys = Sequence[str]
# Share of the weights from which a kernel has a line of its own.
SHOWN = 0.05


def points(results: Results, key: str) -> list[Entry]:
    """Entries of a line, in order; the entry of that key where it is no line."""
    return [entry for entry in results.protocol.entries if (entry.line or entry.key) == key]


def title(results: Results, key: str) -> str:
    """What a line is called: the title of its first point without the value."""
    return points(results, key)[0].title.partition(", max_iter")[0]


def values(results: Results, key: str, name: str, setting: str, split: int | None = None) -> list[float]:
    """A number, such as ``scores``, ``fit_seconds`` or ``n_svms``, of every point; over splits, or of one."""
    found = []
    for entry in points(results, key):
        records = [results.cells.get((setting, s, entry.key)) for s in _splits(results, split)]
        numbers = [np.atleast_1d(r[name])[0] for r in records if r and np.size(r.get(name, ()))]
        found.append(mean([float(number) for number in numbers]))
    return found


def bound(results: Results, keys: Keys, setting: str, split: int) -> float:
    """The best lower bound that any point of these lines proves on a split."""
    found = [-math.inf]
    for key in keys:
        for entry in points(results, key):
            record = results.cells.get((setting, split, entry.key))
            if record and record.get("objectives") and math.isfinite(record["gaps"][0]):
                found.append(record["objectives"][0] * (1.0 - record["gaps"][0]))
    return max(found)


def excesses(results: Results, key: str, keys: Keys, setting: str, split: int | None = None) -> list[float]:
    """Objective of every point above the bound that lines of the same problem prove, as a share; mean over splits."""
    each = []
    for s in _splits(results, split):
        least, objectives = bound(results, keys, setting, s), values(results, key, "objectives", setting, s)
        if math.isfinite(least):
            each.append([max(value - least, 1e-12) / abs(least) for value in objectives])
    return [mean([v for v in column if math.isfinite(v)]) for column in zip(*each)]


def _splits(results: Results, split: int | None) -> Sequence[int]:
    return range(results.protocol.n_splits) if split is None else [split]


def line_table(results: Results, keys: Keys, name: str = "max_iter") -> list[tuple[str, Table]]:
    """Score, and the time of the fit, along each line; a row for each setting and line."""
    heads = ["line", *dict.fromkeys(f"{entry.params[name]:g}" for key in keys for entry in points(results, key))]
    rows = []
    for setting in results.protocol.settings:
        for key in keys:
            shown = dict.fromkeys(heads[1:], "")
            found = zip(*(values(results, key, what, setting) for what in ("scores", "fit_seconds")))
            for entry, (score, spent) in zip(points(results, key), found):
                if math.isfinite(score):
                    shown[f"{entry.params[name]:g}"] = f"{100 * score:.1f} ({in_words(spent)})"
            if any(shown.values()):
                where = f"{setting}: " if len(results.protocol.settings) > 1 else ""
                rows.append([where + title(results, key), *shown.values()])
    what = f"{results.protocol.metric.capitalize()} in percent, and time of the fit, by {name}"
    return [(what, (heads, rows))] if rows else []


def against_time(
    results: Results,
    figure: Any,
    problems: Mapping[str, Keys],
    beside: Keys = (),
    objective: bool = True,
    pairs: bool = False,
) -> None:
    """Objective above the best lower bound of its problem, and score, against the time of longer and longer fits.

    Lines by the problem that they solve; a row of panels for each setting, without the left one if not
    ``objective``. Entries ``beside`` are single dots. With ``pairs`` colours begin again with each problem.
    """
    settings = [
        s for s in results.protocol.settings if any(_done(results, k, s) for ks in problems.values() for k in ks)
    ]
    if not settings:
        return
    figure.set_size_inches(9.5 if objective else 6.5, 3.6 * len(settings) + 1.0)
    grid = figure.subplots(len(settings), 1 + objective, squeeze=False)
    order = [(j if pairs else None, key, keys) for keys in problems.values() for j, key in enumerate(keys)]
    for row, setting in zip(grid, settings):
        for k, (colour, key, keys) in enumerate(order):
            spent = values(results, key, "fit_seconds", setting)
            look = {
                **style(k if colour is None else colour),
                "label": title(results, key),
                "linestyle": "--" if "online" in key else "-",
            }
            row[-1].plot(spent, [100 * v for v in values(results, key, "scores", setting)], **look)
            if objective:
                far = excesses(results, key, keys, setting)
                row[0].plot(spent[: len(far)], far, **look)
        for k, key in enumerate(beside, start=len(order)):
            at = results.value("fit_seconds", key, setting), 100 * results.score(key, setting)
            row[-1].plot(*at, label=title(results, key), linestyle="none", **{**style(k), "markersize": 8})
        where = f"{setting}: " if len(results.protocol.settings) > 1 else ""
        row[-1].set(
            xscale="log", xlabel="time of the fit in seconds", ylabel=f"test {results.protocol.metric} in percent"
        )
        row[-1].set_title(f"{where}score", fontsize=10)
        if objective:
            row[0].set(xscale="log", yscale="log", xlabel="time of the fit in seconds", ylabel="above the best bound")
            row[0].set_title(f"{where}objective", fontsize=10)
        for axes in row:
            plain(axes)
    common_legend(figure, ncols=4, fontsize=8)


def weights_against_time(results: Results, figure: Any, keys: Keys, setting: str) -> None:
    """Score and kernel weights of longer and longer fits, kernels above 5 % at some time; means over splits."""
    setting = setting if setting in results.protocol.settings else results.protocol.settings[0]
    keys = [key for key in keys if _done(results, key, setting)]
    if not keys:
        return
    figure.set_size_inches(2.4 * len(keys) + 1.0, 7.5)
    grid = figure.add_gridspec(2, len(keys), height_ratios=[1.2, 1.0])
    top, first = figure.add_subplot(grid[0, :]), None
    names = next(iter(results.records(setting, points(results, keys[0])[0].key)))["kernel_names"]
    shares = {key: np.array([_weights(results, entry, setting) for entry in points(results, key)]) for key in keys}
    shown = np.flatnonzero(np.max([weights.max(axis=0) for weights in shares.values()], axis=0) >= SHOWN)
    for k, key in enumerate(keys):
        spent = values(results, key, "fit_seconds", setting)
        top.plot(
            spent, [100 * v for v in values(results, key, "scores", setting)], label=title(results, key), **style(k)
        )
        axes = first = figure.add_subplot(grid[1, k], sharey=first, sharex=top)
        for turn, j in enumerate(shown):
            again, colour = divmod(turn, len(COLOURS))
            look = {"color": COLOURS[colour], "linestyle": ("-", "--", ":")[again % 3], "marker": "."}
            axes.plot(spent, shares[key][:, j], label=names[j], **look)
        axes.set(xscale="log", xlabel="seconds")
        axes.tick_params(axis="x", which="minor", labelbottom=False)  # no room
        axes.set_title(title(results, key), fontsize=9)
        plain(axes)
    figure.legend(*axes.get_legend_handles_labels(), loc="outside lower center", ncols=6, frameon=False, fontsize=8)
    top.set(xscale="log", xlabel="time of the fit in seconds", ylabel=f"test {results.protocol.metric} in percent")
    top.legend(frameon=False, fontsize=8)
    plain(top)


def _weights(results: Results, entry: Entry, setting: str) -> np.ndarray:
    return np.mean([record["weights"][0] for record in results.records(setting, entry.key)], axis=0)


def scores_by_budget(results: Results, figure: Any, families: Mapping[str, Keys], name: str = "SVMs") -> None:
    """Score along lines against their parameter, mean ± one standard error over splits; a panel for each family."""
    (setting,) = results.protocol.settings
    shown = {family: [key for key in keys if _done(results, key, setting)] for family, keys in families.items()}
    if not any(shown.values()):
        return
    for axes, (family, keys) in zip(panels(figure, len(shown), (9.0, 4.5), sharey=True), shown.items()):
        for c, key in enumerate(keys):
            entries = points(results, key)
            at, scores = (
                [e.params["max_iter"] for e in entries],
                [100 * results.score(e.key, setting) for e in entries],
            )
            error = [100 * results.spread(e.key, setting) / math.sqrt(results.protocol.n_splits) for e in entries]
            axes.errorbar(at, scores, yerr=np.nan_to_num(error), capsize=2, label=title(results, key), **style(c))
        axes.set(title=family, xscale="log", xlabel=name, ylabel=f"test {results.protocol.metric} in percent")
        axes.tick_params(labelleft=True)
        axes.legend(frameon=False)
        plain(axes)


def _done(results: Results, key: str, setting: str) -> bool:
    entries = points(results, key)
    return bool(entries) and all(results.scores(entry.key, setting) for entry in entries)


def race(results: Results, key: str, rival: str, problem: Keys, margin: float = 2.0) -> Finding | None:
    """Whether a line gets as near to the optimum as another ever does, ``margin`` times as fast.

    In every setting, in iterations and in time, means over splits: budgets are coarse and clocks are noisy.
    """
    found, parts = [], []
    for setting in results.protocol.settings:
        if not _done(results, key, setting) or not _done(results, rival, setting):
            return None
        far, other = (excesses(results, name, problem, setting) for name in (key, rival))
        goal = min(other)
        ends = []
        for name, way in ((key, far), (rival, other)):
            budgets = [float(entry.params["max_iter"]) for entry in points(results, name)]
            axes = budgets, values(results, name, "fit_seconds", setting)
            ends.append([first_reach(axis, way, goal) for axis in axes])
        found += [math.isfinite(ours) and margin * ours <= theirs for ours, theirs in zip(*ends)]
        when = [f"{e:.0f} epochs, {s:.2f} s" if math.isfinite(e) else "never" for e, s in ends]
        ratios = f"in the end × {1 + far[-1]:.3g} and × {1 + other[-1]:.3g} of the optimum"
        parts.append(f"{setting}, × {1 + goal:.3g}: {when[0]} against {when[1]}, {ratios}")
    text = f"{title(results, key)} as near as {title(results, rival)} comes: "
    return graded(found), text + "; ".join(parts) + f"; won if {margin:g} times as fast, in epochs and in time"


@on_scores
def alike_at_the_end(
    results: Results, keys: Keys, close: float, near: float | None = None, beside: Keys = ()
) -> Finding | None:
    """Whether the last scores of lines are within so many points; those ``beside`` them are said, not judged."""
    final = _final(results, [*beside, *keys])
    if final is None:
        return None
    judged = [final[key] for key in keys]
    return within(max(judged) - min(judged), close, near), listed(final)


@on_scores
def ends_are_worst(results: Results, keys: Keys) -> Finding | None:
    """Whether the first and the last of these lines have the lowest last scores, by more than two standard errors."""
    final = _final(results, keys)
    if final is None:
        return None
    (setting,) = results.protocol.settings
    last = [points(results, key)[-1].key for key in keys]
    scores = np.array([results.scores(key, setting) for key in last])
    if len({len(row) for row in map(np.atleast_1d, scores)}) > 1 or scores.shape[1] < 2:
        return UNDECIDED, listed(final)
    lead = 100 * (scores[1:-1].min(axis=0) - scores[[0, -1]].max(axis=0))  # of the worst inside over the best end
    error = float(lead.std(ddof=1)) / math.sqrt(len(lead))
    held = HOLDS if lead.mean() > 2 * error else FAILS if lead.mean() < -2 * error else UNDECIDED
    return held, f"{listed(final)}; the worst inside over the better end {lead.mean():+.1f} ± {error:.1f}"


def _final(results: Results, keys: Keys) -> dict[str, float] | None:
    """Last scores in percent; None if a line is missing."""
    (setting,) = results.protocol.settings
    if not all(_done(results, key, setting) for key in keys):
        return None
    return {key: 100 * results.score(points(results, key)[-1].key, setting) for key in keys}


@on_scores
def near_the_end(results: Results, key: str, other: str, faster: float, slack: float = 2.0) -> Finding | None:
    """Whether a line gets within ``slack`` points of the best score of another, in a ``faster``-th of its time.

    That is the time until the other is within half a point of its best: how much longer it was run does not count.
    """
    found, parts = [], []
    for setting in results.protocol.settings:
        if not _done(results, key, setting) or not _done(results, other, setting):
            return None
        scores, spent = (values(results, key, name, setting) for name in ("scores", "fit_seconds"))
        others = values(results, other, "scores", setting)
        goal = max(others)
        there = next(k for k, score in enumerate(others) if score >= goal - 0.005)
        whole = values(results, other, "fit_seconds", setting)[there]
        near = [t for score, t in zip(scores, spent) if score >= goal - slack / 100]
        found.append(bool(near) and faster * near[0] <= whole)
        when = f"after {in_words(near[0])}" if near else f"never (best {100 * max(scores):.1f})"
        parts.append(f"{setting}: {when} of {in_words(whole)}, until it is at its best, {100 * goal:.1f}")
    text = f"{title(results, key)} within {slack:g} points of {title(results, other)}: "
    return graded(found), text + "; ".join(parts)


def cheaper_than(results: Results, key: str, other: str, share: float = 0.01) -> Finding | None:
    """Whether a line needs fewer SVMs and less time than another until its score stays at what both reach.

    The same stop for both: the first point from which on scores are not ``share`` below the lower of the last two.
    """
    found, parts = [], []
    for setting in results.protocol.settings:
        if not _done(results, key, setting) or not _done(results, other, setting):
            continue
        costs, ways = [], {name: np.array(values(results, name, "scores", setting)) for name in (key, other)}
        goal = min(scores[-1] for scores in ways.values()) - share
        for name, scores in ways.items():
            far = np.flatnonzero(scores < goal)
            at = int(far[-1]) + 1 if len(far) else 0
            costs.append([values(results, name, what, setting)[at] for what in ("n_svms", "fit_seconds")])
        ours, theirs = costs
        found += [a < b for a, b in zip(ours, theirs)]
        parts.append(
            f"{setting}, {100 * goal:.1f}: {ours[0]:.0f} against {theirs[0]:.0f} SVMs, {ours[1]:.2f} against "
            f"{theirs[1]:.2f} s"
        )
    if not parts:
        return None
    return graded(found), f"until the score stays within {100 * share:.0f} point of what both reach: " + "; ".join(
        parts
    )
