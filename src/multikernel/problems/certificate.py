"""The proof that comes with every solution: a primal value, a dual value, and the gap between them."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Certificate:
    """Two bounds on the optimum of a convex problem: ``dual <= optimum <= primal``.

    It is computed by the problem from a candidate solution, never by the solver that is being judged, so a
    solver with a bug gets a large gap, not a wrong claim. Both bounds hold in spite of rounding where ``rounding``
    says what it may have done to them.

    Parameters
    ----------
    primal : float
        Upper bound on the optimum.
    dual : float
        Lower bound on the optimum; ``nan`` for a problem without a dual.
    stationarity : float
        How far the solution is from a stationary point, relative; ``nan`` where it is not measured. It proves
        nothing about the optimum, but a problem without a dual has no other reason to stop.
    rounding : float
        How much of the gap is there because rounding may have moved the values that it is made of.
    resolution : float
        Gap that counts as none: an optimum can be zero, and no gap is small relative to that.

    Examples
    --------
    >>> from multikernel.problems.certificate import Certificate
    >>> proof = Certificate(primal=2.0, dual=1.5)
    >>> proof.gap, proof.relative_gap
    (0.5, 0.25)
    """

    primal: float
    dual: float
    stationarity: float = float("nan")
    rounding: float = field(default=0.0, repr=False)
    resolution: float = field(default=0.0, repr=False)

    @property
    def gap(self) -> float:
        """Distance between the bounds, not below zero (rounding can make it -1e-16)."""
        return max(self.primal - self.dual, 0.0) if self.primal == self.primal else float("nan")

    @property
    def relative_gap(self) -> float:
        """``gap / |primal|``, which ``tol`` is compared with; zero where both are zero."""
        return 0.0 if self.gap <= self.resolution else self.gap / max(abs(self.primal), 1e-300)
