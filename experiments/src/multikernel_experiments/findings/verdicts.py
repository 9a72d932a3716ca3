"""Claims of papers, and the words for how far they hold."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from multikernel_experiments.protocol import FAILS, HOLDS, IN_PART, UNJUDGED, Verdict
from multikernel_experiments.results import Results

Finding = tuple[str, str]  # how far a claim holds, and the figures behind it


def on_scores(judge: Callable[..., Finding | None]) -> Callable[..., Finding | None]:
    """Mark a function that judges test scores: of one split it gives figures, and claims no verdict on them."""
    judge.on_scores = True  # type: ignore[attr-defined]
    return judge


class Claim:
    """What a paper says, and the function that finds out whether it holds; called with results, gives verdicts.

    Parameters
    ----------
    text : str
        The claim; ``{last}`` in it stands for the last setting of the run.
    source : str
    judge : callable
        Given the results and the options, returns how far the claim holds and the figures behind it; None if they do
        not tell.
    needs : sequence of str
        Keys of entries without whose scores nothing is said.
    **options
        Of ``judge``.

    Examples
    --------
    >>> from multikernel_experiments.findings.verdicts import Claim
    >>> claim = Claim("More is better", "nobody", lambda results, count: ("holds", f"{count} times"), count=3)
    >>> [verdict.evidence for verdict in claim(None)]
    ['3 times']
    """

    def __init__(
        self,
        text: str,
        source: str,
        judge: Callable[..., Finding | None],
        /,
        needs: Sequence[str] = (),
        **options: Any,
    ) -> None:
        self.text, self.source, self.judge, self.needs, self.options = text, source, judge, needs, options

    def __call__(self, results: Results) -> list[Verdict]:
        found = self.judge(results, **self.options) if all(results.scores(key) for key in self.needs) else None
        if found is None:
            return []
        if (
            getattr(self.judge, "on_scores", False)
            and results.protocol.n_splits * len(results.protocol.settings) == 1
        ):
            found = UNJUDGED, found[1]
        text = self.text.replace("{last}", results.protocol.settings[-1]) if "{last}" in self.text else self.text
        return [Verdict(text, self.source, *found)]


def verdicts_on(*claims: Claim) -> Callable[[Results], list[Verdict]]:
    """The verdicts on these claims, in order, as a protocol takes them."""

    def verdicts(results: Results) -> list[Verdict]:
        return [verdict for claim in claims for verdict in claim(results)]

    return verdicts


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
    return len(results.entries_done()) == len(results.protocol.entries)
