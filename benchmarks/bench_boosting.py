"""LP-β, LP-B and CG-Boost in SVMs on the average kernel, and their linear programs at the size of Caltech-101.

    python benchmarks/bench_boosting.py [--cases flower17 simulated-400-7 …] [--programs] [--repeat 3]

For each case: the time of a fit divided by that of ``KernelAverageClassifier`` on the same kernels, measured just
before and after. LP-β trains (folds + 1) · F times as many SVMs, so that is what its ratio is to be compared with.
``--programs`` solves the linear programs alone, on simulated scores of 39 kernels, 1,530 samples and 102 classes
(154,530 margins), to a relative gap of 1e-6: at most a minute each. Medians of
wall-clock times; compilation is off the clock. Flower17 needs MULTIKERNEL_DATA to name its folder and is left
out without it.
"""

from __future__ import annotations

import argparse
import time

import numpy as np

from multikernel import CGBoostClassifier, KernelAverageClassifier, LPBetaClassifier, datasets
from multikernel.problems.lpbeta import MarginProblem
from multikernel.runtime.monitor import Monitor
from multikernel.solvers.lpbeta import lp_beta

CASES = ("flower17", "simulated-400-7")
MODELS = {
    "LP-β": LPBetaClassifier("precomputed", nu=0.5, C=10.0),
    "LP-B": LPBetaClassifier("precomputed", nu=0.5, C=10.0, shared=False),
    "CG-Boost": CGBoostClassifier("precomputed", C=0.01),
}


def flower17() -> tuple[np.ndarray, np.ndarray]:
    """Kernels (n, n, F) and classes of the first split's training part."""
    with np.load(datasets.data_home() / "flower17_dist.npz") as pack:
        y, triangles, chosen = pack["y"], pack["D_triu"], pack["trn1"]
    K = np.zeros((len(chosen), len(chosen), len(triangles)))
    for j, triangle in enumerate(triangles):
        D = np.zeros((len(y), len(y)))
        D[np.triu_indices(len(y), 1)] = triangle
        D += D.T
        K[:, :, j] = np.exp(-D / D.mean())[np.ix_(chosen, chosen)]
    return K, y[chosen]


def simulated(n: int, n_kernels: int, n_classes: int = 8) -> tuple[np.ndarray, np.ndarray]:
    """RBF kernels on views of 5 columns that know the classes the less the later they come."""
    rng = np.random.default_rng(0)
    y = np.arange(n) % n_classes
    centres = rng.normal(size=(n_kernels, n_classes, 5))
    K = np.empty((n, n, n_kernels))
    for j in range(n_kernels):
        X = rng.normal(size=(n, 5)) + (1.0 - j / n_kernels) * centres[j][y]
        D = ((X[:, None] - X) ** 2).sum(axis=2)
        K[:, :, j] = np.exp(-D / D.mean())
    return K, y


def score_table(n_kernels: int, n: int, n_classes: int) -> tuple[np.ndarray, np.ndarray]:
    """Scores (F, n, M) of one-vs-rest classifiers that agree in part, and differ in how good they are."""
    rng = np.random.default_rng(0)
    codes = np.arange(n) % n_classes
    scores = -0.9 + 0.2 * rng.normal(size=(n, n_classes)) + 0.15 * rng.normal(size=(n_kernels, n, n_classes))
    scores[:, np.arange(n), codes] += 0.6 * rng.uniform(size=(n_kernels, 1)) * np.abs(1.0 + rng.normal(size=n))
    return scores, codes


def seconds(function) -> float:
    """Wall-clock time of one call."""
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


def compare(case: str, repeat: int) -> None:
    """Print the ratios of one case."""
    K, y = flower17() if case == "flower17" else simulated(*map(int, case.split("-")[1:]))
    baseline = KernelAverageClassifier("precomputed", C=10.0)
    baseline.fit(K, y)
    for name, model in MODELS.items():
        model.fit(K, y)  # compiled before the clock starts
        ratios, times = [], []
        for _ in range(repeat):
            before = seconds(lambda: baseline.fit(K, y))
            times.append(seconds(lambda model=model: model.fit(K, y)))
            ratios.append(2.0 * times[-1] / (before + seconds(lambda: baseline.fit(K, y))))
        print(
            f"{case:18} {name:9} {np.median(times):7.2f} s  {np.median(ratios):6.1f} average-kernel SVMs  "
            f"{model.n_kernels_} of {K.shape[2]} kernels  relative gap {model.dual_gap_ / abs(model.objective_):.1e}"
        )


def programs() -> None:
    """Print times of the linear programs at the size of Caltech-101."""
    scores, codes = score_table(39, 1530, 102)
    for shared in (True, False):
        for nu in (0.1, 0.5):
            problem = MarginProblem(scores, codes, nu, shared=shared)
            monitor = Monitor(problem, 1e-6)
            elapsed = seconds(lambda problem=problem, monitor=monitor: lp_beta(problem, monitor))
            result = monitor.result()
            print(
                f"{'LP-β' if shared else 'LP-B':5} ν = {nu:.1f} {elapsed:7.2f} s  {result.n_iter:2d} linear "
                f"programs  relative gap {result.certificate.relative_gap:.1e}"
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--cases", nargs="*", default=list(CASES))
    parser.add_argument("--programs", action="store_true")
    parser.add_argument("--repeat", type=int, default=3)
    options = parser.parse_args()
    for case in options.cases:
        if case == "flower17" and datasets.data_home() is None:
            print("flower17 left out: set MULTIKERNEL_DATA to the folder that holds the .npz archives")
        else:
            compare(case, options.repeat)
    if options.programs:
        programs()


if __name__ == "__main__":
    main()
