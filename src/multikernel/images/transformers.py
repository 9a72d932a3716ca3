"""Transformers from images to descriptors, one row per image."""

from __future__ import annotations

import logging
import numbers
from collections.abc import Callable
from copy import copy
from dataclasses import fields
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, ClassVar

import joblib
import numpy as np
from numpy.typing import NDArray
from scipy import fft, ndimage
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, check_memory

from multikernel import __version__
from multikernel.images.local import PATCHES, grey
from multikernel.images.reading import ImageError, as_sources, read_image
from multikernel.io.files import DataError, near_matches
from multikernel.io.state import Maybe, attributes, reals
from multikernel.kernels.base import parameters
from multikernel.kernels.docstrings import described
from multikernel.runtime.clock import one_blas_thread

BATCH, FEW = 16, 4  # images that a process is given at once; batches that one process does alone
WORD_IMAGES, PER_IMAGE = 400, 200  # images that words are learnt from, and descriptors of each, at most
LOGGER = logging.getLogger("multikernel.images")


def _describe(
    digest: str, key: str, source: Any, size: int | None, describe: Callable[[NDArray], NDArray]
) -> NDArray:
    """What is kept in the cache, by the image's content and by what is asked about it."""
    image = read_image(source, size)
    lacking = [(0, max(0, 2 - side)) for side in image.shape[:2]]  # gradients need two pixels
    return describe(np.pad(image, [*lacking, (0, 0)], mode="edge"))


def _describe_batch(sources: list[tuple[str, Any]], memory: joblib.Memory, key: str, *how: Any) -> list[Any]:
    """A row for each image, or the error in its place."""
    rows: list[Any] = []
    cached = memory.cache(_describe, ignore=["source", "size", "describe"])
    with one_blas_thread():
        for name, source in sources:
            try:
                content = Path(source).read_bytes() if isinstance(source, str) else source
                rows.append(cached(joblib.hash(content), key, content, *how))
            except OSError as error:
                rows.append(ImageError(f"{name} cannot be read: {error.strerror or error}"))
            except ImageError as error:
                rows.append(ImageError(str(error).replace("the image", name, 1)))
    return rows


