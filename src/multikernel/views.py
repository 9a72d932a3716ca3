"""Views under their name of version 0.1: see :mod:`multikernel.kernels.views`."""

from multikernel.kernels.views import join_views

__all__ = ["join_views"]
