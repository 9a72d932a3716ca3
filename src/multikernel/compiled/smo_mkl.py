"""SMO on  p'b − ½ ‖q(b)‖_s  with  q_j = b'K_j b,  on a box with the sum of b held fixed.

State that every function keeps true, for the m variables of the working set and F kernels:

- ``scores[j] = (K_j b)`` on the working set, shape (F, m);
- ``q[j] = b'K_j b`` and ``weights[j] = (q_j / ‖q‖_s)^(s − 1)``, so that ½ ∂‖q‖_s/∂b = Σ_j weights_j scores_j;
- ``gradient = p − Σ_j weights_j scores_j``, shape (m,).

``power`` is s − 1 = 1 / (p − 1). Rows of the kernels are in ``rows[slot[i]]``, shape (F, m), where ``slot[i]`` is not
negative; where a missing one is needed the functions return, and go on from there when they are called again.
"""

import numpy as np

from multikernel.compiled.jit import loop, part

DONE, OUT_OF_STEPS, ROWS_MISSING, STALLED = 0, 1, 2, 3

# A line search ends when this share of the slope it started with is left.
SHARE_OF_SLOPE = 0.01


@part
def dual_weights(q, power, weights):
    """``weights = (q / ‖q‖_s)^power`` without overflow; returns ‖q‖_s. Where q is zero the weights are left alone."""
    largest = 0.0
    for j in range(q.size):
        largest = max(largest, q[j])
    if not largest > 0.0:
        return 0.0
    total = 0.0
    for j in range(q.size):
        ratio = q[j] / largest
        weights[j] = ratio if power == 1.0 else ratio**power
        total += weights[j] * ratio
    scale = total ** (-power / (power + 1.0))
    for j in range(q.size):
        weights[j] *= scale
    return largest * total ** (1.0 / (power + 1.0))


@part
def _curvature(q, norm, weights, slopes, kappa, power, unused):
    """Minus the second derivative of the objective along a line with ``q' = 2 slopes`` and ``q'' = 2 kappa``."""
    if not norm > 0.0:
        # all of q is zero: ‖q(t)‖_s = t² ‖kappa‖_s
        return dual_weights(kappa, power, unused)
    straight, spread, mean = 0.0, 0.0, 0.0
    for j in range(q.size):
        straight += weights[j] * kappa[j]
        if q[j] > 0.0:
            share = weights[j] * slopes[j]
            spread += share * (slopes[j] / q[j])
            mean += share
    return straight + 2.0 * power * max(spread - mean * (mean / norm), 0.0)


@part
def _line_search(q, norm, weights, delta, kappa, slope, room, power, new_q, scratch):
    """Maximise ``t slope_p − ½ ‖q + 2 t delta + t² kappa‖_s`` over 0 ≤ t ≤ room by Newton's method within a bracket.

    ``slope`` is the derivative at t = 0, positive. Returns t and ‖q(t)‖_s; q(t) is in ``new_q`` and the weights there
    are in ``weights``.
    """
    slopes, unused = scratch[4], scratch[5]
    linear = slope
    for j in range(q.size):
        if norm > 0.0:
            linear += weights[j] * delta[j]
    curvature = _curvature(q, norm, weights, delta, kappa, power, unused)
    t = room if curvature * room <= slope else slope / curvature
    below, above = 0.0, room
    new_norm = norm
    for _ in range(60):
        for j in range(q.size):
            slopes[j] = delta[j] + t * kappa[j]
            new_q[j] = max(q[j] + t * (delta[j] + slopes[j]), 0.0)
        new_norm = dual_weights(new_q, power, weights)
        left = linear
        if new_norm > 0.0:
            for j in range(q.size):
                left -= weights[j] * slopes[j]
        if abs(left) <= SHARE_OF_SLOPE * slope or (left > 0.0 and t >= room) or above - below <= 1e-14 * above:
            break
        if left > 0.0:
            below = t
        else:
            above = t
        curvature = _curvature(new_q, new_norm, weights, slopes, kappa, power, unused)
        t = t + left / curvature if curvature > 0.0 else above
        if t >= room and above == room:
            t = room
        elif not below < t < above:
            t = 0.5 * (below + above)
    return t, new_norm


@part
def _advance(row_i, row_k, step, p, weights, scores, gradient):
    """Add ``step (row_i − row_k)`` to the scores, and make the gradient that of the new scores and weights."""
    for c in range(p.size):
        gradient[c] = p[c]
    for j in range(weights.size):
        target, first, second, weight = scores[j], row_i[j], row_k[j], weights[j]
        for c in range(p.size):
            value = target[c] + step * (np.float64(first[c]) - np.float64(second[c]))
            target[c] = value
            gradient[c] -= weight * value


