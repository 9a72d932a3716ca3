"""scikit-learn classes: validate, build, solve, store; nothing numerical."""

from multikernel.estimators.alignment import AlignmentMKLClassifier
from multikernel.estimators.average import KernelAverageClassifier
from multikernel.estimators.best import BestKernelClassifier, PWMKClassifier
from multikernel.estimators.cgboost import CGBoostClassifier
from multikernel.estimators.cskl import CSKLClassifier, CSKLClassifierCV
from multikernel.estimators.easymkl import EasyMKLClassifier
from multikernel.estimators.fisher import MKFDAClassifier, MKFDAClassifierCV
from multikernel.estimators.gmkl import GMKLClassifier
from multikernel.estimators.lpbeta import LPBetaClassifier
from multikernel.estimators.mkl import MKLClassifier, MKLClassifierCV
from multikernel.estimators.multilabel import MultilabelMKLClassifier
from multikernel.estimators.obscure import ObscureClassifier
from multikernel.estimators.one_class import MKLOneClass
from multikernel.estimators.path import CSKLPath, MKLPath, cskl_path, mkl_path
from multikernel.estimators.regression import MKLRegressor
from multikernel.estimators.svrg import SVRGMKLClassifier, SVRGMKLRegressor
from multikernel.estimators.ufo import UFOMKLClassifier

__all__ = [
    "AlignmentMKLClassifier",
    "BestKernelClassifier",
    "CGBoostClassifier",
    "CSKLClassifier",
    "CSKLClassifierCV",
    "CSKLPath",
    "EasyMKLClassifier",
    "GMKLClassifier",
    "KernelAverageClassifier",
    "LPBetaClassifier",
    "MKFDAClassifier",
    "MKFDAClassifierCV",
    "MKLClassifier",
    "MKLClassifierCV",
    "MKLOneClass",
    "MKLPath",
    "MKLRegressor",
    "MultilabelMKLClassifier",
    "ObscureClassifier",
    "PWMKClassifier",
    "SVRGMKLClassifier",
    "SVRGMKLRegressor",
    "UFOMKLClassifier",
    "cskl_path",
    "mkl_path",
]
