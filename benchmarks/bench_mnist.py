"""OBSCURE on MNIST in quadrants, 4 x {linear, polynomial, RBF} = 12 kernels: error, time, memory against n.

    python benchmarks/bench_mnist.py [--sizes 1000 2000 5000] [--epochs 8] [--memory 3GB] [--p 1.25] [--C 10]
    python benchmarks/bench_mnist.py --sizes 1000 2000 5000 10000 60000

Each size runs in a process of its own, so that its peak memory is its own. Kernels that fit in ``--memory`` are
stored, others are computed when a sample needs its row; ``storage`` says which. Time is that of ``fit`` with
compilation off the clock, and what of it went into computing rows and into the certificate; the slope is that of log
time against log n. The test error is on all 10,000 test digits. Needs MULTIKERNEL_DATA.
"""

from __future__ import annotations

import argparse
import functools
import json
import resource
import subprocess
import sys
import time
import warnings

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from multikernel import ObscureClassifier, datasets
from multikernel.gram import KernelRows
from multikernel.kernels import RBF, Linear, Polynomial
from multikernel.solvers.obscure.obscure import Search


def quadrants() -> list[list[int]]:
    """Columns of the four 14 x 14 blocks of a 28 x 28 image."""
    pixels = np.arange(784).reshape(28, 28)
    return [pixels[a : a + 14, b : b + 14].ravel().tolist() for a in (0, 14) for b in (0, 14)]


def kernels() -> list:
    """Three kernels a quadrant; the bandwidth of each RBF is the mean distance."""
    return [
        kernel
        for k, columns in enumerate(quadrants())
        for kernel in (
            Linear(columns=columns, name=f"linear {k}"),
            Polynomial(degree=2, columns=columns, name=f"polynomial {k}"),
            RBF(columns=columns, name=f"rbf {k}"),
        )
    ]


def load() -> tuple[np.ndarray, ...]:
    """Training and test digits as float32 in [0, 1], training samples in random order."""
    with np.load(datasets.data_home() / "mnist.npz") as archive:
        arrays = {name.lower(): archive[name] for name in archive}
    names = [("xtr", "ytr", "xte", "yte"), ("x_train", "y_train", "x_test", "y_test")]
    X, y, Xt, yt = next([arrays[n] for n in four] for four in names if all(n in arrays for n in four))
    order = np.random.default_rng(0).permutation(len(X))
    flat = lambda A: A.reshape(len(A), -1).astype(np.float32) / 255.0  # noqa: E731
    return flat(X[order]), y[order].astype(int), flat(Xt), yt.astype(int)


class Clock:
    """Seconds spent in a method of a class from now on."""

    def __init__(self, owner: type, name: str) -> None:
        self.seconds = 0.0
        method = getattr(owner, name)

        @functools.wraps(method)
        def timed(*args, **kwargs):
            start = time.perf_counter()
            try:
                return method(*args, **kwargs)
            finally:
                self.seconds += time.perf_counter() - start

        setattr(owner, name, timed)


def one_size(n: int, options: argparse.Namespace) -> dict:
    """Fit on n samples and test."""
    X, y, Xt, yt = load()
    make = lambda epochs: ObscureClassifier(  # noqa: E731
        kernels(), p=options.p, C=options.C, tol=1e-3, max_iter=epochs, normalize="cosine",
        memory=options.memory, random_state=0, psd="ignore",
    )  # fmt: skip
    warnings.simplefilter("ignore", ConvergenceWarning)
    make(4).fit(X[:200], y[:200]).predict(Xt[:50])  # compile
    make(2).set_params(memory="1MB").fit(X[:300], y[:300])  # what is computed on the fly, too
    rows, proof = Clock(KernelRows, "load"), Clock(Search, "report")
    start = time.perf_counter()
    model = make(options.epochs).fit(X[:n], y[:n])
    seconds = time.perf_counter() - start
    rows_seconds, proof_seconds = rows.seconds, proof.seconds
    start = time.perf_counter()
    error = 1.0 - model.score(Xt, yt)
    last = model.history_[-1]
    stored = 12 * 4 * n * n <= model_memory(options.memory)
    return {
        "n": n, "storage": "dense" if stored else "lazy", "seconds": seconds, "epochs": model.n_iter_,
        "error": error, "predict": time.perf_counter() - start, "objective": model.objective_,
        "gap": model.dual_gap_ / model.objective_, "updates": last["updates"], "support": len(model.support_),
        "solver": last["time"], "rows": rows_seconds, "proof": proof_seconds,
        "peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6,
    }  # fmt: skip


def model_memory(memory: str) -> int:
    from multikernel.gram import parse_memory

    return parse_memory(memory)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", type=int, nargs="+", default=[1000, 2000, 5000])
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--memory", default="3GB")
    parser.add_argument("--p", type=float, default=1.25)
    parser.add_argument("--C", type=float, default=10.0)
    parser.add_argument("--one", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if datasets.data_home() is None:
        raise SystemExit("MULTIKERNEL_DATA does not name the folder of the data")
    if options.one is not None:
        print(json.dumps(one_size(options.one, options)))
        return
    rows = []
    for n in options.sizes:
        given = ["--epochs", options.epochs, "--memory", options.memory, "--p", options.p, "--C", options.C]
        command = [sys.executable, __file__, "--one", str(n), *map(str, given)]
        row = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)
        rows.append(row)
        print(
            f"n = {n:6d} {row['storage']:6s} fit {row['seconds']:7.1f} s (steps {row['solver']:6.1f} s, "
            f"{row['epochs']} epochs, {row['updates']} updates; rows {row['rows']:.1f} s, certificate "
            f"{row['proof']:.1f} s)  test error {100 * row['error']:.2f} %  "
            f"gap {row['gap']:.1e}  {row['support']} support vectors  peak {row['peak']:.2f} GB",
            flush=True,
        )
    if len(rows) > 1:
        slope = np.polyfit(np.log([r["n"] for r in rows]), np.log([r["seconds"] for r in rows]), 1)[0]
        print(f"time grows like n^{slope:.2f}")


if __name__ == "__main__":
    main()
