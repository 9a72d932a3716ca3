"""Two Gaussians and 18 kernels, two of them noise: does a t between 1 and 18 win?"""

from __future__ import annotations

import math

import numpy as np

from multikernel.compare.tuning import inner_folds
from multikernel.experiments import archives as a
from multikernel.experiments.drawing import plain, style
from multikernel.experiments.protocol import FAILS, HOLDS, IN_PART, Entry, Protocol, Task, Verdict
from multikernel.experiments.results import Results
from multikernel.experiments.sparsity import (
    draw_along_t,
    draw_levels,
    entries_along_t,
    scores_along_t,
    used_along_t,
)

TS = (1, 2, 3, 4, 5, 6, 8, 10, 12, 14, 16, 18)
# two widths of the Gaussian kernels, in deviations of a class: the paper leaves them blank
WIDTHS = {"narrow": (0.1, 0.5), "middle": (0.5, 2.0), "wide": (2.0, 8.0)}
DEGREES = (1, 3)
LINES = {"cskl": "CSKL", "nu": "ν-CSKL", "exact": "exactly t kernels"}
LEVELS = {"simple": "SimpleMKL", "l2": "ℓ2 MKL", "validated": "CSKL, t by validation"}
N_POINTS, N_FRESH = 500, 2000


def task(archives: a.Archives, setting: str, split: int, quick: bool) -> Task:
    """500 points, half of them to learn from; scored on the others and on 2000 fresh ones."""
    rng = np.random.default_rng(split)
    n = N_POINTS + N_FRESH
    y = np.arange(n) % 2
    X = rng.standard_normal((n, 3)) + 3.0 * y[:, None]
    X = np.hstack([X, rng.standard_normal((n, 2))])  # what the noise kernels see
    train = np.arange(N_POINTS // 2)
    test = np.arange(len(train), n)
    stacks = a.from_features(X, kernels_of(WIDTHS[setting]), train, test, standardize=False)
    training, testing = a.normalized(stacks, "cosine")
    return Task(training, testing, y[train], y[test], inner_folds(y[train], 3, split))


def kernels_of(widths: tuple[float, float]) -> list:
    """Two Gaussian and two polynomial kernels on each dimension and on all three; two Gaussian ones on noise."""
    from multikernel.kernels import RBF, Polynomial

    kernels: list = []
    for name, columns in (("1", [0]), ("2", [1]), ("3", [2]), ("all", [0, 1, 2])):
        kernels += [RBF(gamma=0.5 / w**2, columns=columns, name=f"Gaussian {w:g}, {name}") for w in widths]
        kernels += [
            Polynomial(degree=d, gamma=1.0, coef0=1.0, columns=columns, name=f"degree {d}, {name}") for d in DEGREES
        ]
    noise = [RBF(gamma=0.5 / w**2, columns=[3 + k], name=f"noise {k + 1}") for k, w in enumerate(widths)]
    return [*kernels, *noise]


def accuracy_against_t(results: Results, figure) -> None:
    """Accuracy against t for each choice of widths, mean ± one standard error over seeds [GMSB11, Figure 1]."""
    settings = [s for s in results.protocol.settings if scores_along_t(results, "cskl", TS, [s]).size]
    if not settings:
        return
    figure.set_size_inches(3.6 * len(settings) + 1.5, 4.2)
    for axes, setting in zip(np.atleast_1d(figure.subplots(1, len(settings))), settings):
        draw_along_t(results, axes, LINES, TS, [setting])
        draw_levels(results, axes, LEVELS, [setting])
        axes.set_title(f"Gaussian widths {WIDTHS[setting][0]:g} and {WIDTHS[setting][1]:g}", fontsize=10)
    handles: dict = {}
    for axes in figure.axes:
        handles |= dict(zip(*reversed(axes.get_legend_handles_labels())))
    figure.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=3, frameon=False)


