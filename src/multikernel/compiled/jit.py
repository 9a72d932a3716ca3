"""How loops are compiled: without the interpreter lock, dividing as NumPy does, kept on disk if there is a place."""

import gc
from collections.abc import Callable, Set
from functools import cache, partial
from typing import Any

from multikernel.runtime.warnings import warn_user

# So many objects come in that the collector would look through all that were there: a third of the time.
collecting = gc.isenabled()
gc.disable()
try:
    from numba import njit
    from numba.core import event
    from numba.core.caching import FunctionCache
    from numba.core.runtime import rtsys
finally:
    if collecting:
        gc.enable()

# what a sum needs to be vectorised; NaN and infinity keep their meaning
REORDER = frozenset({"reassoc", "nsz", "contract"})

# nobody calls these functions from C
OPTIONS: dict[str, Any] = {"nogil": True, "error_model": "numpy", "no_cfunc_wrapper": True}


def loop(function: Callable | None = None, *, fastmath: Set[str] = frozenset()) -> Any:
    """Compile a function that Python calls, when it is first called with arguments of some types."""
    if function is None:
        return partial(loop, fastmath=fastmath)
    compiled: Any = njit(function, fastmath=set(fastmath), **OPTIONS)
    if compiled is not function:  # NUMBA_DISABLE_JIT gives it back as it is
        try:
            compiled._cache = Cache(function)
        except RuntimeError:
            remark()
    return compiled


def part(function: Callable) -> Any:
    """Compile a function that loops call and Python does not: what only Python needs is a third of the time."""
    return njit(function, **{**OPTIONS, "no_cpython_wrapper": True})


class Cache(FunctionCache):
    """numba's cache, which loads what is there without preparing to compile, and survives a full disk."""

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """The code for arguments of these types; None where there is none."""
        # numba's own method fills the tables of the compiler first, which takes 0.3 s
        rtsys.initialize(target_context)
        with self._guard_against_spurious_io_errors():
            found = self._load_overload(sig, target_context)
            # processes that write at the same moment may have given the same file to different types
            return found if found is not None and tuple(found.signature.args) == tuple(sig) else None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keep the code, if there is room."""
        try:
            super().save_overload(sig, data)
        except OSError:
            remark()


class Compilations(event.Listener):
    """How many functions are being compiled."""

    running = 0

    def on_start(self, event: Any) -> None:
        """One more."""
        self.running += 1

    def on_end(self, event: Any) -> None:
        """One less."""
        self.running -= 1


compilations = Compilations()
event.register("numba:compile", compilations)


@cache
def remark() -> None:
    """Say once that nothing can be kept."""
    warn_user(
        "compiled code cannot be cached on disk, so every new process spends seconds recompiling it. Set "
        "NUMBA_CACHE_DIR to a writable folder.",
        RuntimeWarning,
    )
