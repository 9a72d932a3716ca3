"""SVRG-MKL on mfeat_18kernels: epochs, seconds and proved gaps of its solvers; and on tens of thousands of samples.

    python benchmarks/bench_svrg.py [--tol 1e-4] [--seconds 60]
    OMP_NUM_THREADS=2 python benchmarks/bench_svrg.py --scale LetterRecognition --scale Shuttle

First form: 18 kernels, 1,000 samples, 10 classes, softmax loss. "clock" leaves out certificates; one core unless
OMP_NUM_THREADS says otherwise; compilation is off the clock. Then 20,000 samples with explicit features, nothing of
size n². Second form: Nyström features of rank 200 of ten kernels, four fifths of the samples to train on; the whole
fit is timed, features included, beside scikit-learn's logistic regression on Nyström features of rank 200 of the
average kernel for the same values of C. Both need MULTIKERNEL_DATA, but for the simulated part of the first.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import resource
import time
import warnings

# One core unless told otherwise; it has to be said before NumPy is imported.
for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(name, "1")

import numpy as np  # noqa: E402
from bench_obscure import load  # noqa: E402
from sklearn.datasets import make_classification  # noqa: E402
from sklearn.kernel_approximation import Nystroem as SklearnNystroem  # noqa: E402
from sklearn.linear_model import LogisticRegression  # noqa: E402
from sklearn.model_selection import train_test_split  # noqa: E402
from sklearn.preprocessing import StandardScaler  # noqa: E402

from multikernel import SVRGMKLClassifier, datasets  # noqa: E402
from multikernel.gram import DenseStack, LowRankStack  # noqa: E402
from multikernel.kernels import RBF, KernelFamily, Nystroem  # noqa: E402
from multikernel.problems.losses import LogisticLoss, SoftmaxLoss  # noqa: E402
from multikernel.problems.svrg import SmoothProblem  # noqa: E402
from multikernel.runtime.clock import OutOfTime, time_limit  # noqa: E402
from multikernel.runtime.monitor import Monitor  # noqa: E402
from multikernel.solvers.printed.svrg import svrg_paper  # noqa: E402
from multikernel.solvers.svrg.primal import smooth_auto  # noqa: E402
from multikernel.solvers.svrg.svrg import lbfgs, svrg  # noqa: E402

SOLVERS = {"auto": smooth_auto, "svrg": svrg, "lbfgs": lbfgs, "paper": svrg_paper}


def report(title: str, problem: SmoothProblem, solve, tol: float, seconds: float) -> None:
    """Solve, and print what was proved and what it cost."""
    monitor = Monitor(problem, tol)
    wall = time.perf_counter()
    with time_limit(seconds), contextlib.suppress(OutOfTime):
        solve(problem, monitor, max_iter=2000, random_state=0)
    wall = time.perf_counter() - wall
    result = monitor.result()
    epochs = max((row.get("epoch", 0) for row in result.history), default=0)
    print(
        f"{title:34s} {epochs:5d} epochs  clock {result.history[-1]['time']:7.2f} s  wall {wall:7.2f} s  "
        f"objective {result.certificate.primal:.6f}  relative gap {result.certificate.relative_gap:.1e}"
    )


def ten_kernels(n_columns: int) -> list[RBF]:
    """Five widths on all columns, and one on each fifth of them."""
    parts = np.array_split(np.arange(n_columns), 5)
    wide = [RBF(bandwidth=f"{factor}*mean") for factor in (0.0625, 0.125, 0.25, 0.5, 1)]
    return [*wide, *(RBF(columns=part.tolist()) for part in parts)]


class AverageNystroem:
    """scikit-learn's Nyström features for an average of kernels, which it would ask for pair by pair."""

    def __init__(self, kernels: list, rank: int):
        self.kernels, self.rank = kernels, rank

    def fit(self, X: np.ndarray):
        self.family = KernelFamily.fit(self.kernels, X)
        rows = np.random.RandomState(0).permutation(len(X))[: self.rank]
        self.landmarks = X[rows]
        U, s, V = np.linalg.svd(self._average(self.landmarks))
        self.whitening = (U / np.sqrt(np.maximum(s, 1e-12))) @ V
        return self

    def _average(self, X: np.ndarray) -> np.ndarray:
        return self.family.evaluate(X, self.landmarks, dtype=np.float64).mean(axis=0)

    def transform(self, X: np.ndarray) -> np.ndarray:
        return self._average(X) @ self.whitening.T


