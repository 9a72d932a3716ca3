"""What the theorems about OBSCURE promise, as numbers [OJC10, theorem 1 and theorem 2].

All of them suppose kernels with ``k_j(x, x) <= 1``.
"""

from __future__ import annotations

import math


def convergence_bound(steps: int, n_kernels: int, p: float, lam: float, radius: float, delta: float) -> float:
    """Theorem 1: with probability ``1 - delta``, ``f(w) - f(w*)`` after so many steps of stage 2 is below this.

    Parameters
    ----------
    steps : int
        Steps T of stage 2, an epoch being n of them.
    n_kernels : int
        Number of kernels F.
    p : float
        Group norm.
    lam : float
        Factor λ of the squared norm.
    radius : float
        R of stage 1, a bound on the norm of w*.
    delta : float
        Probability that the bound may fail, in (0, 1).

    Examples
    --------
    >>> from multikernel.solvers.bounds import convergence_bound
    >>> early, late = (convergence_bound(t, 18, 1.25, 1e-2, 5.0, 0.1) for t in (10**4, 10**8))
    >>> late < early / 500
    True
    """
    q = p / (p - 1.0)
    c = math.sqrt(2.0) * n_kernels ** (1.0 / q) + lam * radius
    factor = c * math.sqrt(q * (1.0 + math.log(steps)))
    return factor / delta * min(factor / (lam * steps), 4.0 * radius / math.sqrt(steps))


def separable_updates(norm: float, n_kernels: int, p: float, eta: float) -> float:
    """Theorem 2: most updates that stage 1 makes on data that u separates, ``2 q (1/eta + F^(2/q)) ‖u‖²_{2,p}``.

    Parameters
    ----------
    norm : float
        ‖u‖_{2,p} of a u with zero loss on every sample.
    n_kernels : int
        Number of kernels F.
    p : float
        Group norm.
    eta : float
        Step of stage 1.
    """
    q = p / (p - 1.0)
    return 2.0 * q * (1.0 / eta + n_kernels ** (2.0 / q)) * norm**2


def separable_radius(norm: float, n_kernels: int, p: float, eta: float) -> float:
    """Theorem 2: largest R of stage 1 on such data, ``2 (1 + eta F^(2/q)) ‖u‖_{2,p}``; parameters as above."""
    q = p / (p - 1.0)
    return 2.0 * (1.0 + eta * n_kernels ** (2.0 / q)) * norm
