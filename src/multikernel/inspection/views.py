"""Views of a model: kernels that look at the same columns are one source."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import is_classifier
from sklearn.model_selection import ShuffleSplit, StratifiedShuffleSplit
from sklearn.utils.validation import check_is_fitted

from multikernel.gram import DenseStack, GramStack

Views = dict[str, NDArray[np.intp]]


def find_views(model: Any, views: Any = None) -> Views:
    """Positions of the kernels of each view, by its name; ``views`` as for `view_importance`."""
    names = [str(name) for name in model.kernel_names_]
    if views is None:
        return {name: np.array([k]) for k, name in enumerate(names)} if model._family is None else model._family.views
    if isinstance(views, Mapping):
        found = {str(name): _positions(kernels, names, str(name)) for name, kernels in views.items()}
    else:
        labels = list(views)
        if len(labels) != len(names):
            raise ValueError(f"views has {len(labels)} labels for {len(names)} kernels: give one for each.")
        found = {str(label): np.flatnonzero([other == label for other in labels]) for label in dict.fromkeys(labels)}
    used = np.concatenate(list(found.values())) if found else np.zeros(0, dtype=np.intp)
    if len(np.unique(used)) < len(used):
        twice = names[int(np.bincount(used).argmax())]
        raise ValueError(f"kernel {twice!r} is in two views: a kernel belongs to one.")
    return found


def _positions(kernels: Any, names: list[str], view: str) -> NDArray[np.intp]:
    kernels = [kernels] if isinstance(kernels, (str, int, np.integer)) else list(kernels)
    if not kernels:
        raise ValueError(f"view {view!r} has no kernels.")
    for kernel in kernels:
        if isinstance(kernel, str) and kernel not in names:
            raise ValueError(f"view {view!r} names kernel {kernel!r}, which the model has not; see kernel_names_.")
        if not isinstance(kernel, str) and not 0 <= kernel < len(names):
            raise ValueError(f"view {view!r} names kernel {kernel}, but the model has {len(names)} kernels.")
    return np.array([names.index(kernel) if isinstance(kernel, str) else kernel for kernel in kernels], dtype=np.intp)


def final_model(model: Any, X: Any = None) -> tuple[Any, Any]:
    """The fitted estimator at the end of pipelines and searches, and what it is given for X."""
    check_is_fitted(model)
    model = best_of_search(model)
    while hasattr(model, "steps"):
        X = model[:-1].transform(X) if X is not None and len(model.steps) > 1 else X
        model = best_of_search(model.steps[-1][1])
    if not hasattr(model, "kernel_names_"):
        raise TypeError(f"{type(model).__name__} is no estimator of this library, and no pipeline that ends in one.")
    return model, X


def best_of_search(model: Any) -> Any:
    """What a search chose, or the model itself."""
    return getattr(model, "best_estimator_", model)


def pandas(function: str) -> Any:
    """The module, which only the tables of this package need."""
    try:
        import pandas as pd
    except ImportError:
        raise ImportError(f"{function} returns a data frame: pip install 'multikernel[tables]'") from None
    return pd


def random_splits(model: Any, y: NDArray, n_splits: int, test_size: float, rng: Any) -> Iterator[Any]:
    """Random splits of the samples, stratified where labels are classes."""
    splitter = StratifiedShuffleSplit if is_classifier(model) and y.ndim == 1 else ShuffleSplit
    return splitter(n_splits, test_size=test_size, random_state=rng).split(np.zeros(len(y)), y)


def start_from(new: Any, old: Any, kernels: Any = slice(None), samples: Any = slice(None)) -> None:
    """Have the next fit of ``new`` start from the solution of ``old``, on some of its kernels and samples."""
    weights, alpha = old.weights_[..., kernels], np.zeros((len(old.dual_coef_), old._n_train))
    if "warm_start" not in new.get_params(deep=False) or not (weights.max(axis=-1) > 0.0).all():
        return
    if old._on_features:  # coefficients are those of features: nothing to take over for other landmarks or kernels
        return
    alpha[:, old.support_] = old.dual_coef_
    alpha = alpha[:, samples]
    new.set_params(warm_start=True)
    new.weights_, new.support_, new._n_train = weights, np.flatnonzero(alpha.any(axis=0)), alpha.shape[1]
    new.dual_coef_ = alpha[:, new.support_]


class Parts:
    """What each kernel adds to the scores of samples X, and the model's answers when views change."""

    def __init__(self, model: Any, X: Any):
        self.model, self.X = model, X
        self._stack: NDArray | None = None
        self.additive = hasattr(model, "kernel_contributions")
        if self.additive:
            self.of_kernels = model._contributions(X)  # (m, F, T)
            self.total = self.of_kernels.sum(axis=1) + model.intercept_
        else:  # kernels that are multiplied: entries are kept instead
            self._stack = model._test_stack(X).to_array()

    def __len__(self) -> int:
        return len(self.total) if self._stack is None else self._stack.shape[1]

    def silent(self, kernels: Sequence[int] | NDArray) -> bool:
        """Whether these kernels add nothing to any score."""
        return self._stack is None and not self.of_kernels[:, kernels].any()

    def permuted(self, kernels: NDArray, order: NDArray | None = None) -> Any:
        """The model, as it answers for X when these kernels see the samples in another order."""
        stand_in = copy.copy(self.model)
        if self._stack is None:
            own = self.of_kernels[:, kernels].sum(axis=1)
            scores = self.total if order is None else self.total + (own[order] - own)
            stand_in._task_scores = lambda X: scores
        else:
            entries = self._stack
            if order is not None:
                entries = entries.copy()
                entries[kernels] = entries[kernels][:, order]
            stack: GramStack = DenseStack(entries, names=list(self.model.kernel_names_), symmetric=False)
            stand_in._test_stack = lambda X: stack
        return stand_in
