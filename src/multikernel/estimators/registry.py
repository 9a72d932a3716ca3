"""The methods that ``multikernel compare`` knows: each estimator registers itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from sklearn.base import BaseEstimator

Estimator = TypeVar("Estimator", bound=type)
_METHODS: dict[str, Method] = {}


@dataclass(frozen=True)
class Method:
    """A named way of learning from several kernels."""

    name: str  # what users type, such as "average"
    title: str  # what tables show
    estimator: type
    params: Mapping[str, Any] = field(default_factory=dict)  # that make the method, such as {"how": "product"}
    grid: Mapping[str, Sequence[Any]] = field(default_factory=dict)  # values worth trying by inner validation
    order: int = 100  # position in tables: baselines first

    def make(self, kernels: Any, **params: Any) -> BaseEstimator:
        """Build the estimator on ``kernels``; ``params`` override the method's own."""
        return self.estimator(kernels=kernels, **{**self.params, **params})


def register(
    name: str,
    *,
    title: str,
    params: Mapping[str, Any] | None = None,
    grid: Mapping[str, Sequence[Any]] | None = None,
    order: int = 100,
) -> Callable[[Estimator], Estimator]:
    """Class decorator: make an estimator known to comparisons; may be applied several times to one class."""

    def add(estimator: Estimator) -> Estimator:
        if name in _METHODS and _METHODS[name].estimator.__qualname__ != estimator.__qualname__:
            raise ValueError(f"the method name {name!r} is taken by {_METHODS[name].estimator.__name__}")
        _METHODS[name] = Method(name, title, estimator, dict(params or {}), dict(grid or {}), order)
        return estimator

    return add


def available() -> dict[str, Method]:
    """All registered methods, in the order of tables."""
    import multikernel.estimators  # noqa: F401  (estimators register themselves when they are imported)

    return {m.name: m for m in sorted(_METHODS.values(), key=lambda m: (m.order, m.name))}
