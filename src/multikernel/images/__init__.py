"""From photographs to kernels: descriptors of colour, shape and texture, visual words, and the papers' families."""

from multikernel.images.families import VisualKernels, visual_kernels
from multikernel.images.reading import ImageError, read_image
from multikernel.images.transformers import (
    PHOG,
    ColorHistogram,
    GaborEnergies,
    ImageTransformer,
    LocalBinaryPatterns,
    VisualWords,
)

__all__ = [
    "PHOG",
    "ColorHistogram",
    "GaborEnergies",
    "ImageError",
    "ImageTransformer",
    "LocalBinaryPatterns",
    "VisualKernels",
    "VisualWords",
    "read_image",
    "visual_kernels",
]
