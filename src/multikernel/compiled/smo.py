"""Sequential minimal optimisation on a box, with or without sums held fixed.

All functions work on  minimise ½ b'Kb − p'b,  lo ≤ b ≤ hi,  through the gradient g = Kb − p, which the
caller provides and which is kept up to date. Labels do not appear: they are in the bounds and in p. With pairs
``kink ‖b‖₁`` may be added to the objective.
"""

import numpy as np
from llvmlite import ir
from numba import config, types
from numba.extending import intrinsic

from multikernel.compiled.jit import loop, part

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


if config.DISABLE_JIT:  # type: ignore[attr-defined]
    larger = max  # type: ignore[assignment]


@part
def _second_choice(Ki, diagonal, constant, tau, g, down, top, start, stop):
    """The j of [start, stop) whose step along e_i − e_j gains most, to second order [FCL05, WSS 2].

    Returns j, −1 where none does, and the length of that step.
    """
    best, best_block = 0.0, stop
    for block in range(start, stop, BLOCK):
        gain = best
        # unsigned here and below: an index that might be negative keeps a loop from being vectorised
        for k in range(np.uint64(block), np.uint64(min(block + BLOCK, stop))):
            slope = larger(top + (down[k] + g[k]), 0.0)
            curvature = larger(constant + diagonal[k] - 2.0 * np.float64(Ki[k]), tau)
            gain = larger(gain, slope * slope / curvature)
        if gain > best:
            best, best_block = gain, block
    for k in range(best_block, min(best_block + BLOCK, stop)):
        slope = larger(top + (down[k] + g[k]), 0.0)
        curvature = larger(constant + diagonal[k] - 2.0 * np.float64(Ki[k]), tau)
        if slope * slope / curvature >= best:
            return k, slope / curvature
    return -1, 0.0


@part
def _update_and_choose(Ki, Kj, step, g, up, down, start, stop):
    """Add ``step * (Ki − Kj)`` to g on [start, stop).

    Returns the variable that most wants up, its −g, and the largest g of those that may go down.
    """
    top, bottom, best_block = -np.inf, -np.inf, start
    for block in range(start, stop, BLOCK):
        best = -np.inf
        for k in range(np.uint64(block), np.uint64(min(block + BLOCK, stop))):
            value = g[k] + step * (np.float64(Ki[k]) - np.float64(Kj[k]))
            g[k] = value
            best = larger(best, up[k] - value)
            bottom = larger(bottom, down[k] + value)
        if best > top:
            top, best_block = best, block
    for k in range(best_block, min(best_block + BLOCK, stop)):
        if up[k] - g[k] >= top:
            return k, top, bottom
    return -1, -np.inf, bottom


@part
def _mark(k, b, lo, hi, kink, up, down):
    """Record in which directions b[k] may move: −inf where it may not, else what the kink gains there."""
    up[k] = (kink if b[k] < 0.0 else -kink) if b[k] < hi[k] else -np.inf
    down[k] = (kink if b[k] > 0.0 else -kink) if b[k] > lo[k] else -np.inf


@part
def fetch(source, index, K, ready, i):
    """Fill row i of K, the block ``source[index][:, index]``, unless it is there already.

    SMO on a working set touches a fraction of its rows, and copying a row costs as much as a few steps.
    """
    if not ready[i]:
        row, target = source[index[i]], K[i]
        for c in range(index.size):
            target[c] = row[index[c]]
        ready[i] = True


