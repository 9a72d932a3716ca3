"""Columns of different units in one kernel: the large ones are all that counts."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from multikernel.kernels.approximation import ApproximateKernel
from multikernel.kernels.base import Kernel
from multikernel.kernels.functions import InnerProductKernel, Laplacian

# ratio of ranges from which a remark is due, and rows that are enough to see it
FAR_APART = 100.0
MOST_ROWS = 1000


def remark_on_scales(kernels: Iterable[Kernel], X: Any) -> str | None:
    """What to say if columns of one kernel have very different ranges; None if there is nothing to say.

    Only kernels of inner products and of distances mind, and constant columns do not count.

    Parameters
    ----------
    kernels : fitted kernels
    X : ndarray of shape (n, D), or anything else, of which nothing is said

    Examples
    --------
    >>> import numpy as np
    >>> from multikernel.kernels import RBF
    >>> from multikernel.kernels.scales import remark_on_scales
    >>> X = np.array([[0.0, 1e4], [1.0, 3e4]])
    >>> remark_on_scales([RBF().fit(X)], X)[:67]
    "columns of kernel 'rbf(mean)' differ in range by a factor of 2e+04:"
    """
    if not isinstance(X, np.ndarray):
        return None
    rows = X[np.unique(np.linspace(0, len(X) - 1, MOST_ROWS).astype(int))]
    ranges = np.ptp(rows, axis=0)
    for kernel in kernels:
        inner = kernel.kernel_ if isinstance(kernel, ApproximateKernel) else kernel
        columns = kernel.columns_[ranges[kernel.columns_] > 0.0]
        if not isinstance(inner, (InnerProductKernel, Laplacian)) or len(columns) < 2:
            continue
        small, large = columns[ranges[columns].argmin()], columns[ranges[columns].argmax()]
        if ranges[large] > FAR_APART * ranges[small]:
            names = [_name(kernel, k) for k in (large, small)]
            return (
                f"columns of kernel {kernel.label!r} differ in range by a factor of "
                f"{ranges[large] / ranges[small]:.0e}: {names[0]} dominates, {names[1]} hardly counts. Unless their "
                "units matter, scale the columns first: make_pipeline(StandardScaler(), ...) or --scale standard."
            )
    return None


def _name(kernel: Kernel, column: int) -> str:
    """A column as users know it."""
    names = kernel.column_names_
    return f"column {column}" if names is None else repr(names[int(np.flatnonzero(kernel.columns_ == column)[0])])
