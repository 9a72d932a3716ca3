"""Compiled passes over dense stacks of Gram matrices.

All take the stack ``K`` of shape (F, N, M), the kernels and rows to read as index arrays, and a range
``start:stop`` of output rows, so that callers can spread them over threads. Sums are in double precision
whatever the precision of ``K``. Rows are read in tiles so that the running sums stay in the first-level cache.
"""

from __future__ import annotations

import numpy as np

from multikernel.compiled.jit import REORDER, loop

TILE = 1024


@loop
def combine_rows(K, kernels, rows, columns, weights, upper, out, total, start, stop):
    """``out[i, :] = Σ_k weights[k] K[kernels[k], rows[i], :]`` for i in start:stop; ``total`` is scratch for a row.

    If there are ``columns`` they are picked from that. With ``upper`` only what is on and above the diagonal is
    filled in: half the reading where the matrices are symmetric.
    """
    n, whole = total.size, kernels.size // 4 * 4
    for i in range(start, stop):
        row = rows[i]
        for left in range(i if upper else 0, n, TILE):
            # unsigned: an index that might be negative keeps a loop from being vectorised
            begin, end = np.uint64(left), np.uint64(left + TILE if left + TILE < n else n)
            for j in range(begin, end):
                total[j] = 0.0
            for k in range(0, whole, 4):  # four kernels at a time
                a, b, c, d = (
                    K[kernels[k], row],
                    K[kernels[k + 1], row],
                    K[kernels[k + 2], row],
                    K[kernels[k + 3], row],
                )
                wa, wb, wc, wd = weights[k], weights[k + 1], weights[k + 2], weights[k + 3]
                for j in range(begin, end):
                    total[j] += (wa * a[j] + wb * b[j]) + (wc * c[j] + wd * d[j])
            for k in range(whole, kernels.size):
                a, wa = K[kernels[k], row], weights[k]
                for j in range(begin, end):
                    total[j] += wa * a[j]
            if columns.size == 0:
                for j in range(begin, end):
                    out[i, j] = total[j]
        for j in range(columns.size):
            out[i, j] = total[columns[j]]


@loop
def mirror_upper(out, start, stop):
    """Copy the upper triangle of ``out`` below the diagonal, for target rows start:stop, in square tiles."""
    tile = 32
    for top in range(start, stop, tile):
        bottom = min(top + tile, stop)
        for left in range(0, bottom, tile):
            for i in range(top, bottom):
                for j in range(left, min(left + tile, i)):
                    out[i, j] = out[j, i]


@loop
def combine_gathered(K, kernels, rows, columns, weights, out, total, start, stop):
    """``combine_rows`` on the columns ``columns`` only, which are picked from each kernel."""
    for i in range(start, stop):
        for j in range(columns.size):
            total[j] = 0.0
        for k in range(kernels.size):
            row, weight = K[kernels[k], rows[i]], weights[k]
            for j in range(columns.size):
                total[j] += weight * row[columns[j]]
        for j in range(columns.size):
            out[i, j] = total[j]


@loop(fastmath=REORDER)
def row_dots(K, kernels, rows, vector, out, start, stop):
    """``out[k, i] = K[kernels[k], rows[i], :] · vector`` for i in start:stop."""
    for k in range(kernels.size):
        for i in range(start, stop):
            row = K[kernels[k], rows[i]]
            total = 0.0
            for j in range(vector.size):
                total += row[j] * vector[j]
            out[k, i] = total


@loop
def precise_row_dots(K, vector, out, start, stop):
    """``out[k, i] = K[k, i, :] · vector`` for i in start:stop, as if in twice the precision.

    Dot2 of Ogita, Rump and Oishi. The operations must stay in this order: they add up what products and sums lose.
    """
    splitter = 134217729.0  # 2^27 + 1: numbers are split in halves whose products are exact
    for k in range(K.shape[0]):
        for i in range(start, stop):
            total, lost = 0.0, 0.0
            for j in range(vector.size):
                a, b = np.float64(K[k, i, j]), vector[j]
                product = a * b
                c, d = splitter * a, splitter * b
                a_high, b_high = c - (c - a), d - (d - b)
                a_low, b_low = a - a_high, b - b_high
                rest = a_low * b_low - (((product - a_high * b_high) - a_low * b_high) - a_high * b_low)
                added = total + product
                part = added - total
                lost += rest + ((total - (added - part)) + (product - part))
                total = added
            out[k, i] = total + lost


@loop(fastmath=REORDER)
def row_dots_gathered(K, kernels, rows, support, vector, out, start, stop):
    """``row_dots`` where ``vector`` lives on the columns ``support`` and is zero elsewhere."""
    for k in range(kernels.size):
        for i in range(start, stop):
            row = K[kernels[k], rows[i]]
            total = 0.0
            for j in range(support.size):
                total += row[support[j]] * vector[j]
            out[k, i] = total


@loop(fastmath=REORDER)
def quadratic_forms(K, kernels, vector, out, start, stop):
    """Add to ``out[k]`` the share of rows start:stop in ``vector' K_k vector``, reading up to the diagonal only."""
    for k in range(kernels.size):
        share = 0.0
        for i in range(start, stop):
            if vector[i] != 0.0:
                row = K[kernels[k], i]
                total = 0.0
                for j in range(i):
                    total += row[j] * vector[j]
                share += vector[i] * (2.0 * total + row[i] * vector[i])
        out[k] += share


@loop(fastmath=REORDER)
def quadratic_forms_gathered(K, kernels, support, vector, out, start, stop):
    """``quadratic_forms`` where ``vector`` lives on the sorted rows and columns ``support``."""
    for k in range(kernels.size):
        share = 0.0
        for i in range(start, stop):
            row = K[kernels[k], support[i]]
            total = 0.0
            for j in range(i):
                total += row[support[j]] * vector[j]
            share += vector[i] * (2.0 * total + row[support[i]] * vector[i])
        out[k] += share


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


@loop(fastmath=REORDER)
def screen_rows(matrix, roots, excess, probe, product, transposed, start, stop):
    """One fast look at rows start:stop: ``matrix @ probe`` in product, ``matrix.T @ probe`` added to transposed.

    Returns how many entries exceed ``roots[i] roots[j]``, roots those of the diagonal, by more than ``excess``. The
    two products differ where the matrix is not symmetric, and are not finite where it is not. Rows are read in pairs,
    which halves the traffic of the vectors; the last of an odd number is looked at twice.
    """
    n = matrix.shape[1]
    count = 0
    for i in range(start, stop, 2):
        k = min(i + 1, stop - 1)
        upper, lower, upper_root, lower_root = matrix[i], matrix[k], roots[i], roots[k]
        upper_factor, lower_factor = probe[i], probe[k] if k > i else 0.0
        upper_dot, lower_dot, above = 0.0, 0.0, 0
        for j in range(n):
            upper_dot += upper[j] * probe[j]
            lower_dot += lower[j] * probe[j]
            transposed[j] += upper_factor * upper[j] + lower_factor * lower[j]
            above += abs(upper[j]) > upper_root * roots[j] + excess
            above += abs(lower[j]) > lower_root * roots[j] + excess
        product[i], product[k] = upper_dot, lower_dot
        count += above
    return count
