"""Sums over bins for all pairs of rows: χ², L1 and histogram intersection; and exp of distances.

Two algorithms. Dense: every bin of every pair, vectorised. Overlap: only bins where both rows are non-zero,
found through the columns of the second matrix, for sparse histograms. Both fill ``out[r0:r1]`` and release the
GIL, so that threads can share the rows.
"""

from __future__ import annotations

import numpy as np
from numba import njit

_SUM = {"reassoc", "nsz", "contract"}  # lets sums over bins use SIMD; NaN and inf keep their meaning
_TILE = 16  # rows of the first matrix that stay in the L2 cache while rows of the second pass by
_CHUNK = 4096  # bins summed in the working precision before they are added in float64


@njit(cache=True, nogil=True, error_model="numpy", fastmath=_SUM)
def _chi2_pair(x, z):
    tiny = x.dtype.type(1e-30)  # 0/0 becomes 0 and nothing else changes
    total = x.dtype.type(0)
    for k in range(x.shape[0]):  # from 0: a start that may be negative costs the SIMD
        difference = x[k] - z[k]
        total += difference * difference / (x[k] + z[k] + tiny)
    return total


@njit(cache=True, nogil=True, error_model="numpy", fastmath=_SUM)
def _l1_pair(x, z):
    total = x.dtype.type(0)
    for k in range(x.shape[0]):
        total += abs(x[k] - z[k])
    return total


@njit(cache=True, nogil=True, error_model="numpy", fastmath=_SUM)
def _minimum_pair(x, z):
    total = x.dtype.type(0)
    for k in range(x.shape[0]):
        total += x[k] if x[k] < z[k] else z[k]
    return total


@njit(cache=True, nogil=True, error_model="numpy")
def chi2_dense(A, B, out, r0, r1):
    """out[i, j] = ½ Σ_k (A[i, k] − B[j, k])² / (A[i, k] + B[j, k]) for r0 ≤ i < r1."""
    for tile in range(r0, r1, _TILE):
        for j in range(B.shape[0]):
            for i in range(tile, min(tile + _TILE, r1)):
                total = 0.0
                for k in range(0, A.shape[1], _CHUNK):
                    total += _chi2_pair(A[i, k : k + _CHUNK], B[j, k : k + _CHUNK])
                out[i, j] = 0.5 * total


@njit(cache=True, nogil=True, error_model="numpy")
def l1_dense(A, B, out, r0, r1):
    """out[i, j] = Σ_k |A[i, k] − B[j, k]| for r0 ≤ i < r1."""
    for tile in range(r0, r1, _TILE):
        for j in range(B.shape[0]):
            for i in range(tile, min(tile + _TILE, r1)):
                total = 0.0
                for k in range(0, A.shape[1], _CHUNK):
                    total += _l1_pair(A[i, k : k + _CHUNK], B[j, k : k + _CHUNK])
                out[i, j] = total


@njit(cache=True, nogil=True, error_model="numpy")
def minimum_dense(A, B, out, r0, r1):
    """out[i, j] = Σ_k min(A[i, k], B[j, k]) for r0 ≤ i < r1."""
    for tile in range(r0, r1, _TILE):
        for j in range(B.shape[0]):
            for i in range(tile, min(tile + _TILE, r1)):
                total = 0.0
                for k in range(0, A.shape[1], _CHUNK):
                    total += _minimum_pair(A[i, k : k + _CHUNK], B[j, k : k + _CHUNK])
                out[i, j] = total


@njit(cache=True, nogil=True, error_model="numpy")
def first_entries(column_ends, rows, first):
    """For each column of a CSC matrix with sorted rows, the position of its first entry in a row ≥ ``first``."""
    starts = np.empty(len(column_ends) - 1, np.int64)
    for k in range(len(starts)):
        low, high = column_ends[k], column_ends[k + 1]
        while low < high:
            middle = (low + high) // 2
            if rows[middle] < first:
                low = middle + 1
            else:
                high = middle
        starts[k] = low
    return starts


