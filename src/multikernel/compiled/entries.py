"""Loops over entries of Gram matrices that are weighted one by one."""

import numpy as np
from numba import njit

VECTORISE = {"reassoc", "nsz", "contract"}


@njit(cache=True, nogil=True, fastmath=VECTORISE)
def inner_products(K, kernels, rows, columns, W, out, start, stop):
    """Add to ``out[k]`` the share of rows start:stop in ``Σ_ij W[i, j] K[kernels[k], rows[i], columns[j]]``.

    The weights of a row are spread over all columns first, so that the kernels are read in order, unless few
    columns are wanted. A column taken twice counts twice.
    """
    width, wanted = K.shape[2], columns.shape[0]
    whole = 3 * wanted > width
    spread = np.zeros(width if whole else 0)
    for i in range(start, stop):
        weights = W[i]
        if whole:
            spread[:] = 0.0
            for j in range(wanted):
                spread[columns[j]] += weights[j]
        for k in range(kernels.shape[0]):
            row = K[kernels[k], rows[i]]
            total = 0.0
            if whole:
                for j in range(width):
                    total += row[j] * spread[j]
            else:
                for j in range(wanted):
                    total += row[columns[j]] * weights[j]
            out[k] += total
