"""The comparison itself: every method on every split."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from multikernel.compare.interruption import Interruption
from multikernel.compare.plan import Plan, make_plan
from multikernel.compare.results import Comparison, KernelResult, MethodResult
from multikernel.compare.scores import METRICS
from multikernel.compare.table import HEADS
from multikernel.compare.trial import Trial
from multikernel.compare.tuning import Split, inner_folds

if TYPE_CHECKING:
    from multikernel.gram.normalization import Steps

# ratio of the largest to the smallest class from which a remark is due
UNBALANCED = 3
Progress = Callable[[str, int, int], None]


class Counter:
    """Counts the fits done, tells the caller, and ends the comparison after an interrupt."""

    def __init__(self, progress: Progress | None, total: int, interruption: Interruption):
        self._progress = progress
        self._interruption = interruption
        self._done = 0
        self._total = total

    def __call__(self, what: str) -> None:
        """Say that one more fit of ``what`` is done."""
        self._interruption.check()
        self.reach(what, self._done + 1)

    def reach(self, what: str, done: int) -> None:
        """Say that ``done`` fits are behind us: those that a failure has made needless count as done."""
        if done > self._done:
            self._done = min(done, self._total)
            if self._progress is not None:
                self._progress(what, self._done, self._total)


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
    kernel_names: Sequence[str] | None = None,
    random_state: int = 0,
    normalize: Steps = None,
    scoring: str = "accuracy",
    class_weight: Any = None,
    max_time: float | None = None,
    memory: Any = None,
    scale: str | None = None,
    psd: str = "raise",
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
    y : array of shape (n,)
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
    single_kernels : bool
        Whether to score each kernel alone too.
    kernel_names : sequence of str, optional
        Names of precomputed kernels.
    random_state : int
        Seed of the splits.
    normalize : str, list, dict or None
        Normalisation of the kernels, fitted on the training samples of each split; see
        :class:`~multikernel.gram.Normalization`.
    scoring : {"accuracy", "balanced_accuracy", "roc_auc"}
        Score by which parameters are chosen and methods ranked; all three are computed. "roc_auc" is the mean over
        the classes, each against the rest.
    class_weight : dict, "balanced" or None
        Weights of the classes, for all methods.
    max_time : float, optional
        Seconds for each fit.
    memory : int or str, optional
        Budget for the kernels of a split, in bytes or as "2GB".
    scale : {"standard", "robust"} or None
        Scaling of the columns of X, learnt on the training samples of each split.
    psd : {"raise", "clip", "ignore"}
        What to do about a kernel that is not positive semi-definite.
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
    plan = make_plan(
        X,
        np.asarray(y),
        kernels,
        methods=methods,
        cv=cv,
        test_size=test_size,
        inner_cv=inner_cv,
        grid=grid,
        single_kernels=single_kernels,
        kernel_names=kernel_names,
        random_state=random_state,
        normalize=normalize,
        scoring=scoring,
        class_weight=class_weight,
        max_time=max_time,
        memory=memory,
        scale=scale,
        psd=psd,
    )
    comparison = _empty(plan, cv, test_size)
    comparison.data, comparison.description, comparison.command = data, description, command
    if class_weight is not None:
        comparison.protocol += f"; class weights {class_weight}"
    elif scoring == "accuracy":
        comparison.remarks.extend(_unbalanced(plan.y))
    _run_splits(plan, comparison, progress)
    comparison.remarks.extend(_no_better(comparison))
    return comparison


def _unbalanced(y: np.ndarray) -> list[str]:
    """A remark if one class has several times the samples of another."""
    classes, counts = np.unique(y, return_counts=True)
    if counts.max() < UNBALANCED * counts.min():
        return []
    return [
        f"classes are unbalanced: {counts.max()} of {len(y)} samples belong to class "
        f"{str(classes[counts.argmax()])!r}, {counts.min()} to {str(classes[counts.argmin()])!r}. Accuracy favours "
        "large classes: also look at the balanced accuracy, and try class weights (balanced) and another scoring "
        "(balanced_accuracy, roc_auc)"
    ]


def _no_better(comparison: Comparison) -> list[str]:
    """A remark if nothing that was learnt is better than nothing."""
    best, baseline = comparison.best(), comparison.baseline
    if best is None or baseline is None or best.score > baseline.score:
        return []
    return [f"by {HEADS[comparison.scoring]}, no method is better than always predicting the most frequent class"]


def _how(plan: Plan, cv: int | Sequence[Split], test_size: float | None) -> str:
    """How the samples were split, as the beginning of a sentence."""
    train, test = plan.splits[0]
    if not isinstance(cv, int):
        count = len(plan.splits)
        return f"{count} given split{'s' * (count > 1)} ({len(train)} training and {len(test)} test samples)"
    if test_size is None:
        return f"{cv}-fold stratified cross-validation (about {len(train)} training and {len(test)} test samples)"
    return f"{len(test)} stratified samples held out, {len(train)} to train on"


def _empty(plan: Plan, cv: int | Sequence[Split], test_size: float | None) -> Comparison:
    """A comparison in which nothing has been done yet."""
    from multikernel.io.versions import all_versions

    names = plan.kernel_names()
    by = "" if plan.scoring == "accuracy" else f" of {HEADS[plan.scoring]}"
    return Comparison(
        data="",
        classes=[str(label) for label in np.unique(plan.y)],
        kernel_names=names,
        protocol=f"{_how(plan, cv, test_size)}; parameters by {plan.inner_cv}-fold validation{by} inside the "
        "training samples" + _preparation(plan),
        n_splits=len(plan.splits),
        methods=[MethodResult(method.name, method.title) for method in plan.methods],
        kernels=[KernelResult(name) for name in names] if plan.single else [],
        started=datetime.now().astimezone().isoformat(timespec="seconds"),
        versions=all_versions(),
        scoring=plan.scoring,
        baseline=MethodResult("baseline", "Most frequent class"),
    )


def _preparation(plan: Plan) -> str:
    """The end of the protocol: how columns were scaled and kernels normalised, if they were."""
    columns = f"; columns scaled ({plan.scale}) with training statistics" if plan.scale else ""
    steps = plan.normalize
    if not steps:
        return columns
    if isinstance(steps, Mapping):
        chains = "; ".join(f"{name}: {_chain(chain)}" for name, chain in steps.items())
        return f"{columns}; kernels normalised with training statistics ({chains})"
    return f"{columns}; kernels normalised with training statistics ({_chain(steps)})"


def _chain(steps: str | Sequence[str] | None) -> str:
    """Steps as text: ``_chain(["center", "cosine"])`` is ``'center, cosine'``."""
    return steps if isinstance(steps, str) else ", ".join(steps or ["none"])


def _run_splits(plan: Plan, comparison: Comparison, progress: Progress | None) -> None:
    """Fill in the comparison, split by split; after Ctrl-C with what is done."""
    start = time.perf_counter()
    with Interruption() as interruption:
        count = Counter(progress, plan.n_steps(), interruption)
        try:
            for number, split in enumerate(plan.splits):
                _run_split(plan, comparison, number, split, count)
        except KeyboardInterrupt:
            comparison.interrupted = True
    comparison.seconds = time.perf_counter() - start


def _run_split(plan: Plan, comparison: Comparison, number: int, split: Split, count: Counter) -> None:
    """Everything on one split of the samples."""
    train, test = split
    start = time.perf_counter()
    training, testing = plan.stacks(train, test)
    comparison.kernel_seconds.append(time.perf_counter() - start)
    comparison.n_train.append(len(train))
    comparison.n_test.append(len(test))
    inner = inner_folds(plan.y[train], plan.inner_cv, plan.random_state)
    classes = np.unique(plan.y)
    trial = Trial(training, testing, plan.y[train], plan.y[test], inner, classes, score=plan.score, metrics=METRICS)
    _add_baseline(comparison, plan.y[train], plan.y[test])
    label = f"split {number + 1}/{comparison.n_splits}"
    done = number * plan.n_steps() // len(plan.splits)
    for method, result in zip(plan.methods, comparison.methods):
        what = f"{label}: {method.title}"
        if result.error is None and result.left_out is None:
            trial.run(method, plan.candidates(method), result, partial(count, what))
        done += plan.n_fits(method)
        count.reach(what, done)
    for k, kernel in enumerate(comparison.kernels):
        assert plan.single is not None
        what = f"{label}: {kernel.name} alone"
        if kernel.error is None:
            trial.run_single(plan.single, plan.candidates(plan.single), k, kernel, partial(count, what))
        done += plan.n_single_fits()
        count.reach(what, done)


def _add_baseline(comparison: Comparison, y_train: np.ndarray, y_test: np.ndarray) -> None:
    """Scores of the most frequent class as the prediction for everything."""
    assert comparison.baseline is not None
    classes, counts = np.unique(y_train, return_counts=True)
    share = float(np.mean(y_test == classes[counts.argmax()]))
    metrics = {"accuracy": share, "balanced_accuracy": (share > 0.0) / len(np.unique(y_test)), "roc_auc": 0.5}
    comparison.baseline.add(metrics[comparison.scoring], metrics)
