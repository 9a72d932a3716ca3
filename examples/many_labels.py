"""
Many labels, one kernel
=======================

A yeast gene can have several of fourteen functions at once. One combination of kernels serves all labels: either the
best for their sum (``"sum"``) or the best for the hardest label (``"max"``). If ``MULTIKERNEL_DATA`` is not set to a
folder with the genes, simulated labels stand in.
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
# Put the kernels on one scale and fit both objectives. ``label_weights_`` shows which labels determine the kernel:
# the hardest for "max", all of them equally for "sum".
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
right.set(xlabel="share of samples with the label", ylabel="average precision", title="one point per label")
right.legend(frameon=False)
plt.show()
