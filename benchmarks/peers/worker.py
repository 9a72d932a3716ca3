"""Run one method on one problem in this interpreter, and print what came out as one line of JSON.

    python worker.py METHOD FOLDER

FOLDER holds the arrays that `problems.py` wrote. Fits are repeated for three seconds, 15 times at most, and the
quickest counts: what else a machine does can only add to it. Processor time is measured beside it, which on a machine
that is busy with other things says more. A fit on 40 samples goes first, to import and compile.
"""

from __future__ import annotations

import ctypes
import json
import os
import sys
import time
import warnings
from importlib.metadata import version
from pathlib import Path
from types import SimpleNamespace

import numpy as np
from methods import METHODS


def load(folder: Path, part: str) -> SimpleNamespace:
    about = json.loads((folder / "about.json").read_text())
    X = folder / f"X_{part}.npy"
    return SimpleNamespace(
        K=np.load(folder / f"K_{part}.npy"),
        y=np.load(folder / f"y_{part}.npy"),
        X=np.load(X) if X.is_file() else None,
        views=about["views"],
        C=about["C"],
    )


def small(problem: SimpleNamespace) -> SimpleNamespace:
    """Twenty samples of each of two classes."""
    chosen = np.concatenate([np.flatnonzero(problem.y == label)[:20] for label in np.unique(problem.y)[:2]])
    part = {"K": problem.K[:, chosen][:, :, chosen], "y": problem.y[chosen]}
    return SimpleNamespace(**{**vars(problem), **part, "X": None if problem.X is None else problem.X[chosen]})


def resident(key: str) -> int:
    """A size of this process in bytes, from the system; 0 where there is no such thing."""
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
    except OSError:
        return 0
    return next(1024 * int(line.split()[1]) for line in lines if line.startswith(key + ":"))


def reset_peak() -> bool:
    """Give back what the allocator kept, and count the peak from here; whether the system can."""
    try:
        ctypes.CDLL("libc.so.6").malloc_trim(0)
        Path("/proc/self/clear_refs").write_text("5")
    except (OSError, AttributeError):
        return False
    return True


def main() -> None:
    name, folder = sys.argv[1], Path(sys.argv[2])
    if hasattr(os, "sched_setaffinity"):  # whatever threads a package starts, they share these cores
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: int(os.environ.get("PEERS_CORES", "1"))])
    warnings.simplefilter("ignore")
    method, training, new = METHODS[name], load(folder, "train"), load(folder, "test")
    warm = small(training)
    fit, predict = method.prepare(warm)
    fit()
    fit, predict = method.prepare(training)
    measured, before = reset_peak(), resident("VmRSS")
    seconds: list[float] = []
    processor: list[float] = []
    while len(seconds) < 15 and sum(seconds) < 3.0:
        start, used = time.perf_counter(), time.process_time()
        model = fit()
        seconds.append(time.perf_counter() - start)
        processor.append(time.process_time() - used)
        if len(seconds) == 1:
            peak = resident("VmHWM") - before if measured else float("nan")
    start = time.perf_counter()
    predicted = predict(model, new)
    row = {
        "seconds": min(seconds),
        "processor_seconds": min(processor),
        "repeats": len(seconds),
        "predict_seconds": time.perf_counter() - start,
        "accuracy": float(np.mean(predicted == new.y)),
        "peak": max(peak, 0),
        "kernels": int(training.K.nbytes),
        "version": version(method.package),
    }
    print(json.dumps(row))


if __name__ == "__main__":
    main()
