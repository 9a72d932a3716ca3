"""What full runs take: minutes on two cores, from the times of all cells of a run, rounded up."""

from __future__ import annotations

from collections.abc import Sequence

from multikernel.experiments.protocol import Protocol

# where the protocol does not say itself
MINUTES = {
    "caltech-phog": 5,
    "flower17": 9,
    "grand": 12,
    "obscure-kernels": 4,
    "multilabel-labels": 3,
    "obscure-samples": 2,
    "svrg-rate": 1,
    "svrg-scaling": 2,
    "which-p": 9,
}


def minutes_of(protocol: Protocol) -> float | None:
    """Minutes of a full run; None if nobody has measured it."""
    return protocol.minutes if protocol.minutes is not None else MINUTES.get(protocol.name)


def expected(protocols: Sequence[Protocol]) -> str:
    """A sentence about how long full runs of these experiments take.

    Examples
    --------
    >>> from multikernel.experiments import all_protocols
    >>> from multikernel.experiments.times import expected
    >>> expected([all_protocols()["flower17"]])
    'full runs take about 9 minutes on two cores'
    """
    found = {protocol.name: minutes_of(protocol) for protocol in protocols}
    known = [minutes for minutes in found.values() if minutes is not None]
    unknown = [name for name, minutes in found.items() if minutes is None]
    parts = [f"full runs take about {sum(known):.0f} minutes on two cores"] if known else []
    return "; ".join([*parts, *([f"not measured: {', '.join(unknown)}"] if unknown else [])])
