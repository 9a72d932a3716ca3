"""The papers' experiments: one protocol a file, run by ``multikernel reproduce NAME``.

A protocol says which data, kernels, splits, methods, grids and figures; `reproduce` runs it, keeps what is finished,
and writes tables, figures and a page. Methods are named as in the registry, so that a new one is one more line.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from multikernel_experiments.protocol import Entry, Protocol, Task, Verdict
    from multikernel_experiments.run import reproduce

__version__ = "0.2.0"

__all__ = ["Entry", "Protocol", "Task", "Verdict", "all_protocols", "reproduce"]


def __getattr__(name: str) -> Any:
    """Import when it is used: the command line loads this package to show its help."""
    if name not in __all__:
        raise AttributeError(f"module 'multikernel_experiments' has no attribute {name!r}")
    module = import_module(
        "multikernel_experiments.run" if name == "reproduce" else "multikernel_experiments.protocol"
    )
    return getattr(module, name)


def all_protocols() -> dict[str, Protocol]:
    """All protocols by name: each module of ``multikernel_experiments.protocols`` has one, called ``PROTOCOL``.

    Examples
    --------
    >>> from multikernel_experiments import all_protocols
    >>> "flower17" in all_protocols()
    True
    """
    import pkgutil

    from multikernel_experiments import protocols as package

    names = sorted(module.name for module in pkgutil.iter_modules(package.__path__))
    found = [import_module(f"{package.__name__}.{name}").PROTOCOL for name in names]
    return {protocol.name: protocol for protocol in found}
