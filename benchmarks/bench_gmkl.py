"""Generalised MKL beside one SVM: time, iterations, and what widths learnt for each feature bring.

    python benchmarks/bench_gmkl.py [--n 1000] [--data Sonar Ionosphere BreastCancer simulated] [--repeats 1]

Speed: GMKL on 20 RBF kernels of an n-sample problem, as a sum and as a product of one kernel a feature. U is one
``SVC(kernel="precomputed")`` on their mean, or geometric mean, in the same run; kernels are computed beforehand.
The iterations of the product are shown with and without the scaling of steps by the size of each parameter.

Accuracy: five splits into halves, features standardised; a product with a width for each feature beside the same
kernels with equal widths. The penalty and C are chosen by 3-fold cross-validation on the training half. Real
data need MULTIKERNEL_DATA to name their folder and are left out without it.
"""

from __future__ import annotations

import argparse
import time
import warnings

import numpy as np
from sklearn.datasets import make_classification
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV, StratifiedShuffleSplit
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from multikernel import GMKLClassifier, KernelAverageClassifier, datasets
from multikernel.gram import DenseStack
from multikernel.kernels import RBF, KernelFamily
from multikernel.problems.gmkl import GeneralizedProblem, as_rule, prepared
from multikernel.problems.regularizers import as_regularizer
from multikernel.runtime.monitor import Monitor
from multikernel.solvers import gmkl as spg
from multikernel.svm import CSVM


def median_seconds(repeats: int, function, *arguments):
    times, result = [], None
    for _ in range(repeats):
        start = time.perf_counter()
        result = function(*arguments)
        times.append(time.perf_counter() - start)
    return float(np.median(times)), result


def fit(combination: str, penalty: str, reg: float, C: float, K: np.ndarray, signs: np.ndarray):
    rule = as_rule(combination)
    stack = prepared(rule, DenseStack(K))
    problem = GeneralizedProblem(stack, CSVM(signs, C), rule, as_regularizer(penalty), reg, 1 << 33)
    monitor = Monitor(problem, 1e-3)
    spg.spectral_gradient(problem, monitor)
    return monitor.result()


def unscaled_iterations(*arguments) -> int:
    scale, spg.LEAST_SCALE = spg.LEAST_SCALE, 1.0
    try:
        return fit(*arguments).n_iter
    finally:
        spg.LEAST_SCALE = scale


def bench_speed(n: int, repeats: int) -> None:
    X, y = make_classification(n, 20, n_informative=6, flip_y=0.05, random_state=0)
    signs = np.where(y > 0, 1.0, -1.0)
    widths = [RBF(bandwidth=f"{w}*mean") for w in np.geomspace(0.1, 10, 20)]
    features = [RBF(columns=[k]) for k in range(20)]
    print(f"{'kernel':10s}{'penalty':>9s}{'reg':>6s}{'C':>5s}{'U':>9s}{'GMKL':>9s}{'ratio':>7s}"
          f"{'its':>5s}{'unscaled':>9s}{'kept':>5s}  stopped")  # fmt: skip
    for combination, kernels in (("sum", widths), ("product", features)):
        K = KernelFamily.fit(kernels, X).evaluate(X)
        mean = K.mean(axis=0) if combination == "sum" else np.exp(np.log(K).mean(axis=0))
        for penalty, reg, C in (("l1", 1.0, 1.0), ("l1", 10.0, 10.0), ("l2", 1.0, 1.0), ("entropy", 1.0, 1.0)):
            svc = SVC(kernel="precomputed", C=C)
            unit, _ = median_seconds(repeats, svc.fit, mean, signs)
            arguments = (combination, penalty, reg, C, K, signs)
            seconds, result = median_seconds(repeats, fit, *arguments)
            kept = int((result.weights > 1e-8 * result.weights.max()).sum())
            print(
                f"{combination:10s}{penalty:>9s}{reg:6g}{C:5g}{unit:8.3f}s{seconds:8.2f}s{seconds / unit:7.1f}"
                f"{result.n_iter:5d}{unscaled_iterations(*arguments):9d}{kept:5d}  {result.stopped}",
                flush=True,
            )


def load(name: str) -> tuple[np.ndarray, np.ndarray]:
    if name == "simulated":
        X = np.random.default_rng(0).normal(size=(400, 20))
        return X, (X[:, 0] ** 2 + X[:, 1] ** 2 > 1.4).astype(int)
    with np.load(datasets.data_home() / "uci_pack.npz") as pack:
        return pack[f"{name}_X"].astype(float), pack[f"{name}_y"]


def bench_accuracy(name: str) -> None:
    X, y = load(name)
    features = [RBF(columns=[k]) for k in range(X.shape[1])]
    own = GridSearchCV(
        GMKLClassifier(combination="product", tol=1e-2), {"reg": [1.0, 10.0, 100.0], "C": [1.0, 10.0]}, cv=3
    )
    equal = GridSearchCV(KernelAverageClassifier(features, how="product"), {"C": [0.1, 1.0, 10.0, 100.0]}, cv=3)
    scores: list[list[float]] = [[], []]
    kept = []
    for train, test in StratifiedShuffleSplit(5, train_size=0.5, random_state=0).split(X, y):
        for model, list_of_scores in zip((own, equal), scores):
            fitted = make_pipeline(StandardScaler(), model).fit(X[train], y[train])
            list_of_scores.append(fitted.score(X[test], y[test]))
        kept.append(own.best_estimator_.n_kernels_)
    means = [f"{100 * np.mean(s):.1f} ± {100 * np.std(s):.1f} %" for s in scores]
    print(
        f"{name:14s} n = {len(X)}, {X.shape[1]} features: a width each {means[0]} ({np.mean(kept):.0f} kept), "
        f"equal widths {means[1]}",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--n", type=int, default=1000)
    parser.add_argument("--data", nargs="*", default=["Sonar", "Ionosphere", "BreastCancer", "simulated"])
    parser.add_argument("--repeats", type=int, default=1)
    options = parser.parse_args()
    warnings.simplefilter("ignore", ConvergenceWarning)  # grids hold settings that are hard on purpose
    tiny = np.exp(-np.abs(np.subtract.outer(np.arange(8.0), np.arange(8.0))))[None]
    for combination in ("sum", "product"):
        fit(combination, "l1", 1.0, 1.0, tiny, np.resize([1.0, -1.0], 8))  # compile
    bench_speed(options.n, options.repeats)
    for name in options.data:
        if name != "simulated" and datasets.data_home() is None:
            print(f"{name}: left out, MULTIKERNEL_DATA does not name the folder of the data")
            continue
        bench_accuracy(name)


if __name__ == "__main__":
    main()
