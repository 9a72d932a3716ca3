"""scikit-learn classes: validate, build, solve, store; nothing numerical."""

from multikernel.estimators.average import KernelAverageClassifier
from multikernel.estimators.best import BestKernelClassifier
from multikernel.estimators.gmkl import GMKLClassifier
from multikernel.estimators.mkl import MKLClassifier
from multikernel.estimators.path import MKLPath, mkl_path

__all__ = ["BestKernelClassifier", "GMKLClassifier", "KernelAverageClassifier", "MKLClassifier", "MKLPath", "mkl_path"]
