"""One protocol a file; see `multikernel.experiments`."""
