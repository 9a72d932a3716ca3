"""What a comparison will do: which samples, kernels, methods and parameters; checked before anything runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.model_selection import StratifiedKFold, StratifiedShuffleSplit

from multikernel.compare.scores import METRICS, Score
from multikernel.compare.stacks import split_stacks
from multikernel.compare.tuning import Split, candidates, configured, n_fits, validates_itself
from multikernel.estimators.registry import Method
from multikernel.io.files import DataError, near_matches

if TYPE_CHECKING:
    from multikernel.gram.normalization import Steps


@dataclass(frozen=True)
class Plan:
    """What is to be done, checked: the data, the splits and the methods."""

    X: Any
    y: np.ndarray
    kernels: Any
    stack: Any  # precomputed kernels between all samples; None with kernels on features
    methods: list[Method]
    single: Method | None
    splits: list[Split]
    inner_cv: int
    random_state: int
    grid: Mapping[str, Sequence[Any]] | None
    normalize: Steps
    scoring: str
    memory: Any
    scale: str | None
    psd: str

    def stacks(self, train: np.ndarray, test: np.ndarray) -> tuple[Any, Any]:
        """Gram stacks of a split: training × training and test × training."""
        X, kernels = (self.X, self.kernels) if self.stack is None else (self.stack, "precomputed")
        options = {"scale": self.scale, "psd": self.psd, "normalize": self.normalize, "memory": self.memory}
        return split_stacks(X, kernels, train, test, **options)

    @property
    def score(self) -> Score:
        """What parameters are chosen and methods ranked by."""
        return METRICS[self.scoring]

    def candidates(self, method: Method) -> list[dict[str, Any]]:
        """Parameters of a method to try."""
        return candidates(method, self.grid)

    def kernel_names(self) -> list[str]:
        """Name of each kernel."""
        return [kernel.label for kernel in self.kernels] if self.stack is None else list(self.stack.names)

    def n_steps(self) -> int:
        """Fits in all, as progress counts them."""
        fits = sum(self.n_fits(method) for method in self.methods)
        if self.single is not None:
            fits += len(self.kernel_names()) * self.n_single_fits()
        return fits * len(self.splits)

    def n_fits(self, method: Method) -> int:
        """Fits that a method takes on one split."""
        return n_fits(method, len(self.candidates(method)), self.inner_cv)

    def n_single_fits(self) -> int:
        """Fits that a kernel alone takes on one split: one if another method chooses its parameters."""
        assert self.single is not None
        tried = self.candidates(self.single)
        chosen = any(validates_itself(method) and self.candidates(method) == tried for method in self.methods)
        return 1 if chosen else self.n_fits(self.single)


def make_plan(
    X: Any,
    y: np.ndarray,
    kernels: Any,
    *,
    methods: Sequence[str] | None,
    cv: int | Sequence[Split],
    test_size: float | None,
    inner_cv: int,
    grid: Mapping[str, Sequence[Any]] | None,
    single_kernels: bool,
    kernel_names: Sequence[str] | None,
    random_state: int,
    normalize: Steps,
    scoring: str,
    class_weight: Any,
    max_time: float | None,
    memory: Any,
    scale: str | None,
    psd: str,
) -> Plan:
    """Check the arguments of `compare` and split the samples."""
    import multikernel.estimators  # noqa: F401 (methods register themselves when imported)
    from multikernel.estimators.registry import available
    from multikernel.gram import gram_stack
    from multikernel.kernels import as_kernels

    known = available()
    unknown = [name for name in methods or () if name not in known]
    if unknown:
        raise DataError(f"there is no method {unknown[0]!r}; {near_matches(unknown[0], list(known))}")
    if scoring not in METRICS:
        raise DataError(f"there is no score {scoring!r}; {near_matches(scoring, list(METRICS))}")
    own = None if scoring == "accuracy" else METRICS[scoring]
    known = {
        name: configured(method, class_weight=class_weight, max_time=max_time, scoring=own)
        for name, method in known.items()
    }
    splits = list(_splits(y, cv, test_size, random_state))
    smallest = min(np.unique(y[train], return_counts=True)[1].min() for train, _ in splits)
    checks = "raise" if psd == "raise" else "ignore"  # kernels to clip are clipped in each split
    precomputed = isinstance(kernels, str) and kernels == "precomputed"
    return Plan(
        X=X,
        y=y,
        kernels=kernels if precomputed else as_kernels(kernels),
        stack=gram_stack(X, names=kernel_names, memory=memory, psd=checks) if precomputed else None,
        methods=[known[name] for name in (methods or known)],
        single=known["average"] if single_kernels else None,
        splits=splits,
        # a class with fewer training samples than folds could be missing from one of them
        inner_cv=int(min(inner_cv, smallest)),
        random_state=random_state,
        grid=grid,
        normalize=normalize,
        scoring=scoring,
        memory=memory,
        scale=scale,
        psd=psd,
    )


def _splits(y: np.ndarray, cv: int | Sequence[Split], test_size: float | None, random_state: int) -> Iterator[Split]:
    """Stratified folds, one stratified split, or splits as given; refuses classes too small for them."""
    classes, counts = np.unique(y, return_counts=True)
    if len(classes) < 2:
        raise DataError(f"all {len(y)} samples belong to class {classes[0]!r}: at least two classes are needed")
    rarest = classes[counts.argmin()]
    if not isinstance(cv, int):
        yield from (_checked(y, np.asarray(train), np.asarray(test)) for train, test in cv)
        return
    if test_size is None:
        if cv < 2:
            raise DataError(f"cv={cv}: use at least two folds, or a test_size")
        if counts.min() < cv:
            raise DataError(
                f"class {str(rarest)!r} has {counts.min()} samples ({len(y)} in all), fewer than the {cv} folds: "
                f"use at most {max(counts.min(), 2)} folds, hold out a share with a test size, or leave the class out"
            )
        folds = StratifiedKFold(cv, shuffle=True, random_state=random_state)
        yield from folds.split(np.zeros(len(y)), y)
        return
    if not 0 < test_size < 1:
        raise DataError(f"test_size={test_size} is not a share between 0 and 1")
    if counts.min() < 2 or min(test_size, 1 - test_size) * len(y) < len(classes):
        raise DataError(
            f"{len(y)} samples of {len(classes)} classes (class {str(rarest)!r}: {counts.min()}) are too few to "
            f"hold out {test_size:.0%} with every class on both sides"
        )
    holdout = StratifiedShuffleSplit(1, test_size=test_size, random_state=random_state)
    yield from holdout.split(np.zeros(len(y)), y)


def _checked(y: np.ndarray, train: np.ndarray, test: np.ndarray) -> Split:
    """A given split, if its parts are apart and hold what is needed to learn and to score."""
    for name, part in (("training", train), ("test", test)):
        if part.dtype.kind not in "iu" or part.ndim != 1 or not len(part):
            raise DataError(f"the {name} samples of a split are {part.dtype} of shape {part.shape}, not row numbers")
        if part.min() < 0 or part.max() >= len(y):
            raise DataError(
                f"the {name} samples of a split range from {part.min()} to {part.max()}, but rows are numbered from "
                f"0 to {len(y) - 1}"
            )
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
    return train, test
