"""Solvers: one paper, one file, one public function; no estimator, no validation of input."""
