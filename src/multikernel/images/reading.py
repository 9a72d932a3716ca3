"""Images from files and arrays, whatever their mode, depth and orientation; errors name the file."""

from __future__ import annotations

import io
import os
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from multikernel.io.files import DataError


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
            with Image.open(io.BytesIO(source) if isinstance(source, bytes) else Path(source)) as file:
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
    if picture.mode[0] in "IF":  # 16 bits, also where there is room for 32, or floats
        values = np.asarray(picture)
        deep = values.dtype.kind == "i" and values.min() >= 0 and values.max() <= 65535
        return _from_array(values.astype(np.uint16) if deep else values)
    if picture.mode in ("RGBA", "LA", "PA", "La", "RGBa") or "transparency" in picture.info:
        picture = picture.convert("RGBA")
        return Image.alpha_composite(Image.new("RGBA", picture.size, "white"), picture).convert("RGB")
    return picture.convert("RGB")


def _from_array(values: NDArray) -> Any:
    """A picture of an array, at 8 bits."""
    from PIL import Image
    from skimage.util import img_as_ubyte

    values = values[:, :, 0] if values.ndim == 3 and values.shape[2] == 1 else values
    if values.ndim not in (2, 3) or (values.ndim == 3 and values.shape[2] not in (3, 4)) or not values.size:
        raise ValueError(f"an array of shape {values.shape} is no image: (H, W), (H, W, 3) or (H, W, 4) is")
    in_range = values.dtype.kind == "f" and values.min() >= 0 and values.max() <= 1  # NaN is not
    if not in_range and values.dtype not in (bool, np.uint8, np.uint16):
        raise ValueError(
            f"{values.dtype} from {values.min()} to {values.max()} is none of bool, uint8, uint16 and floats in "
            "[0, 1]: convert integers to uint8 or uint16, divide floats by the largest that there can be"
        )
    return _upright(Image.fromarray(img_as_ubyte(values)))


def as_sources(X: Any) -> list[tuple[str, Any]]:
    """What errors call each image, and the image, of paths, (n,) or (n, 1), or of images, (n, H, W[, 3])."""
    if isinstance(X, (str, os.PathLike, bytes)):
        raise ValueError(f"X is one image: pass a list, [{str(X)[:60]!r}]")
    if hasattr(X, "to_numpy"):  # a column or a frame with one
        X = X.to_numpy()
    if isinstance(X, np.ndarray) and X.dtype.kind in "OUST" and X.ndim == 2 and X.shape[1] == 1:
        X = X[:, 0]
    if isinstance(X, np.ndarray) and X.dtype.kind not in "OUST" and X.ndim not in (3, 4):
        raise ValueError(f"X has shape {X.shape}: expected paths, (n,), or images, (n, H, W) or (n, H, W, channels)")
    sources = []
    for k, source in enumerate(X):
        if not isinstance(source, (str, os.PathLike, bytes, np.ndarray)):
            raise TypeError(f"X[{k}] is neither a path nor an array, but {source!r}")
        path = isinstance(source, (str, os.PathLike))
        sources.append((str(source), str(source)) if path else (f"X[{k}]", source))
    if not sources:
        raise ValueError("X holds no images")
    return sources