@described
@parameters
class ImageTransformer(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Base class of transformers from images, as paths or arrays, to descriptors.

    Subclasses say what the row of an image is, ``_row``, and how many numbers there are in each cell, ``_n_bins``.

    Parameters
    ----------
    grid : int
        Counts are made in each of grid × grid cells, for :class:`~multikernel.kernels.SpatialPyramid` [LSP06].
    size : int or None, default=192
        Images with a longer side are made smaller first; patches are counted in pixels.
    n_jobs : int, optional
        Processes that share the images, -1 for all cores; the result does not depend on it.
    memory : str, joblib.Memory or None, default=None
        Folder in which descriptors are kept, by the content of the image and all that they depend on.
    verbose : bool, default=False
        Whether to show a progress bar.
    """

    grid: int = 1
    size: int | None = 192
    n_jobs: int | None = None
    memory: Any = None
    verbose: bool = False

    @property
    def _n_bins(self) -> int:
        raise NotImplementedError

    def _row(self, image: NDArray) -> NDArray:
        raise NotImplementedError

    def fit(self, X: Any, y: Any = None) -> ImageTransformer:
        """Learn nothing, but see that X holds images; y is not looked at."""
        self._check_parameters()
        as_sources(X)
        return self

    def transform(self, X: Any) -> NDArray:
        """Descriptors of images, shape (n, n_columns), float32."""
        check_is_fitted(self)
        return np.stack(self._each(as_sources(X), type(self)._row))

    @property
    def n_columns(self) -> int:
        """Columns of the result: bins in all cells."""
        return self.grid**2 * self._n_bins

    _n_features_out = n_columns  # what scikit-learn calls it

    def _check_parameters(self) -> None:
        """Raise an error that names the parameter, unless all numbers are counts of something."""
        for field in fields(self):
            name, value, kind = field.name, getattr(self, field.name), str(field.type)
            if not kind.startswith("int") or name == "n_jobs" or (value is None and kind.endswith("None")):
                continue
            if not isinstance(value, numbers.Integral) or value < 1:
                raise ValueError(f"{name}={value!r} must be a whole number of at least 1")

    def _each(self, sources: list[tuple[str, Any]], what: Callable[..., NDArray], **arguments: Any) -> list[NDArray]:
        """``what`` of all images; those that cannot be read are named at the end, all at once."""
        from tqdm import tqdm

        self._check_parameters()
        memory = check_memory(self.memory)
        memory.verbose = 0
        # what the result depends on: it goes to other processes and names what is kept on disk
        describe = partial(what, copy(self).set_params(n_jobs=None, memory=None, verbose=False), **arguments)
        key = "" if memory.location is None else joblib.hash([__version__, describe])
        batches = [sources[k : k + BATCH] for k in range(0, len(sources), BATCH)]
        n_jobs = self.n_jobs if len(batches) > FEW else 1  # processes take seconds to start
        runs = joblib.Parallel(n_jobs=n_jobs, return_as="generator")(
            joblib.delayed(_describe_batch)(batch, memory, key, self.size, describe) for batch in batches
        )
        rows: list[Any] = []
        with tqdm(total=len(sources), desc=str(self), unit="images", disable=not self.verbose, leave=False) as bar:
            for run in runs:
                rows += run
                bar.update(len(run))
                LOGGER.debug("%s, %d of %d images", self, len(rows), len(sources))
        errors = [str(row) for row in rows if isinstance(row, ImageError)]
        if errors:
            shown = "; ".join(errors[:3]) + " …" * (len(errors) > 3)
            raise ImageError(
                f"{len(errors)} of {len(rows)} images cannot be read: {shown}. Leave them out, or repair them"
            )
        return rows

    def _counted(self, bins: NDArray, weights: Any = 1.0, places: Any = None) -> NDArray:
        """Sums of weights by bin, cell after cell, of pixels or of places as shares of height and width."""
        rows, columns = places or ((np.arange(side) + 0.5) / side for side in bins.shape[-2:])
        down, right = (rows * self.grid).astype(int), (columns * self.grid).astype(int)
        cells = (down if places else down[:, None]) * self.grid + right
        counted = cells * self._n_bins + bins
        weights = np.broadcast_to(weights, counted.shape).ravel()
        return np.bincount(counted.ravel(), weights, self.n_columns).astype(np.float32)

    def __str__(self) -> str:
        return type(self).__name__

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array, tags.input_tags.three_d_array, tags.input_tags.string = False, True, True
        tags.no_validation, tags.requires_fit = True, isinstance(self, VisualWords)
        return tags


@described
@parameters
class VisualWords(ImageTransformer):
    """Histograms of visual words: local descriptors, each counted as the nearest of the centres of k-means [SZ03].

    Words are learnt by :class:`~sklearn.cluster.MiniBatchKMeans` from a sample of the training images' descriptors.

    Parameters
    ----------
    patches : {"sift", "edge-sift", "opponent-sift", "hsv", "self-similarity", "texture"}
        Local descriptors: dense SIFT [Low04], SIFT on edges, dense SIFT of opponent colours [SGS10], colours of
        pixels, local self-similarities [SI07], edges and curvatures at four scales as in [VZ05].
    n_words : int, default=300
    n_samples : int, default=40000
        Local descriptors that words are learnt from at most: of 400 images, 200 of each.
    random_state : int, RandomState or None, default=None
        Which images and descriptors are sampled, and where k-means starts.

    Attributes
    ----------
    words_ : ndarray of shape (k, d)
        Centres; fewer than ``n_words`` where the training images have fewer local descriptors. The rest of the
        columns are 0 then.

    Examples
    --------
    >>> import numpy as np
    >>> from multikernel.images import VisualWords
    >>> images = np.random.default_rng(0).random((5, 32, 48, 3))
    >>> VisualWords(patches="hsv", n_words=10, grid=2, random_state=0).fit_transform(images).shape
    (5, 40)
    """

    patches: str = "sift"
    n_words: int = 300
    n_samples: int = 40_000
    random_state: Any = None

    _state: ClassVar = attributes(words_=Maybe(reals("", "")))

    def fit(self, X: Any, y: Any = None) -> VisualWords:
        """Learn words from images to train on; y is not looked at."""
        from sklearn.cluster import MiniBatchKMeans

        self._check_parameters()
        sources, random = as_sources(X), check_random_state(self.random_state)
        seed = int(random.randint(2**31 - 1))
        chosen = np.sort(random.permutation(len(sources))[:WORD_IMAGES])
        count = min(-(-self.n_samples // len(chosen)), PER_IMAGE)
        sample = self._each([sources[k] for k in chosen], VisualWords._sampled, count=count, seed=seed)
        means = MiniBatchKMeans(
            min(self.n_words, sum(map(len, sample))),
            batch_size=4096,
            max_iter=20,
            n_init=1,
            random_state=seed,
            compute_labels=False,
        )
        with one_blas_thread():  # the first centres are found in thousands of small products
            self.words_ = means.fit(np.concatenate(sample)).cluster_centers_.astype(np.float32)
        return self

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self.patches not in PATCHES:
            raise ValueError(
                f"patches={self.patches!r}: there is no such; {near_matches(self.patches, list(PATCHES))}"
            )

    def _check_loaded(self) -> None:
        if len(getattr(self, "words_", ())) > self.n_words:
            raise DataError(f"words_ holds {len(self.words_)} words, more than n_words={self.n_words}")

    def _sampled(self, image: NDArray, count: int, seed: int) -> NDArray:
        """Some local descriptors of an image; which, depends on its content and not on its place in a list."""
        vectors = PATCHES[self.patches](image).vectors
        rng = np.random.default_rng([seed, *bytes.fromhex(joblib.hash(image))])
        return vectors[rng.choice(len(vectors), min(count, len(vectors)), replace=False)]

    @property
    def _n_bins(self) -> int:
        return self.n_words

    def _row(self, image: NDArray) -> NDArray:
        vectors, *places = PATCHES[self.patches](image)
        nearest = ((self.words_**2).sum(axis=1) / 2 - vectors @ self.words_.T).argmin(axis=1)
        return self._counted(nearest, places=places)

    def __str__(self) -> str:
        return f"{self.patches} words"


@described
@parameters
class PHOG(ImageTransformer):
    """Directions of gradients, weighted by their size, in each cell of a grid: the layout of PHOG [BZM07a].

    Levels 0 to 3 of the pyramid are ``SpatialPyramid(levels=(1, 2, 4, 8))`` on the columns.

    Parameters
    ----------
    orientations : int, default=40
        Bins of directions.
    signed : bool, default=True
        Whether dark-to-light and light-to-dark differ: 360° of directions, else 180°.

    Examples
    --------
    >>> import numpy as np
    >>> from multikernel.images import PHOG
    >>> ramp = np.tile(np.linspace(0, 1, 32), (32, 1))  # lighter to the right
    >>> PHOG(orientations=4, grid=1).transform([ramp])[0].round()
    array([32.,  0.,  0.,  0.], dtype=float32)
    """

    orientations: int = 40
    signed: bool = True
    grid: int = 8

    @property
    def _n_bins(self) -> int:
        return self.orientations

    def _row(self, image: NDArray) -> NDArray:
        down, right = np.gradient(ndimage.gaussian_filter(grey(image), 1.0))
        turn = 2 * np.pi if self.signed else np.pi
        place = np.arctan2(down, right) % turn * (self.orientations / turn)
        low, size = place.astype(int), np.hypot(down, right)
        share = place - low  # of the next direction
        return self._counted(
            np.stack([low, low + 1]) % self.orientations, np.stack([size * (1 - share), size * share])
        )


@described
@parameters
class LocalBinaryPatterns(ImageTransformer):
    """Uniform local binary patterns, 59 of 8 neighbours, counted in each cell of a grid [OPM02].

    Parameters
    ----------
    radius : int, default=1
        Distance of the neighbours in pixels.

    Examples
    --------
    >>> import numpy as np
    >>> from multikernel.images import LocalBinaryPatterns
    >>> LocalBinaryPatterns(grid=2).transform(np.zeros((1, 16, 16), np.uint8)).sum()
    np.float32(256.0)
    """

    radius: int = 1
    grid: int = 4

    _n_bins = 59  # type: ignore[assignment]

    def _row(self, image: NDArray) -> NDArray:
        from skimage.feature import local_binary_pattern

        light = np.rint(255 * grey(image)).astype(np.uint8)
        return self._counted(local_binary_pattern(light, 8, self.radius, "nri_uniform").astype(int))


@described
@parameters
class ColorHistogram(ImageTransformer):
    """Histograms of the colours of pixels, in each cell of a grid.

    Parameters
    ----------
    space : {"hsv", "rgb"}
    bins : tuple of three int, default=(16, 4, 4)
        Levels of each channel.

    Examples
    --------
    >>> import numpy as np
    >>> from multikernel.images import ColorHistogram
    >>> red = np.zeros((8, 8, 3)) + [1, 0, 0]
    >>> ColorHistogram(space="rgb", bins=(2, 2, 2)).transform([red])
    array([[ 0.,  0.,  0.,  0., 64.,  0.,  0.,  0.]], dtype=float32)
    """

    space: str = "hsv"
    bins: tuple[int, int, int] = (16, 4, 4)

    @property
    def _n_bins(self) -> int:
        return int(np.prod(self.bins))

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self.space not in ("hsv", "rgb"):
            raise ValueError(f"space={self.space!r} is neither 'hsv' nor 'rgb'")
        if np.shape(self.bins) != (3,) or np.asarray(self.bins).dtype.kind not in "iu" or min(self.bins) < 1:
            raise ValueError(f"bins={self.bins!r} must be three whole numbers of at least 1")

    def _row(self, image: NDArray) -> NDArray:
        from skimage.color import rgb2hsv

        values = rgb2hsv(image) if self.space == "hsv" else image
        levels = [np.minimum((values[..., k] * n).astype(int), n - 1) for k, n in enumerate(self.bins)]
        return self._counted(np.ravel_multi_index(levels, self.bins))


GIST_SIDE, GIST_MARGIN, GIST_SCALES = 128, 32, 4  # the filters of a fifth scale are larger than side and margins


@lru_cache(maxsize=2)
def _gabor_filters(scales: int, orientations: int) -> NDArray:
    """Gabor filters without a mean, in the frequency domain; shape (scales · orientations, side, side)."""
    from skimage.filters import gabor_kernel

    side, filters = GIST_SIDE + 2 * GIST_MARGIN, []
    for frequency in 0.25 / 2.0 ** np.arange(scales):
        for k in range(orientations):
            kernel = gabor_kernel(frequency, np.pi * k / orientations)
            kernel -= kernel.mean()
            middle = [-(length // 2) for length in kernel.shape]
            padded = np.pad(kernel, [(0, side - length) for length in kernel.shape])
            filters.append(fft.fft2(np.roll(padded, middle, axis=(0, 1))).astype(np.complex64))
    return np.array(filters)


@described
@parameters
class GaborEnergies(ImageTransformer):
    """The gist of a scene: energies of Gabor filters in each cell of a grid, scaled to norm 1 [OT01].

    The image is made a square of 128 pixels first.

    Parameters
    ----------
    scales, orientations : int, default=4 and 8
        Frequencies, each half of the one before, from a quarter of a cycle per pixel; directions of waves. Scales are
        at most four.

    Examples
    --------
    >>> import numpy as np
    >>> from multikernel.images import GaborEnergies
    >>> waves = np.tile(0.5 + 0.5 * np.sin(np.arange(128) * np.pi / 4), (128, 1))  # 1/8 of a cycle per pixel
    >>> GaborEnergies(grid=1, orientations=2).transform([waves])[0].reshape(4, 2).argmax()  # second scale, across
    np.int64(2)
    """

    scales: int = 4
    orientations: int = 8
    grid: int = 4

    @property
    def _n_bins(self) -> int:
        return self.scales * self.orientations

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self.scales > GIST_SCALES:
            raise ValueError(f"scales={self.scales} are more than {GIST_SCALES}: waves would not fit into the image")

    def _row(self, image: NDArray) -> NDArray:
        from skimage.transform import resize

        light = resize(grey(image), (GIST_SIDE, GIST_SIDE), anti_aliasing=True).astype(np.float32)
        spectrum = fft.fft2(np.pad(light, GIST_MARGIN, mode="symmetric"))
        inside = slice(GIST_MARGIN, GIST_MARGIN + GIST_SIDE)
        energies = abs(fft.ifft2(spectrum * _gabor_filters(self.scales, self.orientations)))[:, inside, inside]
        bands = np.broadcast_to(np.arange(self._n_bins)[:, None, None], energies.shape)
        pooled = self._counted(bands, energies)
        return pooled / max(float(np.linalg.norm(pooled)), 1e-6)
