"""ML-MKL-SA with other smoothing and other steps: accuracy against iterations."""

from __future__ import annotations

from typing import Any

from multikernel_experiments.archives import Archives
from multikernel_experiments.findings.drawing import Picture
from multikernel_experiments.findings.histories import alike_at_the_end, ends_are_worst, scores_by_budget
from multikernel_experiments.findings.verdicts import Claim, verdicts_on
from multikernel_experiments.images import CALTECH
from multikernel_experiments.label_sets import caltech_labels
from multikernel_experiments.labels import PerLabelEntry, mean_average_precision
from multikernel_experiments.protocol import Course, Entry, Protocol, Task

CLASSES = 34
BUDGETS = (34, 68, 136, 272, 544, 1088)
SA = {"C": 10.0, "solver": "sa", "random_state": 0, "tol": 1e-4}
# with η = 0.01 and with δ = 0, as in the paper
DELTAS = {f"δ={value:g}": value for value in (0.0, 0.2, 0.6, 1.0)}
ETAS = {f"η={value:g}": value for value in (1e-2, 1e-3, 1e-4)}
FAMILIES = {"smoothing": list(DELTAS), "steps": [*ETAS, "free"]}
SHOWN = "Score against SVMs solved: left for four δ with η = 0.01, right for three η with δ = 0 and scale-free steps."


def options(**values: float) -> dict[str, Any]:
    return {**SA, **values}


def task(archives: Archives, setting: str, split: int, quick: bool) -> Task:
    return caltech_labels(archives, split, 10 if quick else CLASSES)


CLAIMS = verdicts_on(
    Claim(
        "The final accuracy is comparable for different δ, within two points",
        "BJJ10, Figure 3",
        alike_at_the_end,
        keys=list(DELTAS),
        close=2.0,
    ),
    Claim("The extreme cases δ = 0 and δ = 1 are the worst", "BJJ10, Figure 3", ends_are_worst, keys=list(DELTAS)),
    Claim(
        "The accuracy is similar for small steps, η = 0.001 and 0.0001",
        "BJJ10, Figure 4",
        alike_at_the_end,
        keys=list(ETAS)[1:],
        close=1.0,
        near=2.0,
        beside=list(ETAS)[:1],
    ),
)

PROTOCOL = Protocol(
    name="multilabel-sensitivity",
    title="ML-MKL-SA: smoothing and steps",
    about=f"The first {CLASSES} classes of Caltech-101 as labels, 15 training images each, 39 kernels, C = 10. Fits "
    "with the paper's algorithm and a given number of SVMs; the final SVMs of all labels are not counted.",
    source="[BJJ10, Figures 3 and 4]",
    files=(CALTECH,),
    entries=(
        PerLabelEntry("average", "average", "average", {"C": 10.0}),
        Entry("max", "ml-mkl", "worst label, certified", {"C": 10.0, "tol": 1e-3}),
        Entry("sum", "ml-mkl", "sum of labels", {"C": 10.0, "objective": "sum", "tol": 1e-3}),
        Entry("sa", "ml-mkl", "ML-MKL-SA, scale-free steps", {**SA, "max_iter": BUDGETS[-1]}),
    ),
    task=task,
    n_splits=1,
    score=mean_average_precision,
    metric="mean average precision",
    course=(
        *(
            Course(key, "ml-mkl", f"δ = {v:g}", "sa", "max", options(eta=1e-2, delta=v), BUDGETS)
            for key, v in DELTAS.items()
        ),
        *(
            Course(key, "ml-mkl", f"η = {v:g}", "sa", "max", options(eta=v, delta=0.0), BUDGETS)
            for key, v in ETAS.items()
        ),
        Course("free", "ml-mkl", "scale-free steps, δ = 0.2", "sa", "max", SA, BUDGETS),
    ),
    figures=(Picture("sensitivity", scores_by_budget, SHOWN, families=FAMILIES),),
    claims=CLAIMS,
    minutes=2,
)
