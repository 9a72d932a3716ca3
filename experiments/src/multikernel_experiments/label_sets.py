"""Data with many labels: stacks of kernels, and tables of signs (n, M) with 0 where a label is not known."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from multikernel_experiments import archives as a
from multikernel_experiments.images import CALTECH, VOC_LEVELS, caltech39, caltech_split, kernels_of
from multikernel_experiments.labels import signs_of_classes
from multikernel_experiments.protocol import Task
from multikernel_experiments.sets import VOC

YEAST = "yeast_ml.npz"


def caltech_labels(archives: a.Archives, split: int, n_classes: int, n_labels: int | None = None) -> Task:
    """The first classes of Caltech-101 with 39 kernels; all of them as labels, or some drawn at random."""
    archive = archives.load(CALTECH)
    train, test = caltech_split(archive, split, n_classes)
    classes = np.unique(archive["y"][train])
    if n_labels is not None:
        classes = np.random.default_rng(0).permutation(classes)[:n_labels]
    Y = signs_of_classes(archive["y"], classes)
    return Task(*caltech39(archives, train, test), Y[train], Y[test], [])


def voc_labels(archives: a.Archives) -> Task:
    """The classes of VOC 2007 with 16 kernels; images marked difficult are not known."""
    archive = archives.load(VOC)
    train, test, Y = archive["train"].astype(int), archive["test"].astype(int), archive["Y"].astype(float)
    stacks = a.from_features(*kernels_of(archive, VOC_LEVELS), train, test, standardize=False)
    return Task(*stacks, Y[train], Y[test], [])


def yeast_labels(archives: a.Archives, split: int, n_train: int) -> Task:
    """Functions of yeast genes with 8 kernels of unit variance, on a random split."""
    archive = archives.load(YEAST)
    Y = 2.0 * archive["Y"] - 1.0
    order = np.random.default_rng(split).permutation(len(Y))
    n = min(n_train, len(Y) // 2)
    train, test = np.sort(order[:n]), np.sort(order[n:])
    stacks = a.normalized(a.from_features(*_yeast_kernels(archive), train, test), "variance")
    return Task(*stacks, Y[train], Y[test], [])


def _yeast_kernels(archive: Mapping[str, NDArray]) -> tuple[NDArray, list]:
    """Linear and Gaussian kernels of three widths on each view."""
    from multikernel.kernels import RBF, Linear

    X, columns = a.joined(archive, ["view_00", "view_01"])
    kernels: list = []
    for view, place in columns.items():
        kernels.append(Linear(columns=place, name=f"{view} linear"))
        for width in ("0.25*mean", "mean", "4*mean"):
            kernels.append(RBF(bandwidth=width, columns=place, name=f"{view} {width}"))
    return X, kernels


def every_third(n: int) -> tuple[NDArray, NDArray]:
    """A fold: every third of n samples to validate on. Samples come class by class: all are in both parts."""
    held_out = np.arange(n) % 3 == 1
    return np.flatnonzero(~held_out), np.flatnonzero(held_out)
