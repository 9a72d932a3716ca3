"""
Image descriptors
=================

Seventeen species of flowers and seven descriptors of colour, shape and texture, each with a matrix of distances
between images. No single descriptor is good enough, but together they are, and the simplest combination is hard to
beat. If ``MULTIKERNEL_DATA`` is not set to a folder with the flowers, digits cut into quadrants stand in.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.metrics.pairwise import euclidean_distances
from sklearn.model_selection import train_test_split

from multikernel import KernelAverageClassifier, MKFDAClassifier, MKLClassifier
from multikernel.datasets import data_home, load_digits_quadrants
from multikernel.kernels import FromDistance

if data_home() is not None:
    data, archive = "Flower17", np.load(data_home() / "flower17_dist.npz")
    y, names = archive["y"], [str(name) for name in archive["names"]]
    D = np.zeros((len(y), len(y), len(names)), dtype=np.float32)
    D[np.triu_indices(len(y), 1)] = archive["D_triu"].T
    D += D.transpose(1, 0, 2)
    train, test = np.concatenate([archive["trn1"], archive["val1"]]), archive["tst1"]
else:
    data, digits = "stand-in: digits in quadrants", load_digits_quadrants()
    y, names = digits.y, list(digits.views)
    D = np.stack([euclidean_distances(digits.X[:, v], squared=True) for v in digits.views.values()], axis=-1)
    train, test = train_test_split(np.arange(len(y)), test_size=0.4, random_state=0, stratify=y)

# %%
# ``FromDistance`` turns distances D into kernels exp(−D / mean D), with the mean over the training images. Fitting
# takes the distances between training images, prediction the distances from new images to training images.
kernels = [FromDistance(columns=f, name=name) for f, name in enumerate(names)]
D_train, D_test = D[np.ix_(train, train)], D[np.ix_(test, train)]


def accuracy(model) -> float:
    return 100 * model.fit(D_train, y[train]).score(D_test, y[test])


scores = {name: accuracy(KernelAverageClassifier([kernel], C=10.0)) for name, kernel in zip(names, kernels)}
scores["average of all"] = accuracy(KernelAverageClassifier(kernels, C=10.0))
scores["MKL, p = 2"] = accuracy(model := MKLClassifier(kernels, p=2.0, C=10.0))
scores["MK-FDA, p = 2"] = accuracy(MKFDAClassifier(kernels, p=2.0, reg=1e-4))
print("\n".join(f"{name:20s} {score:.1f} %" for name, score in scores.items()))

# %%
figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
bars = left.barh(list(scores), list(scores.values()), color=["0.75"] * len(names) + ["C0", "C1", "C2"])
left.bar_label(bars, fmt="%.1f", padding=3, fontsize=8)
left.set(xlim=(0, 118), xlabel="test accuracy (%)", title=data)
left.invert_yaxis()
right.scatter([scores[name] for name in names], model.weights_)
for name, weight in zip(names, model.weights_):
    right.annotate(name, (scores[name], weight), xytext=(4, 4), textcoords="offset points", fontsize=8)
right.margins(0.2)
right.set(xlabel="accuracy of the kernel alone (%)", ylabel="weight in MKL", title="a weight is not an accuracy")
plt.show()
