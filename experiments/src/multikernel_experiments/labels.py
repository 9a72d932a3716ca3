"""Experiments with tables of labels: their score, and methods that learn a kernel for each label on its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import average_precision_score

from multikernel.estimators.registry import Method, available
from multikernel.inspection.stability import weight_shares
from multikernel_experiments.protocol import Entry


def mean_average_precision(model: Any, stack: Any, Y: NDArray) -> float:
    """Mean over labels of the area under the precision-recall curve, as average precision.

    Y holds signs (m, M). Entries of 0 are left out, and so are labels without samples of both signs.
    """
    scores = model.decision_function(stack)
    areas = []
    for f, signs in zip(scores.T, Y.T):
        used = signs != 0
        if np.unique(signs[used]).size == 2:
            areas.append(average_precision_score(signs[used] > 0, f[used]))
    return float(np.mean(areas)) if areas else float("nan")


class PerLabel:
    """A binary method fitted to each label of a table, on the samples where the label is known.

    Parameters
    ----------
    kernels : str
        "precomputed".
    method : str
        A name of the registry of methods.
    psd : str
        Of the estimators.
    **params
        Parameters of the estimators; ``groups="descriptor"`` makes a group of kernels whose names begin with the same
        word. The average is made once for all labels.
    """

    def __init__(self, kernels: Any = "precomputed", method: str = "mkl", psd: str = "raise", **params: Any) -> None:
        self.kernels, self.method, self.psd, self.params = kernels, method, psd, params

    def set_params(self, **params: Any) -> PerLabel:
        """Change parameters of the estimators."""
        self.params |= params
        return self

    def fit(self, stack: Any, Y: NDArray) -> PerLabel:
        """Fit a model for each column of the signs Y, shape (n, M)."""
        params = dict(self.params)
        if params.get("groups") == "descriptor":
            params["groups"] = [str(name).split()[0] for name in stack.names]
        stack = self._shown(stack)
        self.models_, self.known_ = [], []
        for signs in Y.T:
            known = np.flatnonzero(signs)
            part = stack if len(known) == len(signs) else stack.take(known, known)
            model = available()[self.method].make(self.kernels, psd=self.psd, **params)
            self.models_.append(model.fit(part, signs[known]))
            self.known_.append(known)
        self.weights_ = np.array([weight_shares(model) for model in self.models_])
        self.objective_ = np.array([np.sum(model.objective_) for model in self.models_])
        self.dual_gap_ = np.array([np.sum(model.dual_gap_) for model in self.models_])
        self.n_kernels_ = np.array([model.n_kernels_ for model in self.models_])
        self.converged_ = all(model.converged_ for model in self.models_)
        return self

    def decision_function(self, stack: Any) -> NDArray[np.float64]:
        """Scores (m, M)."""
        stack = self._shown(stack)
        return np.column_stack(
            [model.decision_function(stack.take(columns=known)) for model, known in zip(self.models_, self.known_)]
        )

    def predict(self, stack: Any) -> NDArray[np.int64]:
        """Signs (m, M)."""
        return np.where(self.decision_function(stack) > 0.0, 1, -1)

    def _shown(self, stack: Any) -> Any:
        """What the models see of a stack: for the average one kernel, which need not be made for each label."""
        from multikernel.gram import DenseStack

        if self.method != "average":
            return stack
        mean = stack.combine(np.full(stack.n_kernels, 1.0 / stack.n_kernels))
        similarity = stack.diagonal().mean(axis=0, keepdims=True)
        return DenseStack(
            mean[None],
            ["average"],
            symmetric=stack.symmetric,
            self_similarity=None if stack.symmetric else similarity,
        )


@dataclass(frozen=True)
class PerLabelEntry(Entry):
    """An entry whose method is fitted label by label."""

    def registered(self) -> Method:
        method = super().registered()
        params = {**method.params, "method": self.method}
        return replace(method, estimator=PerLabel, params=params)


def signs_of_classes(y: NDArray, classes: Sequence[Any] | NDArray) -> NDArray[np.float64]:
    """One label a class: a table of +1 and −1, shape (n, len(classes)).

    Examples
    --------
    >>> import numpy as np
    >>> from multikernel_experiments.labels import signs_of_classes
    >>> signs_of_classes(np.array([3, 5, 9]), [5, 3])
    array([[-1.,  1.],
           [ 1., -1.],
           [-1., -1.]])
    """
    return np.where(np.asarray(y)[:, None] == np.asarray(classes)[None, :], 1.0, -1.0)
