"""All methods on one split of the samples: inner validation, the timed fit, the score."""

from __future__ import annotations

import ctypes
import re
import sys
import time
import warnings
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.metrics import confusion_matrix

from multikernel.compare.results import KernelResult, MethodResult
from multikernel.compare.tuning import Candidates, Score, Split, accuracy, choose, make_on_stack
from multikernel.estimators.registry import Method
from multikernel.gram import NotApplicable
from multikernel.inspection.displays import convergence
from multikernel.inspection.stability import weight_shares
from multikernel.io.files import DataError

_PROC = Path("/proc/self")
# of each of three classes: enough to run through everything that gets compiled
WARM_UP_SAMPLES = 20


@dataclass(frozen=True)
class Trial:
    """One split: Gram stacks, labels, inner folds, the score that counts, and other scores to keep."""

    training: Any
    testing: Any
    y_train: np.ndarray
    y_test: np.ndarray
    inner: list[Split]
    classes: np.ndarray
    score: Score = accuracy
    metrics: Mapping[str, Score] = field(default_factory=dict)
    rows: np.ndarray | None = None  # of the test samples, among all
    by_kernel: dict[str, list[dict[str, Any]]] = field(default_factory=dict, init=False)  # by the candidates' text

    def run(self, method: Method, tried: Candidates, result: MethodResult, step: Callable[..., None]) -> Any:
        """Choose parameters, fit, score; the model, or None where an exception becomes the row's error or reason."""
        model = None
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                model = self._run(method, tried, result, step)
            except NotApplicable as error:
                result.left_out = str(error).partition("\n")[0]
            except Exception as error:  # one method must not lose the others
                result.error = in_words(error)
        for warning in caught:
            _note(result, f"{warning.category.__name__}: {warning.message}")
        return model

    def _run(self, method: Method, tried: Candidates, result: MethodResult, step: Callable[..., None]) -> Any:
        choice = choose(method, tried, self.training, self.y_train, self.inner, step, self.score)
        if choice.by_kernel is not None:
            self.by_kernel[repr(tried)] = choice.by_kernel
        if choice.score is None:
            self._warm_up(method, choice.parameters)
        model = make_on_stack(method, choice.parameters, self.inner)
        start = time.perf_counter()
        model, peak = peak_memory(lambda: model.fit(self.training, self.y_train))
        seconds = time.perf_counter() - start
        confusion, mistakes = self._confused(model)
        judged = self._judge(model, self.testing)
        step()
        # stored together, so that a split that fails or is interrupted leaves no half entry
        result.add(*judged)
        result.fit_seconds.append(seconds)
        result.peak_bytes.append(peak)
        result.parameters.append(choice.parameters)
        result.gaps.append(relative_gap(model))
        result.objectives.append(float(np.sum(getattr(model, "objective_", np.nan))))
        result.n_kernels.append(float(np.mean(getattr(model, "n_kernels_", np.nan))))
        result.weights.append(weight_shares(model).tolist())
        result.confusion = (np.array(result.confusion or 0) + confusion).tolist()
        result.mistakes += mistakes
        result.history = result.history or convergence(model)
        return model

    def _confused(self, model: BaseEstimator) -> tuple[Any, list[list[int]]]:
        """Test samples by true and predicted class; rows of those predicted wrong, with the class instead."""
        if self.y_test.ndim > 1:  # a table of labels
            return [], []
        predicted = model.predict(self.testing)
        confusion, wrong = confusion_matrix(self.y_test, predicted, labels=self.classes), predicted != self.y_test
        if self.rows is None:
            return confusion, []
        taken_for = np.searchsorted(self.classes, predicted[wrong])
        return confusion, np.stack([self.rows[wrong], taken_for], axis=1).tolist()

    def _judge(self, model: BaseEstimator, testing: Any) -> tuple[float, dict[str, float]]:
        """The score, and the other ones."""
        others = {name: metric(model, testing, self.y_test) for name, metric in self.metrics.items()}
        return self.score(model, testing, self.y_test), others

    def _warm_up(self, method: Method, parameters: dict[str, Any]) -> None:
        """Without validation nothing may have been compiled yet: fit once, off the clock, to a few samples."""
        y = self.y_train if self.y_train.ndim == 1 else self.y_train[:, :1]  # of many labels one
        labels, codes = np.unique(y, return_inverse=True)
        codes = codes.ravel()
        rows = np.concatenate([np.flatnonzero(codes == k)[:WARM_UP_SAMPLES] for k in range(min(len(labels), 3))])
        with suppress(Exception):  # few samples may be too few; what else is wrong shows in the fit itself
            make_on_stack(method, parameters, []).fit(self.training.take(rows, rows), y[rows])

    def run_single(
        self, method: Method, tried: Candidates, k: int, result: KernelResult, step: Callable[..., None]
    ) -> None:
        """Score kernel k alone."""
        training, testing = self.training.take(kernels=[k]), self.testing.take(kernels=[k])
        # a method that validated each kernel alone, on these folds, has made the choice already
        known = self.by_kernel.get(repr(tried))
        tried = tried if known is None else [known[k]]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                chosen = choose(method, tried, training, self.y_train, self.inner, step, self.score).parameters
                model = make_on_stack(method, chosen, self.inner).fit(training, self.y_train)
                judged = self._judge(model, testing)
                step()  # ends here after an interrupt, before anything is stored
                result.add(*judged)
            except Exception as error:  # one kernel must not lose the others
                result.error = in_words(error)


