"""Caltech-101 with added noise kernels: do learnt norms stay on top at every level of noise?"""

from __future__ import annotations

import math

import numpy as np
from sklearn.metrics.pairwise import euclidean_distances

from multikernel.compare.tuning import inner_folds
from multikernel_experiments import archives as a
from multikernel_experiments.findings.drawing import Picture
from multikernel_experiments.findings.norms import sparse_is_robust
from multikernel_experiments.findings.score_figures import score_by_setting
from multikernel_experiments.findings.scores import on_top_everywhere
from multikernel_experiments.findings.verdicts import Claim
from multikernel_experiments.images import CALTECH, caltech_split, distances_of
from multikernel_experiments.protocol import Entry, Protocol, Task
from multikernel_experiments.protocols.flower17 import FISHER_NORMS, REGS, SVM_CS
from multikernel_experiments.sets import CALTECH_ONE_LEVEL

MOST_NOISE, NOISE_COLUMNS = 10, 50
FIXED = {"1": 1.0, "2": 2.0, "∞": 1e6}


def task(archives: a.Archives, setting: str, split: int, quick: bool) -> Task:
    archive = archives.load(CALTECH)
    y = archive["y"]
    train, test = caltech_split(archive, split, 20 if quick else 102)
    rows = np.sort(np.concatenate([train, test]))
    informative, names = archives.once(
        f"{CALTECH} {len(rows)}", lambda: distances_of(archive, rows, CALTECH_ONE_LEVEL)
    )
    # the random vectors of a level of noise are among those of the next
    vectors = np.random.default_rng(split).standard_normal((MOST_NOISE, len(rows), NOISE_COLUMNS), dtype=np.float32)
    noise = [euclidean_distances(vector, squared=True) for vector in vectors[: int(setting)]]
    place = np.searchsorted(rows, train), np.searchsorted(rows, test)
    training, testing = a.from_distances(
        [*informative, *noise], [*names, *(f"noise {k + 1}" for k in range(len(noise)))], *place
    )
    return Task(training, testing, y[train], y[test], inner_folds(y[train], 3, split))


PAPER = "YMBCK10, Figure 3"
CLAIMS = (
    Claim(
        "ℓp MK-FDA is on top at every level of noise",
        PAPER,
        on_top_everywhere,
        by="MKFDAClassifier, p and λ by three folds",
        key="fda-p",
        words="lead over the best fixed norm",
    ),
    Claim(
        "p = 1 is robust to noise kernels, p = 2 and ∞ are not",
        PAPER,
        sparse_is_robust,
        by="MKFDAClassifier and MKLClassifier, λ or C by three folds",
        sparse=("fda-1", "svm-1"),
        dense=("fda-2", "fda-∞", "svm-∞"),
    ),
)

PROTOCOL = Protocol(
    name="caltech-noise",
    title="Caltech-101 with noise kernels",
    about="Twelve kernels, one a descriptor, and up to ten RBF kernels on random vectors; 15 training and 15 test "
    "images a class on three given splits, parameters chosen by three folds of the training images, p, λ and C "
    "from the paper's twelve, ten and ten values. A quick run has 20 classes.",
    source="[YMBCK10, Figure 3]",
    files=(CALTECH,),
    entries=(
        *(Entry(f"fda-{p}", "mkfda", f"MK-FDA ℓ{p}", {"p": value}, {"reg": REGS}) for p, value in FIXED.items()),
        Entry("fda-p", "mkfda", "MK-FDA ℓp", {}, {"p": FISHER_NORMS, "reg": REGS}),
        Entry("svm-1", "mkl", "MK-SVM ℓ1", {"p": 1.0, "normalize": "variance"}, {"C": SVM_CS}),
        Entry("svm-∞", "mkl", "MK-SVM ℓ∞", {"p": math.inf, "normalize": "variance"}, {"C": SVM_CS}),
    ),
    task=task,
    settings=("0", "2", "4", "6", "8", "10"),
    quick_settings=("0", "2", "10"),
    setting_title="noise kernels",
    figures=(
        Picture(
            "score_by_setting",
            score_by_setting,
            of=PAPER,
            differs="Other descriptors; 15 test images a class; folds are thirds of the training images, not "
            "random draws.",
        ),
    ),
    claims=CLAIMS,
    minutes=20,
)
