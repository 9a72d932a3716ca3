"""Compiled steps of variance-reduced gradient descent on kernels.

w is cut into B blocks. A step on sample i changes block b, while ``first + t < stop[b]``, to

    w_b  <-  (1 - decay_b) w_b - step_b (δ_i φ_b(x_i) + g_b),    δ_i = n c_i (ℓ'(f_i) - ℓ'(snapshot_i)),

where ``g_b = Σ_i c_i ℓ'(snapshot_i) φ_b(x_i)`` is the loss's part of the full gradient at the snapshot. Coefficients
are kept as ``scale_b coef_b + drift_b ĝ``, with ĝ those of g, so that shrinking and adding g touch two numbers.
``scratch``, of shape (3, T), is scratch.
"""

from __future__ import annotations

import numpy as np

from multikernel.compiled.jit import REORDER, loop

LOGISTIC, SOFTMAX, HINGE = range(3)
SMALLEST_SCALE = 1e-50


@loop
def slopes(code, width, smoothness, target, scores, out):
    """ℓ'(scores) of one sample, the loss being known by its code; all of shape (T,)."""
    n_scores = scores.shape[0]
    if code == SOFTMAX:
        largest, total = scores[0], 0.0
        for r in range(1, n_scores):
            largest = max(largest, scores[r])
        for r in range(n_scores):
            out[r] = np.exp(scores[r] - largest)
            total += out[r]
        for r in range(n_scores):
            out[r] = out[r] / total - target[r]
        return
    for r in range(n_scores):
        y, f = target[r], scores[r]
        if code == LOGISTIC:
            small = np.exp(-abs(y * f))
            out[r] = -y * (small if y * f > 0.0 else 1.0) / (1.0 + small)
        elif code == HINGE:
            out[r] = -smoothness * y * min(max(1.0 - y * f, 0.0), width)
        else:
            out[r] = -smoothness * min(max(y - f, -width), width)


@loop(fastmath=REORDER)
def kernel_steps(
    rows, slot, order, first, code, width, smoothness, targets, emphasis, snapshot, step, decay, stop,
    image, table, coef, scale, drift, scratch,
):  # fmt: skip
    """Steps on the samples of ``order``, whose kernel rows are all in ``rows`` (B, b, n).

    ``scale_b table[b] + drift_b image[b]``, shape (T, n), are kept the scores under w_b; ``image[b]`` those under ĝ.
    """
    n_blocks, n_scores, n = table.shape
    scores, new, change = scratch[0], scratch[1], scratch[2]
    for t in range(order.shape[0]):
        i = order[t]
        for r in range(n_scores):
            scores[r] = 0.0
            for b in range(n_blocks):
                scores[r] += scale[b] * table[b, r, i] + drift[b] * image[b, r, i]
        slopes(code, width, smoothness, targets[i], scores, new)
        for r in range(n_scores):
            change[r] = emphasis[i] * (new[r] - snapshot[i, r])
        for b in range(n_blocks):
            if first + t >= stop[b]:
                continue
            keep = 1.0 - decay[b]
            scale[b] *= keep
            drift[b] = keep * drift[b] - step[b]
            if scale[b] < SMALLEST_SCALE:
                for r in range(n_scores):
                    for k in range(n):
                        table[b, r, k] *= scale[b]
                        coef[b, k, r] *= scale[b]
                scale[b] = 1.0
            row = rows[b, slot[i]]
            for r in range(n_scores):
                factor = -step[b] * change[r] / scale[b]
                if factor != 0.0:
                    coef[b, i, r] += factor
                    line = table[b, r]
                    for k in range(n):
                        line[k] += factor * row[k]
