"""Transformers from images to descriptors, one row per image."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, ClassVar

import joblib
import numpy as np
from numpy.typing import NDArray
from scipy import fft, ndimage
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, check_memory

from multikernel import __version__
from multikernel.images.local import PATCHES, gradient, grey
from multikernel.images.reading import ImageError, as_sources, read_image, refuse_unreadable
from multikernel.io.files import near_matches
from multikernel.kernels.base import parameters

BATCH, FEW = 16, 4  # images that a process is given at once; batches that one process does alone
WORD_IMAGES, PER_IMAGE = 400, 200  # images that words are learnt from, and descriptors of each, at most
LOGGER = logging.getLogger("multikernel.images")
Describe = Callable[[NDArray], NDArray]


def _describe(digest: str, key: str, source: Any, size: int | None, describe: Describe) -> NDArray:
    """What is kept in the cache, by the image's content and by what is asked about it."""
    return describe(read_image(source, size))


def _describe_batch(sources: list[Any], size: int | None, describe: Describe, memory: Any, key: str) -> list[Any]:
    """A row for each image, or the error in its place."""
    rows: list[Any] = []
    cached = memory.cache(_describe, ignore=["source", "size", "describe"])
    for source in sources:
        try:
            if memory.location is None:
                rows.append(describe(read_image(source, size)))
                continue
            content = source if isinstance(source, (bytes, np.ndarray)) else Path(source).read_bytes()
            digest = joblib.hash(content) if isinstance(content, np.ndarray) else hashlib.blake2b(content).hexdigest()
            rows.append(cached(digest, key, content, size, describe))
        except OSError as error:
            rows.append(ImageError(f"{source} cannot be read: {error.strerror or error}"))
        except ImageError as error:
            what = "the image" if isinstance(source, (bytes, np.ndarray)) else str(source)
            rows.append(ImageError(str(error).replace("the image", what, 1)))
    return rows


@parameters
class ImageTransformer(TransformerMixin, BaseEstimator):
    """Base class of transformers from images, as paths or arrays, to descriptors.

    Parameters
    ----------
    size : int or None, default=192
        Images with a longer side are made smaller first; patches are counted in pixels.
    n_jobs : int, optional
        Processes that share the images, -1 for all cores; the result does not depend on it.
    memory : str, joblib.Memory or None, default=None
        Folder in which descriptors are kept, by the content of the image and all that they depend on.
    verbose : bool, default=False
        Whether to show a progress bar.
    """

    size: int | None = 192
    n_jobs: int | None = None
    memory: Any = None
    verbose: bool = False

    def fit(self, X: Any, y: Any = None) -> ImageTransformer:
        """Learn what there is to learn from training images; y is not looked at."""
        self._learn(as_sources(X))
        return self

    def transform(self, X: Any) -> NDArray:
        """Descriptors of images, shape (n, n_columns), float32."""
        check_is_fitted(self)
        return np.stack(self._each(as_sources(X), self._descriptor()))

    @property
    def n_columns(self) -> int:
        """Columns of the result."""
        raise NotImplementedError

    def _learn(self, sources: list[Any]) -> None:
        pass

    def _descriptor(self) -> Describe:
        """What is done with an image; it goes to other processes and names what is kept on disk."""
        raise NotImplementedError

    def _each(self, sources: list[Any], describe: Describe) -> list[NDArray]:
        """Rows of all images; those that cannot be read are named at the end, all at once."""
        from tqdm import tqdm

        memory = check_memory(self.memory)
        memory.verbose = 0
        key = "" if memory.location is None else joblib.hash([__version__, self.size, describe])
        batches = [sources[k : k + BATCH] for k in range(0, len(sources), BATCH)]
        n_jobs = self.n_jobs if len(batches) > FEW else 1  # processes take seconds to start
        runs = joblib.Parallel(n_jobs=n_jobs, return_as="generator")(
            joblib.delayed(_describe_batch)(batch, self.size, describe, memory, key) for batch in batches
        )
        rows: list[Any] = []
        with tqdm(total=len(sources), desc=str(self), unit="images", disable=not self.verbose, leave=False) as bar:
            for run in runs:
                rows += run
                bar.update(len(run))
                LOGGER.debug("%s, %d of %d images", self, len(rows), len(sources))
        refuse_unreadable([row for row in rows if isinstance(row, ImageError)], len(rows))
        return rows

    def get_feature_names_out(self, input_features: Any = None) -> NDArray:
        """Names of the columns."""
        return np.array([f"{type(self).__name__.lower()}{k}" for k in range(self.n_columns)], dtype=object)

    def __str__(self) -> str:
        return type(self).__name__

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array, tags.input_tags.three_d_array, tags.input_tags.string = False, True, True
        tags.no_validation, tags.requires_fit = True, False
        return tags


def _cells(shape: tuple[int, ...], grid: int) -> NDArray:
    """Which of grid × grid cells each pixel is in, shape (H, W)."""
    down, right = (((np.arange(side) + 0.5) / side * grid).astype(int) for side in shape[:2])
    return down[:, None] * grid + right


