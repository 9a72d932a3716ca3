"""Compiled steps of the stochastic methods on the score table.

All of them keep, for each kernel, the scores of every sample under the unscaled dual vector T (θ = scale · T):

- ``table[j, r, i] = T_j · φ_j(x_i, r)``, shape (F, M, n), in double precision whatever the kernels' precision;
- ``coef[i, r]``: the coefficients of T, shape (n, M); every row sums to zero;
- ``squares[j] = ‖T_j‖²``, shape (F,);
- ``weights[j]``: the kernel weights that these norms imply, shape (F,).

``scores``, shape (M,), is scratch.

``rows`` of shape (F, b, n) holds kernel rows, that of sample i in place ``slot[i]``, or nowhere if ``slot[i] < 0``: a
function that needs such a row returns the position it got to in ``order``, to be called again once the row is there.
A step whose margin holds reads F·M numbers of the table; an update reads F·n numbers of the kernels, and reads and
writes 2·F·n of the table: F·n·(itemsize + 32) bytes.
"""

import numpy as np

from multikernel.compiled.jit import loop, part

# positions in the vector of scalars that the loops share with their callers
SCALE, NORM, PROXIMAL, STEPS, UPDATES, MISTAKES = range(6)
SMALLEST_SCALE = 1e-100


@loop
def refresh_weights(squares, threshold, q, weights):
    """Weights ``(v_j / ‖T_j‖) (v_j / ‖v‖_q)^(q-2)`` with ``v_j = max(‖T_j‖ - threshold, 0)``; returns ‖v‖_q.

    Norms are divided by the largest first, so that q = 101 neither overflows nor loses all of them.
    """
    largest = 0.0
    for j in range(squares.shape[0]):
        largest = max(largest, squares[j])
    largest = np.sqrt(largest)
    top = largest - threshold
    if top <= 0.0:
        for j in range(weights.shape[0]):
            weights[j] = 1.0 if threshold == 0.0 else 0.0
        return 0.0
    total = 0.0
    for j in range(squares.shape[0]):
        norm = np.sqrt(max(squares[j], 0.0))
        excess = norm - threshold
        if excess > 0.0:
            weights[j] = np.log(excess / top)
            total += np.exp(q * weights[j])
        else:
            weights[j] = -np.inf
    shift = np.log(total) / q
    for j in range(squares.shape[0]):
        if weights[j] == -np.inf:
            # p = 2 gives every kernel the weight 1, one that is still at zero too
            weights[j] = 1.0 if q == 2.0 and threshold == 0.0 else 0.0
            continue
        share = 1.0
        if threshold > 0.0:
            share = 1.0 - threshold / np.sqrt(squares[j])
        weights[j] = share * np.exp((q - 2.0) * (weights[j] - shift))
    return top * np.exp(shift)


@part
def _most_violating(table, weights, factor, cost, label, i, scores):
    """Largest ``cost[label, r] + score_r - score_label`` over r != label, its r, and whether the label lost."""
    n_kernels, n_classes = table.shape[0], table.shape[1]
    for r in range(n_classes):
        scores[r] = 0.0
    for j in range(n_kernels):
        weight = weights[j]
        if weight > 1e-30:
            for r in range(n_classes):
                scores[r] += weight * table[j, r, i]
    return _best_rival(scores, factor, cost, label)


@part
def _best_rival(scores, factor, cost, label):
    """:func:`_most_violating` for ``factor · scores`` of one sample, shape (M,)."""
    rival, loss, best = -1, -np.inf, -np.inf
    own = factor * scores[label]
    for r in range(scores.shape[0]):
        if r != label:
            difference = factor * scores[r] - own
            best = max(best, difference)
            if cost[label, r] + difference > loss:
                rival, loss = r, cost[label, r] + difference
    return loss, rival, best >= 0.0


@part
def _add(rows, place, diagonal, step, label, rival, i, table, coef, squares):
    """``T += step (φ(x_i, label) - φ(x_i, rival))``, in the table, the coefficients and the squared norms."""
    coef[i, label] += step
    coef[i, rival] -= step
    for j in range(table.shape[0]):
        squares[j] += _move(rows[j, place], diagonal[j, i], step, table[j, label], table[j, rival], i)


@part
def _move(row, diagonal, step, up, down, i):
    """Scores of two classes after a step on sample i under one kernel; returns the change of ‖T_j‖²."""
    change_of_square = 2.0 * step * (up[i] - down[i] + step * diagonal)
    for k in range(row.shape[0]):
        change = step * row[k]
        up[k] += change
        down[k] -= change
    return change_of_square


@part
def _proximal_step(scalars, lam, q, radius, length):
    """Steps 8 to 10 of [OJC10, alg. 2]: the step size where the sub-gradient has this length; counts the step."""
    scalars[STEPS] += 1
    length += lam / q * scalars[SCALE] * scalars[NORM]
    distance = lam * scalars[STEPS] + scalars[PROXIMAL]
    root = np.sqrt(distance * distance + q * (length / radius) ** 2)
    scalars[PROXIMAL] += 0.5 * (root - distance)
    eta = q / (lam * scalars[STEPS] + scalars[PROXIMAL])
    # the very first Pegasos step multiplies by zero, what is zero already
    shrink = 1.0 - lam * eta / q
    if shrink > 0.0:
        scalars[SCALE] *= shrink
    return eta


