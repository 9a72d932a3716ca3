"""The other baseline: the best single kernel, chosen by cross-validation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from multikernel.estimators.average import OneKernelClassifier
from multikernel.estimators.base import TrainingData
from multikernel.estimators.classifier import C_GRID, class_scores
from multikernel.estimators.cross_validation import CrossValidated, KnownScores, folds_of
from multikernel.estimators.parameters import estimator
from multikernel.estimators.registry import register
from multikernel.gram import WeightedSum, one_kernel, parse_memory
from multikernel.io.state import attributes, positions
from multikernel.runtime.monitor import Result
from multikernel.runtime.run import Run
from multikernel.svm.held_out import fold_scores, possible_folds


@register("best", title="Best single kernel SVM", grid={"C": C_GRID}, order=3)
@estimator
class BestKernelClassifier(CrossValidated, OneKernelClassifier):
    """SVM on the one kernel that scores best in cross-validation on the training data.

    Each kernel alone is scored by ``cv``-fold cross-validation of the SVM

        min over w, b of  ½‖w‖² + C Σ_i s_i max(0, 1 − y_i (w·φ_j(x_i) + b));

    the SVM is then fitted to all training data with the winner. Bandwidths and normalisation are those of the
    whole training set.

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

    def _choose(self, data: TrainingData, run: Run) -> NDArray[np.float64]:
        from sklearn.metrics import check_scoring  # slow to import

        n_kernels, labels = data.stack.n_kernels, data.labels
        folds = folds_of(possible_folds(self.cv, labels), labels, labels)
        trains = [train for train, _ in folds]
        for train in trains:
            if len(np.unique(labels[train])) < 2:
                raise ValueError(
                    f"a fold of cv={self.cv!r} trains on samples of class {labels[train].tolist()[0]!r} only, so "
                    "kernels cannot be scored: add samples of the other classes, or use folds that include them."
                )
        score = check_scoring(KnownScores(self.classes_), self.scoring)
        self.kernel_scores_ = np.full(n_kernels, -np.inf)
        advice = "The model uses the best of these. Allow more time, or use fewer kernels or folds."
        with run.search(n_kernels, "kernel", advice, needed=0) as search:
            for k in range(n_kernels):
                kernel = one_kernel(data.stack.take(kernels=[k]), WeightedSum(np.ones(1)), parse_memory(self.memory))
                scores, _, _ = fold_scores(
                    kernel, data.targets, trains, self.C, sample_weight=data.sample_weight, tol=self.tol
                )
                held_out = zip(np.split(scores, len(folds), axis=1), [test for _, test in folds])
                self.kernel_scores_[k] = np.mean([self._score(score, f[test], labels[test]) for f, test in held_out])
                search.advance()
        self.best_index_, self._complete = int(np.argmax(self.kernel_scores_)), search.complete
        return np.eye(n_kernels)[self.best_index_]

    def _score(self, score: Any, scores: NDArray, labels: NDArray) -> float:
        """Score of the binary tasks' scores of held-out samples."""
        decisions = class_scores(scores, len(self.classes_), self.multi_class)
        return float(score(KnownScores(self.classes_, decisions), np.zeros((len(labels), 1)), labels))

    def _store(self, data: TrainingData, problems: Sequence[Any], results: list[Result]) -> None:
        super()._store(data, problems, results)
        self.converged_ = self.converged_ and self._complete
