"""MKL on blocks of rows: time, memory, passes and proved gaps, beside logistic regression on the same features.

    python benchmarks/bench_scale.py [PART …] [--samples N]

Parts are the names below, all by default; each is a process of its own, so that peaks of memory are its own.

flights: 12 Nyström kernels of rank 128 on flights.npz (MULTIKERNEL_DATA), p = 1.5, λ = 1e-3, gap 1e-3; the yardstick
is scikit-learn's LogisticRegression (lbfgs) on the same features, which are off its clock.
million: 10⁶ simulated samples, 40 columns, 12 kernels of rank 128, in memory; budget: the same with memory="2GB" from
a memory map; passes: how they grow from 10⁴ to 10⁶ (``--samples`` is the largest n); dask: two single-threaded
workers against two threads, and bytes a pass.
classes: softmax on LetterRecognition and Shuttle to a gap of 1e-4, by bench_svrg.py, beside docs/models.md's table.
many: 100,000 linear kernels of rank one, 1,000 samples, p = 1 and 2; genes: 20,000 genes and 300 sets of them.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import resource
import subprocess
import sys
import tempfile
import time
from itertools import pairwise
from pathlib import Path

import numpy as np

from multikernel import SVRGMKLClassifier
from multikernel.datasets import data_home
from multikernel.gram.features import FeatureBlocks, FeatureMap
from multikernel.kernels import RBF, KernelFamily, Linear, Nystroem
from multikernel.kernels.sources import ArraySource
from multikernel.problems.losses import LogisticLoss
from multikernel.problems.svrg_features import FeatureProblem
from multikernel.runtime.executors import DaskExecutor

OPTIONS = {"p": 1.5, "lam": 1e-3, "tol": 1e-3}


def report(title: str, model, X, y, **options) -> float:
    """Fit, and print what it took and what is proved."""
    wall, cpu = time.perf_counter(), time.process_time()
    model.set_params(**options).fit(X, y)
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20  # of the process
    row = model.history_[-1]
    print(
        f"{title:42s} {wall:7.1f} s  cpu {cpu:7.1f} s  solver {row['time']:7.1f} s  {row['passes']:3.0f} passes  "
        f"relative gap {model.dual_gap_ / model.objective_:.1e}  kernels {model.n_kernels_}  peak {peak:.2f} GB",
        flush=True,
    )
    return wall


def simulated(n: int) -> tuple[np.ndarray, np.ndarray]:
    """Samples of 40 columns in single precision, and labels that need a few of them."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, 40), dtype=np.float32)
    scores = X[:, 0] * X[:, 1] + np.sin(2 * X[:, 6]) + X[:, 12] + 0.5 * rng.standard_normal(n, dtype=np.float32)
    return X, scores > 0


def grid(width: int = 3) -> list[Nystroem]:
    """Twelve Nyström kernels of rank 128 on three columns each."""
    return [Nystroem(kernel=RBF(), rank=128, columns=slice(width * k, width * k + width)) for k in range(12)]


def flights(samples: int | None) -> None:
    """The flights, and the yardstick."""
    archive = np.load(Path(data_home()) / "flights.npz")
    train = archive["train"][:samples]
    X, y, edges = archive["X"][train], archive["y"][train], archive["offsets"]
    spread = np.nanstd(X, axis=0)
    X = ((X - np.nanmean(X, axis=0)) / np.where(spread > 0, spread, 1)).astype(np.float32)
    views = [slice(int(a), int(b)) for a, b in pairwise(edges)]
    widths = ("mean", "0.25*mean")
    kernels = [Nystroem(kernel=RBF(bandwidth=w), rank=128, columns=v) for v in views for w in widths]
    model = SVRGMKLClassifier(kernels, missing="mask", **OPTIONS)
    report(f"flights, {len(X)} samples", model, X, y)
    size = len(X) * model._n_train * 4 / 2**30
    print(f"features {size:.2f} GB")

    from sklearn.linear_model import LogisticRegression

    features = model._feature_map()(X)
    wall = time.perf_counter()
    yardstick = LogisticRegression(C=1.0 / (1e-3 * len(X)), fit_intercept=False, max_iter=1000).fit(features, y)
    wall = time.perf_counter() - wall
    ratio = model.history_[-1]["time"] / wall
    print(f"yardstick L: {wall:.1f} s, {yardstick.n_iter_[0]} iterations; solver / L = {ratio:.2f}")


def million(samples: int | None) -> None:
    """In memory."""
    report(
        f"simulated, {samples or 10**6} samples", SVRGMKLClassifier(grid(), **OPTIONS), *simulated(samples or 10**6)
    )


