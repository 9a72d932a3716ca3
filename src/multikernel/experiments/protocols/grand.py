"""Every method of the library on many data sets: accuracy or average precision, time, gap, and their ranks."""

from __future__ import annotations

import math

from multikernel.estimators.registry import available
from multikernel.experiments import archives as a
from multikernel.experiments.against import over_settings, ranked, sign_verdict
from multikernel.experiments.protocol import FAILS, HOLDS, IN_PART, Entry, Protocol, Task, Verdict
from multikernel.experiments.ranks import critical_difference, score_and_time
from multikernel.experiments.results import Results
from multikernel.experiments.sets import SETS, task_of
from multikernel.experiments.significance import holm

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
        grid: dict[str, tuple] = {axis: axes[axis] for axis in method.grid}
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


def claims(results: Results) -> list[Verdict]:
    found = ranked(results)
    if found is None:
        return []
    titles = {entry.key: entry.title for entry in results.protocol.entries}
    beaten = {key: over_settings(results, key, "average") for key in found.ranks if key != "average"}
    corrected = holm({key: test[3] for key, test in beaten.items()})
    better = [key for key, test in beaten.items() if corrected[key] < 0.05 and test[0] > test[2]]
    text = f"mean rank {found.ranks.get('average', math.nan):.1f} of {len(found.ranks)}; significantly better "
    text += f"(sign test, corrected): {', '.join(titles[key] for key in better) or 'none'}"
    first = next(iter(found.ranks))
    lead = found.ranks["average"] - found.ranks[first] if "average" in found.ranks else math.nan
    text += f"; the best rank is that of {titles[first]}, {lead:.1f} ahead (critical {found.critical_difference:.1f})"
    verdict = HOLDS if not better and lead <= found.critical_difference else IN_PART if not better else FAILS
    pairs = (
        ("mkl-p2", "mkl", "Non-sparse MKL (p = 2) is better than p = 1", "KBSZ11"),
        ("mkfda-p2", "mkl-p2", "MK-FDA is better than MK-SVM, both with p = 2", "YMBCK10, Table 2"),
        ("lp-beta", "mkl", "LP-β is better than MKL", "GN09"),
        ("cskl-cv", "mkl", "Choosing how many kernels to use (CSKL) is better than p = 1", "GMSB11"),
        ("average", "best", "The average kernel is better than the best single one", "GN09"),
    )
    verdicts = [sign_verdict(results, *pair) for pair in pairs]
    return [Verdict("The average kernel is hard to beat", "GN09", verdict, text), *(v for v in verdicts if v)]


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
    claims=claims,
)
