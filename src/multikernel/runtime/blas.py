"""One BLAS thread while an SVM is being solved.

The factorisations of the Newton steps are small and many: handing each to several threads costs more than it
saves, and a hundred times as much where the cores are busy with something else (OpenBLAS threads wait for each
other in a loop).
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from functools import cache

from threadpoolctl import ThreadpoolController


@cache
def _controller() -> ThreadpoolController:
    # finding the libraries takes milliseconds: once a process, after SciPy has loaded its own
    import scipy.linalg.lapack  # noqa: F401

    return ThreadpoolController()


def one_blas_thread() -> AbstractContextManager:
    """Limit BLAS to one thread inside a ``with`` block.

    The limit holds for the whole process. It belongs to the first thread that sets it; in others the block does
    nothing, so whoever starts threads sets it before.

    Examples
    --------
    >>> from multikernel.runtime.blas import one_blas_thread
    >>> with one_blas_thread():
    ...     pass
    """
    return _controller().limit(limits=1, user_api="blas")
