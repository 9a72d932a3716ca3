"""Verdicts on the norm p: fixed against learnt, sparse against dense, and what vanishes as it goes to 1."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from multikernel_experiments.findings.verdicts import Finding, complete, graded, listed, on_scores, percent
from multikernel_experiments.protocol import FAILS, HOLDS, IN_PART
from multikernel_experiments.results import Results


def ahead_with_every_norm(results: Results, pairs: Mapping[str, tuple[str, str]]) -> Finding | None:
    """Whether the first of each pair has the better mean score; pairs by what they have in common."""
    if not complete(results):
        return None
    means = percent(results)
    leads = {name: means[key] - means[other] for name, (key, other) in pairs.items()}
    return graded(lead > 0 for lead in leads.values()), f"mean AP: {listed(leads, '+.1f', ' ')}"


def learnt_is_better(results: Results, key: str, fixed: Sequence[str]) -> Finding | None:
    """Whether the learnt norm has a better mean score than all fixed ones, or than some."""
    if not complete(results):
        return None
    means = percent(results)
    others = [means[other] for other in fixed]
    verdict = HOLDS if means[key] > max(others) else IN_PART if means[key] > min(others) else FAILS
    return verdict, f"mean AP ℓp {means[key]:.1f}, fixed norms " + ", ".join(f"{value:.1f}" for value in others)


def sparse_is_robust(results: Results, sparse: Sequence[str], dense: Sequence[str]) -> Finding | None:
    """Whether sparse entries lose less from the first to the last setting than dense ones, by a point at least."""
    if not complete(results):
        return None
    first, last = results.protocol.settings[0], results.protocol.settings[-1]
    keys = [entry.key for entry in results.protocol.entries]
    changes = {key: 100 * (results.score(key, last) - results.score(key, first)) for key in keys}
    kept, worst = [changes[key] for key in sparse], min(changes[key] for key in dense)
    verdict = HOLDS if min(kept) > worst + 1 and worst < -1 else IN_PART if max(kept) > worst else FAILS
    title = results.protocol.setting_title
    return verdict, f"change from {first} to {last} {title}: {listed(changes, '+.1f', ' ')}"


@on_scores
def better_than_last(results: Results, norms: Mapping[str, float]) -> Finding | None:
    """Whether a smaller norm than the last is better than it, by more than two standard errors; norms by key."""
    if not all(results.scores(key) for key in norms):
        return None
    scores, last = {key: 100 * results.score(key) for key in norms}, list(norms)[-1]
    best = max(scores, key=lambda key: scores[key])
    gain, deviation, count = results.difference(best, last)
    error = 0.0 if count < 2 else deviation / count**0.5
    verdict = FAILS if best == last else HOLDS if gain > 2 * error else IN_PART
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
