"""Compiled coordinate ascent on the dual of the multiclass hinge loss, for one kernel."""

from __future__ import annotations

import numpy as np
from numba import njit


@njit(cache=True, nogil=True)
def _best_row(target, cap, label, out):
    """Project ``target`` on {out <= cap at the label, <= 0 elsewhere, Σ out = 0}.

    With u = cap·e_label - out this is the projection on the simplex of size cap; classes enter its support one by
    one, from the largest.
    """
    n_classes = target.shape[0]
    for r in range(n_classes):
        out[r] = -target[r]
    out[label] += cap
    ordered = np.sort(out)
    total, level = 0.0, 0.0
    for k in range(n_classes):
        value = ordered[n_classes - 1 - k]
        total += value
        candidate = (total - cap) / (k + 1)
        if k == 0 or value - candidate > 0.0:  # the largest is always in it, even if a tiny cap is lost in rounding
            level = candidate
    for r in range(n_classes):
        out[r] = -max(out[r] - level, 0.0)
    out[label] += cap


@njit(cache=True, nogil=True)
def _best_vertex(scores, cost, cap, label, i, out):
    """The row for a sample without curvature, on which the dual is linear: all on the worst rival, or nothing."""
    rival = label
    for r in range(out.shape[0]):
        out[r] = 0.0
        if scores[r, i] + cost[label, r] > scores[rival, i] + cost[label, rival]:
            rival = r
    if rival != label:
        out[label], out[rival] = cap, -cap


@njit(cache=True, nogil=True)
def _gap(alpha, scores, cost, cap, label, i):
    """The sample's share of the duality gap, ``cap · loss + Σ_r alpha_ir (score_r + cost_r)``: zero at an optimum."""
    highest, linear = -np.inf, 0.0
    for r in range(alpha.shape[1]):
        value = scores[r, i] + cost[label, r]
        highest = max(highest, value)
        linear += alpha[i, r] * value
    return cap * (highest - scores[label, i]) + linear


@njit(cache=True, nogil=True)
def coordinate_sweep(rows, slot, diagonal, labels, cost, caps, order, threshold, alpha, scores):
    """Go over the samples of ``order`` once; returns the sum of their shares of the duality gap as they were met.

    Maximises ``-Σ_i Σ_r cost[y_i, r] alpha_ir - ½ Σ_r alpha_r' K alpha_r`` over one row of alpha at a time, with
    ``alpha_ir <= caps_i [r = y_i]`` and rows that sum to zero, keeping ``scores[r] = K alpha_r``, shape (M, n). A
    sample whose share is at most ``threshold`` is left alone: looking costs M numbers, a change n for each class
    that moves. ``rows[slot[i]]`` is the kernel's row of sample i.
    """
    n_classes = scores.shape[0]
    target, new = np.empty(n_classes), np.empty(n_classes)
    total = 0.0
    for k in range(order.shape[0]):
        i = order[k]
        label, cap = labels[i], caps[i]
        share = _gap(alpha, scores, cost, cap, label, i)
        total += share
        if share <= threshold or diagonal[i] < 0.0:
            continue
        if diagonal[i] == 0.0:
            _best_vertex(scores, cost, cap, label, i, new)
        else:
            for r in range(n_classes):
                target[r] = alpha[i, r] - (scores[r, i] + cost[label, r]) / diagonal[i]
            _best_row(target, cap, label, new)
        row = rows[slot[i]]
        for r in range(n_classes):
            change = new[r] - alpha[i, r]
            if change != 0.0:
                alpha[i, r] = new[r]
                line = scores[r]
                for m in range(row.shape[0]):
                    line[m] += change * row[m]
    return total
