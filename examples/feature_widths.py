"""
One width per feature
=====================

Only two of ten simulated features determine the class: a ring in the plane, hidden among eight columns of noise. An
SVM with one RBF kernel treats all columns alike. A product of one kernel per column, with an l1 penalty, finds the
two.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.svm import SVC

from multikernel import GMKLClassifier

rng = np.random.default_rng(0)
X = rng.normal(size=(1000, 10))
y = X[:, 3] ** 2 + X[:, 7] ** 2 > 1.4
train, test = slice(0, 300), slice(300, None)

# %%
# Each fit starts from the previous one. The problem is not convex, so instead of a duality gap a solution reports the
# size of its projected gradient, ``stationarity_``.
penalties = [1.0, 3.0, 10.0, 30.0, 100.0]
widths, scores = [], []
model = GMKLClassifier(combination="product", regularizer="l1", warm_start=True)
for reg in penalties:
    model.set_params(reg=reg).fit(X[train], y[train])
    widths.append(model.weights_)
    scores.append(model.score(X[test], y[test]))
    print(
        f"reg {reg:5g}: {100 * scores[-1]:.1f} % correct, {model.n_kernels_} features, "
        f"stationarity {model.stationarity_:.1e}"
    )
svc = SVC().fit(X[train], y[train])
print(f"SVC on all features: {100 * svc.score(X[test], y[test]):.1f} % correct")

# %%
figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.5), layout="constrained")
for k, path in enumerate(np.transpose(widths)):
    matters = k in (3, 7)
    label = f"feature {k}" if matters else "noise" if k == 0 else None
    left.plot(penalties, path, "o-" if matters else "-", color=f"C{k}" if matters else "0.7", label=label)
left.set(xscale="log", xlabel="penalty", ylabel="inverse width", title="simulated ring in two of ten features")
left.legend(frameon=False)
right.semilogx(penalties, 100 * np.array(scores), "o-", label="one width per feature")
right.axhline(100 * svc.score(X[test], y[test]), color="0.5", linestyle="--", label="SVC, one width")
right.set(xlabel="penalty", ylabel="test accuracy (%)")
right.legend(frameon=False)
plt.show()
