"""Solvers of problems with many labels."""
