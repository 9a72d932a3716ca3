"""How exactly to solve inner problems: no more than the outer iteration deserves yet."""

from __future__ import annotations

from multikernel.runtime.monitor import Monitor

# Relative gap of the first inner problem, what share of the outer gap later ones may leave, and the least asked for.
# The SVM engine ends with steps that are nearly exact, so that asking for less at first saves next to nothing.
FIRST, SHARE, LEAST = 1e-3, 0.1, 1e-12


class InnerTolerance:
    """Relative gap for the next inner problem: a share of the outer gap, never growing, tighter on demand.

    Parameters
    ----------
    monitor : Monitor
        Knows the outer gap and its goal.
    share : float
        Share of the outer gap that inner problems may leave.
    """

    def __init__(self, monitor: Monitor, share: float = SHARE):
        self.monitor, self.share = monitor, share
        self.least = max(share * monitor.tol, LEAST)
        self.value = FIRST
        self.follow()

    def follow(self) -> float:
        """The tolerance after the monitor has seen the last solution."""
        wanted = self.share * self.monitor.certificate.relative_gap
        self.value = min(self.value, max(wanted if wanted == wanted else FIRST, self.least))
        return self.value

    def tighten(self) -> bool:
        """Ask for ten times more; False if that is beyond double precision."""
        if self.value <= LEAST:
            return False
        self.least = min(self.least, max(0.1 * self.value, LEAST))
        self.value = max(0.1 * self.value, LEAST)
        return True
