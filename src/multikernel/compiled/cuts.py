"""What cuts say of choices of kernels."""

import numpy as np

from multikernel.compiled.jit import loop


@loop
def best_bound(constants, forms, newest, inside, free, kept, shrinks, enough):
    """The largest bound that any cut gives on choices of all of ``inside`` and some of ``free``.

    Cuts are asked from ``newest`` backwards, round the end, until one gives ``enough``. ``kept`` is scratch for as
    many values as are chosen of ``free``.
    """
    count = kept.size
    best = -np.inf
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
            best = bound
            if best >= enough:
                break
    return best
