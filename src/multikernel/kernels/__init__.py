"""Kernel functions on columns of the data, bandwidth rules, families of kernels that share their work."""

from .approximation import Nystroem, RandomFourier
from .base import Kernel
from .family import KernelFamily
from .functions import RBF, ChiSquared, Cosine, HistogramIntersection, Laplacian, Linear, Polynomial, Sigmoid
from .given import FromDistance, FromFunction, FromGaussianProcess, Precomputed
from .grid import as_kernel, as_kernels, default_kernels, kernel_grid
from .pyramid import SpatialPyramid
from .windows import Prepared

__all__ = [
    "RBF",
    "ChiSquared",
    "Cosine",
    "FromDistance",
    "FromFunction",
    "FromGaussianProcess",
    "HistogramIntersection",
    "Kernel",
    "KernelFamily",
    "Laplacian",
    "Linear",
    "Nystroem",
    "Polynomial",
    "Precomputed",
    "Prepared",
    "RandomFourier",
    "Sigmoid",
    "SpatialPyramid",
    "as_kernel",
    "as_kernels",
    "default_kernels",
    "kernel_grid",
]
