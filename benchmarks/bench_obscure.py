"""OBSCURE and dual coordinate ascent on mfeat_18kernels, and what a step of the score table costs.

    python benchmarks/bench_obscure.py [--repeats 3]

18 kernels, 1,000 samples, 10 classes, C = 10. The goals of "obscure" are what the authors' MATLAB code reached in 300
epochs under Octave (36.7 CPU seconds at p = 1.05, 36.3 at p = 4/3); "sdca" has to prove a relative gap of 1e-3. U is
one-vs-rest SVC on the average kernel in the same run. "clock" leaves out certificates, "wall" and "CPU" include them;
medians, one core unless OMP_NUM_THREADS says otherwise; compilation is off the clock. Needs MULTIKERNEL_DATA.
"""

from __future__ import annotations

import argparse
import os
import time
from functools import partial

# One core unless told otherwise; it has to be said before NumPy is imported.
for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(name, "1")

import numpy as np  # noqa: E402
from sklearn.svm import SVC  # noqa: E402

from multikernel import datasets  # noqa: E402
from multikernel.gram import DenseStack  # noqa: E402
from multikernel.problems.obscure import MulticlassHinge, ObscureProblem  # noqa: E402
from multikernel.runtime.monitor import Monitor  # noqa: E402
from multikernel.solvers.obscure.obscure import ScoreTable, obscure  # noqa: E402
from multikernel.solvers.obscure.sdca import sdca  # noqa: E402
from multikernel.solvers.printed.obscure import pegasos  # noqa: E402
from multikernel.solvers.ufo import ufo  # noqa: E402

GOALS = {1.05: 0.00658, 4 / 3: 0.00301}
C = 10.0


def load() -> tuple[np.ndarray, np.ndarray]:
    """The 18 kernels (F, n, n) and the classes."""
    with np.load(datasets.data_home() / "mfeat_18kernels.npz") as archive:
        data = {name: archive[name] for name in ("Xtr", "ytr", "mask", "g", "scale")}
    kernels = []
    for mask, g, scale in zip(data["mask"], data["g"], data["scale"]):
        X = data["Xtr"][:, mask].astype(float)
        squares = (X**2).sum(axis=1)
        D = np.maximum(squares[:, None] + squares - 2.0 * X @ X.T, 0.0)
        kernels.append(scale * np.exp(-g * 0.5 * (D + D.T)))
    return np.stack(kernels), np.unique(data["ytr"], return_inverse=True)[1]


def timed(function, repeats: int) -> tuple[float, float, object]:
    """Median wall and CPU seconds, and the last result."""
    walls, cpus, result = [], [], None
    for _ in range(repeats):
        wall, cpu = time.perf_counter(), time.process_time()
        result = function()
        walls.append(time.perf_counter() - wall)
        cpus.append(time.process_time() - cpu)
    return float(np.median(walls)), float(np.median(cpus)), result


def run(solve, problem: ObscureProblem, tol: float, goal: float, max_iter: int) -> Monitor:
    """Solve until the gap is ``tol`` or the objective at most ``goal``."""
    monitor = Monitor(problem, tol, on_record=lambda row, _: row["objective"] <= goal)
    solve(problem, monitor, None, max_iter=max_iter, random_state=0)
    return monitor


def bench_solvers(K: np.ndarray, y: np.ndarray, repeats: int) -> None:
    mean = K.mean(axis=0)
    wall, U, _ = timed(lambda: [SVC(kernel="precomputed", C=C).fit(mean, y == r) for r in range(10)], repeats)
    print(f"U, one-vs-rest SVC on the average kernel: {U:.3f} s CPU, {wall:.3f} s wall")
    columns = ("epochs", "objective", "gap", "clock", "CPU", "wall", "CPU/U")
    print(f"{'p':>6s} {'solver':10s}" + "".join(f"{column:>10s}" for column in columns))
    for p, goal in GOALS.items():
        problem = ObscureProblem(DenseStack(K), MulticlassHinge(y, 10), 1.0 / (C * len(y)), p)
        for solve in (obscure, pegasos, ufo, sdca):
            target, epochs = (-1.0, 200) if solve is sdca else (goal, 2000)
            wall, cpu, monitor = timed(partial(run, solve, problem, 1e-3, target, epochs), repeats)
            row = monitor.history[-1]
            epochs = row.get("epoch", len(monitor.history))
            print(
                f"{p:6.3f} {solve.__name__:10s}{epochs:10d}{row['objective']:10.6f}{row['relative_gap']:10.1e}"
                f"{monitor.elapsed:10.3f}{cpu:10.3f}{wall:10.3f}{cpu / U:10.1f}",
                flush=True,
            )


def bench_steps(K: np.ndarray, y: np.ndarray) -> None:
    """Seconds of an update and of a step without one, beside the bytes that an update touches and a copy's speed."""
    source = np.ones(1 << 25)
    target = np.empty_like(source)
    seconds = min(timed(lambda: np.copyto(target, source), 1)[0] for _ in range(5))
    bandwidth = 2 * source.nbytes / seconds
    print(f"memory: a copy moves {bandwidth / 1e9:.1f} GB/s")
    for dtype in (np.float64, np.float32):
        kernels = K.astype(dtype)
        for copies in (1, 4):  # four times as many samples: out of the cache
            n = len(y) * copies
            stack = np.tile(kernels[:, :200], (1, 1, copies))
            problem = ObscureProblem(DenseStack(K), MulticlassHinge(y, 10), 1.0, 1.25)
            state = ScoreTable(problem)
            state.table = np.zeros((len(K), 10, n))
            state.kernels.rows = np.ascontiguousarray(stack)
            state.kernels.slot[:] = np.arange(len(y)) % 200
            state.online(np.arange(200), 1e-9)  # steps so small that every one is an update
            order = np.tile(np.arange(200), 5)
            update = timed(lambda: state.online(order, 1e-9), 3)[0] / len(order)  # noqa: B023
            touched = len(K) * n * (np.dtype(dtype).itemsize + 32)
            state.table[:] = 0.0
            state.table[:, y, np.arange(len(y))] = 1e6
            still = timed(lambda: state.online(order, 1e-9), 3)[0] / len(order)  # noqa: B023
            print(
                f"{np.dtype(dtype).name}, n = {n}: an update takes {1e6 * update:.0f} µs for {touched / 1e6:.2f} MB, "
                f"{touched / update / 1e9:.1f} GB/s, {touched / update / bandwidth:.2f} of a copy; "
                f"a step whose margin holds takes {1e6 * still:.2f} µs"
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=3)
    repeats = parser.parse_args().repeats
    if datasets.data_home() is None:
        raise SystemExit("MULTIKERNEL_DATA does not name the folder of the data")
    K, y = load()
    small = np.arange(0, len(y), 20)
    few = ObscureProblem(
        DenseStack(K[:, small][:, :, small].copy()), MulticlassHinge(y[small], 10), 1.0 / (C * len(small)), 1.25
    )
    for solve in (obscure, pegasos, ufo, sdca):  # compile
        run(solve, few, 1e-3, -1.0, 5)
    bench_solvers(K, y, repeats)
    bench_steps(K, y)


if __name__ == "__main__":
    main()