def kernels_against_t(results: Results, figure) -> None:
    """Kernels with a weight against t, mean over seeds; dotted: t itself."""
    settings = results.protocol.settings
    if not scores_along_t(results, "cskl", TS, settings).size:
        return
    axes = figure.add_subplot()
    for k, (key, title) in enumerate(LINES.items()):
        axes.plot(TS, used_along_t(results, key, TS, settings), label=title, **style(k))
    axes.plot(TS, TS, ":", color="black")
    axes.set(xlabel="t", ylabel="kernels with a weight")
    plain(axes)
    axes.legend(frameon=False)


def claims(results: Results) -> list[Verdict]:
    """Does an interior t beat both ends, by how much, and does validation find it?"""
    verdicts = []
    for key, title in LINES.items():
        found, parts = [], []
        for setting in results.protocol.settings:
            scores = 100 * scores_along_t(results, key, TS, [setting])
            if not scores.size:
                continue
            best = int(scores.mean(axis=1).argmax())
            end = int(scores[[0, -1]].mean(axis=1).argmax())
            lead = scores[best] - scores[[0, -1]][end]
            error = float(lead.std(ddof=1)) / math.sqrt(len(lead)) if len(lead) > 1 else 0.0
            interior = 0 < best < len(TS) - 1
            found.append(interior and float(lead.mean()) > 2 * error)
            parts.append(
                f"{setting}: best t = {TS[best]} ({scores[best].mean():.2f}), t = 1 {scores[0].mean():.2f}, t = 18 "
                f"{scores[-1].mean():.2f}, lead {lead.mean():+.2f} ± {error:.2f}"
            )
        if found:
            verdict = HOLDS if all(found) else IN_PART if any(found) else FAILS
            claim = f"{title}: a t between 1 and 18 is better than both ends"
            verdicts.append(Verdict(claim, "GMSB11, Figure 1", verdict, "; ".join(parts)))
    return verdicts + _validated(results)


def _validated(results: Results) -> list[Verdict]:
    parts, leads = [], []
    for setting in results.protocol.settings:
        for other, title in (("simple", "SimpleMKL"), ("l2", "ℓ2 MKL")):
            lead, deviation, count = results.difference("validated", other, setting)
            if count > 1:
                leads.append(lead > 2 * deviation / math.sqrt(count))
                error = 100 * deviation / math.sqrt(count)
                parts.append(f"{setting}, against {title} {100 * lead:+.2f} ± {error:.2f}")
    if not parts:
        return []
    verdict = HOLDS if all(leads) else IN_PART if any(leads) else FAILS
    claim = "CSKL with t chosen by validation is better than sparse and non-sparse MKL"
    return [Verdict(claim, "GMSB11, sect. 5.2", verdict, "; ".join(parts))]


PROTOCOL = Protocol(
    name="cskl-toy",
    title="CSKL on two Gaussians, 18 kernels",
    about="500 points in three dimensions from Gaussians with unit covariance and means (0, 0, 0) and (3, 3, 3). Two "
    "Gaussian and two polynomial kernels (degrees 1 and 3) on each dimension and on all three, and two Gaussian "
    "kernels on dimensions that are noise; unit diagonals. The paper leaves widths and noise kernels open: three "
    "pairs of widths are tried. Half of the points train; accuracy is that on the other half and on 2000 fresh "
    "points, over ten seeds. C = 1, ν = 0.1. Exactly t kernels at the middle widths only.",
    source="[GMSB11, sect. 5.1.1 and Figure 1]",
    files=(),
    entries=(
        Entry("simple", "mkl", "SimpleMKL", {"p": 1.0}),
        Entry("l2", "mkl", "ℓ2 MKL", {"p": 2.0}),
        Entry("validated", "cskl", "CSKL, t by validation", {}, {"t": TS}),
        *entries_along_t("cskl", "CSKL", TS, {}),
        *entries_along_t("nu", "ν-CSKL", TS, {"nu": 0.1}),
        *entries_along_t("exact", "exactly", TS, {"exact": True, "max_time": 20.0}, leaves_out=("narrow", "wide")),
    ),
    task=task,
    settings=tuple(WIDTHS),
    quick_settings=("middle",),
    setting_title="widths",
    n_splits=10,
    quick_splits=2,
    figures=(accuracy_against_t, kernels_against_t),
    claims=claims,
    minutes=2.5,
)
