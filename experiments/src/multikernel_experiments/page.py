"""The page of an experiment: one HTML file that needs nothing but itself, in the style of the report."""

from __future__ import annotations

import base64
from collections.abc import Mapping

from multikernel.compare.table import seconds
from multikernel.report.figures import weights_figure
from multikernel.report.markup import Html, el, header, repeat, section, table, whole_page
from multikernel_experiments.protocol import HOLDS, IN_PART, UNDECIDED, UNTESTED, Verdict
from multikernel_experiments.remarks import about_times, remarks
from multikernel_experiments.results import Results
from multikernel_experiments.tables import Table, tables

_STYLE = """
.experiment thead th { white-space: normal; }
.experiment tbody th { min-width: 9em; }
.experiment:not(.many) td:last-child { white-space: normal; }
.experiment.many td { text-align: center; }
.experiment.many thead th:not(:first-child) { text-align: center; }
.experiment .last > * { border-top: 2px solid var(--rule); font-weight: 650; }
.experiment td.top { font-weight: 650; color: var(--accent); }
img.plot { display: block; width: 100%; height: auto; background: #fff; border-radius: 8px; padding: 8px; }
.verdicts { margin: 0; padding: 0; list-style: none; }
.verdicts li { padding: 10px 0; border-bottom: 1px solid var(--rule); }
.verdicts li:last-child { border-bottom: 0; }
.verdicts .mark { margin: 0 8px 0 0; }
.verdicts .mark.part { background: none; box-shadow: inset 0 0 0 1px var(--accent); }
.verdicts .mark.no { background: var(--warn-soft); color: var(--warn); }
.verdicts p { margin: 4px 0 0; color: var(--soft); font-size: .875rem; }
"""


def page(results: Results, figures: Mapping[str, tuple[str, bytes]]) -> str:
    """The whole page; figures are captions and PNG images by name."""
    protocol = results.protocol
    sections = [
        _banner(results),
        _verdicts(protocol.verdicts(results)),
        [_table(results, title, found) for title, found in tables(results)],
        [_figure(name, caption, image) for name, (caption, image) in figures.items()],
        weights_figure(results.comparison(protocol.settings[0])) if len(protocol.settings) == 1 else None,
        _notes(results),
        _repeat(results),
    ]
    title = f"{protocol.title} – multikernel experiment"
    return whole_page(title, _header(results), el("main", sections), style=_STYLE)


def _header(results: Results) -> Html:
    protocol = results.protocol
    # a mean over other settings is no rival
    whole = [e for e in protocol.in_tables if all(results.scores(e.key, setting) for setting in protocol.settings)]
    scored = {entry.title: results.score(entry.key) for entry in whole}
    best = max(scored, key=lambda title: scored[title], default=None)
    counts = [len(protocol.in_tables), len(protocol.settings), protocol.n_splits]
    cards = [("Methods", str(counts[0]), protocol.metric), ("Splits", str(counts[2]), "of each setting")]
    if counts[1] > 1:
        cards.append(("Settings", str(counts[1]), protocol.setting_title))
    if best is not None:
        cards.insert(0, ("Best mean", f"{100 * scored[best]:.1f} %", best))
    return header("experiment", protocol.title, [protocol.about, f"Source: {protocol.source}."], cards)


def _banner(results: Results) -> list[Html]:
    return [el("p", text, class_="banner", role="status") for text in remarks(results)]


def _verdicts(verdicts: list[Verdict]) -> Html | None:
    if not verdicts:
        return None
    kinds = {HOLDS: "mark", **dict.fromkeys((IN_PART, UNDECIDED, UNTESTED), "mark part")}
    items = [
        el(
            "li",
            el("span", v.verdict, class_=kinds.get(v.verdict, "mark no")),
            f"{v.claim} [{v.source}]",
            el("p", f"{v.about}: {v.judged}"),
            el("p", v.evidence),
        )
        for v in verdicts
    ]
    return section("Claims", el("ul", items, class_="verdicts"))


def _table(results: Results, title: str, found: Table) -> Html:
    heads, rows = found
    many = len(results.protocol.settings) > 1
    marked = many and title.startswith(results.protocol.metric.capitalize())
    published = bool(results.protocol.published_row) and not results.stand_in
    extra = bool(results.protocol.mean_row) + published if marked else 0
    body = []
    for k, row in enumerate(rows):
        top = _largest(row[1:]) if marked else None
        entries = [
            el("td", text, data_label=heads[j + 1], class_="top" if text == top else None)
            for j, text in enumerate(row[1:])
        ]
        last = "last" if extra and k >= len(rows) - extra else None
        body.append(el("tr", el("th", row[0], scope="row"), entries, class_=last))
    kind = "results experiment" + (" many" if many else "")
    return section(title, table(heads, body, scroll=title, class_=kind))


def _largest(row: list[str]) -> str | None:
    """The text that begins with the largest number."""
    numbers = {text: float(text.split()[0]) for text in row if text[:1].isdigit()}
    return max(numbers, key=lambda text: numbers[text], default=None)


def _figure(name: str, caption: str, image: bytes) -> Html:
    title = name.replace("_", " ").capitalize()
    source = "data:image/png;base64," + base64.b64encode(image).decode()
    image_element = el("img", class_="plot", src=source, alt=caption)
    return section(title, el("figure", image_element, el("figcaption", caption)))


def _notes(results: Results) -> Html | None:
    notes: dict[str, None] = {}
    for (setting, split, _), record in results.cells.items():
        for note in [*record["notes"], *([f"failed: {record['error']}"] if record["error"] else [])]:
            notes[f"{record['title']}, {setting}, split {split + 1}: {note}"] = None
    if not notes:
        return None
    shown = [el("li", note) for note in list(notes)[:20]]
    more = [el("li", f"and {len(notes) - 20} more")] if len(notes) > 20 else []
    return section("Warnings", el("ul", shown, more, class_="notes"))


def _repeat(results: Results) -> Html:
    spent = sum(record["seconds"] for record in results.cells.values())
    when = results.started.replace("T", " ")
    about = [f"Run on {when}; its {len(results.cells)} cells took {seconds(spent)} in all, validation included."]
    about += [about_times(results)] if results.cores() else []
    return repeat(results.command, about, {**results.machine, **results.versions})
