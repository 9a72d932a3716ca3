"""Caltech-101: does OBSCURE converge in fewer epochs when it has more kernels?"""

from __future__ import annotations

import numpy as np

from multikernel_experiments import archives as a
from multikernel_experiments.findings.drawing import Picture
from multikernel_experiments.findings.epochs import excess_by_budget, few_are_enough, fewer_with_more_kernels
from multikernel_experiments.findings.verdicts import Claim, verdicts_on
from multikernel_experiments.images import CALTECH, caltech39, caltech_split
from multikernel_experiments.protocol import Entry, Protocol, Task

BUDGETS = {f"e{epochs}": epochs for epochs in (1, 2, 4, 8, 16, 32, 64)}
PROBLEM = {"p": 1.05, "C": 10.0, "random_state": 0}
N_KERNELS = 39
NEAR = 0.25  # of the optimum, in the objective: what 64 epochs reach
SLACK = 0.02  # below the accuracy of the worst optimum: one that all settings reach


def task(archives: a.Archives, setting: str, split: int, quick: bool) -> Task:
    archive = archives.load(CALTECH)
    train, test = caltech_split(archive, split, 20 if quick else 102)
    drawn = np.random.default_rng(split).permutation(N_KERNELS)[: int(setting)]  # those of fewer are among more
    training, testing = caltech39(archives, train, test, drawn)
    return Task(training, testing, archive["y"][train], archive["y"][test], [])


CLAIMS = verdicts_on(
    Claim(
        "OBSCURE takes fewer iterations when more kernels are given",
        "OJC10, Figure 2 (middle)",
        fewer_with_more_kernels,
        budgets=BUDGETS,
        oracle="sdca",
        near=NEAR,
        slack=SLACK,
    ),
    Claim(
        "Very few iterations are enough to reach good solutions",
        "OJC10, abstract",
        few_are_enough,
        budgets=BUDGETS,
        oracle="sdca",
        few=16,
    ),
)

PROTOCOL = Protocol(
    name="obscure-kernels",
    title="Caltech-101, OBSCURE with more and more kernels",
    about="Kernels drawn at random from 39, three draws and given splits, 15 training images of each of 102 classes. "
    "OBSCURE (p = 1.05, C = 10) is fitted with growing numbers of epochs, the first of which, 20 at most, are "
    "its online stage; the optimum is proved by dual coordinate ascent. A quick run has 20 classes.",
    source="[OJC10, Figure 2 (middle)]",
    files=(CALTECH,),
    entries=(
        *(
            Entry(key, "obscure", f"{epochs} epoch{'s' * (epochs > 1)}", {**PROBLEM, "max_iter": epochs, "tol": 1e-4})
            for key, epochs in BUDGETS.items()
        ),
        Entry("sdca", "obscure-sdca", "optimum (sdca)", {**PROBLEM, "tol": 2e-3}),
    ),
    task=task,
    settings=("2", "5", "10", "20", "39"),
    quick_settings=("2", "10", "39"),
    setting_title="kernels",
    figures=(Picture("convergence_by_kernels", excess_by_budget, budgets=BUDGETS, oracle="sdca"),),
    claims=CLAIMS,
    minutes=5,
)
