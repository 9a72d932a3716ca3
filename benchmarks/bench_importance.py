"""What importance by permutation costs: predictions of the training set for each repeat and view.

    python benchmarks/bench_importance.py [--samples 2000] [--views 20] [--repeats 10] [--methods mkl classes product]

Simulated views of five columns, three of which know the class, an RBF kernel on each; importance on the training
samples, 99 random orders a view for the p-values included. "classes" has ten classes; "product" multiplies kernels,
so that entries are permuted and not what they add to scores. Processor time; the ratio must stay below 2.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import multikernel as mk
from multikernel.inspection import view_importance
from multikernel.kernels import RBF

WIDTH = 5
METHODS: dict[str, tuple[Any, int]] = {
    "mkl": (mk.MKLClassifier(p=2.0), 2),
    "classes": (mk.MKLClassifier(p=2.0), 10),
    "product": (mk.GMKLClassifier(combination="product", max_iter=20), 2),
}


def seconds(function: Callable[[], Any]) -> float:
    """Processor time of a call."""
    start = time.process_time()
    function()
    return time.process_time() - start


def main() -> None:
    """Fit, predict, permute; print a line for each method."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--samples", type=int, default=2000)
    parser.add_argument("--views", type=int, default=20)
    parser.add_argument("--repeats", type=int, default=10)
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    options = parser.parse_args()
    n, views, repeats = options.samples, options.views, options.repeats
    kernels = [RBF(columns=slice(WIDTH * k, WIDTH * (k + 1)), name=f"view {k}") for k in range(views)]
    print(f"{'method':<10} {'predict':>9} {'importance':>11} {'predictions per repeat and view':>32}")
    for name in options.methods:
        model, n_classes = METHODS[name]
        rng = np.random.default_rng(0)
        X, y = rng.normal(size=(n, WIDTH * views)), np.arange(n) % n_classes
        X[:, : 3 * WIDTH] += 0.4 * (y[:, None] % 2) + 0.1 * y[:, None]
        model.set_params(kernels=kernels, memory="4GB").fit(X, y).predict(X)  # compiled, off the clock
        predict = seconds(lambda: model.predict(X))  # noqa: B023 (called at once)
        spent = seconds(lambda: view_importance(model, X, y, n_repeats=repeats, random_state=0))  # noqa: B023
        ratio = spent / predict / repeats / views
        print(f"{name:<10} {predict:>7.2f} s {spent:>9.2f} s {ratio:>32.3f}", flush=True)


if __name__ == "__main__":
    main()
