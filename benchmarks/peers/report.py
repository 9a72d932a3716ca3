"""The table and the picture of a comparison with peers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from peers.methods import METHODS

Results = dict[str, dict[str, dict[str, Any]]]
COLOURS = {
    "scikit-learn": "0.3",
    "multikernel": "C0",
    "MKLpy": "C1",
    "himalaya": "C2",
    "scikit-multimodallearn": "C3",
}


def table(results: Results) -> str:
    """A table for each problem, times and memory also as multiples of those of SVC."""
    parts = []
    for data, rows in results.items():
        unit = rows.get("svc", {})
        parts.append(f"### {data}\n")
        parts.append("| package | method | accuracy | fit | / SVC | memory | / SVC | predict |")
        parts.append("|---|---|---|---|---|---|---|---|")
        for name in [name for name in METHODS if name in rows]:
            row, about = rows[name], METHODS[name]
            if "skipped" in row:
                parts.append(f"| {about.package} | {about.title} | – | {row['skipped']} | | | | |")
                continue
            cells = (
                f"{about.package} {row['version']}",
                about.title,
                f"{100 * row['accuracy']:.1f}",
                time(row["seconds"]),
                ratio(row["seconds"], unit.get("seconds")),
                f"{row['peak'] / 1e6:.0f} MB",
                ratio(row["peak"], unit.get("peak")),
                time(row["predict_seconds"]),
            )
            parts.append(f"| {' | '.join(cells)} |")
        parts.append("")
    parts.append(overview(results))
    parts.append("| package | method | what it optimises |\n|---|---|---|")
    parts += [f"| {about.package} | {about.title} | {about.optimises} |" for about in METHODS.values()]
    return "\n".join(parts) + "\n"


def overview(results: Results) -> str:
    """All problems side by side: accuracy, and the time of a fit in multiples of that of SVC."""
    names = [name for name in METHODS if any(name in rows for rows in results.values())]
    lines = [f"| package | method | {' | '.join(results)} |", "|---" * (len(results) + 2) + "|"]
    for name in names:
        cells = [_cell(rows, name) for rows in results.values()]
        lines.append(f"| {METHODS[name].package} | {METHODS[name].title} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _cell(rows: dict[str, dict[str, Any]], name: str) -> str:
    row = rows.get(name, {"skipped": "–"})
    if "skipped" in row:
        return str(row["skipped"])
    unit = rows.get("svc", {}).get("seconds")
    cost = time(row["seconds"]) if name == "svc" or not unit else f"{ratio(row['seconds'], unit)} ×"
    parts = (f"{100 * row['accuracy']:.1f} %", cost, f"{row['peak'] / 1e6:.0f} MB")
    return ", ".join(part.replace(" ", "\N{NO-BREAK SPACE}") for part in parts)  # narrow columns break between them


def time(seconds: float) -> str:
    return f"{1e3 * seconds:.0f} ms" if seconds < 0.1 else f"{seconds:.2f} s" if seconds < 10 else f"{seconds:.0f} s"


def ratio(value: float, unit: float | None) -> str:
    if not unit:
        return "–"
    return f"{value / unit:.2g}" if value < 100 * unit else f"{value / unit:.0f}"


def picture(results: Results, path: Path) -> None:
    """Accuracy against the time of a fit in multiples of that of SVC, a panel for each problem."""
    import matplotlib

    matplotlib.use("agg")
    import matplotlib.pyplot as plt

    shown = {data: rows for data, rows in results.items() if "seconds" in rows.get("svc", {})}
    if not shown:
        return
    figure, axes = plt.subplots(1, len(shown), figsize=(3.6 * len(shown), 4.2), layout="constrained", squeeze=False)
    for ax, (data, rows) in zip(axes[0], shown.items()):
        _panel(ax, data, rows)
    axes[0, 0].set_ylabel("new samples right (%)")
    handles = [plt.Line2D([], [], marker="o", linestyle="", color=c, label=name) for name, c in COLOURS.items()]
    figure.legend(handles=handles, loc="outside lower center", ncols=len(handles), frameon=False)
    figure.savefig(path)
    plt.close(figure)


def _panel(ax: Any, data: str, rows: dict[str, dict[str, Any]]) -> None:
    done = {name: row for name, row in rows.items() if "seconds" in row}
    unit = done["svc"]["seconds"]
    for name, row in done.items():
        x, y = row["seconds"] / unit, 100 * row["accuracy"]
        ax.plot(x, y, "o", color=COLOURS[METHODS[name].package])
        label = name if METHODS[name].environment == "here" else name.split("-", 1)[-1]
        ax.annotate(label, (x, y), xytext=(3, 3), textcoords="offset points", fontsize=7, rotation=40)
    ax.axvline(1.0, color="0.85", zorder=0)
    ax.set(xscale="log", title=data, xlabel="time of a fit, SVC = 1")
    ax.margins(x=0.2, y=0.15)
    ax.spines[["top", "right"]].set_visible(False)
    low = np.percentile([100 * row["accuracy"] for row in done.values()], 10)
    ax.set_ylim(bottom=max(ax.get_ylim()[0], low - 10))
