"""One kernel for many labels: training time to a certificate against the number of labels."""

from __future__ import annotations

from typing import Any

import numpy as np

from multikernel.experiments import archives as a
from multikernel.experiments.curves import exponent
from multikernel.experiments.images import CALTECH, caltech39, caltech_split
from multikernel.experiments.label_figures import time_by_labels
from multikernel.experiments.labels import mean_average_precision, signs_of_classes
from multikernel.experiments.protocol import FAILS, HOLDS, IN_PART, Entry, Protocol, Task, Verdict
from multikernel.experiments.results import Results

LABELS = {"2 labels": 2, "8 labels": 8, "32 labels": 32, "102 labels": 102}
CERTIFIED = {"C": 10.0, "tol": 1e-2, "random_state": 0, "max_time": 60.0}
SUM = {**CERTIFIED, "objective": "sum"}


def task(archives: a.Archives, setting: str, split: int, quick: bool) -> Task:
    archive = archives.load(CALTECH)
    train, test = caltech_split(archive, split, 20 if quick else 102)
    classes = np.random.default_rng(0).permutation(np.unique(archive["y"][train]))[: LABELS[setting]]
    Y = signs_of_classes(archive["y"], classes)
    return Task(*caltech39(archives, train, test), Y[train], Y[test], [])


def claims(results: Results) -> list[Verdict]:
    settings = results.protocol.settings
    last, keys = settings[-1], [entry.key for entry in results.entries_done()]
    if len(keys) < len(results.protocol.entries) or not all(results.scores(key, last) for key in keys):
        return []
    seconds = {key: [results.value("fit_seconds", key, s) for s in settings] for key in keys}
    counts = [LABELS[s] for s in settings]
    slopes = {key: exponent(counts, values) for key, values in seconds.items()}
    sums = [key for key in keys if key.startswith("sum")]
    slower = sum(slopes["max"] < slopes[key] - 0.1 for key in sums)
    ratios = {key: seconds[key][-1] / seconds["max"][-1] for key in keys if key != "max"}
    lead = 100 * (results.score("max", last) - results.score("sum-paper", last))
    return [
        Verdict(
            "The cost of ML-MKL-SA grows slower with labels than that of ML-MKL-Sum",
            "BJJ10, sect. 2.2",
            HOLDS if slower == len(sums) else IN_PART if slower else FAILS,
            "time ~ labels^e, e: " + ", ".join(f"{key} {value:.2f}" for key, value in slopes.items()),
        ),
        Verdict(
            f"With {last} the default for the worst label is at least five times as fast as the paper's ML-MKL-Sum",
            "BJJ10, Table 1",
            HOLDS if ratios["sum-paper"] >= 5 else FAILS,
            "time as a multiple of the default's: " + ", ".join(f"{key} {r:.1f}" for key, r in ratios.items()),
        ),
        Verdict(
            "It is as accurate as ML-MKL-Sum, within a point",
            "BJJ10, Table 1",
            HOLDS if abs(lead) <= 1.0 else FAILS,
            f"{last}: {lead:+.1f} points; "
            + ", ".join(f"{key} {100 * results.score(key, last):.1f}" for key in keys),
        ),
    ]


def time_against_labels(results: Results, figure: Any) -> None:
    """Time of a fit to a gap of 1 % against the number of labels, with fitted exponents."""
    time_by_labels(results, figure, LABELS)


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
    figures=(time_against_labels,),
    claims=claims,
)
