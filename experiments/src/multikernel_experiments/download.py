"""Download a file: it goes on where it was broken off, is checked, and takes its place only when it is whole."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable
from http.client import HTTPException
from pathlib import Path
from typing import IO, Any
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

from multikernel.io.files import DataError, write_text

BLOCK = 1 << 20
Progress = Callable[[int, int | None], None]


def download(
    url: str,
    path: Path,
    *,
    sha256: str = "",
    tries: int = 3,
    timeout: float = 30.0,
    wait: float = 1.0,
    progress: Progress = lambda done, total: None,
) -> str:
    """Fetch ``url`` to ``path`` unless it is there already; returns the SHA-256 sum of the file.

    What has arrived is kept in ``path.part``; the next call, or the next try after the connection broke, asks only
    for the rest. A server that cannot do that sends everything again.

    Parameters
    ----------
    url : str
        http or https.
    path : Path
        Its folder is made if it is not there.
    sha256 : str
        What the sum must be. Without it, that of the first download, which is kept in ``path.sha256``.
    tries : int
        How often to connect, in all.
    timeout, wait : float
        Seconds without an answer; seconds between tries, doubled each time.
    progress : callable
        Called as ``progress(bytes_done, bytes_in_all or None)``.

    Raises
    ------
    DataError
        When the file cannot be had, or has another sum.
    """
    if urlsplit(url).scheme not in ("http", "https"):
        raise DataError(f"{url} is not an http or https address")
    known = sha256 or _remembered(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.is_file():
        return _checked(path, known, url)
    part = path.with_name(path.name + ".part")
    for attempt in range(tries):
        try:
            _fetch(url, part, timeout, progress)
            break
        except HTTPError as error:
            if error.code < 500 or attempt == tries - 1:
                answer = f"{error.code} {error.reason}"
                raise DataError(f"{url}: the server answers {answer}. {_by_hand(path)}") from None
        except (URLError, OSError, HTTPException) as error:
            if attempt == tries - 1:
                kept = f"{part.stat().st_size} bytes are kept" if part.exists() else "nothing arrived"
                reason = getattr(error, "reason", error)
                raise DataError(f"{url} cannot be fetched: {reason}; {kept}. {_by_hand(path)}") from None
        time.sleep(wait * 2**attempt)
    found = _checked(part, known, url)
    os.replace(part, path)
    if not sha256:
        write_text(_memory(path), found + "\n")
    return found


def _fetch(url: str, part: Path, timeout: float, progress: Progress) -> None:
    """One connection: append what is missing, or write everything where the server does not send parts."""
    done = part.stat().st_size if part.exists() else 0
    request = Request(url, headers={"User-Agent": "multikernel", **({"Range": f"bytes={done}-"} if done else {})})
    try:
        response = urlopen(request, timeout=timeout)
    except HTTPError as error:
        if error.code == 416:  # nothing is missing, or the file has become shorter: its sum will tell
            if error.headers.get("Content-Range", "") == f"bytes */{done}":
                return
            part.unlink()
            return _fetch(url, part, timeout, progress)
        raise
    with response:
        resumed = response.status == 206 and _start(response) == done
        length = response.headers.get("Content-Length")
        total = int(length) + (done if resumed else 0) if length else None
        with open(part, "ab" if resumed else "wb") as stream:
            _copy(response, stream, done if resumed else 0, total, progress)
            stream.flush()
            os.fsync(stream.fileno())
    if total is not None and part.stat().st_size < total:
        raise URLError(f"the connection broke after {part.stat().st_size} of {total} bytes")


def _start(response: Any) -> int:
    """First byte of a partial answer, from ``Content-Range: bytes 5-9/10``."""
    text = response.headers.get("Content-Range", "").removeprefix("bytes ").partition("-")[0]
    return int(text) if text.isdigit() else -1


def _copy(response: Any, stream: IO[bytes], done: int, total: int | None, progress: Progress) -> None:
    while block := response.read(BLOCK):
        stream.write(block)
        done += len(block)
        progress(done, total)


def sum_of(path: Path) -> str:
    """SHA-256 of a file, in hexadecimal."""
    with open(path, "rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _checked(path: Path, known: str, url: str) -> str:
    """The sum of a file; if it is not the known one, the file goes and an error says so."""
    found = sum_of(path)
    if known and found != known:
        size = path.stat().st_size
        path.unlink()
        raise DataError(
            f"{url}: the file ({size} bytes) has the SHA-256 sum {found}, not {known}, and was removed. Try again; "
            "if it stays so, the file has changed at its source"
        )
    return found


def _memory(path: Path) -> Path:
    return path.with_name(path.name + ".sha256")


def _remembered(path: Path) -> str:
    """The sum of the first download, if there was one."""
    try:
        return _memory(path).read_text(encoding="ascii").strip()
    except (OSError, ValueError):
        return ""


def _by_hand(path: Path) -> str:
    return f"Download it by hand and put it at {path}"
