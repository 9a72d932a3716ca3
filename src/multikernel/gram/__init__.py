"""Gram stacks: the only part of the library that knows how K_1 … K_F are stored."""

from multikernel.gram.base import GramStack, parse_memory
from multikernel.gram.build import (
    Combination,
    CombinedKernel,
    GeometricMean,
    NotApplicable,
    WeightedSum,
    combined_scores,
    family_stack,
    gram_stack,
    one_kernel,
    precomputed_stack,
)
from multikernel.gram.dense import DenseStack
from multikernel.gram.lazy import KernelRows, LazyStack, RowCache
from multikernel.gram.lowrank import LowRankStack
from multikernel.gram.normalization import BlockwiseStack, Normalization

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
