"""The five papers, item by item: every algorithm, theorem, figure and table, and what answers it.

An item is joined to claims and figures of protocols by its citation, so that a page never says what no run found.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

from multikernel.io.files import write_text
from multikernel_experiments.findings.drawing import pictures
from multikernel_experiments.protocol import Protocol
from multikernel_experiments.results import Results
from multikernel_experiments.tables import anchor, markdown


@dataclass(frozen=True)
class Item:
    """An algorithm, theorem, figure, table or passage of a paper.

    Parameters
    ----------
    name : str
        As cited: ``"Figure 1"``, ``"sect. 4.2"``.
    what : str
        What it says.
    call : str
        How to call it, or the solvers behind the figure.
    remark : str
        The test that checks it; what is not done, and why.
    """

    name: str
    what: str
    call: str = ""
    remark: str = ""


@dataclass(frozen=True)
class Paper:
    """A paper: its key in the bibliography, the file of its page, what it is about, and its items."""

    key: str
    file: str
    title: str
    about: str
    items: tuple[Item, ...]


def papers() -> list[Paper]:
    """The papers in ``papers.toml``."""
    text = files("multikernel_experiments").joinpath("papers.toml").read_text(encoding="utf-8")
    found = tomllib.loads(text)["paper"]
    return [Paper(**{**paper, "items": tuple(Item(**item) for item in paper["items"])}) for paper in found]


def write_papers(
    protocols: Mapping[str, Protocol], found: Mapping[str, Results], folder: Path, results_page: str
) -> None:
    """Write a page of Markdown for each paper to a folder; ``found`` are the results on the page of results."""
    folder.mkdir(parents=True, exist_ok=True)
    for paper in papers():
        write_text(folder / f"{paper.file}.md", paper_page(paper, protocols, found, f"../{results_page}"))


def paper_page(
    paper: Paper, protocols: Mapping[str, Protocol], found: Mapping[str, Results], results_page: str
) -> str:
    """The page of a paper: a table of its items with calls, experiments and verdicts."""
    rows = []
    for item in paper.items:
        names = list(dict.fromkeys(name for name, _ in _answers(protocols, f"{paper.key}, {item.name}")))
        links = ", ".join(
            f"[{name}]({results_page}#{anchor(protocols[name].title)})" if name in found else name for name in names
        )
        rows.append(
            [
                item.name,
                item.what,
                f"`{item.call}`" if "(" in item.call else item.call,
                links,
                *_said(paper, item, protocols, found),
            ]
        )
    heads = ["item", "what", "call", "experiment", "verdict", "remarks"]
    about = f"{paper.about} [{paper.key}] in the [bibliography](../references.md)."
    note = (
        "This page is written with [the results](../results.md) by `multikernel reproduce --all --summary`. Verdicts "
        "are on the data at hand; *not run* is what no finished run has told yet."
    )
    return "\n\n".join([f"# {paper.title}, item by item", about, note, markdown(heads, rows)]) + "\n"


def _said(paper: Paper, item: Item, protocols: Mapping[str, Protocol], found: Mapping[str, Results]) -> list[str]:
    """Verdicts on an item, and remarks: what differs from the paper's figures comes from the pictures."""
    source = f"{paper.key}, {item.name}"
    verdicts, remarks = [], [item.remark] if item.remark else []
    for name, what in _answers(protocols, source):
        if isinstance(what, str):
            remarks += [what] if what and what not in remarks else []
        elif name not in found:
            verdicts.append(f"{what.text}: not run")
        else:
            quick = " (quick run)" if found[name].quick else ""
            told = what(found[name])
            verdicts += [f"**{v.verdict}**{quick}: {v.claim} ({v.about}: {v.judged})" for v in told] or [
                f"{what.text}: not told by the run"
            ]
    return ["; ".join(verdicts) or ("tested" if "tests/" in item.remark else "–"), " ".join(remarks)]


def _answers(protocols: Mapping[str, Protocol], source: str) -> Iterator[tuple[str, Any]]:
    """Claims, and what differs in pictures, of all protocols that cite an item; with the protocol's name."""
    for name, protocol in protocols.items():
        for claim in protocol.claims:
            if getattr(claim, "source", "") == source:
                yield name, claim
        for picture in pictures(protocol):
            if source in picture.of:
                yield name, picture.differs
