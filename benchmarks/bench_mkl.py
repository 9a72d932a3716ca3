"""MKL beside one SVC on the average kernel, the yardstick U: solvers at n = 5,000, and 1,000 kernels at n = 300.

    python benchmarks/bench_mkl.py [speed] [many] [path] [regression] [--n 5000] [--kernels 20] [--repeats 3]

"speed": binary problems, RBF kernels in single precision, relative duality gap 1e-3; kernels in memory, their
combination on the clock. U = median time of SVC(kernel="precomputed") on their average, made beforehand, same run.
"many": the kernels of the SimpleMKL paper (gaussians of 10 widths, polynomials of 3 degrees, on all and on each
single feature) on Sonar and Ionosphere. "path": solutions along C and p beside separate fits, from features, from an
array of kernels, and from kernels in memory that need no more checks. "regression": numbers instead of classes, U =
SVR on the average kernel, ten kernels, 1,000 and 3,000 samples. Compilation is off the clock. Real data need
MULTIKERNEL_DATA to name their folder and are left out without it.
"""

from __future__ import annotations

import argparse
import functools
import itertools
import time
import warnings

import numpy as np
from sklearn.base import clone
from sklearn.datasets import make_classification
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import SVC, SVR

from multikernel import MKLClassifier, MKLRegressor, datasets, mkl_path
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


