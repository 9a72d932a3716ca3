"""ML-MKL-SA with other smoothing and other steps: accuracy against iterations."""

from __future__ import annotations

from typing import Any

import numpy as np

from multikernel.experiments import archives as a
from multikernel.experiments.images import CALTECH, caltech39, caltech_split
from multikernel.experiments.label_figures import scores_by_budget
from multikernel.experiments.labels import PerLabelEntry, mean_average_precision, signs_of_classes
from multikernel.experiments.protocol import FAILS, HOLDS, IN_PART, Course, Entry, Protocol, Task, Verdict
from multikernel.experiments.results import Results

CLASSES = 34
BUDGETS = (34, 68, 136, 272, 544, 1088)
SA = {"C": 10.0, "solver": "sa", "random_state": 0, "tol": 1e-4}
DELTAS, ETAS = (0.0, 0.2, 0.6, 1.0), (1e-2, 1e-3, 1e-4)  # with η = 0.01 and with δ = 0, as in the paper


def options(**values: float) -> dict[str, Any]:
    return {**SA, "solver_options": values}


def task(archives: a.Archives, setting: str, split: int, quick: bool) -> Task:
    archive = archives.load(CALTECH)
    train, test = caltech_split(archive, split, 10 if quick else CLASSES)
    Y = signs_of_classes(archive["y"], np.unique(archive["y"][train]))
    return Task(*caltech39(archives, train, test), Y[train], Y[test], [])


def claims(results: Results) -> list[Verdict]:
    final = {key: 100 * record["points"][-1]["score"] for key, record in results.courses.items()}
    deltas, etas = [f"δ={value:g}" for value in DELTAS], [f"η={value:g}" for value in ETAS]
    if not set(deltas + etas) <= set(final):
        return []
    by_delta, by_eta = ({key: final[key] for key in keys} for keys in (deltas, etas))
    spread = max(by_delta.values()) - min(by_delta.values())
    ends = max(by_delta[deltas[0]], by_delta[deltas[-1]]) < min(by_delta[key] for key in deltas[1:-1])
    close = abs(by_eta[etas[1]] - by_eta[etas[2]])
    text = ", ".join(f"{key}: {value:.1f}" for key, value in by_delta.items())
    return [
        Verdict(
            "The final accuracy is comparable for different δ, within two points",
            "BJJ10, Figure 3",
            HOLDS if spread <= 2.0 else FAILS,
            text,
        ),
        Verdict("The extreme cases δ = 0 and δ = 1 are the worst", "BJJ10, Figure 3", HOLDS if ends else FAILS, text),
        Verdict(
            "The accuracy is similar for small steps, η = 0.001 and 0.0001",
            "BJJ10, Figure 4",
            HOLDS if close <= 1.0 else IN_PART if close <= 2.0 else FAILS,
            ", ".join(f"{key}: {value:.1f}" for key, value in by_eta.items()),
        ),
    ]


def sensitivity(results: Results, figure: Any) -> None:
    """Score against SVMs solved: left for four δ with η = 0.01, right for three η with δ = 0 and scale-free steps."""
    panels = {"smoothing": [f"δ={value:g}" for value in DELTAS], "steps": [*(f"η={v:g}" for v in ETAS), "free"]}
    scores_by_budget(results, figure, panels)


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
            Course(f"δ={v:g}", "ml-mkl", f"δ = {v:g}", "sa", "max", options(eta=1e-2, delta=v), BUDGETS)
            for v in DELTAS
        ),
        *(Course(f"η={v:g}", "ml-mkl", f"η = {v:g}", "sa", "max", options(eta=v, delta=0.0), BUDGETS) for v in ETAS),
        Course("free", "ml-mkl", "scale-free steps, δ = 0.2", "sa", "max", SA, BUDGETS),
    ),
    figures=(sensitivity,),
    claims=claims,
)
