"""What full runs take: minutes on two cores, from the times of all cells of a run, rounded up."""

from __future__ import annotations

from collections.abc import Sequence

from multikernel_experiments.protocol import Protocol


def expected(protocols: Sequence[Protocol]) -> str:
    """A sentence about how long full runs of these experiments take.

    Examples
    --------
    >>> from multikernel_experiments import all_protocols
    >>> from multikernel_experiments.times import expected
    >>> expected([all_protocols()["flower17"]])
    'full runs take about 4 minutes on two cores'
    """
    found = {protocol.name: protocol.minutes for protocol in protocols}
    known = [minutes for minutes in found.values() if minutes is not None]
    unknown = [name for name, minutes in found.items() if minutes is None]
    total = f"{sum(known):.0f} minute" + "s" * (round(sum(known)) != 1)
    parts = [f"full runs take about {total} on two cores"] if known else []
    return "; ".join([*parts, *([f"not measured: {', '.join(unknown)}"] if unknown else [])])
