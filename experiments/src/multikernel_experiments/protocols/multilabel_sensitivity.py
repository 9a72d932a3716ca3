"""ML-MKL-SA with other smoothing and other steps: accuracy against iterations."""

from __future__ import annotations

from multikernel_experiments.archives import Archives
from multikernel_experiments.findings.drawing import Picture
from multikernel_experiments.findings.lines import alike_at_the_end, ends_are_worst, scores_by_budget
from multikernel_experiments.findings.verdicts import Claim
from multikernel_experiments.images import CALTECH
from multikernel_experiments.label_sets import caltech_labels
from multikernel_experiments.labels import PerLabelEntry, mean_average_precision
from multikernel_experiments.protocol import PRINTED, Entry, Protocol, Task, along

CLASSES = 24
BUDGETS = (48, 192, 768)
SA = {"C": 10.0, "solver": "sa-printed", "random_state": 0, "tol": 1e-4}
# with η = 0.01 and with δ = 0, as in the paper
DELTAS = {f"δ={value:g}": value for value in (0.0, 0.2, 0.6, 1.0)}
ETAS = {f"η={value:g}": value for value in (1e-2, 1e-3, 1e-4)}
FAMILIES = {"smoothing": list(DELTAS), "steps": list(ETAS)}
SHOWN = (
    "Score against SVMs solved, mean ± one standard error: left for four δ with η = 0.01, right for three η, δ = 0."
)
BY = 'MultilabelMKLClassifier(solver="sa-printed"), five seeds'


def line(key: str, **values: float) -> list[Entry]:
    """Longer and longer fits with a step and a smoothing."""
    return along(Entry(key, "ml-mkl", key, {**SA, **values}), BUDGETS)


def task(archives: Archives, setting: str, split: int, quick: bool) -> Task:
    return caltech_labels(archives, split % 3, 10 if quick else CLASSES)


CLAIMS = (
    Claim(
        "The final accuracy is comparable for different δ, within two points",
        "BJJ10, Figure 3",
        alike_at_the_end,
        by=BY,
        about=PRINTED,
        keys=list(DELTAS),
        close=2.0,
    ),
    Claim(
        "The extreme cases δ = 0 and δ = 1 are the worst",
        "BJJ10, Figure 3",
        ends_are_worst,
        by=BY,
        about=PRINTED,
        keys=list(DELTAS),
    ),
    Claim(
        "The accuracy is similar for small steps, η = 0.001 and 0.0001",
        "BJJ10, Figure 4",
        alike_at_the_end,
        by=BY,
        about=PRINTED,
        keys=list(ETAS)[1:],
        close=1.0,
        near=2.0,
        beside=list(ETAS)[:1],
    ),
)

DIFFERS = f"{CLASSES} classes instead of 102, 15 training images instead of 30, 39 kernels instead of 9."
PROTOCOL = Protocol(
    name="multilabel-sensitivity",
    title="ML-MKL-SA: smoothing and steps",
    about=f"The first {CLASSES} classes of Caltech-101 as labels, 15 training images each, 39 kernels, C = 10. Fits "
    "with the algorithm as printed and a given number of SVMs; the final SVMs of all labels are not counted. "
    "Five seeds on "
    "three given splits.",
    source="[BJJ10, Figures 3 and 4]",
    files=(CALTECH,),
    entries=(
        PerLabelEntry("average", "average", "average", {"C": 10.0}),
        Entry("max", "ml-mkl", "worst label, certified", {"C": 10.0, "tol": 1e-3}),
        Entry("sum", "ml-mkl", "sum of labels", {"C": 10.0, "objective": "sum", "tol": 1e-3}),
        *(entry for key, v in DELTAS.items() for entry in line(key, eta=1e-2, delta=v)),
        *(entry for key, v in ETAS.items() for entry in line(key, eta=v, delta=0.0)),
    ),
    task=task,
    n_splits=5,
    score=mean_average_precision,
    metric="mean average precision",
    figures=(
        Picture(
            "sensitivity",
            scores_by_budget,
            SHOWN,
            of="BJJ10, Figure 3; BJJ10, Figure 4",
            differs=DIFFERS,
            families=FAMILIES,
        ),
    ),
    claims=CLAIMS,
    minutes=5,
)
