"""By how much fits overrun max_time: every estimator, 10,000 to 90,000 samples, three storages.

    python benchmarks/bench_clock.py [--sizes 10000 30000 90000] [--limit 10] [--storage dense lazy explicit]
                                     [--methods mkl obscure ...] [--memory 8GB]

Three kernels on 20 simulated columns, three classes. dense: matrices in memory, left out where they do not fit; lazy:
computed where they are read, with a cache of 200 MB; explicit: Nyström features of rank 200. A fit may take a tenth
more than the limit and two seconds. "cores" is processor time over wall time: far below the number of cores others
were at work on the machine. Compilation is off the clock.
"""

from __future__ import annotations

import argparse
import time
import warnings
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.datasets import make_classification

import multikernel as mk
from multikernel.gram import parse_memory
from multikernel.kernels import RBF, Nystroem

METHODS: dict[str, Any] = {
    "average": mk.KernelAverageClassifier(),
    "best": mk.BestKernelClassifier(cv=3),
    "mkl": mk.MKLClassifier(),
    "mkl-l2": mk.MKLClassifier(p=2.0),
    "vskl": mk.MKLClassifier(groups=[[0], [1, 2]]),
    "cskl": mk.CSKLClassifier(t=2),
    "cskl-exact": mk.CSKLClassifier(t=2, exact=True),
    "cskl-cv": mk.CSKLClassifierCV(cv=2),
    "gmkl": mk.GMKLClassifier(),
    "mkfda": mk.MKFDAClassifier(),
    "mkfda-cv": mk.MKFDAClassifierCV(criterion="loo"),
    "multilabel": mk.MultilabelMKLClassifier(),
    "obscure": mk.ObscureClassifier(random_state=0),
    "pegasos": mk.ObscureClassifier(solver="pegasos", random_state=0),
    "sdca": mk.ObscureClassifier(solver="sdca", random_state=0),
    "ufo": mk.UFOMKLClassifier(random_state=0),
    "svrg": mk.SVRGMKLClassifier(random_state=0),
    "lp-beta": mk.LPBetaClassifier(),
    "cg-boost": mk.CGBoostClassifier(),
}
WIDTHS = ("0.25*mean", "mean", "4*mean")
LAZY = 200 << 20


def settings(storage: str, n: int, memory: int) -> dict[str, Any] | None:
    """Kernels and budget that give a storage; None where it does not fit."""
    kernels = [RBF(bandwidth=width) for width in WIDTHS]
    if storage == "explicit":
        return {"kernels": [Nystroem(kernel=kernel, rank=200) for kernel in kernels], "memory": memory}
    if storage == "lazy":
        return {"kernels": kernels, "memory": min(LAZY, 8 * len(kernels) * n**2 - 1)}
    return {"kernels": kernels, "memory": memory} if 8 * len(kernels) * n**2 <= memory else None


def run(name: str, X: np.ndarray, y: np.ndarray, chosen: dict[str, Any], limit: float) -> str:
    """Fit once; a line with what it took and what came of it."""
    model = clone(METHODS[name]).set_params(**chosen, max_time=limit)
    wall, cpu = time.perf_counter(), time.process_time()
    try:
        model.fit(X, y)
        outcome = f"gap {np.max(model.dual_gap_ / np.maximum(np.abs(model.objective_), 1e-300)):.1e}"
    except (TimeoutError, MemoryError, ValueError) as error:
        outcome = f"{type(error).__name__}: {str(error)[:60]}…"
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    verdict = "ok" if wall <= 1.1 * limit + 2.0 else "LATE"
    return f"{wall:7.1f} s {max(wall - limit, 0.0):+7.1f} s  cores {cpu / wall:4.2f}  {verdict:5s} {outcome}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs="+", default=[10_000, 30_000, 90_000])
    parser.add_argument("--storage", nargs="+", default=["dense", "lazy", "explicit"])
    parser.add_argument("--methods", nargs="+", default=list(METHODS), choices=METHODS)
    parser.add_argument("--limit", type=float, default=10.0)
    parser.add_argument("--memory", default="8GB")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    X, y = make_classification(max(options.sizes), 20, n_informative=10, n_classes=3, flip_y=0.1, random_state=0)
    for name in options.methods:
        for storage in options.storage:
            small = settings(storage, 300, 1 << 30 if storage != "lazy" else LAZY)
            clone(METHODS[name]).set_params(**(small or {}), max_iter=3).fit(X[:300], y[:300])  # compile
    for n in options.sizes:
        for storage in options.storage:
            chosen = settings(storage, n, parse_memory(options.memory))
            for name in options.methods:
                found = "does not fit" if chosen is None else run(name, X[:n], y[:n], chosen, options.limit)
                print(f"{n:6d} {storage:8s} {name:10s} {found}", flush=True)


if __name__ == "__main__":
    main()
