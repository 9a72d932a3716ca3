"""Time of the kernels: χ² and intersection on sparse histograms, a grid of RBF bandwidths, χ² on dense histograms.

Each line compares with scikit-learn's function for the same values, checks the difference, and gives the ratio
of the medians. Compilation is off the clock. The reference for histograms takes minutes: by default it is timed on
the first 200 rows against all samples and scaled up (its time is proportional to the rows); --full runs all of it.
Real histograms are used where MULTIKERNEL_DATA names their folder, simulated ones of the same size and density
otherwise.

    python benchmarks/bench_kernels.py [--samples 3060] [--repeat 5] [--full]
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import numpy as np
from sklearn.base import clone
from sklearn.metrics import pairwise as sklearn_pairwise

from multikernel.datasets import data_home
from multikernel.kernels import RBF, ChiSquared, HistogramIntersection, KernelFamily, Laplacian
from multikernel.kernels.histograms import pooled


def sift_histograms(n_samples: int) -> np.ndarray:
    """The 4 × 4 level of the Caltech SIFT view, (n, 4800) float32, 7 % of it non-zero; or simulated."""
    folder = data_home()
    if folder is not None and (folder / "caltech102_views.npz").exists():
        counts = np.load(folder / "caltech102_views.npz")["sift"].astype(np.float32)
        counts = counts.reshape(len(counts), -1)[:n_samples]
    else:
        rng = np.random.default_rng(0)
        popularity = rng.gamma(2.0, size=4800)
        counts = rng.poisson(0.07 * popularity / popularity.mean(), size=(n_samples, 4800)).astype(np.float32)
        counts[:, 0] += 1
    return counts / counts.sum(axis=1, keepdims=True)


def median_time(function: Callable[[], np.ndarray], repeat: int) -> tuple[float, np.ndarray]:
    times = []
    for _ in range(repeat):
        start = time.perf_counter()
        result = function()
        times.append(time.perf_counter() - start)
    return float(np.median(times)), result


class Table:
    """Prints one comparison a line."""

    def __init__(self, repeat: int, reference_rows: int) -> None:
        self.repeat, self.reference_rows = repeat, reference_rows
        print(f"{'':<52}{'multikernel':>11}{'reference':>12}{'ratio':>10}")

    def line(self, name: str, ours: Callable[[], np.ndarray], theirs: Callable[[int], np.ndarray]) -> None:
        """``ours()`` makes the whole matrix (..., n, n), ``theirs(rows)`` its first rows."""
        our_time, result = median_time(ours, self.repeat)
        rows = min(self.reference_rows, result.shape[-2])
        part_time, expected = median_time(lambda: theirs(rows), 3 if rows < result.shape[-2] else 1)
        their_time = part_time * result.shape[-2] / rows
        difference = float(np.abs(result[..., :rows, :] - expected).max())
        print(
            f"{name:<52}{our_time:>9.3f} s{their_time:>10.3f} s{their_time / our_time:>9.1f}x"
            f"   difference {difference:.1e}",
            flush=True,
        )


def chi2(A: np.ndarray, B: np.ndarray) -> np.ndarray:
    return np.exp(0.5 * sklearn_pairwise.additive_chi2_kernel(A, B))


def minima(A: np.ndarray, B: np.ndarray) -> np.ndarray:
    return np.stack([np.minimum(a, B).sum(axis=1) for a in A])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--samples", type=int, default=3060)
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--full", action="store_true", help="time the references on all rows")
    options = parser.parse_args()
    X = sift_histograms(options.samples)
    dense = np.ascontiguousarray(pooled(X, 4, 1))
    points = np.random.default_rng(0).normal(size=(options.samples, 50))
    bandwidths = [50.0, 100.0, 200.0, 400.0]
    chi2_kernel = ChiSquared(bandwidth=1.0, normalize=False)
    intersection = HistogramIntersection(normalize=False)
    laplacian = Laplacian(bandwidth=1.0)
    grid = KernelFamily.fit([RBF(bandwidth=b) for b in bandwidths], points)
    for data in (X[:40], dense[:40]):  # compile
        KernelFamily.fit([chi2_kernel, intersection, laplacian], data).evaluate(data)
    grid.evaluate(points[:40])

    source = "simulated" if data_home() is None else "Caltech SIFT"
    print(f"{source}: {len(X)} samples; histograms of {X.shape[1]} bins, {np.mean(X > 0):.1%} non-zero")
    table = Table(options.repeat, len(X) if options.full else 200)
    table.line("chi2, sparse histograms, float32", lambda: chi2_kernel(X), lambda rows: chi2(X[:rows], X))
    with_mean = ChiSquared(normalize=False)
    width = clone(with_mean).fit(X).bandwidth_
    table.line(
        "  with the mean distance as the bandwidth",
        lambda: with_mean(X),
        lambda rows: chi2(X[:rows], X) ** (1 / width),
    )
    table.line("chi2, 300 bins, mostly filled, float32", lambda: chi2_kernel(dense), lambda r: chi2(dense[:r], dense))
    table.line(
        "laplacian, 300 bins, mostly filled, float32",
        lambda: laplacian(dense),
        lambda rows: sklearn_pairwise.laplacian_kernel(dense[:rows], dense, gamma=1.0),
    )
    table.line(
        "intersection, sparse (reference: NumPy by rows)", lambda: intersection(X), lambda rows: minima(X[:rows], X)
    )
    table = Table(options.repeat, len(X))
    table.line(
        "4 RBF bandwidths, 50 columns, float64",
        lambda: grid.evaluate(points),
        lambda rows: np.stack([sklearn_pairwise.rbf_kernel(points, gamma=1 / b) for b in bandwidths]),
    )


if __name__ == "__main__":
    main()
