"""Model files under their name of version 0.1: see :mod:`multikernel.io.models`."""

from multikernel.io.models import FORMAT, ModelFileError, load, read_manifest, save

__all__ = ["FORMAT", "ModelFileError", "load", "read_manifest", "save"]
