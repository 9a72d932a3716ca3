"""MNIST in quadrants, 12 kernels: error of OBSCURE against time for growing training sets."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from multikernel_experiments.archives import Archives
from multikernel_experiments.findings.drawing import Picture
from multikernel_experiments.findings.lines import against_time, line_table, near_the_end
from multikernel_experiments.findings.sizes import time_to_score
from multikernel_experiments.findings.verdicts import Claim
from multikernel_experiments.protocol import PRINTED, Entry, Protocol, Task, along
from multikernel_experiments.sets import DataSet, task_of

SIZES = {"1000 digits": 1000, "2000 digits": 2000, "5000 digits": 5000}
EPOCHS = (1, 2, 4, 8, 16)
OBSCURE = {"p": 1.25, "C": 10.0, "random_state": 0, "tol": 1e-3}
PAPER, BY = "OJC10, Figure 4", 'ObscureClassifier(solver="{}"), p = 1.25, C = 10'


def task(archives: Archives, setting: str, split: int, quick: bool) -> Task:
    data = DataSet("mnist.npz", "quadrants", SIZES[setting], 4000)
    return replace(task_of(archives, data, split), folds=[])


PROTOCOL = Protocol(
    name="mnist",
    title="MNIST, error against time",
    about="Linear, polynomial and RBF kernels on the four quadrants of digits, unit variance; 1,000 to 5,000 "
    "digits to train "
    "on and 4,000 others to test. Each point is a fit with that many epochs.",
    source="[OJC10, Figure 4]",
    files=("mnist.npz",),
    entries=(
        Entry("average", "average", "average", {"C": 10.0}),
        Entry("best", "best", "best single kernel", {"C": 10.0}),
        *along(Entry("printed", "obscure", "OBSCURE as printed", {**OBSCURE, "solver": "obscure-printed"}), EPOCHS),
        *along(Entry("online", "obscure", "its stage 1 alone", {**OBSCURE, "solver": "online"}), EPOCHS[:4]),
    ),
    task=task,
    settings=tuple(SIZES),
    quick_settings=("1000 digits", "2000 digits"),
    setting_title="training set",
    n_splits=2,
    figures=(
        Picture(
            "against_time",
            against_time,
            "Accuracy against time for three training sets, with the average and the best single kernel.",
            of=PAPER,
            differs="Up to 5,000 digits to train on instead of 20,000, and 4,000 to test: kernels of two "
            "processes must "
            "fit into memory. `benchmarks/bench_mnist.py` goes to 60,000 with kernels on the fly.",
            problems={"printed": ("printed",), "online": ("online",)},
            beside=("average", "best"),
            objective=False,
        ),
    ),
    claims=(
        Claim(
            "OBSCURE quickly converges to its best performance",
            PAPER,
            near_the_end,
            by=BY.format("online"),
            about=PRINTED,
            key="online",
            other="printed",
            faster=2.0,
            slack=1.0,
        ),
        Claim(
            "The time to the optimum is about linear in the training samples",
            PAPER,
            time_to_score,
            by=BY.format("obscure-printed"),
            about=PRINTED,
            key="printed",
            sizes=SIZES,
            slack=1.0,
        ),
    ),
    tables=partial(line_table, keys=("printed", "online")),
    minutes=4,
)
