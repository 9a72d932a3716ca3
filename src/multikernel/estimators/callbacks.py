"""Bridge between sessions and scikit-learn's callback protocol, where the installed version has one."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

try:
    from sklearn.callback import with_callbacks
except ImportError:  # scikit-learn before 1.9

    def with_callbacks(method):
        """Stand-in that leaves the method as it is."""
        return method


@contextlib.contextmanager
def session_callback(estimator: Any, X: Any, y: Any) -> Iterator[Callable[[dict[str, Any]], bool] | None]:
    """A session's callback that calls the user's function and scikit-learn's callbacks, one task an iteration."""
    if not getattr(estimator, "_skl_callbacks", None):
        yield estimator.callback
        return
    context = estimator._init_callback_context(max_subtasks=None)
    context.call_on_fit_task_begin(estimator=estimator, X=X, y=y)

    def callback(row: dict[str, Any]) -> bool:
        iteration = context.subcontext(task_name="iteration")
        iteration.call_on_fit_task_begin(estimator=estimator, X=X, y=y)
        stop = bool(iteration.call_on_fit_task_end(estimator=estimator, X=X, y=y))
        asked = estimator.callback is not None and bool(estimator.callback(row))
        return stop or asked

    yield callback
    context.call_on_fit_task_end(estimator=estimator, X=X, y=y)
