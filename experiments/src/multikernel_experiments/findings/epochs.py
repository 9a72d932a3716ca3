"""Objective and score after a number of epochs, an entry for each number: figures and verdicts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from multikernel_experiments.findings.curves import excess, exponent, first_reach
from multikernel_experiments.findings.drawing import panels, plain, style
from multikernel_experiments.findings.verdicts import Finding, graded
from multikernel_experiments.protocol import FAILS, HOLDS, IN_PART
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


def epochs_needed(results: Results, setting: str, budgets: Budgets, oracle: str, near: float) -> float:
    """Epochs until the objective is that near to its optimum, averaged over splits."""
    splits = range(results.protocol.n_splits)
    courses = [[excess(results, key, setting, split, oracle) for key in budgets] for split in splits]
    return float(np.mean([first_reach(list(budgets.values()), far, near) for far in courses]))


def epochs_to_score(results: Results, setting: str, budgets: Budgets, goal: float) -> float:
    """Epochs until the mean score over splits is that."""
    errors = [1.0 - results.score(key, setting) for key in budgets]
    return first_reach(list(budgets.values()), errors, 1.0 - goal)


def fewer_with_more_kernels(
    results: Results, budgets: Budgets, oracle: str, near: float, slack: float
) -> Finding | None:
    """Whether epochs to be near the optimum fall with the number of kernels, and epochs to a score that all reach.

    The score is ``slack`` below that of the worst optimum. An epoch costs what it does in the longest run.
    """
    settings = results.protocol.settings
    if not _done(results, budgets, oracle):
        return None
    epochs = [epochs_needed(results, s, budgets, oracle, near) for s in settings]
    goal = min(results.score(oracle, s) for s in settings) - slack
    given = [epochs_to_score(results, s, budgets, goal) for s in settings]
    longest, most = list(budgets.items())[-1]
    seconds = [count * results.value("fit_seconds", longest, s) / most for count, s in zip(epochs, settings)]
    slopes = [exponent([float(s) for s in settings], values) for values in (epochs, seconds)]
    shown = [", ".join(f"{s}: {e:.3g}" for s, e in zip(settings, values)) for values in (epochs, given, seconds)]
    text = (
        f"epochs to {100 * near:.0f} % above the optimum, by kernels: {shown[0]}; they grow like F^{slopes[0]:.2f}, "
    )
    text += f"and their seconds ({shown[2]}) like F^{slopes[1]:.2f}; epochs to a given "
    text += f"accuracy of {100 * goal:.0f} %: {shown[1]}"
    return graded([slopes[0] < -0.1, given[-1] < given[0]]), text


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