def check_average(X: np.ndarray) -> None:
    """It gives scikit-learn's own features."""
    mine = AverageNystroem([RBF(bandwidth=1.0), RBF(bandwidth=2.0)], 20).fit(X)

    def average(a, b):
        return float(mine.family.evaluate(a[None], b[None], dtype=np.float64).mean())

    theirs = SklearnNystroem(average, n_components=20, random_state=0).fit(X)
    assert np.allclose(mine.transform(X), theirs.transform(X), atol=1e-6)


def scale(name: str, rank: int, p: float, values: list[float]) -> None:
    """Fit on four fifths of a UCI set; print seconds, memory and accuracy."""
    archive = np.load(datasets.data_home() / "uci_pack.npz")
    X, y = archive[f"{name}_X"], archive[f"{name}_y"]
    X, X_test, y, y_test = train_test_split(X, y, test_size=0.2, stratify=y, random_state=0)
    scaler = StandardScaler().fit(X)
    X, X_test = scaler.transform(X).astype(np.float32), scaler.transform(X_test).astype(np.float32)
    check_average(X[:60].astype(np.float64))
    kernels = ten_kernels(X.shape[1])
    low_rank = [Nystroem(kernel=kernel, rank=rank, random_state=k) for k, kernel in enumerate(kernels)]
    print(f"{name}: {len(y)} samples to train on, {len(y_test)} to test on, {len(np.unique(y))} classes", flush=True)
    SVRGMKLClassifier(low_rank, random_state=0, max_time=1.0).fit(X[:2000], y[:2000])  # compile
    for C in values:
        start = time.perf_counter()
        model = SVRGMKLClassifier(low_rank, p, C, random_state=0).fit(X, y)
        seconds = time.perf_counter() - start
        score, gap = 100 * model.score(X_test, y_test), model.dual_gap_ / model.objective_
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
        print(
            f"  SVRG-MKL  C={C:<6g} {seconds:6.1f} s  accuracy {score:.2f} %  gap {gap:.1e}  {model.n_iter_} epochs  "
            f"peak of the process {peak:.2f} GB",
            flush=True,
        )
        print("            weights " + " ".join(f"{weight:.2f}" for weight in model.weights_), flush=True)
        start = time.perf_counter()
        features = AverageNystroem(kernels, rank).fit(X)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            machine = LogisticRegression(C=C, max_iter=1000).fit(features.transform(X), y)
        seconds = time.perf_counter() - start
        score = 100 * machine.score(features.transform(X_test), y_test)
        print(f"  average   C={C:<6g} {seconds:6.1f} s  accuracy {score:.2f} %", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tol", type=float, default=1e-4)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--scale", action="append", metavar="NAME", help="a set of uci_pack.npz")
    parser.add_argument("--rank", type=int, default=200)
    parser.add_argument("-p", type=float, default=1.5)
    parser.add_argument("-C", type=float, action="append")
    arguments = parser.parse_args()
    for name in arguments.scale or []:
        warnings.simplefilter("always")
        scale(name, arguments.rank, arguments.p, arguments.C or [1.0, 10.0])
    if arguments.scale:
        return
    tiny = SmoothProblem(DenseStack(np.eye(4)[None]), LogisticLoss([1.0, -1.0, 1.0, -1.0]), 1.0)
    for solve in SOLVERS.values():  # compile
        solve(tiny, Monitor(tiny, 1e-2), max_iter=2)
    if datasets.data_home() is not None:
        kernels, labels = load()
        loss = SoftmaxLoss(np.eye(labels.max() + 1)[labels])
        for p in (1.1, 2.0):
            for C in (0.1, 10.0):
                for name, solve in SOLVERS.items():
                    problem = SmoothProblem(DenseStack(kernels), loss, 1.0 / (C * len(labels)), p)
                    report(f"mfeat p={p} C={C} {name}", problem, solve, arguments.tol, arguments.seconds)
    X, y = make_classification(20_000, 60, n_informative=20, random_state=0)
    features = [X[:, k : k + 10] / np.sqrt(10.0) for k in range(0, 60, 10)]
    for name in ("auto", "lbfgs"):
        problem = SmoothProblem(LowRankStack(features), LogisticLoss(np.where(y == 1, 1.0, -1.0)), 1.0 / len(y), 1.5)
        report(f"features 20000 x 60, 6 kernels {name}", problem, SOLVERS[name], arguments.tol, arguments.seconds)


if __name__ == "__main__":
    main()
