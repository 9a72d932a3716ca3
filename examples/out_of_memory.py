"""
Kernels that do not fit in memory
=================================

Ten kernels on n samples take 10 n² numbers. A memory budget decides whether to store them as matrices, replace them
by explicit features, or compute rows on the fly. The model stays the same. The data are simulated.
"""

import time
import tracemalloc

import matplotlib.pyplot as plt
import numpy as np

from multikernel import MKLClassifier
from multikernel.gram import gram_stack
from multikernel.kernels import RBF, Nystroem

rng = np.random.default_rng(0)
X = rng.normal(size=(4000, 12)).astype(np.float32)
y = (np.abs(X[:, :3]).sum(axis=1) + 0.3 * rng.normal(size=len(X)) > 2.4).astype(int)
A, B, y_train, y_test = X[:3000], X[3000:], y[:3000], y[3000:]
pairs = [RBF(columns=[j, j + 1], name=f"columns {j}, {j + 1}") for j in range(0, 12, 2)]
kernels = [*pairs, RBF(name="all columns"), *(RBF(bandwidth=f"{w}*mean") for w in (0.25, 0.5, 2))]
features = [Nystroem(kernel=kernel, rank=60, random_state=0, name=kernel.label) for kernel in kernels]

# %%
# The same data and kernels, stored in three ways. The representation of a stack shows which one it uses.
ways = {"matrices": (kernels, "1GB"), "computed when read": (kernels, "40MB"), "Nyström features": (features, "40MB")}
for title, (chosen, memory) in ways.items():
    print(f"{title}: {gram_stack(A, chosen, memory=memory)!r}")

# %%
# Estimators take the budget as ``memory=``. A small budget costs time, because rows are computed again and again.
# Some working memory is always needed on top of the budget. Nyström features are fast, but change the kernels
# slightly.
rows = {}
for title, (chosen, memory) in ways.items():
    tracemalloc.start()
    start = time.perf_counter()
    model = MKLClassifier(chosen, C=1.0, p=1.0, memory=memory, tol=1e-2).fit(A, y_train)
    seconds, peak = time.perf_counter() - start, tracemalloc.get_traced_memory()[1] / 1e6
    tracemalloc.stop()
    rows[title] = seconds, peak, 100 * model.score(B, y_test), model.weights_
    print(f"{title:20s} {seconds:5.1f} s, peak {peak:5.0f} MB, {rows[title][2]:.1f} % correct")

# %%
figure, axes = plt.subplots(1, 3, figsize=(10, 3.0), sharey=True, layout="constrained")
for ax, label, k in zip(axes, ("peak memory (MB)", "seconds", "test accuracy (%)"), (1, 0, 2)):
    bars = ax.barh(list(rows), [row[k] for row in rows.values()], color=["C0", "C1", "C2"])
    ax.bar_label(bars, fmt="%.3g", padding=2)
    ax.set_xlabel(label)
    ax.margins(x=0.2)
axes[0].set_title("simulated, 10 kernels, 3,000 samples", loc="left")
plt.show()
