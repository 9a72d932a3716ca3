"""The papers' experiments: one protocol a file, run by ``multikernel reproduce NAME``.

A protocol says which data, kernels, splits, methods, grids and figures; `reproduce` runs it, keeps what is finished,
and writes tables, figures and a page. Methods are named as in the registry, so that a new one is one more line.
"""

from __future__ import annotations

from multikernel.experiments.protocol import Course, Entry, Protocol, Task, Verdict
from multikernel.experiments.run import reproduce

__all__ = ["Course", "Entry", "Protocol", "Task", "Verdict", "all_protocols", "reproduce"]


def all_protocols() -> dict[str, Protocol]:
    """All protocols by name: each module of ``multikernel.experiments.protocols`` has one, called ``PROTOCOL``.

    Examples
    --------
    >>> from multikernel.experiments import all_protocols
    >>> "flower17" in all_protocols()
    True
    """
    import importlib
    import pkgutil

    from multikernel.experiments import protocols as package

    names = sorted(module.name for module in pkgutil.iter_modules(package.__path__))
    found = [importlib.import_module(f"{package.__name__}.{name}").PROTOCOL for name in names]
    return {protocol.name: protocol for protocol in found}
