"""Values that are asked for again and again: kernels, scores, factorisations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray


class LastValue:
    """A function of arrays that remembers its last value until it is called with others."""

    def __init__(self, function: Callable[..., Any]):
        self.function = function
        self.forget()

    def forget(self) -> None:
        """Free the memory of the value."""
        self._arguments: tuple[NDArray, ...] | None = None
        self._value: Any = None

    def __call__(self, *arguments: NDArray) -> Any:
        if self._arguments is None or not all(map(np.array_equal, self._arguments, arguments)):
            self.forget()  # two values at once may not fit
            self._value = self.function(*arguments)
            self._arguments = tuple(map(np.array, arguments))
        return self._value

    def take_over(self, other: LastValue) -> None:
        """The value of another, which then has it no more."""
        self._arguments, self._value = other._arguments, other._value
        other.forget()
