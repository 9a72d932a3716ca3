"""Fisher discriminants on several kernels, measured in Cholesky factorisations of the same size.

    python benchmarks/bench_mkfda.py [--cases flower17 simulated-680-39 …] [--p 1 2] [--solvers auto sip] [--grid]

For each case, p and λ: the time from normalised kernels to a relative gap of 1e-4, quadratic forms and certificates
included, divided by that of one Cholesky factorisation of a kernel of that size, measured just before and after. The
goals are 25 for p ≥ 1.25 and 60 for p = 1. ``--grid`` times the paper's grid of 120 points on one split of Flower17,
training on 680 samples, scores on 340, and the last fit on all: at most 60 s on two cores. Medians of wall-clock
times; compilation is off the clock. Flower17 needs MULTIKERNEL_DATA to name its folder and is left out without it.
"""

from __future__ import annotations

import argparse
import time
from functools import partial
from itertools import product

import numpy as np
from scipy.linalg import lapack

from multikernel import MKFDAClassifierCV, datasets
from multikernel.gram import DenseStack
from multikernel.gram.normalization import Normalization
from multikernel.problems.fisher import FisherProblem, fisher_system, fisher_targets
from multikernel.problems.weight_sets import LpBall
from multikernel.runtime.monitor import Monitor
from multikernel.solvers.catalogue import SOLVERS, find_solver
from multikernel.solvers.fisher import solve_fisher

CASES = ("flower17", "simulated-680-39", "simulated-2000-7", "simulated-2000-39")


def flower17(part: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Kernels (F, n, n), classes, and the indices of the first split's training or validation part."""
    with np.load(datasets.data_home() / "flower17_dist.npz") as pack:
        y, triangles, chosen = pack["y"], pack["D_triu"], pack[f"{part}1"]
    D = np.zeros((len(triangles), len(y), len(y)))
    for matrix, triangle in zip(D, triangles):
        matrix[np.triu_indices(len(y), 1)] = triangle
        matrix += matrix.T
    return np.exp(-D / D.mean(axis=(1, 2), keepdims=True)), np.unique(y, return_inverse=True)[1], chosen


def simulated(n: int, n_kernels: int, n_classes: int = 10) -> tuple[np.ndarray, np.ndarray]:
    """RBF kernels on views of 5 columns; half of the views know the classes, the less the later they come."""
    rng = np.random.default_rng(0)
    y = np.arange(n) % n_classes
    centres = rng.normal(size=(n_kernels, n_classes, 5))
    K = np.empty((n_kernels, n, n))
    for j in range(n_kernels):
        X = rng.normal(size=(n, 5)) + max(0.0, 1.0 - 2.0 * j / n_kernels) * centres[j][y]
        squares = (X**2).sum(axis=1)
        D = np.maximum(squares[:, None] + squares - 2.0 * X @ X.T, 0.0)
        D = 0.5 * (D + D.T)
        K[j] = np.exp(-D / D.mean())
    return K, y


def load(case: str) -> tuple[np.ndarray, np.ndarray]:
    if case == "flower17":
        K, y, chosen = flower17("trn")
        return np.ascontiguousarray(K[:, chosen][:, :, chosen]), y[chosen]
    _, n, n_kernels = case.split("-")
    return simulated(int(n), int(n_kernels))


def median_seconds(function, repeats: int) -> float:
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return float(np.median(times))


def cholesky(K: np.ndarray) -> None:
    system = np.array(K)
    system.ravel()[:: len(K) + 1] += 1e-3
    lapack.dpotrf(system.T, lower=1, overwrite_a=1, clean=0)


def fit(stack: DenseStack, y: np.ndarray, p: float, reg: float, solver: str):
    """Solve from nothing; returns the result."""
    problem = FisherProblem(fisher_system(stack, reg, 1 << 34), fisher_targets(y, y.max() + 1), LpBall(p))
    monitor = Monitor(problem, 1e-4)
    solve_fisher(problem, monitor, None, run=find_solver("fisher", solver).run, max_iter=500)
    return monitor.result()


def report(case: str, args: argparse.Namespace) -> None:
    K, y = load(case)
    stack = Normalization(("center", "trace")).fit_apply(DenseStack(K))
    one = stack.combine(np.ones(len(K)))
    fit(stack, y, 2.0, 1e-2, "auto")  # compiles
    for labels, p, reg, solver in product((y, (y == 0).astype(int)), args.p, args.reg, args.solvers):
        unit = median_seconds(partial(cholesky, one), 5)
        seconds = median_seconds(partial(fit, stack, labels, p, reg, solver), args.repeats)
        unit = 0.5 * (unit + median_seconds(partial(cholesky, one), 5))
        result = fit(stack, labels, p, reg, solver)
        what = f"{case:18s} F={len(K):2d} n={len(y)} M={labels.max() + 1:3d} p={p:<8.4g} λ={reg:<6.0e} {solver:12s}"
        cost = f"{seconds / unit:7.1f} Cholesky ({1e3 * seconds:.0f} ms)"
        print(
            f"{what} {cost}, {result.n_iter:3d} iterations, gap {result.certificate.relative_gap:.0e}",
            flush=True,
        )


def report_grid() -> None:
    K, y, train = flower17("trn")
    both = np.concatenate([train, flower17("val")[2]])
    X = np.moveaxis(np.ascontiguousarray(K[:, both][:, :, both]), 0, -1)
    split = [(np.arange(len(train)), np.arange(len(train), len(both)))]
    MKFDAClassifierCV("precomputed", ps=[2.0], regs=[1e-2], cv=split).fit(X, y[both])  # compiles
    start = time.perf_counter()
    model = MKFDAClassifierCV("precomputed", cv=split).fit(X, y[both])
    seconds = time.perf_counter() - start
    gap = model.grid_gaps_.max()
    print(f"grid of {model.scores_.size} points and a last fit: {seconds:.1f} s, largest relative gap {gap:.0e}")
    print(f"chosen: p = {model.p_:.4g}, λ = {model.reg_:.0e}, validation accuracy {model.best_score_:.3f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", nargs="*", default=CASES, help="flower17, or simulated-N-F")
    parser.add_argument("--p", nargs="+", type=float, default=[1.0, 1.25, 2.0, 8.0])
    parser.add_argument("--reg", nargs="+", type=float, default=[1e-6, 1e-2])
    parser.add_argument("--solvers", nargs="+", choices=["auto", *SOLVERS["fisher"]], default=["auto"])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--grid", action="store_true")
    args = parser.parse_args()
    real = datasets.data_home() is not None
    for case in args.cases:
        if case == "flower17" and not real:
            print("flower17: left out, MULTIKERNEL_DATA does not name the folder of the data")
            continue
        report(case, args)
    if args.grid and real:
        report_grid()


if __name__ == "__main__":
    main()
