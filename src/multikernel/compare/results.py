"""What a comparison found, as plain values that JSON can hold."""

from __future__ import annotations

import math
import statistics
from dataclasses import asdict, dataclass, field
from typing import Any


def mean(values: list[float]) -> float:
    """Mean of the finite values; ``nan`` if there are none."""
    finite = [value for value in values if math.isfinite(value)]
    return sum(finite) / len(finite) if finite else math.nan


def spread(scores: list[float], n_test: list[int]) -> float:
    """What follows ± behind a score, which on one split must be an accuracy.

    Over several splits: the sample standard deviation. On one split: the standard error of a proportion,
    sqrt(a (1 − a) / m), of m test samples.
    """
    if len(scores) > 1:
        return statistics.stdev(scores)
    if len(scores) == 1 and n_test:
        return math.sqrt(max(scores[0] * (1 - scores[0]), 0.0) / n_test[0])
    return math.nan


class Scored:
    """What methods and single kernels share: scores on the test samples of each split done."""

    scores: list[float]
    metrics: dict[str, list[float]]

    def add(self, score: float, metrics: dict[str, float]) -> None:
        """Keep the scores on one more split."""
        self.scores.append(score)
        for name, value in metrics.items():
            self.metrics.setdefault(name, []).append(value)

    @property
    def score(self) -> float:
        """Mean of ``scores`` over the splits done."""
        return mean(self.scores)

    @property
    def accuracy(self) -> float:
        """Mean accuracy over the splits done."""
        return mean(self.metrics.get("accuracy", self.scores))


