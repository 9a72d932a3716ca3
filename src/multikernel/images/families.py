"""The papers' families of kernels on images, by name: a transformer of images, and kernels on its columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from sklearn.base import clone
from sklearn.pipeline import FeatureUnion

from multikernel.images import transformers as image
from multikernel.io.files import near_matches
from multikernel.kernels import RBF, ChiSquared, Kernel, SpatialPyramid


class Cue(NamedTuple):
    """A descriptor of images, the levels of its grid that are kernels each, and those averaged to one more."""

    transformer: image.ImageTransformer
    levels: Sequence[int] = ()
    pyramid: Sequence[int] = ()
    weights: Sequence[float] | None = None


class VisualKernels(NamedTuple):
    """``cues`` transforms images, ``kernels`` look at its columns."""

    cues: FeatureUnion
    kernels: list[Kernel]


def _words(patches: str, n_words: int, grid: int = 1) -> image.VisualWords:
    return image.VisualWords(patches=patches, n_words=n_words, grid=grid)


FLOWER17 = {
    "colour": Cue(_words("hsv", 400), (1,)),
    "SIFT": Cue(_words("sift", 800), (1,)),
    "edge SIFT": Cue(_words("edge-sift", 800), (1,)),
    "opponent SIFT": Cue(_words("opponent-sift", 500), (1,)),
    "gradients": Cue(image.PHOG(grid=4), (), (1, 2, 4), (0.25, 0.25, 0.5)),
    "self-similarity": Cue(_words("self-similarity", 300, 2), (), (1, 2)),
    "texture": Cue(_words("texture", 300), (1,)),
}
CALTECH39 = {
    "sift": Cue(_words("sift", 300, 4), (1, 2, 4), (1, 2, 4)),
    "siftedge": Cue(_words("edge-sift", 300, 2), (1, 2)),
    "csift": Cue(_words("opponent-sift", 300, 4), (1, 2, 4), (1, 2, 4)),
    "ssim": Cue(_words("self-similarity", 300, 4), (1, 2, 4), (1, 2, 4)),
    "phog180": Cue(image.PHOG(orientations=20, signed=False), (1, 2, 4, 8), (1, 2, 4, 8)),
    "phog360": Cue(image.PHOG(), (1, 2, 4, 8), (1, 2, 4, 8)),
    "lbp1": Cue(image.LocalBinaryPatterns(), (1, 2, 4), (1, 2, 4)),
    "lbp3": Cue(image.LocalBinaryPatterns(radius=3), (1, 2, 4), (1, 2, 4)),
    "tex": Cue(_words("texture", 100, 2), (1, 2)),
    "hsv": Cue(_words("hsv", 200, 2), (1, 2)),
    "colhist": Cue(image.ColorHistogram(grid=2), (1, 2)),
    "gist": Cue(image.GaborEnergies()),
}
VOC16 = {
    "sift": Cue(_words("sift", 500, 2), (1, 2)),
    "siftedge": Cue(_words("edge-sift", 300), (1,)),
    "csift": Cue(_words("opponent-sift", 500, 2), (1, 2)),
    "ssim": Cue(_words("self-similarity", 300, 2), (1, 2)),
    "phog360": Cue(image.PHOG(grid=4), (2, 4)),
    "lbp1": Cue(image.LocalBinaryPatterns(grid=2), (1, 2)),
    "tex": Cue(_words("texture", 200), (1,)),
    "hsv": Cue(_words("hsv", 300), (1,)),
    "colhist": Cue(image.ColorHistogram(grid=2), (1, 2)),
    "gist": Cue(image.GaborEnergies()),
}
FAMILIES: dict[str, Mapping[str, Cue]] = {
    "flower17": FLOWER17,
    "caltech39": CALTECH39,
    "voc16": VOC16,
    "phog": {"phog": Cue(image.PHOG(orientations=20, signed=False), (1, 2, 4, 8))},
}


def visual_kernels(
    family: str = "flower17",
    *,
    n_words: int | None = None,
    size: int | None = 192,
    random_state: Any = 0,
    n_jobs: int | None = None,
    memory: Any = None,
    verbose: bool = False,
) -> VisualKernels:
    """A family of kernels on images: a transformer of images, and kernels that look at its columns.

    A pipeline of the transformer and any estimator with these kernels goes from paths to predictions. Visual words
    are learnt where the pipeline is fitted, so that in cross-validation no word comes from images that are held out.

    Parameters
    ----------
    family : {"flower17", "caltech39", "voc16", "phog"}
        Seven cues of flowers, one kernel each [NZ08]; twelve descriptors of Caltech-101 at several levels of a grid,
        39 kernels [GN09]; ten of VOC 2007, 16 kernels; the four levels of PHOG [BZM07a].
    n_words : int, optional
        Of every visual vocabulary; from 100 to 800 by default.
    size, n_jobs, memory, verbose
        See :class:`ImageTransformer`.
    random_state : int, RandomState or None, default=0
        See :class:`VisualWords`.

    Returns
    -------
    cues : FeatureUnion
    kernels : list of Kernel

    Examples
    --------
    >>> from sklearn.pipeline import make_pipeline
    >>> from multikernel import MKLClassifier
    >>> from multikernel.images import visual_kernels
    >>> cues, kernels = visual_kernels("phog")
    >>> model = make_pipeline(cues, MKLClassifier(kernels, p=2))
    >>> [kernel.name for kernel in kernels]
    ['phog 1x1', 'phog 2x2', 'phog 4x4', 'phog 8x8']
    """
    if family not in FAMILIES:
        raise ValueError(
            f"there is no family {family!r} of kernels on images; {near_matches(family, list(FAMILIES))}"
        )
    common = {"size": size, "n_jobs": n_jobs, "memory": memory, "verbose": verbose}
    parts, kernels, start = [], [], 0
    for name, cue in FAMILIES[family].items():
        transformer = clone(cue.transformer).set_params(**common)
        if isinstance(transformer, image.VisualWords):
            transformer.set_params(random_state=random_state)
            if n_words is not None:
                transformer.set_params(n_words=n_words)
        columns = slice(start, start := start + transformer.n_columns)
        parts.append((name, transformer))
        kernels += _kernels(name, cue, columns)
    return VisualKernels(FeatureUnion(parts), kernels)


def _kernels(name: str, cue: Cue, columns: slice) -> list[Kernel]:
    """Kernels of a cue: a χ² kernel a level, one of the mean distance over levels; Gaussian where there are none."""
    if not cue.levels and not cue.pyramid:
        return [RBF(columns=columns, name=name)]
    grid = cue.transformer.grid
    several = len(cue.levels) + bool(cue.pyramid) > 1
    made: list[Kernel] = []
    for level in cue.levels:
        label = f"{name} {level}x{level}" if several else name
        if level == grid:
            made.append(ChiSquared(columns=columns, name=label))
        else:
            made.append(SpatialPyramid(levels=(level,), grid=grid, columns=columns, name=label))
    if cue.pyramid:
        label = f"{name} pyramid" if several else name
        made.append(SpatialPyramid(levels=cue.pyramid, weights=cue.weights, grid=grid, columns=columns, name=label))
    return made
