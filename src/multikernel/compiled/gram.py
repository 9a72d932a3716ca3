"""Compiled passes over dense stacks of Gram matrices.

All take the stack ``K`` of shape (F, N, M), the kernels and rows to read as index arrays, and a range
``start:stop`` of output rows, so that callers can spread them over threads. Sums are in double precision
whatever the precision of ``K``. Rows are read in tiles so that the running sums stay in the first-level cache.
"""

from __future__ import annotations

import numpy as np
from numba import njit

TILE = 1024
VECTORISE = {"reassoc", "nsz", "contract"}


@njit(cache=True, nogil=True)
def _weighted_sum(K, kernels, row, weights, left, right, total):
    """``total[:right-left] = Σ_k weights[k] K[kernels[k], row, left:right]``, four kernels at a time."""
    width = right - left
    total[:width] = 0.0
    whole = kernels.shape[0] // 4 * 4
    for k in range(0, whole, 4):
        a, b = K[kernels[k], row, left:right], K[kernels[k + 1], row, left:right]
        c, d = K[kernels[k + 2], row, left:right], K[kernels[k + 3], row, left:right]
        wa, wb, wc, wd = weights[k], weights[k + 1], weights[k + 2], weights[k + 3]
        for j in range(width):
            total[j] += (wa * a[j] + wb * b[j]) + (wc * c[j] + wd * d[j])
    for k in range(whole, kernels.shape[0]):
        a, wa = K[kernels[k], row, left:right], weights[k]
        for j in range(width):
            total[j] += wa * a[j]


@njit(cache=True, nogil=True)
def combine_rows(K, kernels, rows, weights, out, start, stop):
    """``out[i, :] = Σ_k weights[k] K[kernels[k], rows[i], :]`` for i in start:stop."""
    total = np.empty(TILE)
    for i in range(start, stop):
        for left in range(0, out.shape[1], TILE):
            right = min(left + TILE, out.shape[1])
            _weighted_sum(K, kernels, rows[i], weights, left, right, total)
            out[i, left:right] = total[: right - left]


@njit(cache=True, nogil=True)
def combine_upper(K, kernels, weights, out, start, stop):
    """The part on and above the diagonal of ``combine_rows`` for symmetric matrices: half the reading."""
    total = np.empty(TILE)
    for i in range(start, stop):
        for left in range(i, out.shape[1], TILE):
            right = min(left + TILE, out.shape[1])
            _weighted_sum(K, kernels, i, weights, left, right, total)
            out[i, left:right] = total[: right - left]


@njit(cache=True, nogil=True)
def mirror_upper(out, start, stop):
    """Copy the upper triangle of ``out`` below the diagonal, for target rows start:stop, in square tiles."""
    tile = 32
    for top in range(start, stop, tile):
        bottom = min(top + tile, stop)
        for left in range(0, bottom, tile):
            for i in range(top, bottom):
                for j in range(left, min(left + tile, i)):
                    out[i, j] = out[j, i]


@njit(cache=True, nogil=True)
def combine_gathered(K, kernels, rows, columns, weights, out, start, stop):
    """``combine_rows`` on the columns ``columns`` only.

    Many columns are picked from the sum of whole rows, because reading in order is several times faster; few
    are picked from each kernel.
    """
    width = K.shape[2]
    whole = 3 * columns.shape[0] > width
    total = np.empty(width if whole else columns.shape[0])
    for i in range(start, stop):
        if whole:
            for left in range(0, width, TILE):
                right = min(left + TILE, width)
                _weighted_sum(K, kernels, rows[i], weights, left, right, total[left:right])
            for j in range(columns.shape[0]):
                out[i, j] = total[columns[j]]
        else:
            total[:] = 0.0
            for k in range(kernels.shape[0]):
                row = K[kernels[k], rows[i]]
                weight = weights[k]
                for j in range(columns.shape[0]):
                    total[j] += weight * row[columns[j]]
            out[i, :] = total


@njit(cache=True, nogil=True, fastmath=VECTORISE)
def row_dots(K, kernels, rows, vector, out, start, stop):
    """``out[k, i] = K[kernels[k], rows[i], :] · vector`` for i in start:stop."""
    for k in range(kernels.shape[0]):
        for i in range(start, stop):
            row = K[kernels[k], rows[i]]
            total = 0.0
            for j in range(vector.shape[0]):
                total += row[j] * vector[j]
            out[k, i] = total


