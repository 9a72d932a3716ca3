"""Solvers of the group-norm problem with the multiclass hinge."""
