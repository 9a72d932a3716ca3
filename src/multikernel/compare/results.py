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
    """The sample standard deviation over splits; on one, the standard error sqrt(a (1 − a) / m) of an accuracy."""
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


@dataclass
class MethodResult(Scored):
    """One method over all splits; lists have an entry for each split done, unless they say otherwise."""

    name: str
    title: str
    scores: list[float] = field(default_factory=list)  #: on test samples, by the comparison's ``scoring``
    fit_seconds: list[float] = field(default_factory=list)  #: of the final fit, kernels given and parameters chosen
    gaps: list[float] = field(default_factory=list)  #: largest relative duality gap; nan without a dual
    n_kernels: list[float] = field(default_factory=list)  #: kernels used, averaged over classes
    peak_bytes: list[float] = field(default_factory=list)  #: memory that the final fit added at its peak
    parameters: list[dict[str, Any]] = field(default_factory=list)  #: chosen by inner validation
    weights: list[list[float]] = field(default_factory=list)  #: share of each kernel, averaged over classes
    history: list[dict[str, float]] = field(default_factory=list)  #: first split's fit: ``time``, ``relative_gap``
    confusion: list[list[int]] = field(default_factory=list)  #: test samples by true and predicted class
    notes: list[str] = field(default_factory=list)  #: warnings; of those that differ only in numbers, the first
    error: str | None = None  #: why the method failed
    left_out: str | None = None  #: why the method does not apply to these kernels, which is no failure
    objectives: list[float] = field(default_factory=list)  #: value at the solution, summed over problems
    metrics: dict[str, list[float]] = field(default_factory=dict)  #: all scores by name
    mistakes: list[list[int]] = field(default_factory=list)  #: rows of samples predicted wrong, and the class instead

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
    """What the score of a method loses when its test samples have a view in random order; lists are by view."""

    method: str  #: its title
    views: list[str]
    drops: list[float]  #: mean loss over random orders
    spreads: list[float]  #: its standard deviation
    p_values: list[float]  #: of permutation tests, by Holm's correction for the number of views


@dataclass
class Comparison:
    """Everything that a comparison found, and what is needed to repeat it; lists are by split done."""

    data: str  #: name of the data
    classes: list[str]
    kernel_names: list[str]
    protocol: str  #: how scores were estimated, as a sentence
    n_splits: int  #: splits that were asked for
    description: str = ""  #: samples, features, classes, in a few words
    n_train: list[int] = field(default_factory=list)
    n_test: list[int] = field(default_factory=list)
    methods: list[MethodResult] = field(default_factory=list)
    kernels: list[KernelResult] = field(default_factory=list)  #: each kernel alone
    kernel_seconds: list[float] = field(default_factory=list)  #: to evaluate all kernels; not in the methods' times
    seconds: float = 0.0  #: of the whole comparison
    started: str = ""  #: date and time
    versions: dict[str, str] = field(default_factory=dict)
    command: str = ""  #: what was typed
    interrupted: bool = False  #: whether it was stopped before its end
    scoring: str = "accuracy"  #: or balanced_accuracy or roc_auc: chooses parameters, ranks methods
    baseline: MethodResult | None = None  #: what predicting the most frequent class of the training samples gets
    remarks: list[str] = field(default_factory=list)  #: what to know before reading the scores
    importance: list[ViewImportance] = field(default_factory=list)  #: for the best method and the average kernel
    kernel_metrics: dict[str, list[float]] = field(default_factory=dict)  #: of each kernel, on the first training set

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
