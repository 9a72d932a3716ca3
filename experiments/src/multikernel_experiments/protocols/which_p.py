"""Which p? The average kernel against MKL with p from 1 to infinity, on nine real data sets."""

from __future__ import annotations

import math

from multikernel_experiments.archives import Archives
from multikernel_experiments.findings.score_figures import gains_over_baseline
from multikernel_experiments.findings.scores import ahead_in_settings
from multikernel_experiments.findings.verdicts import HERE, Claim
from multikernel_experiments.protocol import OWN, Entry, Protocol, Task
from multikernel_experiments.sets import SETS as SHARED
from multikernel_experiments.sets import UCI, DataSet, task_of

C = (0.01, 0.1, 1.0, 10.0, 100.0)
NORMS = {"1": 1.0, "1.25": 1.25, "2": 2.0, "4": 4.0, "∞": math.inf}
SETS = {
    **{name: SHARED[name] for name in ("football", "Yale faces", "MSRC-v1", "breast TCGA", "mfeat")},
    "Flower17": DataSet("flower17_dist.npz", "distances", 510, 680),
    "DNA": DataSet(UCI, "windows", 500, 1500, "DNA"),
    "Sonar": DataSet(UCI, "every feature", 0.5, None, "Sonar"),
    "Ionosphere": DataSet(UCI, "every feature", 0.5, None, "Ionosphere"),
}


def task(archives: Archives, setting: str, split: int, quick: bool) -> Task:
    return task_of(archives, SETS[setting], split, n_folds=3)


CLAIMS = (
    Claim(
        "Sparse MKL (p = 1) is better than the average kernel",
        HERE,
        ahead_in_settings,
        by="MKLClassifier, C by three folds",
        about=OWN,
        key="1",
        other="average",
    ),
    Claim(
        "MKL with p = 2 is better than the average kernel",
        HERE,
        ahead_in_settings,
        by="MKLClassifier, C by three folds",
        about=OWN,
        key="2",
        other="average",
    ),
)

PROTOCOL = Protocol(
    name="which-p",
    title="Which p?",
    about="Average kernel and MKLClassifier with norms p of the weights on nine data sets, kernels scaled to unit "
    "variance, C chosen by three-fold validation inside the training samples, five random stratified splits.",
    source="this library",
    files=tuple(sorted({data.file for data in SETS.values()})),
    entries=(
        Entry("average", "average", "average", grid={"C": C}),
        *(Entry(key, "mkl", f"p = {key}", {"p": p}, {"C": C}) for key, p in NORMS.items()),
    ),
    task=task,
    settings=tuple(SETS),
    quick_settings=("football", "breast TCGA", "mfeat"),
    setting_title="data set",
    n_splits=5,
    quick_splits=2,
    figures=(gains_over_baseline,),
    claims=CLAIMS,
    minutes=3,
)
