"""Solvers of multiple kernel Fisher discriminant analysis."""
