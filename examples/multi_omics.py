"""
Several kinds of measurements, one of them missing
==================================================

Predict the subtype of breast tumours from mRNA, miRNA and protein, when protein was not measured in the test samples.
Leave it out, drop its share of the scores, or fill it in? Without ``MULTIKERNEL_DATA``, simulated tables stand in.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.neighbors import KNeighborsRegressor
from sklearn.preprocessing import StandardScaler

from multikernel import MKLClassifier
from multikernel.datasets import data_home, make_views
from multikernel.kernels import RBF, join_views

parts = {"train": ("mrna", "mirna", "protein"), "test": ("mrna", "mirna")}
if data_home() is not None:
    data, archive = "TCGA breast cancer", np.load(data_home() / "breast_tcga.npz")
    train, test = ({v: archive[f"{v}_{part}"] for v in views} for part, views in parts.items())
    y_train, y_test = (archive["classes"][archive[f"y_{part}"]] for part in parts)
else:
    data, made = "simulated stand-in", make_views(220, 3, 0, n_classes=3, separation=2.5, random_state=0)
    tables = dict(zip(parts["train"], np.split(made.X, 3, axis=1)))
    train, test = {v: tables[v][:150] for v in tables}, {v: tables[v][150:] for v in parts["test"]}
    y_train, y_test = made.y[:150], made.y[150:]

test = {view: StandardScaler().fit(train[view]).transform(table) for view, table in test.items()}
train = {view: StandardScaler().fit_transform(table) for view, table in train.items()}
X, columns = join_views(train)
kernels = [RBF(columns=place, name=view) for view, place in columns.items()]

# %%
# Fit one model on all three views and one on the two that the test samples have, both with separate weights per
# class.
full = MKLClassifier(kernels, p=2.0, C=10.0, weights="per-class").fit(X, y_train)
two = MKLClassifier(kernels[:2], p=2.0, C=10.0, weights="per-class").fit(X, y_train)
for label, row in zip(full.classes_, full.weights_):
    print(label, dict(zip(full.kernel_names_.tolist(), row.round(2).tolist())))

# %%
# A score is a sum over kernels, so the missing view can be dropped from it. To fill the view in instead, give each
# new sample the mean protein values of the five training samples with the most similar RNA.
measured = np.hstack([test["mrna"], test["mirna"]])
blank = np.hstack([measured, np.zeros((len(measured), train["protein"].shape[1]))])
present = full.kernel_contributions(blank)[:, :2].sum(axis=1) + full.intercept_
neighbours = KNeighborsRegressor(5).fit(X[:, : measured.shape[1]], train["protein"])
accuracy = {
    "two views only": two.score(blank, y_test),
    "three views,\nprotein's share dropped": np.mean(full.classes_[present.argmax(axis=1)] == y_test),
    "three views,\nprotein filled in": full.score(np.hstack([measured, neighbours.predict(measured)]), y_test),
}
figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.2), width_ratios=(1, 1.5), layout="constrained")
left.imshow(full.weights_, cmap="Blues", vmin=0.0, aspect="auto")
left.set(xticks=range(3), xticklabels=full.kernel_names_, yticks=range(3), yticklabels=full.classes_, title="weights")
bars = right.barh(list(accuracy), [100 * value for value in accuracy.values()])
right.bar_label(bars, fmt="%.1f", label_type="edge", padding=-30, color="white")
right.set(xlabel="test accuracy (%)", title=data)
plt.show()
