"""Sequential minimal optimisation on a box, with or without sums held fixed.

All functions work on  minimise ½ b'Kb − p'b,  lo ≤ b ≤ hi,  through the gradient g = Kb − p, which the
caller provides and which is kept up to date. Labels do not appear: they are in the bounds and in p.
"""

from __future__ import annotations

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic

# Elements reduced at a time: the index of a maximum is looked for in one block only, so that the passes
# over all variables are plain maxima, which vectorise.
BLOCK = 256


@intrinsic
def larger(typing_context, a, b):
    """The larger of two doubles, as one instruction.

    ``max`` in a compiled function keeps Python's order of comparison, which LLVM does not vectorise (measured:
    a pass takes twice to four times as long). This one says, for itself alone, that its arguments are not
    NaN: the caller checks that gradients are finite, and a NaN could at worst make a poor choice of
    variable, never an index out of range.
    """
    signature = types.float64(types.float64, types.float64)

    def codegen(context, builder, signature, arguments):
        double = ir.DoubleType()
        maximum = builder.module.declare_intrinsic("llvm.maxnum", [double], ir.FunctionType(double, [double, double]))
        return builder.call(maximum, arguments, fastmath=("nnan", "nsz"))

    return signature, codegen


@njit(cache=True, nogil=True, error_model="numpy")
def _update_block(Ki, Kj, step, g, up, down):
    """Add ``step * (Ki - Kj)`` to g; return the largest ``up - g`` and the largest ``down + g``."""
    best_up = -np.inf
    best_down = -np.inf
    for k in range(g.size):
        value = g[k] + step * (np.float64(Ki[k]) - np.float64(Kj[k]))
        g[k] = value
        best_up = larger(best_up, up[k] - value)
        best_down = larger(best_down, down[k] + value)
    return best_up, best_down


@njit(cache=True, nogil=True, error_model="numpy")
def _gain_block(Ki, diagonal, constant, tau, g, down, top):
    """Largest decrease (times two) of the objective by a step along e_i − e_k, second order."""
    best = 0.0
    for k in range(g.size):
        slope = larger(top + (down[k] + g[k]), 0.0)
        curvature = larger(constant + diagonal[k] - 2.0 * np.float64(Ki[k]), tau)
        best = larger(best, slope * slope / curvature)
    return best


@njit(cache=True, nogil=True, error_model="numpy")
def _find_gain(Ki, diagonal, constant, tau, g, down, top, start, stop):
    """Index of the largest gain on [start, stop), and the slope and curvature of that step."""
    best, index, best_slope, best_curvature = 0.0, -1, 0.0, 1.0
    for k in range(start, stop):
        slope = larger(top + (down[k] + g[k]), 0.0)
        curvature = larger(constant + diagonal[k] - 2.0 * np.float64(Ki[k]), tau)
        gain = slope * slope / curvature
        if gain > best:
            best, index, best_slope, best_curvature = gain, k, slope, curvature
    return index, best_slope, best_curvature


@njit(cache=True, nogil=True, error_model="numpy")
def _second_choice(Ki, diagonal, constant, tau, g, down, top, start, stop):
    """The j of [start, stop) whose step with i gains most [FCL05, WSS 2]; −1 where none does."""
    best, best_block = 0.0, -1
    for block in range(start, stop, BLOCK):
        end = min(block + BLOCK, stop)
        gain = _gain_block(Ki[block:end], diagonal[block:end], constant, tau, g[block:end], down[block:end], top)
        if gain > best:
            best, best_block = gain, block
    if best_block < 0:
        return -1, 0.0, 1.0
    return _find_gain(Ki, diagonal, constant, tau, g, down, top, best_block, min(best_block + BLOCK, stop))


