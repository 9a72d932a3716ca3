"""What surrounds a solver: clock, threads, monitor, run, checkpoints."""
