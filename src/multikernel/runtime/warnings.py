"""Warnings that point at the user's line, however deep in the library they arise."""

import sys
import warnings

# Frames of these are how a call gets here, not where it comes from.
LIBRARIES = ("multikernel", "sklearn", "joblib")


def warn_user(message: str, category: type[Warning]) -> None:
    """Warn, with the place of the nearest caller outside of this library, scikit-learn and joblib."""
    level, frame = 1, sys._getframe()
    while frame is not None and frame.f_globals.get("__name__", "").split(".")[0] in LIBRARIES:
        level, frame = level + 1, frame.f_back  # type: ignore[assignment]
    warnings.warn(message, category, stacklevel=level)
