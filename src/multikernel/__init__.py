"""Multiple kernel learning: learn from several kernels at once, and how much each one counts."""

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
    UFOMKLClassifier,
    cskl_path,
    mkl_path,
)
from multikernel.gram import gram_stack

__version__ = "0.1.0"

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
    "UFOMKLClassifier",
    "__version__",
    "cskl_path",
    "gram_stack",
    "mkl_path",
]
