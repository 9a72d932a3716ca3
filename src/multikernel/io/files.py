"""Files that are either complete or not there, archives that are not trusted, and the error for unusable ones."""

import contextlib
import glob
import math
import os
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import numpy as np


class DataError(ValueError):
    """The data or a file cannot be used; the message says what, where, how much and what to do."""


def _default_mode(path: Path) -> int:
    """Permissions of the file that is replaced, else those that `open` would give a new one."""
    with contextlib.suppress(OSError):
        return path.stat().st_mode & 0o777
    umask = os.umask(0)
    os.umask(umask)
    return 0o666 & ~umask


def _sync_folder(folder: Path) -> None:
    """Make the renaming itself durable; folders cannot be opened on every system, and that is fine."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _temporary(target: Path) -> tuple[int, str]:
    """A new file beside ``target``, locked as long as this process has it open: its descriptor and name."""
    while True:
        descriptor, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.", suffix=".part")
        with contextlib.suppress(OSError, ImportError):  # not every file system can, nor every system
            import fcntl

            fcntl.flock(descriptor, fcntl.LOCK_EX)
        if os.fstat(descriptor).st_nlink:
            return descriptor, name
        os.close(descriptor)  # somebody took it for abandoned before it was locked


def _remove_abandoned(target: Path) -> None:
    """Remove temporary files for ``target`` that no process has locked: whoever wrote them was killed."""
    for name in glob.glob(f".{glob.escape(target.name)}.*.part", root_dir=target.parent):
        with contextlib.suppress(OSError, ImportError), open(target.parent / name, "rb") as stream:
            import fcntl

            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.unlink(target.parent / name)


@contextlib.contextmanager
def atomic_write(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """Open a binary file that takes the place of ``path`` only when everything has been written.

    The bytes go to a temporary file in the same folder, are forced to disk, and the file is then renamed.
    Whatever happens in between (an exception, Ctrl-C, a full disk), ``path`` keeps its former content, or
    stays absent, and the temporary file is removed; that of a process that was killed, by the next one that writes.
    """
    target = Path(path)
    if target.is_dir():
        raise IsADirectoryError(f"{path} is a folder: give the name of a file in it")
    temporary = None
    try:
        if target.exists() and not target.is_file():  # /dev/stdout, a pipe: nothing to replace
            with open(target, "wb") as stream:
                yield stream
            return
        # a link is followed, so that what it points to is replaced and not the link itself
        target = Path(os.path.realpath(target)) if target.is_symlink() else target
        mode = _default_mode(target)
        _remove_abandoned(target)
        descriptor, temporary = _temporary(target)
        with os.fdopen(descriptor, "wb") as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        os.chmod(temporary, mode)
        os.replace(temporary, target)
    except BaseException as error:
        if temporary is not None:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
        elif isinstance(error, FileNotFoundError):
            raise FileNotFoundError(f"cannot write {path}: there is no folder {target.parent}") from None
        if isinstance(error, OSError) and error.errno and error.filename in (None, temporary):
            error.filename, error.filename2 = os.fspath(path), None  # the file that was meant
        raise
    _sync_folder(target.parent)


def write_text(path: str | os.PathLike[str], text: str) -> None:
    """Write ``text`` as UTF-8, atomically."""
    with atomic_write(path) as stream:
        stream.write(text.encode("utf-8"))


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


def near_matches(name: str, choices: list[str], count: int = 3) -> str:
    """The part of a message that suggests what was meant: close names, else the first few there are.

    Examples
    --------
    >>> near_matches("speceis", ["species", "petal"]), near_matches("q", ["species", "petal"])
    ("did you mean 'species'?", "there are 'species', 'petal'")
    """
    import difflib

    lowered = {choice.lower(): choice for choice in reversed(choices)}
    close = difflib.get_close_matches(name.lower(), list(lowered), n=count, cutoff=0.6)
    if close:
        return "did you mean " + " or ".join(repr(lowered[c]) for c in close) + "?"
    if not choices:
        return "there are none"
    shown = ", ".join(repr(choice) for choice in choices[:8])
    return f"there are {shown}" + (f" and {len(choices) - 8} more" if len(choices) > 8 else "")
