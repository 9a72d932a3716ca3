"""Solvers: one paper, one file, one function of a problem and a monitor; no estimator, no validation of input."""
