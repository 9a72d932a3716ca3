"""scikit-learn classes: validate, build, solve, store; nothing numerical."""

from multikernel.estimators.average import KernelAverageClassifier
from multikernel.estimators.best import BestKernelClassifier

__all__ = ["BestKernelClassifier", "KernelAverageClassifier"]
