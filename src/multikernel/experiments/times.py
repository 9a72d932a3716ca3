"""What full runs take: minutes on two cores, from the times of all cells of a run, rounded up."""

from __future__ import annotations

from collections.abc import Sequence

MINUTES = {
    "flower17": 9,
    "obscure-kernels": 4,
    "which-p": 9,
}


def expected(names: Sequence[str]) -> str:
    """A sentence about how long full runs of these experiments take.

    Examples
    --------
    >>> from multikernel.experiments.times import expected
    >>> expected(["flower17", "other"])
    'full runs take about 9 minutes on two cores; not measured: other'
    """
    known = [MINUTES[name] for name in names if name in MINUTES]
    unknown = [name for name in names if name not in MINUTES]
    parts = [f"full runs take about {sum(known)} minutes on two cores"] if known else []
    return "; ".join([*parts, *([f"not measured: {', '.join(unknown)}"] if unknown else [])])