@njit(cache=True, nogil=True, error_model="numpy")
def _update_and_choose(Ki, Kj, step, g, up, down, start, stop):
    """Move the gradient on [start, stop); return the variable that most wants up, its −g, and max of g below."""
    top, bottom, best_block = -np.inf, -np.inf, start
    for block in range(start, stop, BLOCK):
        end = min(block + BLOCK, stop)
        best_up, best_down = _update_block(
            Ki[block:end], Kj[block:end], step, g[block:end], up[block:end], down[block:end]
        )
        bottom = max(bottom, best_down)
        if best_up > top:
            top, best_block = best_up, block
    for k in range(best_block, min(best_block + BLOCK, stop)):
        if up[k] - g[k] >= top:
            return k, top, bottom
    return -1, -np.inf, bottom


@njit(cache=True, nogil=True, error_model="numpy")
def _mark(k, b, lo, hi, up, down):
    """Record in which directions b[k] may move: 0 where it may, −inf where it may not."""
    up[k] = 0.0 if b[k] < hi[k] else -np.inf
    down[k] = 0.0 if b[k] > lo[k] else -np.inf


@njit(cache=True, nogil=True, error_model="numpy")
def fetch(source, index, K, ready, i):
    """Fill row i of K, the block ``source[index][:, index]``, unless it is there already.

    SMO on a working set touches a fraction of its rows, and copying a row costs as much as a few steps.
    """
    if not ready[i]:
        row, target = source[index[i]], K[i]
        for c in range(index.size):
            target[c] = row[index[c]]
        ready[i] = True


@njit(cache=True, nogil=True, error_model="numpy")
def fetch_rows(source, index, K, ready, rows):
    """Fill the given rows of K (see :func:`fetch`)."""
    for r in range(rows.size):
        fetch(source, index, K, ready, rows[r])


@njit(cache=True, nogil=True, error_model="numpy")
def _move_pair(i, j, step, b, lo, hi):
    """Raise b[i] and lower b[j] by ``step``, or by what their bounds allow; return the step made."""
    room_i, room_j = hi[i] - b[i], b[j] - lo[j]
    step = min(step, room_i, room_j)
    b[i] = hi[i] if step >= room_i else min(b[i] + step, hi[i])
    b[j] = lo[j] if step >= room_j else max(b[j] - step, lo[j])
    return step


@njit(cache=True, nogil=True, error_model="numpy")
def pair_smo(source, index, K, ready, diagonal, tau, lo, hi, split, b, g, eps, max_iter):
    """SMO on pairs, second-order selection, the sums of b[:split] and of b[split:] held fixed.

    Rows of K are fetched from ``source`` as they are needed (see :func:`fetch`).
    Invariant: g = Kb − p. Updates b and g in place; returns (worst KKT violation, iterations). Ends when the
    violation is at most ``eps``, after ``max_iter`` steps, or when no step gains anything any more.
    """
    n = b.size
    up, down = np.empty(n), np.empty(n)
    for k in range(n):
        _mark(k, b, lo, hi, up, down)
    fetch(source, index, K, ready, 0)  # the first pass adds zero times this row
    i, j, step, violation = 0, 0, 0.0, np.inf
    for iteration in range(max_iter):
        first, top, bottom = _update_and_choose(K[i], K[j], step, g, up, down, 0, split)
        start, stop = 0, split
        if split < n:
            other, other_top, other_bottom = _update_and_choose(K[i], K[j], step, g, up, down, split, n)
            if other_top + other_bottom > top + bottom or not top + bottom > -np.inf:
                first, top, bottom, start, stop = other, other_top, other_bottom, split, n
        violation = top + bottom
        if not violation > eps:
            return max(violation, 0.0), iteration
        i = first
        fetch(source, index, K, ready, i)
        j, slope, curvature = _second_choice(K[i], diagonal, diagonal[i], tau, g, down, top, start, stop)
        if j < 0:
            return violation, iteration
        fetch(source, index, K, ready, j)
        step = _move_pair(i, j, slope / curvature, b, lo, hi)
        _mark(i, b, lo, hi, up, down)
        _mark(j, b, lo, hi, up, down)
    # the last step is not in the gradient yet
    _update_and_choose(K[i], K[j], step, g, up, down, 0, n)
    return violation, max_iter


