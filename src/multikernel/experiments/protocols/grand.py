"""Every method of the library on many data sets: accuracy or average precision, time, gap, and their ranks."""

from __future__ import annotations

from multikernel.estimators.registry import available
from multikernel.experiments import archives as a
from multikernel.experiments.protocol import Entry, Protocol, Task
from multikernel.experiments.sets import SETS, task_of

# axes of the grids, in place of those of the registry: three values each, two where there are two axes
GRID = {"C": (1.0, 10.0, 100.0), "reg": (1e-4, 1e-2, 1.0), "nu": (0.1, 0.3, 0.6)}
TWO = {"C": (1.0, 100.0), "p": (1.05, 1.5)}
SEEDED = ("obscure", "obscure-sdca", "ufo", "svrg", "ml-mkl", "ml-mkl-sum")


def entries() -> list[Entry]:
    """All registered methods."""
    found = []
    for name, method in available().items():
        axes = TWO if len(method.grid) > 1 else GRID
        grid: dict[str, tuple] = {axis: axes[axis] for axis in method.grid}
        if name in ("lp-beta", "lp-b"):  # weights need held-out scores of all samples: folds of their own
            grid["cv"] = (5,)
        found.append(Entry(name, name, method.title, {"random_state": 0} if name in SEEDED else {}, grid))
    return found


def task(archives: a.Archives, setting: str, split: int, quick: bool) -> Task:
    return task_of(archives, SETS[setting], split)


PROTOCOL = Protocol(
    name="grand",
    title="All methods on many data sets",
    about="Every method of the library on three random stratified splits of each data set, all with the same "
    "kernels, scaled to unit variance. Parameters are chosen inside the training samples: by three folds, by one "
    "from 400 training samples on. VOC07 has average precision of a class against the rest, all others accuracy.",
    source="this library",
    files=tuple(sorted({data.file for data in SETS.values()})),
    entries=entries(),
    task=task,
    settings=tuple(SETS),
    quick_settings=("breast TCGA", "Sonar"),
    setting_title="data set",
    mean_row="mean",
    metric="score",
)
