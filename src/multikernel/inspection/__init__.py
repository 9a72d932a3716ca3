"""Looking at fitted models: which views matter, how stable weights are, what decisions are made of."""

from multikernel.inspection.displays import (
    ConvergenceDisplay,
    GridScoresDisplay,
    KernelWeightsDisplay,
    SparsityPathDisplay,
    WeightPathDisplay,
)
from multikernel.inspection.evidence import DecisionDisplay, ViewImportanceDisplay, WeightStabilityDisplay
from multikernel.inspection.importance import explain, view_importance
from multikernel.inspection.results import results_frame, write_uns
from multikernel.inspection.stability import weight_stability

__all__ = [
    "ConvergenceDisplay",
    "DecisionDisplay",
    "GridScoresDisplay",
    "KernelWeightsDisplay",
    "SparsityPathDisplay",
    "ViewImportanceDisplay",
    "WeightPathDisplay",
    "WeightStabilityDisplay",
    "explain",
    "results_frame",
    "view_importance",
    "weight_stability",
    "write_uns",
]
