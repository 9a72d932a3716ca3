"""What an experiment is made of: settings, splits, methods with their grids, figures and claims."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from multikernel.compare.tuning import Score, Split, accuracy
from multikernel.estimators.registry import Method

if TYPE_CHECKING:
    from multikernel_experiments.archives import Archives
    from multikernel_experiments.results import Results

HOLDS, IN_PART, FAILS = "holds", "holds in part", "does not hold here"
UNDECIDED, UNTESTED = "undecidable here", "not tested"
# What a claim is about. Claims of our own are never cited as a paper's.
PRINTED, PROBLEM, OWN = "algorithm as printed", "problem, solved here", "our own claim"


@dataclass(frozen=True)
class Entry:
    """A method with the parameters and the grid that a protocol gives it.

    Parameters
    ----------
    key : str
        Its name in this protocol, and in the files of results.
    method : str
        A name of the registry of methods, see :func:`multikernel.estimators.registry.available`.
    title : str
        What tables show.
    params : mapping
        Fixed parameters, which override those of the registry.
    grid : mapping of str to sequence
        Values to choose from by validation.
    published : str
        The figure that a paper gives for it, with the source.
    leaves_out : sequence of str
        Settings in which it is not run.
    at : mapping of str to mapping
        Further parameters in some settings.
    line : str
        Entries with the same one are points of a line, see `along`: they are in figures, not in tables of scores.
    """

    key: str
    method: str
    title: str
    params: Mapping[str, Any] = field(default_factory=dict)
    grid: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    published: str = ""
    leaves_out: Sequence[str] = ()
    at: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    line: str = ""

    def registered(self) -> Method:
        """The registered method, with this title, these parameters and this grid."""
        import multikernel.estimators  # noqa: F401 (methods register themselves)
        from multikernel.estimators.registry import available
        from multikernel.io.files import DataError, near_matches

        known = available()
        if self.method not in known:
            raise DataError(f"there is no method {self.method!r}; {near_matches(self.method, list(known))}")
        method = known[self.method]
        return replace(method, title=self.title, params={**method.params, **self.params}, grid=dict(self.grid))

    def thinned(self) -> Entry:
        """The same with fewer points on each axis of the grid."""
        return replace(self, grid={name: thin(values) for name, values in self.grid.items()})

    def placed(self, setting: str, split: int) -> Entry:
        """The entry in a place: its parameters there, and a random state of its own for each split."""
        params = {**self.params, **self.at.get(setting, {})}
        if isinstance(params.get("random_state"), int):
            params["random_state"] += split
        return replace(self, params=params)


def along(entry: Entry, values: Sequence[Any], name: str = "max_iter", mark: str = "@") -> list[Entry]:
    """A line of entries ``key@value`` that differ in one parameter, as a rule the number of iterations.

    Examples
    --------
    >>> from multikernel_experiments.protocol import Entry, along
    >>> [point.key for point in along(Entry("silp", "mkl", "SILP", {"solver": "silp"}), (1, 10))]
    ['silp@1', 'silp@10']
    """
    key, title, params = entry.key, entry.title, entry.params
    return [
        replace(entry, key=f"{key}{mark}{v}", title=f"{title}, {name} = {v:g}", params={**params, name: v}, line=key)
        for v in values
    ]


def thin(values: Sequence[Any]) -> list[Any]:
    """Every second value, every third of more than six; short axes stay.

    Examples
    --------
    >>> from multikernel_experiments.protocol import thin
    >>> thin([1, 10, 100, 1000]), thin(range(10)), thin([1, 2])
    ([1, 100], [0, 3, 6, 9], [1, 2])
    """
    return list(values)[:: 1 if len(values) < 3 else 2 if len(values) < 7 else 3]


@dataclass(frozen=True, eq=False)
class Task:
    """One setting and split: Gram stacks, labels, and the folds that choose parameters.

    Parameters
    ----------
    training : GramStack
        Between the samples to learn from, validation samples included.
    testing : GramStack
        Test samples in rows, those of ``training`` in columns.
    y_train, y_test : ndarray
    folds : list of pairs of index arrays
        Positions among the training samples; one pair where the data come with a validation set.
    score : callable, optional
        Where the settings of a protocol have different ones; by default the protocol's.
    by_entry : mapping of str to Task
        The task of each entry, by key, where they see the samples in different ways.
    """

    training: Any
    testing: Any
    y_train: NDArray
    y_test: NDArray
    folds: list[Split]
    score: Score | None = None
    by_entry: Mapping[str, Task] = field(default_factory=dict)


@dataclass(frozen=True)
class Verdict:
    """Whether a claim holds on these data: the claim, its source, the verdict, and the figures behind it.

    ``about`` is what kind of claim it is, `PRINTED`, `PROBLEM` or `OWN`; ``judged`` the solver, and the protocol.
    """

    claim: str
    source: str
    verdict: str
    evidence: str
    about: str = OWN
    judged: str = ""


@dataclass(frozen=True)
class Protocol:
    """An experiment: every entry on every split of every setting.

    Parameters
    ----------
    name, title, about : str
        What users type; the heading; what is done, in sentences.
    source : str
        The table or figure that it repeats, as a citation.
    files : sequence of str
        Archives that it reads.
    entries : sequence of Entry
    task : callable
        Called as ``task(archives, setting, split, quick)``; returns a `Task`.
    settings, quick_settings : sequence of str
        Data sets, classes, noise levels: whatever tables have in rows.
    setting_title : str
    n_splits, quick_splits : int
    score : callable
        ``score(model, stack, y)``, a share; chooses parameters and is reported.
    metric : str
        Its name.
    mean_row : str
        Title of a last row with means over settings; none if empty.
    published_row : mapping
        Published figures for that row, by key of the entry.
    figures : sequence of callables
        Each a :class:`~multikernel_experiments.findings.drawing.Picture`, or a function of the results and a
        matplotlib figure to draw on, whose name is that of the file and whose docstring begins with the caption.
    claims : sequence of Claim
        See :class:`~multikernel_experiments.findings.verdicts.Claim`.
    minutes : float, optional
        What a full run takes on two cores, about.
    tables : callable
        Returns further tables, given the results: titles, each with its headings and rows.
    """

    name: str
    title: str
    about: str
    source: str
    files: Sequence[str]
    entries: Sequence[Entry]
    task: Callable[[Archives, str, int, bool], Task]
    settings: Sequence[str] = ("all",)
    quick_settings: Sequence[str] = ()
    setting_title: str = "data"
    n_splits: int = 3
    quick_splits: int = 1
    score: Callable[[Any, Any, np.ndarray], float] = accuracy
    metric: str = "accuracy"
    mean_row: str = ""
    published_row: Mapping[str, str] = field(default_factory=dict)
    figures: Sequence[Callable[[Results, Any], None]] = ()
    claims: Sequence[Callable[[Results], list[Verdict]]] = ()
    minutes: float | None = None
    tables: Callable[[Results], list[tuple[str, tuple[list[str], list[list[str]]]]]] = lambda results: []

    def __post_init__(self) -> None:
        keys = [entry.key for entry in self.entries]
        if len(set(keys)) < len(keys):
            raise ValueError(f"protocol {self.name!r}: keys of entries must differ, got {keys}")

    @property
    def in_tables(self) -> list[Entry]:
        """Entries that are no points of a line."""
        return [entry for entry in self.entries if not entry.line]

    def verdicts(self, results: Results) -> list[Verdict]:
        """Verdicts on all claims of which the results tell something."""
        return [verdict for claim in self.claims for verdict in claim(results)]

    def quickened(self) -> Protocol:
        """Fewer splits, settings, grid points, and points of lines."""
        lines: dict[str, list[str]] = {}
        for entry in self.entries:
            lines.setdefault(entry.line, []).append(entry.key)
        # of longer and longer fits the two shortest
        left = {key for line, keys in lines.items() for key in (keys[:2] if f"{line}@" in keys[0] else keys)}
        return replace(
            self,
            entries=[entry.thinned() for entry in self.entries if entry.key in left],
            settings=self.quick_settings or self.settings,
            n_splits=min(self.quick_splits, self.n_splits),
        )
