"""Data sets that several protocols share: where each is in the archives, its kernels, and how it is split."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from multikernel.compare.tuning import accuracy, inner_folds
from multikernel_experiments import archives as a
from multikernel_experiments.fitting import average_precision
from multikernel_experiments.images import CALTECH, VOC_LEVELS, kernels_of
from multikernel_experiments.protocol import Task

VOC = "voc07_views.npz"
CALTECH_ONE_LEVEL = {
    "sift": (2,), "siftedge": (1,), "csift": (2,), "ssim": (2,), "phog180": (4,), "phog360": (4,), "lbp1": (2,),
    "lbp3": (2,), "tex": (1,), "hsv": (1,), "colhist": (1,),
}  # fmt: skip
TCGA_VIEWS = ("mrna_train", "mirna_train", "protein_train")


@dataclass(frozen=True)
class DataSet:
    """A data set with its kernels.

    Parameters
    ----------
    file : str
        The archive.
    kind : str
        Which of `KINDS` reads it and makes its kernels.
    n_train, n_test : float or int
        Shares or numbers of samples of a random stratified split; None for all that is left.
    name : str
        Of the matrix, where an archive has several; of the class against the rest in VOC 2007.
    classes : int, optional
        The first so many classes only.
    """

    file: str
    kind: str
    n_train: float | int
    n_test: int | None = None
    name: str = ""
    classes: int | None = None


def task_of(archives: a.Archives, data: DataSet, split: int, n_folds: int = 1) -> Task:
    """Stacks of unit variance, labels, and the first so many of three folds to choose parameters on."""
    archive = archives.load(data.file)
    y = _labels(archive, data)
    known = np.flatnonzero(y != 0) if data.kind == "voc" else np.arange(len(y))  # 0 marks difficult images
    known = known[np.isin(y[known], np.unique(y)[: data.classes])] if data.classes else known
    train, test = (known[rows] for rows in a.shuffled(y[known], data.n_train, split, data.n_test))
    stacks = KINDS[data.kind](archives, archive, data, train, test)
    training, testing = a.normalized(stacks, "variance")
    score = average_precision if data.kind == "voc" else accuracy
    return Task(training, testing, y[train], y[test], inner_folds(y[train], 3, split)[:n_folds], score)


def _labels(archive: Mapping[str, NDArray], data: DataSet) -> NDArray:
    if data.kind == "voc":
        return archive["Y"][:, [str(name) for name in archive["classes"]].index(data.name)]
    names = ("y", "y_train") if not data.name else (f"{data.name}_y",)
    return archive[next((name for name in names if name in archive), names[0])]


def _given(archives: a.Archives, archive: Any, data: DataSet, train: NDArray, test: NDArray) -> tuple[Any, Any]:
    return a.from_kernels(archive["K"], [f"kernel {k}" for k in range(len(archive["K"]))], train, test)


def _distances(archives: a.Archives, archive: Any, data: DataSet, train: NDArray, test: NDArray) -> tuple[Any, Any]:
    D = archives.once(data.file, lambda: a.unfold(archive["D_triu"], len(archive["y"])))
    return a.from_distances(D, [str(name) for name in archive["names"]], train, test)


def _views(archives: a.Archives, archive: Any, data: DataSet, train: NDArray, test: NDArray) -> tuple[Any, Any]:
    """An RBF kernel on each view."""
    from multikernel.kernels import RBF

    names = [name for name in TCGA_VIEWS if name in archive]
    names = names or sorted(name for name in archive if name.startswith("view_0"))
    X, columns = a.joined(archive, names)
    return a.from_features(X, [RBF(columns=place, name=name) for name, place in columns.items()], train, test)


def _columns(archives: a.Archives, archive: Any, data: DataSet, train: NDArray, test: NDArray) -> tuple[Any, Any]:
    """Five RBF kernels on all columns, and an RBF kernel on each of up to ten blocks of them."""
    from multikernel.kernels import RBF

    X = archive[f"{data.name}_X"]
    kernels = [RBF(bandwidth=f"{width:g}*mean", name=f"RBF {width:g}") for width in (0.1, 0.3, 1.0, 3.0, 10.0)]
    for block in np.array_split(np.arange(X.shape[1]), min(10, X.shape[1])):
        kernels.append(RBF(columns=slice(block[0], block[-1] + 1), name=f"columns {block[0]}–{block[-1]}"))
    return a.from_features(X, kernels, train, test)


def _windows(archives: a.Archives, archive: Any, data: DataSet, train: NDArray, test: NDArray) -> tuple[Any, Any]:
    """An RBF kernel on each window of 15 columns."""
    from multikernel.kernels import RBF

    X = archive[f"{data.name}_X"]
    starts = range(0, X.shape[1], 15)
    kernels = [RBF(columns=slice(s, min(s + 15, X.shape[1])), name=f"columns {s}–{s + 14}") for s in starts]
    return a.from_features(X, kernels, train, test)


def _every_feature(
    archives: a.Archives, archive: Any, data: DataSet, train: NDArray, test: NDArray
) -> tuple[Any, Any]:
    """A linear and three RBF kernels on all columns and on each of them."""
    from multikernel.kernels import RBF, Linear

    X = archive[f"{data.name}_X"]
    kernels: list[Any] = []
    for columns in (None, *([k] for k in range(X.shape[1]))):
        kernels += [RBF(bandwidth=width, columns=columns) for width in ("0.25*mean", "mean", "4*mean")]
        kernels.append(Linear(columns=columns))
    return a.from_features(X, kernels, train, test)


def _quadrants(archives: a.Archives, archive: Any, data: DataSet, train: NDArray, test: NDArray) -> tuple[Any, Any]:
    """Linear, polynomial and RBF kernels on the four quadrants of images [OJC10, sec. 4.3]."""
    from multikernel.kernels import RBF, Linear, Polynomial

    images = archive["X_train"][np.concatenate([train, test])].astype(np.float32) / 255
    half = images.shape[1] // 2
    X, columns = a.joined(
        {f"{r}{c}": images[:, r * half : (r + 1) * half, c * half : (c + 1) * half] for r in (0, 1) for c in (0, 1)},
        ["00", "01", "10", "11"],
    )
    kernels: list[Any] = []
    for name, place in columns.items():
        kernels += [Linear(columns=place, name=f"{name} linear"), RBF(columns=place, name=f"{name} RBF")]
        kernels.append(Polynomial(degree=3, columns=place, name=f"{name} polynomial"))
    places = np.arange(len(train)), np.arange(len(train), len(X))
    return a.from_features(X, kernels, *places, standardize=False)


def _caltech(archives: a.Archives, archive: Any, data: DataSet, train: NDArray, test: NDArray) -> tuple[Any, Any]:
    return a.from_features(*kernels_of(archive, CALTECH_ONE_LEVEL), train, test, standardize=False)


def _voc(archives: a.Archives, archive: Any, data: DataSet, train: NDArray, test: NDArray) -> tuple[Any, Any]:
    return a.from_features(*kernels_of(archive, VOC_LEVELS), train, test, standardize=False)


KINDS = {
    "kernels": _given,
    "distances": _distances,
    "views": _views,
    "columns": _columns,
    "windows": _windows,
    "every feature": _every_feature,
    "quadrants": _quadrants,
    "caltech": _caltech,
    "voc": _voc,
}

UCI = "uci_pack.npz"
SETS: dict[str, DataSet] = {
    "Flower17": DataSet("flower17_dist.npz", "distances", 340, 680),
    "Caltech, 10 classes": DataSet(CALTECH, "caltech", 150, 150, classes=10),
    "VOC07 cat": DataSet(VOC, "voc", 400, 1200, "cat"),
    "VOC07 train": DataSet(VOC, "voc", 400, 1200, "train"),
    "mfeat": DataSet("mfeat.npz", "views", 200, 1000),
    "MNIST-20k": DataSet("mnist.npz", "quadrants", 1000, 19000),
    "breast TCGA": DataSet("breast_tcga.npz", "views", 0.6),
    "football": DataSet("football_kernels.npz", "kernels", 0.6),
    "Yale faces": DataSet("yale_kernels.npz", "kernels", 0.6),
    "MSRC-v1": DataSet("msrc_v1.npz", "views", 0.5),
    "Sonar": DataSet(UCI, "columns", 0.6, None, "Sonar"),
    "Ionosphere": DataSet(UCI, "columns", 0.6, None, "Ionosphere"),
    "Glass": DataSet(UCI, "columns", 0.6, None, "Glass"),
    "Vehicle": DataSet(UCI, "columns", 400, 400, "Vehicle"),
    "Vowel": DataSet(UCI, "columns", 400, 500, "Vowel"),
    "musk": DataSet(UCI, "columns", 0.6, None, "musk"),
    "spam": DataSet(UCI, "columns", 500, 2000, "spam"),
    "DNA": DataSet(UCI, "columns", 500, 2000, "DNA"),
}
