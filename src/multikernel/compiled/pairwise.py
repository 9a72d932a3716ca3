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


@njit(cache=True, nogil=True, fastmath=_SUM)
def _chi2_pair(x, z, start, stop):
    tiny = x.dtype.type(1e-30)  # 0/0 becomes 0 and nothing else changes
    total = x.dtype.type(0)
    for k in range(start, stop):
        difference = x[k] - z[k]
        total += difference * difference / (x[k] + z[k] + tiny)
    return total


@njit(cache=True, nogil=True, fastmath=_SUM)
def _l1_pair(x, z, start, stop):
    total = x.dtype.type(0)
    for k in range(start, stop):
        total += abs(x[k] - z[k])
    return total


@njit(cache=True, nogil=True, fastmath=_SUM)
def _minimum_pair(x, z, start, stop):
    total = x.dtype.type(0)
    for k in range(start, stop):
        total += x[k] if x[k] < z[k] else z[k]
    return total


@njit(cache=True, nogil=True)
def chi2_dense(A, B, out, r0, r1):
    """out[i, j] = ½ Σ_k (A[i, k] − B[j, k])² / (A[i, k] + B[j, k]) for r0 ≤ i < r1."""
    for tile in range(r0, r1, _TILE):
        for j in range(B.shape[0]):
            for i in range(tile, min(tile + _TILE, r1)):
                total = 0.0
                for k in range(0, A.shape[1], _CHUNK):
                    total += _chi2_pair(A[i], B[j], k, min(k + _CHUNK, A.shape[1]))
                out[i, j] = 0.5 * total


@njit(cache=True, nogil=True)
def l1_dense(A, B, out, r0, r1):
    """out[i, j] = Σ_k |A[i, k] − B[j, k]| for r0 ≤ i < r1."""
    for tile in range(r0, r1, _TILE):
        for j in range(B.shape[0]):
            for i in range(tile, min(tile + _TILE, r1)):
                total = 0.0
                for k in range(0, A.shape[1], _CHUNK):
                    total += _l1_pair(A[i], B[j], k, min(k + _CHUNK, A.shape[1]))
                out[i, j] = total


@njit(cache=True, nogil=True)
def minimum_dense(A, B, out, r0, r1):
    """out[i, j] = Σ_k min(A[i, k], B[j, k]) for r0 ≤ i < r1."""
    for tile in range(r0, r1, _TILE):
        for j in range(B.shape[0]):
            for i in range(tile, min(tile + _TILE, r1)):
                total = 0.0
                for k in range(0, A.shape[1], _CHUNK):
                    total += _minimum_pair(A[i], B[j], k, min(k + _CHUNK, A.shape[1]))
                out[i, j] = total


@njit(cache=True, nogil=True)
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


@njit(cache=True, nogil=True)
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


@njit(cache=True, nogil=True)
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


@njit(cache=True, nogil=True)
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
