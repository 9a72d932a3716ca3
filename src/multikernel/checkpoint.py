"""The state of a fit in a file, so that it can go on after a kill."""

from __future__ import annotations

import contextlib
import json
import os
import time
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from multikernel.files import DataError, atomic_write
from multikernel.monitor import Monitor

FORMAT = 1


class Checkpoint:
    """A file with the state of every problem of a fit: solutions, best solutions, history, time spent.

    Parameters
    ----------
    path : path
        The file; it need not exist.
    fingerprint : str
        What the state belongs to. A file with another fingerprint is refused, not overwritten.
    every : float
        Seconds between writes.
    """

    def __init__(self, path: str | os.PathLike[str], fingerprint: str, every: float = 10.0):
        self.path = Path(path)
        self.fingerprint = fingerprint
        self.every = every
        self._written = time.monotonic()

    def due(self) -> bool:
        """Whether it is time to write again."""
        return time.monotonic() - self._written >= self.every

    def write(self, monitors: Sequence[Monitor], finished: set[int]) -> None:
        """Write the state of all monitors that have one, atomically."""
        arrays: dict[str, np.ndarray] = {}
        problems: dict[str, Any] = {}
        for k, monitor in enumerate(monitors):
            if monitor.current is None or monitor.best is None:
                continue
            arrays[f"{k}.weights"], arrays[f"{k}.alpha"] = monitor.current
            arrays[f"{k}.best_weights"], arrays[f"{k}.best_alpha"] = monitor.best
            rows = [{**row, "weights": row["weights"].tolist()} for row in monitor.history]
            problems[str(k)] = {
                "elapsed": monitor.elapsed,
                "stopped": monitor.stopped,
                "finished": k in finished,
                "history": rows,
            }
        meta = {"format": FORMAT, "fingerprint": self.fingerprint, "problems": problems}
        arrays["meta"] = np.frombuffer(json.dumps(meta).encode(), dtype=np.uint8)
        with atomic_write(self.path) as stream:
            np.savez(stream, **arrays)  # type: ignore[arg-type]
        self._written = time.monotonic()

    def restore(self, monitors: Sequence[Monitor]) -> set[int]:
        """Give monitors the state in the file, if there is one; returns which problems are finished."""
        if not self.path.parent.is_dir():  # before the work, not when the first state is to be written
            raise DataError(f"checkpoint {self.path}: there is no folder {self.path.parent}: make it first.")
        if not self.path.exists():
            return set()
        try:
            with np.load(self.path, allow_pickle=False) as archive:
                stored = {name: archive[name] for name in archive.files}
            meta = json.loads(stored["meta"].tobytes())
        except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
            raise DataError(
                f"checkpoint {self.path} cannot be read ({error}): remove the file to start from the beginning."
            ) from error
        if meta.get("format") != FORMAT or meta.get("fingerprint") != self.fingerprint:
            raise DataError(
                f"checkpoint {self.path} belongs to another fit (other data, labels, kernels or parameters): "
                "give another file, or remove this one to start from the beginning."
            )
        finished = set()
        for key, state in meta["problems"].items():
            history = [{**row, "weights": np.array(row["weights"])} for row in state["history"]]
            monitor = monitors[int(key)]
            monitor.resume(
                (stored[f"{key}.weights"], stored[f"{key}.alpha"]),
                (stored[f"{key}.best_weights"], stored[f"{key}.best_alpha"]),
                history,
                state["elapsed"],
            )
            if state["finished"]:
                monitor.stopped = state["stopped"]
                finished.add(int(key))
        return finished

    def remove(self) -> None:
        """Remove the file: the fit is over."""
        with contextlib.suppress(FileNotFoundError):
            self.path.unlink()
