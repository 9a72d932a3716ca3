"""How far a run is, and how long the rest will take."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from multikernel.compare.results import mean


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
    >>> from multikernel.experiments.progress import Step
    >>> print(Step(3, 40, 125.0, "split 1, average: 87.1 %"))
    [3/40, about 2.1 min left] split 1, average: 87.1 %
    """

    done: int
    total: int
    left: float
    text: str

    def __str__(self) -> str:
        minutes = self.left / 60
        left = "" if not minutes > 0 else f", about {max(minutes, 0.1):.{1 if minutes < 10 else 0}f} min left"
        return f"[{self.done}/{self.total}{left}] {self.text}"


class Pace:
    """Seconds of finished cells, by entry; from them those of the cells to come.

    Parameters
    ----------
    jobs : int
        Cells that are made at the same time.

    Examples
    --------
    >>> from multikernel.experiments.progress import Pace
    >>> pace = Pace(jobs=2)
    >>> pace.add("average", 1.0)
    >>> pace.add("mkl", 5.0)
    >>> pace.left(["average", "mkl", "mkl", "new"])  # a new entry takes as long as the mean: (1 + 5 + 5 + 3) / 2
    7.0
    """

    def __init__(self, jobs: int = 1) -> None:
        self._jobs = jobs
        self._seconds: dict[str, list[float]] = defaultdict(list)

    def add(self, key: str, seconds: float) -> None:
        """Count a finished cell."""
        self._seconds[key].append(seconds)

    def left(self, keys: Iterable[str]) -> float:
        """Seconds for cells of these entries; ``nan`` if nothing has been timed."""
        means = {key: mean(values) for key, values in self._seconds.items()}
        typical = mean(list(means.values()))
        return sum(means.get(key, typical) for key in keys) / self._jobs
