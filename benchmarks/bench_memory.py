"""Peak memory of a fit under a budget: 20 kernels, n = 20,000, memory="2GB".

    python benchmarks/bench_memory.py [--samples 20000] [--kernels 20] [--memory 2GB] [--features 20] [--mkl]

Prints the storage chosen, the seconds, and the peak resident memory of the process beyond what it had when the
imports and the data were in place. Dense float32 kernels would take 32 GB. With --mkl, MKLClassifier (p = 1, 10
kernels, each on its own columns or all, relative gap 1e-2) is fitted instead.
"""

from __future__ import annotations

import argparse
import resource
import time

import numpy as np

from multikernel import MKLClassifier
from multikernel.gram import WeightedSum, gram_stack, one_kernel, parse_memory
from multikernel.kernels import RBF, KernelFamily
from multikernel.svm.binary import CSVM


def peak_bytes() -> int:
    """Largest resident size so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def show(row: dict) -> None:
    """Print a line for each outer iteration."""
    print(f"  {row['time']:7.1f} s   objective {row['objective']:.5g}   gap {row['relative_gap']:.1e}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--samples", type=int, default=20_000)
    parser.add_argument("--kernels", type=int, default=20)
    parser.add_argument("--features", type=int, default=20)
    parser.add_argument("--memory", default="2GB")
    parser.add_argument("--mkl", action="store_true")
    options = parser.parse_args()
    generator = np.random.default_rng(0)
    X = generator.normal(size=(options.samples, options.features)).astype(np.float32)
    y = np.sign(np.abs(X[:, :3]).sum(axis=1) - 2.4 + 0.3 * generator.normal(size=options.samples))
    budget = parse_memory(options.memory)
    small = KernelFamily.fit([RBF()], X[:500])
    CSVM(y[:500]).solve(small.evaluate(X[:500])[0], tol=1e-2)  # compile off the books
    before = peak_bytes()

    def report(what: str, start: float) -> None:
        extra = peak_bytes() - before
        print(f"{what:<46} {time.perf_counter() - start:8.1f} s   peak {extra / 2**30:5.2f} GB", flush=True)

    if options.mkl:
        start = time.perf_counter()
        views = [RBF(columns=slice(a, a + 2)) for a in range(0, 16, 2)] + [RBF(), RBF(bandwidth="0.25*mean")]
        model = MKLClassifier(views, memory=options.memory, tol=1e-2, callback=show).fit(X, (y > 0).astype(int))
        report("MKLClassifier, 10 kernels, p = 1", start)
        print(
            f"gap {model.dual_gap_ / model.objective_:.1e}, {model.n_iter_} iterations, weights "
            f"{model.weights_.round(3)}, {len(model.support_)} support vectors, accuracy on the first 2,000 training "
            f"samples {model.score(X[:2000], (y[:2000] > 0).astype(int)):.3f}"
        )
        return
    start = time.perf_counter()
    kernels = [RBF(bandwidth=f"{2.0**k}*mean") for k in np.linspace(-4, 4, options.kernels)]
    stack = gram_stack(X, kernels, memory=options.memory)
    print(
        f"{stack!r}\nbudget {budget / 2**30:.2f} GB, dense would take {len(X) ** 2 * len(kernels) * 4 / 2**30:.1f} GB"
    )
    report("stack made", start)
    alpha = np.where(generator.random(len(X)) < 0.1, y, 0.0)
    start = time.perf_counter()
    stack.quadratic_forms(alpha)
    report("quadratic_forms, 10 % support vectors", start)
    start = time.perf_counter()
    stack.apply(generator.normal(size=len(X)))
    report("apply, all samples", start)
    start = time.perf_counter()
    weights = np.full(len(kernels), 1.0 / len(kernels))
    kernel = one_kernel(stack, WeightedSum(weights), budget)
    value, alpha = CSVM(y, C=1.0).solve(kernel, tol=1e-2)
    report(f"SVM on the average kernel ({type(kernel).__name__})", start)
    print(f"objective {value:.4f}, {np.count_nonzero(alpha)} support vectors")


if __name__ == "__main__":
    main()
