"""
Learning from a stream
======================

Samples arrive in batches and are never seen again. ``partial_fit`` updates the kernel weights and the classifier with
each batch. A budget limits the number of support vectors, and so the memory and the prediction time.
"""

import matplotlib.pyplot as plt
import numpy as np

from multikernel import ObscureClassifier
from multikernel.datasets import data_home, load_digits_quadrants
from multikernel.kernels import RBF

if data_home() is not None:
    data, archive = "MNIST, images in quadrants", np.load(data_home() / "mnist.npz")
    image = archive["X_train"][:2000].reshape(-1, 28, 28).astype(np.float32) / 255.0
    X = np.hstack([image[:, r : r + 14, c : c + 14].reshape(-1, 196) for r in (0, 14) for c in (0, 14)])
    y = archive["y_train"][:2000]
else:
    data, digits = "stand-in: digits in quadrants", load_digits_quadrants()
    X, y = digits.X, digits.y
names = ["top left", "top right", "bottom left", "bottom right"]
quarters = np.split(np.arange(X.shape[1]), 4)
kernels = [RBF(columns=columns, name=name) for columns, name in zip(quarters, names)]
X = np.hstack([X, np.random.default_rng(0).random((len(X), 20))])
kernels.append(RBF(columns=slice(-20, None), name="noise"))

# %%
# Each batch is predicted before the model learns from it, so mistakes are counted on unseen samples. The first call
# must list all classes that will ever occur.
batches = np.array_split(np.arange(len(X)), 40)
budgets, models, mistakes = (None, 500), {}, {}
for budget in budgets:
    model = models[budget] = ObscureClassifier(kernels, p=1.1, budget=budget)
    wrong = []
    for k, batch in enumerate(batches):
        if k > 0:
            wrong.append(np.mean(model.predict(X[batch]) != y[batch]))
        model.partial_fit(X[batch], y[batch], classes=np.arange(10))
    mistakes[budget] = 100 * np.convolve(wrong, np.ones(5) / 5, mode="valid")
    print(f"budget {budget!s:4s}: {model.n_mistakes_} mistakes, {len(model.support_)} support vectors at the end")

# %%
# The kernel on random numbers never gets a noticeable weight.
weights = np.stack([row["weights"] for row in models[None].history_])
seen = [row["seen"] for row in models[None].history_]
figure, (left, right) = plt.subplots(1, 2, figsize=(10, 3.6), layout="constrained")
for budget in budgets:
    left.plot(seen[5:], mistakes[budget], label="all support vectors" if budget is None else f"at most {budget}")
left.set(xlabel="samples seen", ylabel="errors in the last five batches (%)", title=data, ylim=(0, None))
left.legend(frameon=False)
right.plot(seen, weights, label=[kernel.name for kernel in kernels])
right.set(xlabel="samples seen", ylabel="weight", title="kernel weights")
right.legend(frameon=False, loc="center left", bbox_to_anchor=(1.0, 0.5))
plt.show()
