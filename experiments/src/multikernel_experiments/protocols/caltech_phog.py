"""Caltech-101, four levels of one descriptor: the effect of OBSCURE's p."""

from __future__ import annotations

from multikernel.compare.tuning import inner_folds
from multikernel.kernels import ChiSquared, SpatialPyramid
from multikernel_experiments import archives as a
from multikernel_experiments.findings.drawing import Picture
from multikernel_experiments.findings.norms import better_than_last, one_kernel_left
from multikernel_experiments.findings.score_figures import score_by_parameter
from multikernel_experiments.findings.verdicts import Claim, verdicts_on
from multikernel_experiments.images import CALTECH, caltech_split
from multikernel_experiments.protocol import Entry, Protocol, Task
from multikernel_experiments.protocols.flower17 import GROUP_NORMS

C = (1.0, 10.0, 100.0, 1000.0)
NORMS = {f"p{p:g}": p for p in GROUP_NORMS}  # by key
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


CLAIMS = verdicts_on(
    Claim(
        "By changing p it is possible to improve on p = 2, the sum", "OJC10, Figure 2", better_than_last, norms=NORMS
    ),
    Claim("As p goes to 1, three of the four kernels vanish", "OJC10, sect. 4.2", one_kernel_left, norms=NORMS),
)

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
            Entry(key, "obscure", f"OBSCURE, p = {p:g}", {"p": p, "solver": "sdca", "random_state": 0}, {"C": C})
            for key, p in NORMS.items()
        ),
    ),
    task=task,
    figures=(
        Picture(
            "effect_of_p",
            score_by_parameter,
            "Accuracy against OBSCURE's group norm p, with the average and the best single kernel.",
            values=NORMS,
            name="group norm p",
            baselines=("average", "best"),
        ),
    ),
    claims=CLAIMS,
    minutes=5,
)
