"""Images from files and arrays, whatever their mode, depth and orientation; errors name the file."""

from __future__ import annotations

import io
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from multikernel.io.files import DataError

_DEEP = ("I", "F", "I;16", "I;16L", "I;16B", "I;16N")


class ImageError(DataError):
    """A file or an array is not an image that can be read."""


def read_image(source: Any, size: int | None = None) -> NDArray:
    """An image as RGB, shape (H, W, 3), float32 in [0, 1].

    Photographs are turned as their EXIF data say, palettes become colours, transparent parts white, grey levels three
    equal channels, 16 bits are scaled to [0, 1].

    Parameters
    ----------
    source : path, bytes of a file, or array of shape (H, W), (H, W, 1), (H, W, 3) or (H, W, 4)
        Arrays hold bool, uint8, uint16, or floats in [0, 1].
    size : int, optional
        The longest side at most: larger images are made smaller.

    Raises
    ------
    ImageError

    Examples
    --------
    >>> import numpy as np
    >>> from multikernel.images import read_image
    >>> image = read_image(np.full((20, 40), 65535, np.uint16), size=10)
    >>> image.shape, float(image.min())
    ((5, 10, 3), 1.0)
    """
    from PIL import Image, UnidentifiedImageError

    name = source if isinstance(source, (str, os.PathLike)) else "the image"
    try:
        if isinstance(source, np.ndarray):
            picture = _from_array(source)
        else:
            stream = io.BytesIO(source) if isinstance(source, bytes) else Path(source)
            with Image.open(stream) as file:
                if size is not None:
                    file.draft("RGB", (size, size))  # decodes JPEG at a smaller size, never below the one asked for
                picture = _upright(file)
    except UnidentifiedImageError:
        raise ImageError(f"{name} is not an image that Pillow can read") from None
    except (OSError, ValueError, SyntaxError, EOFError, MemoryError, Image.DecompressionBombError) as error:
        raise ImageError(f"{name} cannot be read as an image: {error or type(error).__name__}") from None
    if size is not None and max(picture.size) > size:
        shape = [max(1, round(side * size / max(picture.size))) for side in picture.size]
        picture = picture.resize((shape[0], shape[1]), Image.Resampling.BICUBIC)
    return np.asarray(picture, np.float32) / np.float32(255)


def _upright(picture: Any) -> Any:
    """The picture as RGB, the right way up; transparent parts are white."""
    from PIL import Image, ImageOps

    picture = ImageOps.exif_transpose(picture)
    if picture.mode in _DEEP:
        return _from_array(np.asarray(picture))
    if picture.mode in ("RGBA", "LA", "PA", "La", "RGBa") or "transparency" in picture.info:
        picture = picture.convert("RGBA")
        return Image.alpha_composite(Image.new("RGBA", picture.size, "white"), picture).convert("RGB")
    return picture.convert("RGB")


def _from_array(values: NDArray) -> Any:
    """A picture of an array, at 8 bits."""
    from PIL import Image

    values = values[:, :, 0] if values.ndim == 3 and values.shape[2] == 1 else values
    if values.ndim not in (2, 3) or (values.ndim == 3 and values.shape[2] not in (3, 4)) or not values.size:
        raise ValueError(f"an array of shape {values.shape} is no image: (H, W), (H, W, 3) or (H, W, 4) is")
    if values.dtype.kind == "f":
        low, high = float(values.min()), float(values.max())
        if not (low >= 0 and high <= 1):  # NaN too
            raise ValueError(
                f"floats must be in [0, 1], these are in [{low:g}, {high:g}]: divide them by their maximum"
            )
        levels = np.rint(values * 255).astype(np.uint8)
    elif values.dtype == bool:
        levels = values.astype(np.uint8) * np.uint8(255)
    elif values.dtype == np.uint8:
        levels = values
    elif values.dtype.kind in "iu" and values.min() >= 0 and values.max() <= 65535:
        levels = (values // 257).astype(np.uint8)
    else:
        raise ValueError(f"values of {values.dtype} from {values.min()} to {values.max()} are neither 8 nor 16 bits")
    return _upright(Image.fromarray(levels))


def as_sources(X: Any) -> list[Any]:
    """Images one by one, of a sequence or an array of paths, shape (n,) or (n, 1), or of images, (n, H, W[, 3])."""
    if isinstance(X, (str, os.PathLike, bytes)):
        raise ValueError(f"X is one image: pass a list, [{str(X)[:60]!r}]")
    if hasattr(X, "to_numpy"):  # a column or a frame with one
        X = X.to_numpy()
    if isinstance(X, np.ndarray) and X.dtype.kind in "OUST" and X.ndim == 2 and X.shape[1] == 1:
        X = X[:, 0]
    if isinstance(X, np.ndarray) and X.dtype.kind not in "OUST" and X.ndim not in (3, 4):
        raise ValueError(f"X has shape {X.shape}: expected paths, (n,), or images, (n, H, W) or (n, H, W, channels)")
    sources = [source if isinstance(source, (os.PathLike, bytes, np.ndarray)) else _path(source) for source in X]
    if not sources:
        raise ValueError("X holds no images")
    return sources


def _path(source: Any) -> str:
    if not isinstance(source, str):
        raise TypeError(f"{source!r} is neither a path nor an array: images are given as one or the other")
    return str(source)


def refuse_unreadable(errors: Sequence[ImageError], n_images: int) -> None:
    """One error about all images that cannot be read, if there are any."""
    if errors:
        shown = "; ".join(map(str, errors[:3])) + (" …" if len(errors) > 3 else "")
        raise ImageError(
            f"{len(errors)} of {n_images} images cannot be read: {shown}. Leave them out, or repair them"
        )
