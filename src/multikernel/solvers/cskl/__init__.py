"""Solvers of CSKL: weights between 0 and 1 that sum to t, or exactly t kernels."""
