"""Verdicts on the norm p: fixed against learnt, sparse against dense, and what vanishes as it goes to 1."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from multikernel_experiments.findings.against import better_over_settings
from multikernel_experiments.findings.drawing import COLOURS, plain, style
from multikernel_experiments.findings.verdicts import Finding, complete, graded, listed, on_scores
from multikernel_experiments.protocol import FAILS, HOLDS, IN_PART, UNDECIDED
from multikernel_experiments.results import Results


def better_in_each_pair(results: Results, pairs: Mapping[str, tuple[str, str]]) -> Finding | None:
    """Whether the first of each pair is better over settings, beyond chance; pairs by what tells them apart.

    In part if only in some; undecided if in none but for chance.
    """
    found = {name: judged for name, pair in pairs.items() if (judged := better_over_settings(results, *pair))}
    if not complete(results) or len(found) < len(pairs):
        return None
    verdicts, texts = (
        {verdict for verdict, _ in found.values()},
        [f"{name} {text}" for name, (_, text) in found.items()],
    )
    return verdicts.pop() if len(verdicts) == 1 else IN_PART if HOLDS in verdicts else UNDECIDED, "; ".join(texts)


def about_as_fast(results: Results, key: str, other: str, factor: float = 2.0) -> Finding | None:
    """Whether the mean times of two entries are within a factor."""
    times = [results.value("fit_seconds", name) for name in (key, other)]
    if not all(time > 0 for time in times):
        return None
    ratio = times[0] / times[1]
    shown = f"{times[0]:.2f} s against {times[1]:.2f} s a fit, a ratio of {ratio:.2f}"
    return HOLDS if 1 / factor <= ratio <= factor else FAILS, shown


def sparse_is_robust(results: Results, sparse: Sequence[str], dense: Sequence[str]) -> Finding | None:
    """Whether every dense entry loses a point from the first to the last setting, and a point more than all sparse.

    In part if only some dense entry does.
    """
    if not complete(results):
        return None
    first, last = results.protocol.settings[0], results.protocol.settings[-1]
    keys = [entry.key for entry in results.protocol.entries]
    changes = {key: 100 * (results.score(key, last) - results.score(key, first)) for key in keys}
    least = min(0.0, *(changes[key] for key in sparse)) - 1
    verdict = graded(changes[key] < least for key in dense)
    title = results.protocol.setting_title
    return verdict, f"change from {first} to {last} {title}: {listed(changes, '+.1f', ' ')}"


@on_scores
def better_than_last(results: Results, norms: Mapping[str, float]) -> Finding | None:
    """Whether a smaller norm than the last is better than it, by more than two standard errors; norms by key.

    Undecided within them: the best of several norms is ahead by chance alone.
    """
    if not all(results.scores(key) for key in norms):
        return None
    scores, last = {key: 100 * results.score(key) for key in norms}, list(norms)[-1]
    best = max(scores, key=lambda key: scores[key])
    gain, deviation, count = results.difference(best, last)
    error = 0.0 if count < 2 else deviation / count**0.5
    verdict = FAILS if best == last else HOLDS if gain > 2 * error else UNDECIDED
    return verdict, listed({f"p = {norms[key]:g}": score for key, score in scores.items()})


@on_scores
def one_kernel_left(results: Results, norms: Mapping[str, float], least: float = 0.05) -> Finding | None:
    """Whether one kernel alone has a share of the weights that counts at the first norm; some, or all; by key."""
    if not all(results.scores(key) for key in norms):
        return None
    key, norm = next(iter(norms.items()))
    shares = np.mean([record["weights"][0] for record in results.all_records(key)], axis=0)
    count = int((shares > least).sum())
    verdict = HOLDS if count == 1 else IN_PART if count < len(shares) else FAILS
    shown = ", ".join(f"{100 * share:.0f}" for share in shares)
    return verdict, f"shares of the weights at p = {norm:g}, in percent: {shown}"


@on_scores
def first_is_best(results: Results, norms: Mapping[str, float], setting: str) -> Finding | None:
    """Whether no other norm is better than the first by more than two standard errors, or it is the best of all."""
    if not all(results.scores(key, setting) for key in norms):
        return None
    scores, (first, *others) = {key: 100 * results.score(key, setting) for key in norms}, norms
    ahead = [results.difference(key, first, setting) for key in others]
    beaten = any(gain > 2 * deviation / max(count, 1) ** 0.5 for gain, deviation, count in ahead if count > 1)
    leads = results.protocol.n_splits > 1 and scores[first] > max(scores[key] for key in others)
    verdict = FAILS if beaten else HOLDS if leads else UNDECIDED
    return verdict, listed({f"p = {norms[key]:g}": score for key, score in scores.items()})


def _along(results: Results, norms: Mapping[str, float], setting: str) -> tuple[list[float], list[float]]:
    """Scores on validation and on test samples in percent, norm by norm, on the first split."""
    records = [results.cells.get((setting, 0, key)) for key in norms]
    known = [r for r in records if r and r["scores"] and "validation" in r]
    if len(known) < len(norms):
        return [], []
    return [100 * r["validation"] for r in known], [100 * r["scores"][0] for r in known]


def curves_match(results: Results, norms: Mapping[str, float], points: float = 2.0) -> Finding | None:
    """Whether the norm that is best in validation is within so many points of the best on test, in every setting."""
    held, parts = [], []
    for setting in results.protocol.settings:
        validation, test = _along(results, norms, setting)
        if not test:
            return None
        chosen, best = int(np.argmax(validation)), int(np.argmax(test))
        if np.ptp(validation) == 0 or np.ptp(test) == 0:
            return UNDECIDED, f"{setting}: no difference along p"
        alike = float(np.corrcoef(validation, test)[0, 1])
        held.append(test[best] - test[chosen] <= points and alike > 0.5)
        p = list(norms.values())
        parts.append(
            f"{setting}: validation chooses p = {p[chosen]:g} with {test[chosen]:.1f} on test, the best there is "
            f"p = {p[best]:g} with {test[best]:.1f}; correlation {alike:.2f}"
        )
    return graded(held), "; ".join(parts)


def validation_and_test(results: Results, figure: Any, norms: Mapping[str, float]) -> None:
    """Score on validation and test samples against the norm p, and the weights of the p that validation chose."""
    found = {s: _along(results, norms, s) for s in results.protocol.settings}
    found = {s: curves for s, curves in found.items() if curves[0]}
    if not found:
        return
    figure.set_size_inches(9.0, 7.0)
    grid = figure.subplots(2, len(found), squeeze=False)
    for (top, below), (setting, (validation, test)) in zip(grid.T, found.items()):
        places = range(len(norms))
        top.plot(places, validation, label="validation", **style(0))
        top.plot(places, test, label="test", **style(1))
        top.set_xticks(places, [f"{p:.3g}" for p in norms.values()], rotation=60, fontsize=8)
        top.set(title=setting, xlabel="p", ylabel=f"{results.protocol.metric} in percent")
        top.legend(frameon=False)
        plain(top)
        key = list(norms)[int(np.argmax(validation))]
        record = results.cells[setting, 0, key]
        below.bar(range(len(record["weights"][0])), record["weights"][0], color=COLOURS[0])
        below.set_xticks(range(len(record["kernel_names"])), record["kernel_names"], rotation=90, fontsize=7)
        below.set(title=f"weights at p = {norms[key]:.4g}", ylabel="share")
        plain(below)
