"""The SVM engine beside scikit-learn's SVC on precomputed kernels, and warm starts beside cold ones.

    python benchmarks/bench_svm.py [--sizes 500 1000 2000 5000] [--C 0.1 1 10 100 1000] [--repeats 3]

Equal accuracy: SVC runs at its default tolerance, the relative duality gap of its solution is computed, and ours
has to reach that gap. Warm starts: the solution for K is the start for K moved towards a kernel of half the width
until it differs by 2 % in Frobenius norm; both runs go to a relative gap of 1e-6. "svc/warm" has a warm start to the
gap of SVC, which can only start cold, beside SVC on the moved kernel. Medians of wall-clock times; compilation is off
the clock. Real data need MULTIKERNEL_DATA to name their folder and are left out without it; "simulated" is always
there.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
from sklearn.datasets import make_classification
from sklearn.svm import SVC

from multikernel import datasets
from multikernel.problems.certificate import Certificate
from multikernel.svm import CSVM, LabelSVMs


def median_seconds(function, repeats: int) -> tuple[float, object]:
    times, result = [], None
    for _ in range(repeats):
        start = time.perf_counter()
        result = function()
        times.append(time.perf_counter() - start)
    return float(np.median(times)), result


def load(name: str, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Standardised features and signs (the first half of the classes against the rest) of n samples."""
    if name == "simulated":
        X, y = make_classification(n, n_features=20, n_informative=8, flip_y=0.1, class_sep=0.7, random_state=0)
    else:
        with np.load(datasets.data_home() / "uci_pack.npz") as pack:
            X, y = pack[f"{name}_X"].astype(float), pack[f"{name}_y"]
    chosen = np.random.default_rng(0).permutation(len(X))[:n]
    X, y = X[chosen], y[chosen]
    classes = np.unique(y)
    signs = np.where(np.isin(y, classes[: len(classes) // 2]), 1.0, -1.0)
    return (X - X.mean(0)) / (X.std(0) + 1e-12), signs


def rbf(X: np.ndarray, width: float) -> np.ndarray:
    """exp(−‖x−z‖² / (width · mean)), symmetric to the last bit."""
    squares = (X**2).sum(1)
    D = np.maximum(squares[:, None] + squares - 2 * X @ X.T, 0.0)
    D = 0.5 * (D + D.T)
    return np.exp(-D / (width * D.mean()))


def moved(K: np.ndarray, other: np.ndarray, share: float = 0.02) -> np.ndarray:
    difference = other - K
    return K + difference * (share * np.linalg.norm(K) / np.linalg.norm(difference))


def compare(K: np.ndarray, K_moved: np.ndarray, signs: np.ndarray, C: float, repeats: int) -> dict[str, float]:
    svm = CSVM(signs, C)
    svc_seconds, proof = svc(K, signs, C, svm, repeats)
    same, (value, _) = median_seconds(lambda: svm.solve(K, tol=proof.relative_gap), repeats)
    svc_moved, proof_moved = svc(K_moved, signs, C, svm, repeats)
    _, alpha = svm.solve(K, tol=1e-6)
    warm_same, _ = median_seconds(lambda: svm.solve(K_moved, alpha, tol=proof_moved.relative_gap), repeats)
    cold, _ = median_seconds(lambda: svm.solve(K_moved, tol=1e-6), repeats)
    warm, _ = median_seconds(lambda: svm.solve(K_moved, alpha, tol=1e-6), repeats)
    return {
        "svc": svc_seconds,
        "gap": proof.relative_gap,
        "ours": same,
        "ours/svc": same / svc_seconds,
        "better by": (value - proof.dual) / abs(proof.dual),
        "cold 1e-6": cold,
        "warm 1e-6": warm,
        "cold/warm": cold / warm,
        "svc/warm": svc_moved / warm_same,
    }


def svc(K: np.ndarray, signs: np.ndarray, C: float, svm: CSVM, repeats: int) -> tuple[float, Certificate]:
    """Seconds SVC takes at its default tolerance, and the certificate of its solution."""
    seconds, model = median_seconds(lambda: SVC(kernel="precomputed", C=C).fit(K, signs), repeats)
    alpha = np.zeros(len(signs))
    alpha[model.support_] = model.dual_coef_[0]
    return seconds, svm.certificate(K @ alpha, alpha)


def bench_labels(n: int, repeats: int) -> None:
    """Ten one-vs-rest problems at once, beside one after the other."""
    X, _ = load("simulated", n)
    K = rbf(X, 1.0)
    labels = np.argmax(X @ np.random.default_rng(1).normal(size=(X.shape[1], 10)), axis=1)
    signs = np.where(labels[:, None] == np.arange(10), 1.0, -1.0)
    together, _ = median_seconds(lambda: LabelSVMs(signs, 10.0).solve(K), repeats)
    apart, _ = median_seconds(lambda: [CSVM(s, 10.0).solve(K) for s in signs.T], repeats)
    svc, _ = median_seconds(lambda: [SVC(kernel="precomputed", C=10.0).fit(K, s) for s in signs.T], repeats)
    print(
        f"ten labels, n = {n}: {1e3 * together:.0f} ms together, {1e3 * apart:.0f} ms one after the other "
        f"({apart / together:.1f}x), SVC {1e3 * svc:.0f} ms ({svc / together:.1f}x)"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", type=int, nargs="+", default=[500, 1000, 2000, 5000])
    parser.add_argument("--C", type=float, nargs="+", default=[0.1, 1.0, 10.0, 100.0, 1000.0])
    parser.add_argument("--data", nargs="+", default=["Satellite", "LetterRecognition", "simulated"])
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    CSVM([1, -1]).solve(np.eye(2))  # compile

    header = f"{'data':18s}{'n':>6s}{'C':>8s}"
    ratios: dict[str, list[float]] = {"ours/svc": [], "cold/warm": [], "svc/warm": []}
    shown = False
    for name in options.data:
        if name != "simulated" and datasets.data_home() is None:
            print(f"{name}: left out, MULTIKERNEL_DATA does not name the folder of the data")
            continue
        for n in options.sizes:
            X, signs = load(name, n)
            K = rbf(X, 1.0)
            K_moved = moved(K, rbf(X, 0.5))
            for C in options.C:
                row = compare(K, K_moved, signs, C, options.repeats)
                if not shown:
                    print(header + "".join(f"{key:>11s}" for key in row))
                    shown = True
                print(
                    f"{name:18s}{len(K):6d}{C:8g}" + "".join(f"{value:11.2g}" for value in row.values()), flush=True
                )
                for key, values in ratios.items():
                    values.append(row[key])
    for key, values in ratios.items():
        mean = np.exp(np.mean(np.log(values)))
        print(f"{key}: geometric mean {mean:.2f}, from {min(values):.2f} to {max(values):.2f}")
    bench_labels(min(max(options.sizes), 2000), options.repeats)


if __name__ == "__main__":
    main()
