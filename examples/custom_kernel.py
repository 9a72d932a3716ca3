"""
Writing your own kernel
=======================

Any function that takes two blocks of samples and returns a matrix can serve as a kernel. Here the samples are DNA
strings, and the kernel of order k counts the words of k letters that two strings share. MKL finds out which k
matters.
"""

import matplotlib.pyplot as plt
import numpy as np

from multikernel import KernelAverageClassifier, MKLClassifier
from multikernel.kernels import FromFunction

# %%
# Simulate strings of 60 letters, coded as 0 to 3. Half of them contain a hidden five-letter word, TATAC or its
# reverse, at a random position. Single letters carry no information.
rng = np.random.default_rng(0)
X = rng.integers(0, 4, size=(600, 60))
y = rng.permutation(np.arange(600) % 2)
word = np.array(["ACGT".index(letter) for letter in "TATAC"])
for row in np.flatnonzero(y):
    start = rng.integers(0, 55)
    X[row, start : start + 5] = word[:: rng.choice([-1, 1])]


def words(X: np.ndarray, k: int) -> np.ndarray:
    """Count each of the 4**k words in each string, shape (n, 4**k)."""
    codes = sum(4**j * X[:, j : X.shape[1] - k + 1 + j].astype(int) for j in range(k))
    return np.stack([np.bincount(row, minlength=4**k) for row in codes]).astype(float)


kernels = [FromFunction(function=lambda A, B, k=k: words(A, k) @ words(B, k).T, name=f"k = {k}") for k in range(1, 8)]

# %%
# The rest works as for any other kernel: normalise (long words are rare, so their kernels are small off the
# diagonal), fit, and look at the weights.
train, test = slice(0, 300), slice(300, None)
alone = [
    KernelAverageClassifier([kernel], C=10.0, normalize=["cosine", "center"]).fit(X[train], y[train])
    for kernel in kernels
]
scores = [100 * model.score(X[test], y[test]) for model in alone]
model = MKLClassifier(kernels, p=1.0, C=10.0, normalize=["cosine", "center"]).fit(X[train], y[train])
together = 100 * model.score(X[test], y[test])
for kernel, weight, score in zip(kernels, model.weights_, scores):
    print(f"{kernel.name}: weight {weight:.2f}, alone {score:.1f} % correct")
print(f"together {together:.1f} % correct")

figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.4), layout="constrained")
left.bar(model.kernel_names_, model.weights_)
left.set(ylabel="weight", title="simulated strings with a hidden 5-letter word")
right.bar(model.kernel_names_, scores, color="0.75")
right.axhline(together, color="C0", label="all, learnt weights")
right.axhline(50.0, color="0.4", linestyle=":", label="guessing")
right.set(ylabel="test accuracy (%)", ylim=(40, 100), title="each kernel alone")
right.legend(frameon=False)
plt.show()
