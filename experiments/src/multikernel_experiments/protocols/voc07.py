"""PASCAL VOC 2007, 20 binary problems: average precision of MK-SVM and MK-FDA with fixed and learnt norms."""

from __future__ import annotations

import math

import numpy as np

from multikernel_experiments import archives as a
from multikernel_experiments.findings.drawing import Picture
from multikernel_experiments.findings.norms import about_as_fast, better_in_each_pair
from multikernel_experiments.findings.score_figures import gains_over_baseline
from multikernel_experiments.findings.verdicts import Claim
from multikernel_experiments.fitting import average_precision
from multikernel_experiments.images import VOC_LEVELS, kernels_of
from multikernel_experiments.protocol import PRINTED, Entry, Protocol, Task
from multikernel_experiments.protocols.flower17 import FISHER_NORMS, REGS, SVM_CS
from multikernel_experiments.sets import VOC

CLASSES = (
    "aeroplane", "bicycle", "bird", "boat", "bottle", "bus", "car", "cat", "chair", "cow",
    "diningtable", "dog", "horse", "motorbike", "person", "pottedplant", "sheep", "sofa", "train", "tvmonitor",
)  # fmt: skip
FIXED = {"1": 1.0, "2": 2.0, "∞": math.inf}
PAPER = "YMBCK10, Table 2"
DIFFERS = "Other images (2600), descriptors and kernels, hence the level."


def task(archives: a.Archives, setting: str, split: int, quick: bool) -> Task:
    archive = archives.load(VOC)
    train, test = archive["train"].astype(int), archive["test"].astype(int)
    stacks = archives.once(
        VOC, lambda: a.from_features(*kernels_of(archive, VOC_LEVELS), train, test, standardize=False)
    )
    labels = archive["Y"][:, [str(name) for name in archive["classes"]].index(setting)]
    kept, tested = np.flatnonzero(labels[train]), np.flatnonzero(labels[test])  # 0 marks difficult ones: left out
    y = labels[train[kept]]
    fold = a.shuffled(y, 0.5, 0)
    training, testing = stacks[0].take(kept, kept), stacks[1].take(tested, kept)
    return Task(training, testing, y, labels[test[tested]], [fold])


CLAIMS = (
    Claim(
        "For any norm MK-FDA outperforms MK-SVM",
        PAPER,
        better_in_each_pair,
        by="MKFDAClassifier and MKLClassifier, parameters on half of the training images",
        pairs={f"ℓ{p}:": (f"fda-{p}", f"svm-{p}") for p in (*FIXED, "p")},
    ),
    Claim(
        "Learning p improves MK-FDA",
        PAPER,
        better_in_each_pair,
        by="MKFDAClassifier, p and λ on half of the training images",
        pairs={f"against ℓ{p}:": ("fda-p", f"fda-{p}") for p in FIXED},
    ),
    Claim(
        "MK-FDA takes about as long as MK-SVM, within a factor of two",
        "YMBCK10, sect. 4.1",
        about_as_fast,
        by='MKFDAClassifier(solver="sip-printed") against MKLClassifier(solver="silp-taylor"), p = 2',
        about=PRINTED,
        key="sip-printed",
        other="silp-taylor",
    ),
)

PROTOCOL = Protocol(
    name="voc07",
    title="VOC 2007, MK-SVM and MK-FDA",
    about="Average precision of 20 binary problems on 16 kernels of a subset of 2600 images, without those marked "
    "difficult. Parameters are chosen on a random half of the 1300 training images, then all are used. MK-SVM has "
    "kernels of unit variance, MK-FDA centred ones of unit trace. Grids are the paper's, images and "
    "descriptors are not.",
    source="[YMBCK10, Table 2]",
    files=(VOC,),
    entries=(
        *(
            Entry(f"svm-{p}", "mkl", f"SVM ℓ{p}", {"p": v, "normalize": "variance"}, {"C": SVM_CS})
            for p, v in FIXED.items()
        ),
        Entry("svm-p", "mkl", "SVM ℓp", {"normalize": "variance"}, {"p": FISHER_NORMS, "C": SVM_CS}),
        *(Entry(f"fda-{p}", "mkfda", f"FDA ℓ{p}", {"p": min(v, 1e6)}, {"reg": REGS}) for p, v in FIXED.items()),
        Entry("fda-p", "mkfda", "FDA ℓp", {}, {"p": FISHER_NORMS, "reg": REGS}),
        # the stop of both is that of the paper's comparison of times
        Entry("sip-printed", "mkfda", "FDA, printed", {"solver": "sip-printed", "p": 2.0, "reg": 1e-4, "tol": 1e-4}),
        Entry("silp-taylor", "mkl", "SVM, SILP", {"solver": "silp-taylor", "p": 2.0, "C": 1.0, "tol": 1e-4}),
    ),
    task=task,
    settings=CLASSES,
    quick_settings=("cat", "diningtable", "train", "pottedplant"),
    setting_title="class",
    n_splits=1,
    score=average_precision,
    metric="average precision",
    mean_row="mean",
    published_row={
        **{"svm-1": "58.3", "svm-2": "59.8", "svm-∞": "60.3", "svm-p": "60.3"},
        **{"fda-1": "61.9", "fda-2": "61.9", "fda-∞": "60.8", "fda-p": "62.6"},
    },
    figures=(Picture("gains_over_first", gains_over_baseline, of=PAPER, differs=DIFFERS),),
    claims=CLAIMS,
    minutes=4,
)
