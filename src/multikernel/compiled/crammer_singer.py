"""Compiled coordinate ascent on the dual of the multiclass hinge loss, for one kernel."""

import numpy as np

from multikernel.compiled.jit import loop, part


@part
def _best_row(target, cap, label, out):
    """Project ``target`` on {out <= cap at the label, <= 0 elsewhere, Σ out = 0}.

    With u = cap·e_label - out this is the projection on the simplex of size cap. Its support begins with all classes,
    and those at or below the level that the rest implies leave it, until none does.
    """
    n_classes = target.shape[0]
    for r in range(n_classes):
        out[r] = -target[r]
    out[label] += cap
    level, before, count = -np.inf, n_classes + 2, n_classes + 1
    while 0 < count < before:  # none is left where a tiny cap is lost in rounding
        before, total, count = count, 0.0, 0
        for r in range(n_classes):
            if out[r] > level:
                total += out[r]
                count += 1
        if count > 0:
            level = (total - cap) / count
    for r in range(n_classes):
        out[r] = -max(out[r] - level, 0.0)
    out[label] += cap


@part
def _best_vertex(scores, cost, cap, label, i, out):
    """The row for a sample without curvature, on which the dual is linear: all on the worst rival, or nothing."""
    rival = label
    for r in range(out.shape[0]):
        out[r] = 0.0
        if scores[r, i] + cost[label, r] > scores[rival, i] + cost[label, rival]:
            rival = r
    if rival != label:
        out[label], out[rival] = cap, -cap


@part
def _gap(alpha, scores, cost, cap, label, i):
    """The sample's share of the duality gap, ``cap · loss + Σ_r alpha_ir (score_r + cost_r)``: zero at an optimum."""
    highest, linear = -np.inf, 0.0
    for r in range(alpha.shape[1]):
        value = scores[r, i] + cost[label, r]
        highest = max(highest, value)
        linear += alpha[i, r] * value
    return cap * (highest - scores[label, i]) + linear


@loop
def coordinate_sweep(rows, slot, diagonal, labels, cost, caps, order, threshold, alpha, scores, target, new):
    """Go over the samples of ``order`` once; returns the sum of their shares of the duality gap as they were met.

    Maximises ``-Σ_i Σ_r cost[y_i, r] alpha_ir - ½ Σ_r alpha_r' K alpha_r`` over one row of alpha at a time, with
    ``alpha_ir <= caps_i [r = y_i]`` and rows that sum to zero, keeping ``scores[r] = K alpha_r``, shape (M, n). A
    sample whose share is at most ``threshold`` is left alone: looking costs M numbers, a change n for each class
    that moves. ``rows[slot[i]]`` is the kernel's row of sample i; ``target`` and ``new``, shape (M,), are scratch.
    """
    n_classes = scores.shape[0]
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
