"""Sums over bins for all pairs of rows: χ², L1 and histogram intersection; and exp of distances.

Two algorithms. Dense: every bin of every pair, vectorised. Overlap: only bins where both rows are non-zero,
found through the columns of the second matrix, for sparse histograms. Both fill ``out[r0:r1]`` and release the
GIL, so that threads can share the rows.
"""

from __future__ import annotations

import numpy as np

from multikernel.compiled.jit import REORDER, loop

CHI2, L1, MINIMUM = range(3)
_TILE = 16  # rows of the first matrix that stay in the L2 cache while rows of the second pass by
_CHUNK = 4096  # bins summed in the working precision before they are added in float64


@loop(fastmath=REORDER)
def dense(metric, A, B, out, r0, r1):
    """out[i, j] = ½ Σ_k (a − b)² / (a + b), Σ_k |a − b| or Σ_k min(a, b), a = A[i, k], b = B[j, k], r0 ≤ i < r1."""
    tiny, half = A.dtype.type(1e-30), A.dtype.type(0.5)  # 0/0 becomes 0 and nothing else changes
    for tile in range(r0, r1, _TILE):
        for j in range(B.shape[0]):
            for i in range(tile, min(tile + _TILE, r1)):
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
