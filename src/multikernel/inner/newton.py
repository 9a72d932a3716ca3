"""Newton steps on the variables that are strictly between their bounds."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.lapack import dpotrf, dpotrs

from multikernel.inner.feasible import project_to_sum

Vector = NDArray[np.float64]


def newton_direction(A: NDArray, g: Vector, split: int, n_groups: int) -> Vector:
    """Minimise ½ d'Ad + g'd with the sums of d[:split] and of d[split:] zero.

    Parameters
    ----------
    A : ndarray of shape (m, m)
        Symmetric positive semi-definite.
    g : ndarray of shape (m,)
        Gradient.
    split : int
        Where the second group starts; ``m`` for one group.
    n_groups : {0, 1, 2}
        How many sums are held; none leaves d unconstrained.

    Returns
    -------
    ndarray of shape (m,)
        The minimiser, for ``A`` plus the smallest ridge that lets it be factored.
    """
    factor = _factor(A)
    groups = np.zeros((len(g), n_groups))
    if n_groups:
        groups[:split, 0] = 1.0
    if n_groups == 2:
        groups[split:, 1] = 1.0
    groups = groups[:, groups.any(axis=0)]
    solved, _ = dpotrs(factor, np.column_stack([-g, groups]), lower=1)
    d, spread = solved[:, 0], solved[:, 1:]
    if groups.shape[1]:
        d = d - spread @ np.linalg.lstsq(groups.T @ spread, groups.T @ d, rcond=None)[0]
    return d


def _factor(A: NDArray) -> NDArray:
    """Cholesky factor of A, with the smallest ridge in a geometric sequence that makes it succeed."""
    scale = max(float(np.trace(A)) / len(A), np.finfo(float).tiny)
    ridge = 1e-14 * scale
    while True:
        shifted = A.astype(np.float64, order="F")
        shifted[np.diag_indices_from(shifted)] += ridge
        factor, failed = dpotrf(shifted, lower=1, overwrite_a=1, clean=0)
        if not failed:
            return factor
        ridge *= 100.0


def newton_step(
    A: NDArray, g: Vector, b: Vector, lo: Vector, hi: Vector, split: int, n_groups: int
) -> tuple[Vector, bool]:
    """Best feasible point found along the Newton direction from ``b``, and whether no bound was in the way.

    Two steps are compared, since either can be far better than the other: along the direction until the first bound,
    and towards the projection of the full step on the box, with an exact line search.
    """
    parts = {0: (), 1: (slice(None),), 2: (slice(0, split), slice(split, None))}[n_groups]
    d = newton_direction(A, g, split, n_groups)
    if not np.isfinite(d).all():
        return b, False
    # along a null direction of A the step is huge; beyond the width of the box it would only bring rounding errors
    longest, width = float(np.abs(d).max(initial=0.0)), float((hi - lo).max(initial=0.0))
    d *= width / longest if longest > width else 1.0
    for part in parts:
        # a nearly singular A leaves sums that are zero only to many digits less than d has
        d[part] -= d[part].mean() if len(d[part]) else 0.0
    blocked = _step_to_first_bound(d, b, lo, hi)
    ends = [b + blocked * d] if blocked == 1.0 else [b + blocked * d, b + d]
    for end in ends:
        if not parts:
            np.clip(end, lo, hi, out=end)
        for part in parts:
            end[part] = project_to_sum(end[part], lo[part], hi[part], float(b[part].sum()))
    return _best_end(A, g, b, ends), blocked >= 1.0


def _step_to_first_bound(d: Vector, b: Vector, lo: Vector, hi: Vector) -> float:
    with np.errstate(divide="ignore", invalid="ignore"):
        room = np.where(d > 0.0, (hi - b) / d, np.where(d < 0.0, (lo - b) / d, np.inf))
    return float(min(room.min(initial=np.inf), 1.0))


def _best_end(A: NDArray, g: Vector, b: Vector, ends: list[Vector]) -> Vector:
    """Where the objective is least on the segments from ``b`` to the ends; ``b`` where none descends."""
    best, best_change = b, 0.0
    for end in ends:
        d = end - b
        slope, curvature = float(g @ d), float(d @ (A @ d))
        t = 1.0 if curvature <= -slope else -slope / curvature
        change = t * slope + 0.5 * t * t * curvature
        if change < best_change:
            best, best_change = (end if t == 1.0 else b + t * d), change
    return best
