"""Caltech-101, four levels of one descriptor: the effect of OBSCURE's p, and what its online stage reaches."""

from __future__ import annotations

from multikernel.compare.tuning import inner_folds
from multikernel.kernels import ChiSquared, SpatialPyramid
from multikernel_experiments import archives as a
from multikernel_experiments.findings.drawing import Picture
from multikernel_experiments.findings.lines import against_time, near_the_end
from multikernel_experiments.findings.norms import better_than_last, one_kernel_left
from multikernel_experiments.findings.score_figures import score_by_parameter
from multikernel_experiments.findings.verdicts import Claim
from multikernel_experiments.images import CALTECH, caltech_split
from multikernel_experiments.protocol import PRINTED, Entry, Protocol, Task, along
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


PAPER, FIXED = "OJC10, Figure 2 (left)", {"C": 10.0, "random_state": 0, "tol": 1e-3}
PRINTED_LINES, ONLINE_LINES = [f"printed-{p:g}" for p in GROUP_NORMS], [f"online-{p:g}" for p in GROUP_NORMS]


def lines(p: float) -> list[Entry]:
    """Longer and longer fits of the printed algorithm, and of its online stage alone."""
    printed = Entry(f"printed-{p:g}", "obscure", f"p = {p:g}", {**FIXED, "p": p, "solver": "obscure-printed"})
    online = Entry(f"online-{p:g}", "obscure", f"p = {p:g}, online", {**FIXED, "p": p, "solver": "online"})
    return [*along(printed, (4, 16, 64, 256)), *along(online, (1, 4, 16))]


CLAIMS = (
    Claim(
        "By changing p it is possible to improve on p = 2, the sum",
        PAPER,
        better_than_last,
        by='ObscureClassifier(solver="sdca")',
        norms=NORMS,
    ),
    Claim(
        "As p goes to 1, three of the four kernels vanish",
        PAPER,
        one_kernel_left,
        by='ObscureClassifier(solver="sdca")',
        norms=NORMS,
    ),
    *(
        Claim(
            f"p = {p:g}: the online stage is close to the optimum in a tenth of the time",
            PAPER,
            near_the_end,
            by='ObscureClassifier(solver="online"), against "obscure-printed"',
            about=PRINTED,
            key=f"online-{p:g}",
            other=f"printed-{p:g}",
            faster=10.0,
        )
        for p in (1.01, 1.1, 2.0)
    ),
)
DIFFERS = "Other descriptors and splits; three splits; lines against time have C = 10, points C by validation."

PROTOCOL = Protocol(
    name="caltech-phog",
    title="Caltech-101, the effect of p on four PHOG levels",
    about="χ² kernels on 1 × 1, 2 × 2, 4 × 4 and 8 × 8 cells of gradient histograms; 15 training and 15 test images "
    "a class on three given splits; C chosen on a third of the training images. A quick run has 30 classes.",
    source="[OJC10, Figure 2 (left)]",
    files=(CALTECH,),
    entries=(
        Entry("average", "average", "average", grid={"C": C}),
        Entry("best", "best", "best single kernel", grid={"C": C}),
        *(
            Entry(key, "obscure", f"OBSCURE, p = {p:g}", {"p": p, "solver": "sdca", "random_state": 0}, {"C": C})
            for key, p in NORMS.items()
        ),
        *(entry for p in GROUP_NORMS for entry in lines(p)),
    ),
    task=task,
    figures=(
        Picture(
            "effect_of_p",
            score_by_parameter,
            "Accuracy against OBSCURE's group norm p, with the average and the best single kernel.",
            of=PAPER,
            differs=DIFFERS,
            values=NORMS,
            name="group norm p",
            baselines=("average", "best"),
        ),
        Picture(
            "against_time",
            against_time,
            "Accuracy against time for each p: OBSCURE as printed, and dashed its online stage alone.",
            of=PAPER,
            differs=DIFFERS,
            problems={"printed": PRINTED_LINES, "online": ONLINE_LINES},
            objective=False,
            pairs=True,
        ),
    ),
    claims=CLAIMS,
    minutes=8,
)
