"""Every solver of the library by its method and name: what each can do, and which one "auto" takes."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from multikernel.runtime.monitor import Monitor
from multikernel.solvers.common.newton import Start, newton
from multikernel.solvers.fisher import fisher_newton
from multikernel.solvers.mkl.closed_form import closed_form
from multikernel.solvers.mkl.cutting_planes import level_method, silp
from multikernel.solvers.mkl.simplemkl import capped_reduced_gradient, simplemkl
from multikernel.solvers.mkl.smo import smo_mkl
from multikernel.solvers.multilabel.level import label_level
from multikernel.solvers.multilabel.sa import label_sa, label_sa_vr
from multikernel.solvers.obscure.obscure import obscure
from multikernel.solvers.obscure.sdca import sdca
from multikernel.solvers.printed.cskl import cskl_printed, lp_direction
from multikernel.solvers.printed.fisher import sip_printed
from multikernel.solvers.printed.multilabel import label_mirror_prox, subgradient
from multikernel.solvers.printed.obscure import obscure_online, obscure_printed, pegasos
from multikernel.solvers.printed.svrg import svrg_paper
from multikernel.solvers.printed.taylor_master import TaylorModel
from multikernel.solvers.svrg.newton import smooth_newton
from multikernel.solvers.svrg.primal import smooth_auto
from multikernel.solvers.svrg.svrg import lbfgs, svrg
from multikernel.solvers.vskl import group_newton, mirror_descent

# Kernels beyond which a Newton step for p > 1, where all have a weight, costs more than it saves.
MANY_KERNELS = 100
# Iterations, plus one per kernel, that may leave the gap as it is before a solver is stopped.
PATIENCE = 25
# The least p that is more than 1, where weights are smooth functions of alpha.
ABOVE_1 = 1.0 + 1e-9


@dataclass(frozen=True)
class Solver:
    """A solver: ``run(problem, monitor, start, max_iter=...)`` tells the monitor, which has the result.

    ``start`` is None, or weights and alpha; ``max_iter`` is the largest number of outer iterations.
    """

    run: Callable[..., None]
    smallest: float = 1.0  # exponents p of the weights' norm for which it works
    largest: float = float("inf")
    one_task: bool = False  # whether it needs one C-SVM: no ν, no weights shared by several tasks
    is_random: bool = False  # whether it takes random_state


# By method; the first is the one that certifies soonest: figures in the documentation.
SOLVERS: dict[str, dict[str, Solver]] = {
    "mkl": {
        "newton": Solver(newton),
        "simplemkl": Solver(simplemkl, largest=1.0),
        "silp": Solver(silp),
        "silp-taylor": Solver(partial(silp, master=TaylorModel), smallest=ABOVE_1),
        "level": Solver(level_method, largest=1.0),
        "lp": Solver(closed_form, smallest=ABOVE_1),
        "group-lasso": Solver(closed_form),
        "smo": Solver(smo_mkl, smallest=ABOVE_1, one_task=True),
    },
    "elastic-net": {"newton": Solver(newton), "silp": Solver(silp), "lp": Solver(closed_form)},
    "vskl": {"newton": Solver(group_newton), "mirror": Solver(mirror_descent)},
    "cskl": {
        "newton": Solver(newton),
        "reduced-gradient": Solver(capped_reduced_gradient),
        "lp": Solver(lp_direction),
        "silp": Solver(silp),
        "printed": Solver(cskl_printed),
        "lp-printed": Solver(partial(lp_direction, away=False)),
    },
    "multilabel max": {
        "level": Solver(label_level),
        "sa-vr": Solver(label_sa_vr, is_random=True),
        "sa": Solver(label_sa, is_random=True),
        "sa-printed": Solver(partial(label_sa, printed=True), is_random=True),
        "mirror-prox": Solver(label_mirror_prox),
    },
    "multilabel sum": {
        "newton": Solver(newton),
        "silp": Solver(silp),
        "level": Solver(level_method),
        "closed-form": Solver(closed_form),
        "subgradient": Solver(subgradient),
        "simplemkl": Solver(simplemkl),
    },
    "fisher": {
        "newton": Solver(fisher_newton),
        "sip": Solver(silp),
        "sip-printed": Solver(sip_printed),
        "closed-form": Solver(closed_form),
    },
    "obscure": {
        "obscure": Solver(obscure, is_random=True),
        "obscure-printed": Solver(obscure_printed, is_random=True),
        "online": Solver(obscure_online, is_random=True),
        "pegasos": Solver(pegasos, is_random=True),
        "sdca": Solver(sdca, is_random=True),
    },
    "svrg": {
        "auto": Solver(smooth_auto, is_random=True),
        "svrg": Solver(svrg, is_random=True),
        "paper": Solver(svrg_paper, is_random=True),
        "printed": Solver(partial(svrg_paper, printed=True), is_random=True),
        "lbfgs": Solver(lbfgs, is_random=True),
        "newton": Solver(smooth_newton, is_random=True),
    },
}


def fastest(method: str, p: float = 1.0, n_kernels: int = 2) -> str:
    """Name of the solver that certifies soonest.

    Examples
    --------
    >>> from multikernel.solvers.catalogue import fastest
    >>> fastest("mkl", 1.0, 1000), fastest("mkl", 2.0, 20), fastest("mkl", 2.0, 1000), fastest("mkl", 1e6, 20)
    ('newton', 'newton', 'lp', 'lp')
    """
    if method == "mkl" and p > 1.0 and (p >= 1e6 or n_kernels == 1 or n_kernels > MANY_KERNELS):
        return "lp"
    return next(iter(SOLVERS[method]))


def find_solver(method: str, name: str, *, p: float = 1.0, n_kernels: int = 2, one_task: bool = True) -> Solver:
    """The solver of that name, or the fastest for "auto", after a check that it can solve the problem."""
    known = SOLVERS[method]
    name = fastest(method, p, n_kernels) if name == "auto" else name
    if name not in known:
        names = ", ".join(dict.fromkeys(map(repr, ["auto", *known])))
        raise ValueError(f"solver={name!r} is not known for {method}: use one of {names}.")
    solver = known[name]
    if not solver.smallest <= p <= solver.largest:
        able = ", ".join(repr(other) for other, s in known.items() if s.smallest <= p <= s.largest)
        wanted = "p = 1 only" if solver.largest == 1.0 else "p > 1 only"
        raise ValueError(f'solver={name!r} is for {wanted}, got p={p!r}: use "auto" or one of {able}.')
    if solver.one_task and not one_task:
        raise ValueError(
            f'solver={name!r} handles one C-SVM at a time, a classifier with weights="per-class" and nu=None: use '
            'solver="auto".'
        )
    return solver


def solve_by_name(
    problem: Any,
    monitor: Monitor,
    start: Start,
    *,
    method: str,
    solver: str,
    random_state: Any = None,
    **options: Any,
) -> None:
    """Run a solver by its name; ``start`` may come from a problem that is not quite this one."""
    facts: dict[str, Any] = {}
    if method == "mkl":
        facts = {"p": problem.weight_set.p, "n_kernels": problem.n_kernels, "one_task": problem.inner.is_c_svm}
    found = find_solver(method, solver, **facts)
    if found.is_random:
        options["random_state"] = random_state
    found.run(problem, monitor, None if start is None else problem.admitted(*start), **options)
