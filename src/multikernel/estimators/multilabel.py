"""One kernel combination for many labels [BJJ10]."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import KW_ONLY, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.special import log_expit
from sklearn.exceptions import DataConversionWarning
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from multikernel.estimators.base import C_GRID, KernelClassifier, TrainingData, class_scores, finite, is_number
from multikernel.estimators.blocks import by_blocks
from multikernel.estimators.cross_validation import folds_of
from multikernel.estimators.parameters import Restartable, estimator
from multikernel.estimators.probability import FOLDS
from multikernel.estimators.registry import register
from multikernel.gram import parse_memory
from multikernel.io.state import attributes, flags, positions, reals
from multikernel.problems.calibration import fit_calibration, log_probabilities
from multikernel.problems.multilabel import CRITERIA, LabelProblem, LabelSumProblem, WorstLabelProblem, final_labels
from multikernel.runtime.monitor import Result
from multikernel.runtime.run import Run, Solver
from multikernel.runtime.warnings import warn_user
from multikernel.solvers.catalogue import find_solver, solve_by_name
from multikernel.svm import LabelSVMs


@register("ml-mkl", title="ML-MKL, worst class", grid={"C": C_GRID}, order=30)
@register("ml-mkl-sum", title="ML-MKL, sum", params={"objective": "sum"}, grid={"C": C_GRID}, order=31)
@estimator
class MultilabelMKLClassifier(Restartable, KernelClassifier):
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
        time; "sa-vr", stochastic mirror descent with a memory of every label; "sa-printed", the paper's
        algorithm, and "sa", the same without bias and with steps that know no scale; "mirror-prox", deterministic,
        all labels in each step. For "sum": "newton", "silp", "level", "closed-form", and the paper's "subgradient"
        and "simplemkl".
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
    eta : float or pair of floats, optional
        Constant step of "sa" and "sa-printed", or those of the kernels' and of the labels' weights. By default
        steps of "sa" know no scale, and those of "sa-printed" are 0.001.
    delta : float
        Smoothing of the distribution from which they sample labels, from 0 to 1. At 0 a label may never be seen.
    stop : {"gap", "change"}
        Whether they stop at a certified gap, or when the average weights settle, as the paper does. With the paper's
        steps "sa-printed" has settled after two SVMs.
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
    n_svms_ : int
        SVMs solved to find the kernel; those of all labels on it come on top.
    objective_, dual_gap_ : float
        max_k or Σ_k of J_k at ``weights_``, and its distance from the best lower bound proved.

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
    eta: Any = None
    delta: float = 0.2
    stop: str = "gap"

    _passes = 70
    _state = attributes(
        *("label_weights_", "label_objectives_", "n_svms_"),
        multilabel_=flags(),
        constant_labels_=positions("constant", below="classes"),
        _constants=reals("constant"),
        thresholds_=reals("tasks"),
    )

    def _sizes(self) -> dict[str, int]:
        sizes = {**super()._sizes(), "constant": len(self.constant_labels_)}
        return {**sizes, "tasks": len(self.classes_), "scores": len(self.classes_)} if self.multilabel_ else sizes

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_label = True
        return tags

    def _check_parameters(self) -> None:
        super()._check_parameters()
        self._check_choice("objective", ("max", "sum"))
        find_solver(f"multilabel {self.objective}", self.solver)
        self._check_choice("threshold", (None, *CRITERIA))
        self._check_choice("stop", ("gap", "change"))
        self._require("delta", 0.0 <= self.delta <= 1.0, "must be from 0 to 1: it is a share of labels drawn evenly.")
        steps = self.eta if isinstance(self.eta, (tuple, list)) and len(self.eta) == 2 else (self.eta,)
        positive = self.eta is None or all(is_number(step) and step > 0.0 for step in steps)
        self._require("eta", positive, "must be a positive step, a pair of them, or None.")

    def _validate(self, X: Any, y: Any, sample_weight: Any) -> TrainingData:
        self._check_parameters()
        self.multilabel_ = y is not None and is_table(y)
        if not self.multilabel_:
            if self.threshold is not None:
                raise ValueError("threshold= is for tables of labels: of classes the largest score wins.")
            self.constant_labels_, self._constants = np.zeros(0, dtype=np.intp), np.zeros(0)
            return super()._validate(X, _one_class_each(y), sample_weight)
        signs, names = parse_labels(y)
        # scikit-learn's checks of X and of its length want a y of one dimension
        stack, _ = self._given_stack(X, np.zeros(len(signs)))
        self.classes_ = names
        signs = self._without_constants(signs)
        weight = self._given_weights(sample_weight, stack)
        return TrainingData(self._normalized(stack), np.arange(len(signs)), signs, weight)

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
        names += ", …" if len(self.constant_labels_) > 5 else ""
        warn_user(
            f"{len(self.constant_labels_)} of {signs.shape[1]} labels have only one class or no known entry "
            f"({names}): they get constant predictions and play no part in learning the kernel.",
            UserWarning,
        )
        signs = np.array(signs)
        signs[:, self.constant_labels_] = 0.0
        return signs

    def _problems(self, data: TrainingData, run: Run) -> Sequence[LabelProblem]:
        kind = WorstLabelProblem if self.objective == "max" else LabelSumProblem
        by_sign = self.class_weight if self.multilabel_ else None  # else it is in sample_weight
        options: dict[str, Any] = {"sample_weight": data.sample_weight, "class_weight": by_sign, "bias": self.bias}
        return [kind(data.stack, LabelSVMs(data.targets, self.C, **options), parse_memory(self.memory))]

    def _solver(self) -> Solver:
        by_paper = self.solver in ("sa", "sa-printed")
        names = ("solver", "max_iter", "random_state", *(("eta", "delta", "stop") if by_paper else ()))
        own = {name: getattr(self, name) for name in names}
        return partial(solve_by_name, method=f"multilabel {self.objective}", **own)

    def _store(self, data: TrainingData, problems: Sequence[LabelProblem], results: list[Result]) -> None:
        (problem,), (result,) = problems, results
        counted = result.history[-1].get("svms") if result.history else None  # without those of certificates
        self.n_svms_ = int(problem.inner.n_solved if counted is None else counted)
        folds = None if self.threshold is None else folds_of(self.cv, data.targets)
        final = final_labels(problem, result, self.tol, folds, self.threshold)
        self.label_weights_, self.label_objectives_ = final.label_weights, final.objectives
        self.thresholds_ = final.thresholds
        super()._store(data, problems, [final.result])
        self.intercept_[self.constant_labels_] = self._constants

    def _calibration_folds(self, labels: NDArray) -> list[tuple[NDArray, NDArray]]:
        from sklearn.model_selection import KFold  # slow to import

        if not self.multilabel_:
            return super()._calibration_folds(labels)
        return list(KFold(min(FOLDS, len(labels)), shuffle=True, random_state=0).split(labels))

    def _decisions_of(self, data: TrainingData, train: NDArray, test: NDArray) -> NDArray[np.float64]:
        if not self.multilabel_:
            return super()._decisions_of(data, train, test)
        self.threshold = None
        targets = data.targets.copy()
        targets[train] = self._without_constants(targets[train])
        decisions = super()._decisions_of(replace(data, targets=targets), train, test)
        decisions[:, self.constant_labels_] = np.nan
        return decisions

    def _fit_calibration(
        self, data: TrainingData, decisions: NDArray, weight: NDArray
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        if not self.multilabel_:
            return super()._fit_calibration(data, decisions, weight)
        signs = np.array(data.targets)
        signs[:, self.constant_labels_], decisions[:, self.constant_labels_] = self._constants, 0.0
        known = np.isfinite(decisions) & (signs != 0.0) & (weight > 0.0)[:, None]
        fitted = [
            fit_calibration(score[rows], (sign[rows] > 0.0).astype(np.intp), weight[rows])
            for score, sign, rows in zip(decisions.T, signs.T, known.T)
        ]
        slopes, intercepts = np.array(fitted).T
        return slopes, intercepts

    @by_blocks
    def decision_function(self, X: Any) -> NDArray[np.float64]:
        """Scores of the labels, shape (m, M); (m,) for y of two classes, positive for ``classes_[1]``."""
        scores = finite(self._task_scores(X))
        return scores if self.multilabel_ else class_scores(scores, len(self.classes_), "ovr")

    @by_blocks
    def predict(self, X: Any) -> NDArray:
        """A table (m, M) of 1 and 0, or classes (m,) for y of shape (n,); ``X`` as for ``decision_function``."""
        check_is_fitted(self)
        if not self.multilabel_:
            return super().predict(X)
        return (self.decision_function(X) > self.thresholds_).astype(np.int64)

    @available_if(lambda self: self._has_probabilities())
    def predict_log_proba(self, X: Any) -> NDArray[np.float64]:
        """Logarithms of the probabilities, of each label on its own, or of the classes for y of shape (n,)."""
        logits = self._logits(X)
        return log_expit(logits) if self.multilabel_ else log_probabilities(logits)

    def predict_top(self, X: Any, k: int = 1) -> NDArray:
        """The k labels with the highest scores, best first, shape (m, k); ``X`` as for ``decision_function``."""
        check_is_fitted(self)
        if not 1 <= k <= len(self.classes_):
            raise ValueError(f"k={k!r} must be between 1 and the number of labels, {len(self.classes_)}.")
        scores = self.decision_function(X)
        scores = np.column_stack([-scores, scores]) if scores.ndim == 1 else scores
        return self.classes_[np.argsort(-scores, axis=1, kind="stable")[:, :k]]

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Share of samples with every label right, missing entries left out; accuracy for y of shape (n,)."""
        if not is_table(y):
            return super().score(X, y, sample_weight)
        signs, _ = parse_labels(y, self.classes_ if is_sets(y) else None)
        right = ((2.0 * self.predict(X) - 1.0 == signs) | (signs == 0.0)).all(axis=1)
        return float(np.average(right, weights=sample_weight))