def _histograms(cells: NDArray, bins: NDArray, n_cells: int, n_bins: int, weights: NDArray | None = None) -> NDArray:
    """Counts of bins in each cell, cell after cell; shape (n_cells · n_bins,)."""
    places = (cells * n_bins + bins).ravel()
    counted = np.bincount(places, None if weights is None else weights.ravel(), minlength=n_cells * n_bins)
    return counted.astype(np.float32)


def _sampled(image: NDArray, patches: str, count: int, seed: int) -> NDArray:
    """Some local descriptors of an image; which, depends on its content and not on its place in a list."""
    vectors = PATCHES[patches](image).vectors
    rng = np.random.default_rng([seed, *hashlib.blake2b(image.tobytes(), digest_size=8).digest()])
    return vectors[rng.choice(len(vectors), min(count, len(vectors)), replace=False)]


def _counted(image: NDArray, patches: str, words: NDArray, n_words: int, grid: int) -> NDArray:
    """Histogram of the words nearest to local descriptors, in each cell."""
    vectors, rows, columns = PATCHES[patches](image)
    nearest = ((words**2).sum(axis=1) / 2 - vectors @ words.T).argmin(axis=1)
    cells = (rows * grid).astype(int) * grid + (columns * grid).astype(int)
    return _histograms(cells, nearest, grid**2, n_words)


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
    grid : int, default=1
        Words are counted in each of grid × grid cells, for :class:`~multikernel.kernels.SpatialPyramid` [LSP06].
    n_samples : int, default=40000
        Local descriptors that words are learnt from at most: of 400 images, 200 of each.
    random_state : int, RandomState or None, default=None
        Which images and descriptors are sampled, and where k-means starts.
    size, n_jobs, memory, verbose
        See :class:`ImageTransformer`.

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
    grid: int = 1
    n_samples: int = 40_000
    random_state: Any = None

    @property
    def n_columns(self) -> int:
        """Words in all cells."""
        return self.grid**2 * self.n_words

    def _learn(self, sources: list[Any]) -> None:
        from sklearn.cluster import MiniBatchKMeans

        if self.patches not in PATCHES:
            raise ValueError(
                f"patches={self.patches!r}: there is no such; {near_matches(self.patches, list(PATCHES))}"
            )
        random = check_random_state(self.random_state)
        seed = int(random.randint(2**31 - 1))
        chosen = np.sort(random.permutation(len(sources))[:WORD_IMAGES])
        count = min(-(-self.n_samples // len(chosen)), PER_IMAGE)
        sample = partial(_sampled, patches=self.patches, count=count, seed=seed)
        vectors = np.concatenate(self._each([sources[k] for k in chosen], sample))
        means = MiniBatchKMeans(
            min(self.n_words, len(vectors)),
            batch_size=4096,
            max_iter=20,
            n_init=1,
            random_state=seed,
            compute_labels=False,
        )
        self.words_ = means.fit(vectors).cluster_centers_.astype(np.float32)

    def _descriptor(self) -> Describe:
        return partial(_counted, patches=self.patches, words=self.words_, n_words=self.n_words, grid=self.grid)

    def __str__(self) -> str:
        return f"{self.patches} words"

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "words_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.requires_fit = True
        return tags


def _phog(image: NDArray, orientations: int, signed: bool, grid: int) -> NDArray:
    down, right = gradient(ndimage.gaussian_filter(grey(image), 1.0))
    turn = 2 * np.pi if signed else np.pi
    place = np.arctan2(down, right) % turn * (orientations / turn)
    low, size, cells = place.astype(int), np.hypot(down, right), _cells(image.shape, grid)
    share = place - low
    parts = ((low % orientations, size * (1 - share)), ((low + 1) % orientations, size * share))
    return sum(_histograms(cells, bins, grid**2, orientations, weights) for bins, weights in parts)  # type: ignore[return-value]


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
    grid : int, default=8
        Cells along each side.
    size, n_jobs, memory, verbose
        See :class:`ImageTransformer`.

    Examples
    --------
    >>> import numpy as np
    >>> from multikernel.images import PHOG
    >>> ramp = np.tile(np.linspace(0, 1, 32), (32, 1))  # lighter to the right
    >>> PHOG(orientations=4, grid=1).transform([ramp])[0].round()
    array([31.,  0.,  0.,  0.], dtype=float32)
    """

    orientations: int = 40
    signed: bool = True
    grid: int = 8

    @property
    def n_columns(self) -> int:
        """Directions in all cells."""
        return self.grid**2 * self.orientations

    def _descriptor(self) -> Describe:
        return partial(_phog, orientations=self.orientations, signed=self.signed, grid=self.grid)


def _lbp(image: NDArray, radius: int, grid: int) -> NDArray:
    from skimage.feature import local_binary_pattern

    light = np.rint(255 * grey(image)).astype(np.uint8)
    patterns = local_binary_pattern(light, 8, radius, "nri_uniform").astype(int)
    return _histograms(_cells(image.shape, grid), patterns, grid**2, LocalBinaryPatterns.N_PATTERNS)


@parameters
class LocalBinaryPatterns(ImageTransformer):
    """Uniform local binary patterns, 59 of 8 neighbours, counted in each cell of a grid [OPM02].

    Parameters
    ----------
    radius : int, default=1
        Distance of the neighbours in pixels.
    grid : int, default=4
    size, n_jobs, memory, verbose
        See :class:`ImageTransformer`.

    Examples
    --------
    >>> import numpy as np
    >>> from multikernel.images import LocalBinaryPatterns
    >>> LocalBinaryPatterns(grid=2).transform(np.zeros((1, 16, 16), np.uint8)).sum()
    np.float32(256.0)
    """

    radius: int = 1
    grid: int = 4
    N_PATTERNS: ClassVar[int] = 59

    @property
    def n_columns(self) -> int:
        """Patterns in all cells."""
        return self.grid**2 * self.N_PATTERNS

    def _descriptor(self) -> Describe:
        return partial(_lbp, radius=self.radius, grid=self.grid)


def _colors(image: NDArray, space: str, bins: tuple[int, ...], grid: int) -> NDArray:
    from skimage.color import rgb2hsv

    values = rgb2hsv(image) if space == "hsv" else image
    levels = [np.minimum((values[..., k] * n).astype(int), n - 1) for k, n in enumerate(bins)]
    return _histograms(_cells(image.shape, grid), np.ravel_multi_index(levels, bins), grid**2, int(np.prod(bins)))


@parameters
class ColorHistogram(ImageTransformer):
    """Histograms of the colours of pixels, in each cell of a grid.

    Parameters
    ----------
    space : {"hsv", "rgb"}
    bins : tuple of three int, default=(16, 4, 4)
        Levels of each channel.
    grid : int, default=1
    size, n_jobs, memory, verbose
        See :class:`ImageTransformer`.

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
    grid: int = 1

    @property
    def n_columns(self) -> int:
        """Colours in all cells."""
        return self.grid**2 * int(np.prod(self.bins))

    def _descriptor(self) -> Describe:
        if self.space not in ("hsv", "rgb"):
            raise ValueError(f"space={self.space!r} is neither 'hsv' nor 'rgb'")
        return partial(_colors, space=self.space, bins=tuple(self.bins), grid=self.grid)


GIST_SIDE, GIST_MARGIN = 128, 32


@lru_cache(maxsize=2)
def _gabor_filters(scales: int, orientations: int) -> NDArray:
    """Gabor filters without a mean, in the frequency domain; shape (scales · orientations, side, side)."""
    from skimage.filters import gabor_kernel

    side, filters = GIST_SIDE + 2 * GIST_MARGIN, []
    for frequency in 0.25 / 2.0 ** np.arange(scales):
        for k in range(orientations):
            kernel = gabor_kernel(frequency, np.pi * k / orientations)
            kernel = (kernel - kernel.mean())[:side, :side]
            middle = [-(length // 2) for length in kernel.shape]
            padded = np.pad(kernel, [(0, side - length) for length in kernel.shape])
            filters.append(fft.fft2(np.roll(padded, middle, axis=(0, 1))).astype(np.complex64))
    return np.array(filters)


def _gabor(image: NDArray, scales: int, orientations: int, grid: int) -> NDArray:
    from skimage.transform import resize

    light = resize(grey(image), (GIST_SIDE, GIST_SIDE), anti_aliasing=True).astype(np.float32)
    spectrum = fft.fft2(np.pad(light, GIST_MARGIN, mode="symmetric"))
    inside = slice(GIST_MARGIN, GIST_MARGIN + GIST_SIDE)
    energies = abs(fft.ifft2(spectrum * _gabor_filters(scales, orientations)))[:, inside, inside]
    bands = np.broadcast_to(np.arange(len(energies))[:, None, None], energies.shape)
    pooled = _histograms(_cells((GIST_SIDE, GIST_SIDE), grid), bands, grid**2, len(energies), energies)
    return pooled / max(float(np.linalg.norm(pooled)), 1e-6)


@parameters
class GaborEnergies(ImageTransformer):
    """The gist of a scene: energies of Gabor filters in each cell of a grid, scaled to norm 1 [OT01].

    The image is made a square of 128 pixels first.

    Parameters
    ----------
    scales, orientations : int, default=4 and 8
        Frequencies, each half of the one before, from a quarter of a cycle per pixel; directions of waves.
    grid : int, default=4
    size, n_jobs, memory, verbose
        See :class:`ImageTransformer`.

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
    def n_columns(self) -> int:
        """Filters in all cells."""
        return self.grid**2 * self.scales * self.orientations

    def _descriptor(self) -> Describe:
        return partial(_gabor, scales=self.scales, orientations=self.orientations, grid=self.grid)