@part
def _project(scalars, largest):
    """Step 12: shorten θ to ``largest``; says whether the scale is so small that it has to be multiplied into T."""
    norm = scalars[SCALE] * scalars[NORM]
    if norm > largest:
        scalars[SCALE] *= largest / norm
    return scalars[SCALE] < SMALLEST_SCALE


@loop
def adding_steps(
    rows, slot, diagonal, labels, cost, importance, order, position, eta, lam, sparsity, q,
    table, coef, squares, weights, scalars, scores,
):  # fmt: skip
    """Add ``eta`` times sub-gradients to T on ``order[position:]``.

    For lam = 0 it is stage 1, where ``w = weights · T / q``; else UFO-MKL, where ``w = weights · T / (lam t)``
    after t steps. The norms of T are cut by ``sparsity · t``, so with sparsity the weights change at every step.
    """
    for k in range(position, order.shape[0]):
        i = order[k]
        factor = 1.0 / q if lam == 0.0 else 1.0 / (lam * max(scalars[STEPS], 1.0))
        loss, rival, mistake = _most_violating(table, weights, factor, cost, labels[i], i, scores)
        moves = loss > 0.0 and importance[i] > 0.0
        if moves and slot[i] < 0:
            return k
        scalars[STEPS] += 1
        scalars[MISTAKES] += mistake
        if moves:
            _add(rows, slot[i], diagonal, eta * importance[i], labels[i], rival, i, table, coef, squares)
            scalars[UPDATES] += 1
        if moves or sparsity > 0.0:
            scalars[NORM] = refresh_weights(squares, sparsity * scalars[STEPS], q, weights)
    return order.shape[0]


@loop
def proximal_steps(
    rows, slot, diagonal, labels, cost, importance, lengths, hits, order, position, lam, q, radius,
    table, coef, squares, weights, scalars, scores,
):  # fmt: skip
    """Stage 2 on ``order[position:]``: proximal projected sub-gradient steps; an infinite radius makes it Pegasos.

    ``lengths[i]`` is ‖z‖_{2,q} of a step on sample i. θ = scale · T, so that shrinking and projecting touch one
    number; the weights do not depend on the scale. ``hits[i, r]`` counts the updates of sample i against class r.
    """
    for k in range(position, order.shape[0]):
        i = order[k]
        loss, rival, mistake = _most_violating(table, weights, scalars[SCALE] / q, cost, labels[i], i, scores)
        moves = loss > 0.0 and importance[i] > 0.0
        if moves and slot[i] < 0:
            return k
        eta = _proximal_step(scalars, lam, q, radius, lengths[i] if moves else 0.0)
        scalars[MISTAKES] += mistake
        if moves:
            step = eta * importance[i] / scalars[SCALE]
            _add(rows, slot[i], diagonal, step, labels[i], rival, i, table, coef, squares)
            scalars[NORM] = refresh_weights(squares, 0.0, q, weights)
            scalars[UPDATES] += 1
            hits[i, rival] += 1.0
        if _project(scalars, q * radius):
            return k + 1
    return order.shape[0]


@loop
def weighted_steps(
    rows, slot, diagonal, labels, cost, importance, lengths, hits, combined, row, order, position, lam, radius,
    table, coef, squares, weights, scalars, scores,
):  # fmt: skip
    """:func:`proximal_steps` with given weights, for the norm of the kernel ``K = Σ_j weights_j K_j``, where q is 2.

    ``combined[r] = Σ_j weights_j table[j, r]``, shape (M, n), follows the table, so that a step whose margin holds
    reads M numbers. ``row`` (n,) is scratch.
    """
    n_kernels, n_classes, n = table.shape
    for k in range(position, order.shape[0]):
        i = order[k]
        label = labels[i]
        for r in range(n_classes):
            scores[r] = combined[r, i]
        loss, rival, mistake = _best_rival(scores, 0.5 * scalars[SCALE], cost, label)
        moves = loss > 0.0 and importance[i] > 0.0
        if moves and slot[i] < 0:
            return k
        eta = _proximal_step(scalars, lam, 2.0, radius, lengths[i] if moves else 0.0)
        scalars[MISTAKES] += mistake
        if moves:
            step = eta * importance[i] / scalars[SCALE]
            _add(rows, slot[i], diagonal, step, label, rival, i, table, coef, squares)
            for m in range(n):
                row[m] = 0.0
            for j in range(n_kernels):
                weight, one = weights[j], rows[j, slot[i]]
                for m in range(n):
                    row[m] += weight * one[m]
            square = scalars[NORM] ** 2 + _move(row, row[i], step, combined[label], combined[rival], i)
            scalars[NORM] = np.sqrt(max(square, 0.0))
            scalars[UPDATES] += 1
            hits[i, rival] += 1.0
        if _project(scalars, 2.0 * radius):
            return k + 1
    return order.shape[0]


@loop
def likely_updates(table, weights, factor, labels, cost, importance, slot, order, start, found, scores):
    """Write positions in ``order`` from ``start`` on of samples with a loss now whose rows are missing.

    Returns how many were found. The first is always ``start``; it stops when there are rows, missing ones and
    others, for as many samples to come as ``found`` is long.
    """
    found[0] = start
    count, ready = 1, 1
    for k in range(start + 1, order.shape[0]):
        if ready == found.shape[0]:
            break
        i = order[k]
        loss, _, _ = _most_violating(table, weights, factor, cost, labels[i], i, scores)
        if loss > 0.0 and importance[i] > 0.0:
            ready += 1
            if slot[i] < 0:
                found[count] = k
                count += 1
    return count