def is_table(Y: Any) -> bool:
    """Whether Y is a table of labels, not one class per sample."""
    if sparse.issparse(Y) or is_sets(Y):
        return True
    table = np.asarray(Y)
    return table.ndim == 2 and (table.shape[1] != 1 or _is_indicator(table))


def is_sets(Y: Any) -> bool:
    """Whether Y is a list, or a column of objects, of label sets: sets, tuples or lists of any lengths."""
    if getattr(Y, "ndim", None) == 1 and getattr(Y, "dtype", np.dtype(float)).kind == "O":
        Y = list(Y)
    if not isinstance(Y, (list, tuple)) or not len(Y):
        return False
    if any(isinstance(item, (set, frozenset)) for item in Y):
        return True
    if not all(isinstance(item, (list, tuple)) for item in Y):
        return False
    # lists of the same length may be rows of a table; labels that are words, or rows of many lengths, are not
    return len({len(item) for item in Y}) > 1 or any(isinstance(x, str) for item in Y for x in item)


def parse_labels(Y: Any, names: NDArray | None = None) -> tuple[NDArray[np.float64], NDArray]:
    """Signs (n, M) of a table of labels, +1, −1, or 0 for an entry that is missing, and the labels by column.

    A table with −1 anywhere holds −1, +1, and 0 for missing; any other holds 1 for present and 0 for absent. NaN is
    missing in both. A list of label sets names the labels of each sample, out of ``names`` if these are known.
    """
    if is_sets(Y):
        return _from_sets(Y, names)
    table = Y.toarray() if sparse.issparse(Y) else np.asarray(Y)
    if table.ndim != 2 or not table.shape[1]:
        raise ValueError(f"Y has shape {table.shape}, expected (n, M): one column per label, and at least one label.")
    try:
        values = table.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"Y holds entries that are not numbers ({error}): pass 0/1, −1/+1, or a list of label sets."
        ) from error
    missing = np.isnan(values)
    wrong = ~missing & ~np.isin(values, (-1.0, 0.0, 1.0))
    if wrong.any():
        row, column = (int(i) for i in np.argwhere(wrong)[0])
        raise ValueError(
            f"Unknown label type: Y has {int(wrong.sum())} entries that are not -1, 0 or 1, the first "
            f"{values[row, column]:g} at row {row}, column {column}. For one class per sample, pass y of shape (n,)."
        )
    signs = np.where(missing, 0.0, values if (values == -1.0).any() else 2.0 * values - 1.0)
    columns = getattr(Y, "columns", None)
    return signs, np.arange(signs.shape[1]) if columns is None else np.array(list(columns), dtype=object)


