"""One kernel for many labels: time and SVMs to a certificate against the number of labels.

    python benchmarks/bench_multilabel.py [--labels 2 8 32 102] [--tol 1e-2] [--max-time 60] [--solvers max/level ...]

All training images of Caltech-102 (15 a class, split 1), the first classes as labels, kernels exp(-distance / mean
distance) of its descriptors at two widths, single precision, kernels in memory before the clock starts. The mean over
labels of the area under the precision-recall curve is on the test images. Needs MULTIKERNEL_DATA; without it labels
are simulated.
"""

from __future__ import annotations

import argparse
import time
import warnings

import numpy as np
from sklearn.datasets import make_multilabel_classification
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import average_precision_score

from multikernel import MultilabelMKLClassifier, datasets
from multikernel.gram import DenseStack

SOLVERS = ["max/level", "max/sa-vr", "sum/newton", "sum/silp", "sum/subgradient"]


def squared_distances(A: np.ndarray, B: np.ndarray) -> np.ndarray:
    return np.maximum((A**2).sum(1)[:, None] - 2.0 * A @ B.T + (B**2).sum(1), 0.0)


def gaussians(views: list[np.ndarray], train: np.ndarray, test: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Kernels of each view at two widths, roots taken of histograms: (F, n, n) and (F, m, n)."""
    inside, across = [], []
    for view in views:
        a, b = (np.sqrt(np.maximum(view[rows].astype(np.float64), 0.0)) for rows in (train, test))
        D, E = squared_distances(a, a), squared_distances(b, a)
        for width in (1.0, 4.0):
            mean = width * D.mean()
            inside.append(np.exp(-D / mean).astype(np.float32))
            across.append(np.exp(-E / mean).astype(np.float32))
    return np.array([(K + K.T) / 2 for K in inside]), np.array(across)


def caltech(n_labels: int):
    """Training kernels, test kernels, and signs of the first classes."""
    with np.load(datasets.data_home() / "caltech102_views.npz", allow_pickle=False) as archive:
        y = archive["y"]
        views = [v.reshape(len(y), -1) for v in map(archive.get, archive.files) if v.ndim > 1 and len(v) == len(y)]
        train, test = archive["trn1"], archive["tst1"]
    kept = np.unique(y)[:n_labels]
    tables = [np.where(y[rows][:, None] == kept, 1, -1) for rows in (train, test)]
    return *gaussians(views, train, test), *tables


def simulated(n_labels: int):
    X, Y = make_multilabel_classification(800, 40, n_classes=n_labels, random_state=0)
    views = [X[:, k : k + 10] for k in range(0, 40, 10)]
    train, test = np.arange(400), np.arange(400, 800)
    return *gaussians(views, train, test), 2 * Y[train] - 1, 2 * Y[test] - 1


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
        K, A, Y, Z = load(n_labels)
        stack, test = DenseStack(K), DenseStack(A, symmetric=False)
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
            start = time.perf_counter()
            model.fit(stack, Y)
            seconds[name].append(time.perf_counter() - start)
            used = np.flatnonzero((Z > 0).any(axis=0))
            scores = model.decision_function(test)
            precision = np.mean([average_precision_score(Z[:, k] > 0, scores[:, k]) for k in used])
            print(
                f"M={n_labels:4d} n={len(K[0]):5d} F={len(K):3d} {name:16s} {seconds[name][-1]:7.2f} s  "
                f"gap {model.dual_gap_ / model.objective_:.1e}  judged {model.n_iter_:4d}  "
                f"SVMs {model.history_[-1].get('svms', '-')!s:>6}  kernels {model.n_kernels_:3d}  AP {precision:.3f}",
                flush=True,
            )
    if len(options.labels) > 1:
        for name, times in seconds.items():
            slope = np.polyfit(np.log(options.labels), np.log(times), 1)[0]
            print(f"{name}: time grows like labels^{slope:.2f}")


if __name__ == "__main__":
    main()
