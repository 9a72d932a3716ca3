"""Gram stacks: the only part of the library that knows how K_1 … K_F are stored."""

from multikernel.gram.base import (
    Combination,
    CombinedKernel,
    GeometricMean,
    GramStack,
    NotApplicable,
    WeightedSum,
    combined_scores,
    one_kernel,
    parse_memory,
)
from multikernel.gram.build import gram_stack, precomputed_stack
from multikernel.gram.lowrank import LowRankStack
from multikernel.gram.normalization import BlockwiseStack, Normalization
from multikernel.gram.stacks import DenseStack, KernelRows, LazyStack, RowCache, family_stack

__all__ = [
    "BlockwiseStack",
    "Combination",
    "CombinedKernel",
    "DenseStack",
    "GeometricMean",
    "GramStack",
    "KernelRows",
    "LazyStack",
    "LowRankStack",
    "Normalization",
    "NotApplicable",
    "RowCache",
    "WeightedSum",
    "combined_scores",
    "family_stack",
    "gram_stack",
    "one_kernel",
    "parse_memory",
    "precomputed_stack",
]