def in_words(error: Exception) -> str:
    """Why something failed, for people: errors about data and files explain themselves, others say what they are.

    Examples
    --------
    >>> from multikernel.compare.trial import in_words
    >>> in_words(ValueError("kernel 2 is not finite")), in_words(KeyError("b"))
    ('kernel 2 is not finite', "KeyError: 'b'")
    """
    if isinstance(error, OSError) and error.filename is not None:
        return f"{error.filename}: {error.strerror}"
    text = str(error)
    explains = type(error) is ValueError or isinstance(error, (DataError, NotApplicable, OSError, FloatingPointError))
    return text if text and explains else f"{type(error).__name__}: {text}"


def _note(result: MethodResult, text: str) -> None:
    """Keep a warning, unless it is there already but for its numbers."""
    shapes = {re.sub(r"[\d.e+-]+", "", note) for note in result.notes}
    if re.sub(r"[\d.e+-]+", "", text) not in shapes:
        result.notes.append(text)


def relative_gap(model: BaseEstimator) -> float:
    """Largest relative duality gap of a fitted model's problems; ``nan`` without a dual."""
    gap, objective = getattr(model, "dual_gap_", np.nan), getattr(model, "objective_", np.nan)
    relative = np.asarray(gap, float) / np.maximum(np.abs(np.asarray(objective, float)), 1e-12)
    return float(np.max(relative)) if relative.size else float("nan")


def can_measure() -> bool:
    """Whether the peak of the resident set can be reset and read back (Linux)."""
    try:
        (_PROC / "clear_refs").write_text("5")
        return _status_bytes("VmHWM") > 0
    except (OSError, StopIteration):
        return False


def peak_memory(function: Callable[[], Any]) -> tuple[Any, float]:
    """Call ``function`` and return its result with the bytes it added at its peak; ``nan`` where that is unknown.

    The kernel's own high-water mark of resident memory is reset before the call and read after it, so that
    everything counts but what was resident before. Pages that the allocator kept from earlier calls would hide new
    allocations: they are given back first.

    Examples
    --------
    >>> import numpy as np
    >>> from multikernel.compare.trial import can_measure, peak_memory
    >>> length, peak = peak_memory(lambda: len(np.ones(4_000_000)))
    >>> length, not can_measure() or peak > 30e6
    (4000000, True)
    """
    if sys.platform.startswith("linux") and (trim := getattr(ctypes.CDLL(None), "malloc_trim", None)):
        trim(0)  # not every C library has it
    if not can_measure():  # which resets the mark
        return function(), float("nan")
    before = _status_bytes("VmRSS")
    result = function()
    return result, float(max(_status_bytes("VmHWM") - before, 0))


def _status_bytes(key: str) -> int:
    """A size from the process's status, in bytes."""
    lines = (_PROC / "status").read_text().splitlines()
    return 1024 * int(next(line for line in lines if line.startswith(key + ":")).split()[1])
