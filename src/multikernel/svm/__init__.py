"""Inner problems: what is solved for fixed kernel weights."""

from multikernel.svm.binary import CSVM, NuSVM
from multikernel.svm.labels import LabelSVMs

__all__ = ["CSVM", "LabelSVMs", "NuSVM"]
