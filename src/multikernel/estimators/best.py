"""The other baseline: the best single kernel, chosen by cross-validation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

from multikernel.estimators.average import C_GRID, KernelAverageClassifier, OneKernelClassifier
from multikernel.estimators.base import SHARE_OF_TIME
from multikernel.estimators.inputs import folds_of
from multikernel.estimators.parameters import CrossValidated, estimator
from multikernel.estimators.registry import register
from multikernel.estimators.tasks import Tasks
from multikernel.gram import GramStack
from multikernel.io.state import attributes, positions
from multikernel.runtime.clock import OutOfTime, left, time_limit
from multikernel.runtime.monitor import Result
from multikernel.runtime.warnings import warn_user


@register("best", title="Best single kernel SVM", grid={"C": C_GRID}, order=3)
@estimator
class BestKernelClassifier(CrossValidated, OneKernelClassifier):
    """SVM on the one kernel that scores best in cross-validation on the training data.

    Each kernel alone is scored by ``cv``-fold cross-validation of the SVM

        min over w, b of  ½‖w‖² + C Σ_i s_i max(0, 1 − y_i (w·φ_j(x_i) + b));

    the SVM is then fitted to all training data with the winner. Bandwidths and normalisation are those of the
    whole training set.

    Parameters
    ----------
    cv : int, splitter or iterable
        Folds that choose the kernel, as in scikit-learn.
    scoring : str, callable or None
        Score that chooses the kernel; accuracy by default.

    Attributes
    ----------
    best_index_ : int
        Position of the chosen kernel.
    kernel_scores_ : ndarray of shape (F,)
        Mean cross-validated score of each kernel; -inf for kernels that were not reached when time ran out.
    weights_ : ndarray of shape (F,)
        1 for the chosen kernel, 0 for the others.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from multikernel import BestKernelClassifier
    >>> from multikernel.kernels import RBF
    >>> X, y = load_iris(return_X_y=True)
    >>> kernels = [RBF(columns=[0, 1], name="sepals"), RBF(columns=[2, 3], name="petals")]
    >>> model = BestKernelClassifier(kernels, C=10.0).fit(X, y)
    >>> str(model.kernel_names_[model.best_index_])
    'petals'
    """

    C: float = 1.0

    scores_kernels = True  # comparisons use the scores of its own validation
    _state = attributes("kernel_scores_", "_complete", best_index_=positions(below="kernels"))

    def _choose(self, stack: GramStack, tasks: Tasks, sample_weight: NDArray) -> NDArray[np.float64]:
        self.kernel_scores_, self._complete = np.full(stack.n_kernels, -np.inf), True
        try:
            with time_limit(SHARE_OF_TIME * left()):
                for k in range(stack.n_kernels):
                    self.kernel_scores_[k] = self._score(stack.take(kernels=[k]), tasks.labels, sample_weight)
        except KeyboardInterrupt:
            self._cut_short("it was interrupted")
        except OutOfTime:
            if self.max_time is None:  # the limit is somebody else's
                raise
            self._cut_short("max_time was nearly used up")
        self.best_index_ = int(np.argmax(self.kernel_scores_))
        return np.eye(stack.n_kernels)[self.best_index_]

    def _score(self, stack: GramStack, labels: NDArray, sample_weight: NDArray) -> float:
        """Mean cross-validated score of one kernel."""
        from sklearn.metrics import check_scoring  # slow to import

        model = KernelAverageClassifier(
            "precomputed", C=self.C, multi_class=self.multi_class, psd="ignore", tol=self.tol, max_iter=self.max_iter
        ).set_params(n_jobs=self.n_jobs, memory=self.memory)
        model._keep_interrupted = False  # a score of half a model would be worse than none
        score = check_scoring(model, self.scoring)
        scores = []
        for train, test in folds_of(self._folds(labels), labels, labels):
            if len(np.unique(labels[train])) < 2:
                raise ValueError(
                    f"a fold of cv={self.cv!r} trains on samples of class {labels[train].tolist()[0]!r} only, so "
                    "kernels cannot be scored: add samples of the other classes, or use folds that include them."
                )
            model.fit(stack[np.ix_(train, train)], labels[train], sample_weight=sample_weight[train])
            scores.append(score(model, stack[np.ix_(test, train)], labels[test]))
        return float(np.mean(scores))

    def _cut_short(self, why: str) -> None:
        done = int(np.isfinite(self.kernel_scores_).sum())
        self._complete = False
        warn_user(
            f"BestKernelClassifier compared only {done} of {len(self.kernel_scores_)} kernels: {why}. The model uses "
            "the best of these. Allow more time, or use fewer kernels or folds.",
            ConvergenceWarning,
        )

    def _store(self, results: list[Result], intercepts: Sequence[float]) -> None:
        super()._store(results, intercepts)
        self.converged_ = self.converged_ and self._complete

    def _folds(self, labels: NDArray) -> Any:
        """``cv``, or fewer folds where the smallest class has too few samples for an integer ``cv``."""
        if not isinstance(self.cv, int):
            return self.cv
        counts = np.unique(labels, return_counts=True)[1]
        if counts.max() < 2:
            raise ValueError("every class has only one sample: there is nothing to validate on. Add samples.")
        return max(2, min(self.cv, int(counts.min())))
