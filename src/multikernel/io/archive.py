"""Zip archives of arrays, read without trusting what they say of themselves."""

from __future__ import annotations

import math
import os
import zipfile

import numpy as np


def open_archive(path: str | os.PathLike[str]) -> zipfile.ZipFile:
    """Open an archive whose entries are stored as they are, so that none is larger than the file.

    A few bytes of a compressed archive may stand for gigabytes, and so may entries that share their bytes. The
    library writes neither.
    """
    archive = zipfile.ZipFile(path)
    entries, size = archive.infolist(), os.stat(path).st_size
    if any(entry.compress_type != zipfile.ZIP_STORED for entry in entries):
        problem = "entries are compressed"
    elif sum(max(entry.file_size, entry.compress_size) for entry in entries) > size:
        problem = f"entries claim to be larger than the file ({size} bytes)"
    elif len({entry.filename for entry in entries}) < len(entries):
        problem = "two entries have the same name"
    else:
        return archive
    archive.close()
    raise ValueError(problem)


def read_array(archive: zipfile.ZipFile, name: str) -> np.ndarray:
    """An array out of an archive, after a check that the entry is as long as its header says; no Python objects."""
    readers = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
    with archive.open(name) as entry:
        shape, fortran_order, dtype = readers[np.lib.format.read_magic(entry)](entry)
        if dtype.hasobject or not dtype.itemsize or dtype.names:
            raise ValueError(f"{name} holds {dtype}, not numbers or text")
        expected = math.prod(shape) * dtype.itemsize
        if archive.getinfo(name).file_size - entry.tell() != expected:
            raise ValueError(f"{name} is not as long as its header says ({expected} bytes)")
        array = np.empty(math.prod(shape), dtype)
        # to the end, where zipfile compares checksums
        entry.readinto(array.view(np.uint8))  # type: ignore[attr-defined]
    return array.reshape(shape, order="F" if fortran_order else "C")
