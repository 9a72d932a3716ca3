"""scikit-learn classes: validate, build, solve, store; nothing numerical."""

from multikernel.estimators.average import KernelAverageClassifier
from multikernel.estimators.best import BestKernelClassifier
from multikernel.estimators.gmkl import GMKLClassifier
from multikernel.estimators.mkfda import MKFDAClassifier
from multikernel.estimators.mkfda_cv import MKFDAClassifierCV
from multikernel.estimators.mkl import MKLClassifier
from multikernel.estimators.obscure import ObscureClassifier
from multikernel.estimators.path import MKLPath, mkl_path
from multikernel.estimators.ufo import UFOMKLClassifier

__all__ = [
    "BestKernelClassifier",
    "GMKLClassifier",
    "KernelAverageClassifier",
    "MKFDAClassifier",
    "MKFDAClassifierCV",
    "MKLClassifier",
    "MKLPath",
    "ObscureClassifier",
    "UFOMKLClassifier",
    "mkl_path",
]
