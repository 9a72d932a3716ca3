"""Compiled passes over dense stacks of Gram matrices, and what kernels of many pairs are computed from.

All but the latter take the stack ``K`` of shape (F, N, M), the kernels and rows to read as index arrays, and a range
``start:stop`` of output rows, so that callers can spread them over threads. Sums are in double precision
whatever the precision of ``K``. Rows are read in tiles so that the running sums stay in the first-level cache.
"""

import numpy as np

from multikernel.compiled.jit import REORDER, loop

TILE = 1024
# Sums over bins of two histograms, for all pairs of rows, to fill ``out[r0:r1]``. Dense: every bin of every pair,
# vectorised. Overlap: only bins where both rows are non-zero, found through the columns of the second matrix.
CHI2, L1, MINIMUM = range(3)
_ROWS = 16  # rows of the first matrix that stay in the L2 cache while rows of the second pass by
_CHUNK = 4096  # bins summed in the working precision before they are added in float64


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


@loop(fastmath=REORDER)
def dense(metric, A, B, out, r0, r1):
    """out[i, j] = ½ Σ_k (a − b)² / (a + b), Σ_k |a − b| or Σ_k min(a, b), a = A[i, k], b = B[j, k], r0 ≤ i < r1."""
    tiny, half = A.dtype.type(1e-30), A.dtype.type(0.5)  # 0/0 becomes 0 and nothing else changes
    for tile in range(r0, r1, _ROWS):
        for j in range(B.shape[0]):
            for i in range(tile, min(tile + _ROWS, r1)):
                x, z, total = A[i], B[j], 0.0
                for k in range(0, A.shape[1], _CHUNK):
                    chunk = A.dtype.type(0)
                    # unsigned: an index that might be negative costs the SIMD
                    begin, end = np.uint64(k), np.uint64(min(k + _CHUNK, A.shape[1]))
                    if metric == CHI2:
                        for c in range(begin, end):
                            difference = x[c] - z[c]
                            chunk += difference * difference / (x[c] + z[c] + tiny)
                        chunk *= half
                    elif metric == L1:
                        for c in range(begin, end):
                            chunk += abs(x[c] - z[c])
                    else:
                        for c in range(begin, end):
                            chunk += x[c] if x[c] < z[c] else z[c]
                    total += chunk
                out[i, j] = total


@loop
def first_entries(column_ends, rows, first, starts):
    """For each column of a CSC matrix with sorted rows, the position of its first entry in a row ≥ ``first``."""
    for k in range(starts.size):
        low, high = column_ends[k], column_ends[k + 1]
        while low < high:
            middle = (low + high) // 2
            if rows[middle] < first:
                low = middle + 1
            else:
                high = middle
        starts[k] = low


@loop
def overlap(metric, ends, bins, values, offset, starts, column_ends, rows, others, first, out, totals, r0, r1):
    """out[i, j] = Σ_k 2ab/(a + b), |a| + |b| − |a − b| or min(a, b) over the bins where both are non-zero.

    a = A[offset + i, k] (CSR) and b = B[first + j, k] (CSC), for r0 ≤ i < r1; ``totals`` is scratch for a row.
    """
    for i in range(r0, r1):
        for j in range(totals.size):
            totals[j] = 0.0
        for entry in range(ends[offset + i], ends[offset + i + 1]):
            a, k = values[entry], bins[entry]
            for other in range(starts[k], column_ends[k + 1]):
                b = others[other]
                if metric == CHI2:
                    shared = a * b / (a + b)
                elif metric == L1:
                    shared = abs(a) + abs(b) - abs(a - b)
                else:
                    shared = a if a < b else b
                totals[rows[other] - first] += shared
        for j in range(totals.size):
            out[i, j] = 2.0 * totals[j] if metric == CHI2 else totals[j]


@loop(fastmath={"contract"})
def exponential_float64(distances, factor, out):
    """out = exp(x), x = factor · distances ≤ 709, within 2 ulp.

    It is 2^k times a polynomial in r = x − k log 2, |r| ≤ ½ log 2.
    """
    for j in range(out.size):
        x = factor * distances[j]
        value = -708.0 if x < -708.0 else x  # NaN passes through
        # adding 1.5·2⁵² rounds to an integer and leaves it in the low bits: no slow conversion
        shifted = value * 1.4426950408889634 + 6755399441055744.0
        k = shifted - 6755399441055744.0
        r = (value - k * 0.6931471803691238) - k * 1.9082149292705877e-10
        p = 1.6059043836821613e-10
        p = p * r + 2.08767569878681e-09
        p = p * r + 2.505210838544172e-08
        p = p * r + 2.755731922398589e-07
        p = p * r + 2.7557319223985893e-06
        p = p * r + 2.48015873015873e-05
        p = p * r + 0.0001984126984126984
        p = p * r + 0.001388888888888889
        p = p * r + 0.008333333333333333
        p = p * r + 0.041666666666666664
        p = p * r + 0.16666666666666666
        p = p * r + 0.5
        p = p * r + 1.0
        p = p * r + 1.0
        power = (np.float64(shifted).view(np.int64) << 52) + np.int64(0x3FF0000000000000)
        out[j] = 0.0 if x < -708.0 else p * np.int64(power).view(np.float64)


@loop(fastmath={"contract"})
def exponential_float32(distances, factor, out):
    """As exponential_float64, in single precision, for x ≤ 88."""
    for j in range(out.size):
        x = factor * distances[j]
        value = np.float32(-87.0) if x < np.float32(-87.0) else x
        shifted = value * np.float32(1.442695) + np.float32(12582912.0)
        k = shifted - np.float32(12582912.0)
        r = (value - k * np.float32(0.693359375)) + k * np.float32(2.1219444e-4)
        p = np.float32(1.984127e-4)
        p = p * r + np.float32(1.3888889e-3)
        p = p * r + np.float32(8.3333333e-3)
        p = p * r + np.float32(4.1666667e-2)
        p = p * r + np.float32(0.16666667)
        p = p * r + np.float32(0.5)
        p = p * r + np.float32(1.0)
        p = p * r + np.float32(1.0)
        power = np.int32((np.float32(shifted).view(np.int32) << np.int32(23)) + np.int32(0x3F800000))
        out[j] = np.float32(0.0) if x < np.float32(-87.0) else p * np.int32(power).view(np.float32)
