"""One kernel for many labels: processor time and SVMs to a certificate against the number of labels.

    python benchmarks/bench_multilabel.py [--labels 2 8 32 102] [--tol 1e-2] [--max-time 60] [--solvers max/level ...]

All training images of Caltech-102 (15 a class, split 1), classes in a random order as labels, its 39 kernels, single
precision, in memory before the clock starts. The mean over labels of the area under the precision-recall curve is on
the test images. Needs MULTIKERNEL_DATA; without it labels are simulated.
"""

from __future__ import annotations

import argparse
import time
import warnings

import numpy as np
from multikernel_experiments.archives import Archives, from_features
from multikernel_experiments.images import CALTECH, caltech39, caltech_split
from multikernel_experiments.labels import mean_average_precision, signs_of_classes
from sklearn.datasets import make_multilabel_classification
from sklearn.exceptions import ConvergenceWarning

from multikernel import MultilabelMKLClassifier, datasets
from multikernel.kernels import RBF

SOLVERS = ["max/level", "max/sa-vr", "sum/newton", "sum/silp", "sum/subgradient"]


def caltech(n_labels: int):
    """Training kernels, test kernels, and signs of classes in a random order."""
    archives = Archives()
    y = archives.load(CALTECH)["y"]
    train, test = caltech_split(archives.load(CALTECH), 0)
    kept = np.random.default_rng(0).permutation(np.unique(y))[:n_labels]
    return *caltech39(archives, train, test), signs_of_classes(y[train], kept), signs_of_classes(y[test], kept)


def simulated(n_labels: int):
    X, Y = make_multilabel_classification(800, 40, n_classes=n_labels, random_state=0)
    kernels = [
        RBF(columns=slice(k, k + 10), bandwidth=width) for k in range(0, 40, 10) for width in ("mean", "4*mean")
    ]
    train, test = np.arange(400), np.arange(400, 800)
    return *from_features(X, kernels, train, test), 2 * Y[train] - 1, 2 * Y[test] - 1


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--labels", type=int, nargs="+", default=[2, 8, 32, 102])
    parser.add_argument("--solvers", nargs="+", default=SOLVERS)
    parser.add_argument("--tol", type=float, default=1e-2)
    parser.add_argument("--max-time", type=float, default=60.0)
    parser.add_argument("--C", type=float, default=10.0)
    options = parser.parse_args()
    load = simulated if datasets.data_home() is None else caltech
    print(f"{load.__name__}, tol {options.tol}, C {options.C}")
    warnings.simplefilter("ignore", ConvergenceWarning)
    seconds: dict[str, list[float]] = {name: [] for name in options.solvers}
    for n_labels in options.labels:
        stack, test, Y, Z = load(n_labels)
        for name in options.solvers:
            objective, solver = name.split("/")
            model = MultilabelMKLClassifier(
                "precomputed",
                objective,
                options.C,
                solver,
                tol=options.tol,
                max_time=options.max_time,
                psd="ignore",
                random_state=0,
            )
            if not seconds[name]:
                model.set_params(max_iter=3).fit(stack, Y)  # compiles, off the clock
                model.set_params(max_iter=5000)
            start, busy = time.perf_counter(), time.process_time()
            model.fit(stack, Y)
            wall, busy = time.perf_counter() - start, time.process_time() - busy
            seconds[name].append(busy)
            precision = mean_average_precision(model, test, Z)
            print(
                f"M={n_labels:4d} n={len(stack):5d} F={stack.n_kernels:3d} {name:16s} "
                f"{busy:7.2f} s busy {wall:7.2f} s  gap {model.dual_gap_ / model.objective_:.1e}  "
                f"judged {model.n_iter_:4d}  "
                f"SVMs {model.history_[-1].get('svms', '-')!s:>6}  kernels {model.n_kernels_:3d}  AP {precision:.3f}",
                flush=True,
            )
    if len(options.labels) > 1:
        for name, times in seconds.items():
            slope = np.polyfit(np.log(options.labels), np.log(times), 1)[0]
            print(f"{name}: processor time grows like labels^{slope:.2f}")


if __name__ == "__main__":
    main()
