"""Caltech-101: does OBSCURE converge in fewer epochs when it has more kernels?"""

from __future__ import annotations

import numpy as np

from multikernel_experiments import archives as a
from multikernel_experiments.findings.drawing import Picture
from multikernel_experiments.findings.epochs import (
    excess_by_budget,
    few_are_enough,
    fewer_to_a_score,
    fewer_updates,
    updates_by_kernels,
)
from multikernel_experiments.findings.verdicts import Claim
from multikernel_experiments.images import CALTECH, caltech39, caltech_split
from multikernel_experiments.protocol import PRINTED, Entry, Protocol, Task

BUDGETS = {f"e{epochs}": epochs for epochs in (1, 2, 4, 8, 16, 32, 64)}
PROBLEM = {"p": 1.05, "C": 10.0, "random_state": 0}
SOLVER = {**PROBLEM, "solver": "obscure-printed"}
N_KERNELS = 39
SLACK = 0.02  # below the accuracy of the worst optimum: one that all settings reach


def task(archives: a.Archives, setting: str, split: int, quick: bool) -> Task:
    archive = archives.load(CALTECH)
    train, test = caltech_split(archive, split, 20 if quick else 102)
    drawn = np.random.default_rng(split).permutation(N_KERNELS)[: int(setting)]  # those of fewer are among more
    training, testing = caltech39(archives, train, test, drawn)
    return Task(training, testing, archive["y"][train], archive["y"][test], [])


PAPER, BY = "OJC10, Figure 2 (middle)", 'ObscureClassifier(solver="{}"), p = 1.05'
CLAIMS = (
    Claim(
        "A given accuracy is reached in fewer epochs when more kernels are given",
        PAPER,
        fewer_to_a_score,
        by=BY.format("obscure-printed"),
        about=PRINTED,
        budgets=BUDGETS,
        oracle="sdca",
        slack=SLACK,
    ),
    Claim(
        "Stage 1 converges in fewer updates when more kernels are given",
        PAPER,
        fewer_updates,
        by=BY.format("online"),
        about=PRINTED,
        key="online",
    ),
    Claim(
        "Very few iterations are enough to reach good solutions",
        "OJC10, abstract",
        few_are_enough,
        by=BY.format("obscure-printed"),
        about=PRINTED,
        budgets=BUDGETS,
        oracle="sdca",
        few=16,
    ),
)
DIFFERS = "Other descriptors; draws of kernels and splits of our own, C = 10."

PROTOCOL = Protocol(
    name="obscure-kernels",
    title="Caltech-101, OBSCURE with more and more kernels",
    about="Kernels drawn at random from 39, three draws and given splits, 15 training images of each of 102 classes. "
    "OBSCURE as printed (p = 1.05, C = 10) is fitted with growing numbers of epochs, the first of which, half "
    "and 20 at "
    "most, are its online stage; that stage alone until no training sample has a loss, 300 epochs at most; the "
    "optimum "
    "is proved by dual coordinate ascent. A quick run has 20 classes.",
    source="[OJC10, Figure 2 (middle)]",
    files=(CALTECH,),
    entries=(
        *(
            Entry(key, "obscure", f"{n} epoch{'s' * (n > 1)}", {**SOLVER, "max_iter": n, "tol": 1e-4})
            for key, n in BUDGETS.items()
        ),
        Entry("online", "obscure", "stage 1", {**PROBLEM, "solver": "online", "max_iter": 300, "tol": 1e-4}),
        Entry("sdca", "obscure-sdca", "optimum (sdca)", {**PROBLEM, "tol": 2e-3}),
    ),
    task=task,
    settings=("2", "5", "10", "20", "39"),
    quick_settings=("2", "10", "39"),
    setting_title="kernels",
    figures=(
        Picture(
            "convergence_by_kernels", excess_by_budget, of=PAPER, differs=DIFFERS, budgets=BUDGETS, oracle="sdca"
        ),
        Picture("updates_by_kernels", updates_by_kernels, of=PAPER, differs=DIFFERS, key="online"),
    ),
    claims=CLAIMS,
    minutes=5,
)
