"""Penalties on kernel weights for generalised multiple kernel learning, and the bounds they allow."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]


class Regularizer(Protocol):
    """A differentiable penalty r(d) on weights d >= 0 [VB09]; an object of your own needs these two methods.

    Two things are optional. ``lower`` is the smallest weight at which r may be differentiated (0 by default).
    ``bound(linear, q)`` turns dual coefficients into a lower bound on the optimum where the kernel is a sum;
    without it, or for other kernels, solutions come without a duality gap.
    """

    def value(self, d: Vector) -> float:
        """r(d)."""

    def gradient(self, d: Vector) -> Vector:
        """Derivative of r at d, shape (F,)."""


@dataclass(frozen=True)
class L1:
    """``r(d) = Σ_k d_k``: sparse weights."""

    lower = 0.0

    def value(self, d: Vector) -> float:
        return float(d.sum())

    def gradient(self, d: Vector) -> Vector:
        return np.ones(len(d))

    def bound(self, linear: float, q: Vector) -> float:
        """Best ``s linear`` with s <= 1 and ``s² q_k <= 2``; beyond, the minimum over d is −∞."""
        largest = float(q.max(initial=0.0))
        return linear * min(1.0, np.sqrt(2.0 / largest)) if largest > 0.0 else linear


@dataclass(frozen=True)
class SquaredL2:
    """``r(d) = ½ Σ_k d_k²``: all kernels keep a share."""

    lower = 0.0

    def value(self, d: Vector) -> float:
        return 0.5 * float(d @ d)

    def gradient(self, d: Vector) -> Vector:
        return np.array(d, dtype=np.float64)

    def bound(self, linear: float, q: Vector) -> float:
        """Largest ``s linear − s⁴ ‖q‖² / 8`` over 0 <= s <= 1, in closed form."""
        squares = float(q @ q)
        s = min(1.0, float(np.cbrt(2.0 * linear / squares))) if squares > 0.0 else 1.0
        return s * linear - s**4 * squares / 8.0


@dataclass(frozen=True)
class Entropy:
    """``r(d) = Σ_k d_k log d_k``: weights that are never zero, smallest at 1/e each.

    Its slope is −∞ at zero, so weights are kept above 1e-12.
    """

    lower = 1e-12

    def value(self, d: Vector) -> float:
        return float(d @ np.log(d))

    def gradient(self, d: Vector) -> Vector:
        return 1.0 + np.log(d)

    def bound(self, linear: float, q: Vector) -> float:
        """Largest ``s linear − Σ_k exp(s² q_k / 2 − 1)`` over 0 <= s <= 1: concave, by bisection on its slope."""
        low, high = 0.0, 2.0
        with np.errstate(over="ignore", invalid="ignore"):  # infinity is what the bisection has to shrink from
            for _ in range(60):  # begins at s = 1
                s = 0.5 * (low + high)
                rises = linear - s * float(q @ np.exp(0.5 * s * s * q - 1.0)) >= 0.0
                low, high = (s, min(high, 1.0)) if rises else (low, s)
        return low * linear - float(np.exp(0.5 * low * low * q - 1.0).sum())


REGULARIZERS: dict[str, Regularizer] = {"l1": L1(), "l2": SquaredL2(), "entropy": Entropy()}


def known_or_own(parameter: str, candidate: Any, known: Mapping[str, Any], methods: Sequence[str]) -> Any:
    """One of the known objects by its name, or an object of the user's own with the methods, given as signatures."""
    if isinstance(candidate, str) and candidate in known:
        return known[candidate]
    if all(callable(getattr(candidate, method.partition("(")[0], None)) for method in methods):
        return candidate
    raise ValueError(
        f"{parameter}={candidate!r} is not known: use one of {', '.join(map(repr, known))}, or an object with "
        f"methods {' and '.join(methods)}."
    )


def as_regularizer(candidate: Any) -> Regularizer:
    """A penalty from its name, or the user's own object."""
    return known_or_own("regularizer", candidate, REGULARIZERS, ("value(d)", "gradient(d)"))


def dual_bound(regularizer: Regularizer, reg: float, linear: float, q: Vector) -> float:
    """A lower bound on ``min over d >= 0 of J(Σ_k d_k K_k) + reg r(d)``, from any feasible alpha.

    For every s in [0, 1] the scaled ``s alpha`` is feasible too, so the optimum is at least

        s linear(alpha) − max over d >= 0 of [½ s² d·q(alpha) − reg r(d)] ,

    whose second term is the conjugate of the penalty. The penalty's ``bound`` takes the best s for reg = 1;
    dividing the objective by reg brings any other here.

    ``linear`` is the linear part of the SVM's dual objective at alpha, q is ``alpha' K_k alpha`` of each kernel; the
    bound is ``nan`` where the penalty offers none.
    """
    bound = getattr(regularizer, "bound", None)
    return float("nan") if bound is None else reg * float(bound(linear / reg, q / reg))
