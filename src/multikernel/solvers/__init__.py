"""Solvers: one paper, one file; no estimator, no validation of input.

A solver is a function ``solve(problem, monitor, start=None, *, max_iter, random_state=None)``. The monitor judges
each iteration, says when to stop, and has the result. ``start`` are weights and alpha to begin with, by default the
problem's own; ``max_iter`` is the largest number of iterations, of whatever kind; ``random_state`` is for the order
of samples. Docstrings tell what is different.
"""
