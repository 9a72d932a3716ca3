"""Kernels on grids of image histograms, as the experiments on Caltech-101 and VOC 2007 have them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from multikernel.images.families import FAMILIES
from multikernel_experiments import archives as a

Levels = Mapping[str, Sequence[int]]

CALTECH = "caltech102_views.npz"
# descriptors with the levels of their grids, and those whose levels are averaged to one more kernel: 39 with gist
CALTECH_LEVELS, VOC_LEVELS = (
    {name: cue.levels for name, cue in FAMILIES[family].items() if cue.levels} for family in ("caltech39", "voc16")
)
CALTECH_PYRAMIDS = [name for name, cue in FAMILIES["caltech39"].items() if cue.pyramid]


def kernels_of(
    archive: Mapping[str, NDArray], levels: Levels, pyramids: Sequence[str] = (), *, gist: bool = True
) -> tuple[NDArray, list]:
    """χ² kernels on levels of the grids of histograms and on whole pyramids of them, and an RBF on gist.

    Returns the columns of all views, and the kernels on them.
    """
    from multikernel.kernels import RBF, ChiSquared, SpatialPyramid

    X, columns = a.joined(archive, [*levels, *(["gist"] if gist else [])])
    sides = {view: round(math.sqrt(archive[view].shape[1])) for view in levels}
    kernels: list = []
    for view, grids in levels.items():
        for grid in grids:
            name = f"{view} {grid}x{grid}"
            if grid == sides[view]:
                kernels.append(ChiSquared(columns=columns[view], name=name))
            else:
                kernels.append(SpatialPyramid(levels=(grid,), grid=sides[view], columns=columns[view], name=name))
    for view in pyramids:
        chosen, side = tuple(levels[view]), sides[view]
        kernels.append(SpatialPyramid(levels=chosen, grid=side, columns=columns[view], name=f"{view} pyramid"))
    return X, [*kernels, *([RBF(columns=columns["gist"], name="gist")] if gist else [])]


def distances_of(
    archive: Mapping[str, NDArray], rows: NDArray, levels: Levels, pyramids: Sequence[str] = (), *, gist: bool = True
) -> Any:
    """What is in the exponents of `kernels_of` between the images ``rows``, shape (F, n, n), and the kernels' names.

    Distances do not depend on which images are for training, so they serve all splits;
    :func:`multikernel_experiments.archives.from_distances` makes kernels of them.
    """
    from multikernel.gram import family_stack
    from multikernel.kernels import KernelFamily

    X, kernels = kernels_of(archive, levels, pyramids, gist=gist)
    X = np.ascontiguousarray(X[rows])
    stack = family_stack(KernelFamily.fit(kernels, X), X)
    return exponents(stack.to_array()), [str(name) for name in stack.names]


def exponents(kernels: NDArray) -> NDArray:
    """−log K in place, for kernels exp(−D): D but for its scale, which `from_distances` gives it anew."""
    np.log(np.maximum(kernels, np.finfo(kernels.dtype).tiny, out=kernels), out=kernels)
    return np.negative(kernels, out=kernels)


def caltech_split(archive: Mapping[str, NDArray], split: int, n_classes: int = 102) -> tuple[NDArray, NDArray]:
    """Training and test images of a given split, 15 each of the first classes."""
    chosen = np.isin(archive["y"], np.unique(archive["y"])[:n_classes])
    train, test = (archive[f"{part}{split + 1}"].astype(int) for part in ("trn", "tst"))
    return train[chosen[train]], test[chosen[test]]


def caltech39(archives: a.Archives, train: NDArray, test: NDArray, kernels: NDArray | None = None) -> tuple[Any, Any]:
    """The 39 kernels of Caltech-101, or some of them, as stacks to train and test on."""
    archive = archives.load(CALTECH)
    classes = np.unique(archive["y"][np.concatenate([train, test])])
    rows = np.flatnonzero(np.isin(archive["y"], classes))
    distances, names = archives.once(
        f"{CALTECH} {len(classes)}", lambda: distances_of(archive, rows, CALTECH_LEVELS, CALTECH_PYRAMIDS)
    )
    chosen = np.arange(len(names)) if kernels is None else np.sort(kernels)
    place = np.searchsorted(rows, train), np.searchsorted(rows, test)
    return a.from_distances([distances[k] for k in chosen], [names[k] for k in chosen], *place)


def at_widths(stack: Any, widths: Sequence[float]) -> Any:
    """Kernels exp(−D / mean D) at several widths, those of a descriptor side by side.

    exp(−D / (w · mean D)) is the kernel of width 1 to the power 1 / w.
    """
    from multikernel.gram import DenseStack

    powers = np.stack([kernel ** np.float32(1 / w) for kernel in stack.to_array() for w in widths])
    names = [f"{str(name).split()[0]} {w:g}" for name in stack.names for w in widths]
    ones = None if stack.symmetric else np.ones((len(names), len(stack)))
    return DenseStack(powers, names, symmetric=stack.symmetric, self_similarity=ones)
