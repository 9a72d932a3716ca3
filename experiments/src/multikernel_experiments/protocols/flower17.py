"""Oxford flowers, 17 classes, 7 kernels: all ways of combining them."""

from __future__ import annotations

import math

import numpy as np

from multikernel_experiments.archives import Archives, from_distances, unfold
from multikernel_experiments.findings.drawing import Picture
from multikernel_experiments.findings.score_figures import score_intervals
from multikernel_experiments.findings.scores import ahead_of_all, alike
from multikernel_experiments.findings.verdicts import Claim
from multikernel_experiments.protocol import Entry, Protocol, Task

C = (1.0, 10.0, 100.0, 1000.0)
WEIGHT_NORMS = (1.0, 1.0 + 2**-4, 1.25, 1.5, 2.0, 4.0, math.inf)
GROUP_NORMS = (1.01, 1.05, 1.10, 1.25, 1.50, 1.75, 2.0)  # [OJC10, sect. 4]
FISHER_NORMS = (1.0, *(1.0 + 2.0**-k for k in range(6, 0, -1)), 2.0, 3.0, 4.0, 8.0, 1e6)  # [YMBCK10, sect. 4.1]
REGS = tuple(np.logspace(-8, 1, 10).tolist())
SVM_CS = tuple(2.0**k for k in range(-2, 8))  # those of MK-SVM there
FILE = "flower17_dist.npz"
DIFFERS = "Descriptors and splits are not those of the papers, so published figures are comparable, not identical."


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
    Entry("silp", "mkl", "MKL per class, SILP", {"weights": "per-class", "solver": "silp"}, {"C": C}, "85.2 ± 1.5"),
    Entry(
        "simplemkl",
        "mkl",
        "MKL per class, SimpleMKL",
        {"weights": "per-class", "solver": "simplemkl"},
        {"C": C},
        "85.2 ± 1.5",
    ),
    Entry("mkl", "mkl", "MKL, p = 1", grid={"C": C}),
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

TABLE_3 = ("product", "average", "silp", "simplemkl", "cg-boost", "lp-beta", "lp-b", "mkfda")
CLAIMS = (
    Claim(
        "ℓp MK-FDA is better than the seven others of the table",
        "YMBCK10, Table 3",
        ahead_of_all,
        by="MKFDAClassifier, p and λ on the validation images",
        key="mkfda",
        title="MK-FDA",
        among=TABLE_3,
    ),
    Claim(
        "All ways of combining achieve similar results",
        "OJC10, sect. 4.1",
        alike,
        by="solvers of the table, parameters on the validation images",
        among=("silp", "simplemkl", "lp-beta", "obscure"),  # those of the paper's comparison
    ),
)

PROTOCOL = Protocol(
    name="flower17",
    title="Flower17, seven kernels",
    about="Seven kernels exp(−D / mean D) on three given splits of 1360 images. Parameters are chosen on the "
    "validation samples, then the method is fitted to training and validation samples (1020) and scored on 340.",
    source="[YMBCK10, Table 3]",
    files=(FILE,),
    entries=ENTRIES,
    task=task,
    figures=(Picture("score_intervals", score_intervals, of="YMBCK10, Table 3", differs=DIFFERS),),
    claims=CLAIMS,
    minutes=4,
)