def rbf_kernels(d: int, n_kernels: int) -> list:
    """RBF kernels on all of d features and on halves and quarters of them, several widths."""
    parts = [slice(0, d), slice(0, d // 2), slice(d // 2, d), slice(0, d // 4), slice(d // 4, d // 2)]
    return [RBF(bandwidth=f"{w}*mean", columns=part) for w in (0.25, 1, 4, 16) for part in parts][:n_kernels]


def rbf_stack(X: np.ndarray, n_kernels: int) -> DenseStack:
    """Those kernels, in single precision."""
    X = X.astype(np.float32)
    family = KernelFamily.fit(rbf_kernels(X.shape[1], n_kernels), X)
    return DenseStack.owning(family.evaluate(X), family.names)


def fit(model, X, y: np.ndarray):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return clone(model).fit(X, y)


def bench_speed(n: int, n_kernels: int, repeats: int) -> None:
    print(
        f"{'data':20s}{'C':>5s}{'p':>6s} {'solver':12s}{'seconds':>9s}{'/ U':>7s}{'gap':>9s}{'iter':>6s}{'kept':>6s}"
    )
    for name in ("simulated", "LetterRecognition", "spam"):
        data = load(name, n)
        if data is not None:
            stack = rbf_stack(data[0], n_kernels)
            for C in (1.0, 10.0):
                compare_solvers(f"{name} {len(stack)}", stack, data[1], C, repeats)


def compare_solvers(title: str, stack: DenseStack, y: np.ndarray, C: float, repeats: int) -> None:
    average = stack.combine(np.full(stack.n_kernels, 1.0 / stack.n_kernels))
    unit, _ = median_seconds(lambda: SVC(kernel="precomputed", C=C).fit(average, y), repeats)
    print(f"{title:20s}{C:5g}{'':6s} {'U = SVC':12s}{unit:9.3f}")
    for p, solvers in ((1.0, ("auto", "silp", "level", "simplemkl")), (2.0, ("auto", "lp", "silp", "smo"))):
        for solver in solvers:
            model = MKLClassifier("precomputed", p=p, C=C, solver=solver, psd="ignore", max_time=60.0)
            times = repeats if solver == "auto" else 1  # slow solvers need no median
            seconds, fitted = median_seconds(functools.partial(fit, model, stack, y), times)
            print(
                f"{'':25s}{p:6g} {solver:12s}{seconds:9.3f}{seconds / unit:7.2f}"
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
    """70 % of the samples train, C = 100, kernels of unit trace, a gap of 1 %, as published [RBCG08, sect. 5.2]."""
    print(f"{'data':12s}{'n':>5s}{'F':>6s} {'solver':12s}{'seconds':>9s}{'accuracy':>16s}{'kept':>12s}{'gap':>9s}")
    for name in ("Sonar", "Ionosphere"):
        data = load(name, None)
        if data is not None:
            for solver in ("auto", "simplemkl", "silp", "level"):
                many_kernels(name, *data, solver, repeats)


def many_kernels(name: str, X: np.ndarray, y: np.ndarray, solver: str, repeats: int) -> None:
    kernels, n_train = simplemkl_kernels(X.shape[1]), int(0.7 * len(X))
    rows = []
    for split in range(repeats):
        order = np.random.default_rng(split).permutation(len(X))
        train, test = order[:n_train], order[n_train:]
        model = MKLClassifier(kernels, C=100.0, solver=solver, normalize="trace", tol=1e-2, max_iter=3000)
        seconds, fitted = median_seconds(functools.partial(model.fit, X[train], y[train]), 1)
        accuracy = 100 * fitted.score(X[test], y[test])
        rows.append((seconds, accuracy, fitted.n_kernels_, fitted.dual_gap_ / fitted.objective_))
    times, accuracies, kept, gaps = np.array(rows).T
    print(
        f"{name:12s}{n_train:5d}{len(kernels):6d} {solver:12s}{np.median(times):9.2f}{accuracies.mean():10.1f} ± "
        f"{accuracies.std():.1f}{kept.mean():8.1f} ± {kept.std():.1f}{gaps.max():9.1e}",
        flush=True,
    )


def bench_path(repeats: int) -> None:
    for name in ("simulated", "spam"):
        data = load(name, 800)
        if data is not None:
            X, y = data
            stack = rbf_stack(X, 20)
            array = np.ascontiguousarray(np.moveaxis(stack.to_array(), 0, -1))
            for what, kernels, given in (
                ("features", rbf_kernels(X.shape[1], 20), X.astype(np.float32)),
                ("array", "precomputed", array),
                ("checked stack", "precomputed", stack),
            ):
                model = MKLClassifier(kernels, C=10.0, psd="ignore" if given is stack else "raise")
                title = f"{name:10s} {what:14s}"
                compare_path(title, model, given, y, "C", np.logspace(-2, 3, 11), repeats)
                compare_path(title, model, given, y, "p", np.array([1, 1.05, 1.25, 1.5, 2, 3, 4, 8]), repeats)


def compare_path(title: str, model, X, y: np.ndarray, parameter: str, values: np.ndarray, repeats: int) -> None:
    def separate_fits() -> None:
        for value in values:
            fit(clone(model).set_params(**{parameter: float(value)}), X, y)

    together, _ = median_seconds(lambda: mkl_path(model, X, y, **{parameter: values}), repeats)
    apart, _ = median_seconds(separate_fits, repeats)
    print(
        f"{title} path along {parameter}, {len(values)} values: {together:.2f} s, separate fits {apart:.2f} s, "
        f"ratio {together / apart:.2f}",
        flush=True,
    )


def bench_regression(repeats: int) -> None:
    rng = np.random.default_rng(0)
    for n in (1000, 3000):
        X = rng.normal(size=(n, 20))
        y = np.sin(2.0 * X[:, 0]) + 0.5 * X[:, 2] + 0.3 * rng.normal(size=n)
        family = KernelFamily.fit([RBF(columns=[2 * j, 2 * j + 1]) for j in range(10)], X)
        stack = DenseStack.owning(family.evaluate(X), family.names)
        average = stack.combine(np.full(10, 0.1))
        for C, epsilon in itertools.product((0.1, 1.0, 10.0), (0.05, 0.5)):
            reference = SVR(kernel="precomputed", C=10.0 * C, epsilon=epsilon)  # weights of p = ∞ sum to ten
            unit, found = median_seconds(functools.partial(reference.fit, average, y), repeats)
            print(f"n={n} C={C:g} epsilon={epsilon:g}: U = {unit:.3f} s, {len(found.support_)} support vectors")
            for p in (1.0, 2.0, np.inf):
                model = MKLRegressor("precomputed", p, C, epsilon, psd="ignore")
                seconds, fitted = median_seconds(functools.partial(fit, model, stack, y), repeats)
                gap = fitted.dual_gap_ / fitted.objective_
                print(f"  p={p:g}: {seconds:.3f} s, {seconds / unit:.2f} U, gap {gap:.0e}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("parts", nargs="*", default=["speed", "many", "path", "regression"])
    parser.add_argument("--n", type=int, default=5000)
    parser.add_argument("--kernels", type=int, default=20)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    tiny = DenseStack(np.eye(4, dtype=np.float32)[None] + np.zeros((2, 1, 1), dtype=np.float32))
    for solver, p in (("auto", 1.0), ("auto", 2.0), ("smo", 2.0)):  # compile
        fit(MKLClassifier("precomputed", p=p, solver=solver), tiny, np.array([0, 1, 0, 1]))
    fit(MKLRegressor("precomputed"), DenseStack(np.eye(4)[None]), np.arange(4.0))
    if "speed" in options.parts:
        bench_speed(options.n, options.kernels, options.repeats)
    if "many" in options.parts:
        bench_many(options.repeats)
    if "path" in options.parts:
        bench_path(options.repeats)
    if "regression" in options.parts:
        bench_regression(options.repeats)


if __name__ == "__main__":
    main()
