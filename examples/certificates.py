"""
Certificates and convergence
============================

Every fit comes with a lower and an upper bound on the optimum. They depend only on the answer, not on the solver that
found it. This puts solvers on an equal footing, and tells you how good a solution is even if the fit was cut short.
"""

import warnings

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.exceptions import ConvergenceWarning

from multikernel import MKLClassifier
from multikernel.inspection import ConvergenceDisplay
from multikernel.kernels import RBF

X, y = load_breast_cancer(return_X_y=True)
X = (X - X.mean(axis=0)) / X.std(axis=0)
kernels = [RBF(columns=[j], bandwidth=f"{width}*mean") for j in range(15) for width in (0.25, 1)]

# %%
# Four solvers for the same problem: p = 1 with 30 kernels. They agree up to the requested gap, but some take longer.
models = {}
for solver in ("newton", "level", "silp", "simplemkl"):
    model = models[solver] = MKLClassifier(kernels, p=1.0, C=10.0, solver=solver, tol=1e-3).fit(X, y)
    print(f"{solver:10s} objective {model.objective_:.4f}, gap {model.dual_gap_:.1e}, {model.n_iter_} iterations")

# %%
# The right panel shows the best bounds so far: they close in on the optimum from both sides.
figure, (left, right) = plt.subplots(1, 2, figsize=(10, 3.8), layout="constrained")
for solver, model in models.items():
    ConvergenceDisplay.from_estimator(model, ax=left, name=solver)
left.set_title("breast cancer, 30 kernels")
rows = models["level"].history_
upper = np.minimum.accumulate([row["objective"] for row in rows])
lower = np.maximum.accumulate([row["objective"] - row["gap"] for row in rows])
steps = np.arange(1, len(rows) + 1)
right.fill_between(steps, lower, upper, alpha=0.2)
right.plot(steps, upper, label="value of the best weights so far")
right.plot(steps, lower, label="lower bound proved so far")
right.set(xlabel="iteration of the level method", title="where the optimum must lie")
right.set_ylim(0.5 * lower[-1], 1.3 * upper[-1])
right.legend(frameon=False)
plt.show()

# %%
# A fit that stops early warns, and its gap is still valid: no weights can improve the objective by more than that.
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always", ConvergenceWarning)
    hasty = MKLClassifier(kernels, p=1.0, C=10.0, max_iter=2).fit(X, y)
print(caught[0].message)
assert hasty.objective_ - hasty.dual_gap_ <= models["newton"].objective_ <= hasty.objective_
