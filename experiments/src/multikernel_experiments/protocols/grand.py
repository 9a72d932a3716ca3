"""Every method of the library on many data sets: accuracy or average precision, time, gap, and their ranks."""

from __future__ import annotations

from multikernel.estimators.registry import available
from multikernel_experiments import archives as a
from multikernel_experiments.findings.against import better_over_settings
from multikernel_experiments.findings.ranks import critical_difference, hard_to_beat, score_and_time
from multikernel_experiments.findings.verdicts import Claim, verdicts_on
from multikernel_experiments.protocol import Entry, Protocol, Task
from multikernel_experiments.sets import SETS, task_of

# axes of the grids, in place of those of the registry: three values each, two where there are two axes
GRID = {"C": (1.0, 10.0, 100.0), "reg": (1e-4, 1e-2, 1.0), "nu": (0.1, 0.3, 0.6)}
TWO = {"C": (1.0, 100.0), "p": (1.05, 1.5)}
LONG = ("lp-beta", "lp-b", "cskl-cv")
SEEDED = ("obscure", "obscure-sdca", "ufo", "svrg", "ml-mkl", "ml-mkl-sum")


def entries() -> list[Entry]:
    """All registered methods."""
    found = []
    for name, method in available().items():
        axes = TWO if len(method.grid) > 1 else GRID
        grid: dict[str, tuple] = {axis: axes.get(axis, tuple(values)) for axis, values in method.grid.items()}
        params: dict[str, float] = {"random_state": 0} if name in SEEDED else {}
        if name in LONG:  # they choose something else by folds of their own
            params["C"] = 10.0
            grid.pop("C", None)
        if name in ("lp-beta", "lp-b"):  # weights need held-out scores of all samples
            grid["cv"] = (3,)
        found.append(Entry(name, name, method.title, params, grid))
    return found


def task(archives: a.Archives, setting: str, split: int, quick: bool) -> Task:
    return task_of(archives, SETS[setting], split)


BETTER = (
    ("mkl-p2", "mkl", "Non-sparse MKL (p = 2) is better than p = 1", "KBSZ11"),
    ("mkfda-p2", "mkl-p2", "MK-FDA is better than MK-SVM, both with p = 2", "YMBCK10, Table 2"),
    ("lp-beta", "mkl", "LP-β is better than MKL", "GN09"),
    ("cskl-cv", "mkl", "Choosing how many kernels to use (CSKL) is better than p = 1", "GMSB11"),
    ("average", "best", "The average kernel is better than the best single one", "GN09"),
)
CLAIMS = verdicts_on(
    Claim("The average kernel is hard to beat", "GN09", hard_to_beat, key="average"),
    *(Claim(text, source, better_over_settings, key=key, other=other) for key, other, text, source in BETTER),
)

PROTOCOL = Protocol(
    name="grand",
    title="All methods on many data sets",
    about="Every method of the library on two random stratified splits of each data set, all with the same "
    "kernels, scaled to unit variance. Parameters are chosen on a third of the training samples; LP-β, LP-B and "
    "CSKL with t by cross-validation have C = 10. VOC07 has average precision of a class against the rest, others "
    "accuracy.",
    source="this library",
    files=tuple(sorted({data.file for data in SETS.values()})),
    entries=entries(),
    task=task,
    settings=tuple(SETS),
    quick_settings=("breast TCGA", "Sonar"),
    setting_title="data set",
    n_splits=2,
    mean_row="mean",
    metric="score",
    figures=(critical_difference, score_and_time),
    claims=CLAIMS,
    minutes=12,
)
