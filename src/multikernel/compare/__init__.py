"""Compare methods on one task: the same splits, the same kernels, parameters chosen without test samples."""

from multikernel.compare.results import Comparison, KernelResult, MethodResult
from multikernel.compare.run import compare

__all__ = ["Comparison", "KernelResult", "MethodResult", "compare"]
