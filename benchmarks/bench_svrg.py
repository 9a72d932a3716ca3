"""SVRG-MKL on mfeat_18kernels: epochs, seconds and proved gaps of its three solvers.

    python benchmarks/bench_svrg.py [--tol 1e-4] [--seconds 60]

18 kernels, 1,000 samples, 10 classes, softmax loss. "clock" leaves out certificates; one core unless OMP_NUM_THREADS
says otherwise; compilation is off the clock. Then 20,000 samples with explicit features, nothing of size n². Needs
MULTIKERNEL_DATA for the first part.
"""

from __future__ import annotations

import argparse
import os
import time

# One core unless told otherwise; it has to be said before NumPy is imported.
for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(name, "1")

import numpy as np  # noqa: E402
from bench_obscure import load  # noqa: E402
from sklearn.datasets import make_classification  # noqa: E402

from multikernel import datasets  # noqa: E402
from multikernel.gram import DenseStack, LowRankStack  # noqa: E402
from multikernel.monitor import Monitor  # noqa: E402
from multikernel.smooth import SmoothProblem  # noqa: E402
from multikernel.smooth_losses import LogisticLoss, SoftmaxLoss  # noqa: E402
from multikernel.solvers.svrg import lbfgs, svrg  # noqa: E402
from multikernel.solvers.svrg_paper import svrg_paper  # noqa: E402

SOLVERS = {"auto": svrg, "lbfgs": lbfgs, "paper": svrg_paper}


def report(title: str, problem: SmoothProblem, solve, tol: float, seconds: float) -> None:
    """Solve, and print what was proved and what it cost."""
    monitor = Monitor(problem, tol, max_time=seconds)
    wall = time.perf_counter()
    solve(problem, monitor, max_iter=2000, random_state=0)
    wall = time.perf_counter() - wall
    result = monitor.result()
    epochs = max((row.get("epoch", 0) for row in result.history), default=0)
    print(
        f"{title:34s} {epochs:5d} epochs  clock {result.history[-1]['time']:7.2f} s  wall {wall:7.2f} s  "
        f"objective {result.certificate.primal:.6f}  relative gap {result.certificate.relative_gap:.1e}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tol", type=float, default=1e-4)
    parser.add_argument("--seconds", type=float, default=60.0)
    arguments = parser.parse_args()
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
