"""MKL beside one SVC on the average kernel, the yardstick U: solvers at n = 5,000, and 1,000 kernels at n = 300.

    python benchmarks/bench_mkl.py [speed] [many] [path] [--n 5000] [--kernels 20] [--repeats 3]

"speed": binary problems, RBF kernels in single precision, relative duality gap 1e-3; kernels in memory, their combination
on the clock. U = median time of SVC(kernel="precomputed") on their average, made beforehand, in the same run.
"many": the kernels of the SimpleMKL paper (gaussians of 10 widths, polynomials of 3 degrees, on all and on each single
feature) on Sonar and Ionosphere. "path": solutions along C and p beside separate fits. Compilation is off the clock.
Real data need MULTIKERNEL_DATA to name their folder and are left out without it.
"""

from __future__ import annotations

import argparse
import time
import warnings

import numpy as np
from sklearn.base import clone
from sklearn.datasets import make_classification
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import SVC

from multikernel import MKLClassifier, datasets, mkl_path
from multikernel.gram import DenseStack
from multikernel.kernels import RBF, KernelFamily, Polynomial


def median_seconds(function, repeats: int) -> tuple[float, object]:
    times, result = [], None
    for _ in range(repeats):
        start = time.perf_counter()
        result = function()
        times.append(time.perf_counter() - start)
    return float(np.median(times)), result


