"""Solvers of ℓp-norm MKL."""
