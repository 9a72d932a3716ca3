"""Gram stacks at memory speed: combine and quadratic_forms beside a plain pass over the same bytes.

    python benchmarks/bench_gram.py [--samples 3000] [--kernels 20] [--repeats 7]

The yardstick is one pass of np.add over the stack on all cores (threads over slices, result into a buffer of one
kernel's size), which reads the same bytes and does nothing else. Medians and ratios; compilation is off the clock.
"""

from __future__ import annotations

import argparse
import time

import numpy as np

from multikernel.gram import DenseStack
from multikernel.runtime.clock import over_rows


def median_seconds(function, repeats: int) -> float:
    function()
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return float(np.median(times))


def plain_pass(array: np.ndarray) -> None:
    buffer = np.zeros(array.shape[1:], dtype=array.dtype)

    def add(start: int, stop: int) -> None:
        for matrix in array:
            np.add(buffer[start:stop], matrix[start:stop], out=buffer[start:stop])

    over_rows(add, array.shape[1])


def cases(array: np.ndarray) -> dict:
    """Name -> function to time."""
    n_kernels, n = array.shape[:2]
    generator = np.random.default_rng(1)
    stack = DenseStack(array)
    order = generator.permutation(n)
    view = stack[np.ix_(order, order)]
    weights = np.full(n_kernels, 1.0 / n_kernels)
    sparse_weights = np.where(np.arange(n_kernels) % 4 == 0, weights, 0.0)
    alpha = generator.normal(size=n)
    support = np.where(generator.random(n) < 0.2, alpha, 0.0)
    return {
        "np.add pass": lambda: plain_pass(array),
        "combine": lambda: stack.combine(weights),
        "combine, a quarter of the weights": lambda: stack.combine(sparse_weights),
        "combine, shuffled view": lambda: view.combine(weights),
        "quadratic_forms": lambda: stack.quadratic_forms(alpha),
        "quadratic_forms, 20 % support vectors": lambda: stack.quadratic_forms(support),
        "apply": lambda: stack.apply(alpha),
        "apply, 20 % support vectors": lambda: stack.apply(support),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--samples", type=int, default=3000)
    parser.add_argument("--kernels", type=int, default=20)
    parser.add_argument("--repeats", type=int, default=7)
    options = parser.parse_args()
    print(f"{options.kernels} kernels, n = {options.samples}; ratio to one np.add pass over the same bytes")
    print(f"{'precision':>9} {'operation':<38} {'median s':>9} {'GB/s':>6} {'ratio':>6}")
    for dtype in (np.float32, np.float64):
        half = np.random.default_rng(0).normal(size=(options.samples, options.samples)).astype(dtype)
        array = np.stack([(half + half.T) * dtype(k + 1) for k in range(options.kernels)])
        seconds = {name: median_seconds(case, options.repeats) for name, case in cases(array).items()}
        for name, value in seconds.items():
            ratio = value / seconds["np.add pass"]
            print(f"{np.dtype(dtype).name:>9} {name:<38} {value:9.4f} {array.nbytes / value / 1e9:6.1f} {ratio:6.2f}")


if __name__ == "__main__":
    main()