def load(name: str, n: int | None) -> tuple[np.ndarray, np.ndarray] | None:
    """Standardised features and two classes, or None where the data are not here."""
    if name == "simulated":
        return make_classification(n, n_features=40, n_informative=12, flip_y=0.05, class_sep=0.8, random_state=0)
    if datasets.data_home() is None:
        print(f"{name}: left out, MULTIKERNEL_DATA does not name the folder of the data")
        return None
    with np.load(datasets.data_home() / "uci_pack.npz") as pack:
        X, y = pack[f"{name}_X"].astype(float), pack[f"{name}_y"]
    chosen = np.random.default_rng(0).permutation(len(X))[:n]
    X, y = X[chosen], y[chosen]
    classes = np.unique(y)
    y = np.isin(y, classes[: len(classes) // 2]).astype(int)
    return (X - X.mean(0)) / (X.std(0) + 1e-12), y


def rbf_stack(X: np.ndarray, n_kernels: int) -> DenseStack:
    """RBF kernels on all features and on halves and quarters of them, several widths, single precision."""
    d = X.shape[1]
    parts = [slice(0, d), slice(0, d // 2), slice(d // 2, d), slice(0, d // 4), slice(d // 4, d // 2)]
    kernels = [RBF(bandwidth=f"{w}*mean", columns=part) for w in (0.25, 1, 4, 16) for part in parts][:n_kernels]
    X = X.astype(np.float32)
    family = KernelFamily.fit(kernels, X)
    return DenseStack.owning(family.evaluate(X), family.names)


def fit(model: MKLClassifier, stack: DenseStack, y: np.ndarray) -> MKLClassifier:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return clone(model).fit(stack, y)


def bench_speed(n: int, n_kernels: int, repeats: int) -> None:
    print(f"{'data':20s}{'C':>6s}{'p':>8s} {'solver':12s}{'seconds':>9s}{'/ U':>7s}{'gap':>9s}{'iter':>6s}{'kept':>6s}")
    for name in ("simulated", "LetterRecognition", "spam"):
        data = load(name, n)
        if data is None:
            continue
        stack = rbf_stack(data[0], n_kernels)
        average = stack.combine(np.full(stack.n_kernels, 1.0 / stack.n_kernels))
        for C in (1.0, 10.0):
            unit, _ = median_seconds(lambda C=C: SVC(kernel="precomputed", C=C).fit(average, data[1]), repeats)
            print(f"{name + ' ' + str(len(data[1])):20s}{C:6g}{'':8s} {'U = SVC':12s}{unit:9.3f}")
            for p, solvers in ((1.0, ("auto", "silp", "level", "simplemkl")), (2.0, ("auto", "lp", "silp", "smo"))):
                for solver in solvers:
                    model = MKLClassifier("precomputed", p=p, C=C, solver=solver, psd="ignore", max_time=60.0)
                    # slow solvers need no median
                    seconds, fitted = median_seconds(
                        lambda m=model: fit(m, stack, data[1]), repeats if solver == "auto" else 1
                    )
                    print(
                        f"{'':26s}{p:8g} {solver:12s}{seconds:9.3f}{seconds / unit:7.2f}"
                        f"{fitted.dual_gap_ / fitted.objective_:9.1e}{fitted.n_iter_:6d}{fitted.n_kernels_:6d}",
                        flush=True,
                    )


def simplemkl_kernels(d: int) -> list:
    """Gaussians of 10 widths and polynomials of degree 1 to 3, on all features and on each single one."""
    parts = [slice(0, d), *([j] for j in range(d))]
    widths = np.logspace(-1, 1.3, 10)
    gaussians = [RBF(bandwidth=f"{w:.4g}*mean", columns=part) for part in parts for w in widths]
    return gaussians + [Polynomial(degree=k, coef0=1.0, columns=part) for part in parts for k in (1, 2, 3)]


def bench_many(repeats: int) -> None:
    """Half of the samples train, C = 100, kernels of unit trace, as published."""
    print(f"{'data':12s}{'F':>6s} {'solver':12s}{'seconds':>9s}{'accuracy':>16s}{'kept':>12s}{'gap':>9s}")
    for name in ("Sonar", "Ionosphere"):
        data = load(name, None)
        if data is None:
            continue
        X, y = data
        kernels = simplemkl_kernels(X.shape[1])
        for solver in ("auto", "simplemkl", "silp", "level"):
            times, accuracies, kept, gaps = [], [], [], []
            for split in range(repeats):
                order = np.random.default_rng(split).permutation(len(X))
                train, test = order[: len(X) // 2], order[len(X) // 2 :]
                model = MKLClassifier(kernels, C=100.0, solver=solver, normalize="trace", tol=1e-2, max_iter=3000)
                seconds, fitted = median_seconds(lambda m=model, t=train: m.fit(X[t], y[t]), 1)
                times.append(seconds)
                accuracies.append(fitted.score(X[test], y[test]))
                kept.append(fitted.n_kernels_)
                gaps.append(fitted.dual_gap_ / fitted.objective_)
            print(
                f"{name:12s}{len(kernels):6d} {solver:12s}{np.median(times):9.2f}"
                f"{100 * np.mean(accuracies):10.1f} ± {100 * np.std(accuracies):.1f}"
                f"{np.mean(kept):8.1f} ± {np.std(kept):.1f}{max(gaps):9.1e}",
                flush=True,
            )


def bench_path(repeats: int) -> None:
    for name in ("simulated", "spam"):
        data = load(name, 800)
        if data is None:
            continue
        stack = rbf_stack(data[0], 20)
        model = MKLClassifier("precomputed", C=10.0, psd="ignore")
        for parameter, values in (("C", np.logspace(-2, 3, 11)), ("p", [1, 1.05, 1.25, 1.5, 2, 3, 4, 8])):
            along = {parameter: values}
            together, _ = median_seconds(lambda a=along, s=stack: mkl_path(model, s, data[1], **a), repeats)
            apart, _ = median_seconds(
                lambda p=parameter, v=values, s=stack: [
                    fit(clone(model).set_params(**{p: float(x)}), s, data[1]) for x in v
                ],
                repeats,
            )
            print(
                f"{name:12s} path along {parameter}, {len(values)} values: {together:.2f} s, separate fits "
                f"{apart:.2f} s, ratio {together / apart:.2f}",
                flush=True,
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("parts", nargs="*", default=["speed", "many", "path"])
    parser.add_argument("--n", type=int, default=5000)
    parser.add_argument("--kernels", type=int, default=20)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    tiny = DenseStack(np.eye(4, dtype=np.float32)[None] + np.zeros((2, 1, 1), dtype=np.float32))
    for solver, p in (("auto", 1.0), ("auto", 2.0), ("smo", 2.0)):  # compile
        fit(MKLClassifier("precomputed", p=p, solver=solver), tiny, np.array([0, 1, 0, 1]))
    if "speed" in options.parts:
        bench_speed(options.n, options.kernels, options.repeats)
    if "many" in options.parts:
        bench_many(options.repeats)
    if "path" in options.parts:
        bench_path(options.repeats)


if __name__ == "__main__":
    main()
