"""CSKL: a fit against MKL with p = 1, the path over t against a fit, and how exact selection scales.

    python benchmarks/bench_cskl.py [--n 300] [--kernels 20] [--repeats 5] [--exact 12 20 30] [--t 4 8]

Kernels are RBFs on random pairs of the columns of breast cancer (scikit-learn's copy), at widths 1/4, 1 and 4 times
the mean distance in turn, C = 10. Times are medians of wall-clock times; compilation is off the clock. Goals: a fit
within 2 times that of MKL with p = 1 at the same tolerance, the path over all t within 5 fits, a proof for 20 kernels
and 300 samples within seconds and for 30 kernels within minutes.
"""

from __future__ import annotations

import argparse
import time
import warnings

import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.exceptions import ConvergenceWarning

from multikernel import CSKLClassifier, MKLClassifier, cskl_path
from multikernel.gram import DenseStack
from multikernel.solvers.capped import CAPPED_SOLVERS


def kernels(n: int, n_kernels: int) -> tuple[DenseStack, np.ndarray]:
    """Kernels on pairs of columns, and labels, of n samples."""
    X, y = load_breast_cancer(return_X_y=True)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    rng = np.random.default_rng(0)
    chosen = rng.permutation(len(y))[:n]
    K = np.empty((n_kernels, n, n))
    for j in range(n_kernels):
        part = X[chosen][:, rng.choice(X.shape[1], 2, replace=False)]
        D = ((part[:, None] - part[None]) ** 2).sum(axis=2)
        K[j] = np.exp(-D / (D.mean() * (0.25, 1.0, 4.0)[j % 3]))
    return DenseStack(K), y[chosen]


def median_seconds(function, repeats: int) -> float:
    """Median time of a call."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return float(np.median(times))


def report_relaxed(args: argparse.Namespace) -> None:
    stack, y = kernels(args.n, args.kernels)
    unit = median_seconds(lambda: MKLClassifier("precomputed", C=10.0).fit(stack, y), args.repeats)
    print(f"MKL, p = 1, F={args.kernels} n={args.n}: {1e3 * unit:.0f} ms")
    for t in (1, *args.t, args.kernels / 2, args.kernels):
        for solver in [name for name in CAPPED_SOLVERS if name != "auto"]:
            model = CSKLClassifier("precomputed", t=t, C=10.0, solver=solver)
            seconds = median_seconds(lambda model=model: model.fit(stack, y), args.repeats)
            print(
                f"t={t:<4g} {solver:16s} {seconds / unit:6.2f} of MKL, {model.n_iter_:3d} iterations, "
                f"objective {model.objective_:.4f}, kernels {model.n_kernels_:2d}, "
                f"of them at 1: {int((model.weights_ == 1.0).sum())}",
                flush=True,
            )
    one = median_seconds(lambda: CSKLClassifier("precomputed", t=4, C=10.0).fit(stack, y), args.repeats)
    path = median_seconds(lambda: cskl_path(CSKLClassifier("precomputed", C=10.0), stack, y), args.repeats)
    print(f"path over {args.kernels} values of t: {path / one:.1f} fits with t = 4 ({path / unit:.1f} of MKL)")


def report_exact(args: argparse.Namespace) -> None:
    for n_kernels in args.exact:
        stack, y = kernels(args.n, n_kernels)
        for t in args.t:
            model = CSKLClassifier("precomputed", t=t, C=10.0, exact=True, max_time=args.max_time, max_iter=10**6)
            relaxed = CSKLClassifier("precomputed", t=t, C=10.0).fit(stack, y)
            start = time.perf_counter()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)
                model.fit(stack, y)
            found = next(row for row in model.history_ if row["objective"] <= model.objective_ * (1.0 + 1e-9))
            print(
                f"exactly {t} of {n_kernels}: {time.perf_counter() - start:6.1f} s, {model.n_iter_} SVMs, "
                f"objective {model.objective_:.3f} (relaxed {relaxed.objective_:.3f}), found after "
                f"{found['time']:.2f} s, relative gap {model.selection_gap_ / model.objective_:.1e}",
                flush=True,
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--n", type=int, default=300)
    parser.add_argument("--kernels", type=int, default=20)
    parser.add_argument("--t", nargs="+", type=int, default=[4, 8])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--exact", nargs="*", type=int, default=[12, 20, 30])
    parser.add_argument("--max-time", type=float, default=60.0)
    args = parser.parse_args()
    stack, y = kernels(50, 3)
    CSKLClassifier("precomputed", t=2).fit(stack, y)  # compiles
    report_relaxed(args)
    report_exact(args)


if __name__ == "__main__":
    main()
