"""Estimators as dataclasses: a parameter and its description are stated once, in the class that introduces it."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any, TypeVar, dataclass_transform

from multikernel.kernels.docstrings import described

Class = TypeVar("Class", bound=type)


@dataclass_transform(eq_default=False)
def estimator(cls: Class) -> Class:
    """Class decorator: annotated attributes become parameters, and the docstring covers inherited ones too."""
    dataclass(eq=False, repr=False, match_args=False)(cls)  # equality and repr are scikit-learn's
    return described(cls)


@estimator
class Resumable:
    """Mixin of estimators whose fit can resume after the process was killed.

    Parameters
    ----------
    checkpoint : path, optional
        File that keeps the state of a long fit, so that it can resume after being killed.
    """

    _: KW_ONLY
    checkpoint: Any = None


@estimator
class Restartable(Resumable):
    """Mixin of estimators that can also start from an earlier solution.

    Parameters
    ----------
    warm_start : bool
        Whether to start from the solution of the previous fit.
    """

    _: KW_ONLY
    warm_start: bool = False
