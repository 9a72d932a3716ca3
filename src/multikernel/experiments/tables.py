"""Results as a CSV file, one row a fit, and as Markdown tables."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Sequence

from multikernel.compare.results import mean
from multikernel.compare.table import cells, seconds
from multikernel.experiments.protocol import Entry
from multikernel.experiments.remarks import about_times, remarks
from multikernel.experiments.results import Results

COLUMNS = (
    "setting",
    "split",
    "entry",
    "score",
    "fit_seconds",
    "relative_gap",
    "kernels_used",
    "kernels",
    "parameters",
)


def csv_table(results: Results) -> str:
    """One row for each setting, split and entry."""
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(COLUMNS)
    for (setting, split, key), record in sorted(results.cells.items()):
        for k, score in enumerate(record["scores"]):
            gap = record["gaps"][k]
            writer.writerow(
                [
                    setting,
                    split + 1,
                    key,
                    f"{score:.6f}",
                    f"{record['fit_seconds'][k]:.4g}",
                    f"{gap:.3g}" if math.isfinite(gap) else "",
                    f"{record['n_kernels'][k]:g}",
                    len(record["kernel_names"]),
                    json.dumps(record["parameters"][k]),
                ]
            )
    return stream.getvalue()


def score_text(results: Results, key: str, setting: str) -> str:
    """``85.2 ± 1.5``, in percent; without a spread where there is none; a dash where nothing was done."""
    score, half = results.score(key, setting), results.spread(key, setting)
    if not math.isfinite(score):
        return "–"
    return f"{100 * score:.1f} ± {100 * half:.1f}" if math.isfinite(half) else f"{100 * score:.1f}"


Table = tuple[list[str], list[list[str]]]  # headings, and rows whose first cell is a heading too


def tables(results: Results) -> list[tuple[str, Table]]:
    """All tables with their titles: entries in rows for one setting, else settings in rows."""
    if len(results.protocol.settings) == 1:
        return [(results.protocol.metric.capitalize() + " in percent", _one_setting(results))]
    found = [(results.protocol.metric.capitalize() + " in percent", _many_settings(results))]
    found.append(("Time of a fit", _of_values(results, "fit_seconds", seconds)))
    found.append(("Kernels used", _of_values(results, "n_kernels", lambda value: f"{value:.4g}", total=True)))
    return found


def _one_setting(results: Results) -> Table:
    (setting,) = results.protocol.settings
    comparison = results.comparison(setting)
    baseline = results.protocol.entries[0]
    # figures of other data would mislead beside those of stand-ins
    published = not results.stand_in and any(entry.published for entry in results.protocol.entries)
    heads = ["method", "here", f"against {baseline.title}", "published", "fit time", "gap", "kernels", "chosen"]
    rows = []
    for entry in results.protocol.entries:
        method = results.method(setting, entry)
        _, _, fit, gap, kernels, _, chosen = cells(comparison, method)
        score = score_text(results, entry.key, setting)
        score = f"failed: {method.error}" if method.error and not method.scores else score
        against = "" if entry is baseline else _difference(results, entry, baseline)
        rows.append([entry.title, score, against, entry.published or "–", fit, gap, kernels, chosen])
    if not published:
        del heads[3]
        for row in rows:
            del row[3]
    return heads, rows


def _difference(results: Results, entry: Entry, baseline: Entry) -> str:
    """Paired over splits, with the p-value of a t-test where there are three or more."""
    centre, deviation, count = results.difference(entry.key, baseline.key)
    if not math.isfinite(centre):
        return "–"
    text = f"{100 * centre:+.1f}"
    if count >= 3 and deviation > 0:
        from scipy.stats import t

        text += f" (p = {2 * t.sf(abs(centre) / (deviation / math.sqrt(count)), count - 1):.2f})"
    return text


def _many_settings(results: Results) -> Table:
    protocol = results.protocol
    heads = [protocol.setting_title, *(entry.title for entry in protocol.entries)]
    rows = [
        [setting, *(score_text(results, entry.key, setting) for entry in protocol.entries)]
        for setting in protocol.settings
    ]
    if protocol.mean_row:
        means = [results.score(entry.key) for entry in protocol.entries]
        rows.append([protocol.mean_row, *(f"{100 * m:.1f}" if math.isfinite(m) else "–" for m in means)])
    if protocol.published_row and not results.stand_in:
        rows.append(["published", *(protocol.published_row.get(entry.key, "–") for entry in protocol.entries)])
    return heads, rows


def _of_values(results: Results, name: str, show, *, total: bool = False) -> Table:
    protocol = results.protocol
    rows = []
    for setting in protocol.settings:
        values = [results.value(name, entry.key, setting) for entry in protocol.entries]
        row = [setting, *(show(value) if math.isfinite(value) else "–" for value in values)]
        if total:
            names = [r["kernel_names"] for e in protocol.entries for r in results.records(setting, e.key)]
            row.append(f"{mean([len(n) for n in names]):.0f}" if names else "–")
        rows.append(row)
    heads = [protocol.setting_title, *(entry.title for entry in protocol.entries)]
    return [*heads, "of"] if total else heads, rows


def markdown(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table.

    Examples
    --------
    >>> from multikernel.experiments.tables import markdown
    >>> print(markdown(["a", "b"], [["x", "1|2"]]))
    | a | b |
    |---|---|
    | x | 1\\|2 |
    """
    lines = [heads, *rows]
    text = ["| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines]
    return "\n".join([text[0], "|" + "---|" * len(heads), *text[1:]])


def markdown_page(results: Results, figures: Sequence[str]) -> str:
    """Heading, tables, verdicts and figures as Markdown."""
    protocol = results.protocol
    parts = [f"# {protocol.title}", f"{protocol.about} Source: {protocol.source}."]
    parts += [f"**{text}**" for text in remarks(results)]
    parts += [text for text in [about_times(results)] if text]
    for title, (heads, rows) in tables(results):
        parts += [f"## {title}", markdown(heads, rows)]
    verdicts = protocol.claims(results)
    if verdicts:
        rows = [[v.claim, v.source, v.verdict, v.evidence] for v in verdicts]
        parts += ["## Claims", markdown(["claim", "source", "verdict", "figures"], rows)]
    parts += [f"![{name}]({name}.png)" for name in figures]
    return "\n\n".join(parts) + "\n"


def text_tables(results: Results) -> str:
    """The tables and verdicts for a terminal."""
    parts = remarks(results)
    for title, (heads, rows) in tables(results):
        widths = [max(len(row[k]) for row in [heads, *rows]) for k in range(len(heads))]
        lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in [heads, *rows]]
        parts.append("\n".join([title, *lines]))
    parts += [f"{v.verdict}: {v.claim} [{v.source}]\n  {v.evidence}" for v in results.protocol.claims(results)]
    return "\n\n".join(parts)
