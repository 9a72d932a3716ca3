"""Every method of the library on many data sets: accuracy or average precision, time, gap, and their ranks."""

from __future__ import annotations

from typing import Any

from multikernel.estimators.registry import available
from multikernel_experiments import archives as a
from multikernel_experiments.findings.against import better_over_settings
from multikernel_experiments.findings.ranks import critical_difference, hard_to_beat, score_and_time
from multikernel_experiments.findings.verdicts import HERE, Claim
from multikernel_experiments.protocol import OWN, Entry, Protocol, Task
from multikernel_experiments.sets import SETS, task_of

# four candidates for every method: of one axis four values, of two axes two each
CANDIDATES = 4
ONE: dict[str, tuple] = {
    "C": (0.1, 1.0, 10.0, 100.0),
    "reg": (1e-6, 1e-4, 1e-2, 1.0),
}
CS, PS = (1.0, 30.0), (1.0, 2.0)
TWO: dict[str, dict[str, tuple]] = {
    **{name: {"C": CS, "p": (1.05, 1.5)} for name in ("obscure", "obscure-sdca")},
    "svrg": {"C": (1.0, 100.0), "p": (1.1, 2.0)},
    "cskl-cv": {"C": CS},  # and two t
    # weights need held-out scores of all samples
    **{name: {"C": CS, "nu": (0.2, 0.6), "cv": (3,)} for name in ("lp-beta", "lp-b")},
}
# methods that search by themselves do so on the same fold and with as many candidates
SEARCHES: dict[str, dict[str, Any]] = {
    "mkl-cv": {"Cs": CS, "ps": PS},
    "mkfda-cv": {"ps": PS, "regs": (1e-4, 1e-2), "criterion": "cv"},
    "cskl-cv": {"ts": (1.0, 3.0)},
}
SEEDED = ("obscure", "obscure-sdca", "ufo", "svrg", "ml-mkl", "ml-mkl-sum")


def entries() -> list[Entry]:
    """All registered methods."""
    found = []
    for name, method in available().items():
        params = {**SEARCHES.get(name, {}), **({"random_state": 0} if name in SEEDED else {})}
        grid = TWO.get(name) or (
            {} if name in SEARCHES else {axis: ONE.get(axis, tuple(values)) for axis, values in method.grid.items()}
        )
        found.append(Entry(name, name, method.title.replace("leave-one-out", "validation"), params, grid))
    return found


def task(archives: a.Archives, setting: str, split: int, quick: bool) -> Task:
    return task_of(archives, SETS[setting], split)


BETTER = (
    ("mkl-p2", "mkl", "Non-sparse MKL (p = 2) is better than p = 1", "KBSZ11"),
    ("mkfda-p2", "mkl-p2", "MK-FDA is better than MK-SVM, both with p = 2", "YMBCK10, Table 2"),
    ("lp-beta", "mkl", "LP-β is better than MKL", "GN09"),
    ("cskl-cv", "mkl", "Choosing how many kernels to use (CSKL) is better than p = 1", "GMSB11, sect. 5.2"),
    ("average", "best", "The average kernel is better than the best single one", "GN09"),
)
BY = "default solvers, four candidates each on one fold"
PROTOCOL = Protocol(
    name="grand",
    title="All methods on many data sets",
    about="Every method of the library on three random stratified splits of each data set, all with the same "
    "kernels, scaled to unit variance, and the same budget of tuning: four candidates, judged on a third of the "
    "training samples. VOC07 has average precision of a class against the rest, others "
    "accuracy.",
    source="this library",
    files=tuple(sorted({data.file for data in SETS.values()})),
    entries=entries(),
    task=task,
    settings=tuple(SETS),
    quick_settings=("breast TCGA", "Sonar"),
    setting_title="data set",
    n_splits=3,
    mean_row="mean",
    metric="score",
    figures=(critical_difference, score_and_time),
    claims=(
        Claim("The average kernel is hard to beat", "GN09", hard_to_beat, by=BY, key="average"),
        *(
            Claim(text, source, better_over_settings, by=BY, key=key, other=other)
            for key, other, text, source in BETTER
        ),
        Claim(
            "C and p by validation are better than p = 2 alone",
            HERE,
            better_over_settings,
            by=BY,
            about=OWN,
            key="mkl-cv",
            other="mkl-p2",
        ),
    ),
    minutes=25,
)