def budget(samples: int | None) -> None:
    """From a file, with 2 GB for features."""
    n = samples or 10**6
    with tempfile.TemporaryDirectory() as folder:
        X, y = simulated(n)
        np.save(f"{folder}/X.npy", X)
        del X
        X = np.load(f"{folder}/X.npy", mmap_mode="r")
        report(f"memory map, {n} samples, 2 GB", SVRGMKLClassifier(grid(), memory="2GB", **OPTIONS), X, y)


def passes(samples: int | None) -> None:
    """Passes and seconds against n."""
    sizes = [n for n in (10**4, 10**5, 10**6) if n <= (samples or 10**6)]
    walls = [report(f"passes, {n} samples", SVRGMKLClassifier(grid(), **OPTIONS), *simulated(n)) for n in sizes]
    if len(sizes) > 1:
        print(f"time grows like n^{np.polyfit(np.log(sizes), np.log(walls), 1)[0]:.2f}")


def dask(samples: int | None) -> None:
    """Two workers against two threads."""
    from distributed import Client, LocalCluster

    X, y = simulated(samples or 10**6)
    alone = report(f"two threads, {len(X)} samples", SVRGMKLClassifier(grid(), executor="threads", **OPTIONS), X, y)
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        np.save(f"{folder}/X.npy", X)
        X = np.load(f"{folder}/X.npy", mmap_mode="r")
        cluster = stack.enter_context(LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None))
        client = stack.enter_context(Client(cluster))
        shared = report(f"two workers, {len(X)} samples", SVRGMKLClassifier(grid(), executor=client, **OPTIONS), X, y)
        print(f"workers / threads = {shared / alone:.2f}")
        print(f"a worker sends {sent_in_a_pass(client)} bytes a pass; 4 D M 8 = {4 * 8 * 12 * 128}")


def sent_in_a_pass(client) -> int:
    """Bytes that leave a worker in one pass over 20,000 rows."""
    X, y = simulated(20_000)
    features = FeatureMap(KernelFamily.fit(grid(), X[:5000]), dtype=np.float32)
    data = FeatureBlocks(ArraySource(X), features, DaskExecutor(client))
    problem = FeatureProblem(data, LogisticLoss(np.where(y, 1.0, -1.0)), 1e-3)
    weights, v = problem.start()
    counts = []
    for shift in (0.1, 0.2):
        problem.at(weights, v + shift)
        sent = client.run(lambda dask_worker: dask_worker.transfer_outgoing_bytes_total)
        counts.append(max(sent.values()))
    return counts[1] - counts[0]


def classes(samples: int | None) -> None:
    """Many classes; in a process of its own, which takes its threads from the environment."""
    command = [sys.executable, str(Path(__file__).with_name("bench_svrg.py"))]
    names = [f"--scale={name}" for name in ("LetterRecognition", "Shuttle")]
    subprocess.run([*command, *names], check=True, env={**os.environ, "OMP_NUM_THREADS": str(os.cpu_count())})


def many(samples: int | None) -> None:
    """A kernel for each of 100,000 columns."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((1000, samples or 100_000), dtype=np.float32)
    y = X[:, :20].sum(axis=1) + rng.normal(size=len(X)) > 0
    kernels = [Linear(columns=[k]) for k in range(X.shape[1])]
    for p in (1.0, 2.0):
        report(f"{X.shape[1]} kernels of rank one, p = {p:g}", SVRGMKLClassifier(kernels, p=p, C=1.0, tol=1e-3), X, y)


def genes(samples: int | None) -> None:
    """Genes, and sets of them, as kernels."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((500, 20_000), dtype=np.float32)
    sets = [rng.choice(20_000, 50, replace=False) for _ in range(300)]
    y = X[:, sets[0]].sum(axis=1) / 7 + X[:, 0] + rng.normal(size=len(X)) > 0
    kernels = [Linear(columns=[k]) for k in range(20_000)] + [Linear(columns=s) for s in sets]
    model = SVRGMKLClassifier(kernels, p=1.0, C=1.0, tol=1e-3, normalize="trace")
    report("20,000 genes and 300 sets", model, X, y)


PARTS = {f.__name__: f for f in (flights, million, budget, passes, dask, classes, many, genes)}

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []], default=[])
    parser.add_argument("--samples", type=int)
    given = parser.parse_args()
    if len(given.parts) == 1:
        PARTS[given.parts[0]](given.samples)
    else:
        for part in given.parts or PARTS:
            more = [] if given.samples is None else ["--samples", str(given.samples)]
            subprocess.run([sys.executable, os.path.abspath(__file__), part, *more], check=False)
