"""Small archives in the layout of the real ones, made from data that scikit-learn brings, for quick runs.

Nothing that is found on them says anything about the papers: they show that a protocol runs from end to end, and
what it writes. Tables and pages of such runs say so.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from multikernel.io.files import DataError
from multikernel_experiments.archives import Archives

REVISION = 4  # of what is made here: kept results depend on it
WORDS = 12
DIGITS = (1, 3, 5, 8, 9)
CALTECH_CELLS = {"phog180": 8, "phog360": 8, "lbp1": 4, "lbp3": 4, "colhist": 2, "sift": 4, "siftedge": 2}
CALTECH_CELLS |= {"csift": 4, "ssim": 4, "tex": 2, "hsv": 2}
VOC_CELLS = {
    "phog360": 8,
    "lbp1": 4,
    "colhist": 2,
    "sift": 2,
    "siftedge": 1,
    "csift": 2,
    "ssim": 2,
    "tex": 1,
    "hsv": 1,
}
FLOWER_CELLS = {"hsv": 1, "sift": 1, "siftedge": 1, "oppsift": 1, "phog360": 8, "ssim": 2, "tex": 1, "lbp1": 4}
VOC_CLASSES = (
    "aeroplane", "bicycle", "bird", "boat", "bottle", "bus", "car", "cat", "chair", "cow",
    "diningtable", "dog", "horse", "motorbike", "person", "pottedplant", "sheep", "sofa", "train", "tvmonitor",
)  # fmt: skip


class StandIns(Archives):
    """Stand-ins for all archives, made when they are asked for.

    Parameters
    ----------
    size : int
        Training samples a class, about.

    Examples
    --------
    >>> from multikernel_experiments.standins import StandIns
    >>> flowers = StandIns(size=6).load("flower17_dist.npz")
    >>> flowers["D_triu"].shape[0], len(flowers["trn1"]), len(flowers["tst1"])
    (7, 30, 30)
    """

    stand_in = True

    def __init__(self, size: int = 10) -> None:
        super().__init__()
        self.size = size

    def _find(self, folder: str | os.PathLike[str] | None) -> Path:
        return Path()  # nothing is read

    @property
    def key(self) -> str:
        return f"stand-ins of {self.size}"

    def require(self, name: str, files: Sequence[str]) -> dict[str, int]:
        missing = [file for file in files if file not in MAKERS]
        if missing:
            raise DataError(
                f"experiment {name!r} needs {', '.join(missing)}, for which there is no stand-in: set "
                "MULTIKERNEL_DATA to the folder that has it"
            )
        return dict.fromkeys(files, REVISION * 1000 + self.size)

    def load(self, file: str) -> Mapping[str, NDArray]:
        self.require(file, [file])
        return _made(file, self.size)


@cache
def _made(file: str, size: int) -> Mapping[str, NDArray]:
    return MAKERS[file](size)


def _digits(per_class: int) -> tuple[NDArray, NDArray]:
    """Images (n, 8, 8) from 0 to 1 of five digits that look alike, and labels from 0 to 4 in turn."""
    from sklearn.datasets import load_digits

    X, y = load_digits(return_X_y=True)
    order = np.stack([np.flatnonzero(y == digit)[:per_class] for digit in DIGITS], axis=1).ravel()
    return X[order].reshape(-1, 8, 8) / 16.0, np.tile(np.arange(len(DIGITS)), per_class)


def _words(images: NDArray, side: int, seed: int) -> NDArray:
    """How often each of `WORDS` random 3 × 3 patches is the nearest one, in side × side cells; (n, side², words)."""
    rng = np.random.default_rng(seed)
    padded = np.pad(images, ((0, 0), (1, 1), (1, 1)))
    patches = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(1, 2)).reshape(len(images), 64, 9)
    codes = patches[rng.integers(len(images), size=WORDS), rng.integers(64, size=WORDS)]
    nearest = ((patches[:, :, None] - codes) ** 2).sum(axis=3).argmin(axis=2).reshape(-1, 8, 8)
    rows, columns = np.divmod(np.arange(64), 8)
    cell = (rows * side // 8) * side + columns * side // 8
    counts = np.zeros((len(images), side * side, WORDS), dtype=np.uint16)
    np.add.at(counts, (np.arange(len(images))[:, None], cell, nearest.reshape(-1, 64)), 1)
    return counts


def _histograms(images: NDArray, cells: Mapping[str, int]) -> dict[str, NDArray]:
    views = {name: _words(images, side, seed) for seed, (name, side) in enumerate(cells.items())}
    mixing = np.random.default_rng(99).standard_normal((64, 32))
    return {**views, "gist": (images.reshape(-1, 64) @ mixing).astype(np.float16)}


def _parts(y: NDArray, sizes: Mapping[str, int]) -> dict[str, NDArray]:
    """Three random splits with that many samples a class in each part."""
    parts = {}
    for split in range(3):
        rng = np.random.default_rng(split)
        orders = [rng.permutation(np.flatnonzero(y == label)) for label in np.unique(y)]
        start = 0
        for part, size in sizes.items():
            parts[f"{part}{split + 1}"] = np.sort(np.concatenate([order[start : start + size] for order in orders]))
            start += size
    return parts


def _quadrants(images: NDArray) -> dict[str, NDArray]:
    """Six views of the digits: quadrants, and means of rows and of columns."""
    flat = [images[:, a : a + 4, b : b + 4].reshape(len(images), 16) for a in (0, 4) for b in (0, 4)]
    views = [*flat, images.mean(axis=1), images.mean(axis=2)]
    return {f"view_{k:02d}": view.astype(np.float32) for k, view in enumerate(views)}


def _rbf(X: NDArray) -> NDArray:
    from sklearn.metrics.pairwise import euclidean_distances

    D = euclidean_distances(X, squared=True)
    return np.exp(-D / D.mean())


def _flower_dist(size: int) -> dict[str, NDArray]:
    images, y = _digits(3 * size)
    rows, columns = np.triu_indices(len(y), 1)
    views = [*_quadrants(images).values(), _words(images, 2, 0).reshape(len(y), -1).astype(float)]
    upper = [((view[rows] - view[columns]) ** 2).sum(axis=1) for view in views]
    sizes = {"trn": size, "val": size // 2, "tst": size}
    names = np.array([f"view {k}" for k in range(len(views))])
    files = np.array([f"image_{k:04d}.jpg" for k in range(len(y))])
    return {"D_triu": np.array(upper, np.float32), "names": names, "y": y, "image": files, **_parts(y, sizes)}


def _flower_images(size: int) -> dict[str, NDArray]:
    images, y = _digits(3 * size)
    return {
        f"{label}/image_{k:04d}.jpg": np.kron(image, np.ones((4, 4)))
        for k, (image, label) in enumerate(zip(images, y))
    }


def _flower_views(size: int) -> dict[str, NDArray]:
    images, y = _digits(3 * size)
    views = _histograms(images, {**FLOWER_CELLS, "colhist": 2})
    return {**views, "y": y, **_parts(y, {"trn": size, "val": size // 2, "tst": size})}


def _caltech(size: int) -> dict[str, NDArray]:
    images, y = _digits(2 * size)
    return {**_histograms(images, CALTECH_CELLS), "y": y, **_parts(y, {"trn": size, "tst": size})}


def _voc(size: int) -> dict[str, NDArray]:
    """Labels: the image is one digit, one of two, one of three neighbours; 5, 10 and 5 of them."""
    images, y = _digits(2 * size)
    groups = (
        [{k} for k in range(5)] + [{j, k} for k in range(5) for j in range(k)] + [{k, k - 1, k - 2} for k in range(5)]
    )
    members = np.stack([np.isin(y, [k % 5 for k in group]) for group in groups], axis=1)
    Y = np.where(members, 1, -1).astype(np.int8)
    parts = _parts(y, {"train": size, "test": size})
    both = {part: parts[f"{part}1"] for part in ("train", "test")}
    return {**_histograms(images, VOC_CELLS), "Y": Y, "classes": np.array(VOC_CLASSES), **both}


def _mnist(size: int) -> dict[str, NDArray]:
    images, y = _digits(3 * size)
    large = np.round(255 * np.kron(images, np.ones((1, 4, 4))))[:, 2:30, 2:30].astype(np.uint8)
    n, y = 2 * len(y) // 3, y.astype(np.uint8)
    return {"X_train": large[:n], "y_train": y[:n], "X_test": large[n:], "y_test": y[n:]}


def _mfeat(size: int) -> dict[str, NDArray]:
    images, y = _digits(2 * size)
    return {**_quadrants(images), "y": y, "names": np.array(["fac", "fou", "kar", "mor", "pix", "zer"])}


def _mfeat_kernels(size: int) -> dict[str, NDArray]:
    images, y = _digits(2 * size)
    views = list(_quadrants(images).values())
    X = np.hstack(views).astype(float)
    of_view = np.repeat(np.arange(6), [view.shape[1] for view in views])
    mask = np.repeat(of_view == np.arange(6)[:, None], 3, axis=0)
    widths = np.array([w / (2 * X[:, m].var(axis=0).sum()) for m, w in zip(mask, [0.25, 1.0, 4.0] * 6)])
    n = len(y) // 2
    kernels = {"kind": np.zeros(18, int), "g": widths, "mask": mask, "scale": np.ones(18)}
    return {"Xtr": X[:n], "Xte": X[n:], "ytr": y[:n], "yte": y[n:], **kernels}


def _msrc(size: int) -> dict[str, NDArray]:
    images, y = _digits(2 * size)
    views = _quadrants(images)
    return {**{name: views[name] for name in list(views)[:5]}, "y": y + 1}


def _football(size: int) -> dict[str, NDArray]:
    images, y = _digits(2 * size)
    noise = np.random.default_rng(0).standard_normal((len(y), 8))
    views = [*_quadrants(images).values(), images.reshape(-1, 64), _words(images, 4, 1).reshape(len(y), -1), noise]
    return {"K": np.array([_rbf(view) for view in views], np.float32), "y": y + 1}


def _yale(size: int) -> dict[str, NDArray]:
    found = _football(size)
    K = found["K"][:5].copy()
    K[2] *= 1e6  # one kernel on another scale, as in the real data
    return {"K": K, "y": found["y"]}


def _tcga(size: int) -> dict[str, NDArray]:
    from sklearn.datasets import load_wine

    X, y = load_wine(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(y))[: 12 * size]
    X, y = X[order].astype(np.float32), y[order]
    views = {"mrna": X[:, :5], "mirna": X[:, 5:9], "protein": X[:, 9:]}
    n = 8 * size
    train = {f"{name}_train": view[:n] for name, view in views.items()}
    test = {f"{name}_test": views[name][n:] for name in ("mrna", "mirna")}  # the third view is missing there
    return {**train, **test, "y_train": y[:n], "y_test": y[n:], "classes": np.array(["Basal", "Her2", "LumA"])}


def _yeast(size: int) -> dict[str, NDArray]:
    found = _voc(size)
    views = {
        "view_00": found["gist"].astype(np.float32),
        "view_01": found["tex"].reshape(-1, WORDS).astype(np.float32),
    }
    return {**views, "Y": (found["Y"][:, :6] > 0).astype(np.uint8), "view_names": np.array(["pixels", "words"])}


def _uci(size: int) -> dict[str, NDArray]:
    """Two classes: the breast cancer data, ten columns for each name in turn; more classes: wine or digits."""
    from sklearn.datasets import load_breast_cancer, load_wine

    cancer, malignant = load_breast_cancer(return_X_y=True)
    wine, cultivar = load_wine(return_X_y=True)
    images, digit = _digits(2 * size)
    found: dict[str, NDArray] = {}
    for k, name in enumerate(("Sonar", "Ionosphere", "PimaIndiansDiabetes", "BreastCancer", "spam", "musk")):
        rows, first = slice(0, 12 * size), 6 * (k % 4)
        found[f"{name}_X"], found[f"{name}_y"] = cancer[rows, first : first + 10], malignant[rows]
    for name in ("Glass", "Vehicle", "DNA"):
        order = np.random.default_rng(0).permutation(len(cultivar))[: 14 * size]
        found[f"{name}_X"], found[f"{name}_y"] = wine[order], cultivar[order]
    for name in ("Vowel", "Satellite", "LetterRecognition", "Shuttle"):
        found[f"{name}_X"], found[f"{name}_y"] = (
            images.reshape(-1, 4, 2, 4, 2).mean(axis=(2, 4)).reshape(-1, 16),
            digit,
        )
    return {key: value.astype(np.float32 if key.endswith("_X") else np.int16) for key, value in found.items()}


MAKERS: dict[str, Callable[[int], dict[str, Any]]] = {
    "flower17_dist.npz": _flower_dist,
    "flower17_images.zip": _flower_images,
    "flower17_views.npz": _flower_views,
    "caltech102_views.npz": _caltech,
    "voc07_views.npz": _voc,
    "mnist.npz": _mnist,
    "mfeat.npz": _mfeat,
    "mfeat_18kernels.npz": _mfeat_kernels,
    "msrc_v1.npz": _msrc,
    "football_kernels.npz": _football,
    "yale_kernels.npz": _yale,
    "breast_tcga.npz": _tcga,
    "yeast_ml.npz": _yeast,
    "uci_pack.npz": _uci,
}