def _from_sets(Y: Iterable[Iterable[Any]], names: NDArray | None) -> tuple[NDArray[np.float64], NDArray]:
    rows = [set(item) for item in Y]
    if names is None:
        found = set().union(*rows)
        if not found:
            raise ValueError("the label sets are all empty: there is no label to learn.")
        names = _sorted(found)
    position = {name: k for k, name in enumerate(np.asarray(names).tolist())}
    signs = np.full((len(rows), len(position)), -1.0)
    for i, row in enumerate(rows):
        for name in row:
            if name not in position:
                raise ValueError(f"sample {i} has the label {name!r}, which the model was not trained on.")
            signs[i, position[name]] = 1.0
    return signs, np.asarray(names)


def _sorted(labels: set[Any]) -> NDArray:
    try:
        return np.array(sorted(labels))
    except TypeError as error:
        kinds = sorted({type(label).__name__ for label in labels})
        raise ValueError(
            f"the label sets hold labels of types {', '.join(kinds)}, which have no common order: use one type, "
            "such as words or numbers."
        ) from error


def _one_class_each(y: Any) -> Any:
    """y of shape (n,); a single column that is no indicator is flattened, with scikit-learn's warning."""
    if getattr(y, "ndim", 1) == 2 and y.shape[1] == 1:
        warn_user("A column-vector y was passed when a 1d array was expected.", DataConversionWarning)
        return np.asarray(y).ravel()
    return y


def _is_indicator(table: NDArray) -> bool:
    if table.dtype == bool:
        return True
    try:
        values = table.astype(np.float64)
    except (TypeError, ValueError):
        return False
    return bool((np.isnan(values) | np.isin(values, (-1.0, 0.0, 1.0))).all())
