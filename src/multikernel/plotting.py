"""Displays under their name of version 0.1: see :mod:`multikernel.inspection`."""

from multikernel.inspection import (
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
