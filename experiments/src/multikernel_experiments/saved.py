"""The results of a run in one file, from which tables and the summary can be written again without data or fits."""

from __future__ import annotations

import json
from pathlib import Path

from multikernel.io.files import DataError, write_text
from multikernel_experiments.protocol import Protocol
from multikernel_experiments.results import Results

FILE = "results.json"
LEFT_OUT = ("confusion",)  # large with many classes, and not shown


def save(results: Results, folder: Path) -> None:
    """Write ``results.json``."""
    cells = [
        [*place, {name: value for name, value in record.items() if name not in LEFT_OUT}]
        for place, record in sorted(results.cells.items())
    ]
    facts = {name: getattr(results, name) for name in _FACTS}
    content = {"protocol": results.protocol.name, **facts, "cells": cells}
    write_text(folder / FILE, json.dumps(content) + "\n")


def load(protocol: Protocol, folder: Path) -> Results | None:
    """The results in a folder, of the protocol as it was run; None if there are none.

    Cells of entries, settings and splits that the protocol no longer has are left out.
    """
    try:
        content = json.loads((folder / FILE).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise DataError(f"{folder / FILE} cannot be read: {error}. Run the experiment again") from None
    if content["protocol"] != protocol.name:
        raise DataError(f"{folder / FILE} is of {content['protocol']!r}, not of {protocol.name!r}")
    protocol = protocol.quickened() if content["quick"] else protocol
    results = Results(protocol, **{name: content[name] for name in _FACTS})
    keys = {entry.key for entry in protocol.entries}
    for setting, split, key, record in content["cells"]:
        if setting in protocol.settings and split < protocol.n_splits and key in keys:
            results.cells[setting, split, key] = record
    return results


_FACTS = ("quick", "stand_in", "started", "command", "seconds", "interrupted", "jobs", "machine", "versions")
