"""Finished cells of a table, one file each, so that a run that was stopped goes on where it was."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from multikernel.io.files import write_text


class Cells:
    """A folder of finished results, found again by everything that they depend on.

    Parameters
    ----------
    folder : path
        Made if it is not there.
    context : mapping
        What all results depend on: version, sizes of the data files, quick or not.
    fresh : bool
        Whether to leave aside what was finished before.
    """

    def __init__(self, folder: Path, context: Mapping[str, Any], *, fresh: bool = False) -> None:
        self.folder = folder
        self._context = dict(context)
        self._fresh = fresh
        self._written: set[Path] = set()
        folder.mkdir(parents=True, exist_ok=True)

    def path(self, name: str, what: Mapping[str, Any]) -> Path:
        """The file of a cell: a readable name, and a hash of what it depends on."""
        text = json.dumps({**self._context, **what}, sort_keys=True, default=_plain)
        digest = hashlib.sha256(text.encode()).hexdigest()[:12]
        return self.folder / f"{re.sub(r'[^A-Za-z0-9.-]+', '_', name)}.{digest}.json"

    def read(self, path: Path) -> dict[str, Any] | None:
        """A finished cell; None if there is none, or if what is there cannot be read."""
        if self._fresh and path not in self._written:
            return None
        try:
            record = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return None
        return record if isinstance(record, dict) else None

    def write(self, path: Path, record: Mapping[str, Any]) -> None:
        """Keep a finished cell."""
        write_text(path, json.dumps(record, default=_plain) + "\n")
        self._written.add(path)


def _plain(value: Any) -> Any:
    """NumPy values and the like as what JSON has."""
    return value.tolist() if hasattr(value, "tolist") else str(value)
