"""Multiple kernel learning: learn from several kernels at once, and how much each one counts."""

import logging
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from multikernel.estimators import (
        BestKernelClassifier,
        CGBoostClassifier,
        CSKLClassifier,
        CSKLClassifierCV,
        GMKLClassifier,
        KernelAverageClassifier,
        LPBetaClassifier,
        MKFDAClassifier,
        MKFDAClassifierCV,
        MKLClassifier,
        MultilabelMKLClassifier,
        ObscureClassifier,
        SVRGMKLClassifier,
        SVRGMKLRegressor,
        UFOMKLClassifier,
        cskl_path,
        mkl_path,
    )
    from multikernel.gram import gram_stack

__version__ = "0.2.0"

logging.getLogger(__name__).addHandler(logging.NullHandler())  # quiet unless the user asks

__all__ = [
    "BestKernelClassifier",
    "CGBoostClassifier",
    "CSKLClassifier",
    "CSKLClassifierCV",
    "GMKLClassifier",
    "KernelAverageClassifier",
    "LPBetaClassifier",
    "MKFDAClassifier",
    "MKFDAClassifierCV",
    "MKLClassifier",
    "MultilabelMKLClassifier",
    "ObscureClassifier",
    "SVRGMKLClassifier",
    "SVRGMKLRegressor",
    "UFOMKLClassifier",
    "__version__",
    "cskl_path",
    "gram_stack",
    "mkl_path",
]


def __getattr__(name: str) -> Any:
    """Import estimators and submodules when they are first used: importing all of them takes a third of a second."""
    if name in __all__:
        return getattr(import_module("multikernel.gram" if name == "gram_stack" else "multikernel.estimators"), name)
    if not name.startswith("_") and find_spec(f"multikernel.{name}") is not None:
        return import_module(f"multikernel.{name}")
    raise AttributeError(f"module 'multikernel' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
