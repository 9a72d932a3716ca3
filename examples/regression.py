"""
Regression: which kernel explains what
======================================

The simulated target is the sum of a trend, a yearly cycle and a response to temperature, with a few wild outliers.
Each part has its own kernel. The model learns how much each kernel counts, and a prediction splits into the parts
again.
"""

import matplotlib.pyplot as plt
import numpy as np

from multikernel import SVRGMKLRegressor
from multikernel.kernels import RBF, FromFunction

rng = np.random.default_rng(0)
day = np.sort(rng.uniform(0, 4 * 365, 500))
temperature = rng.normal(size=500)
parts = [day / 365, 1.5 * np.sin(2 * np.pi * day / 365), 1.2 * np.tanh(2 * temperature)]
y = sum(parts) + 0.3 * rng.normal(size=500)
y[rng.choice(500, 25, replace=False)] += rng.choice([-6.0, 6.0], 25)
X = np.column_stack([day, temperature, rng.normal(size=500)])
train, test = np.arange(500) % 2 == 0, np.arange(500) % 2 == 1

# %%
# The periodic kernel is a function of two blocks of samples. The others are RBF kernels on one column each; the last
# one reads a column of noise.
kernels = [
    RBF(bandwidth="4*mean", columns=[0], name="trend"),
    FromFunction(function=lambda A, B: np.exp(-4 * np.sin(np.pi * (A - B.T) / 365) ** 2), columns=[0], name="season"),
    RBF(columns=[1], name="temperature"),
    RBF(columns=[2], name="noise"),
]

# %%
# The Huber loss is less sensitive to outliers than the squared loss.
models = {}
for loss in ("squared", "huber"):
    model = SVRGMKLRegressor(kernels, p=1.25, C=10.0, loss=loss, delta=0.5, normalize="variance", random_state=0)
    models[loss] = model.fit(X[train], y[train])
    error = np.sqrt(np.mean((model.predict(X[test]) - sum(parts)[test]) ** 2))
    weights = ", ".join(f"{name} {w:.2f}" for name, w in zip(model.kernel_names_, model.weights_))
    print(f"{loss:8s} error {error:.3f}; weights {weights}")

# %%
# Compare the contribution of each kernel with the part of the target that it should recover. Parts are determined
# only up to a constant.
shares = models["huber"].kernel_contributions(X[test])
figure, axes = plt.subplots(1, 4, figsize=(12, 3.2), layout="constrained")
axes[0].plot(day, y, ".", color="0.7", label="observed")
axes[0].plot(day[test], models["huber"].predict(X[test]), ".", markersize=3, label="Huber")
axes[0].set(xlabel="day", title="simulated, 5 % outliers")
axes[0].legend(frameon=False)
for ax, name, share, part, along in zip(axes[1:], ("trend", "season", "temperature"), shares.T, parts, (0, 0, 1)):
    ax.plot(X[test, along], part[test] - part[test].mean(), ".", color="0.7", label="truth")
    ax.plot(X[test, along], share - share.mean(), ".", markersize=3, label="found")
    ax.set(title=name, xlabel="day" if along == 0 else "temperature")
axes[1].legend(frameon=False)
plt.show()
