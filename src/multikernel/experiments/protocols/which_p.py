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
    gains = {s: {key: results.difference(key, "average", s) for key in NORMS} for s in results.protocol.settings}
    found = {s: g for s, g in gains.items() if math.isfinite(g["1"][0])}
    if not found:
        return []
    parts = {"better": [], "worse": [], "even": []}  # type: dict[str, list[str]]
    for setting, gain in found.items():
        mean, deviation, count = gain["1"]
        error = 0.0 if math.isnan(deviation) else deviation / math.sqrt(count)
        kind = "even" if abs(mean) <= max(2 * error, 0.005) else "better" if mean > 0 else "worse"
        parts[kind].append(f"{setting} {100 * mean:+.1f}")
    text = "; ".join(f"{kind}: {', '.join(values) or 'none'}" for kind, values in parts.items())
    holds = HOLDS if not parts["worse"] and parts["better"] else IN_PART if parts["better"] else FAILS
    verdicts = [Verdict("Sparse MKL (p = 1) is more accurate than the average kernel", "LCBGJ04", holds, text)]
    best = {s: max(gain[key][0] for key in NORMS if key != "1") - gain["1"][0] for s, gain in found.items()}
    ahead = [s for s, lead in best.items() if lead > 0]
    holds = HOLDS if len(ahead) == len(best) else IN_PART if ahead else FAILS
    text = f"some p > 1 is ahead of p = 1 on {len(ahead)} of {len(best)}, in hindsight: " + ", ".join(
        f"{s} {100 * lead:+.1f}" for s, lead in best.items()
    )
    return [*verdicts, Verdict("ℓp-norms with p > 1 are better than p = 1", "KBSZ11", holds, text)]


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
