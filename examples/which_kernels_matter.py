"""
Which kernels matter?
=====================

There are thirty measurements of cell nuclei, with one RBF kernel each. Which of them does a classifier need, and what
does each kernel contribute to a particular decision?
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler

from multikernel import KernelAverageClassifier, MKLClassifier
from multikernel.kernels import RBF

data = load_breast_cancer()
A, B, y_train, y_test = train_test_split(data.data, data.target, random_state=0, stratify=data.target)
scaler = StandardScaler().fit(A)
A, B = scaler.transform(A), scaler.transform(B)
kernels = [RBF(columns=[j], name=str(name)) for j, name in enumerate(data.feature_names)]

# %%
# The norm p of the weights controls how many kernels remain: p = 1 switches most of them off, while p = 2 keeps them
# all, with unequal weights.
average = KernelAverageClassifier(kernels, C=10.0).fit(A, y_train)
sparse = MKLClassifier(kernels, p=1.0, C=10.0).fit(A, y_train)
smooth = MKLClassifier(kernels, p=2.0, C=10.0).fit(A, y_train)
for title, model in {"average": average, "p = 1": sparse, "p = 2": smooth}.items():
    print(f"{title:8s} {model.n_kernels_:2d} kernels, test accuracy {100 * model.score(B, y_test):.1f} %")

# %%
# A weight says how much a kernel counts overall, not what it contributes to the decision on one sample.
# ``kernel_contributions`` splits a score into parts that, with the intercept, sum to it. The tumour shown is the one
# that the sparse model is least sure about.
shares = sparse.kernel_contributions(B)
unsure = int(np.abs(sparse.decision_function(B)).argmin())
assert np.allclose(shares.sum(axis=1) + sparse.intercept_, sparse.decision_function(B))

order = np.argsort(-sparse.weights_)[: sparse.n_kernels_][::-1]
names = sparse.kernel_names_[order]
figure, (left, right) = plt.subplots(1, 2, figsize=(9, 4.5), sharey=True, layout="constrained")
left.barh(names, smooth.weights_[order] / smooth.weights_.sum(), color="0.8", label="p = 2")
left.barh(names, sparse.weights_[order], height=0.4, label="p = 1")
left.set(title=f"weights: {sparse.n_kernels_} of {len(kernels)} kernels", xlabel="share of the weight")
left.legend(frameon=False)
signs = shares[unsure, order]
right.barh(names, signs, color=np.where(signs > 0, "C2", "C3"))
right.axvline(0.0, color="0.3", linewidth=0.8)
right.set(title=f"one decision: {sparse.decision_function(B)[unsure]:+.2f}", xlabel="malignant ←  share  → benign")
plt.show()
