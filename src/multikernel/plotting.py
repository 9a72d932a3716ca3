"""Displays under their name of version 0.1: see :mod:`multikernel.inspection`."""

from multikernel.inspection import *  # noqa: F403
from multikernel.inspection import __all__ as __all__
