"""What validation has to choose from: a method's grid, or what its own search finds with less work."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from multikernel.compare.tuning import Score, accuracy, candidates, make_on_stack
from multikernel.estimators.registry import Method
from multikernel_experiments.protocol import Task

Candidates = list[dict[str, Any]]


def candidates_for(
    method: Method, task: Task, score: Score, step: Callable[[], None], told: dict[str, Any]
) -> Candidates:
    """All points of the grid; one, if the method has a search of its own on the folds of the task.

    What else a search knows, such as ``validation``, the score of its choice, is put into ``told``.

    Discriminant analysis goes through p and λ with warm starts; LP-β trains its SVMs once for all ν.
    """
    from multikernel.estimators.fisher import MKFDAClassifier
    from multikernel.estimators.lpbeta import LPBetaClassifier

    if task.folds and method.estimator is MKFDAClassifier and "reg" in method.grid:
        search = _discriminants
    elif task.folds and method.estimator is LPBetaClassifier and len(method.grid.get("nu", ())) > 1:
        search = _margins
    else:
        return candidates(method)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a corner of the grid that misses its tolerance says nothing of the choice
        return search(method, task, score, step, told)


def _discriminants(
    method: Method, task: Task, score: Score, step: Callable[[], None], told: dict[str, Any]
) -> Candidates:
    from multikernel.estimators.fisher import MKFDAClassifierCV

    search = MKFDAClassifierCV(
        "precomputed",
        ps=list(method.grid.get("p", [method.params.get("p", 1.0)])),
        regs=list(method.grid["reg"]),
        cv=task.folds,
        scoring=None if score is accuracy else score,
        psd="ignore",
    )
    search.fit(task.training, task.y_train)
    step()
    told["validation"] = search.best_score_
    return [{"p": float(search.p_), "reg": float(search.reg_)}]


def _margins(method: Method, task: Task, score: Score, step: Callable[[], None], told: dict[str, Any]) -> Candidates:
    tried = candidates(method)
    scores = np.zeros(len(tried))
    for rows, held_out in task.folds:
        training, testing = task.training.take(rows, rows), task.training.take(held_out, rows)
        fitted: dict[str, Any] = {}  # by all parameters but ν
        for k, candidate in enumerate(tried):
            others = repr({name: value for name, value in candidate.items() if name != "nu"})
            if others in fitted:
                model = fitted[others].reweighted(nu=candidate["nu"])
            else:
                model = make_on_stack(method, candidate, []).fit(training, task.y_train[rows])
                fitted[others] = model
            scores[k] += score(model, testing, task.y_train[held_out])
            step()
    return [tried[int(scores.argmax())]]
