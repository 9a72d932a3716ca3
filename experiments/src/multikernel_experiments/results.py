"""What a run found, by setting, entry and split."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from multikernel.compare.results import Comparison, MethodResult, mean, spread
from multikernel_experiments.protocol import Entry, Protocol

Place = tuple[str, int, str]  # setting, split, key of the entry


@dataclass
class Results:
    """Records of all cells done.

    Parameters
    ----------
    protocol : Protocol
        As it was run, quick or not.
    quick : bool
    cells : dict
        Records by (setting, split, key); see :func:`multikernel_experiments.fitting.run_entry`.
    started, command : str
    seconds : float
        Of this run; cells that were finished before do not count.
    interrupted : bool
    stand_in : bool
        Whether the data were stand-ins for those of the protocol.
    jobs : int
        Cells made at the same time; with more than one, each has one core.
    machine, versions : dict of str to str
    """

    protocol: Protocol
    quick: bool = False
    cells: dict[Place, dict[str, Any]] = field(default_factory=dict)
    started: str = ""
    command: str = ""
    seconds: float = 0.0
    interrupted: bool = False
    stand_in: bool = False
    jobs: int = 1
    machine: dict[str, str] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)

    def records(self, setting: str, key: str) -> list[Mapping[str, Any]]:
        """Records of an entry in a setting, split by split."""
        found = ((split, self.cells.get((setting, split, key))) for split in range(self.protocol.n_splits))
        return [record for _, record in found if record is not None]

    def method(self, setting: str, entry: Entry) -> MethodResult:
        """An entry over all splits of a setting, as comparisons have it."""
        merged = MethodResult(entry.key, entry.title)
        for record in self.records(setting, entry.key):
            for name in ("scores", "fit_seconds", "gaps", "n_kernels", "peak_bytes", "parameters", "weights"):
                getattr(merged, name).extend(record[name])
            merged.history = merged.history or record["history"]
            merged.notes = list(dict.fromkeys([*merged.notes, *record["notes"]]))
            merged.error = merged.error or record["error"]
        return merged

    def comparison(self, setting: str) -> Comparison:
        """A setting as a comparison, whose tables and figures are then at hand."""
        done = [record for entry in self.protocol.entries for record in self.records(setting, entry.key)]
        by_split = self.records(setting, done[0]["name"]) if done else []
        return Comparison(
            data=self.protocol.title if len(self.protocol.settings) == 1 else setting,
            classes=[],
            kernel_names=list(done[0]["kernel_names"]) if done else [],
            protocol=self.protocol.about,
            n_splits=self.protocol.n_splits,
            n_train=[record["n_train"] for record in by_split],
            n_test=[record["n_test"] for record in by_split],
            methods=[self.method(setting, entry) for entry in self.protocol.in_tables],
            seconds=self.seconds,
            started=self.started,
            versions=dict(self.versions),
            command=self.command,
            interrupted=self.interrupted,
        )

    def scores(self, key: str, setting: str | None = None) -> list[float]:
        """Scores of an entry, split by split, in one setting or in all."""
        settings = self.protocol.settings if setting is None else [setting]
        return [score for s in settings for record in self.records(s, key) for score in record["scores"]]

    def score(self, key: str, setting: str | None = None) -> float:
        """Mean score of an entry in a setting, or the mean over settings of these."""
        settings = self.protocol.settings if setting is None else [setting]
        return mean([mean(self.scores(key, s)) for s in settings])

    def spread(self, key: str, setting: str) -> float:
        """Standard deviation over splits; nan for one split."""
        return spread(self.scores(key, setting), [])

    def all_records(self, key: str) -> list[Mapping[str, Any]]:
        """Records of an entry in all settings."""
        return [record for setting in self.protocol.settings for record in self.records(setting, key)]

    def value(self, name: str, key: str, setting: str | None = None) -> float:
        """Mean of a list of numbers, such as ``fit_seconds``, of an entry in a setting or in all."""
        records = self.all_records(key) if setting is None else self.records(setting, key)
        return mean([value for record in records for value in record[name]])

    def difference(self, key: str, other: str, setting: str | None = None) -> tuple[float, float, int]:
        """Mean and standard deviation of the difference of two entries' scores on the same splits, and how many."""
        settings = self.protocol.settings if setting is None else [setting]
        pairs = []
        for s in settings:
            for split in range(self.protocol.n_splits):
                a, b = self.cells.get((s, split, key)), self.cells.get((s, split, other))
                if a and b and a["scores"] and b["scores"]:
                    pairs.append(a["scores"][0] - b["scores"][0])
        return mean(pairs), spread(pairs, []), len(pairs)

    @property
    def total(self) -> int:
        """Cells that the protocol has."""
        places = [s for entry in self.protocol.entries for s in self.protocol.settings if s not in entry.leaves_out]
        return len(places) * self.protocol.n_splits

    def cores(self) -> set[int]:
        """Cores that fits could use, over all cells that say so."""
        return {record["cores"] for record in self.cells.values() if "cores" in record}

    def entries_done(self) -> list[Entry]:
        """Entries with a score in any setting, points of lines left out."""
        return [entry for entry in self.protocol.in_tables if self.scores(entry.key)]
