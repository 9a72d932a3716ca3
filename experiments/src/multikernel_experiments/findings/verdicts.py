"""Claims, whose they are, what was judged, and the words for how far they hold."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from multikernel_experiments.protocol import FAILS, HOLDS, IN_PART, OWN, PROBLEM, UNDECIDED, Verdict
from multikernel_experiments.results import Results

Finding = tuple[str, str]  # how far a claim holds, and the figures behind it
HERE = "this library"  # the source of our own claims


def on_scores(judge: Callable[..., Finding | None]) -> Callable[..., Finding | None]:
    """Mark a function that judges test scores: of one split it gives figures, and claims no verdict on them."""
    judge.on_scores = True  # type: ignore[attr-defined]
    return judge


class Claim:
    """What is claimed, and the function that finds out whether it holds; called with results, gives verdicts.

    Parameters
    ----------
    text : str
        The claim; ``{last}`` in it stands for the last setting of the run.
    source : str
        A citation with the figure, table or section, such as ``"OJC10, Figure 1"``; `HERE` for our own claims.
    judge : callable
        Given the results and the options, returns how far the claim holds and the figures behind it; None if they do
        not tell.
    by : str
        The solver that is judged, as users call it.
    about : str
        `PRINTED` if that is the paper's algorithm as printed, `PROBLEM` if it is another for the paper's problem;
        `OWN` if the claim is ours.
    needs : sequence of str
        Keys of entries without whose scores nothing is said.
    **options
        Of ``judge``.

    Examples
    --------
    >>> from multikernel_experiments.findings.verdicts import Claim
    >>> from multikernel_experiments.protocol import UNTESTED
    >>> claim = Claim("More is better", "OJC10, Figure 1", lambda results, why: (UNTESTED, why), by="silp", why="so")
    >>> claim.source, claim.about
    ('OJC10, Figure 1', 'problem, solved here')
    """

    def __init__(
        self,
        text: str,
        source: str,
        judge: Callable[..., Finding | None],
        /,
        by: str,
        about: str = PROBLEM,
        needs: Sequence[str] = (),
        **options: Any,
    ) -> None:
        if (source == HERE) != (about == OWN) or (about != OWN and not re.match(r"[A-Z]+\d\d", source)):
            raise ValueError(f"{text!r} cites {source!r} as {about!r}: our own claims cite {HERE!r}, others a paper")
        self.text, self.source, self.judge, self.options = text, source, judge, options
        self.by, self.about, self.needs = by, about, needs

    def __call__(self, results: Results) -> list[Verdict]:
        found = self.judge(results, **self.options) if all(results.scores(key) for key in self.needs) else None
        if found is None:
            return []
        protocol = results.protocol
        splits = protocol.n_splits
        if getattr(self.judge, "on_scores", False) and splits * len(protocol.settings) == 1:
            found = UNDECIDED, f"one split; {found[1]}"
        text = self.text.replace("{last}", protocol.settings[-1]) if "{last}" in self.text else self.text
        judged = f"{self.by}; {protocol.name}, {splits} split{'s' * (splits > 1)}"
        return [Verdict(text, self.source, *found, self.about, judged)]


def graded(found: Iterable[Any]) -> str:
    """Holds where it holds everywhere; in part where somewhere.

    Examples
    --------
    >>> from multikernel_experiments.findings.verdicts import graded
    >>> graded([True, True]), graded([True, False]), graded([False])
    ('holds', 'holds in part', 'does not hold here')
    """
    each = [bool(value) for value in found]
    return HOLDS if all(each) else IN_PART if any(each) else FAILS


def within(value: float, close: float, near: float | None = None) -> str:
    """Holds up to ``close``, in part up to ``near``.

    Examples
    --------
    >>> from multikernel_experiments.findings.verdicts import within
    >>> within(1.0, 1.0, 2.0), within(1.5, 1.0, 2.0), within(1.5, 1.0)
    ('holds', 'holds in part', 'does not hold here')
    """
    return HOLDS if value <= close else IN_PART if near is not None and value <= near else FAILS


def listed(values: Mapping[Any, float], form: str = ".1f", between: str = ": ") -> str:
    """Numbers with their names.

    Examples
    --------
    >>> from multikernel_experiments.findings.verdicts import listed
    >>> listed({"average": 60.04, "MKL": 61.0}), listed({"MKL": 0.96}, "+.1f", " ")
    ('average: 60.0, MKL: 61.0', 'MKL +1.0')
    """
    return ", ".join(f"{name}{between}{value:{form}}" for name, value in values.items())


def percent(results: Results, without: Sequence[str] = ()) -> dict[str, float]:
    """Mean scores in percent of all entries that have one, by key."""
    return {e.key: 100 * results.score(e.key) for e in results.entries_done() if e.key not in without}


def complete(results: Results) -> bool:
    """Whether every entry has a score in some setting."""
    return len(results.entries_done()) == len(results.protocol.in_tables)
