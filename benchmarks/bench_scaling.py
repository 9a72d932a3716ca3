"""How the time of a fit grows with samples n, kernels F and classes M, with fitted exponents.

    python benchmarks/bench_scaling.py [n] [F] [M] [--repeats 7] [--limit 15] [--output scaling]

Simulated data, RBF kernels in single precision in memory (made off the clock), C = 1; every method to its default
tolerance. From a base of n = 1,000, F = 8, M = 2 one size is varied (M at n = 1,200). A method leaves a curve once a
fit takes more than LIMIT seconds. The exponent is the slope of a straight line through the upper half of the points
on logarithmic axes. Results are kept in OUTPUT/results.json, curve by curve; OUTPUT also gets a table and a plot.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import make_classification
from sklearn.svm import SVC

from multikernel import KernelAverageClassifier, MKFDAClassifier, MKLClassifier, ObscureClassifier
from multikernel.gram import DenseStack
from multikernel.kernels import RBF, KernelFamily

BASE = {"n": 1000, "F": 8, "M": 2}
SIZES = {"n": (250, 500, 1000, 2000, 4000, 8000), "F": (2, 4, 8, 16, 32, 64, 128), "M": (2, 4, 8, 16, 32)}
WHAT = {"n": "samples", "F": "kernels", "M": "classes"}


class AverageSVC:
    """The yardstick: SVC on the mean of the kernels, which is made on the clock."""

    def fit(self, stack: DenseStack, y: np.ndarray) -> AverageSVC:
        SVC(kernel="precomputed").fit(stack.combine(np.full(stack.n_kernels, 1.0 / stack.n_kernels)), y)
        return self


METHODS: dict[str, Callable[[], Any]] = {
    "SVC, average": AverageSVC,
    "average": lambda: KernelAverageClassifier("precomputed"),
    "MKL, p = 1": lambda: MKLClassifier("precomputed", p=1.0),
    "MKL, p = 2": lambda: MKLClassifier("precomputed", p=2.0),
    "sdca, p = 1.25": lambda: ObscureClassifier("precomputed", p=1.25, solver="sdca", random_state=0),
    "MK-FDA, p = 2": lambda: MKFDAClassifier("precomputed", p=2.0, reg=1e-4),
}


def problem(n: int, F: int, M: int) -> tuple[DenseStack, np.ndarray]:
    """Kernels on groups of columns, each with a width of its own, and labels."""
    X, y = make_classification(
        n, n_features=40, n_informative=12, n_classes=M, n_clusters_per_class=1, flip_y=0.03, random_state=0
    )
    rng = np.random.default_rng(0)
    X = ((X - X.mean(axis=0)) / X.std(axis=0)).astype(np.float32)
    groups = [np.sort(rng.choice(40, 10, replace=False)) for _ in range(F)]
    widths = 4.0 ** rng.uniform(-1, 1, F)
    family = KernelFamily.fit([RBF(columns=g, bandwidth=f"{w:.3g}*mean") for g, w in zip(groups, widths)], X)
    return DenseStack.owning(family.evaluate(X), family.names), y


def quickest(make: Callable[[], Any], stack: DenseStack, y: np.ndarray, repeats: int) -> float:
    """Time of the quickest fit: what else the machine does can only add to it. Once is enough for slow ones."""
    times: list[float] = []
    while len(times) < repeats and sum(times) < 3.0:
        start = time.perf_counter()
        make().fit(stack, y)
        times.append(time.perf_counter() - start)
    return min(times)


def curve(axis: str, repeats: int, limit: float) -> dict[str, dict[str, float]]:
    """Seconds of each method at each size of one axis."""
    found: dict[str, dict[str, float]] = {name: {} for name in METHODS}
    running = set(METHODS)
    for size in SIZES[axis]:
        sizes = {**BASE, axis: size} if axis != "M" else {**BASE, "n": 1200, "M": size}
        stack, y = problem(**sizes)
        for name in [name for name in METHODS if name in running]:
            seconds = quickest(METHODS[name], stack, y, repeats)
            found[name][str(size)] = seconds
            print(f"{axis} = {size:5d}  {name:16s} {seconds:8.3f} s", flush=True)
            if seconds > limit:
                running.discard(name)
    return found


def exponent(seconds: dict[str, float]) -> float:
    """Slope on logarithmic axes over the upper half of the sizes, where overheads matter least."""
    sizes, times = np.array(list(map(float, seconds))), np.array(list(seconds.values()))
    kept = slice(len(sizes) // 2 - (len(sizes) > 3), None)
    return float(np.polyfit(np.log(sizes[kept]), np.log(times[kept]), 1)[0]) if len(sizes) > 2 else float("nan")


def table(results: dict[str, Any]) -> str:
    lines = []
    for axis, rows in results.items():
        sizes = [str(size) for size in SIZES[axis] if any(str(size) in row for row in rows.values())]
        lines += [f"| {WHAT[axis]} | {' | '.join(sizes)} | exponent |", "|---" * (len(sizes) + 2) + "|"]
        for name, row in rows.items():
            cells = [f"{row[size]:.3g} s" if size in row else "–" for size in sizes]
            lines.append(f"| {name} | {' | '.join(cells)} | {exponent(row):.2f} |")
        lines.append("")
    return "\n".join(lines)


def picture(results: dict[str, Any], path: Path) -> None:
    import matplotlib

    matplotlib.use("agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, len(results), figsize=(4 * len(results), 3.8), layout="constrained", squeeze=False)
    for ax, (axis, rows) in zip(axes[0], results.items()):
        for k, (name, row) in enumerate(rows.items()):
            colour, style = ("0.4", "--") if k == 0 else (f"C{k - 1}", "-")
            ax.loglog(list(map(int, row)), list(row.values()), "o" + style, color=colour, markersize=4, label=name)
        ax.set_xticks(SIZES[axis], list(map(str, SIZES[axis])))
        ax.minorticks_off()
        ax.set(xlabel=WHAT[axis])
        ax.spines[["top", "right"]].set_visible(False)
        ax.grid(alpha=0.3)
    axes[0, 0].set_ylabel("seconds of a fit")
    figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=6, frameon=False)
    figure.savefig(path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("axes", nargs="*", default=list(SIZES), help="n, F, M; all by default")
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--limit", type=float, default=15.0)
    parser.add_argument("--output", type=Path, default=Path("scaling"))
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    options.output.mkdir(parents=True, exist_ok=True)
    kept = options.output / "results.json"
    results = json.loads(kept.read_text()) if kept.is_file() else {}
    for make in METHODS.values():  # import and compile
        make().fit(*problem(60, 2, 3))
    for axis in options.axes:
        results[axis] = curve(axis, options.repeats, options.limit)
        kept.write_text(json.dumps(results, indent=1))
    results = {axis: results[axis] for axis in SIZES if axis in results}
    (options.output / "table.md").write_text(table(results), encoding="utf-8")
    picture(results, options.output / "scaling.svg")
    print(table(results))


if __name__ == "__main__":
    main()
