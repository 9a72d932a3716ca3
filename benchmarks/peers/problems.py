"""The problems: kernels in double precision and labels, written once as arrays that every interpreter can read."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from multikernel_experiments.archives import from_distances, from_features, shuffled, unfold
from sklearn.datasets import load_breast_cancer, make_classification

from multikernel.datasets import data_home
from multikernel.kernels import RBF

WIDTHS = ("0.25*mean", "mean", "4*mean")


class Absent(Exception):
    """Data that are not here."""


def _archive(file: str) -> Any:
    home = data_home()
    if home is None or not (home / file).is_file():
        raise Absent(f"MULTIKERNEL_DATA does not name a folder with {file}")
    return np.load(home / file)


def mfeat() -> dict[str, Any]:
    """Hand-written digits: 6 views × 3 widths = 18 kernels, 1,000 samples to train on, ten classes."""
    a = _archive("mfeat_18kernels.npz")
    A, B = a["Xtr"].astype(float), a["Xte"].astype(float)

    def kernels(Z: np.ndarray) -> np.ndarray:
        stack = np.empty((len(a["g"]), len(Z), len(A)))
        for f, (g, scale) in enumerate(zip(a["g"], a["scale"])):
            U, V = Z[:, a["mask"][f]], A[:, a["mask"][f]]
            D = (U**2).sum(1)[:, None] + (V**2).sum(1) - 2 * U @ V.T
            stack[f] = scale * np.exp(-g * np.maximum(D, 0.0))
        return stack

    columns = list(dict.fromkeys(tuple(np.arange(A.shape[1])[a["mask"][f]].tolist()) for f in range(len(a["g"]))))
    order = np.concatenate(columns)
    views = np.cumsum([0, *map(len, columns)]).tolist()
    X = {"X_train": A[:, order], "X_test": B[:, order], "views": views}
    return {"K_train": kernels(A), "K_test": kernels(B), "y_train": a["ytr"], "y_test": a["yte"], "C": 10.0, **X}


def flower17() -> dict[str, Any]:
    """Flowers: 7 kernels from distances, 1,020 samples to train on, 17 classes; the first of the given splits."""
    a = _archive("flower17_dist.npz")
    train, test = np.concatenate([a["trn1"], a["val1"]]).astype(int), a["tst1"].astype(int)
    stacks = from_distances(unfold(a["D_triu"], len(a["y"])), [str(name) for name in a["names"]], train, test)
    return _packed(stacks, a["y"][train], a["y"][test], 10.0)


def breast_cancer() -> dict[str, Any]:
    """Breast cancer: 3 widths on all and on each third of 30 features = 12 kernels, 380 samples, two classes."""
    X, y = load_breast_cancer(return_X_y=True)
    return _from_blocks(X, y, 3, 380, 1.0)


def simulated() -> dict[str, Any]:
    """Simulated: 3 widths on all and on each quarter of 40 features = 15 kernels, 2,000 samples, two classes."""
    X, y = make_classification(3000, n_features=40, n_informative=12, flip_y=0.05, class_sep=0.8, random_state=0)
    return _from_blocks(X, y, 4, 2000, 1.0)


def _from_blocks(X: np.ndarray, y: np.ndarray, blocks: int, n_train: int, C: float) -> dict[str, Any]:
    train, test = shuffled(y, n_train, 0)
    views = np.linspace(0, X.shape[1], blocks + 1).astype(int).tolist()
    parts = [None, *(slice(a, b) for a, b in pairwise(views))]
    stacks = from_features(X, [RBF(bandwidth=w, columns=part) for part in parts for w in WIDTHS], train, test)
    mean, deviation = X[train].mean(axis=0), X[train].std(axis=0)
    Z = (X - mean) / deviation
    return {**_packed(stacks, y[train], y[test], C), "X_train": Z[train], "X_test": Z[test], "views": views}


def _packed(stacks: tuple[Any, Any], y_train: np.ndarray, y_test: np.ndarray, C: float) -> dict[str, Any]:
    K_train, K_test = (np.stack(list(_matrices(stack))).astype(np.float64) for stack in stacks)
    return {"K_train": K_train, "K_test": K_test, "y_train": y_train, "y_test": y_test, "C": C, "views": None}


def _matrices(stack: Any):
    for f in range(stack.n_kernels):
        yield stack.combine(np.eye(stack.n_kernels)[f])


PROBLEMS: dict[str, Callable[[], dict[str, Any]]] = {
    "mfeat": mfeat,
    "Flower17": flower17,
    "breast cancer": breast_cancer,
    "simulated": simulated,
}


def write(name: str, folder: Path) -> Path:
    """Write a problem's arrays, unless they are there; returns their folder."""
    place = folder / name.replace(" ", "-")
    if not (place / "about.json").is_file():
        place.mkdir(parents=True, exist_ok=True)
        made = PROBLEMS[name]()
        for key, value in made.items():
            if isinstance(value, np.ndarray):
                np.save(place / f"{key}.npy", np.ascontiguousarray(value))
        (place / "about.json").write_text(json.dumps({"C": made["C"], "views": made["views"]}))
    return place
