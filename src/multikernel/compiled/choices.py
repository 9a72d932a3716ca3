"""Choices of t kernels that no bound rules out, found depth first."""

from __future__ import annotations

import numpy as np

from multikernel.compiled.jit import loop, part


@loop
def largest_sums(q, kept, top):
    """``top[r, i, l]``: the sum of the l largest of ``q[r, i:]``, as far as there are l, shape (R, F + 1, t + 1).

    ``top`` is zero before; ``kept`` is scratch for t values.
    """
    for r in range(q.shape[0]):
        for k in range(kept.size):
            kept[k] = -np.inf  # the t largest so far, descending
        for i in range(q.shape[1] - 1, -1, -1):
            value, total = q[r, i], 0.0
            for k in range(kept.size):
                if value > kept[k]:
                    value, kept[k] = kept[k], value
                if kept[k] > -np.inf:
                    total += kept[k]
                top[r, i, k + 1] = total


@part
def _ruled_out(sums, depth, q, chosen, top, i, left, limits, order):
    """Whether a cut allows no choice of those so far, ``chosen`` if not negative, and ``left`` from i on.

    That cut is asked first from then on.
    """
    for place in range(order.size):
        r = order[place]
        value = q[r, chosen] if chosen >= 0 else 0.0
        if sums[depth, r] + value + top[r, i, left] <= limits[r]:
            for k in range(place, 0, -1):
                order[k] = order[k - 1]
            order[0] = r
            return True
    return False


@loop
def search_choices(q, top, limits, members, sums, order, found, depth, count, budget):
    """Go on with the search: list choices S of t kernels with ``Σ_{j in S} q[r, j] > limits[r]`` for all cuts r.

    Kernels are chosen in ascending order. Invariant: ``members[:depth]`` are chosen, ``members[depth]`` is the last
    one tried at that depth, ``sums[depth]`` are the sums of q over those chosen. A branch is left as soon as the
    largest sum that it can reach is within a limit. ``members``, ``sums``, ``order`` and ``found`` are changed.

    Returns (depth, count): where it stands and how many were listed. It ends at depth −1 when all have been looked
    at, when ``found`` is full, or after ``budget`` branches.
    """
    t, nothing = members.size, np.int64(-1)
    while depth >= 0 and count < found.shape[0] and budget > 0:
        budget -= 1
        members[depth] += 1
        i, left = members[depth], t - depth
        # those from i on cannot make up a sum beyond all limits, nor can fewer of them
        if i > q.shape[1] - left or _ruled_out(sums, depth, q, nothing, top, i, left, limits, order):
            depth -= 1
        elif not _ruled_out(sums, depth, q, i, top, i + 1, left - 1, limits, order):
            if left == 1:
                for k in range(t):
                    found[count, k] = members[k]
                count += 1
            else:
                for r in range(q.shape[0]):
                    sums[depth + 1, r] = sums[depth, r] + q[r, i]
                members[depth + 1] = i
                depth += 1
    return depth, count


@loop
def best_bound(constants, forms, newest, inside, free, kept, shrinks, enough):
    """The largest bound that any cut gives on choices of all of ``inside`` and some of ``free``; its number.

    Cuts are asked from ``newest`` backwards, round the end, until one gives ``enough``. ``kept`` is scratch for as
    many values as are chosen of ``free``.
    """
    count = kept.size
    best, which = -np.inf, -1
    for step in range(constants.size):
        r = (newest - step) % constants.size
        for k in range(count):
            kept[k] = -np.inf  # the largest of those that are free so far, descending
        for i in range(free.size):
            value, k = forms[r, free[i]], count
            while k > 0 and kept[k - 1] < value:
                if k < count:
                    kept[k] = kept[k - 1]
                k -= 1
            if k < count:
                kept[k] = value
        form = 0.0
        for i in range(inside.size):
            form += forms[r, inside[i]]
        for k in range(count):
            form += kept[k]
        bound = constants[r] - 0.5 * form
        if shrinks and form > constants[r]:
            bound = 0.5 * constants[r] * constants[r] / form
        if bound > best:
            best, which = bound, r
            if best >= enough:
                break
    return best, which
