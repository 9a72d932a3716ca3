"""
How many kernels? Choosing t
============================

Controlled sparsity has a parameter t: t = 1 gives the sparsest solution, and t equal to the number of kernels gives
their plain sum. This example computes the solutions for all t in between and lets cross-validation choose.
"""

import matplotlib.pyplot as plt
import numpy as np

from multikernel import CSKLClassifier, CSKLClassifierCV, cskl_path
from multikernel.kernels import RBF

# %%
# Simulate twelve features of decreasing usefulness. The first matters most; the last four are noise. Each feature has
# its own kernel.
rng = np.random.default_rng(0)
strength = np.concatenate([np.linspace(0.9, 0.3, 8), np.zeros(4)])
y = rng.integers(0, 2, 800)
X = rng.normal(size=(800, 12)) + np.where(y == 1, 1.0, -1.0)[:, None] * strength
train, test = slice(0, 150), slice(150, None)
kernels = [RBF(columns=[j], name=f"feature {j + 1}") for j in range(12)]

# %%
# Fit one model per t, each starting from the previous one. t is the sum of the weights, not the number of kernels,
# because several kernels may share the last places. With ``exact=True``, t is the number of kernels, and the fit
# proves that no other choice of t kernels is better.
path = cskl_path(CSKLClassifier(kernels, C=1.0), X[train], y[train])
exact = cskl_path(CSKLClassifier(kernels, C=1.0, exact=True), X[train], y[train])
chosen = CSKLClassifierCV(kernels, C=1.0, cv=5).fit(X[train], y[train])
print("t             ", *(f"{t:5.0f}" for t in path.values))
print("kernels       ", *(f"{k:5d}" for k in path.n_kernels))
print("accuracy, %   ", *(f"{100 * s:5.1f}" for s in path.scores(X[test], y[test])))
print("exactly t, %  ", *(f"{100 * s:5.1f}" for s in exact.scores(X[test], y[test])))
print(f"cross-validation takes t = {chosen.t_:g}: test accuracy {100 * chosen.score(X[test], y[test]):.1f} %")

# %%
figure, (left, right) = plt.subplots(1, 2, figsize=(10, 3.8), layout="constrained")
image = left.imshow(path.weights.T, aspect="auto", cmap="Blues", vmin=0.0, vmax=1.0, origin="upper")
left.set(xticks=range(12), xticklabels=range(1, 13), yticks=range(12), yticklabels=[k.name for k in kernels])
left.set(xlabel="t", title="weights: useful features first")
figure.colorbar(image, ax=left)
right.plot(path.values, 100 * path.scores(X[test], y[test]), "o-", label="weights that sum to t")
right.plot(exact.values, 100 * exact.scores(X[test], y[test]), "s--", label="exactly t kernels")
right.plot(chosen.ts_, 100 * chosen.scores_, ":", color="0.5", label="cross-validation on training samples")
right.axvline(chosen.t_, color="0.8", zorder=0)
right.set(xlabel="t", ylabel="accuracy (%)", title="simulated: 8 useful features, 4 noise")
right.legend(frameon=False)
plt.show()
