"""Oxford flowers, 17 classes, 7 kernels: all ways of combining them, and their course against time."""

from __future__ import annotations

import math

import numpy as np

from multikernel_experiments.archives import Archives, from_distances, unfold
from multikernel_experiments.findings.histories import against_time, race
from multikernel_experiments.findings.score_figures import score_intervals
from multikernel_experiments.findings.scores import ahead_of_all, alike
from multikernel_experiments.findings.verdicts import Claim, verdicts_on
from multikernel_experiments.protocol import Course, Entry, Protocol, Task

C = (1.0, 10.0, 100.0, 1000.0)
WEIGHT_NORMS = (1.0, 1.0 + 2**-4, 1.25, 1.5, 2.0, 4.0, math.inf)
GROUP_NORMS = (1.01, 1.05, 1.10, 1.25, 1.50, 1.75, 2.0)  # [OJC10, sect. 4]
FISHER_NORMS = (1.0, *(1.0 + 2.0**-k for k in range(6, 0, -1)), 2.0, 3.0, 4.0, 8.0, 1e6)  # [YMBCK10, sect. 4.1]
REGS = tuple(np.logspace(-8, 1, 10).tolist())
FILE = "flower17_dist.npz"


def task(archives: Archives, setting: str, split: int, quick: bool) -> Task:
    archive = archives.load(FILE)
    y = archive["y"]
    distances = archives.once(FILE, lambda: unfold(archive["D_triu"], len(y)))
    train, val, test = (archive[f"{part}{split + 1}"].astype(int) for part in ("trn", "val", "tst"))
    both = np.concatenate([train, val])
    training, testing = from_distances(distances, [str(name) for name in archive["names"]], both, test)
    fold = np.arange(len(train)), np.arange(len(train), len(both))
    return Task(training, testing, y[both], y[test], [fold])


OBSCURE = {"solver": "obscure", "max_iter": 300, "tol": 1e-2, "random_state": 0}
SDCA = {"solver": "sdca", "tol": 5e-3, "random_state": 0}
ENTRIES = (
    Entry("average", "average", "average", grid={"C": C}, published="84.9 ± 1.9"),
    Entry("product", "product", "product", grid={"C": C}, published="85.5 ± 1.2"),
    Entry("best", "best", "best single kernel", grid={"C": C}),
    Entry("mkl", "mkl", "MKL, p = 1", grid={"C": C}, published="85.2 ± 1.5"),
    Entry("mkl-p", "mkl", "ℓp MKL", grid={"p": WEIGHT_NORMS, "C": C}),
    Entry("mkfda", "mkfda", "ℓp MK-FDA", grid={"p": FISHER_NORMS, "reg": REGS}, published="86.7 ± 1.2"),
    Entry("obscure", "obscure", "OBSCURE, stochastic", OBSCURE, {"p": GROUP_NORMS, "C": C}),
    Entry("sdca", "obscure", "OBSCURE's problem, sdca", SDCA, {"p": GROUP_NORMS, "C": C}),
    Entry("ufo", "ufo", "UFO-MKL", {"random_state": 0}, {"C": C}),
    Entry("cg-boost", "cg-boost", "CG-Boost", {}, {"C": C}, published="84.8 ± 2.2"),
    # its own folds give the scores to combine: the validation set alone would leave most samples without
    Entry("lp-beta", "lp-beta", "LP-β", {}, {"nu": (0.05, 0.2, 0.5), "cv": (5,)}, published="85.5 ± 3.0"),
    Entry("lp-b", "lp-b", "LP-B", {}, {"nu": (0.05, 0.2, 0.5), "cv": (5,)}, published="85.4 ± 2.4"),
)

GROUP = {"random_state": 0, "tol": 1e-4}
EPOCHS = (1, 2, 5, 10, 30, 100, 300, 1000)
COURSES = (
    Course("obscure", "obscure", "OBSCURE", "obscure", "group norm", {**GROUP, "solver": "obscure"}, EPOCHS),
    Course("pegasos", "obscure", "p-norm Pegasos", "obscure", "group norm", {**GROUP, "solver": "pegasos"}, EPOCHS),
    Course("sdca", "obscure", "sdca", "obscure", "group norm", {**GROUP, "solver": "sdca"}, (1, 2, 4, 8, 16, 32)),
    Course("ufo", "ufo", "UFO-MKL", "ufo", "ufo", GROUP, EPOCHS),
    Course("silp", "mkl", "SILP", "mkl", "p = 1", {"solver": "silp"}),
    Course("simplemkl", "mkl", "SimpleMKL", "mkl", "p = 1", {"solver": "simplemkl"}, (1, 2, 4, 8, 16, 32)),
    Course("newton", "mkl", "MKL, newton", "mkl", "p = 1", {"solver": "newton"}, (1, 2, 4, 8)),
    Course("average", "average", "average", "average", "average", {}, (1000,)),
)


BESIDE = {"cg-boost": "CG-Boost, which is not in that comparison,"}
CLAIMS = verdicts_on(
    Claim(
        "ℓp MK-FDA is better than all others",
        "YMBCK10, Table 3",
        ahead_of_all,
        key="mkfda",
        title="MK-FDA",
        without=("best",),
    ),
    Claim(
        "All ways of combining achieve similar results", "OJC10, sect. 4.1", alike, without=("best",), beside=BESIDE
    ),
    Claim("OBSCURE converges much faster than Pegasos", "OJC10, Figure 1", race, key="obscure", rival="pegasos"),
)

PROTOCOL = Protocol(
    name="flower17",
    title="Flower17, seven kernels",
    about="Seven kernels exp(−D / mean D) on three given splits of 1360 images. Parameters are chosen on the "
    "validation samples, then the method is fitted to training and validation samples (1020) and scored on 340. "
    "Descriptors and splits are not those of the papers, so published figures are comparable, not identical.",
    source="[YMBCK10, Table 3], [OJC10, Figure 1]",
    files=(FILE,),
    entries=ENTRIES,
    task=task,
    course=COURSES,
    figures=(score_intervals, against_time),
    claims=CLAIMS,
    minutes=4,
)