@dataclass
class MethodResult(Scored):
    """One method over all splits; lists have an entry for each split done.

    Parameters
    ----------
    name, title : str
        As registered.
    scores : list of float
        Accuracy on the test samples, or the score that the comparison was asked to go by.
    fit_seconds : list of float
        Time of the final fit on all training samples, kernels given, parameters chosen.
    gaps : list of float
        Relative duality gap of that fit, the largest where several problems are solved; ``nan`` without a dual.
    objectives : list of float
        Value of the problem at the solution, summed over problems where several are solved.
    n_kernels : list of float
        Kernels used, averaged over classes where weights are per class.
    peak_bytes : list of float
        Memory that the final fit added at its peak.
    parameters : list of dict
        Parameters chosen by inner validation.
    weights : list of list of float
        Weight of each kernel, averaged over classes, scaled to sum 1.
    history : list of dict
        Course of the first split's fit: ``time`` in seconds, ``relative_gap``.
    confusion : list of list of int
        Test samples by true class (rows) and predicted class, summed over splits.
    notes : list of str
        Warnings; of those that differ only in numbers, the first.
    error : str or None
        Why the method failed, if it did.
    left_out : str or None
        Why the method does not apply to these kernels, if it does not: that is no failure.
    metrics : dict of str to list of float
        All scores by name: ``accuracy``, ``balanced_accuracy``, ``roc_auc``.
    mistakes : list of pairs of int
        Test samples that are predicted wrong, by their row, and the class that each was taken for.
    """

    name: str
    title: str
    scores: list[float] = field(default_factory=list)
    fit_seconds: list[float] = field(default_factory=list)
    gaps: list[float] = field(default_factory=list)
    n_kernels: list[float] = field(default_factory=list)
    peak_bytes: list[float] = field(default_factory=list)
    parameters: list[dict[str, Any]] = field(default_factory=list)
    weights: list[list[float]] = field(default_factory=list)
    history: list[dict[str, float]] = field(default_factory=list)
    confusion: list[list[int]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    error: str | None = None
    left_out: str | None = None
    objectives: list[float] = field(default_factory=list)
    metrics: dict[str, list[float]] = field(default_factory=dict)
    mistakes: list[list[int]] = field(default_factory=list)

    @property
    def mean_weights(self) -> list[float]:
        """Weights averaged over splits."""
        return [mean(list(column)) for column in zip(*self.weights)]


@dataclass
class KernelResult(Scored):
    """Scores of one kernel alone on each split done."""

    name: str
    scores: list[float] = field(default_factory=list)
    error: str | None = None
    metrics: dict[str, list[float]] = field(default_factory=dict)


@dataclass
class ViewImportance:
    """What the score of a method loses when its test samples have a view in random order; lists are by view.

    Parameters
    ----------
    method : str
        Its title.
    views : list of str
    drops, spreads : list of float
        Mean loss and its standard deviation over random orders.
    p_values : list of float
        Of permutation tests, by Holm's correction for the number of views.
    """

    method: str
    views: list[str]
    drops: list[float]
    spreads: list[float]
    p_values: list[float]


@dataclass
class Comparison:
    """Everything that a comparison found, and what is needed to repeat it.

    Parameters
    ----------
    data : str
        Name of the data.
    classes : list of str
    kernel_names : list of str
    protocol : str
        How accuracy was estimated, as a sentence.
    n_splits : int
        Splits that were asked for.
    description : str
        Samples, features, classes, in a few words.
    n_train, n_test : list of int
        Samples of each split done.
    methods : list of MethodResult
    kernels : list of KernelResult
        Each kernel alone.
    kernel_seconds : list of float
        Time to evaluate all kernels, for each split; shared by the methods and not in their times.
    seconds : float
        Time of the whole comparison.
    started : str
        Date and time.
    versions : dict of str to str
    command : str
        What was typed.
    interrupted : bool
        Whether it was stopped before its end.
    scoring : str
        Score by which parameters are chosen and methods ranked: ``accuracy``, ``balanced_accuracy`` or ``roc_auc``.
    baseline : MethodResult or None
        What predicting the most frequent class of the training samples gets.
    remarks : list of str
        What to know before reading the scores.
    importance : list of ViewImportance
        Which views matter to the best method and to the average kernel.
    kernel_metrics : dict of str to list of float
        Numbers that describe each kernel (:func:`multikernel.metrics.kernel_metrics`), on the training samples of the
        first split.
    """

    data: str
    classes: list[str]
    kernel_names: list[str]
    protocol: str
    n_splits: int
    description: str = ""
    n_train: list[int] = field(default_factory=list)
    n_test: list[int] = field(default_factory=list)
    methods: list[MethodResult] = field(default_factory=list)
    kernels: list[KernelResult] = field(default_factory=list)
    kernel_seconds: list[float] = field(default_factory=list)
    seconds: float = 0.0
    started: str = ""
    versions: dict[str, str] = field(default_factory=dict)
    command: str = ""
    interrupted: bool = False
    scoring: str = "accuracy"
    baseline: MethodResult | None = None
    remarks: list[str] = field(default_factory=list)
    importance: list[ViewImportance] = field(default_factory=list)
    kernel_metrics: dict[str, list[float]] = field(default_factory=dict)

    def spread(self, result: Scored) -> float:
        """What follows ± behind a result's score; see `spread`."""
        if len(result.scores) == 1 and self.scoring != "accuracy":
            return math.nan
        return spread(result.scores, self.n_test)

    def best(self) -> MethodResult | None:
        """The method with the highest mean score, the earlier one on ties; None if none succeeded."""
        return max((method for method in self.methods if method.scores), key=lambda m: m.score, default=None)

    def best_kernel(self) -> KernelResult | None:
        """The kernel with the highest mean score alone; None if none was scored."""
        return max((kernel for kernel in self.kernels if kernel.scores), key=lambda k: k.score, default=None)

    def to_dict(self) -> dict[str, Any]:
        """Plain values for ``json.dumps(..., allow_nan=False)``: what is not finite becomes None."""
        return finite(asdict(self))


def finite(value: Any) -> Any:
    """Replace NaN and infinity, which JSON does not have, by None."""
    if isinstance(value, dict):
        return {key: finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [finite(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
