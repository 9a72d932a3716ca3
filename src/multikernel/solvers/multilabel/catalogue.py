"""The solvers of problems with many labels, by objective and name, and which is the default."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from inspect import signature
from typing import Any

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
# Parameters of solvers that are not options: they come from elsewhere.
NOT_OPTIONS = ("problem", "monitor", "start", "max_iter", "random_state")


def find_label_solver(objective: str, solver: str, options: Mapping[str, Any]) -> Callable[..., None]:
    """The solver of that name, or the default for "auto", after a check that it solves this and takes the options.

    Examples
    --------
    >>> from multikernel.solvers.multilabel.catalogue import find_label_solver
    >>> find_label_solver("max", "auto", {"level": 0.3}).__name__
    'label_level'
    """
    if objective not in SOLVERS:
        raise ValueError(f'objective={objective!r} is not known: use "max" or "sum".')
    name = DEFAULTS[objective] if solver == "auto" else solver
    if name not in SOLVERS[objective]:
        known = ", ".join(map(repr, ["auto", *SOLVERS[objective]]))
        raise ValueError(f"solver={solver!r} does not solve objective={objective!r}: use one of {known}.")
    function = SOLVERS[objective][name]
    taken = [option for option in signature(function).parameters if option not in NOT_OPTIONS]
    wrong = ", ".join(repr(option) for option in options if option not in taken)
    if wrong:
        raise ValueError(
            f"solver_options has {wrong}, which solver={name!r} does not accept: "
            f"it accepts {', '.join(map(repr, taken)) or 'none'}."
        )
    return function
