"""What the classifiers share that have coefficients of their own for each kernel."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from multikernel.estimators.classifier import KernelSVMClassifier
from multikernel.gram import GramStack
from multikernel.gram.base import times
from multikernel.io.state import attributes, reals
from multikernel.runtime.monitor import Result

Array = NDArray[np.float64]


class ExpansionClassifier(KernelSVMClassifier):
    """Base class: scores Σ_j v_jt K_j alpha_jt + b_t, with coefficients for each kernel j and task t.

    A subclass says what v is (``_factors``).
    """

    _state = attributes(dual_coef_=reals("kernels", "tasks", "support"))

    @abstractmethod
    def _factors(self) -> Array:
        """v, shape (F, T)."""

    def _store_expansions(self, result: Result, alpha: Array, intercepts: Sequence[Any]) -> None:
        """Fitted attributes of one result, with ``alpha`` (F, n, T) in place of its own."""
        n_kernels, n_samples, n_tasks = alpha.shape
        flat = np.moveaxis(alpha, 1, 0).reshape(n_samples, n_kernels * n_tasks)
        self._store([replace(result, alpha=flat)], intercepts)
        self.dual_coef_ = self.dual_coef_.reshape(n_kernels, n_tasks, -1)

    # -- predict -----------------------------------------------------------------------------------------------

    def _parts(self, stack: GramStack, used: NDArray[np.intp]) -> Array:
        """K_j alpha_jt of the kernels ``used``, shape (m, len(used), T)."""
        coefficients = self.dual_coef_[used]
        parts = np.empty((len(stack), len(used), coefficients.shape[1]))
        if not len(used):
            return parts
        for rows, block in stack.take(kernels=used).blocks():
            for k, alpha in enumerate(coefficients):
                parts[rows, k] = times(block[k : k + 1], alpha.T)[0]
        return parts

    def _task_scores(self, X: Any) -> Array:
        check_is_fitted(self)
        stack, factors = self._test_stack(X), self._factors()
        used = np.flatnonzero(factors.any(axis=1))
        return np.einsum("mft,ft->mt", self._parts(stack, used), factors[used]) + self.intercept_

    def _contributions(self, X: Any) -> Array:
        check_is_fitted(self)
        stack = self._test_stack(X)
        return self._factors() * self._parts(stack, np.arange(stack.n_kernels))
