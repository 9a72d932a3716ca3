"""Choices of t kernels that no bound rules out, found depth first."""

from __future__ import annotations

import numpy as np
from numba import njit


@njit(cache=True, nogil=True)
def largest_sums(q, t):
    """``top[r, i, l]``: the sum of the l largest of ``q[r, i:]``, as far as there are l, shape (R, F + 1, t + 1)."""
    R, F = q.shape
    top = np.zeros((R, F + 1, t + 1))
    for r in range(R):
        kept = np.full(t, -np.inf)  # the t largest so far, descending
        for i in range(F - 1, -1, -1):
            value = q[r, i]
            for k in range(t):
                if value > kept[k]:
                    value, kept[k] = kept[k], value
            total = 0.0
            for k in range(t):
                if kept[k] > -np.inf:
                    total += kept[k]
                top[r, i, k + 1] = total
    return top


@njit(cache=True, nogil=True)
def _ruled_out(sums, values, ends, limits, order):
    """Whether ``sums + values + ends <= limits`` for any cut; that cut is asked first from then on."""
    for place in range(order.size):
        r = order[place]
        if sums[r] + values[r] + ends[r] <= limits[r]:
            for k in range(place, 0, -1):
                order[k] = order[k - 1]
            order[0] = r
            return True
    return False


@njit(cache=True, nogil=True)
def search_choices(q, top, limits, members, sums, order, found, depth, count, budget):
    """Go on with the search: list choices S of t kernels with ``Σ_{j in S} q[r, j] > limits[r]`` for all cuts r.

    Kernels are chosen in ascending order. Invariant: ``members[:depth]`` are chosen, ``members[depth]`` is the last
    one tried at that depth, ``sums[depth]`` are the sums of q over those chosen. A branch is left as soon as the
    largest sum that it can reach is within a limit. ``members``, ``sums``, ``order`` and ``found`` are changed.

    Returns (depth, count): where it stands and how many were listed. It ends at depth −1 when all have been looked
    at, when ``found`` is full, or after ``budget`` branches.
    """
    R, F = q.shape
    t = members.size
    nothing = np.zeros(R)
    while depth >= 0 and count < found.shape[0] and budget > 0:
        budget -= 1
        members[depth] += 1
        i = members[depth]
        left = t - depth
        # those from i on cannot make up a sum beyond all limits, nor can fewer of them
        if i > F - left or _ruled_out(sums[depth], nothing, top[:, i, left], limits, order):
            depth -= 1
        elif not _ruled_out(sums[depth], q[:, i], top[:, i + 1, left - 1], limits, order):
            if left == 1:
                for k in range(t):
                    found[count, k] = members[k]
                count += 1
            else:
                for r in range(R):
                    sums[depth + 1, r] = sums[depth, r] + q[r, i]
                members[depth + 1] = i
                depth += 1
    return depth, count


@njit(cache=True, nogil=True)
def sum_of_largest(values, count, kept):
    """The sum of the ``count`` largest values; ``kept`` is scratch for as many."""
    for k in range(count):
        kept[k] = -np.inf
    for i in range(values.size):
        value = values[i]
        if count and value > kept[count - 1]:
            k = count - 1
            while k > 0 and kept[k - 1] < value:
                kept[k] = kept[k - 1]
                k -= 1
            kept[k] = value
    total = 0.0
    for k in range(count):
        total += kept[k]
    return total


@njit(cache=True, nogil=True)
def best_bound(constants, forms, newest, inside, free, count, shrinks, enough):
    """The largest bound that any cut gives on choices of all of ``inside`` and ``count`` of ``free``; its number.

    Cuts are asked from ``newest`` backwards, round the end, until one gives ``enough``.
    """
    R = constants.size
    values, kept = np.empty(free.size), np.empty(count)
    best, which = -np.inf, -1
    for step in range(R):
        r = (newest - step) % R
        form = 0.0
        for i in range(inside.size):
            form += forms[r, inside[i]]
        for i in range(free.size):
            values[i] = forms[r, free[i]]
        form += sum_of_largest(values, count, kept)
        bound = constants[r] - 0.5 * form
        if shrinks and form > constants[r]:
            bound = 0.5 * constants[r] * constants[r] / form
        if bound > best:
            best, which = bound, r
            if best >= enough:
                break
    return best, which
