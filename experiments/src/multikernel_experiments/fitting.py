"""One cell: choose parameters by validation, fit, score."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import numpy as np
from sklearn.metrics import average_precision_score

from multikernel.compare.results import MethodResult
from multikernel.compare.trial import Trial
from multikernel_experiments.protocol import Entry, Protocol, Task
from multikernel_experiments.searches import candidates_for


def average_precision(model: Any, stack: Any, y: np.ndarray) -> float:
    """Average precision of a binary classifier's scores; the larger label is the positive one."""
    return float(average_precision_score(y == model.classes_[1], model.decision_function(stack)))


def run_entry(protocol: Protocol, entry: Entry, task: Task, step: Callable[[], None]) -> dict[str, Any]:
    """Choose, fit and score an entry on a task; the record of a cell, with an error instead if it failed."""
    start = time.perf_counter()
    task = task.by_entry[entry.key] if task.by_entry else task
    method, score = entry.registered(), task.score or protocol.score
    result = MethodResult(entry.key, entry.title)
    trial = Trial(
        task.training,
        task.testing,
        task.y_train,
        task.y_test,
        task.folds,
        np.unique(np.concatenate([task.y_train, task.y_test])),
        score=score,
    )
    told: dict[str, Any] = {}
    model = trial.run(method, candidates_for(method, task, score, step, told), result, step)
    result.error = result.error or result.left_out  # a protocol names methods that apply
    record = {**asdict(result), **told}
    record.update(n_train=len(task.y_train), n_test=len(task.y_test), seconds=time.perf_counter() - start)
    record["n_svms"] = int(getattr(model, "n_svms_", 0))
    record["kernel_names"] = [str(name) for name in task.training.names]
    return record
