"""CSKL: a fit against MKL with p = 1, the path over t against a fit, and how exact selection scales.

    python benchmarks/bench_cskl.py [--data cancer] [--n 300] [--kernels 20] [--exact 12 20 30] [--t 4 8]

Kernels are RBFs on random pairs of the columns of a data set of scikit-learn's (breast cancer, or digits, odd against
even), at widths 1/4, 1 and 4 times the mean distance in turn, C = 10. Times are medians of processor times, so that
other work on the machine counts little; compilation is off the clock. Goals: a fit within 2 times that of MKL with
p = 1 at the same tolerance, the path over all t within 5 fits, a proof for 20 kernels and 300 samples within seconds
and for 30 kernels within minutes.
"""

from __future__ import annotations

import argparse
import time
import warnings

import numpy as np
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.exceptions import ConvergenceWarning

from multikernel import CSKLClassifier, MKLClassifier, cskl_path
from multikernel.gram import gram_stack
from multikernel.kernels import RBF
from multikernel.solvers.catalogue import SOLVERS


def samples(data: str, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Standardised columns and labels of n random samples."""
    X, y = load_breast_cancer(return_X_y=True) if data == "cancer" else load_digits(return_X_y=True)
    y = y if data == "cancer" else y % 2
    chosen = np.random.default_rng(0).permutation(len(y))[:n]
    X = X[chosen][:, X[chosen].std(axis=0) > 0]
    return (X - X.mean(axis=0)) / X.std(axis=0), y[chosen]


def kernels(X: np.ndarray, n_kernels: int) -> list[RBF]:
    """Kernels on pairs of columns."""
    rng, widths = np.random.default_rng(1), ("0.25*mean", "mean", "4*mean")
    pairs = [rng.choice(X.shape[1], 2, replace=False).tolist() for _ in range(n_kernels)]
    return [RBF(bandwidth=widths[j % 3], columns=pair) for j, pair in enumerate(pairs)]


def median_seconds(function, repeats: int) -> float:
    """Median processor time of a call."""
    times = []
    for _ in range(repeats):
        start = time.process_time()
        function()
        times.append(time.process_time() - start)
    return float(np.median(times))


def report_solvers(args: argparse.Namespace, stack, y) -> None:
    unit = median_seconds(lambda: MKLClassifier("precomputed", C=10.0).fit(stack, y), args.repeats)
    print(f"MKL, p = 1, F={args.kernels} n={args.n}: {1e3 * unit:.0f} ms")
    for t in (1, *args.t, args.kernels / 2, args.kernels):
        for solver in SOLVERS["cskl"]:
            model = CSKLClassifier("precomputed", t=t, C=10.0, solver=solver)
            seconds = median_seconds(lambda model=model: model.fit(stack, y), args.repeats)
            print(
                f"t={t:<4g} {solver:16s} {seconds / unit:6.2f} of MKL, {model.n_iter_:3d} iterations, "
                f"objective {model.objective_:.4f}, kernels {model.n_kernels_:2d}, "
                f"of them at 1: {int((model.weights_ == 1.0).sum())}",
                flush=True,
            )


def report_paths(args: argparse.Namespace, X, chosen, stack, y) -> None:
    """A fit against MKL, and the path against a fit, for features, an array of kernels, and a stack of them."""
    array = np.moveaxis(stack.to_array(), 0, -1)
    for title, given, data in (
        ("features", chosen, X),
        ("array", "precomputed", array),
        ("stack", "precomputed", stack),
    ):
        mkl = median_seconds(lambda g=given, d=data: MKLClassifier(g, C=10.0).fit(d, y), args.repeats)
        fits = [
            median_seconds(lambda g=given, d=data, t=t: CSKLClassifier(g, t=t, C=10.0).fit(d, y), args.repeats)
            for t in (1, 2, 4, args.kernels // 2, 3 * args.kernels // 4)
        ]
        path = median_seconds(lambda g=given, d=data: cskl_path(CSKLClassifier(g, C=10.0), d, y), args.repeats)
        fit = float(np.median(fits))
        print(
            f"{title:8s} MKL {1e3 * mkl:5.0f} ms, fit {1e3 * fit:5.0f} ms ({fit / mkl:.2f} of MKL, at most "
            f"{max(fits) / mkl:.2f}), path {1e3 * path:5.0f} ms: {path / fit:.1f} fits",
            flush=True,
        )


def report_exact(args: argparse.Namespace) -> None:
    for n_kernels in args.exact:
        X, y = samples(args.data, args.n)
        stack = gram_stack(X, kernels(X, n_kernels))
        for t in [t for t in args.t if t < n_kernels]:
            model = CSKLClassifier("precomputed", t=t, C=10.0, exact=True, max_time=args.max_time, max_iter=10**6)
            relaxed = CSKLClassifier("precomputed", t=t, C=10.0).fit(stack, y)
            start = time.process_time()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)
                model.fit(stack, y)
            branches = model.history_[-1].get("branches", 0)
            found = next(row for row in model.history_ if row["objective"] <= model.objective_ * (1.0 + 1e-9))
            print(
                f"exactly {t} of {n_kernels}: {time.process_time() - start:6.1f} s, {branches} branches, "
                f"objective {model.objective_:.3f} (relaxed {relaxed.objective_:.3f}), found after "
                f"{found['time']:.2f} s, relative gap {model.selection_gap_ / model.objective_:.1e}",
                flush=True,
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", choices=["cancer", "digits"], default="cancer")
    parser.add_argument("--n", type=int, default=300)
    parser.add_argument("--kernels", type=int, default=20)
    parser.add_argument("--t", nargs="*", type=int, default=[4, 8])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--exact", nargs="*", type=int, default=[12, 20, 30])
    parser.add_argument("--max-time", type=float, default=60.0)
    parser.add_argument("--no-solvers", action="store_true", help="leave out the comparison of solvers")
    parser.add_argument("--no-paths", action="store_true", help="leave out paths")
    args = parser.parse_args()
    X, y = samples(args.data, args.n)
    chosen = kernels(X, args.kernels)
    stack = gram_stack(X, chosen)
    for exact in (False, True):  # compiles
        CSKLClassifier("precomputed", t=2, exact=exact).fit(stack.take(kernels=[0, 1, 2, 3]), y)
    if not args.no_solvers:
        report_solvers(args, stack, y)
    if not args.no_paths:
        report_paths(args, X, chosen, stack, y)
    report_exact(args)


if __name__ == "__main__":
    main()
