"""How far a run is, and how long the rest will take."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from multikernel.compare.results import mean


def remaining(seconds: float) -> str:
    """The time that is left, in words; nothing if it is not known, or none is left.

    Examples
    --------
    >>> from multikernel_experiments.progress import remaining
    >>> [remaining(seconds) for seconds in (0.3, 48.0, 125.0, 3000.0, 8000.0, 0.0, float("nan"))]
    ['about 1 s left', 'about 48 s left', 'about 2.1 min left', 'about 50 min left', 'about 2.2 h left', '', '']
    """
    if not seconds > 0:
        return ""
    if seconds < 90:
        return f"about {max(seconds, 1):.0f} s left"
    minutes = seconds / 60
    if minutes < 90:
        return f"about {minutes:.{1 if minutes < 10 else 0}f} min left"
    return f"about {minutes / 60:.1f} h left"


@dataclass(frozen=True)
class Step:
    """A line of progress; as text, with the time that is left.

    Parameters
    ----------
    done, total : int
        Cells.
    left : float
        Seconds that the rest will take; ``nan`` if nothing has been timed yet.
    text : str

    Examples
    --------
    >>> from multikernel_experiments.progress import Step
    >>> print(Step(3, 40, 125.0, "split 1, average: 87.1 %"))
    [3/40, about 2.1 min left] split 1, average: 87.1 %
    """

    done: int
    total: int
    left: float
    text: str

    def __str__(self) -> str:
        left = remaining(self.left)
        return f"[{self.done}/{self.total}{', ' * bool(left)}{left}] {self.text}"


class TimeLeft:
    """Seconds of finished cells, by entry and setting; from them those of the cells to come.

    A cell takes as long as others of its entry in its setting, else in other settings, else as a typical entry.

    Parameters
    ----------
    jobs : int
        Cells that are made at the same time.

    Examples
    --------
    >>> from multikernel_experiments.progress import TimeLeft
    >>> pace = TimeLeft(jobs=2)
    >>> pace.add("average", "small", 1.0)
    >>> pace.add("mkl", "small", 4.0)
    >>> pace.add("mkl", "large", 6.0)
    >>> pace.left([("mkl", "large"), ("mkl", "other"), ("average", "large"), ("new", "small")])  # (6 + 5 + 1 + 3) / 2
    7.5
    """

    def __init__(self, jobs: int = 1) -> None:
        self._jobs = jobs
        self._seconds: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))

    def add(self, key: str, setting: str, seconds: float) -> None:
        """Count a finished cell."""
        self._seconds[key][setting].append(seconds)

    def left(self, cells: Iterable[tuple[str, str]]) -> float:
        """Seconds for cells of these entries and settings; ``nan`` if nothing has been timed."""
        exact = {(key, s): mean(values) for key, each in self._seconds.items() for s, values in each.items()}
        by_key = {key: mean([exact[key, s] for s in each]) for key, each in self._seconds.items()}
        typical = mean(list(by_key.values()))
        return sum(exact.get((key, s), by_key.get(key, typical)) for key, s in cells) / self._jobs
