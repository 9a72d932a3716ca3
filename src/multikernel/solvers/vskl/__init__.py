"""Solvers of VSKL: kernels in groups."""
