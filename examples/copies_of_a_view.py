"""
When two views say the same
===========================

Importance has two meanings, and they part where one source repeats another. Permuting a view asks how much *this
model* uses it; refitting without it asks whether *any such model* would miss it.
"""

import matplotlib.pyplot as plt
import numpy as np

from multikernel import MKLClassifier
from multikernel.inspection import ViewImportanceDisplay, view_importance
from multikernel.kernels import join_views, kernel_grid

# %%
# Three simulated sources about 600 patients: the RNA says most about the disease, the clinic something, the last
# nothing. In a second study the RNA was delivered twice.
rng = np.random.default_rng(0)
y = np.arange(600) % 2
strengths = {"rna": 0.6, "clinic": 0.4, "noise": 0.0}
once = {name: rng.normal(size=(600, 5)) + shift * y[:, None] for name, shift in strengths.items()}
twice = {**once, "copy of rna": once["rna"]}


def importance(views, method):
    """AUC lost on 300 patients whom the model has not seen."""
    X, columns = join_views(views)
    model = MKLClassifier(kernel_grid(columns, ["rbf"], ["mean"]), p=2.0).fit(X[:300], y[:300])
    return view_importance(model, X[300:], y[300:], method=method, scoring="roc_auc", random_state=0)


results = {(name, method): importance(views, method)
           for name, views in {"once": once, "twice": twice}.items() for method in ("permute", "refit")}  # fmt: skip
for (name, method), result in results.items():
    lost = ", ".join(f"{view} {mean:.3f}" for view, mean in zip(result.names, result.importances_mean))
    print(f"RNA {name}, {method}: {lost}")

# %%
# Permuted, the two copies share the importance of the RNA: each looks weaker, because the other still speaks.
# Refitted, neither is missed, and both look useless. To ask about them together, make them one view.
X, columns = join_views(twice)
model = MKLClassifier(kernel_grid(columns, ["rbf"], ["mean"]), p=2.0).fit(X[:300], y[:300])
together = {"rna and its copy": [0, 3], "clinic": [1], "noise": [2]}
joint = view_importance(model, X[300:], y[300:], views=together, scoring="roc_auc", random_state=0)
print(f"both permuted together: {joint.importances_mean[0]:.3f}")

figure, axes = plt.subplots(2, 2, figsize=(9, 5), sharex="col", layout="constrained")
for ax, ((name, method), result) in zip(axes.ravel(), results.items()):
    ViewImportanceDisplay.from_results(result, ax=ax)
    ax.set(title=f"{method}, RNA given {name}", xlabel="AUC lost" if ax in axes[1] else "")
plt.show()
