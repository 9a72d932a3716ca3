"""The solvers of the ℓp-norm MKL problem by name, what each can do, and which is fastest."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from numpy.typing import NDArray

from multikernel.problems.minmax import MinMaxProblem
from multikernel.runtime.monitor import Monitor
from multikernel.solvers.mkl.closed_form import closed_form
from multikernel.solvers.mkl.level import level_method
from multikernel.solvers.mkl.newton import newton
from multikernel.solvers.mkl.silp import silp
from multikernel.solvers.mkl.simplemkl import simplemkl
from multikernel.solvers.mkl.smo import smo_mkl
from multikernel.svm.binary import CSVM

# Kernels beyond which a Newton step for p > 1, where all have a weight, costs more than it saves.
MANY_KERNELS = 100


@dataclass(frozen=True)
class Solver:
    """A way of solving ``min over {g ≥ 0, ‖g‖_p ≤ 1} of J(g)``.

    Parameters
    ----------
    run : callable
        ``run(problem, monitor, start, max_iter=...)``.
    smallest, largest : float
        Exponents p for which it works.
    one_task : bool
        Whether it needs one C-SVM: no ν, no weights shared by several tasks.
    """

    run: Callable[..., None]
    smallest: float = 1.0
    largest: float = float("inf")
    one_task: bool = False


# Iterations, and as many again as there are kernels, that may leave the gap as it is before a solver is stopped.
PATIENCE = 25


SOLVERS = {
    "simplemkl": Solver(simplemkl, largest=1.0),
    "silp": Solver(silp),
    "silp-taylor": Solver(partial(silp, master="taylor"), smallest=1.0 + 1e-9),
    "level": Solver(level_method, largest=1.0),
    "lp": Solver(closed_form, smallest=1.0 + 1e-9),
    "group-lasso": Solver(closed_form),
    "smo": Solver(smo_mkl, smallest=1.0 + 1e-9, one_task=True),
    "newton": Solver(newton),
}


def fastest(p: float, n_kernels: int) -> str:
    """Name of the solver that certifies soonest: figures in the documentation.

    Examples
    --------
    >>> from multikernel.solvers.mkl.catalogue import fastest
    >>> fastest(1.0, 1000), fastest(2.0, 20), fastest(2.0, 1000), fastest(1e6, 20)
    ('newton', 'newton', 'lp', 'lp')
    """
    if p >= 1e6 or n_kernels == 1:
        return "lp" if p > 1.0 else "newton"
    return "newton" if p == 1.0 or n_kernels <= MANY_KERNELS else "lp"


def find_solver(name: str, p: float, n_kernels: int, *, one_task: bool) -> Solver:
    """The solver of that name, or the fastest for "auto", after a check that it can solve the problem."""
    if name == "auto":
        name = fastest(p, n_kernels)
    if name not in SOLVERS:
        known = ", ".join(repr(known) for known in ["auto", *SOLVERS])
        raise ValueError(f"solver={name!r} is not known: use one of {known}.")
    solver = SOLVERS[name]
    if not solver.smallest <= p <= solver.largest:
        able = ", ".join(repr(other) for other, s in SOLVERS.items() if s.smallest <= p <= s.largest)
        wanted = "p = 1 only" if solver.largest == 1.0 else "p > 1 only"
        raise ValueError(f'solver={name!r} is for {wanted}, got p={p!r}: use "auto" or one of {able}.')
    if solver.one_task and not one_task:
        raise ValueError(
            f'solver={name!r} handles one C-SVM at a time: use weights="per-class" and nu=None, or solver="auto".'
        )
    return solver


def solve_mkl(
    problem: MinMaxProblem,
    monitor: Monitor,
    start: tuple[NDArray, NDArray] | None,
    *,
    solver: str,
    p: float,
    max_iter: int,
) -> None:
    """Run the solver of that name; ``start`` may come from another p, whose weights prove nothing here."""
    if start is not None:
        start = problem.weight_set.settle(start[0]), start[1]
    found = find_solver(solver, p, problem.n_kernels, one_task=isinstance(problem.inner, CSVM))
    found.run(problem, monitor, start, max_iter=max_iter)
