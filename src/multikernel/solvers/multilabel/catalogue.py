"""The solvers of problems with many labels, by objective and name, and which is the default."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from multikernel.problems.multilabel import LabelProblem
from multikernel.runtime.monitor import Monitor
from multikernel.solvers.mkl.closed_form import closed_form
from multikernel.solvers.mkl.level import level_method
from multikernel.solvers.mkl.newton import newton
from multikernel.solvers.mkl.silp import silp
from multikernel.solvers.multilabel.level import label_level
from multikernel.solvers.multilabel.sa import label_sa, label_sa_vr
from multikernel.solvers.printed.mirror_prox import label_mirror_prox
from multikernel.solvers.printed.multilabel_sum import subgradient

SOLVERS: dict[str, dict[str, Callable[..., None]]] = {
    "max": {"level": label_level, "sa-vr": label_sa_vr, "sa": label_sa, "mirror-prox": label_mirror_prox},
    "sum": {
        "newton": newton,
        "silp": silp,
        "level": level_method,
        "closed-form": closed_form,
        "subgradient": subgradient,
    },
}
# What certifies soonest: figures in the documentation.
DEFAULTS = {"max": "level", "sum": "newton"}


def find_label_solver(objective: str, solver: str) -> Callable[..., None]:
    """The solver of that name, or the default for "auto", after a check that it solves this.

    Examples
    --------
    >>> from multikernel.solvers.multilabel.catalogue import find_label_solver
    >>> find_label_solver("max", "auto").__name__
    'label_level'
    """
    if objective not in SOLVERS:
        raise ValueError(f'objective={objective!r} is not known: use "max" or "sum".')
    name = DEFAULTS[objective] if solver == "auto" else solver
    if name not in SOLVERS[objective]:
        known = ", ".join(map(repr, ["auto", *SOLVERS[objective]]))
        raise ValueError(f"solver={solver!r} does not solve objective={objective!r}: use one of {known}.")
    return SOLVERS[objective][name]


def solve_labels(
    problem: LabelProblem,
    monitor: Monitor,
    start: tuple[NDArray, NDArray] | None,
    *,
    objective: str,
    solver: str,
    max_iter: int,
    random_state: Any = None,
    **options: Any,
) -> None:
    """Run the solver of that name; an alpha to start from may be that of one label, shape (n,)."""
    run = find_label_solver(objective, solver)
    if run in (label_sa, label_sa_vr):
        options["random_state"] = random_state
    if start is not None and np.ndim(start[1]) == 1:
        start = start[0], start[1][:, None]
    run(problem, monitor, start, max_iter=max_iter, **options)
