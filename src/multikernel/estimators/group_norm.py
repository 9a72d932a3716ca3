"""What classifiers share that solve one multiclass problem on a group norm of w."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import KW_ONLY, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from multikernel.estimators.average_loss import AverageLossMachine
from multikernel.estimators.base import count_kernels
from multikernel.estimators.classifier import KernelSVMClassifier
from multikernel.estimators.parameters import estimator
from multikernel.estimators.tasks import Tasks
from multikernel.gram import GramStack, parse_memory
from multikernel.io.state import attributes, only
from multikernel.problems.losses.hinge import MulticlassHinge
from multikernel.problems.obscure import GroupNormProblem
from multikernel.runtime.monitor import Result


@estimator
class GroupNormClassifier(AverageLossMachine, KernelSVMClassifier):
    """Base class: one multiclass problem on a group norm of w, without a bias.

    Parameters
    ----------
    cost : array of shape (M, M), optional
        Cost of answering ``classes_[r]`` (column) where ``classes_[y]`` (row) is right.
    class_weight : dict, "balanced" or None
        Factor of the sample weights for each class.
    max_iter : int
        Maximum number of epochs.

    Attributes
    ----------
    dual_coef_ : ndarray of shape (M, n_support), (1, n_support) for two classes
        Signed dual coefficients; for two classes those of the difference of the two scores.
    support_ : ndarray of shape (n_support,)
        Training samples with a coefficient.
    intercept_ : ndarray of shape (M,) or (1,)
        Zero.
    objective_, dual_gap_ : float
        f(w), and the absolute duality gap that bounds its distance from the optimum.
    n_iter_ : int
        Number of epochs.
    """

    _: KW_ONLY
    cost: Any = None
    tol: float = 1e-2
    max_iter: int = 2000

    _state = attributes(_stream=only(None))

    @abstractmethod
    def _group_norm(self, n_kernels: int) -> float:
        """The p of the group norm on w."""

    def _sparsity(self) -> float:
        return 0.0

    def _problems(self, stack: GramStack, tasks: Tasks, sample_weight: NDArray) -> Sequence[GroupNormProblem]:
        codes = np.searchsorted(self.classes_, tasks.labels)
        loss = MulticlassHinge(codes, len(self.classes_), sample_weight, self.cost)
        lam, p = self._lambda(loss.total_weight), self._group_norm(stack.n_kernels)
        return [GroupNormProblem(stack, loss, lam, p, sparsity=self._sparsity(), memory=parse_memory(self.memory))]

    def _store(self, results: list[Result], intercepts: Sequence[Any]) -> None:
        (result,) = results
        alpha = np.asarray(result.alpha)
        if alpha.shape[1] == 2:  # one task: the difference of the two scores
            alpha = alpha[:, 1:] - alpha[:, :1]
        super()._store([replace(result, alpha=alpha)], intercepts)
        self.n_iter_ = int(self.history_[-1].get("epoch", self.n_iter_)) if self.history_ else 0
        self._finish(len(self.dual_coef_))
        self._stream: Any = None

    def _finish(self, n_tasks: int) -> None:
        """Attributes that follow from weights and coefficients."""
        self.intercept_ = np.zeros(n_tasks)
        self.n_kernels_ = count_kernels(self.weights_)
