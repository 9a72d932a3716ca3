"""Methods with a t against rivals on many binary problems: wins, ties, losses; ratios; where scores saturate."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from multikernel_experiments.findings.drawing import COLOURS, common_legend, panels, plain, style
from multikernel_experiments.findings.kernel_counts import draw_along_t, draw_levels
from multikernel_experiments.findings.significance import sign_test
from multikernel_experiments.findings.sparsity import paired_scores, scores_along_t, used, used_along_t
from multikernel_experiments.findings.verdicts import Claim, Finding, graded
from multikernel_experiments.protocol import FAILS, HOLDS, IN_PART, UNDECIDED, UNTESTED
from multikernel_experiments.results import Results
from multikernel_experiments.tables import Table

VALIDATION, ON_TEST = "validation", "best on test"  # how t was chosen
Scores = NDArray[np.float64]


@dataclass(frozen=True)
class Contest:
    """Who is held against whom, on what.

    Parameters
    ----------
    kinds : mapping
        Settings by kind of problem; every split of a setting is a problem.
    lines : mapping
        Titles of the methods by key: entries ``key-t`` for each t, and ``key-validated``.
    rivals : mapping
        Titles of the rivals by key.
    ts : sequence of int
    families : int
        Groups of as many kernels each, which are counted too.
    published : mapping
        By kind of problem: the method that a paper held against the rivals, and on how many problems it was better
        than each of them.
    """

    kinds: Mapping[str, Sequence[str]]
    lines: Mapping[str, str]
    rivals: Mapping[str, str]
    ts: Sequence[int]
    families: int
    published: Mapping[str, tuple[str, Mapping[str, tuple[int, int]]]]

    def scores(self, results: Results, kind: str, key: str, how: str, rival: str) -> tuple[Scores, Scores]:
        """Scores with t by validation, or the best over t on the test samples, and those of a rival."""
        settings = self.kinds[kind]
        if how == VALIDATION:
            return paired_scores(results, f"{key}-validated", rival, settings)
        best = scores_along_t(results, key, self.ts, settings)
        others = paired_scores(results, rival, f"{key}-{self.ts[-1]}", settings)[0]
        best = best.max(axis=0) if best.size else np.zeros(0)
        return (best, others) if len(best) == len(others) else (np.zeros(0), np.zeros(0))

    def done(self, results: Results) -> list[tuple[str, str, str, str, Scores, Scores]]:
        """Kind of problem, method, how t was chosen, rival, and the scores of both, for all that was done."""
        places = [
            (kind, key, how, rival)
            for kind in self.kinds
            for key in self.lines
            for how in (VALIDATION, ON_TEST)
            for rival in self.rivals
        ]
        found = [(*place, *self.scores(results, *place)) for place in places]
        return [row for row in found if len(row[-1])]


def wins_table(results: Results, contest: Contest) -> list[tuple[str, Table]]:
    """Wins, ties and losses."""
    heads = ["problems", "method", "t by", "against", "ratio of accuracies", "wins", "ties", "losses", "sign test"]
    rows = []
    for kind, key, how, rival, ours, theirs in contest.done(results):
        *counts, p = sign_test(ours - theirs)
        names = [kind, contest.lines[key], how, contest.rivals[rival]]
        rows.append([*names, f"{_ratios(ours, theirs).mean():.4f}", *map(str, counts), f"p = {p:.1g}"])
    return [("Wins, ties and losses", (heads, rows))] if rows else []


def _ratios(ours: Scores, theirs: Scores) -> Scores:
    return ours / np.maximum(theirs, 1e-12)


def sorted_ratios(results: Results, figure: Any, contest: Contest) -> None:
    """Score of CSKL over that of SimpleMKL and of ℓ2 MKL, problems in order of it.

    A panel for each kind of problem; dotted where t is the best on the test samples.
    """
    found = contest.done(results)
    if not found:
        return
    sides = dict(zip(contest.kinds, panels(figure, len(contest.kinds), (10.0, 4.4))))
    shown: dict[tuple[str, str], int] = {}
    for kind, key, how, rival, ours, theirs in found:
        k = shown.setdefault((key, rival), len(shown))
        # the first ones are drawn broad, so that they are seen under others that are equal
        look = {"color": COLOURS[k], "linestyle": "-" if how == VALIDATION else ":", "linewidth": 4.0 - k}
        label = f"{contest.lines[key]}, t by {how}, over {contest.rivals[rival]}"
        share = np.linspace(0, 100, len(ours))
        sides[kind].plot(share, np.sort(_ratios(ours, theirs)), label=label, alpha=0.8, **look)
    for kind, axes in sides.items():
        axes.axhline(1.0, color="black", linewidth=0.8)
        axes.set(title=kind, xlabel="problems in percent, worst first", ylabel="ratio of accuracies")
        plain(axes)
    common_legend(figure, ncols=2, fontsize=8)


def score_by_kind(results: Results, figure: Any, contest: Contest) -> None:
    """Mean accuracy over all problems against t ± one standard error."""

    def draw(axes: Any, settings: Sequence[str]) -> None:
        draw_along_t(results, axes, contest.lines, contest.ts, settings)
        draw_levels(results, axes, contest.rivals, settings)

    _by_kind(results, figure, contest, draw)


def kernels_by_kind(results: Results, figure: Any, contest: Contest) -> None:
    """Kernels, and descriptors of four, with a weight against t, mean over problems."""
    ts, families = contest.ts, contest.families

    def draw(axes: Any, settings: Sequence[str]) -> None:
        for k, (key, title) in enumerate(contest.lines.items()):
            if scores_along_t(results, key, ts, settings).size:
                counts = used_along_t(results, key, ts, settings)
                axes.plot(ts, counts, label=f"{title}, kernels of {ts[-1]}", **style(k))
                counts = used_along_t(results, key, ts, settings, families=families)
                axes.plot(ts, counts, "--", label=f"{title}, descriptors of {families}", **style(k))
        axes.set(xlabel="t", ylabel="with a weight", xticks=ts)
        plain(axes)

    _by_kind(results, figure, contest, draw)


def _by_kind(results: Results, figure: Any, contest: Contest, draw: Callable[[Any, Sequence[str]], None]) -> None:
    if not any(scores_along_t(results, key, contest.ts, results.protocol.settings).size for key in contest.lines):
        return
    for axes, (kind, settings) in zip(panels(figure, len(contest.kinds), (9.0, 4.2)), contest.kinds.items()):
        draw(axes, settings)
        axes.set_title(kind, fontsize=10)
        if axes.get_legend_handles_labels()[0]:
            axes.legend(frameon=False, fontsize=8)


def dense_over_sparse(results: Results, figure: Any, contest: Contest) -> None:
    """Score of ℓ2 MKL over that of SimpleMKL, problems in order of it."""
    found = {kind: paired_scores(results, "l2", "simple", settings) for kind, settings in contest.kinds.items()}
    found = {kind: pair for kind, pair in found.items() if len(pair[0])}
    if not found:
        return
    for axes, (kind, (dense, sparse)) in zip(panels(figure, len(found), (9.0, 4.0)), found.items()):
        axes.plot(np.linspace(0, 100, len(dense)), np.sort(_ratios(dense, sparse)), color=COLOURS[0])
        axes.axhline(1.0, color="black", linewidth=0.8)
        axes.set(title=kind, xlabel="problems in percent, worst first", ylabel="ratio of scores")
        plain(axes)


def descriptors_where_better(results: Results, figure: Any, contest: Contest) -> None:
    """How many descriptors CSKL and its rival use, over the problems on which CSKL with its best t is better."""
    places = [(kind, key, rival) for kind, (key, _) in contest.published.items() for rival in contest.rivals]
    found = {place: _where_better(results, contest, *place) for place in places}
    found = {place: counts for place, counts in found.items() if counts}
    if not found:
        return
    figure.set_size_inches(3.2 * len(found), 3.8)
    bins = np.arange(1, contest.families + 1)
    for axes, ((kind, key, rival), counts) in zip(np.atleast_1d(figure.subplots(1, len(found))), found.items()):
        for k, (who, each) in enumerate(zip((contest.lines[key], contest.rivals[rival]), zip(*counts))):
            axes.bar(bins + 0.4 * k - 0.2, [each.count(b) for b in bins], width=0.4, label=who, color=COLOURS[k])
        axes.set(xlabel=f"descriptors of {contest.families}", ylabel="problems", xticks=bins)
        axes.set_title(f"{kind}, over {contest.rivals[rival]}", fontsize=9)
        axes.legend(frameon=False, fontsize=8)
        plain(axes)


def _where_better(results: Results, contest: Contest, kind: str, key: str, rival: str) -> list[tuple[int, int]]:
    """Descriptors used by the best t and by the rival, for each problem on which the former is better."""
    counts = []
    for setting in contest.kinds[kind]:
        for split in range(results.protocol.n_splits):
            other = results.cells.get((setting, split, rival))
            ours = [results.cells.get((setting, split, f"{key}-{t}")) for t in contest.ts]
            done = [record for record in ours if record and record["scores"]]
            if other and other["scores"] and done:
                best = max(done, key=lambda record: record["scores"][0])
                if best["scores"][0] > other["scores"][0]:
                    counts.append((used(best, contest.families), used(other, contest.families)))
    return counts


def better_than_rivals(contest: Contest, source: str) -> list[Claim]:
    """What was published of a contest, as claims: t by validation, and, as it was done, by the best score on test."""
    return [
        Claim(
            f"{kind}: {contest.lines[key]}, t by {how}, is better than {contest.rivals[rival]} on "
            f"{100 * better / of:.0f} % of the problems",
            source,
            wins_as_often,
            by=f"{'CSKLClassifier(nu=0.2)' if key == 'nu' else 'CSKLClassifier'}, certified, t by {how}",
            contest=contest,
            place=(kind, key, how, rival),
            share=better / of,
        )
        for kind, (key, published) in contest.published.items()
        for how in (VALIDATION, ON_TEST)
        for rival, (better, of) in published.items()
    ]


def wins_as_often(
    results: Results, contest: Contest, place: tuple[str, str, str, str], share: float
) -> Finding | None:
    """Whether a method wins on the published ``share`` of the problems; in part: more often than not, beyond chance.

    Not tested where validation chose t = 1, with which CSKL (not ν-CSKL) is SimpleMKL, for nine problems of ten.
    """
    ours, theirs = contest.scores(results, *place)
    if not len(ours):
        return None
    kind, key, how, rival = place
    won, ties, lost, p = sign_test(ours - theirs)
    text = f"{won} wins, {ties} ties, {lost} losses (p = {p:.1g}); mean score {100 * ours.mean():.2f} against "
    text += f"{100 * theirs.mean():.2f}"
    same_at_one = key == "cskl" and rival == "simple"
    if same_at_one and how == ON_TEST:
        text += "; t = 1 is SimpleMKL, so that the best t cannot lose"
    if same_at_one and how == VALIDATION:
        chosen = [
            r["parameters"][0]["t"] for s in contest.kinds[kind] for r in results.records(s, f"{key}-validated")
        ]
        same = sum(t == 1 for t in chosen)
        text += f"; t = 1, which is SimpleMKL, was chosen {same} times of {len(chosen)}"
        if same >= 0.9 * len(chosen):
            return UNTESTED, text
    beyond = won > lost and p < 0.05
    often = won >= share * len(ours)
    return HOLDS if often else IN_PART if beyond else FAILS if p < 0.05 else UNDECIDED, text


def both_win_some(results: Results, contest: Contest, kind: str) -> Finding | None:
    """Whether each of two rivals is better on some problems of a kind."""
    dense, sparse = paired_scores(results, "l2", "simple", contest.kinds[kind])
    if not len(dense):
        return None
    counts = [int(np.sum(dense > sparse)), int(np.sum(dense < sparse))]
    text = f"{kind}: ℓ2 MKL better on {counts[0]}, SimpleMKL on {counts[1]} of {len(dense)}"
    return HOLDS if all(counts) else FAILS, text


def saturates(results: Results, contest: Contest, t: int, points: float = 0.5) -> Finding | None:
    """Whether mean scores from a t on are within so many points of that at the best t, for all kinds and methods."""
    parts, held, ts = [], [], list(contest.ts)
    for kind, settings in contest.kinds.items():
        for key, title in contest.lines.items():
            scores = scores_along_t(results, key, ts, settings)
            if scores.size:
                means = 100 * scores.mean(axis=1)
                at_t = means[ts.index(t)]
                held.append(means[ts.index(t) :].min() >= means.max() - points)
                used = used_along_t(results, key, [t], settings)[0]
                parts.append(
                    f"{kind}, {title}: t = {ts[0]} {means[0]:.2f}, t = {t} {at_t:.2f}, t = {ts[-1]} {means[-1]:.2f}, "
                    f"best t = {ts[int(means.argmax())]} {means.max():.2f}; t = {t} has {used:.1f} kernels"
                )
    return (graded(held), "; ".join(parts)) if parts else None
