"""
Which pathways matter, and how sure is that?
============================================

From tables of counts to a figure of pathways: RNA and protein, which some patients lack; a kernel for each gene set
in each table; and how stable their weights are. The counts are simulated, so the right answer is known: pathways 0
and 1 follow the subtype in RNA, pathway 2 in protein.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from multikernel import MKLClassifier
from multikernel.inspection import WeightStabilityDisplay, results_frame, view_importance, weight_stability
from multikernel.kernels import join_views, kernel_grid

rng = np.random.default_rng(0)
genes = np.array([f"G{k}" for k in range(240)])
# pathways overlap, and name genes that nobody measured; read_gmt gives such a dict of a file
sets = {f"pathway {k}": [*rng.choice(genes[20 * k : 20 * k + 30], 16, replace=False), f"X{k}"] for k in range(12)}
patients = pd.Index([f"p{k}" for k in range(240)])
y = pd.Series(rng.permutation(np.arange(240) % 2), index=patients)


def simulated_counts(measured, active):
    """Negative binomial counts of each patient's own depth; the genes of active pathways follow the subtype."""
    shift = np.isin(measured, [gene for k in active for gene in sets[f"pathway {k}"]])
    shift = 0.35 * shift * rng.choice([-1, 1], len(measured))
    log_mean = rng.normal(2.0, 1.0, len(measured)) + np.outer(y - 0.5, shift)
    depth = rng.uniform(0.5, 2.0, (len(patients), 1))
    return pd.DataFrame(rng.poisson(rng.gamma(4.0, depth * np.exp(log_mean) / 4.0)), patients, measured)


rna = simulated_counts(genes, active=[0, 1]).iloc[:200]
protein = simulated_counts(genes[::2], active=[2]).iloc[40:].sample(frac=1.0, random_state=0)

# %%
# Counts are divided by each patient's depth and put on a log scale. Tables are joined by patient: those who lack one
# have NaN there, which ``missing="mask"`` takes. With a MuData it would be ``join_views(mdata)``.
tables = {"rna": rna, "protein": protein}
X, columns = join_views({name: np.log1p(1e4 * t.div(t.sum(axis=1), axis=0)) for name, t in tables.items()})
kernels = kernel_grid(sets, ["rbf"], ["mean"], columns=X, min_size=5)
print(X.shape, X.isna().any(axis=1).sum(), "patients lack a table;", len(kernels), "kernels")

# %%
# A third of the patients is held out for the importance of views; weights are refitted on halves of the others.
train = rng.permutation(patients)[:160]
test = patients.difference(train)
model = make_pipeline(StandardScaler(), MKLClassifier(kernels, missing="mask")).fit(X.loc[train], y[train])
stability = weight_stability(model, X.loc[train], y[train], n_resamples=20, random_state=0)
importance = view_importance(model, X.loc[test], y[test], scoring="roc_auc", random_state=0)
table = results_frame(model, importance, stability).sort_values("frequency", ascending=False)
print(f"accuracy {model.score(X.loc[test], y[test]):.2f}")
print(table[["view", "share", "p_value", "low", "high", "frequency"]].head(6).round(2).to_string(index=False))
WeightStabilityDisplay.from_results(stability, max_kernels=10).ax_.set_title("simulated counts")
plt.show()
