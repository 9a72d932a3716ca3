"""One cell: choose parameters by validation, fit, score; and the course of a method against time."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import asdict
from inspect import signature
from typing import Any

import numpy as np
from sklearn.metrics import average_precision_score

from multikernel.compare.results import MethodResult
from multikernel.compare.trial import Trial
from multikernel.compare.tuning import make_on_stack
from multikernel.estimators.registry import Method
from multikernel.inspection.stability import weight_shares
from multikernel_experiments.protocol import Course, Entry, Protocol, Task
from multikernel_experiments.searches import candidates_for

MOST_SECONDS = 60.0


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
    trial.run(method, candidates_for(method, task, score, step), result, step)
    result.error = result.error or result.left_out  # a protocol names methods that apply
    record = asdict(result)
    record.update(n_train=len(task.y_train), n_test=len(task.y_test), seconds=time.perf_counter() - start)
    record["kernel_names"] = [str(name) for name in task.training.names]
    return record


def run_course(
    protocol: Protocol, course: Course, task: Task, chosen: Mapping[str, Any], step: Callable[[], None]
) -> dict[str, Any]:
    """Fit with growing budgets; time, objective, lower bound and score of each."""
    entry = Entry(course.key, course.method, course.title, course.params)
    method = entry.registered()
    known = signature(method.estimator).parameters
    parameters = {name: value for name, value in chosen.items() if name in known}
    points: list[dict[str, Any]] = []
    _fit(method, {**parameters, "max_iter": 1}, task)  # compiled, off the clock
    for budget in course.budgets:
        model, seconds = _fit(method, {**parameters, "max_iter": budget}, task)
        step()
        objective = float(np.sum(model.objective_))
        points.append(
            {
                "max_iter": budget,
                "seconds": seconds,
                "objective": objective,
                "bound": objective - float(np.sum(model.dual_gap_)),
                "score": (task.score or protocol.score)(model, task.testing, task.y_test),
                "weights": weight_shares(model).tolist(),
            }
        )
        if model.converged_ or seconds > MOST_SECONDS:
            break
    return {"key": course.key, "title": course.title, "parameters": parameters, "points": points}


def _fit(method: Method, parameters: Mapping[str, Any], task: Task) -> tuple[Any, float]:
    """A fitted model and its time; warnings of budgets that are too small on purpose are not shown."""
    model = make_on_stack(method, dict(parameters), task.folds)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        start = time.perf_counter()
        model.fit(task.training, task.y_train)
        return model, time.perf_counter() - start
