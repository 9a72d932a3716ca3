"""Caltech-101, pairs of classes and one class against the rest: CSKL against sparse and non-sparse MKL."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from multikernel.compare.tuning import inner_folds
from multikernel.experiments import archives as a
from multikernel.experiments.drawing import COLOURS, plain, style
from multikernel.experiments.images import CALTECH, caltech_split, distances_of
from multikernel.experiments.protocol import FAILS, HOLDS, IN_PART, Entry, Protocol, Task, Verdict
from multikernel.experiments.results import Results
from multikernel.experiments.sparsity import (
    draw_along_t,
    draw_levels,
    entries_along_t,
    paired_scores,
    scores_along_t,
    sign_test,
    used_along_t,
)

# colour, grey, shape, self-similarity: the four descriptors of the paper, as near as the archive has them
FAMILIES = {"csift": (2,), "sift": (2,), "phog180": (4,), "ssim": (2,)}
WIDTHS = (0.0625, 0.125, 0.25, 0.5, 1.0)  # in mean distances
TS = (1, 2, 4, 8, 20)
N_PROBLEMS, NEGATIVES = 102, 5
PAIRS, REST = ("pairs 1–102", "pairs 103–204", "pairs 205–306"), "one against the rest"
KINDS = {"pairs": PAIRS, "one against the rest": (REST,)}
LINES = {"nu": "ν-CSKL", "cskl": "CSKL"}
RIVALS = {"l2": "ℓ2 MKL", "simple": "SimpleMKL"}


def problem(y: NDArray, train: NDArray, test: NDArray, setting: str, number: int) -> tuple[NDArray, NDArray, NDArray]:
    """Training and test images of a binary problem, and the label of every image in it."""
    classes = np.unique(y)
    if setting == REST:
        one = classes[number % len(classes)]
        kept = [train[y[train] == label][: None if label == one else NEGATIVES] for label in classes]
        return np.concatenate(kept), test, (y == one).astype(int)
    pairs = np.array(list(combinations(classes, 2)))
    drawn = np.random.default_rng(0).permutation(len(pairs))
    pair = pairs[drawn[(PAIRS.index(setting) * N_PROBLEMS + number) % len(pairs)]]
    return train[np.isin(y[train], pair)], test[np.isin(y[test], pair)], (y == pair[1]).astype(int)


def task(archives: a.Archives, setting: str, split: int, quick: bool) -> Task:
    archive = archives.load(CALTECH)
    train, test = caltech_split(archive, 0)
    rows = np.sort(np.concatenate([train, test]))
    distances, names = archives.once(f"{CALTECH} four", lambda: four_distances(archive, rows))
    chosen, tested, labels = problem(archive["y"], train, test, setting, split)
    place = np.searchsorted(rows, chosen), np.searchsorted(rows, tested)
    # exp(−D / (w · mean D)) is the kernel of width 1 to the power 1 / w
    wide = a.from_distances(distances, names, *place)
    training, testing = (widened(stack) for stack in wide)
    y = labels[chosen]
    return Task(training, testing, y, labels[tested], inner_folds(y, 3, split)[: 1 if setting == REST else 3])


def four_distances(archive, rows: NDArray) -> tuple[NDArray, list[str]]:
    """Distances of the four descriptors, without gist."""
    distances, names = distances_of(archive, rows, FAMILIES)
    return distances[: len(FAMILIES)], names[: len(FAMILIES)]


def widened(stack):
    """Every kernel at five widths, those of a descriptor side by side."""
    from multikernel.gram import DenseStack

    K = stack.to_array()
    powers = np.stack([kernel ** np.float32(1 / w) for kernel in K for w in WIDTHS])
    names = [f"{str(name).split()[0]} {w:g}" for name in stack.names for w in WIDTHS]
    ones = None if stack.symmetric else np.ones((len(names), len(stack)))
    return DenseStack(powers, names, symmetric=stack.symmetric, self_similarity=ones)


def chosen_scores(
    results: Results, key: str, how: str, rival: str, settings: Sequence[str]
) -> tuple[NDArray, NDArray]:
    """Scores with t by validation, or the best over t on the test images, and those of a rival."""
    if how == "validation":
        return paired_scores(results, f"{key}-validated", rival, settings)
    best = scores_along_t(results, key, TS, settings)
    others = paired_scores(results, rival, f"{key}-{TS[-1]}", settings)[0]
    best = best.max(axis=0) if best.size else np.zeros(0)
    return (best, others) if len(best) == len(others) else (np.zeros(0), np.zeros(0))


def comparisons(results: Results) -> list[tuple[str, str, str, str, NDArray, NDArray]]:
    """Kind of problem, method, how t was chosen, rival, and the scores of both, for all that was done."""
    found = []
    for kind, settings in KINDS.items():
        for key in LINES:
            for how in ("validation", "best on test"):
                for rival in RIVALS:
                    ours, theirs = chosen_scores(results, key, how, rival, settings)
                    if len(ours):
                        found.append((kind, key, how, rival, ours, theirs))
    return found


def wins(results: Results) -> list[tuple[str, tuple[list[str], list[list[str]]]]]:
    """Table of wins, ties and losses."""
    heads = ["problems", "method", "t by", "against", "ratio of accuracies", "wins", "ties", "losses", "sign test"]
    rows = []
    for kind, key, how, rival, ours, theirs in comparisons(results):
        won, ties, lost, p = sign_test(ours, theirs)
        ratio = f"{np.mean(ours / np.maximum(theirs, 1e-12)):.4f}"
        counts = [str(won), str(ties), str(lost)]
        rows.append([kind, LINES[key], how, RIVALS[rival], ratio, *counts, f"p = {p:.1g}"])
    return [("Wins, ties and losses", (heads, rows))] if rows else []


def ratios(results: Results, figure) -> None:
    """Accuracy over that of SimpleMKL and of ℓ2 MKL, problems in order of it [GMSB11, Figures 4 to 7]."""
    found = comparisons(results)
    if not found:
        return
    figure.set_size_inches(10.0, 4.4)
    panels = dict(zip(KINDS, figure.subplots(1, len(KINDS))))
    shown: dict[str, int] = {}
    for kind, key, how, rival, ours, theirs in found:
        label = f"{LINES[key]}, t by {how}, over {RIVALS[rival]}"
        k = shown.setdefault(f"{LINES[key]} {RIVALS[rival]}", len(shown))
        share = np.linspace(0, 100, len(ours))
        line = "-" if how == "validation" else ":"
        # the first ones are drawn broad, so that they are seen under others that are equal
        width = 4.0 - k
        shown_ratio = np.sort(ours / np.maximum(theirs, 1e-12))
        panels[kind].plot(share, shown_ratio, line, color=COLOURS[k], label=label, linewidth=width, alpha=0.8)
    for kind, axes in panels.items():
        axes.axhline(1.0, color="black", linewidth=0.8)
        axes.set(title=kind, xlabel="problems in percent, worst first", ylabel="ratio of accuracies")
        plain(axes)
    labels: dict = {}
    for axes in figure.axes:
        labels |= dict(zip(*reversed(axes.get_legend_handles_labels())))
    figure.legend(labels.values(), labels.keys(), loc="outside lower center", ncols=2, frameon=False, fontsize=8)


def accuracy_against_t(results: Results, figure) -> None:
    """Mean accuracy over all problems against t ± one standard error [GMSB11, Figure 8]."""
    _panels(results, figure, lambda axes, settings: draw_along_t(results, axes, LINES, TS, settings), RIVALS)


def descriptors_against_t(results: Results, figure) -> None:
    """Kernels, and descriptors of four, with a weight against t, mean over problems [GMSB11, Figure 13]."""

    def draw(axes, settings: Sequence[str]) -> None:
        for k, (key, title) in enumerate(LINES.items()):
            if scores_along_t(results, key, TS, settings).size:
                counts = used_along_t(results, key, TS, settings)
                axes.plot(TS, counts, label=f"{title}, kernels of 20", **style(k))
                counts = used_along_t(results, key, TS, settings, families=len(FAMILIES))
                axes.plot(TS, counts, "--", label=f"{title}, descriptors of 4", **style(k))
        axes.set(xlabel="t", ylabel="with a weight", xticks=TS)
        plain(axes)

    _panels(results, figure, draw, {})


def _panels(results: Results, figure, draw, levels) -> None:
    """A panel for pairs and one for one against the rest."""
    if not any(scores_along_t(results, key, TS, results.protocol.settings).size for key in LINES):
        return
    figure.set_size_inches(9.0, 4.2)
    for axes, (kind, settings) in zip(figure.subplots(1, len(KINDS)), KINDS.items()):
        draw(axes, settings)
        draw_levels(results, axes, levels, settings)
        axes.set_title(kind, fontsize=10)
        if axes.get_legend_handles_labels()[0]:
            axes.legend(frameon=False, fontsize=8)


def claims(results: Results) -> list[Verdict]:
    published = {("pairs", "l2"): "5112 of 5151", ("pairs", "simple"): "1498 of 5151"}
    published |= {("one against the rest", "l2"): "97 of 102", ("one against the rest", "simple"): "91 of 102"}
    verdicts = []
    for kind, key, how, rival, ours, theirs in comparisons(results):
        if key != ("nu" if kind == "pairs" else "cskl"):
            continue  # the paper has ν-CSKL for pairs, CSKL for one against the rest
        won, ties, lost, p = sign_test(ours, theirs)
        verdict = FAILS if won <= lost else HOLDS if p < 0.05 and won > len(ours) / 2 else IN_PART
        claim = f"{kind}: {LINES[key]}, t by {how}, is better than {RIVALS[rival]}"
        text = f"{won} wins, {ties} ties, {lost} losses (p = {p:.1g}); mean accuracy {100 * ours.mean():.2f} against "
        text += f"{100 * theirs.mean():.2f}; published: better on {published[kind, rival]}"
        if (how, rival) == ("best on test", "simple"):
            text += "; t = 1 is SimpleMKL, so that the best t cannot lose"
        verdicts.append(Verdict(claim, "GMSB11, sect. 5.4", verdict, text))
    return verdicts + _saturation(results)


def _saturation(results: Results) -> list[Verdict]:
    parts, held = [], []
    for kind, settings in KINDS.items():
        for key, title in LINES.items():
            scores = scores_along_t(results, key, TS, settings)
            if scores.size:
                means = 100 * scores.mean(axis=1)
                held.append(means[2] >= means.max() - 0.5)
                four = used_along_t(results, key, [4], settings)[0]
                parts.append(
                    f"{kind}, {title}: t = 1 {means[0]:.2f}, t = 4 {means[2]:.2f}, t = 20 {means[-1]:.2f}, best "
                    f"t = {TS[int(means.argmax())]} {means.max():.2f}; t = 4 has {four:.1f} kernels"
                )
    if not parts:
        return []
    verdict = HOLDS if all(held) else IN_PART if any(held) else FAILS
    claim = "Accuracy more or less saturates from t = 4 on: within half a point of the best t"
    return [Verdict(claim, "GMSB11, Figure 8", verdict, "; ".join(parts))]


FIXED = {"C": 10.0}
PROTOCOL = Protocol(
    name="cskl-caltech",
    title="CSKL on Caltech-101, pairs and one against the rest",
    about="Four descriptors (colour SIFT, SIFT, gradients, self-similarity) at five widths, 2⁻⁴ to 1 times the mean "
    "distance: 20 kernels. 306 pairs of classes drawn at random, with 15 training and 15 test images a class; and "
    "each of 102 classes against the rest, with 15 training images of the class and five of each other (to save "
    "time) and all test images. C = 10, ν = 0.2 and five values of t, chosen by validation (three folds, one for "
    "one against the rest) and, as in the paper, by the best accuracy on the test images, which favours CSKL. "
    "As in the paper ν-CSKL is for pairs; CSKL is for one against the rest, and beside it for the first 102 pairs.",
    source="[GMSB11, sect. 5.3 and 5.4]",
    files=(CALTECH,),
    entries=(
        Entry("simple", "mkl", "SimpleMKL", {"p": 1.0, **FIXED}),
        Entry("l2", "mkl", "ℓ2 MKL", {"p": 2.0, **FIXED}),
        Entry("cskl-validated", "cskl", "CSKL", FIXED, {"t": TS}, leaves_out=PAIRS[1:]),
        Entry("nu-validated", "cskl", "ν-CSKL", {"nu": 0.2}, {"t": TS}, leaves_out=(REST,)),
        *entries_along_t("cskl", "CSKL", TS, FIXED, leaves_out=PAIRS[1:]),
        *entries_along_t("nu", "ν-CSKL", TS, {"nu": 0.2}, leaves_out=(REST,)),
    ),
    task=task,
    settings=(*PAIRS, REST),
    setting_title="problems",
    n_splits=N_PROBLEMS,
    quick_splits=6,
    figures=(ratios, accuracy_against_t, descriptors_against_t),
    claims=claims,
    minutes=6,
    tables=wins,
)
