"""Looking at fitted models."""

from multikernel.inspection.displays import (
    ConvergenceDisplay,
    GridScoresDisplay,
    KernelWeightsDisplay,
    SparsityPathDisplay,
    WeightPathDisplay,
)

__all__ = [
    "ConvergenceDisplay",
    "GridScoresDisplay",
    "KernelWeightsDisplay",
    "SparsityPathDisplay",
    "WeightPathDisplay",
]
