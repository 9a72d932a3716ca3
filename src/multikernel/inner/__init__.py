"""Inner problems: what is solved for fixed kernel weights."""

from multikernel.inner.labels import LabelSVMs
from multikernel.inner.svm import CSVM, NuSVM

__all__ = ["CSVM", "LabelSVMs", "NuSVM"]
