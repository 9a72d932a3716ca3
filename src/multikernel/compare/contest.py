"""The comparison itself: every method on every split."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import numpy as np
from sklearn.model_selection import KFold, ShuffleSplit, StratifiedKFold, StratifiedShuffleSplit
from sklearn.utils import get_tags

from multikernel.compare.importance import PooledParts, views_of
from multikernel.compare.results import Comparison, KernelResult, MethodResult
from multikernel.compare.stacks import Preparation
from multikernel.compare.table import HEADS
from multikernel.compare.trial import Trial
from multikernel.compare.tuning import METRICS, Split, candidates, configured, inner_folds, n_fits, validates_itself
from multikernel.estimators.cross_validation import folds_of
from multikernel.estimators.registry import Method, available
from multikernel.gram.normalization import Steps
from multikernel.inspection.views import Views
from multikernel.io.files import DataError, near_matches
from multikernel.io.versions import all_versions
from multikernel.kernels import as_kernels
from multikernel.metrics import kernel_metrics

# ratio of the largest to the smallest class from which a remark is due
UNBALANCED = 3
# of the time of all fits, what the importance of views may take
SHARE = 0.08
Progress = Callable[[str, int, int], None]


def compare(
    X: Any,
    y: Any,
    kernels: Any = "precomputed",
    *,
    methods: Sequence[str] | None = None,
    cv: int | Sequence[Split] = 5,
    test_size: float | None = None,
    inner_cv: int = 3,
    grid: Mapping[str, Sequence[Any]] | None = None,
    single_kernels: bool = True,
    importance: bool = True,
    kernel_names: Sequence[str] | None = None,
    label_names: Sequence[str] | None = None,
    random_state: int = 0,
    normalize: Steps = None,
    scoring: str = "accuracy",
    class_weight: Any = None,
    max_time: float | None = None,
    memory: Any = None,
    scale: Any = None,
    psd: str = "raise",
    missing: str = "raise",
    progress: Progress | None = None,
    data: str = "data",
    description: str = "",
    command: str = "",
) -> Comparison:
    """Compare methods by accuracy, time, memory and duality gap on the same splits and kernels.

    For each split the kernels are fitted (bandwidths) and evaluated once, on training samples only, and all
    methods get the same Gram stack. Parameters such as C are chosen by cross-validation inside the training
    samples, then the method is fitted on all of them: this last fit is the one timed and measured, after
    everything has been compiled. Test samples are used once, to score. A method that fails keeps the error in
    its row and the others go on. Ctrl-C ends the comparison and returns what is done, with ``interrupted``.

    Parameters
    ----------
    X : array of shape (n, d), or (n, n, F) with ``kernels="precomputed"``
    y : array of shape (n,), or of 0 and 1, shape (n, L): a table of labels, for methods that learn several at once
    kernels : list of Kernel, or "precomputed"
    methods : sequence of str, optional
        Names of registered methods; all of them by default.
    cv : int, or list of pairs of index arrays
        Folds of stratified cross-validation, or training and test samples of each split.
    test_size : float, optional
        Share of samples held out once, instead of cross-validation.
    inner_cv : int
        Folds of the inner validation.
    grid : mapping, optional
        Values to try, for instance ``{"C": [1, 10]}``, in place of those of the methods that have the parameter.
    single_kernels, importance : bool
        Whether to score each kernel alone, too, and to say which views matter to the best method and to the average
        kernel: what scores lose when test samples, pooled over the splits, have a view in random order.
    kernel_names, label_names : sequence of str, optional
        Names of precomputed kernels, and of the columns of a table of labels.
    random_state : int
        Seed of the splits, and of methods that draw samples.
    scoring : {"accuracy", "balanced_accuracy", "roc_auc"}
        Score by which parameters are chosen and methods ranked; all three are computed. "roc_auc" is the mean over
        the classes, each against the rest.
    normalize, psd, missing, memory, class_weight, max_time
        As for the estimators; statistics are of training samples, ``max_time`` is that of each fit.
    scale : {"standard", "robust"}, transformer or None
        Scaling of the columns of X, or what makes columns of X, such as the cues of
        :func:`~multikernel.images.visual_kernels`; learnt on the training samples of each split.
    progress : callable, optional
        Called as ``progress(what, fits_done, fits_in_all)``.
    data, description, command : str
        What the result says it was made from.

    Returns
    -------
    Comparison

    Raises
    ------
    DataError
        When the samples cannot be split as asked, or a method is unknown.
    """
    for what, names, known in (("method", methods or (), available()), ("score", [scoring], METRICS)):
        for name in names:
            if name not in known:
                raise DataError(f"there is no {what} {name!r}; {near_matches(name, list(known))}")
    ready = {
        name: configured(method, scoring, class_weight=class_weight, max_time=max_time, random_state=random_state)
        for name, method in available().items()
    }
    y = np.asarray(y)
    splits, how = _splits(y, cv, test_size, random_state)
    smallest = min(np.unique(y[train], return_counts=True)[1].min() for train, _ in splits)
    inner_cv = int(min(inner_cv, smallest))  # a class with fewer samples than folds could be missing from one of them
    precomputed = isinstance(kernels, str) and kernels == "precomputed"
    preparation = Preparation(kernels if precomputed else as_kernels(kernels), scale, psd, missing, normalize, memory)
    X = preparation.checked(X, kernel_names)
    names = list(X.names) if precomputed else [kernel.label for kernel in preparation.kernels]
    by = "" if scoring == "accuracy" else f" of {HEADS[scoring]}"
    found = Comparison(
        data=data,
        classes=[str(label) for label in (np.unique(y) if y.ndim == 1 else label_names or range(y.shape[1]))],
        kernel_names=names,
        protocol=f"{how}; parameters by {inner_cv}-fold validation{by} inside the training samples{preparation}"
        + ("" if class_weight is None else f"; class weights {class_weight}"),
        n_splits=len(splits),
        description=description,
        started=datetime.now().astimezone().isoformat(timespec="seconds"),
        versions=all_versions(),
        command=command,
        scoring=scoring,
        baseline=MethodResult("baseline", "Most frequent class"),
    )
    contest = Contest(X, y, preparation, inner_cv, random_state, found, progress)
    for name in methods or ready:
        contest.enter(ready[name], candidates(ready[name], grid))
    for k in range(len(names)) if single_kernels else ():
        single = ready["average" if y.ndim == 1 else "ml-mkl-sum"]
        contest.enter(single, candidates(single, grid), k)
    contest.run(splits, views_of(preparation.kernels, names) if importance else {})
    found.remarks.extend(_remarks(found, y, weighted=class_weight is not None))
    return found


@dataclass(frozen=True)
class Entry:
    """What is fitted on every split, how many fits that takes, and where what is found is kept."""

    method: Method
    tried: list[dict[str, Any]]
    n_fits: int
    result: Any
    kernel: int | None = None  # one alone


@dataclass
class Contest:
    """A comparison under way: what is compared and how, what was found, and the fits done."""

    X: Any  # features, or the stack of precomputed kernels between all samples
    y: np.ndarray
    preparation: Preparation
    inner_cv: int
    random_state: int
    found: Comparison
    progress: Progress | None
    entries: list[Entry] = field(default_factory=list)
    pooled: dict[str, PooledParts] = field(default_factory=dict)
    done: int = 0

    def enter(self, method: Method, tried: list[dict[str, Any]], kernel: int | None = None) -> None:
        """Add a method, or a kernel alone."""
        count = n_fits(method, len(tried), self.inner_cv)
        if kernel is not None:
            alone = KernelResult(self.found.kernel_names[kernel])
            self.found.kernels.append(alone)
            # a method that validates each kernel alone has made the choice already
            chosen = any(validates_itself(other.method) and other.tried == tried for other in self.entries)
            self.entries.append(Entry(method, tried, 1 if chosen else count, alone, kernel))
            return
        result = MethodResult(method.name, method.title)
        if self.y.ndim > 1 and not get_tags(method.make("precomputed")).classifier_tags.multi_label:
            result.left_out = "learns one label for each sample, and not a table of labels"
        self.found.methods.append(result)
        self.entries.append(Entry(method, tried, count, result))

    def run(self, splits: list[Split], views: Views) -> None:
        """Fill in the comparison, split by split, and say which views matter; after Ctrl-C with what is done."""
        start = time.perf_counter()
        try:
            for number, split in enumerate(splits):
                self._run_split(f"split {number + 1}/{len(splits)}", *split, views)
        except KeyboardInterrupt:
            self.found.interrupted = True
        self._add_importance(SHARE * (time.perf_counter() - start))
        self.found.seconds = time.perf_counter() - start

    def _run_split(self, label: str, train: np.ndarray, test: np.ndarray, views: Views) -> None:
        found, y = self.found, self.y
        start = time.perf_counter()
        training, testing = self.preparation.stacks(self.X, train, test)
        found.kernel_seconds.append(time.perf_counter() - start)
        if not found.kernel_metrics:
            described = kernel_metrics(training, y[train] if y.ndim == 1 else None)
            found.kernel_metrics = {name: values.tolist() for name, values in described.items()}
        found.n_train.append(len(train))
        found.n_test.append(len(test))
        self._add_baseline(y[train], y[test])
        inner = inner_folds(y[train], self.inner_cv, self.random_state)
        trial = Trial(
            training, testing, y[train], y[test], inner, np.unique(y), METRICS[found.scoring], METRICS, test
        )
        for entry in self.entries:
            result, before = entry.result, self.done
            what = f"{label}: {entry.method.title if entry.kernel is None else f'{result.name} alone'}"

            def step(what: str = what) -> None:
                self._show(what, self.done + 1)

            if entry.kernel is not None and result.error is None:
                trial.run_single(entry.method, entry.tried, entry.kernel, result, step)
            elif entry.kernel is None and result.error is None and result.left_out is None:
                model = trial.run(entry.method, entry.tried, result, step)
                if len(views) > 1 and model is not None:
                    pooled = self.pooled.setdefault(result.name, PooledParts(result.title, views))
                    pooled.add(model, testing, y[test])
            # fits that a failure has made needless count as done
            self._show(what, before + entry.n_fits)

    def _show(self, what: str, done: int) -> None:
        if done > self.done:
            total = self.found.n_splits * sum(entry.n_fits for entry in self.entries)
            self.done = min(done, total)
            if self.progress is not None:
                self.progress(what, self.done, total)

    def _add_baseline(self, y_train: np.ndarray, y_test: np.ndarray) -> None:
        """Scores of the most frequent class as the prediction for everything."""
        assert self.found.baseline is not None
        if y_train.ndim > 1:  # the more frequent value of each label
            share, balanced = float(np.mean(y_test == (y_train.mean(axis=0) > 0.5))), 0.5
        else:
            classes, counts = np.unique(y_train, return_counts=True)
            share = float(np.mean(y_test == classes[counts.argmax()]))
            balanced = (share > 0.0) / len(np.unique(y_test))
        metrics = {"accuracy": share, "balanced_accuracy": balanced, "roc_auc": 0.5}
        self.found.baseline.add(metrics[self.found.scoring], metrics)

    def _add_importance(self, seconds: float) -> None:
        """Which views matter to the best method and to the average, in about so many seconds."""
        best = self.found.best()
        names = [] if best is None else list(dict.fromkeys([best.name, "average"]))
        asked = [self.pooled[name] for name in names if name in self.pooled and self.pooled[name].splits]
        for pooled in asked:
            score = METRICS[self.found.scoring]
            self.found.importance.append(pooled.importance(score, seconds / len(asked), self.random_state))


def _remarks(found: Comparison, y: np.ndarray, weighted: bool) -> Iterator[str]:
    """What to know before reading the scores."""
    classes, counts = np.unique(y, return_counts=True)
    if not weighted and y.ndim == 1 and found.scoring == "accuracy" and counts.max() >= UNBALANCED * counts.min():
        yield (
            f"classes are unbalanced: {counts.max()} of {len(y)} samples belong to class "
            f"{str(classes[counts.argmax()])!r}, {counts.min()} to {str(classes[counts.argmin()])!r}. Accuracy "
            "favours large classes: also look at the balanced accuracy, and try class weights (balanced) and another "
            "scoring (balanced_accuracy, roc_auc)"
        )
    best = found.best()
    if best is not None and found.baseline is not None and best.score <= found.baseline.score:
        yield f"by {HEADS[found.scoring]}, no method is better than always predicting the most frequent class"


def _splits(
    y: np.ndarray, cv: int | Sequence[Split], test_size: float | None, random_state: int
) -> tuple[list[Split], str]:
    """Folds, one split, or splits as given, stratified by class; and the beginning of a sentence about them."""
    single_label = y.ndim == 1
    if single_label:
        _check_classes(y, cv, test_size)
    if not isinstance(cv, int):
        splits = [_checked(y, *split) for split in folds_of(cv, y)] if single_label else list(cv)
        how = f"{len(splits)} given split{'s' * (len(splits) > 1)} ({{}} training and {{}} test samples)"
    elif test_size is None:
        folds = (StratifiedKFold if single_label else KFold)(cv, shuffle=True, random_state=random_state)
        splits = list(folds.split(np.zeros(len(y)), y))
        how = f"{cv}-fold {'stratified ' * single_label}cross-validation (about {{}} training and {{}} test samples)"
    else:
        once = StratifiedShuffleSplit if single_label else ShuffleSplit
        splits = list(once(1, test_size=test_size, random_state=random_state).split(np.zeros(len(y)), y))
        how = f"{{1}} {'stratified ' * single_label}samples held out, {{0}} to train on"
    return splits, how.format(*map(len, splits[0]))


def _check_classes(y: np.ndarray, cv: int | Sequence[Split], test_size: float | None) -> None:
    """Refuse classes that are too small to be split."""
    classes, counts = np.unique(y, return_counts=True)
    rarest, least = str(classes[counts.argmin()]), counts.min()
    if len(classes) < 2:
        raise DataError(f"all {len(y)} samples belong to class {classes[0]!r}: at least two classes are needed")
    if not isinstance(cv, int):
        return
    if test_size is None:
        if cv < 2:
            raise DataError(f"cv={cv}: use at least two folds, or a test_size")
        if least < cv:
            raise DataError(
                f"class {rarest!r} has {least} samples ({len(y)} in all), fewer than the {cv} folds: use at most "
                f"{max(least, 2)} folds, hold out a share with a test size, or leave the class out"
            )
    elif not 0 < test_size < 1:
        raise DataError(f"test_size={test_size} is not a share between 0 and 1")
    elif least < 2 or min(test_size, 1 - test_size) * len(y) < len(classes):
        raise DataError(
            f"{len(y)} samples of {len(classes)} classes (class {rarest!r}: {least}) are too few to hold out "
            f"{test_size:.0%} with every class on both sides"
        )


def _checked(y: np.ndarray, train: np.ndarray, test: np.ndarray) -> Split:
    """A given split as row numbers, if its parts are apart and hold what is needed to learn and to score."""
    train, test = np.arange(len(y))[train], np.arange(len(y))[test]
    both = np.intersect1d(train, test)
    if len(both):
        raise DataError(f"a split uses {len(both)} samples for both training and testing, first row {both[0]}")
    known, counts = np.unique(y[train], return_counts=True)
    if len(known) < 2 or counts.min() < 2:
        held = ", ".join(f"{count} of class {str(label)!r}" for label, count in zip(known, counts))
        raise DataError(f"a split trains on {held}: at least two classes are needed, with two samples each")
    unknown = np.setdiff1d(y[test], known)
    if len(unknown):
        raise DataError(
            f"the test samples of a split contain class {str(unknown[0])!r}, which has no training samples"
        )
    if not len(test):
        raise DataError("a split has no test samples: give some, or fit without a comparison")
    return train, test
