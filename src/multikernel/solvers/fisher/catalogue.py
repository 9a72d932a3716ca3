"""Solvers of multiple kernel Fisher discriminant analysis by name, and where they may start."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
from numpy.typing import NDArray

from multikernel.problems.fisher import FDAProblem
from multikernel.problems.weight_sets import LpBall, lp_norm
from multikernel.runtime.monitor import Monitor
from multikernel.solvers.fisher.newton import fda_newton
from multikernel.solvers.mkl.closed_form import closed_form
from multikernel.solvers.mkl.silp import silp

FDA_SOLVERS: dict[str, Callable] = {
    "auto": fda_newton,  # the fastest that certifies, whatever p: see benchmarks/bench_mkfda.py
    "newton": fda_newton,
    "sip": silp,
    "sip-taylor": partial(silp, master="taylor"),
    "closed-form": closed_form,
}


def solve_fda(
    problem: FDAProblem, monitor: Monitor, start: tuple[NDArray, NDArray] | None, solver: str, max_iter: int
) -> None:
    """Run a solver by its name; the monitor has the result.

    Parameters
    ----------
    problem : FDAProblem
    monitor : Monitor
    start : (weights, alpha) or None
        Weights, of any size, to start from; those of another p serve as well.
    solver : {"auto", "newton", "sip", "sip-taylor", "closed-form"}
        "newton": quadratic models. "sip": the paper's semi-infinite program by cutting planes with the norm as it is,
        and "sip-taylor" with the norm expanded as in [YMBCK10, eq. (7)]. "closed-form": linear systems in turn with
        closed-form weights.
    max_iter : int
        Largest number of iterations.
    """
    if solver == "sip-taylor" and (problem.weight_set.p == 1.0 or problem.weight_set.is_box):
        solver = "sip"  # these norms are linear: there is nothing to expand
    begin = None if start is None else scaled_start(start[0], problem.weight_set, zeros=solver != "closed-form")
    state = None if begin is None else (begin, problem.inner.start())
    FDA_SOLVERS[solver](problem, monitor, state, max_iter=max_iter)


def scaled_start(weights: NDArray, ball: LpBall, *, zeros: bool) -> NDArray | None:
    """Weights scaled to the boundary of the ball; None if they are of no use, such as zeros where none may be."""
    if ball.is_box or not np.isfinite(weights).all() or not weights.max(initial=0.0) > 0.0:
        return None
    if not zeros and not weights.min() > 0.0:
        return None
    return weights / lp_norm(weights, ball.p)
