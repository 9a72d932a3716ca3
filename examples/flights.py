"""
Six sources, one of them missing for some
=========================================

Will a flight arrive more than 15 minutes late? Calendar, clock, route, carrier, weather and plane each have something
to say, but the plane of one flight in seven is unknown. Which sources does the model rely on? Without
``MULTIKERNEL_DATA``, simulated tables stand in.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.metrics import roc_auc_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from multikernel import MKLClassifier
from multikernel.datasets import data_home, make_views
from multikernel.inspection import ViewImportanceDisplay, view_importance
from multikernel.kernels import kernel_grid

rng = np.random.default_rng(0)
names = ["calendar", "clock", "route", "carrier", "weather", "plane"]
if data_home() is not None:
    data, archive = "flights from New York, 2013", np.load(data_home() / "flights.npz")
    rows = rng.choice(len(archive["y"]), 4000, replace=False)
    X, y, starts = archive["X"][rows], archive["y"][rows], archive["offsets"]
else:
    data, made = "simulated stand-in", make_views(2000, 4, 2, separation=1.0, random_state=0)
    X, y, starts = made.X, made.y, np.linspace(0, made.X.shape[1], 7).astype(int)
    X[rng.random(len(X)) < 0.15, starts[5] :] = np.nan
views = {name: slice(start, stop) for name, start, stop in zip(names, starts[:-1], starts[1:])}

# %%
# A flight whose plane is unknown is NaN in all columns of that view. ``missing="mask"`` relies on its other views.
half = len(X) // 2
kernels = kernel_grid(views, ["rbf"], ["mean"])
model = make_pipeline(StandardScaler(), MKLClassifier(kernels, p=2.0, missing="mask", class_weight="balanced"))
model.fit(X[:half], y[:half])
print("missing in training:", model[-1].n_missing_)

# %%
# How much of the area under the ROC curve is lost if a view is shuffled among the held-out flights? And are flights
# without a plane judged worse than the others?
importance = view_importance(model, X[half:], y[half:], scoring="roc_auc", random_state=0)
scores, known = model.decision_function(X[half:]), ~np.isnan(X[half:, views["plane"]]).all(axis=1)
for group, chosen in {"plane known": known, "plane unknown": ~known}.items():
    print(f"{group}: {chosen.sum()} flights, AUC {roc_auc_score(y[half:][chosen], scores[chosen]):.3f}")
ViewImportanceDisplay.from_results(importance).ax_.set(title=data)
plt.show()
