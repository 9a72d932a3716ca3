"""Caltech-101, four levels of one descriptor: the effect of OBSCURE's p."""

from __future__ import annotations

import numpy as np

from multikernel.compare.tuning import inner_folds
from multikernel.experiments import archives as a
from multikernel.experiments.drawing import along
from multikernel.experiments.images import CALTECH, caltech_split
from multikernel.experiments.protocol import FAILS, HOLDS, IN_PART, Entry, Protocol, Task, Verdict
from multikernel.experiments.protocols.flower17 import GROUP_NORMS
from multikernel.experiments.results import Results
from multikernel.kernels import ChiSquared, SpatialPyramid

C = (1.0, 10.0, 100.0, 1000.0)
SIDE = 8


def task(archives: a.Archives, setting: str, split: int, quick: bool) -> Task:
    archive = archives.load(CALTECH)
    y = archive["y"]
    train, test = caltech_split(archive, split, 30 if quick else 102)
    kernels: list = [SpatialPyramid(levels=(k,), grid=SIDE, name=f"{k}x{k}") for k in (1, 2, 4)]
    X, _ = a.joined(archive, ["phog180"])
    kernels.append(ChiSquared(name=f"{SIDE}x{SIDE}"))
    training, testing = a.from_features(X, kernels, train, test, standardize=False)
    return Task(training, testing, y[train], y[test], inner_folds(y[train], 3, split)[:1])


def effect_of_p(results: Results, figure) -> None:
    """Accuracy against OBSCURE's group norm p, with the average and the best single kernel."""
    if results.entries_done():
        values = {f"p{p:g}": p for p in GROUP_NORMS}
        along(results, figure.add_subplot(), values, "group norm p", ("average", "best"))


def claims(results: Results) -> list[Verdict]:
    scores = {p: 100 * results.score(f"p{p:g}") for p in GROUP_NORMS if results.scores(f"p{p:g}")}
    if len(scores) < len(GROUP_NORMS):
        return []
    best = max(scores, key=lambda p: scores[p])
    gain, deviation, count = results.difference(f"p{best:g}", "p2")
    error = 0.0 if count < 2 else deviation / count**0.5
    verdict = FAILS if best == 2.0 else HOLDS if gain > max(2 * error, 0.0) and best < 2 else IN_PART
    text = ", ".join(f"p = {p:g}: {score:.1f}" for p, score in scores.items())
    used = {p: np.mean([r["weights"][0] for r in results.records("all", f"p{p:g}")], axis=0) for p in (1.01, 2.0)}
    shares = ", ".join(f"{100 * share:.0f}" for share in used[1.01])
    few = HOLDS if (used[1.01] > 0.05).sum() == 1 else IN_PART if (used[1.01] > 0.05).sum() < 4 else FAILS
    return [
        Verdict("By changing p it is possible to improve on p = 2, the sum", "OJC10, Figure 2", verdict, text),
        Verdict(
            "As p goes to 1, three of the four kernels vanish",
            "OJC10, sect. 4.2",
            few,
            f"shares of the weights at p = 1.01, in percent: {shares}",
        ),
    ]


PROTOCOL = Protocol(
    name="caltech-phog",
    title="Caltech-101, the effect of p on four PHOG levels",
    about="χ² kernels on 1 × 1, 2 × 2, 4 × 4 and 8 × 8 cells of gradient histograms; 15 training and 15 test images "
    "a class on three given splits; C chosen on a third of the training images. A quick run has 30 classes.",
    source="[OJC10, Figure 2]",
    files=(CALTECH,),
    entries=(
        Entry("average", "average", "average", grid={"C": C}),
        Entry("best", "best", "best single kernel", grid={"C": C}),
        *(
            Entry(
                f"p{p:g}", "obscure", f"OBSCURE, p = {p:g}", {"p": p, "solver": "sdca", "random_state": 0}, {"C": C}
            )
            for p in GROUP_NORMS
        ),
    ),
    task=task,
    figures=(effect_of_p,),
    claims=claims,
    minutes=5,
)
