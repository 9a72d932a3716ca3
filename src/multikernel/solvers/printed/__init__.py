"""Algorithms as the papers print them, kept for comparison."""
