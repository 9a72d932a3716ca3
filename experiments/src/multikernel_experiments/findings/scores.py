"""Verdicts on scores: one method against all others, several against one, in one setting or over settings."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from multikernel_experiments.findings.verdicts import Finding, complete, graded, listed, on_scores, percent, within
from multikernel_experiments.protocol import FAILS, HOLDS, IN_PART, UNDECIDED
from multikernel_experiments.results import Results


@on_scores
def ahead_of_all(results: Results, key: str, title: str, among: Sequence[str]) -> Finding | None:
    """Whether an entry is better than the others ``among`` these, by more than the deviation of the difference.

    Within that deviation it is a tie, which holds in part if the entry is ahead and is undecided if it is not.
    """
    found = {other: value for other, value in percent(results).items() if other in among}
    if len(found) < len(among):
        return None
    rival = max((other for other in found if other != key), key=lambda other: found[other])
    lead, deviation, _ = (100 * value for value in results.difference(key, rival))
    tie = abs(lead) <= deviation
    verdict = (IN_PART if lead > 0 else UNDECIDED) if tie else HOLDS if lead > 0 else FAILS
    text = f"{title} {found[key]:.1f}, best of the others ({rival}) {found[rival]:.1f}: "
    return verdict, f"{text}{lead:+.1f} ± {deviation:.1f} points"


@on_scores
def alike(results: Results, among: Sequence[str]) -> Finding | None:
    """Whether entries ``among`` these differ by no more than the first one does over splits, or by a point.

    The range of all others is said, not judged.
    """
    (setting,) = results.protocol.settings
    scores = percent(results)
    found = {key: scores[key] for key in among if key in scores}
    rest = {key: score for key, score in scores.items() if key not in among}
    if len(found) < len(among):
        return None
    low, high = min(found, key=lambda key: found[key]), max(found, key=lambda key: found[key])
    spread = 100 * results.spread(among[0], setting)
    unit = max(1.0, spread)  # in this order: one split has no spread
    text = f"from {found[low]:.1f} ({low}) to {found[high]:.1f} ({high})"
    text += f"; ± {spread:.1f} over splits" if results.protocol.n_splits > 1 else ""
    text += f"; the others from {min(rest.values()):.1f} to {max(rest.values()):.1f}" if rest else ""
    return within(found[high] - found[low], unit, 2 * unit), text


@on_scores
def above_and_level(
    results: Results, key: str, title: str, below: tuple[str, str], level: tuple[str, str], slack: float = 1.5
) -> Finding:
    """Whether an entry is better than one, by two standard errors, and within ``slack`` points of another.

    Each other one comes with the words for it.
    """
    (ahead, deviation, count), (apart, *_) = (results.difference(key, other) for other, _ in (below, level))
    error = deviation / math.sqrt(max(count, 1))
    held = ahead > 2 * error, 100 * abs(apart) <= slack
    text = f"{100 * ahead:+.1f} ± {100 * error:.1f} to {below[1]}, {100 * apart:+.1f} to {level[1]}"
    return graded(held), f"{title} {100 * results.score(key):.1f}: {text}"


@on_scores
def all_gain(results: Results, keys: Sequence[str], baseline: str, least: float = 0.5) -> Finding:
    """Whether all of these entries that were run are ahead of a baseline, by so many points at least."""
    done = [key for key in keys if results.scores(key)]
    gains = {key: 100 * results.difference(key, baseline)[0] for key in done}
    text = f"{baseline} {100 * results.score(baseline):.1f}; {listed(gains, '+.1f', ' ')}"
    return graded(gain > least for gain in gains.values()), text


def ahead_in_settings(results: Results, key: str, other: str) -> Finding | None:
    """Settings in which an entry is ahead by more than two standard errors, and by half a point at least."""
    parts: dict[str, list[str]] = {"better": [], "worse": [], "even": []}
    for setting in results.protocol.settings:
        mean, deviation, count = results.difference(key, other, setting)
        if count > 1:  # one split has no error to judge by
            error = deviation / math.sqrt(count)
            kind = "even" if abs(mean) <= max(2 * error, 0.005) else "better" if mean > 0 else "worse"
            parts[kind].append(f"{setting} {100 * mean:+.1f}")
    if not any(parts.values()):
        return None
    verdict = FAILS if not parts["better"] else IN_PART if parts["worse"] or parts["even"] else HOLDS
    return verdict, "; ".join(f"{kind}: {', '.join(where) or 'none'}" for kind, where in parts.items())


def ahead_of_several(results: Results, key: str, others: Mapping[str, str]) -> Finding | None:
    """Whether an entry is ahead of each of these by more than two standard errors, in every setting.

    Where no difference is beyond two standard errors, there is nothing to tell.
    """
    parts, leads = [], []
    for setting in results.protocol.settings:
        for other, title in others.items():
            lead, deviation, count = results.difference(key, other, setting)
            if count > 1:
                error = deviation / math.sqrt(count)
                leads.append(0 if abs(lead) <= 2 * error else math.copysign(1, lead))
                parts.append(f"{setting}, against {title} {100 * lead:+.2f} ± {100 * error:.2f}")
    verdict = graded(lead > 0 for lead in leads) if any(leads) else UNDECIDED
    return (verdict, "; ".join(parts)) if parts else None


def on_top_everywhere(results: Results, key: str, words: str) -> Finding | None:
    """Whether no other entry is better in any setting; ``words`` name the lead."""
    if not complete(results):
        return None
    others = [entry.key for entry in results.protocol.entries if entry.key != key]
    leads = {s: results.score(key, s) - max(results.score(k, s) for k in others) for s in results.protocol.settings}
    shown = listed({s: 100 * lead for s, lead in leads.items()}, "+.1f")
    text = f"{words}, in points, by {results.protocol.setting_title}: {shown}"
    return graded(lead >= 0 for lead in leads.values()), text
