"""One page of Markdown about all finished experiments: verdicts, tables and figures, machine and versions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from multikernel.compare.table import seconds
from multikernel.io.files import DataError, atomic_write, write_text
from multikernel_experiments.papers import write_papers
from multikernel_experiments.protocol import FAILS, HOLDS, IN_PART, OWN, UNDECIDED, UNTESTED, Protocol
from multikernel_experiments.remarks import about_times, remarks
from multikernel_experiments.results import Results
from multikernel_experiments.saved import load
from multikernel_experiments.tables import anchor, markdown, tables

# The experiment that compares all methods on many data sets.
GENERAL = "grand"

INTRODUCTION = """# Results

This page is written by `multikernel reproduce --all --summary` from the folders of finished runs; nothing on it is
typed by hand. [Experiments](experiments.md) says how they are run and what to keep in mind about each. Parameters are
always chosen inside the training samples. Data, descriptors and splits differ from the papers', so published figures
are comparable, not identical, and verdicts are on these data only. Times depend on what else the machine had to
do.

A verdict names the solver and the experiment that it judged, and what it is about: a paper's **algorithm as
printed**; a paper's **problem, solved here** by another algorithm, which says nothing about the speed of the paper's;
or **our own claim**, which is no paper's. What the data cannot tell is *undecidable here*, what a run did not put to
the test *not tested*. For each paper there is a page with all its algorithms, theorems, figures and tables:
[OBSCURE](papers/obscure.md), [CSKL](papers/cskl.md), [SVRG-MKL](papers/svrg.md), [ML-MKL](papers/multilabel.md),
[MK-FDA](papers/mk-fda.md)."""


def finished(protocols: Mapping[str, Protocol], folder: Path) -> dict[str, Results]:
    """Results by name of the protocol: of a full run, else of a quick one on real data; with half of its cells."""
    found = {}
    for name, protocol in protocols.items():
        results = load(protocol, folder / name) or load(protocol, folder / f"{name}-quick")
        if results is not None and 2 * len(results.cells) >= results.total:
            found[name] = results
    return found


def write_summary(protocols: Mapping[str, Protocol], folder: Path, path: Path) -> list[str]:
    """Write the page, its figures to ``_static/results`` and a page a paper to ``papers`` beside it.

    Returns the names of the experiments on it.

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
    write_papers(protocols, found, path.parent / "papers", path.name)
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
    """Verdicts in one table, those on the papers first; in short: those of the experiment where all methods meet."""
    judged = [(name, v) for name, results in found.items() for v in results.protocol.verdicts(results)]
    judged.sort(key=lambda pair: pair[1].about == OWN)
    rows = [
        [
            v.verdict,
            v.claim,
            v.source,
            v.about,
            v.judged,
            v.evidence,
            f"[{name}](#{anchor(found[name].protocol.title)})",
        ]
        for name, v in judged
    ]
    if not rows:
        return []
    counts = Counter(v.verdict for _, v in judged)
    words = {HOLDS: "hold", IN_PART: "hold in part", FAILS: "do not hold here"}
    words |= {UNDECIDED: "cannot be decided here", UNTESTED: "were not tested"}
    text = ", ".join(f"{counts[v]} {shown}" for v, shown in words.items() if counts[v])
    general = [f"- **{v.claim}**: {v.verdict}; {v.evidence}." for name, v in judged if name == GENERAL]
    parts = ["## In short", "\n".join(general)] if general else []
    heads = ["verdict", "claim", "source", "about", "judged", "figures", "experiment"]
    return [*parts, "## Claims", f"Of {len(rows)} claims: {text}.", markdown(heads, rows)]


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
    for picture in pictures(results.protocol):
        rendered = render(picture, results, dpi=90)
        if rendered is None:
            continue
        place = Path("_static", "results", f"{name}-{picture.name.replace('_', '-')}.png")
        (folder / place).parent.mkdir(parents=True, exist_ok=True)
        with atomic_write(folder / place) as stream:
            stream.write(rendered["png"])
        lines.append(f"![{picture.caption}]({place.as_posix()})\n\n*{picture.legend}*")
    return lines