@njit(cache=True, nogil=True, fastmath=VECTORISE)
def row_dots_gathered(K, kernels, rows, support, vector, out, start, stop):
    """``row_dots`` where ``vector`` lives on the columns ``support`` and is zero elsewhere."""
    for k in range(kernels.shape[0]):
        for i in range(start, stop):
            row = K[kernels[k], rows[i]]
            total = 0.0
            for j in range(support.shape[0]):
                total += row[support[j]] * vector[j]
            out[k, i] = total


@njit(cache=True, nogil=True, fastmath=VECTORISE)
def quadratic_forms_upper(K, kernels, vector, out, start, stop):
    """Add to ``out[k]`` the share of rows start:stop in ``vector' K_k vector``, reading above the diagonal only."""
    for k in range(kernels.shape[0]):
        share = 0.0
        for i in range(start, stop):
            if vector[i] != 0.0:
                # slices from 0 on, because indices that might be negative keep the loop from being vectorised
                row, rest = K[kernels[k], i, i:], vector[i:]
                total = 0.0
                for j in range(rest.shape[0]):
                    total += row[j] * rest[j]
                share += vector[i] * (2.0 * total - row[0] * vector[i])
        out[k] += share


@njit(cache=True, nogil=True, fastmath=VECTORISE)
def quadratic_forms_gathered(K, kernels, support, vector, out, start, stop):
    """``quadratic_forms_upper`` where ``vector`` lives on the sorted rows and columns ``support``."""
    for k in range(kernels.shape[0]):
        share = 0.0
        for i in range(start, stop):
            row, others, rest = K[kernels[k], support[i]], support[i:], vector[i:]
            total = 0.0
            for j in range(rest.shape[0]):
                total += row[others[j]] * rest[j]
            share += vector[i] * (2.0 * total - row[support[i]] * vector[i])
        out[k] += share


@njit(cache=True, nogil=True, fastmath=VECTORISE)
def inner_products_upper(K, kernels, matrix, out, start, stop):
    """Add to ``out[k]`` the share of rows start:stop in ``Σ_il K_k[i, l] matrix[i, l]``, both symmetric."""
    for i in range(start, stop):
        weights = matrix[i, i:]
        for k in range(kernels.shape[0]):
            row = K[kernels[k], i, i:]
            total = 0.0
            for j in range(weights.shape[0]):
                total += row[j] * weights[j]
            out[k] += 2.0 * total - row[0] * weights[0]


@njit(cache=True, nogil=True)
def inspect_square(matrix, diagonal, start, stop):
    """Look over the upper triangle of rows start:stop in one pass.

    Returns (entries that are not finite, largest asymmetry, its row, its column, largest excess of |K_ij| over
    sqrt(K_ii K_jj), its row, its column). Square tiles keep the transposed reads in cache.
    """
    n = matrix.shape[0]
    not_finite = 0
    asymmetry, asymmetry_row, asymmetry_column = 0.0, 0, 0
    excess, excess_row, excess_column = 0.0, 0, 0
    tile = 32
    for top in range(start, stop, tile):
        for left in range(top, n, tile):
            for i in range(top, min(top + tile, stop)):
                for j in range(max(left, i), min(left + tile, n)):
                    above, below = float(matrix[i, j]), float(matrix[j, i])
                    if not (np.isfinite(above) and np.isfinite(below)):
                        not_finite += 1
                        continue
                    difference = abs(above - below)
                    if difference > asymmetry:
                        asymmetry, asymmetry_row, asymmetry_column = difference, i, j
                    bound = max(diagonal[i], 0.0) * max(diagonal[j], 0.0)
                    over = abs(above) - np.sqrt(bound)
                    if over > excess:
                        excess, excess_row, excess_column = over, i, j
    return not_finite, asymmetry, asymmetry_row, asymmetry_column, excess, excess_row, excess_column


@njit(cache=True, nogil=True, fastmath={"reassoc", "nsz", "contract"})
def screen_rows(matrix, roots, excess, probe, product, transposed, start, stop):
    """One fast look at rows start:stop: ``matrix @ probe`` in product, ``matrix.T @ probe`` added to transposed.

    Returns how many entries exceed ``roots[i] roots[j]``, roots those of the diagonal, by more than ``excess``. The
    two products differ where the matrix is not symmetric, and are not finite where it is not.
    """
    n = matrix.shape[1]
    count = 0
    for i in range(start, stop):
        row, root, factor = matrix[i], roots[i], probe[i]
        dot, above = 0.0, 0
        for j in range(n):
            dot += row[j] * probe[j]
            transposed[j] += factor * row[j]
            above += abs(row[j]) > root * roots[j] + excess
        product[i] = dot
        count += above
    return count
