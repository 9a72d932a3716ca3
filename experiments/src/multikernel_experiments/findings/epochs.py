"""Objective and score after a number of epochs, an entry for each number: figures and verdicts."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import numpy as np

from multikernel_experiments.findings.curves import excess, exponent, first_reach
from multikernel_experiments.findings.drawing import panels, plain, style
from multikernel_experiments.findings.verdicts import Finding, graded, listed
from multikernel_experiments.protocol import FAILS, HOLDS, IN_PART, UNDECIDED
from multikernel_experiments.results import Results

Budgets = Mapping[str, int]  # epochs by key of the entry, the longest last


def excess_by_budget(results: Results, figure: Any, budgets: Budgets, oracle: str, label: str = "kernels") -> None:
    """Objective above its optimum, and accuracy, against epochs, for kernels drawn at random; means over draws.

    A line for each setting; ``budgets`` are epochs by key, ``oracle`` is the entry that proves the optimum.
    """
    settings = [s for s in results.protocol.settings if results.scores(oracle, s)]
    if not settings:
        return
    left, right = panels(figure, 2, (9.0, 4.5))
    for k, setting in enumerate(settings):
        splits = range(results.protocol.n_splits)
        far = [np.nanmean([excess(results, key, setting, s, oracle) for s in splits]) for key in budgets]
        left.plot(list(budgets.values()), far, label=f"{setting} {label}", **style(k))
        score = [100 * results.score(key, setting) for key in budgets]
        right.plot(list(budgets.values()), score, **style(k))
        right.axhline(100 * results.score(oracle, setting), color=style(k)["color"], linestyle=":", linewidth=1)
    left.set(xscale="log", yscale="log", xlabel="epochs", ylabel="objective above the optimum, as a share")
    right.set(xscale="log", xlabel="epochs", ylabel=f"test {results.protocol.metric} in percent (dotted: optimum)")
    plain(left)
    plain(right)
    figure.legend(loc="outside upper center", ncols=5, frameon=False)


def epochs_to_score(results: Results, setting: str, budgets: Budgets, goal: float) -> float:
    """Epochs until the mean score over splits is that."""
    errors = [1.0 - results.score(key, setting) for key in budgets]
    return first_reach(list(budgets.values()), errors, 1.0 - goal)


def fewer_to_a_score(results: Results, budgets: Budgets, oracle: str, slack: float) -> Finding | None:
    """Whether epochs to a score that all settings reach fall with the number of kernels, all along or in the end.

    The score is ``slack`` below that of the worst optimum. An epoch costs what it does in the longest run.
    """
    settings = results.protocol.settings
    if not _done(results, budgets, oracle):
        return None
    goal = min(results.score(oracle, s) for s in settings) - slack
    epochs = {s: epochs_to_score(results, s, budgets, goal) for s in settings}
    longest, most = list(budgets.items())[-1]
    seconds = {s: n * results.value("fit_seconds", longest, s) / most for s, n in epochs.items()}
    counts = list(epochs.values())
    falls = [later <= earlier for earlier, later in pairwise(counts)]
    text = f"epochs to an accuracy of {100 * goal:.0f} %, by kernels: {listed(epochs, '.3g')}; seconds: "
    verdict = graded([all(falls), counts[-1] < counts[0]]) if np.isfinite(counts).any() else UNDECIDED
    return verdict, text + listed(seconds, ".2g")


def updates(results: Results, key: str, setting: str) -> list[tuple[float, float]]:
    """Updates and epochs of an entry until it had ended, split by split."""
    return [
        (record["history"][-1]["updates"], record["history"][-1]["epoch"])
        for record in results.records(setting, key)
        if record.get("history") and "updates" in record["history"][-1]
    ]


def fewer_updates(results: Results, key: str) -> Finding | None:
    """Whether the updates of an online stage fall with the number of kernels, by a power of them."""
    found = {s: updates(results, key, s) for s in results.protocol.settings}
    if not all(found.values()):
        return None
    counts = {s: float(np.mean([n for n, _ in each])) for s, each in found.items()}
    epochs = {s: float(np.mean([n for _, n in each])) for s, each in found.items()}
    slope = exponent([float(s) for s in counts], list(counts.values()))
    text = f"updates, by kernels: {listed(counts, '.0f')}, like F^{slope:.2f}; epochs: {listed(epochs, '.0f')}"
    return HOLDS if slope < -0.05 else FAILS if slope > 0.05 else IN_PART, text


def updates_by_kernels(results: Results, figure: Any, key: str) -> None:
    """Updates of the online stage until no training sample has a loss, against the number of kernels."""
    settings = [s for s in results.protocol.settings if updates(results, key, s)]
    if not settings:
        return
    axes = figure.add_subplot()
    each = [[n for n, _ in updates(results, key, s)] for s in settings]
    axes.errorbar(
        [float(s) for s in settings], [np.mean(n) for n in each], yerr=[np.std(n) for n in each], **style(0)
    )
    axes.set(xlabel="kernels", ylabel="updates of stage 1 ± one deviation over draws", ylim=(0, None))
    plain(axes)


def few_are_enough(results: Results, budgets: Budgets, oracle: str, few: int, points: float = 2.0) -> Finding | None:
    """Whether no setting is that many points below the optimum after ``few`` epochs; in part: after the most."""
    settings = results.protocol.settings
    if not _done(results, budgets, oracle):
        return None
    by_epochs = {epochs: key for key, epochs in budgets.items()}
    shown = (min(by_epochs), few, max(by_epochs))
    lags = [[100 * (results.score(oracle, s) - results.score(by_epochs[e], s)) for s in settings] for e in shown]
    lost = [f"{s}: {', '.join(f'{value:.1f}' for value in values)}" for s, *values in zip(settings, *lags)]
    verdict = HOLDS if max(lags[1]) <= points else IN_PART if max(lags[2]) <= points else FAILS
    first, middle, last = shown
    text = f"points of accuracy below the optimum after {first}, {middle} and {last} epochs, by kernels: "
    return verdict, text + "; ".join(lost)


def _done(results: Results, budgets: Budgets, oracle: str) -> bool:
    return all(results.scores(key, s) for s in results.protocol.settings for key in (*budgets, oracle))