@loop
def pair_smo(source, index, K, ready, diagonal, tau, lo, hi, kink, split, b, g, up, down, eps, max_iter):
    """SMO on pairs, second-order selection, the sums of b[:split] and of b[split:] held fixed.

    Rows of K are fetched from ``source`` as they are needed (see :func:`fetch`).
    Invariant: g = Kb − p. Updates b and g in place; returns (worst KKT violation, iterations). Ends when the
    violation is at most ``eps``, after ``max_iter`` steps, or when no step gains anything any more. ``up`` and
    ``down`` are scratch.
    """
    n = b.size
    for k in range(n):
        _mark(k, b, lo, hi, kink, up, down)
    i = j = np.int64(0)  # a bare 0 has a type of its own, for which everything below would be compiled once more
    step, iteration = 0.0, 0
    while True:
        # the gradient follows the last step: the first pass adds zero times row 0
        fetch(source, index, K, ready, j)
        violation, top, first, start, stop = -np.inf, 0.0, i, split, split
        for group in range(1 if split == n else 2):
            begin, end = group * split, n if group else split
            choice, highest, lowest = _update_and_choose(K[i], K[j], step, g, up, down, begin, end)
            if highest + lowest > violation:
                violation, top, first, start, stop = highest + lowest, highest, choice, begin, end
        if not violation > eps or iteration == max_iter:
            return larger(violation, 0.0), iteration
        i = first
        fetch(source, index, K, ready, i)
        j, step = _second_choice(K[i], diagonal, diagonal[i], tau, g, down, top, start, stop)
        if j < 0:
            return violation, iteration
        # up to a bound, or to the kink, beyond which slopes are others
        end_i, end_j = 0.0 if kink > 0.0 and b[i] < 0.0 else hi[i], 0.0 if kink > 0.0 and b[j] > 0.0 else lo[j]
        room_i, room_j = end_i - b[i], b[j] - end_j
        if step >= room_i or step >= room_j:
            step = room_i if room_i < room_j else room_j
        b[i] = end_i if step >= room_i or b[i] + step > end_i else b[i] + step
        b[j] = end_j if step >= room_j or b[j] - step < end_j else b[j] - step
        _mark(i, b, lo, hi, kink, up, down)
        _mark(j, b, lo, hi, kink, up, down)
        iteration += 1


@part
def _update_and_choose_single(Ki, step, g, up, down, scale):
    """Add ``step * Ki`` to g; return the variable whose own step gains most, or −1, and the worst violation."""
    best, worst, best_block, n = 0.0, 0.0, g.size, g.size
    for block in range(0, n, BLOCK):
        gain = best
        for k in range(np.uint64(block), np.uint64(min(block + BLOCK, n))):
            value = g[k] + step * np.float64(Ki[k])
            g[k] = value
            slope = larger(larger(up[k] - value, down[k] + value), 0.0)
            worst = larger(worst, slope)
            gain = larger(gain, slope * slope * scale[k])
        if gain > best:
            best, best_block = gain, block
    for k in range(best_block, min(best_block + BLOCK, n)):
        slope = larger(larger(up[k] - g[k], down[k] + g[k]), 0.0)
        if slope * slope * scale[k] >= best:
            return k, worst
    return -1, worst


@loop
def single_smo(source, index, K, ready, diagonal, tau, lo, hi, b, g, up, down, scale, eps, max_iter):
    """Coordinate descent on the box alone, always on the variable that gains most.

    Rows of K are fetched from ``source`` as they are needed (see :func:`fetch`).
    Invariant: g = Kb − p. Updates b and g in place; returns (worst KKT violation, iterations). ``up``, ``down`` and
    ``scale`` are scratch.
    """
    for k in range(b.size):
        _mark(k, b, lo, hi, 0.0, up, down)
        scale[k] = 1.0 / larger(diagonal[k], tau)
    i, step, iteration = np.int64(0), 0.0, 0
    while True:
        # the gradient follows the last step: the first pass adds zero times row 0
        fetch(source, index, K, ready, i)
        i, violation = _update_and_choose_single(K[i], step, g, up, down, scale)
        if not violation > eps or i < 0 or iteration == max_iter:
            return violation, iteration
        target = b[i] - g[i] * scale[i]
        target = lo[i] if target < lo[i] else hi[i] if target > hi[i] else target
        step = target - b[i]
        b[i] = target
        _mark(i, b, lo, hi, 0.0, up, down)
        iteration += 1


@loop
def weighted_rows(K, rows, weights, out, start, stop):
    """Add ``weights @ K[rows, start:stop]`` to out[start:stop], four rows at a time, in double precision."""
    first, last = np.uint64(start), np.uint64(stop)
    whole = rows.size // 4 * 4
    for r in range(0, whole, 4):
        K0, K1, K2, K3 = K[rows[r]], K[rows[r + 1]], K[rows[r + 2]], K[rows[r + 3]]
        w0, w1, w2, w3 = weights[r], weights[r + 1], weights[r + 2], weights[r + 3]
        for k in range(first, last):
            out[k] += (w0 * K0[k] + w1 * K1[k]) + (w2 * K2[k] + w3 * K3[k])
    for r in range(whole, rows.size):
        Kr, w = K[rows[r]], weights[r]
        for k in range(first, last):
            out[k] += w * Kr[k]


@loop
def gather(K, rows, columns, out, start, stop):
    """Copy K[rows[start:stop]][:, columns] into out[start:stop]."""
    for r in range(start, stop):
        source, target = K[rows[r]], out[r]
        for c in range(columns.size):
            target[c] = source[columns[c]]
