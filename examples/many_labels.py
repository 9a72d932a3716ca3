"""
Many labels, one kernel
=======================

Genes of yeast have several functions at once, fourteen in all. One combination of kernels serves all labels: either
the best for all together (``"sum"``), or the best for the label that is hardest (``"max"``). Where
``MULTIKERNEL_DATA`` does not name a folder with the genes, simulated labels stand in.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_multilabel_classification
from sklearn.metrics import average_precision_score

from multikernel import MultilabelMKLClassifier
from multikernel.datasets import data_home
from multikernel.kernels import RBF, Linear

if data_home() is not None:
    data, archive = "yeast, 14 functions", np.load(data_home() / "yeast_ml.npz")
    X, Y = np.hstack([archive["view_00"], archive["view_01"]]).astype(float), archive["Y"].astype(int)
    views = {"expression": slice(0, 79), "phylogeny": slice(79, 103)}
else:
    data = "stand-in: simulated, 8 labels"
    X, Y = make_multilabel_classification(900, 30, n_classes=8, n_labels=3, random_state=0)
    views = {"first half": slice(0, 15), "second half": slice(15, 30)}
train, test = slice(0, 600), slice(600, 900)
X = (X - X[train].mean(axis=0)) / X[train].std(axis=0)
kernels = [Linear(columns=columns, name=f"{view}, linear") for view, columns in views.items()]
for width in (0.25, 1, 4):
    kernels += [RBF(bandwidth=f"{width}*mean", columns=c, name=f"{view}, rbf {width}") for view, c in views.items()]

# %%
# Kernels on one scale first, then one fit for each objective. ``label_weights_`` says which labels decided about the
# kernel: for "max" the hardest, for "sum" all alike.
models, precision = {}, {}
for objective in ("sum", "max"):
    model = MultilabelMKLClassifier(kernels, objective=objective, C=1.0, normalize="variance").fit(X[train], Y[train])
    models[objective] = model
    precision[objective] = average_precision_score(Y[test], model.decision_function(X[test]), average=None)
    decisive = np.flatnonzero(model.label_weights_ > 0.01).tolist()
    print(f"{objective}: labels {decisive} decide, mean average precision {precision[objective].mean():.3f}")

# %%
figure, (left, right) = plt.subplots(1, 2, figsize=(10, 3.8), layout="constrained")
rows = np.arange(len(kernels))
for k, (objective, model) in enumerate(models.items()):
    left.barh(rows + 0.4 * k - 0.2, model.weights_, height=0.4, label=f"objective {objective!r}")
left.set(yticks=rows, yticklabels=models["sum"].kernel_names_, xlabel="weight", title=data)
left.legend(frameon=False)
right.plot(Y[test].mean(axis=0), precision["sum"], "o", label="'sum'")
right.plot(Y[test].mean(axis=0), precision["max"], "x", label="'max'")
right.plot([0, 1], [0, 1], color="0.8", label="guessing")
right.set(xlabel="share of samples that have the label", ylabel="average precision", title="one point a label")
right.legend(frameon=False)
plt.show()
