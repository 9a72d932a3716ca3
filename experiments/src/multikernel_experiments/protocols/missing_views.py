"""Accuracy against the share of missing views, for three ways of dealing with them."""

from __future__ import annotations

import numpy as np

from multikernel_experiments import archives as a
from multikernel_experiments.findings.drawing import Picture
from multikernel_experiments.findings.missing import near_the_best, never_behind, score_by_share
from multikernel_experiments.findings.verdicts import HERE, Claim
from multikernel_experiments.missing import lost_views, tasks_with_holes
from multikernel_experiments.protocol import OWN, Entry, Protocol, Task
from multikernel_experiments.sets import TCGA_VIEWS, UCI

# archive, arrays, training and test samples
SETS: dict[str, tuple[str, tuple[str, ...], float | int, int | None]] = {
    "breast TCGA": ("breast_tcga.npz", TCGA_VIEWS, 0.5, None),
    "mfeat": ("mfeat.npz", tuple(f"view_{k:02d}" for k in range(6)), 400, 1000),
    "MSRC-v1": ("msrc_v1.npz", tuple(f"view_{k:02d}" for k in range(5)), 0.5, None),
    "Satellite": (UCI, tuple(f"band {k}" for k in range(4)), 400, 1000),
}
SHARES = (0.0, 0.1, 0.3, 0.5, 0.7)
KINDS = ("at random", "by block")
SETTINGS = {
    name: {kind: {f"{name}, {100 * s:.0f} % {kind}" if s else f"{name}, 0 %": s for s in SHARES} for kind in KINDS}
    for name in SETS
}
# fewer than two complete samples a class are left, or none
TOO_FEW = (
    *(f"{name}, 70 % at random" for name in SETS),
    "mfeat, 50 % at random",
    "MSRC-v1, 50 % at random",
    "breast TCGA, 70 % by block",
)
MKL = {"p": 2.0, "C": 10.0, "normalize": "variance"}


def task(archives: a.Archives, setting: str, split: int, quick: bool) -> Task:
    name, _, loss = setting.partition(", ")
    file, arrays, n_train, n_test = SETS[name]
    archive = archives.load(file)
    if name == "Satellite":  # nine pixels in four bands, which are its views
        X = archive["Satellite_X"]
        X, columns = a.joined({band: X[:, k::4] for k, band in enumerate(arrays)}, arrays)
        y = archive["Satellite_y"]
    else:
        X, columns = a.joined(archive, arrays)
        y = archive["y_train" if "y_train" in archive else "y"]
    train, test = a.shuffled(y, n_train, split, n_test)
    share = float(loss.partition(" %")[0]) / 100
    gone = np.zeros((len(y), len(columns)), dtype=bool)
    for rows in (train, test):  # the same share of both
        gone[rows] = lost_views(len(rows), len(columns), share, loss.endswith("by block"), split)
    return tasks_with_holes(X, columns, y, gone, train, test)


MASK = {"by": 'MKLClassifier(missing="mask"), p = 2, C = 10', "about": OWN, "key": "mask"}
CLAIMS = (
    Claim("The mask is at least as good as complete cases", HERE, never_behind, **MASK, other="complete"),
    Claim("The mask is at least as good as imputing means", HERE, never_behind, **MASK, other="mean"),
    Claim("The mask is within a point of the best on average", HERE, near_the_best, **MASK, points=1.0),
)

PROTOCOL = Protocol(
    name="missing-views",
    title="Samples that lack views",
    about="MKL with p = 2 and C = 10 on an RBF kernel for each view, scaled to unit variance. Views are taken away "
    "from training and test samples alike: entries at random, or all views but one of a part of the samples (by "
    'block); each sample keeps one. They are masked (`missing="mask"`), or filled with the means of columns, or only '
    "complete samples are used to train, and the mask to predict. Complete cases are left out where fewer than two "
    "of a class are expected. With three views at most 67 % can be missing.",
    source="the library's own question",
    files=tuple(sorted({file for file, *_ in SETS.values()})),
    entries=(
        Entry("mask", "mkl", "mask", {**MKL, "missing": "mask"}),
        Entry("mean", "mkl", "means of columns", MKL),
        Entry("complete", "mkl", "complete cases", {**MKL, "missing": "mask"}, leaves_out=TOO_FEW),
    ),
    task=task,
    settings=tuple(dict.fromkeys(s for kinds in SETTINGS.values() for at in kinds.values() for s in at)),
    quick_settings=tuple(f"{name}, {loss}" for name in SETS for loss in ("0 %", "30 % at random", "30 % by block")),
    setting_title="data, missing entries",
    n_splits=5,
    figures=(Picture("accuracy_by_share", score_by_share, shares=SETTINGS),),
    claims=CLAIMS,
    minutes=3,
)
