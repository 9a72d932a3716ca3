"""mfeat, Flower17 and Satellite: does variance reduction converge linearly where sub-gradients flatten?"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from multikernel.problems.obscure import group_norm
from multikernel_experiments import archives as a
from multikernel_experiments.findings.drawing import Picture
from multikernel_experiments.findings.passes import gap_by_passes
from multikernel_experiments.findings.rates import falls_linearly, flatten, gap_table, lower_after, overtakes_all
from multikernel_experiments.findings.verdicts import Claim, verdicts_on
from multikernel_experiments.protocol import Entry, Protocol, Task
from multikernel_experiments.sets import UCI, DataSet, task_of

SETS = {
    "mfeat": DataSet("mfeat.npz", "views", 1000, 1000),
    "Flower17": DataSet("flower17_dist.npz", "distances", 680, 680),
    "Satellite": DataSet(UCI, "columns", 1000, 1000, "Satellite"),
}
QUICK = {name: replace(data, n_train=0.5, n_test=None) for name, data in SETS.items()}
P = 1.5
SMOOTH = {"p": P, "random_state": 0, "tol": 1e-7, "max_iter": 300}
HINGE = {"p": group_norm(P), "C": 1.0, "random_state": 0}  # the same regulariser, written as a norm of w
BUDGETS = (10, 30, 100)
# entries, and which of them proves the optimum
WELL = {
    **dict.fromkeys(("svrg", "auto", "paper", "lbfgs"), "auto"),
    **dict.fromkeys(("obscure", "ufo", "sdca"), "sdca"),
}
BADLY = dict.fromkeys(("svrg-100", "auto-100", "lbfgs-100"), "auto-100")
LINES = {**WELL, **BADLY}
LARGE_C = "The same with C = 100, where the condition number is a hundred times as large."


def task(archives: a.Archives, setting: str, split: int, quick: bool) -> Task:
    return replace(task_of(archives, (QUICK if archives.stand_in else SETS)[setting], split), folds=[])


CLAIMS = verdicts_on(
    Claim("The gap of SVRG falls linearly", "AOJS16", falls_linearly, lines=LINES, key="svrg", between=(1e-1, 1e-6)),
    Claim("OBSCURE and UFO-MKL flatten", "AOJS16", flatten, lines=LINES, keys=("obscure", "ufo"), budgets=BUDGETS),
    Claim(
        "SVRG overtakes OBSCURE and UFO-MKL",
        "AOJS16",
        overtakes_all,
        lines=LINES,
        key="svrg",
        rivals=("obscure", "ufo"),
        beside=("sdca", "lbfgs"),
        within=100,
    ),
    Claim(
        "A step that adapts needs fewer passes than the paper's constants",
        "AOJS16",
        lower_after,
        lines=LINES,
        key="svrg",
        rival="paper",
        budget=100,
    ),
)

PROTOCOL = Protocol(
    name="svrg-rate",
    title="Rates of convergence: variance reduction and sub-gradients",
    about="Objective above its optimum against passes over the samples: 1,000 of mfeat (6 kernels, 10 classes), 680 "
    "of Flower17 (7, 17), 1,000 of Satellite (15, 6), kernels of unit variance, C = 1 unless said otherwise, weights "
    "of norm 1.5. A full gradient, an epoch of n steps and a sweep are one pass each. SVRG and L-BFGS minimise the "
    "softmax loss, OBSCURE, UFO-MKL and sdca the multiclass hinge, with the same regulariser; each is held against "
    "the optimum of its own problem, which the best lower bound proves.",
    source="[AOJS16]",
    files=tuple(sorted({data.file for data in SETS.values()})),
    entries=(
        Entry("svrg", "svrg", "SVRG", {**SMOOTH, "solver": "svrg", "C": 1.0}),
        Entry("auto", "svrg", "SVRG with searches (auto)", {**SMOOTH, "solver": "auto", "C": 1.0}),
        Entry("paper", "svrg", "SVRG, the paper's constants", {**SMOOTH, "solver": "paper", "C": 1.0, "max_iter": 8}),
        Entry("lbfgs", "svrg", "L-BFGS", {**SMOOTH, "solver": "lbfgs", "C": 1.0}),
        Entry("obscure", "obscure", "OBSCURE", {**HINGE, "max_iter": 200, "tol": 1e-6}),
        Entry("ufo", "ufo", "UFO-MKL", {**HINGE, "max_iter": 200, "tol": 1e-6}),
        Entry("sdca", "obscure-sdca", "sdca", {**HINGE, "tol": 1e-6, "max_iter": 200}),
        Entry("svrg-100", "svrg", "SVRG, C = 100", {**SMOOTH, "solver": "svrg", "C": 100.0}),
        Entry("auto-100", "svrg", "auto, C = 100", {**SMOOTH, "solver": "auto", "C": 100.0}),
        Entry("lbfgs-100", "svrg", "L-BFGS, C = 100", {**SMOOTH, "solver": "lbfgs", "C": 100.0}),
    ),
    task=task,
    settings=tuple(SETS),
    setting_title="data set",
    n_splits=1,
    figures=(
        Picture("gap_by_passes", gap_by_passes, groups=WELL),
        Picture("gap_by_passes_large_C", gap_by_passes, LARGE_C, groups=BADLY),
    ),
    claims=CLAIMS,
    minutes=1,
    tables=partial(gap_table, lines=LINES, budgets=BUDGETS),
)
