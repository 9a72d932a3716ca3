"""Multiple kernel learning: learn from several kernels at once, and how much each one counts."""

import logging
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from multikernel.estimators import *  # noqa: F403
    from multikernel.gram import gram_stack as gram_stack

__version__ = "0.2.0"

logging.getLogger(__name__).addHandler(logging.NullHandler())  # quiet unless the user asks


def __getattr__(name: str) -> Any:
    """Import estimators and submodules when they are first used: importing all of them takes a third of a second."""
    if name == "gram_stack":
        return import_module("multikernel.gram").gram_stack
    if name == "__all__":
        return ["__version__", "gram_stack", *import_module("multikernel.estimators").__all__]
    if not name.startswith("_"):
        if name.islower() and find_spec(f"multikernel.{name}") is not None:
            return import_module(f"multikernel.{name}")
        estimators = import_module("multikernel.estimators")
        if name in estimators.__all__:
            return getattr(estimators, name)
    raise AttributeError(f"module 'multikernel' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__getattr__("__all__")})