@njit(cache=True, nogil=True, error_model="numpy")
def _update_block_single(Ki, step, g, up, down, scale):
    """Add ``step * Ki`` to g; return the largest gain of a one-variable step and the largest violation."""
    best, worst = 0.0, 0.0
    for k in range(g.size):
        value = g[k] + step * np.float64(Ki[k])
        g[k] = value
        slope = larger(larger(up[k] - value, down[k] + value), 0.0)
        worst = larger(worst, slope)
        best = larger(best, slope * slope * scale[k])
    return best, worst


@njit(cache=True, nogil=True, error_model="numpy")
def _find_single(g, up, down, scale, start, stop):
    """Index on [start, stop) of the largest gain of a one-variable step."""
    best, index = 0.0, -1
    for k in range(start, stop):
        slope = max(max(up[k] - g[k], down[k] + g[k]), 0.0)
        gain = slope * slope * scale[k]
        if gain > best:
            best, index = gain, k
    return index


@njit(cache=True, nogil=True, error_model="numpy")
def _update_and_choose_single(Ki, step, g, up, down, scale):
    """Move the gradient; return the variable whose own step gains most and the worst violation."""
    best, worst, best_block, n = 0.0, 0.0, -1, g.size
    for block in range(0, n, BLOCK):
        end = min(block + BLOCK, n)
        gain, slope = _update_block_single(
            Ki[block:end], step, g[block:end], up[block:end], down[block:end], scale[block:end]
        )
        worst = max(worst, slope)
        if gain > best:
            best, best_block = gain, block
    if best_block < 0:
        return -1, worst
    return _find_single(g, up, down, scale, best_block, min(best_block + BLOCK, n)), worst


@njit(cache=True, nogil=True, error_model="numpy")
def single_smo(source, index, K, ready, diagonal, tau, lo, hi, b, g, eps, max_iter):
    """Coordinate descent on the box alone, always on the variable that gains most.

    Rows of K are fetched from ``source`` as they are needed (see :func:`fetch`).
    Invariant: g = Kb − p. Updates b and g in place; returns (worst KKT violation, iterations).
    """
    n = b.size
    up, down, scale = np.empty(n), np.empty(n), np.empty(n)
    for k in range(n):
        _mark(k, b, lo, hi, up, down)
        scale[k] = 1.0 / max(diagonal[k], tau)
    fetch(source, index, K, ready, 0)  # the first pass adds zero times this row
    i, step, violation = 0, 0.0, np.inf
    for iteration in range(max_iter):
        choice, violation = _update_and_choose_single(K[i], step, g, up, down, scale)
        if not violation > eps or choice < 0:
            return violation, iteration
        i = choice
        fetch(source, index, K, ready, i)
        target = min(max(b[i] - g[i] * scale[i], lo[i]), hi[i])
        step = target - b[i]
        b[i] = target
        _mark(i, b, lo, hi, up, down)
    _update_and_choose_single(K[i], step, g, up, down, scale)
    return violation, max_iter


@njit(cache=True, nogil=True, error_model="numpy")
def weighted_rows(K, rows, weights, out, start, stop):
    """Add ``weights @ K[rows, start:stop]`` to out[start:stop], four rows at a time, in double precision."""
    m = rows.size
    whole = m - m % 4
    for r in range(0, whole, 4):
        K0, K1, K2, K3 = K[rows[r]], K[rows[r + 1]], K[rows[r + 2]], K[rows[r + 3]]
        w0, w1, w2, w3 = weights[r], weights[r + 1], weights[r + 2], weights[r + 3]
        for k in range(start, stop):
            out[k] += (w0 * K0[k] + w1 * K1[k]) + (w2 * K2[k] + w3 * K3[k])
    for r in range(whole, m):
        Kr, w = K[rows[r]], weights[r]
        for k in range(start, stop):
            out[k] += w * Kr[k]


@njit(cache=True, nogil=True, error_model="numpy")
def gather(K, rows, columns, out, start, stop):
    """Copy K[rows[start:stop]][:, columns] into out[start:stop]."""
    for r in range(start, stop):
        source, target = K[rows[r]], out[r]
        for c in range(columns.size):
            target[c] = source[columns[c]]
