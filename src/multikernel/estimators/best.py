"""SVMs on kernels that are judged one by one by cross-validation: the best of them, or all in proportion."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from multikernel.estimators.average import OneKernelClassifier
from multikernel.estimators.base import C_GRID, TrainingData, class_scores
from multikernel.estimators.cross_validation import CrossValidated, KnownScores, folds_of
from multikernel.estimators.parameters import estimator
from multikernel.estimators.registry import register
from multikernel.gram import WeightedSum, one_kernel, parse_memory
from multikernel.io.state import attributes, positions
from multikernel.runtime.monitor import Result
from multikernel.runtime.run import Run
from multikernel.svm.held_out import fold_scores, possible_folds


@estimator
class JudgedKernelsClassifier(CrossValidated, OneKernelClassifier):
    """Base class: kernels are scored one by one, and their weights follow from the scores (``_weights``).

    Attributes
    ----------
    kernel_scores_ : ndarray of shape (F,)
        Mean cross-validated score of each kernel; -inf for kernels that were not reached when time ran out.
    """

    _state = attributes("kernel_scores_", "_complete")

    @abstractmethod
    def _weights(self, scores: NDArray[np.float64]) -> NDArray[np.float64]:
        """Weights of the kernels, given their scores."""

    def _choose(self, data: TrainingData, run: Run) -> NDArray[np.float64]:
        from sklearn.metrics import check_scoring  # slow to import

        n_kernels, labels = data.stack.n_kernels, data.labels
        folds = folds_of(possible_folds(self.cv, labels), labels, labels)
        trains = [train for train, _ in folds]
        for train in trains:
            if len(np.unique(labels[train])) < 2:
                only = labels[train].tolist()[0]
                raise ValueError(
                    f"a fold of cv={self.cv!r} trains on samples of class {only!r} only: use other folds."
                )
        score = check_scoring(KnownScores(self.classes_), self.scoring)
        self.kernel_scores_ = np.full(n_kernels, -np.inf)
        advice = "The model uses what these tell. Allow more time, or use fewer kernels or folds."
        with run.search(n_kernels, "kernel", advice, needed=0) as search:
            for k in range(n_kernels):
                kernel = one_kernel(data.stack.take(kernels=[k]), WeightedSum(np.ones(1)), parse_memory(self.memory))
                scores, _, _ = fold_scores(
                    kernel, data.targets, trains, self.C, sample_weight=data.sample_weight, tol=self.tol
                )
                held_out = zip(np.split(scores, len(folds), axis=1), [test for _, test in folds])
                self.kernel_scores_[k] = np.mean([self._score(score, f[test], labels[test]) for f, test in held_out])
                search.advance()
        self._complete = search.complete
        return self._weights(self.kernel_scores_)

    def _score(self, score: Any, scores: NDArray, labels: NDArray) -> float:
        """Score of the binary tasks' scores of held-out samples."""
        decisions = class_scores(scores, len(self.classes_), self.multi_class)
        return float(score(KnownScores(self.classes_, decisions), np.zeros((len(labels), 1)), labels))

    def _store(self, data: TrainingData, problems: Sequence[Any], results: list[Result]) -> None:
        super()._store(data, problems, results)
        self.converged_ = self.converged_ and self._complete


@register("best", title="Best single kernel SVM", grid={"C": C_GRID}, order=3)
@estimator
class BestKernelClassifier(JudgedKernelsClassifier):
    """SVM on the one kernel that scores best in cross-validation on the training data.

    Each kernel alone is scored by ``cv``-fold cross-validation of the SVM

        min over w, b of  ½‖w‖² + C Σ_i s_i max(0, 1 − y_i (w·φ_j(x_i) + b));

    the SVM is then fitted to all training data with the winner. Bandwidths and normalisation are those of the
    whole training set.

    Attributes
    ----------
    best_index_ : int
        Position of the chosen kernel.
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
    _state = attributes(best_index_=positions(below="kernels"))

    def _weights(self, scores: NDArray[np.float64]) -> NDArray[np.float64]:
        self.best_index_ = int(np.argmax(scores))
        return np.eye(len(scores))[self.best_index_]


@register("pwmk", title="PWMK", grid={"C": C_GRID}, order=13)
@estimator
class PWMKClassifier(JudgedKernelsClassifier):
    """SVM on kernels weighted in proportion to how well each does alone [THNK08].

    Each kernel alone is scored by ``cv``-fold cross-validation of the SVM, and gets the weight

        μ_j = (score_j − δ m) / Σ_k (score_k − δ m),   m the least score.

    The SVM is then fitted to all training data with Σ_j μ_j K_j. δ = 0 hardly tells a good kernel from one that
    guesses; δ = 1 leaves the worst out. Kernels should be on one scale (``normalize="variance"``, say).

    Parameters
    ----------
    delta : float
        δ, from 0 to 1.

    Attributes
    ----------
    weights_ : ndarray of shape (F,)
        μ, which sums to one; equal where all scores are.

    See Also
    --------
    BestKernelClassifier : the best of them alone.
    AlignmentMKLClassifier : weights without training.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from multikernel import PWMKClassifier
    >>> from multikernel.kernels import RBF
    >>> X, y = load_iris(return_X_y=True)
    >>> model = PWMKClassifier([RBF(columns=[0, 1]), RBF(columns=[2, 3])], delta=0.5).fit(X, y)
    >>> bool(model.weights_[1] > model.weights_[0])
    True
    """

    C: float = 1.0
    delta: float = 0.0

    def _check_parameters(self) -> None:
        super()._check_parameters()
        self._require("delta", 0.0 <= self.delta <= 1.0, "must be from 0 to 1: it is a share of the least score.")

    def _weights(self, scores: NDArray[np.float64]) -> NDArray[np.float64]:
        known = np.isfinite(scores)
        least = float(scores[known].min(initial=np.inf))
        if least < 0.0:
            raise ValueError(
                f"scoring={self.scoring!r} gives a kernel {least:.3g}, but weights in proportion need scores of at "
                "least 0, such as accuracy."
            )
        excess = np.where(known, scores - self.delta * least, 0.0) if known.any() else np.zeros(len(scores))
        total = excess.sum()
        return excess / total if total > 0.0 else np.full(len(scores), 1.0 / len(scores))
