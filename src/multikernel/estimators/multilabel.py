"""One kernel combination for many labels [BJJ10]."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import KW_ONLY
from inspect import signature
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from multikernel.estimators.average import C_GRID
from multikernel.estimators.base import Prepared, finite, intercept_of
from multikernel.estimators.classifier import KernelSVMClassifier
from multikernel.estimators.inputs import folds_of
from multikernel.estimators.multilabel_labels import is_sets, is_table, one_class_each, parse_labels
from multikernel.estimators.multilabel_thresholds import CRITERIA, best_threshold, left_out_scores
from multikernel.estimators.parameters import Restartable, estimator
from multikernel.estimators.registry import register
from multikernel.estimators.tasks import Tasks, class_scores
from multikernel.gram import GramStack, parse_memory
from multikernel.io.state import attributes, flags, positions, reals
from multikernel.problems.certificate import Certificate
from multikernel.problems.multilabel import LabelProblem, LabelSumProblem, WorstLabelProblem
from multikernel.runtime.clock import OutOfTime
from multikernel.runtime.monitor import Result
from multikernel.runtime.warnings import warn_user
from multikernel.solvers.multilabel.catalogue import find_label_solver
from multikernel.svm import LabelSVMs


@register("ml-mkl", title="ML-MKL, worst class", grid={"C": C_GRID}, order=30)
@register("ml-mkl-sum", title="ML-MKL, sum", params={"objective": "sum"}, grid={"C": C_GRID}, order=31)
@estimator
class MultilabelMKLClassifier(Restartable, KernelSVMClassifier):
    """Multi-label multiple kernel learning: one kernel for all labels.

    With J_k(p) the optimum of label k's SVM on the kernel Σ_j p_j K_j,

        objective="max":   min over p in the simplex of  max over k of J_k(p)      [BJJ10, eq. (3)]
        objective="sum":   min over p in the simplex of  Σ_k J_k(p)                [BJJ10, eq. (1)]

    "max" looks for the kernel that is best for the hardest label. Most labels then hardly matter for the kernel, so
    that it is found with few SVMs. Both are convex, and ``dual_gap_`` proves how good the solution is. In the end
    all labels' SVMs are fitted on the kernel found.

    Parameters
    ----------
    objective : {"max", "sum"}
        What the kernel is to make small.
    solver : str
        "auto" takes "level" for "max" and "newton" for "sum". For "max": "level", cutting planes of one label at a
        time; "sa-vr", stochastic mirror descent with a memory of every label; "sa", the paper's algorithm;
        "mirror-prox", deterministic, all labels in each step. For "sum": "newton", "silp", "level", "closed-form",
        and the paper's "subgradient".
    bias : bool
        Whether decision functions have constant terms; the paper's have none.
    threshold : {None, "f1", "accuracy"}
        How ``predict`` cuts scores: at zero, or at each label's best threshold on samples left out in turn, for the
        kernel found. For tables of labels only.
    cv : int or splitter
        Folds for ``threshold``.
    class_weight : dict, "balanced" or None
        Factor of C for each class; for tables of labels for the signs −1 and +1, label by label.
    max_iter : int
        Maximum number of iterations of the solver: SVMs of one label for "sa" and "sa-vr".
    solver_options : dict, optional
        More for the solver, such as ``{"eta": 1e-3, "delta": 0.2}`` for "sa", or ``{"stop": "change"}``, which makes
        "sa" end when the average weights settle, as the paper does, and not at a certified gap.
    max_time : float, optional
        Time limit for the whole fit except the final SVMs, in seconds.
    random_state : int, RandomState or None
        Which labels "sa" and "sa-vr" look at.

    Attributes
    ----------
    weights_ : ndarray of shape (F,)
        Kernel weights p, which sum to one.
    label_weights_ : ndarray of shape (M,)
        For "max" the weights γ of the labels that prove the lower bound at the solution: large for the hardest
        labels. For "sum" the same for each. Zero for labels of one class only.
    label_objectives_ : ndarray of shape (M,)
        J_k at the solution.
    classes_ : ndarray of shape (M,)
        Labels: column numbers or names, those in the sets, or the classes of y.
    multilabel_ : bool
        Whether Y was a table of labels.
    constant_labels_ : ndarray
        Positions of labels with one class only, which are predicted constant.
    thresholds_ : ndarray of shape (T,)
        Scores above which a label is predicted.
    dual_coef_ : ndarray of shape (T, n_support)
        Signed dual coefficients; T is 1 for two classes, else M.
    objective_, dual_gap_ : float
        max_k or Σ_k of J_k at ``weights_``, and its distance from the best lower bound proved.
    n_iter_ : int
        Number of solutions judged.

    Notes
    -----
    Y is a table (n, M), dense or sparse, of 1 and 0, or of 1, −1 and 0, or a list of label sets. Where −1 occurs, 0
    is a missing entry, and NaN always is: missing entries take no part in training.
    Scikit-learn's searches refuse NaN; they take 0 for a missing entry. y of shape (n,) makes one label a class.
    ``predict`` returns a table of 1 and 0, or classes for y of shape (n,).

    Examples
    --------
    >>> from sklearn.datasets import make_multilabel_classification
    >>> from multikernel import MultilabelMKLClassifier
    >>> X, Y = make_multilabel_classification(n_samples=80, random_state=0)
    >>> model = MultilabelMKLClassifier(random_state=0).fit(X, Y)
    >>> model.predict(X).shape
    (80, 5)
    >>> model.dual_gap_ <= 1e-3 * model.objective_
    True
    """

    objective: str = "max"
    C: float = 1.0
    solver: str = "auto"
    _: KW_ONLY
    bias: bool = False
    threshold: str | None = None
    cv: Any = 5
    max_iter: int = 5000
    solver_options: dict[str, Any] | None = None

    _passes = 70
    _state = attributes(
        *("label_weights_", "label_objectives_"),
        multilabel_=flags(),
        constant_labels_=positions("constant", below="classes"),
        _constants=reals("constant"),
        thresholds_=reals("tasks"),
    )

    def _sizes(self) -> dict[str, int]:
        sizes = {**super()._sizes(), "constant": len(self.constant_labels_)}
        return {**sizes, "tasks": sizes["classes"]} if self.multilabel_ else sizes

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_label = True
        return tags

    def _check_parameters(self) -> None:
        super()._check_parameters()
        find_label_solver(self.objective, self.solver, self.solver_options or {})
        self._check_choice("threshold", (None, *CRITERIA))

    # -- fit -------------------------------------------------------------------------------------------------

    def _prepare(self, X: Any, y: Any, sample_weight: Any) -> Prepared:
        self._check_parameters()
        self.multilabel_ = y is not None and is_table(y)
        if not self.multilabel_:
            if self.threshold is not None:
                raise ValueError(
                    "threshold= is for tables of labels; with one class per sample, the largest score wins."
                )
            prepared = super()._prepare(X, one_class_each(y), sample_weight)
            self.constant_labels_ = np.zeros(0, dtype=np.intp)
            self._constants = np.zeros(0)
            return prepared
        labels = parse_labels(y)
        # scikit-learn's checks of X and of its length want a y of one dimension
        stack, _ = self._training_stack(X, np.zeros(len(labels.signs)))
        self.classes_ = labels.names
        signs = self._without_constants(labels.signs)
        weight = self._given_weights(sample_weight, stack)
        return Prepared(stack, Tasks(np.arange(len(signs)), signs), weight)

    def _without_constants(self, signs: NDArray) -> NDArray[np.float64]:
        """Signs with labels of one class only, which no SVM can learn, taken out."""
        positive, negative = np.any(signs > 0, axis=0), np.any(signs < 0, axis=0)
        self.constant_labels_ = np.flatnonzero(~(positive & negative))
        self._constants = np.where(np.asarray(positive)[self.constant_labels_], 1.0, -1.0)
        if not len(self.constant_labels_):
            return signs
        if len(self.constant_labels_) == signs.shape[1]:
            raise ValueError(
                f"each of the {signs.shape[1]} labels has only one class: a classifier needs samples with and "
                "without at least one label."
            )
        names = ", ".join(repr(name) for name in self.classes_[self.constant_labels_][:5].tolist())
        warn_user(
            f"{len(self.constant_labels_)} of {signs.shape[1]} labels have only one class or no known entry "
            f"({names}{', …' if len(self.constant_labels_) > 5 else ''}): they get constant predictions and play no "
            "part in learning the kernel.",
            UserWarning,
        )
        signs = np.array(signs)
        signs[:, self.constant_labels_] = 0.0
        return signs

    def _problems(self, stack: GramStack, tasks: Tasks, sample_weight: NDArray) -> Sequence[LabelProblem]:
        kind = WorstLabelProblem if self.objective == "max" else LabelSumProblem
        by_sign = self.class_weight if self.multilabel_ else None  # else it is in sample_weight
        inner = LabelSVMs(tasks.signs, self.C, sample_weight=sample_weight, class_weight=by_sign, bias=self.bias)
        return [kind(stack, inner, parse_memory(self.memory))]

    def _solve(self, problem: LabelProblem, monitor: Any, start: Any) -> None:
        given = self.solver_options or {}
        solve, options = find_label_solver(self.objective, self.solver, given), {"max_iter": self.max_iter, **given}
        if "random_state" in signature(solve).parameters:
            options["random_state"] = self.random_state
        if start is not None and np.ndim(start[1]) == 1:
            start = start[0], start[1][:, None]
        solve(problem, monitor, start, **options)

    def _make_attributes(self, problems: Sequence[LabelProblem], results: list[Result]) -> None:
        (problem,), (result,) = problems, results
        learnt = np.asarray(problem.inner.signs.any(axis=0))
        self.label_weights_ = learnt / learnt.sum()
        self.label_objectives_, self.thresholds_ = np.full(len(learnt), np.nan), np.zeros(len(learnt))
        with contextlib.suppress(OutOfTime):
            self._solve_once_more(problem, result)
            self.label_objectives_ = problem.label_certificates(result.weights, result.alpha)[0]
            if isinstance(problem, WorstLabelProblem):
                contenders = problem.contenders(result.weights, result.alpha)
                self.label_weights_ = problem.label_weights(result.alpha, contenders)
            self.thresholds_ = self._find_thresholds(problem, result)
        self._store(results, [intercept_of(result, learnt.shape)])
        self.intercept_[self.constant_labels_] = self._constants

    def _solve_once_more(self, problem: LabelProblem, result: Result) -> None:
        """The SVMs of all labels, each to tol, on the kernel found: those that do not decide about it are rough."""
        labels = np.arange(problem.n_labels)
        alpha = problem.solve_labels(result.weights, result.alpha, labels, np.full(len(labels), 0.1 * self.tol))
        final, intercept = problem.certificate(result.weights, alpha), problem.intercept(result.weights, alpha)
        best = Certificate(final.primal, max(final.dual, result.certificate.dual))
        result.alpha, result.intercept, result.certificate = alpha, intercept, best
        result.converged = best.relative_gap <= self.tol

    def _find_thresholds(self, problem: LabelProblem, result: Result) -> NDArray[np.float64]:
        signs = problem.inner.signs
        if self.threshold is None:
            return np.zeros(signs.shape[1])
        folds = folds_of(self.cv, signs)
        scores = left_out_scores(problem, result.weights, result.alpha, folds, self.tol)
        return np.array([best_threshold(f, s, self.threshold) for f, s in zip(scores.T, signs.T)])

    # -- predict -----------------------------------------------------------------------------------------------

    def decision_function(self, X: Any) -> NDArray[np.float64]:
        """Scores of the labels, shape (m, M); (m,) for y of two classes, positive for ``classes_[1]``.

        Parameters
        ----------
        X : array-like of shape (m, d), or (m, n, F) or rectangular Gram stack with ``kernels="precomputed"``
            New samples, or the kernels between them and all training samples.
        """
        scores = finite(self._task_scores(X))
        return scores if self.multilabel_ else class_scores(scores, len(self.classes_), "ovr")

    def predict(self, X: Any) -> NDArray:
        """A table (m, M) of 1 and 0, or classes (m,) for y of shape (n,); ``X`` as for ``decision_function``."""
        check_is_fitted(self)
        if not self.multilabel_:
            return super().predict(X)
        return (self.decision_function(X) > self.thresholds_).astype(np.int64)

    def predict_top(self, X: Any, k: int = 1) -> NDArray:
        """The k labels with the highest scores, best first, shape (m, k).

        Parameters
        ----------
        X : as for ``decision_function``
        k : int
            How many labels a sample.
        """
        check_is_fitted(self)
        if not 1 <= k <= len(self.classes_):
            raise ValueError(f"k={k!r} must be between 1 and the number of labels, {len(self.classes_)}.")
        scores = self.decision_function(X)
        scores = np.column_stack([-scores, scores]) if scores.ndim == 1 else scores
        return self.classes_[np.argsort(-scores, axis=1, kind="stable")[:, :k]]

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Share of samples with every label right, missing entries left out; accuracy for y of shape (n,).

        Parameters
        ----------
        X : as for ``decision_function``
        y : labels as for ``fit``
        sample_weight : array-like of shape (m,), optional
            Weight of each sample.
        """
        if not is_table(y):
            return super().score(X, y, sample_weight)
        signs = parse_labels(y, self.classes_ if is_sets(y) else None).signs
        right = ((2.0 * self.predict(X) - 1.0 == signs) | (signs == 0.0)).all(axis=1)
        return float(np.average(right, weights=sample_weight))
