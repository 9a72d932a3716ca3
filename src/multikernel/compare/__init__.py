"""Compare methods on one task: the same splits, the same kernels, parameters chosen without test samples."""

from multikernel.compare.contest import compare
from multikernel.compare.results import Comparison, KernelResult, MethodResult

__all__ = ["Comparison", "KernelResult", "MethodResult", "compare"]
