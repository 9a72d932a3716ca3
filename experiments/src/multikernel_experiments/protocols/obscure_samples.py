"""Caltech-101 and mfeat: how the time of a fit grows with the samples of each class."""

from __future__ import annotations

import numpy as np

from multikernel.kernels import RBF
from multikernel_experiments import archives as a
from multikernel_experiments.findings.drawing import Picture
from multikernel_experiments.findings.sizes import excess_is_steady, gains_with_size, time_by_size, time_is_linear
from multikernel_experiments.findings.verdicts import HERE, Claim
from multikernel_experiments.images import CALTECH, caltech39
from multikernel_experiments.protocol import OWN, PRINTED, Entry, Protocol, Task

MFEAT = "mfeat.npz"
PER_CLASS = {"Caltech-101": {f"Caltech {k}": 102 * k for k in (5, 10, 15, 25)}}
PER_CLASS["mfeat"] = {f"mfeat {k}": 10 * k for k in (20, 50, 100, 150)}
WIDTHS = ("0.25*mean", "mean", "4*mean")
PROBLEM = {"C": 10.0, "random_state": 0}
PAPERS = {"solver": "obscure-printed", "p": 1.05}


def task(archives: a.Archives, setting: str, split: int, quick: bool) -> Task:
    caltech = setting.startswith("Caltech")
    archive = archives.load(CALTECH if caltech else MFEAT)
    y = archive["y"]
    labels = np.unique(y)[: 20 if quick else 102]
    train, test = a.drawn(y, labels, int(setting.split()[1]), 5 if caltech else 50, split)
    if caltech:
        training, testing = caltech39(archives, train, test)
    else:
        X, columns = a.joined(archive, [f"view_{v:02d}" for v in range(6)])
        kernels = [RBF(bandwidth=w, columns=c, name=f"{name} {w}") for name, c in columns.items() for w in WIDTHS]
        training, testing = a.from_features(X, kernels, train, test)
    return Task(training, testing, y[train], y[test], [])


BY = 'ObscureClassifier(solver="obscure-printed"), 100 epochs, p = 1.05'
CLAIMS = (
    Claim(
        "Training time is linear in the number of samples",
        "OJC10, abstract",
        time_is_linear,
        by=BY,
        about=PRINTED,
        key="obscure",
        families=PER_CLASS,
    ),
    Claim(
        "The number of epochs does not have to grow with the samples",
        HERE,
        excess_is_steady,
        by=BY,
        about=OWN,
        key="obscure",
        oracle="sdca",
        families=PER_CLASS,
    ),
    Claim(
        "With more images OBSCURE gains on LP-β",
        "OJC10, Figure 2 (right)",
        gains_with_size,
        by=BY,
        about=PRINTED,
        key="obscure",
        other="lp-beta",
        families=PER_CLASS,
    ),
)
DIFFERS = "Classes have 30 images at hand, of which 25 at most are for training; C = 10, 100 epochs throughout."

PROTOCOL = Protocol(
    name="obscure-samples",
    title="Training time against samples of each class",
    about="Caltech-101 with 39 kernels and 102 classes, mfeat with 6 views × 3 widths = 18 kernels and 10 classes; "
    "C = 10, p = 1.05 for OBSCURE's problem. OBSCURE and UFO-MKL take 100 epochs, the others stop at their own "
    "duality gaps of 1e-2 (sdca) and 1e-3. A quick run has 20 classes and fewer sizes.",
    source="[OJC10, Figure 2 (right)]",
    files=(CALTECH, MFEAT),
    entries=(
        Entry("obscure", "obscure", "OBSCURE as printed", {**PROBLEM, **PAPERS, "max_iter": 100, "tol": 1e-4}),
        Entry("lp-beta", "lp-beta", "LP-β", {"C": 10.0, "nu": 0.5, "svm_tol": 1e-2}, {"cv": (2,)}),
        Entry("sdca", "obscure-sdca", "sdca", {**PROBLEM, "p": 1.05, "tol": 1e-2}),
        Entry("ufo", "ufo", "UFO-MKL", {**PROBLEM, "max_iter": 100, "tol": 1e-4}),
        Entry("mkl", "mkl", "MKL, p = 1", {"C": 10.0}),
        Entry("mkl-2", "mkl", "MKL, p = 2", {"C": 10.0, "p": 2.0}),
        Entry("average", "average", "average", {"C": 10.0}),
    ),
    task=task,
    settings=tuple(setting for sizes in PER_CLASS.values() for setting in sizes),
    quick_settings=("Caltech 5", "Caltech 10", "mfeat 20", "mfeat 50"),
    setting_title="data, samples a class",
    n_splits=1,
    figures=(
        Picture("time_by_samples", time_by_size, of="OJC10, Figure 2 (right)", differs=DIFFERS, families=PER_CLASS),
    ),
    claims=CLAIMS,
    minutes=6,
)
