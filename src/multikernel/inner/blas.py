"""One BLAS thread while an SVM is being solved.

The factorisations of the Newton steps are small and many: handing each to several threads costs more than it
saves, and a hundred times as much where the cores are busy with something else (OpenBLAS threads wait for each
other in a loop).
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

from threadpoolctl import ThreadpoolController

_lock = threading.Lock()
_depth = 0
_limiter: Any = None


@cache
def _controller() -> ThreadpoolController:
    # finding the libraries takes milliseconds: once a process, after SciPy has loaded its own
    import scipy.linalg.lapack  # noqa: F401

    return ThreadpoolController()


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Limit BLAS to one thread; the first of several threads to enter sets the limit, the last to leave lifts it.

    Examples
    --------
    >>> from multikernel.inner.blas import one_blas_thread
    >>> with one_blas_thread():
    ...     pass
    """
    global _depth, _limiter
    with _lock:
        _depth += 1
        if _depth == 1:
            _limiter = _controller().limit(limits=1, user_api="blas")
    try:
        yield
    finally:
        with _lock:
            _depth -= 1
            if _depth == 0:
                _limiter.restore_original_limits()
