"""What surrounds a solver: clock, threads, monitor, session, checkpoints."""
