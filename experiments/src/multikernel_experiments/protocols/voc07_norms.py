"""PASCAL VOC 2007, two classes: weights and average precision of MK-FDA for twelve norms."""

from __future__ import annotations

from multikernel_experiments.findings.drawing import Picture
from multikernel_experiments.findings.norms import curves_match, validation_and_test
from multikernel_experiments.findings.score_figures import weight_panels
from multikernel_experiments.findings.verdicts import Claim
from multikernel_experiments.fitting import average_precision
from multikernel_experiments.protocol import Entry, Protocol
from multikernel_experiments.protocols.flower17 import FISHER_NORMS, REGS
from multikernel_experiments.protocols.voc07 import task
from multikernel_experiments.sets import VOC

NORMS = {f"p{p:g}": p for p in FISHER_NORMS}
CLASSES = ("cat", "diningtable")
DIFFERS = (
    "Other images, descriptors and kernels; λ on a random half of the 1300 training images, weights from all of them."
)

PROTOCOL = Protocol(
    name="voc07-norms",
    title="VOC 2007, twelve norms of MK-FDA",
    about="MK-FDA with each of twelve norms p, λ chosen on a random half of the training images, for two classes.",
    source="[YMBCK10, Figures 1 and 2]",
    files=(VOC,),
    entries=[Entry(key, "mkfda", f"p = {p:g}", {"p": p}, {"reg": REGS}) for key, p in NORMS.items()],
    task=task,
    settings=CLASSES,
    setting_title="class",
    n_splits=1,
    score=average_precision,
    metric="average precision",
    figures=(
        Picture(
            "weights_by_norm",
            weight_panels,
            "Share of each kernel in MK-FDA for twelve p, class cat.",
            of="YMBCK10, Figure 1",
            differs=DIFFERS,
            setting="cat",
            titles={key: f"p = {p:.4g}" for key, p in NORMS.items()},
        ),
        Picture("learning_p", validation_and_test, of="YMBCK10, Figure 2", differs=DIFFERS, norms=NORMS),
    ),
    claims=(
        Claim(
            "Average precision on validation and on test images go together along p",
            "YMBCK10, Figure 2",
            curves_match,
            by="MKFDAClassifier, λ on half of the training images",
            norms=NORMS,
        ),
    ),
    minutes=1,
)
