"""Results as a CSV file, one row a fit, and as Markdown tables."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Sequence

from multikernel.compare.results import mean
from multikernel.compare.table import cells, gap, seconds
from multikernel_experiments.findings.against import over_settings, over_splits, ranked
from multikernel_experiments.findings.significance import holm
from multikernel_experiments.remarks import about_times, remarks
from multikernel_experiments.results import Results

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
            relative = record["gaps"][k]
            writer.writerow(
                [
                    setting,
                    split + 1,
                    key,
                    f"{score:.6f}",
                    f"{record['fit_seconds'][k]:.4g}",
                    f"{relative:.3g}" if math.isfinite(relative) else "",
                    f"{record['n_kernels'][k]:g}",
                    len(record["kernel_names"]),
                    json.dumps(record["parameters"][k]),
                ]
            )
    return stream.getvalue()


def score_text(results: Results, key: str, setting: str) -> str:
    """``85.2 ± 1.5``, in percent; without a spread on one split; a dash where nothing was done."""
    score, half = results.score(key, setting), results.spread(key, setting)
    if not math.isfinite(score):
        return "–"
    return f"{100 * score:.1f} ± {100 * half:.1f}" if math.isfinite(half) else f"{100 * score:.1f}"


Table = tuple[list[str], list[list[str]]]  # headings, and rows whose first cell is a heading too


def tables(results: Results) -> list[tuple[str, Table]]:
    """All tables with their titles: entries in rows for one setting, else settings in rows."""
    if len(results.protocol.settings) == 1:
        found = [(results.protocol.metric.capitalize() + " in percent", _one_setting(results))]
        return found + results.protocol.tables(results)
    found = [(results.protocol.metric.capitalize() + " in percent", _many_settings(results))]
    found.append(("Over all settings", _over_settings(results)))
    found.append(("Time of a fit", _of_values(results, "fit_seconds", seconds)))
    found.append(("Kernels used", _of_values(results, "n_kernels", _count, total=True)))
    return found + results.protocol.tables(results)


def _one_setting(results: Results) -> Table:
    (setting,) = results.protocol.settings
    comparison = results.comparison(setting)
    baseline = results.protocol.in_tables[0]
    against = over_splits(results, setting)
    # figures of other data would mislead beside those of stand-ins
    published = not results.stand_in and any(entry.published for entry in results.protocol.in_tables)
    heads = ["method", "here", f"against {baseline.title}", "published", "fit time", "gap", "kernels", "chosen"]
    rows = []
    for entry in results.protocol.in_tables:
        method = results.method(setting, entry)
        costs = cells(comparison, method)
        score = score_text(results, entry.key, setting)
        score = f"failed: {method.error}" if method.error and not method.scores else score
        difference = against.get(entry.key, "")
        shown = [costs[key] for key in ("fit time", "gap", "kernels", "parameters")]
        rows.append([entry.title, score, difference, entry.published or "–", *shown])
    if not published:
        del heads[3]
        for row in rows:
            del row[3]
    return heads, rows


def _over_settings(results: Results) -> Table:
    """Means over settings, ranks, and wins against the first entry with a sign test corrected for all entries."""
    baseline, *others = results.protocol.in_tables
    found = {entry.key: over_settings(results, entry.key, baseline.key) for entry in others}
    corrected = holm({key: test[3] for key, test in found.items()})
    ranks = ranked(results)
    against = f"better / equal / worse than {baseline.title}"
    heads = ["method", "mean", "mean rank", against, "sign test p", "fit time", "largest gap", "kernels used"]
    rows = []
    for entry in results.protocol.in_tables:
        of = [results.value(name, entry.key) for name in ("fit_seconds", "n_kernels")]
        gaps = [g for r in results.all_records(entry.key) for g in r["gaps"] if math.isfinite(g)]
        wins = found.get(entry.key)
        score = results.score(entry.key)
        done = sum(bool(results.scores(entry.key, setting)) for setting in results.protocol.settings)
        few = "" if done == len(results.protocol.settings) else f" (of {done})"  # a mean over other settings
        rank = ranks.ranks.get(entry.key, math.nan) if ranks else math.nan
        rows.append(
            [
                entry.title,
                f"{100 * score:.1f}{few}" if math.isfinite(score) else "–",
                f"{rank:.1f}" if math.isfinite(rank) else "–",
                " / ".join(map(str, wins[:3])) if wins else "",
                f"{corrected[entry.key]:.2f}" if wins else "",
                seconds(of[0]),
                gap(max(gaps, default=math.nan)),
                f"{of[1]:.1f}" if math.isfinite(of[1]) else "–",
            ]
        )
    return heads, rows


def _many_settings(results: Results) -> Table:
    protocol = results.protocol
    heads = [protocol.setting_title, *(entry.title for entry in protocol.in_tables)]
    rows = [
        [setting, *(score_text(results, entry.key, setting) for entry in protocol.in_tables)]
        for setting in protocol.settings
    ]
    if protocol.mean_row:
        means = [results.score(entry.key) for entry in protocol.in_tables]
        rows.append([protocol.mean_row, *(f"{100 * m:.1f}" if math.isfinite(m) else "–" for m in means)])
    if protocol.published_row and not results.stand_in:
        rows.append(["published", *(protocol.published_row.get(entry.key, "–") for entry in protocol.in_tables)])
    return heads, rows


def _count(value: float) -> str:
    """A mean of counts: ``_count(12.0)`` is ``'12'``, ``_count(10.75)`` is ``'10.8'``."""
    return f"{value:.1f}".removesuffix(".0")


def _of_values(results: Results, name: str, show, *, total: bool = False) -> Table:
    protocol = results.protocol
    rows = []
    for setting in protocol.settings:
        values = [results.value(name, entry.key, setting) for entry in protocol.in_tables]
        row = [setting, *(show(value) if math.isfinite(value) else "–" for value in values)]
        if total:
            names = [r["kernel_names"] for e in protocol.in_tables for r in results.records(setting, e.key)]
            row.append(f"{mean([len(n) for n in names]):.0f}" if names else "–")
        rows.append(row)
    heads = [protocol.setting_title, *(entry.title for entry in protocol.in_tables)]
    return [*heads, "of"] if total else heads, rows


def markdown(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table.

    Examples
    --------
    >>> from multikernel_experiments.tables import markdown
    >>> print(markdown(["a", "b"], [["x", "1|2"]]))
    | a | b |
    |---|---|
    | x | 1\\|2 |
    """
    lines = [heads, *rows]
    text = ["| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines]
    return "\n".join([text[0], "|" + "---|" * len(heads), *text[1:]])


def anchor(title: str) -> str:
    """The target that a heading gets.

    Examples
    --------
    >>> from multikernel_experiments.tables import anchor
    >>> anchor("Caltech-101, the effect of p")
    'caltech-101-the-effect-of-p'
    """
    kept = "".join(character for character in title.lower() if character.isalnum() or character in " -_")
    return kept.replace(" ", "-")


def markdown_page(results: Results, figures: Sequence[str]) -> str:
    """Heading, tables, verdicts and figures as Markdown."""
    protocol = results.protocol
    parts = [f"# {protocol.title}", f"{protocol.about} Source: {protocol.source}."]
    parts += [f"**{text}**" for text in remarks(results)]
    parts += [text for text in [about_times(results)] if text]
    for title, (heads, rows) in tables(results):
        parts += [f"## {title}", markdown(heads, rows)]
    verdicts = protocol.verdicts(results)
    if verdicts:
        rows = [[v.verdict, v.claim, v.judged, v.evidence, v.source] for v in verdicts]
        parts += ["## Claims", markdown(["verdict", "claim", "judged", "figures", "source"], rows)]
    parts += [f"![{name}]({name}.png)" for name in figures]
    return "\n\n".join(parts) + "\n"


def text_tables(results: Results) -> str:
    """The tables and verdicts for a terminal."""
    parts = remarks(results)
    for title, (heads, rows) in tables(results):
        widths = [max(len(row[k]) for row in [heads, *rows]) for k in range(len(heads))]
        lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in [heads, *rows]]
        parts.append("\n".join([title, *lines]))
    parts += [
        f"{v.verdict}: {v.claim} [{v.source}; {v.about}: {v.judged}]\n  {v.evidence}"
        for v in results.protocol.verdicts(results)
    ]
    return "\n\n".join(parts)
