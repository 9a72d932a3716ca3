"""The page: its sections, in the order in which they are read."""

from __future__ import annotations

import json

from multikernel.compare.results import Comparison
from multikernel.compare.table import percent, seconds
from multikernel.report.figures import (
    accuracy_figure,
    confusion_figures,
    convergence_figure,
    kernels_figure,
    weights_figure,
)
from multikernel.report.markup import Html, el, join
from multikernel.report.results_table import results_table
from multikernel.report.shell import header, whole_page


def render(comparison: Comparison) -> str:
    """The whole page as text."""
    title = f"{comparison.data} – multikernel comparison"
    return whole_page(title, _header(comparison), el("main", _sections(comparison)), _data(comparison))


def _sections(comparison: Comparison) -> list[Html | None]:
    return [
        _interrupted(comparison),
        results_table(comparison),
        accuracy_figure(comparison),
        weights_figure(comparison),
        convergence_figure(comparison),
        kernels_figure(comparison),
        confusion_figures(comparison),
        _notes(comparison),
        _repeat(comparison),
    ]


def _header(comparison: Comparison) -> Html:
    best = comparison.best()
    singles = [kernel for kernel in comparison.kernels if kernel.scores]
    cards = []
    if best is not None:
        cards.append(("Best method", percent(best.score), best.title))
    if singles:
        single = max(singles, key=lambda kernel: kernel.score)
        cards.append(("Best single kernel", percent(single.score), single.name))
    cards.append(("Kernels", str(len(comparison.kernel_names)), f"{len(comparison.classes)} classes"))
    count = len(comparison.n_test)
    cards.append(("Time", seconds(comparison.seconds), f"{count} split{'s' * (count != 1)}"))
    return header("comparison", comparison.data, [comparison.description, comparison.protocol], cards)


def _interrupted(comparison: Comparison) -> Html | None:
    if not comparison.interrupted:
        return None
    done, wanted = len(comparison.n_test), comparison.n_splits
    text = f"Interrupted: {done} of {wanted} splits were begun; figures are those of the fits that were finished."
    return el("p", text, class_="banner", role="status")


def _notes(comparison: Comparison) -> Html | None:
    notes = [(method.title, note) for method in comparison.methods for note in method.notes]
    if not notes:
        return None
    items = [el("li", el("b", title), ": ", note) for title, note in notes]
    return el("section", el("h2", "Warnings"), el("ul", items, class_="notes"))


def _repeat(comparison: Comparison) -> Html:
    versions = [el("div", el("dt", name), el("dd", value)) for name, value in comparison.versions.items()]
    command = [el("pre", el("code", comparison.command))] if comparison.command else []
    return el(
        "section",
        el("h2", "Repeat this"),
        command,
        el("p", f"Run on {comparison.started.replace('T', ' ')}, in {seconds(comparison.seconds)}.")
        if comparison.started
        else None,
        el("dl", versions, class_="versions"),
    )


def _data(comparison: Comparison) -> Html:
    """All results as JSON for whoever wants to read them from the page; not a script that runs."""
    text = json.dumps(comparison.to_dict(), allow_nan=False, ensure_ascii=True).replace("<", "\\u003c")
    return join(el("script", Html(text), type="application/json", id="results"))
