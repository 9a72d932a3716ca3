"""Loops over entries of Gram matrices that are weighted one by one."""

from multikernel.compiled.jit import REORDER, loop


@loop(fastmath=REORDER)
def inner_products(K, kernels, rows, columns, W, out, spread, start, stop):
    """Add to ``out[k]`` the share of rows start:stop in ``Σ_ij W[i, j] K[kernels[k], rows[i], columns[j]]``.

    The weights of a row are spread over all columns up to the last one that is wanted first, in the scratch
    ``spread``, so that the kernels are read in order, unless few columns are wanted. A column taken twice counts
    twice.
    """
    width, wanted = 0, columns.size
    for j in range(wanted):
        width = max(width, columns[j] + 1)
    whole = 3 * wanted > width
    for i in range(start, stop):
        weights = W[i]
        if whole:
            for j in range(width):
                spread[j] = 0.0
            for j in range(wanted):
                spread[columns[j]] += weights[j]
        for k in range(kernels.size):
            row = K[kernels[k], rows[i]]
            total = 0.0
            if whole:
                for j in range(width):
                    total += row[j] * spread[j]
            else:
                for j in range(wanted):
                    total += row[columns[j]] * weights[j]
            out[k] += total
