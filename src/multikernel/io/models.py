"""Model files: one zip of arrays and a JSON manifest, that can be read without trusting who wrote it.

Unlike a pickle, a model file holds no code: reading one makes arrays, plain values and instances of the
library's own classes, nothing else.
"""

import contextlib
import json
import os
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from multikernel import __version__
from multikernel.io.encoding import Decoder, Encoder, ModelFileError, storable_classes
from multikernel.io.files import DataError, atomic_write, open_archive, read_array
from multikernel.io.state import check_state
from multikernel.io.versions import all_versions

__all__ = ["FORMAT", "ModelFileError", "load", "read_manifest", "save"]

FORMAT = 1  # raised when files of an older library can no longer be read as they are
MAGIC, ARRAY = "multikernel model", "arrays/{}.npy"
LARGEST_MANIFEST = 1 << 26  # bytes: in memory they become some 20 times as many


def save(
    estimator: BaseEstimator,
    path: str | os.PathLike[str],
    *,
    metadata: Mapping[str, Any] | None = None,
    trusted: Iterable[type] = (),
) -> None:
    """Write a fitted estimator to a model file, atomically; a `ModelFileError` if it holds a function, say.

    Parameters
    ----------
    estimator : fitted estimator of this library, or pipeline that ends in one
    path : path
        The usual ending is ``.mkl``.
    metadata : mapping, optional
        Values that JSON can hold, kept with the model: names of columns, a remark.
    trusted : iterable of type
        Classes of your own that the estimator holds, such as a kernel. Give them to `load` as well.
    """
    check_is_fitted(estimator)
    try:
        _check_fitted(estimator)
    except DataError as error:
        raise ModelFileError(f"the model cannot be saved: {error}") from None
    encoder = Encoder(storable_classes(trusted))
    manifest = {
        "magic": MAGIC,
        "format": FORMAT,
        "class": type(estimator).__name__,
        "versions": all_versions(),
        "metadata": dict(metadata or {}),
        "model": encoder.encode(estimator, type(estimator).__name__),
        "objects": encoder.objects,
        "arrays": len(encoder.arrays),
    }
    text = json.dumps(manifest, indent=1, allow_nan=False, ensure_ascii=False).encode()
    if len(text) > LARGEST_MANIFEST:
        raise ModelFileError(
            f"names, labels and other text of the model take {len(text)} bytes, more than {LARGEST_MANIFEST}: use "
            "numbers for labels, or columns without names"
        )
    with atomic_write(path) as stream, zipfile.ZipFile(stream, "w", zipfile.ZIP_STORED) as archive:
        # ZipInfo's fixed date makes equal models equal files
        archive.writestr(zipfile.ZipInfo("manifest.json"), text)
        for k, array in enumerate(encoder.arrays):
            with archive.open(zipfile.ZipInfo(ARRAY.format(k)), "w", force_zip64=True) as entry:
                np.lib.format.write_array(entry, array, allow_pickle=False)


def load(path: str | os.PathLike[str], *, trusted: Iterable[type] = ()) -> BaseEstimator:
    """Read an estimator from a model file; its predictions are those of the one saved, to the last bit.

    A `ModelFileError` says if the file is not a model, is damaged, or has a format that this version does not read.
    ``trusted`` are classes of your own that may be made.
    """
    with _archive(path) as archive:
        manifest = _checked_manifest(archive)
        decoder = Decoder(storable_classes(trusted), manifest, lambda k: read_array(archive, ARRAY.format(k)))
        model = decoder.decode(manifest["model"])
        if type(model).__name__ != manifest["class"] or not hasattr(model, "predict"):
            raise ModelFileError(f"it holds a {type(model).__name__} instead of a model")
        for instance in decoder.instances.values():
            _check_fitted(instance)
    return model


def read_manifest(path: str | os.PathLike[str]) -> dict[str, Any]:
    """What a model file says of itself: class, versions, metadata; the arrays are not read."""
    with _archive(path) as archive:
        return _checked_manifest(archive)


@contextlib.contextmanager
def _archive(path: str | os.PathLike[str]) -> Iterator[zipfile.ZipFile]:
    """The archive of a model file; whatever goes wrong with it is a `ModelFileError` that names the file.

    A flipped bit can reach the readers of zip, JSON and arrays and the decoder, each with exceptions of its own. No
    code of a file is run, so whatever is raised comes from the file's content.
    """
    try:
        if not Path(path).exists():
            raise ModelFileError("there is no such file")
        if Path(path).is_dir():
            raise ModelFileError("it is a folder")
        if Path(path).stat().st_size == 0:
            raise ModelFileError("it is empty (0 bytes)")
        with open_archive(path) as archive:
            yield archive
    except DataError as error:
        raise ModelFileError(f"{path} cannot be used: {error}") from None
    except Exception as error:
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise ModelFileError(
            f"{path} is not a complete model file ({reason}): it may be truncated or damaged. "
            "Copy it again, or fit the model again"
        ) from None


def _checked_manifest(archive: zipfile.ZipFile) -> dict[str, Any]:
    """The manifest, if this is a model file of a format that is understood."""
    if "manifest.json" not in archive.namelist():
        raise ModelFileError("it is not a model file (no manifest.json in it): write one with multikernel fit")
    size = archive.getinfo("manifest.json").file_size
    if size > LARGEST_MANIFEST:
        raise ModelFileError(f"its manifest has {size} bytes, and no model needs more than {LARGEST_MANIFEST}")
    manifest = json.loads(archive.read("manifest.json"), parse_constant=_refuse_constant)
    if not isinstance(manifest, dict) or manifest.get("magic") != MAGIC:
        raise ModelFileError("it is not a multikernel model file")
    written_by = manifest["versions"]["multikernel"]
    found = manifest["format"]
    if found != FORMAT:
        advice = (
            "upgrade with pip install -U multikernel"
            if isinstance(found, int) and found > FORMAT
            else f"fit the model again, or read it with multikernel {written_by}"
        )
        raise ModelFileError(
            f"it has format {found}, written by multikernel {written_by}, but this version "
            f"({__version__}) reads format {FORMAT}: {advice}"
        )
    return manifest


def _check_fitted(instance: Any) -> None:
    """Check the state of an estimator, and of its parts, unless it is not fitted; a pipeline may hold several."""
    if hasattr(instance, "predict") and set(vars(instance)) - set(instance.get_params(deep=False)):
        check_state(instance)


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")
