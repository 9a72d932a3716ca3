"""Solvers of ℓp-norm MKL with smooth losses."""
