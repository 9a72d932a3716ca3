"""Which p? The average kernel against MKL with p from 1 to infinity, on nine real data sets."""

from __future__ import annotations

import math
from typing import Any

from multikernel.compare.tuning import inner_folds
from multikernel.experiments import archives as a
from multikernel.experiments.drawing import gains_over_baseline
from multikernel.experiments.protocol import FAILS, HOLDS, IN_PART, Entry, Protocol, Task, Verdict
from multikernel.experiments.results import Results
from multikernel.kernels import RBF, Linear

C = (0.01, 0.1, 1.0, 10.0, 100.0)
NORMS = {"1": 1.0, "1.25": 1.25, "2": 2.0, "4": 4.0, "∞": math.inf}
WIDTHS = ("0.25*mean", "mean", "4*mean")
# archive, views (none: given kernels or distances), samples to train on, samples to test on
SETS: dict[str, tuple[str, Any, float | int, int | None]] = {
    "football": ("football_kernels.npz", None, 0.6, None),
    "Yale faces": ("yale_kernels.npz", None, 0.6, None),
    "MSRC-v1": ("msrc_v1.npz", [f"view_{v:02d}" for v in range(5)], 0.5, None),
    "breast TCGA": ("breast_tcga.npz", ["mrna_train", "mirna_train", "protein_train"], 0.6, None),
    "mfeat": ("mfeat.npz", [f"view_{v:02d}" for v in range(6)], 200, 1000),
    "Flower17": ("flower17_dist.npz", None, 510, 680),
    "DNA": ("uci_pack.npz", "windows", 500, 1500),
    "Sonar": ("uci_pack.npz", "every feature", 0.5, None),
    "Ionosphere": ("uci_pack.npz", "every feature", 0.5, None),
}


def task(archives: a.Archives, setting: str, split: int, quick: bool) -> Task:
    file, views, n_train, n_test = SETS[setting]
    archive = archives.load(file)
    y = archive["y_train" if "y_train" in archive else f"{setting}_y" if f"{setting}_y" in archive else "y"]
    train, test = a.shuffled(y, n_train, split, n_test)
    if isinstance(views, str):
        X = archive[f"{setting}_X"]
        stacks = a.from_features(X, feature_kernels(views, X.shape[1]), train, test)
    elif views:
        X, columns = a.joined(archive, views)
        stacks = a.from_features(X, [RBF(columns=place, name=name) for name, place in columns.items()], train, test)
    elif "D_triu" in archive:
        distances = archives.once(file, lambda: a.unfold(archive["D_triu"], len(y)))
        stacks = a.from_distances(distances, [str(name) for name in archive["names"]], train, test)
    else:
        stacks = a.from_kernels(archive["K"], [f"kernel {k}" for k in range(len(archive["K"]))], train, test)
    training, testing = a.normalized(stacks, "variance")
    return Task(training, testing, y[train], y[test], inner_folds(y[train], 3, split))


def feature_kernels(kind: str, n_columns: int) -> list[Any]:
    """Windows of 15 columns with an RBF each; or a linear and three RBF kernels on all and on every feature."""
    if kind == "windows":
        starts = range(0, n_columns, 15)
        return [RBF(columns=slice(s, min(s + 15, n_columns)), name=f"columns {s}–{s + 14}") for s in starts]
    kernels: list[Any] = []
    for columns in (None, *([k] for k in range(n_columns))):
        kernels += [RBF(bandwidth=width, columns=columns) for width in WIDTHS]
        kernels.append(Linear(columns=columns))
    return kernels


def claims(results: Results) -> list[Verdict]:
    return [
        _compared(results, "1", "average", "Sparse MKL (p = 1) is better than the average kernel", "often expected"),
        _compared(results, "2", "1", "Non-sparse MKL (p = 2) is better than p = 1", "KBSZ11"),
        _compared(results, "2", "average", "MKL with p = 2 is better than the average kernel", "often expected"),
    ]


def _compared(results: Results, key: str, other: str, claim: str, source: str) -> Verdict:
    """Data sets on which one is ahead by more than two standard errors, and by half a point at least."""
    parts: dict[str, list[str]] = {"better": [], "worse": [], "even": []}
    for setting in results.protocol.settings:
        mean, deviation, count = results.difference(key, other, setting)
        if math.isfinite(mean):
            error = deviation / math.sqrt(count) if count > 1 else 0.0
            kind = "even" if abs(mean) <= max(2 * error, 0.005) else "better" if mean > 0 else "worse"
            parts[kind].append(f"{setting} {100 * mean:+.1f}")
    verdict = FAILS if not parts["better"] else IN_PART if parts["worse"] or parts["even"] else HOLDS
    return Verdict(claim, source, verdict, "; ".join(f"{k}: {', '.join(v) or 'none'}" for k, v in parts.items()))


PROTOCOL = Protocol(
    name="which-p",
    title="Which p?",
    about="Average kernel and MKLClassifier with norms p of the weights on nine data sets, kernels scaled to unit "
    "variance, C chosen by three-fold validation inside the training samples, five random stratified splits.",
    source="[KBSZ11]",
    files=tuple(sorted({file for file, *_ in SETS.values()})),
    entries=(
        Entry("average", "average", "average", grid={"C": C}),
        *(Entry(key, "mkl", f"p = {key}", {"p": p}, {"C": C}) for key, p in NORMS.items()),
    ),
    task=task,
    settings=tuple(SETS),
    quick_settings=("football", "Yale faces", "MSRC-v1", "breast TCGA", "mfeat"),
    setting_title="data set",
    n_splits=5,
    quick_splits=2,
    figures=(gains_over_baseline,),
    claims=claims,
)
