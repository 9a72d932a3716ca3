"""Kernel functions on columns of the data, bandwidth rules, families of kernels that share their work."""

from multikernel.kernels.approximation import Nystroem, RandomFourier
from multikernel.kernels.base import RBF, Cosine, Kernel, Linear, Polynomial, Sigmoid
from multikernel.kernels.family import KernelFamily, as_kernel, as_kernels, default_kernels, kernel_grid
from multikernel.kernels.gene_sets import read_gmt
from multikernel.kernels.given import FromDistance, FromFunction, FromGaussianProcess, Precomputed
from multikernel.kernels.histograms import ChiSquared, HistogramIntersection, Laplacian, SpatialPyramid
from multikernel.kernels.quantities import PreparedRows
from multikernel.kernels.views import join_views

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
    "PreparedRows",
    "RandomFourier",
    "Sigmoid",
    "SpatialPyramid",
    "as_kernel",
    "as_kernels",
    "default_kernels",
    "join_views",
    "kernel_grid",
    "read_gmt",
]
