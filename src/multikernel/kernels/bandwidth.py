"""Bandwidth rules: how a kernel's width follows from the training data.

A bandwidth is a positive number, the name of a rule, or a multiple of a rule such as ``"0.25*mean"``:

- ``"mean"``: the mean distance over all n² pairs of training samples, the n zeros of a sample with itself
  included, exactly up to 5,000 samples and on a fixed subsample of 5,000 beyond;
- ``"median"``: the median distance over pairs i < j of at most 2,000 training samples;
- ``"scale"``: the width that the spread of the columns suggests, d·var(X) for squared Euclidean distances
  (the inverse of scikit-learn's ``gamma="scale"``) and d·std(X) for L1 distances.
"""

from __future__ import annotations

import numbers
import re
from typing import Any

import numpy as np

RULES = ("mean", "median", "scale")
_MULTIPLE = re.compile(r"\s*(?:([0-9.eE+-]+)\s*\*\s*)?([a-z]+)\s*")


def parse_bandwidth(bandwidth: Any) -> tuple[float, str | None]:
    """Split a bandwidth into (factor, rule); the rule of a plain number is None.

    Examples
    --------
    >>> parse_bandwidth("0.25*mean"), parse_bandwidth("median"), parse_bandwidth(3)
    ((0.25, 'mean'), (1.0, 'median'), (3.0, None))
    """
    factor, rule = bandwidth, None
    if isinstance(bandwidth, str):
        match = _MULTIPLE.fullmatch(bandwidth)
        if match is None or match[2] not in RULES:
            raise ValueError(
                f"bandwidth={bandwidth!r} is not a rule. Give a positive number, one of {', '.join(RULES)}, "
                'or a multiple of a rule such as "0.25*mean".'
            )
        factor, rule = match[1] or 1.0, match[2]
    elif isinstance(bandwidth, bool) or not isinstance(bandwidth, numbers.Real):
        raise TypeError(f"bandwidth={bandwidth!r} must be a positive number or a string such as 'mean'.")
    try:
        factor = float(factor)
    except ValueError:
        raise ValueError(f"bandwidth={bandwidth!r}: {factor!r} is not a number.") from None
    if not (np.isfinite(factor) and factor > 0):
        raise ValueError(f"bandwidth={bandwidth!r} must be positive and finite.")
    return factor, rule


def fitted_bandwidth(bandwidth: Any, training: Any, quantity: Any) -> float:
    """The number a bandwidth stands for on the training data; 1.0 where distances are zero."""
    factor, rule = parse_bandwidth(bandwidth)
    if rule is None:
        return factor
    value = training.statistic(quantity, rule)
    if not np.isfinite(value):
        raise ValueError(
            f"The bandwidth rule {bandwidth!r} gives {value} on the training data: X has NaN, infinite or "
            "overflowing values. Impute or rescale them first."
        )
    # identical samples: every width gives the same constant kernel, so any positive number will do;
    # distances that are zero but for a few bits have no inverse
    return factor * value if factor * value >= np.finfo(float).tiny else 1.0
