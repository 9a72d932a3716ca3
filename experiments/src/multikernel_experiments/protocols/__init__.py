"""One protocol a file; see `multikernel_experiments`."""
