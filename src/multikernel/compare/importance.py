"""Which views matter to a method: its test samples of all splits with a view in random order."""

from __future__ import annotations

import time
from collections.abc import Sequence
from itertools import takewhile
from typing import Any

import numpy as np
from numpy.typing import NDArray

from multikernel.compare.results import ViewImportance
from multikernel.compare.tuning import Score
from multikernel.estimators.inputs import digest
from multikernel.inspection.importance import ORDERS, holm, permutation_p_value
from multikernel.inspection.views import Parts, Views

FEWEST = 19  # random orders, where the time does not allow all


def views_of(kernels: Any, names: Sequence[str]) -> Views:
    """Kernels on the same columns are a view, precomputed kernels each their own."""
    groups: dict[str, list[int]] = {}
    for k, name in enumerate(names):
        groups.setdefault(name if isinstance(kernels, str) else digest(kernels[k].columns), []).append(k)
    found: Views = {}
    for members in groups.values():
        first = names[members[0]]
        words = zip(*(names[k].split() for k in members))
        shared = " ".join(same[0] for same in takewhile(lambda same: len(set(same)) == 1, words))
        name = first.rpartition(" on ")[2] if " on " in first else shared
        if not isinstance(kernels, str) and kernels[members[0]].columns is None:
            name = "all columns"
        found[name if name and name not in found else first] = np.array(members)
    return found


class PooledParts:
    """What views add to the scores of a method's test samples, split by split."""

    def __init__(self, title: str, views: Views):
        self.title, self.views = title, views
        self.splits: list[tuple[Parts, NDArray]] = []

    def add(self, model: Any, testing: Any, y: NDArray) -> None:
        """One more split; nothing is kept for models whose scores are no sums over kernels."""
        if hasattr(model, "kernel_contributions"):
            parts = Parts(model, testing)
            parts.of_kernels = np.stack([parts.of_kernels[:, own].sum(axis=1) for own in self.views.values()], axis=1)
            parts.X = None
            self.splits.append((parts, y))

    def importance(self, score: Score, seconds: float, seed: int) -> ViewImportance:
        """Mean loss of the pooled score over random orders of a view, and p-values, in about so many seconds."""
        rng = np.random.default_rng(seed)
        start = time.perf_counter()
        baseline = self._score(score, None, rng)
        once = (time.perf_counter() - start) * len(self.views)
        n_orders = int(np.clip(seconds / once, FEWEST, ORDERS))
        scores = np.array([[self._score(score, v, rng) for _ in range(n_orders)] for v in range(len(self.views))])
        drops = baseline - scores
        p = holm(np.array([permutation_p_value(row, baseline) for row in scores]))
        return ViewImportance(
            self.title, list(self.views), drops.mean(axis=1).tolist(), drops.std(axis=1).tolist(), p.tolist()
        )

    def _score(self, score: Score, view: int | None, rng: np.random.Generator) -> float:
        """Mean score over the splits, by test samples, with one view in random order."""
        found = []
        for parts, y in self.splits:
            own = np.array([] if view is None else [view], dtype=np.intp)
            found.append(score(parts.permuted(own, rng.permutation(len(y))), None, y))
        return float(np.average(found, weights=[len(y) for _, y in self.splits]))
