"""Local descriptors: small patches of an image as vectors, and where they are. SIFT is dense, on NumPy and SciPy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage

SIFT_BINS = (4, 6, 9)  # sides of the 4 × 4 bins, in pixels
FLAT = 0.02  # norm of the mean gradients of a patch below which its directions are noise
SHADOW = 25.0  # squared differences of Lab colours below which two patches are alike
ANGLES, RINGS, REACH = 20, 4, 10  # of the log-polar map of self-similarities, in pixels of half the size


class Local(NamedTuple):
    """Vectors, shape (n, d), and the places of their patches as shares of height and width, in [0, 1)."""

    vectors: NDArray
    rows: NDArray
    columns: NDArray


def grey(image: NDArray) -> NDArray:
    """Luminance, shape (H, W)."""
    from skimage.color import rgb2gray

    return rgb2gray(image)


def _grid(shape: Sequence[int], step: int) -> tuple[NDArray, NDArray]:
    """Rows and columns of pixels, one of ``step`` along each side, from the middle of the first step."""
    down, right = (np.arange(min(step // 2, (side - 1) // 2), side, step) for side in shape[:2])
    return np.repeat(down, len(right)), np.tile(right, len(down))


def _local(vectors: NDArray, rows: NDArray, columns: NDArray, shape: Sequence[int]) -> Local:
    return Local(vectors.astype(np.float32, copy=False), (rows + 0.5) / shape[0], (columns + 0.5) / shape[1])


def _sift(channel: NDArray, rows: NDArray, columns: NDArray, side: int) -> NDArray:
    """Gradients in 8 directions, pooled by a triangular window in 4 × 4 bins of ``side`` pixels; shape (n, 128).

    Blurred by a sixth of the bin; normalised, cut at 0.2, normalised again [Low04, sect. 6.1]; flat patches are 0.
    """
    down, right = np.gradient(ndimage.gaussian_filter(channel, side / 6))
    angles = np.arange(8, dtype=np.float32)[:, None, None] * np.float32(np.pi / 4)
    size = np.hypot(down, right)
    maps = np.maximum(np.sin(angles) * down + np.cos(angles) * right, 0) / np.maximum(size, 1e-12)
    for _ in range(3):  # cos⁸: a pixel counts for the directions next to its own
        np.square(maps, out=maps)
    maps *= size
    (above, down_), (beside, right_) = (
        _windows(places, length, side) for places, length in zip((rows, columns), channel.shape)
    )
    maps = np.ascontiguousarray(np.moveaxis(above @ maps @ beside.T, 0, -1))
    window = np.exp(-(((np.arange(4) - 1.5) / 2) ** 2) / 2).astype(np.float32)
    patches = maps[down_[:, :, None], right_[:, None, :]] * np.outer(window, window)[..., None]
    vectors = patches.reshape(len(rows), -1)
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    vectors = np.minimum(np.where(norms < FLAT, 0, vectors / np.maximum(norms, 1e-12)), 0.2)
    return vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)


def _windows(places: NDArray, length: int, side: int) -> tuple[NDArray, NDArray]:
    """Triangular windows of the bins, shape (m, length), and the windows of each place's four bins, (n, 4).

    A product with them pools no more than is asked for, several times as fast as a filter of every pixel.
    """
    centres = places[:, None] + np.rint((np.arange(4) - 1.5) * side).astype(int)
    distinct, which = np.unique(np.clip(centres, 0, length - 1), return_inverse=True)
    windows = np.maximum(1 - abs(distinct[:, None] - np.arange(length)) / side, 0) / side
    return windows.astype(np.float32), which.reshape(centres.shape)


def _sift_of(channels: Sequence[NDArray], rows: NDArray, columns: NDArray, sides: Sequence[int]) -> Local:
    """SIFT of each channel side by side, at several scales one below the other."""
    parts = [np.hstack([_sift(channel, rows, columns, side) for channel in channels]) for side in sides]
    return _local(np.vstack(parts), np.tile(rows, len(sides)), np.tile(columns, len(sides)), channels[0].shape)


def sift(image: NDArray, step: int = 6, sides: Sequence[int] = (*SIFT_BINS, 13)) -> Local:
    """Dense SIFT of the luminance [Low04], at scales as in [BZM07]."""
    return _sift_of([grey(image)], *_grid(image.shape, step), sides)


def opponent_sift(image: NDArray, step: int = 6, sides: Sequence[int] = SIFT_BINS) -> Local:
    """Dense SIFT of red − green, yellow − blue and intensity, 384 numbers [SGS10]."""
    basis = np.array([[1, -1, 0], [1, 1, -2], [1, 1, 1]], np.float32)
    channels = np.moveaxis(image @ (basis / np.linalg.norm(basis, axis=1, keepdims=True)).T, -1, 0)
    return _sift_of(list(channels), *_grid(image.shape, step), sides)


def edge_sift(image: NDArray, sigma: float = 1.5, most: int = 700, sides: Sequence[int] = SIFT_BINS) -> Local:
    """SIFT of the luminance on Canny's edges, at most about ``most`` of them; on a grid where there are none."""
    from skimage.feature import canny

    light = grey(image)
    rows, columns = np.nonzero(canny(light, sigma, 0.7, 0.9, use_quantiles=True))
    if not len(rows):
        rows, columns = _grid(light.shape, 16)
    every = -(-len(rows) // most)
    return _sift_of([light], rows[::every], columns[::every], sides)


def hsv(image: NDArray, step: int = 3) -> Local:
    """Colours of pixels as points of the HSV cone: chroma times cosine and sine of the hue, and value."""
    from skimage.color import rgb2hsv

    rows, columns = _grid(image.shape, step)
    hue, saturation, value = rgb2hsv(image[rows, columns]).T
    chroma = saturation * value
    vectors = np.stack([chroma * np.cos(2 * np.pi * hue), chroma * np.sin(2 * np.pi * hue), value], axis=1)
    return _local(vectors, rows, columns, image.shape)


def self_similarity(image: NDArray, step: int = 3) -> Local:
    """How alike a patch is to those around it, the best in each cell of a log-polar map [SI07].

    Patches have 3 × 3 pixels of the image at half its size, compared as Lab colours; each map is stretched to [0, 1].
    """
    from skimage.color import rgb2lab

    half = ndimage.zoom(image, (0.5, 0.5, 1), order=1, grid_mode=True, mode="nearest")
    lab = np.ascontiguousarray(np.moveaxis(rgb2lab(np.clip(half, 0, 1)).astype(np.float32), -1, 0))
    height, width = shape = lab.shape[1:]
    around = np.pad(lab, ((0, 0), (REACH, REACH), (REACH, REACH)), mode="symmetric")
    rows, columns = _grid(shape, step)

    def unlike(down: int, right: int) -> NDArray:
        moved = around[:, REACH + down : REACH + down + height, REACH + right : REACH + right + width] - lab
        return ndimage.uniform_filter(np.einsum("cij,cij->ij", moved, moved), 3)[rows, columns]

    noise = np.maximum(np.max([unlike(*shift) for shift in ((0, 1), (1, 0), (0, -1), (-1, 0))], axis=0), SHADOW)
    least = np.full((RINGS * ANGLES, len(rows)), np.inf, np.float32)
    for cell, down, right in _LOG_POLAR:
        np.minimum(least[cell], unlike(down, right), out=least[cell])
    alike = np.exp(-least[np.unique(_LOG_POLAR[:, 0])] / noise).T
    alike -= alike.min(axis=1, keepdims=True)
    return _local(alike / np.maximum(alike.max(axis=1, keepdims=True), 1e-6), rows, columns, shape)


def _log_polar() -> NDArray:
    """Shifts and the cell of the map that each is in, rows of (cell, down, right); every other one far out."""
    down, right = np.mgrid[-REACH : REACH + 1, -REACH : REACH + 1].reshape(2, -1)
    radius, angle = np.hypot(down, right), np.arctan2(down, right) % (2 * np.pi)
    ring = np.searchsorted(np.geomspace(1.5, REACH + 0.01, RINGS + 1), radius) - 1
    kept = (radius >= 1.5) & (radius <= REACH) & ((radius < 4) | ((down + right) % 2 == 0))
    cell = ring * ANGLES + (angle * (ANGLES / (2 * np.pi))).astype(int) % ANGLES
    return np.stack([cell, down, right], axis=1)[kept]


_LOG_POLAR = _log_polar()


def texture(image: NDArray, step: int = 4) -> Local:
    """Strength of edges and both curvatures at scales of 1 to 8 pixels, whatever their direction: as in [VZ05].

    Scaled by log(1 + ‖x‖ / 0.03) / ‖x‖, so that contrast counts for less the more there is [VZ05, sect. 3.1].
    """
    from skimage.feature import multiscale_basic_features

    rows, columns = _grid(image.shape, step)
    # edges and curvatures, from 1 to 8 pixels in four steps, on one thread; Sobel's filter has √2 times the gradient
    features = multiscale_basic_features(grey(image), False, True, True, 1, 8, 4, 1)[rows, columns]
    scales = 2.0 ** np.arange(4)[:, None]
    vectors = features * np.hstack([scales / np.sqrt(2), scales**2, scales**2]).ravel()
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    return _local(vectors * np.log1p(norms / 0.03) / np.maximum(norms, 1e-12), rows, columns, image.shape)


PATCHES: dict[str, Any] = {
    "hsv": hsv,
    "sift": sift,
    "edge-sift": edge_sift,
    "opponent-sift": opponent_sift,
    "self-similarity": self_similarity,
    "texture": texture,
}
