"""One kernel for many labels: training time to a certificate against the number of labels."""

from __future__ import annotations

from multikernel_experiments.archives import Archives
from multikernel_experiments.findings.drawing import Picture
from multikernel_experiments.findings.sizes import as_accurate, grows_slower, time_by_labels, times_as_fast
from multikernel_experiments.findings.verdicts import Claim, verdicts_on
from multikernel_experiments.images import CALTECH
from multikernel_experiments.label_sets import caltech_labels
from multikernel_experiments.labels import mean_average_precision
from multikernel_experiments.protocol import Entry, Protocol, Task

LABELS = {"2 labels": 2, "8 labels": 8, "32 labels": 32, "102 labels": 102}
CERTIFIED = {"C": 10.0, "tol": 1e-2, "random_state": 0, "max_time": 60.0}
SUM = {**CERTIFIED, "objective": "sum"}


def task(archives: Archives, setting: str, split: int, quick: bool) -> Task:
    return caltech_labels(archives, split, 20 if quick else 102, LABELS[setting])


CLAIMS = verdicts_on(
    Claim(
        "The cost of ML-MKL-SA grows slower with labels than that of ML-MKL-Sum",
        "BJJ10, sect. 2.2",
        grows_slower,
        key="max",
        others="sum",
        labels=LABELS,
    ),
    Claim(
        "With {last} the default for the worst label is at least five times as fast as the paper's ML-MKL-Sum",
        "BJJ10, Table 1",
        times_as_fast,
        key="max",
        other="sum-paper",
        factor=5,
    ),
    Claim(
        "It is as accurate as ML-MKL-Sum, within a point", "BJJ10, Table 1", as_accurate, key="max", other="sum-paper"
    ),
)

PROTOCOL = Protocol(
    name="multilabel-labels",
    title="Training time against the number of labels",
    about="Classes of Caltech-101 as labels, in a random order; all 1530 training images of split 1, 39 kernels, "
    "C = 10. Every solver runs until a relative gap of 1 % is certified, or 60 seconds have passed; the final "
    "SVMs of all labels are included.",
    source="[BJJ10, sect. 2.2 and Table 1]",
    files=(CALTECH,),
    entries=(
        Entry("max", "ml-mkl", "worst label, level (default)", CERTIFIED),
        Entry("max-vr", "ml-mkl", "worst label, sa-vr", {**CERTIFIED, "solver": "sa-vr"}),
        Entry("sum", "ml-mkl", "sum, Newton (default)", SUM),
        Entry("sum-silp", "ml-mkl", "sum, silp", {**SUM, "solver": "silp"}),
        Entry("sum-paper", "ml-mkl", "sum, subgradient (the paper's)", {**SUM, "solver": "subgradient"}),
    ),
    task=task,
    settings=tuple(LABELS),
    quick_settings=("2 labels", "8 labels"),
    setting_title="labels",
    n_splits=1,
    score=mean_average_precision,
    metric="mean average precision",
    figures=(Picture("time_against_labels", time_by_labels, labels=LABELS),),
    claims=CLAIMS,
    minutes=2,
)
