"""Caltech-101, 102 classes, 39 kernels: ways of combining many kernels of uneven worth, and what they cost."""

from __future__ import annotations

from multikernel.compare.tuning import inner_folds
from multikernel_experiments import archives as a
from multikernel_experiments.findings.score_figures import score_by_time, score_intervals
from multikernel_experiments.findings.scores import above_and_level, all_gain
from multikernel_experiments.findings.verdicts import HERE, Claim
from multikernel_experiments.images import CALTECH, caltech39, caltech_split
from multikernel_experiments.protocol import OWN, Entry, Protocol, Task

C = (1.0, 10.0, 100.0)
GROUP_NORMS = (1.01, 1.05, 1.25)
REGS = (1e-5, 1e-4, 1e-3, 1e-2, 1e-1)
MARGINS = {"C": 10.0, "nu": 0.5, "svm_tol": 1e-2}  # 39 × 102 SVMs for each of two folds and for all samples


def task(archives: a.Archives, setting: str, split: int, quick: bool) -> Task:
    archive = archives.load(CALTECH)
    train, test = caltech_split(archive, split, 20 if quick else 102)
    training, testing = caltech39(archives, train, test)
    y = archive["y"]
    return Task(training, testing, y[train], y[test], inner_folds(y[train], 3, split)[:1])


CLAIMS = (
    Claim(
        "OBSCURE outperforms MKL (SILP) and is comparable to LP-β",
        "OJC10, sect. 4.2",
        above_and_level,
        by='ObscureClassifier(solver="sdca"), p and C by validation',
        needs=("sdca", "mkl-class", "lp-beta"),
        key="sdca",
        title="OBSCURE's problem",
        below=("mkl-class", "MKL per class"),
        level=("lp-beta", "LP-β"),
    ),
    Claim(
        "Learning weights beats averaging 39 uneven kernels",
        HERE,
        all_gain,
        by="default solvers, parameters by validation",
        about=OWN,
        needs=("average", "mkl", "mkl-p"),
        keys=("mkl", "mkl-p", "sdca", "mkfda"),
        baseline="average",
    ),
)

PROTOCOL = Protocol(
    name="caltech",
    title="Caltech-101, 39 kernels",
    about="χ² kernels on levels of eleven descriptors and an RBF on gist, 39 in all; 15 training and 15 test images "
    "of each of 102 classes on three given splits. Parameters are chosen from small grids on a third of the training "
    "images; the best single kernel, MKL with weights per class, OBSCURE and LP-β's SVMs have C = 10, LP-β and LP-B "
    "ν = 0.5 and two folds. A quick run has 20 classes.",
    source="[OJC10, sect. 4.2]",
    files=(CALTECH,),
    entries=(
        Entry("average", "average", "average", grid={"C": C}),
        Entry("product", "product", "product", grid={"C": C}),
        Entry("best", "best", "best single kernel", {"C": 10.0}),
        Entry("mkl-class", "mkl", "MKL, p = 1, weights per class", {"C": 10.0, "weights": "per-class"}),
        Entry("mkl", "mkl", "MKL, p = 1", grid={"C": C}),
        Entry("mkl-p", "mkl", "ℓp MKL", grid={"p": (1.1, 1.5, 2.0, 4.0), "C": C[1:]}),
        Entry("mkfda", "mkfda", "ℓp MK-FDA", grid={"p": (1.0, 1.0625, 1.25, 1.5, 2.0, 4.0, 1e6), "reg": REGS}),
        Entry(
            "obscure",
            "obscure",
            "OBSCURE, 60 epochs",
            {"C": 10.0, "max_iter": 60, "random_state": 0},
            {"p": GROUP_NORMS},
        ),
        Entry("sdca", "obscure-sdca", "OBSCURE's problem, sdca", {"random_state": 0}, {"p": GROUP_NORMS, "C": C[1:]}),
        Entry("ufo", "ufo", "UFO-MKL, 60 epochs", {"max_iter": 60, "random_state": 0}, {"C": C[1:]}),
        Entry("cg-boost", "cg-boost", "CG-Boost", grid={"C": (0.01, 0.1, 1.0)}),
        Entry("lp-beta", "lp-beta", "LP-β", MARGINS, {"cv": (2,)}),
        Entry("lp-b", "lp-b", "LP-B", MARGINS, {"cv": (2,)}),
    ),
    task=task,
    figures=(score_intervals, score_by_time),
    claims=CLAIMS,
    minutes=10,
)
