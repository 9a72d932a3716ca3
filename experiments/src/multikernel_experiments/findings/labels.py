"""Verdicts on one kernel for many labels, setting by setting."""

from __future__ import annotations

from collections.abc import Sequence

from multikernel_experiments.findings.verdicts import Finding, graded, listed
from multikernel_experiments.results import Results


def level_with(results: Results, key: str, other: str, points: float = 1.0) -> Finding | None:
    """Whether two entries are within so many points in every setting that has both."""
    leads = {s: 100 * (results.score(key, s) - results.score(other, s)) for s in _both(results, key, other)}
    return (graded(abs(lead) <= points for lead in leads.values()), listed(leads, "+.1f")) if leads else None


def faster_than(results: Results, key: str, other: str) -> Finding | None:
    """Whether another entry takes longer in every setting that has both."""
    seconds = {
        s: [results.value("fit_seconds", name, s) for name in (other, key)] for s in _both(results, key, other)
    }
    ratios = {s: theirs / ours for s, (theirs, ours) in seconds.items()}
    text = ", ".join(f"{s}: {ratio:.1f} times" for s, ratio in ratios.items())
    return (graded(ratio > 1 for ratio in ratios.values()), text) if ratios else None


def at_least_as_good(results: Results, key: str, others: Sequence[str], beside: str) -> Finding | None:
    """Whether an entry is not behind any of the others that were run, in settings that have the one ``beside`` it."""
    leads = {
        s: {o: 100 * (results.score(key, s) - results.score(o, s)) for o in others if results.scores(o, s)}
        for s in _both(results, key, beside)
    }
    found = graded(lead >= 0 for each in leads.values() for lead in each.values())
    text = "; ".join(f"{s}: {listed(each, '+.1f', ' ')}" for s, each in leads.items())
    return (found, f"points ahead, {text}") if leads else None


def _both(results: Results, key: str, other: str) -> list[str]:
    return [s for s in results.protocol.settings if results.scores(key, s) and results.scores(other, s)]