@njit(cache=True, nogil=True, error_model="numpy")
def chi2_overlap(ends, bins, values, offset, starts, column_ends, rows, others, first, out, r0, r1):
    """out[i, j] = Σ_k 2ab/(a + b), a = A[offset + i, k] (CSR) and b = B[first + j, k] (CSC), for r0 ≤ i < r1."""
    totals = np.empty(out.shape[1])
    for i in range(r0, r1):
        totals[:] = 0.0
        for entry in range(ends[offset + i], ends[offset + i + 1]):
            a, k = values[entry], bins[entry]
            for other in range(starts[k], column_ends[k + 1]):
                b = others[other]
                totals[rows[other] - first] += a * b / (a + b)
        for j in range(out.shape[1]):
            out[i, j] = 2.0 * totals[j]


@njit(cache=True, nogil=True, error_model="numpy")
def l1_overlap(ends, bins, values, offset, starts, column_ends, rows, others, first, out, r0, r1):
    """out[i, j] = Σ_k |a| + |b| − |a − b| over the bins where both are non-zero; layout as in chi2_overlap."""
    totals = np.empty(out.shape[1])
    for i in range(r0, r1):
        totals[:] = 0.0
        for entry in range(ends[offset + i], ends[offset + i + 1]):
            a, k = values[entry], bins[entry]
            for other in range(starts[k], column_ends[k + 1]):
                b = others[other]
                totals[rows[other] - first] += abs(a) + abs(b) - abs(a - b)
        for j in range(out.shape[1]):
            out[i, j] = totals[j]


@njit(cache=True, nogil=True, error_model="numpy")
def minimum_overlap(ends, bins, values, offset, starts, column_ends, rows, others, first, out, r0, r1):
    """out[i, j] = Σ_k min(a, b) over the bins where both are non-zero; layout as in chi2_overlap."""
    totals = np.empty(out.shape[1])
    for i in range(r0, r1):
        totals[:] = 0.0
        for entry in range(ends[offset + i], ends[offset + i + 1]):
            a, k = values[entry], bins[entry]
            for other in range(starts[k], column_ends[k + 1]):
                b = others[other]
                totals[rows[other] - first] += a if a < b else b
        for j in range(out.shape[1]):
            out[i, j] = totals[j]


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"})
def _exp_float64(x, out):
    """out = exp(x) for x ≤ 709: 2^k times a polynomial in r = x − k log 2, |r| ≤ ½ log 2, within 2 ulp."""
    for j in range(x.shape[0]):
        value = -708.0 if x[j] < -708.0 else x[j]  # NaN passes through
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
        out[j] = 0.0 if x[j] < -708.0 else p * np.int64(power).view(np.float64)


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"})
def _exp_float32(x, out):
    """As _exp_float64, in single precision, for x ≤ 88."""
    for j in range(x.shape[0]):
        value = np.float32(-87.0) if x[j] < np.float32(-87.0) else x[j]
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
        out[j] = np.float32(0.0) if x[j] < np.float32(-87.0) else p * np.int32(power).view(np.float32)


# one layout of ``out`` for whole matrices and parts of them: half the compilation
@njit("void(float64[:, ::1], float64, float64[:, :], int64, int64)", cache=True, nogil=True, error_model="numpy")
def exponential_float64(distances, factor, out, r0, r1):
    """out[r0:r1] = exp(factor · distances[r0:r1]), factor ≤ 0 ≤ distances; ``out`` may be part of a wider array."""
    scaled, values = np.empty(distances.shape[1]), np.empty(distances.shape[1])
    for i in range(r0, r1):
        for j in range(distances.shape[1]):
            scaled[j] = distances[i, j] * factor
        _exp_float64(scaled, values)
        out[i] = values


@njit("void(float32[:, ::1], float32, float32[:, :], int64, int64)", cache=True, nogil=True, error_model="numpy")
def exponential_float32(distances, factor, out, r0, r1):
    """As exponential_float64, in single precision."""
    scaled, values = np.empty(distances.shape[1], np.float32), np.empty(distances.shape[1], np.float32)
    for i in range(r0, r1):
        for j in range(distances.shape[1]):
            scaled[j] = distances[i, j] * factor
        _exp_float32(scaled, values)
        out[i] = values
