"""Inner problems: what is solved for fixed kernel weights."""

from multikernel.svm.binary import CSVM, NuSVM
from multikernel.svm.labels import LabelSVMs
from multikernel.svm.one_class import OneClassSVM
from multikernel.svm.regression import SVR

__all__ = ["CSVM", "SVR", "LabelSVMs", "NuSVM", "OneClassSVM"]
