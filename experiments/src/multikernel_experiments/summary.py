"""One page of Markdown about all finished experiments: verdicts, tables and figures, machine and versions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from multikernel.compare.table import seconds
from multikernel.io.files import DataError, atomic_write, write_text
from multikernel_experiments.protocol import FAILS, HOLDS, IN_PART, UNJUDGED, Protocol
from multikernel_experiments.remarks import about_times, remarks
from multikernel_experiments.results import Results
from multikernel_experiments.saved import load
from multikernel_experiments.tables import markdown, tables

# The experiment that compares all methods on many data sets.
GENERAL = "grand"

INTRODUCTION = """# Results

This page is written by `multikernel reproduce --all --summary` from the folders of finished runs; nothing on it is
typed by hand. [Experiments](experiments.md) says how they are run and what to keep in mind about each. Parameters are
always chosen inside the training samples. Data, descriptors and splits differ from the papers', so published figures
are comparable, not identical, and verdicts are on these data only. Times depend on what else the machine had to
do."""


def finished(protocols: Mapping[str, Protocol], folder: Path) -> dict[str, Results]:
    """Results by name of the protocol: of a full run, else of a quick one on real data; with half of its cells."""
    found = {}
    for name, protocol in protocols.items():
        results = load(protocol, folder / name) or load(protocol, folder / f"{name}-quick")
        if results is not None and 2 * len(results.cells) >= results.total:
            found[name] = results
    return found


def write_summary(protocols: Mapping[str, Protocol], folder: Path, path: Path) -> list[str]:
    """Write the page, and its figures to ``_static/results`` beside it; returns the names of what is on it.

    Raises
    ------
    DataError
        When nothing is finished.
    """
    found = finished(protocols, folder)
    if not found:
        raise DataError(f"no finished experiments in {folder}: run some first, with --output {folder}")
    missing = [name for name in protocols if name not in found]
    parts = [INTRODUCTION, _made_on(found)]
    if missing:
        parts.append(f"Not run, or not half of it: {', '.join(f'`{name}`' for name in missing)}.")
    parts += _claims(found)
    for name, results in found.items():
        parts += _section(name, results, _figures(name, results, path.parent))
    write_text(path, "\n\n".join(parts) + "\n")
    return list(found)


def _made_on(found: Mapping[str, Results]) -> str:
    """Machine and versions, each as often as it differs."""
    machines = Counter(
        ", ".join(f"{name}: {value}" for name, value in {**r.machine, **r.versions}.items()) for r in found.values()
    )
    lines = [
        text if len(machines) == 1 else f"{text} ({count} experiments)" for text, count in machines.most_common()
    ]
    versions = sorted({r.versions["multikernel"] for r in found.values() if "multikernel" in r.versions})
    return f"Runs of multikernel {', '.join(versions) or '?'}. Made on: {'; '.join(lines)}."


def _claims(found: Mapping[str, Results]) -> list[str]:
    rows = [
        [v.verdict, v.claim, v.evidence, v.source, f"[{name}](#{anchor(results.protocol.title)})"]
        for name, results in found.items()
        for v in results.protocol.claims(results)
    ]
    if not rows:
        return []
    counts = Counter(row[0] for row in rows)
    words = {
        HOLDS: "hold",
        IN_PART: "hold in part",
        FAILS: "do not hold here",
        UNJUDGED: "are of one split, not judged",
    }
    text = ", ".join(f"{counts[v]} {shown}" for v, shown in words.items() if v != UNJUDGED or counts[v])
    # what users ask is answered where all methods meet; the papers' own claims follow
    general = [f"- **{row[1]}**: {row[0]}; {row[2]}." for row in rows if row[4].startswith(f"[{GENERAL}]")]
    parts = ["## In short", "\n".join(general)] if general else []
    heads = ["verdict", "claim", "figures", "source", "experiment"]
    return [*parts, "## Claims", f"Of {len(rows)} claims: {text}.", markdown(heads, rows)]


def anchor(title: str) -> str:
    """The target that a heading gets.

    Examples
    --------
    >>> from multikernel_experiments.summary import anchor
    >>> anchor("Caltech-101, the effect of p")
    'caltech-101-the-effect-of-p'
    """
    kept = "".join(character for character in title.lower() if character.isalnum() or character in " -_")
    return kept.replace(" ", "-")


def _section(name: str, results: Results, figures: Sequence[str]) -> list[str]:
    protocol = results.protocol
    parts = [f"## {protocol.title}", f"`multikernel reproduce {name}`. {protocol.about} Source: {protocol.source}."]
    parts += [f"**{text}**" for text in remarks(results)]
    spent = sum(record["seconds"] for record in results.cells.values())
    day = results.started.partition("T")[0]
    parts.append(f"Run on {day}; its {len(results.cells)} cells took {seconds(spent)} in all. {about_times(results)}")
    for title, (heads, rows) in tables(results):
        parts += [f"### {title}", markdown(heads, rows)]
    return [*parts, *figures]


def _figures(name: str, results: Results, folder: Path) -> list[str]:
    """Draw the figures; the lines that show them."""
    from multikernel_experiments.findings.drawing import pictures, render

    lines = []
    for picture in pictures(results):
        rendered = render(picture, results, dpi=90)
        if rendered is None:
            continue
        place = Path("_static", "results", f"{name}-{picture.name.replace('_', '-')}.png")
        (folder / place).parent.mkdir(parents=True, exist_ok=True)
        with atomic_write(folder / place) as stream:
            stream.write(rendered["png"])
        lines.append(f"![{picture.caption}]({place.as_posix()})\n\n*{picture.caption}*")
    return lines
