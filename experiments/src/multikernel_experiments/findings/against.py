"""Entries of a run against its first one, and against each other: differences, tests and ranks."""

from __future__ import annotations

import math

from multikernel.compare.results import mean
from multikernel_experiments.findings.significance import FEW, Ranking, holm, paired_t, ranking, sign_test
from multikernel_experiments.findings.verdicts import Finding
from multikernel_experiments.protocol import FAILS, HOLDS, UNDECIDED
from multikernel_experiments.results import Results


def differences(results: Results, key: str, other: str, setting: str) -> list[float]:
    """Score of an entry minus that of another on the same splits."""
    found = []
    for split in range(results.protocol.n_splits):
        a, b = results.cells.get((setting, split, key)), results.cells.get((setting, split, other))
        if a and b and a["scores"] and b["scores"]:
            found.append(a["scores"][0] - b["scores"][0])
    return found


def over_splits(results: Results, setting: str) -> dict[str, str]:
    """Difference of each entry from the first, in points, with the p-value corrected for the number of entries."""
    baseline, *others = [entry.key for entry in results.protocol.in_tables]
    sizes = [(record["n_train"], record["n_test"]) for record in results.records(setting, baseline)]
    n_train, n_test = (mean([float(size[k]) for size in sizes]) for k in (0, 1))
    pairs = {key: differences(results, key, baseline, setting) for key in others}
    # two splits have one degree of freedom: no test at all
    raw = {key: paired_t(values, n_train, n_test) if len(values) > 2 else math.nan for key, values in pairs.items()}
    corrected = holm(raw)
    texts = {}
    for key, values in pairs.items():
        flag = f", {len(values)} splits" if len(values) < FEW else ""
        p = f" (p = {corrected[key]:.2f}{flag})" if math.isfinite(corrected[key]) else ""
        texts[key] = f"{100 * mean(values):+.1f}{p}" if values else "–"
    return texts


def over_settings(results: Results, key: str, other: str) -> tuple[int, int, int, float]:
    """Settings in which an entry is better, equal and worse than another on average, and a sign test's p-value."""
    return sign_test(setting_differences(results, key, other))


def setting_differences(results: Results, key: str, other: str) -> list[float]:
    """Mean difference of two entries in each setting that both have a score in."""
    found = [differences(results, key, other, setting) for setting in results.protocol.settings]
    return [round(mean(values), 12) for values in found if values]


def ranked(results: Results) -> Ranking | None:
    """Ranks over settings by mean score; None for fewer than three settings or entries.

    Entries without a score in more than a seventh of the settings are left out, then settings that an entry lacks.
    """
    settings = results.protocol.settings
    scores = {e.key: {s: results.score(e.key, s) for s in settings} for e in results.protocol.in_tables}
    kept = {k: v for k, v in scores.items() if sum(map(math.isfinite, v.values())) >= 6 / 7 * len(settings)}
    whole = [s for s in settings if kept and all(math.isfinite(v[s]) for v in kept.values())]
    if len(kept) < 3 or len(whole) < 3:
        return None
    return ranking({key: [values[s] for s in whole] for key, values in kept.items()})


def better_over_settings(results: Results, key: str, other: str) -> Finding | None:
    """Whether an entry is better than another over three settings at least: undecided where it may be chance."""
    values = setting_differences(results, key, other)
    if len(values) < 3:
        return None
    wins, ties, losses, p = sign_test(values)
    verdict = UNDECIDED if p >= 0.05 else HOLDS if wins > losses else FAILS
    text = f"better on {wins}, equal on {ties}, worse on {losses} of {len(values)} (sign test p = {p:.3f}); "
    return verdict, text + f"mean difference {100 * mean(values):+.1f} points"
