"""The state of a fit in a file, so that it can resume after being killed."""

import contextlib
import json
import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from multikernel.io.files import DataError, atomic_write, open_archive, read_array
from multikernel.runtime.monitor import Monitor
from multikernel.runtime.warnings import warn_user

FORMAT = 2
# Share of the time that may go into writing: slow writes happen less often.
SHARE = 0.05
ROW = {"iteration", "time", "objective", "gap", "relative_gap", "weights"}


class Checkpoint:
    """A file with the state of every problem of a fit: solutions, best solutions, their proofs, history, time spent.

    A file with another ``fingerprint`` is refused, not overwritten. It is written ``every`` few seconds.
    """

    def __init__(self, path: str | os.PathLike[str], fingerprint: str, every: float = 3.0):
        self.path = Path(path)
        self.fingerprint = fingerprint
        self.every = every
        self._next = time.monotonic() + every
        self._warned = False

    def due(self) -> bool:
        """Whether it is time to write again."""
        return time.monotonic() >= self._next

    def write(self, monitors: Sequence[Monitor], finished: set[int]) -> None:
        """Write the state of all monitors that have one, atomically.

        If that fails, because the disk is full, say, the file stays as it was, and the fit goes on with a warning.
        """
        started = time.monotonic()
        try:
            self._write(monitors, finished)
        except OSError as error:
            if not self._warned:
                left = "the state written last is kept" if self.path.exists() else "no state has been written yet"
                warn_user(
                    f"checkpoint {self.path} could not be written ({error.strerror or error}): {left}. The fit "
                    "continues and retries every few seconds. Free some disk space.",
                    UserWarning,
                )
            self._warned = True
        now = time.monotonic()
        self._next = now + max(self.every, (now - started) / SHARE)

    def _write(self, monitors: Sequence[Monitor], finished: set[int]) -> None:
        arrays: dict[str, np.ndarray] = {}
        problems: dict[str, Any] = {}
        for k, monitor in enumerate(monitors):
            if monitor.current is None:
                continue
            arrays[f"{k}.weights"], arrays[f"{k}.alpha"] = monitor.current
            arrays |= {f"{k}.kept.{name}": array for name, array in monitor.keep().items()}
            if monitor.best is not None:
                arrays[f"{k}.best_weights"], arrays[f"{k}.best_alpha"] = monitor.best
            if monitor.proof is not None:
                arrays[f"{k}.proof"] = monitor.proof
            rows = [
                {k: v.tolist() if isinstance(v, np.ndarray) else v for k, v in row.items()} for row in monitor.history
            ]
            problems[str(k)] = {
                "elapsed": monitor.elapsed,
                "stopped": monitor.stopped,
                "finished": k in finished,
                "history": rows,
            }
        if not problems:
            return
        meta = {"format": FORMAT, "fingerprint": self.fingerprint, "problems": problems}
        arrays["meta"] = np.frombuffer(json.dumps(meta).encode(), dtype=np.uint8)
        with atomic_write(self.path) as stream:
            np.savez(stream, **arrays)  # type: ignore[arg-type]

    def restore(self, monitors: Sequence[Monitor]) -> set[int]:
        """Give monitors the state in the file, if there is one; returns which problems are finished."""
        if not self.path.parent.is_dir():  # before the work, not when the first state is to be written
            raise DataError(f"checkpoint {self.path}: there is no folder {self.path.parent}: make it first.")
        if not self.path.exists():
            return set()
        try:
            meta, arrays = self._read()
            if (meta["format"], meta["fingerprint"]) != (FORMAT, self.fingerprint):
                raise DataError(
                    f"checkpoint {self.path} belongs to another fit (other data, labels, kernels or parameters): "
                    "give another file, or remove this one to start from the beginning."
                )
            states = {int(k): state for k, state in meta["problems"].items()}
            return {k for k in range(len(monitors)) if k in states and _resume(monitors[k], k, states[k], arrays)}
        except DataError:
            raise
        except Exception as error:  # damaged bytes raise any of a dozen types
            reason = (str(error).strip() or type(error).__name__).splitlines()[0]
            raise DataError(
                f"checkpoint {self.path} cannot be read ({reason}): remove the file to start from the beginning."
            ) from error

    def _read(self) -> tuple[dict[str, Any], dict[str, NDArray]]:
        """Metadata and arrays in the file, checked to be finite."""
        with open_archive(self.path) as archive:
            stored = {name.removesuffix(".npy"): read_array(archive, name) for name in archive.namelist()}
        meta = json.loads(stored.pop("meta").tobytes())
        for name, array in stored.items():
            if array.dtype != np.float64 or not np.isfinite(array).all():
                raise ValueError(f"{name} holds what is not a number")
        return meta, stored

    def remove(self) -> None:
        """Remove the file: the fit is over."""
        with contextlib.suppress(FileNotFoundError):
            self.path.unlink()


def _resume(monitor: Monitor, k: int, state: dict[str, Any], arrays: dict[str, NDArray]) -> bool:
    """Check a state and give it to a monitor; returns whether its problem is finished."""
    weights, alpha = monitor.problem.start()

    def solution(kind: str) -> tuple[NDArray, NDArray]:
        found = arrays[f"{k}.{kind}weights"], arrays[f"{k}.{kind}alpha"]
        # there may be coefficients for each kernel
        if found[0].shape != np.shape(weights) or found[1].shape[-np.ndim(alpha) :] != np.shape(alpha):
            raise ValueError(f"solutions have shapes {found[0].shape} and {found[1].shape}")
        return found

    rows = [
        {name: np.array(v, dtype=np.float64) if isinstance(v, list) else v for name, v in row.items()}
        for row in state["history"]
    ]
    for row in rows:
        numbers = all(isinstance(v, (int, float, np.ndarray)) for v in row.values())
        if not row.keys() >= ROW or not numbers or not isinstance(row["weights"], np.ndarray):
            raise ValueError("a row of the history holds what is not a number")
    elapsed = float(state["elapsed"])
    if not 0.0 <= elapsed < float("inf"):
        raise ValueError(f"{elapsed} seconds were spent")
    best = solution("best_") if f"{k}.best_weights" in arrays else None
    monitor.resume(solution(""), best, arrays.get(f"{k}.proof"), rows, elapsed)
    start = f"{k}.kept."
    monitor.kept = {name.removeprefix(start): array for name, array in arrays.items() if name.startswith(start)}
    return bool(state["finished"]) and monitor.bears_out(state["stopped"])