@part
def _mix(weights, blocks, out):
    """``out = Σ_j weights_j blocks[j]``."""
    for c in range(out.size):
        out[c] = 0.0
    for j in range(weights.size):
        weight, row = weights[j], blocks[j]
        if weight != 0.0:
            for c in range(out.size):
                out[c] += weight * np.float64(row[c])


@part
def _refresh_diagonal(weights, last, diagonals, mixed):
    """Mix the diagonals anew if the weights have changed by more than a hundredth since ``last``."""
    largest, change = 0.0, 0.0
    for j in range(weights.size):
        largest = max(largest, weights[j])
        change = max(change, abs(weights[j] - last[j]))
    if change > 0.01 * largest:
        _mix(weights, diagonals, mixed)
        for j in range(weights.size):
            last[j] = weights[j]


@part
def _most_violating(gradient, b, lo, hi):
    """The variable that may rise with the largest gradient, and its distance from the least that may fall."""
    top, bottom, index = -np.inf, np.inf, -1
    for c in range(b.size):
        if b[c] < hi[c] and gradient[c] > top:
            top, index = gradient[c], c
        if b[c] > lo[c] and gradient[c] < bottom:
            bottom = gradient[c]
    return index, top - bottom


@part
def _partner(i, row, diagonal, gradient, b, lo):
    """The k whose step with i gains most on the kernel of the present weights [FCL05, WSS 2]; −1 where none does."""
    best, index = 0.0, -1
    for c in range(b.size):
        slope = gradient[i] - gradient[c]
        if b[c] > lo[c] and slope > 0.0:
            sum_of_ends = row[i] + diagonal[c]
            curvature = max(sum_of_ends - 2.0 * row[c], 1e-6 * sum_of_ends + 1e-300)
            gain = slope * (slope / curvature)
            if gain > best:
                best, index = gain, c
    return index


@loop
def dual_steps(
    rows, slot, diagonals, p, lo, hi, power, b, q, weights, scores, gradient, mixed, mixed_diagonal, scratch, eps,
    max_steps,
):  # fmt: skip
    """Steps on pairs that keep the sum of b; returns (status, i, k, steps made, violation).

    Ends at a violation of at most ``eps`` (DONE), after ``max_steps``, when rows i and k are needed and one is
    missing, or when a step no longer changes b (STALLED). ``mixed`` and ``mixed_diagonal``, shape (m,), and
    ``scratch``, shape (6, F), are scratch.
    """
    n_kernels = q.size
    last, delta, kappa, new_q = scratch[0], scratch[1], scratch[2], scratch[3]
    for j in range(n_kernels):
        last[j] = -1.0  # no diagonal has been mixed yet
    norm, violation = dual_weights(q, power, weights), np.inf
    for step in range(max_steps):
        _refresh_diagonal(weights, last, diagonals, mixed_diagonal)
        i, violation = _most_violating(gradient, b, lo, hi)
        if not violation > eps:
            return DONE, 0, 0, step, max(violation, 0.0)
        if i < 0:
            return STALLED, 0, 0, step, violation
        if slot[i] < 0:
            return ROWS_MISSING, i, i, step, violation
        row_i = rows[slot[i]]
        _mix(weights, row_i, mixed)
        k = _partner(i, mixed, mixed_diagonal, gradient, b, lo)
        if k < 0:
            return STALLED, i, i, step, violation
        if slot[k] < 0:
            return ROWS_MISSING, i, k, step, violation
        row_k, room_i, room_k = rows[slot[k]], hi[i] - b[i], b[k] - lo[k]
        for j in range(n_kernels):
            delta[j] = scores[j, i] - scores[j, k]
            kappa[j] = max(diagonals[j, i] + diagonals[j, k] - 2.0 * row_i[j, k], 0.0)
        slope = gradient[i] - gradient[k]
        t, norm = _line_search(q, norm, weights, delta, kappa, slope, min(room_i, room_k), power, new_q, scratch)
        old_i, old_k = b[i], b[k]
        b[i] = hi[i] if t >= room_i else min(b[i] + t, hi[i])
        b[k] = lo[k] if t >= room_k else max(b[k] - t, lo[k])
        for j in range(n_kernels):
            q[j] = new_q[j]
        _advance(row_i, row_k, t, p, weights, scores, gradient)
        if b[i] == old_i and b[k] == old_k:
            return STALLED, i, k, step, violation
    return OUT_OF_STEPS, 0, 0, max_steps, violation
