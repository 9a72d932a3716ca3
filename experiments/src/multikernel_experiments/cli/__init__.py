"""The commands that this distribution adds to ``multikernel``: reproduce, data."""
