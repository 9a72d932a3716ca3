"""What a fit will take, told before it starts: passes over the kernels, at the speed of a block of rows."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from multikernel.gram import LazyStack, parse_memory
from multikernel.runtime.clock import left

# Samples from which it is worth a look, rows that are timed, and seconds that need no warning.
MANY, ROWS, PATIENCE = 5000, 32, 600.0

# Kernels that fit in memory are computed once; with all that follows a fit takes as long as computing them so often.
PASSES_IN_MEMORY = 4


def remark_on_cost(family: Any, X: Any, memory: Any, passes: int, who: str) -> str | None:
    """What to say if a fit takes more than ten minutes, or than the time that is left; None if it takes less.

    Parameters
    ----------
    family : KernelFamily
        Fitted kernels.
    X : array or CSR matrix of shape (n, D)
        Training samples.
    memory : int, str or None
        Budget for kernels.
    passes : int
        How often ``who`` computes all entries of kernels that do not fit in memory, about.
    who : str
        Name of the estimator.

    Examples
    --------
    >>> from multikernel.estimators.cost import in_words
    >>> [in_words(seconds) for seconds in (48.0, 125.0, 3000.0, 8000.0)]
    ['48 s', '2 min', '50 min', '2.2 h']
    """
    n, budget = X.shape[0], parse_memory(memory)
    if n < MANY or all(getattr(kernel, "has_features", False) for kernel in family.kernels):
        return None
    dtype = np.dtype(np.float32 if X.dtype == np.float32 else np.float64)
    needed = len(family) * n * n * dtype.itemsize
    if needed <= budget:
        passes = PASSES_IN_MEMORY
    one = n * _seconds_per_row(LazyStack(family, X, memory=0, dtype=dtype))
    total, limit = passes * one, min(left(), PATIENCE)
    if total <= limit:
        return None
    than = "ten minutes" if limit == PATIENCE else f"the {in_words(limit)} left"
    where = "in memory" if needed <= budget else "computed when they are read"
    return (
        f"this fit may take {in_words(total)}, more than {than}: {n:,} samples and {len(family)} kernels, {where}; "
        f"reading all entries once takes about {in_words(one)}, judging by {ROWS} rows, and {who} needs about "
        f"{passes} such passes. With explicit features, such as Nystroem(kernel=RBF(), rank=200), time grows like n, "
        'and SVRGMKLClassifier makes the most of them: see "Choosing a method" in the documentation.'
    )


def _seconds_per_row(stack: LazyStack) -> float:
    stack.rows(np.arange(2))  # compiles
    started = time.perf_counter()
    stack.rows(np.linspace(0, len(stack) - 1, ROWS).astype(np.intp))
    return (time.perf_counter() - started) / ROWS


def in_words(seconds: float) -> str:
    """A time in two digits or so."""
    if seconds < 90:
        return f"{seconds:.2g} s" if seconds < 10 else f"{seconds:.0f} s"
    minutes = seconds / 60
    return f"{minutes:.0f} min" if minutes < 90 else f"{minutes / 60:.2g} h"
