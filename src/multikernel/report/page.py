"""The page: its sections, in the order in which they are read."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterable, Sequence

from multikernel.compare import table as tables
from multikernel.compare.results import Comparison, MethodResult, mean
from multikernel.io.files import write_text
from multikernel.report import figures
from multikernel.report.markup import Html, el, header, repeat, row, section, sentence, table, whole_page
from multikernel.report.pictures import Pictures, confused_section, examples_section

_HEADS = {
    "method": ("Method", None),
    "accuracy": ("Accuracy", "Share of the test samples that are predicted"),
    "balanced_accuracy": ("Balanced", "Balanced accuracy: the mean over the classes of the share that is predicted"),
    "roc_auc": ("AUC", "Area under the ROC curve, each class against the rest, mean over the classes"),
    "fit time": ("Fit time", "Mean time of the final fit, kernels given and parameters chosen"),
    "gap": ("Gap", "Largest relative duality gap: how far from the optimum the solution can be"),
    "kernels": ("Kernels", "Kernels with a weight above 1e-8 of the largest"),
    "memory": ("Memory", "Memory that the fit added at its peak, the Gram matrices not counted"),
    "parameters": ("Chosen", "Parameters, by validation inside the training samples"),
}


def render(comparison: Comparison, pictures: Pictures | None = None) -> str:
    """The whole page as text, with pictures of the samples if they are images."""
    started = comparison.started.replace("T", " ")
    sections = [
        _interrupted(comparison),
        _results(comparison),
        pictures and examples_section(comparison, pictures),
        figures.accuracy_figure(comparison),
        figures.weights_figure(comparison),
        figures.convergence_figure(comparison),
        figures.kernels_figure(comparison),
        _kernel_metrics(comparison),
        _importance(comparison),
        figures.confusion_figures(comparison),
        pictures and confused_section(comparison, pictures),
        _notes(comparison),
        repeat(
            comparison.command,
            [f"Run on {started}, in {tables.seconds(comparison.seconds)}."] if started else [],
            comparison.versions,
        ),
    ]
    # all results as JSON for whoever wants to read them from the page; not a script that runs
    text = json.dumps(comparison.to_dict(), allow_nan=False, ensure_ascii=True).replace("<", "\\u003c")
    data = el("script", Html(text), type="application/json", id="results")
    return whole_page(f"{comparison.data} – multikernel comparison", _header(comparison), el("main", sections), data)


def write_report(comparison: Comparison, path: str | os.PathLike[str], pictures: Pictures | None = None) -> None:
    """Write the page, atomically."""
    write_text(path, render(comparison, pictures))


def _header(comparison: Comparison) -> Html:
    best, single = comparison.best(), comparison.best_kernel()
    cards = []
    if best is not None:
        cards.append(("Best method", tables.percent(best.score), best.title))
    if single is not None:
        cards.append(("Best single kernel", tables.percent(single.score), single.name))
    cards.append(("Kernels", str(len(comparison.kernel_names)), f"{len(comparison.classes)} classes"))
    count = len(comparison.n_test)
    cards.append(("Time", tables.seconds(comparison.seconds), f"{count} split{'s' * (count != 1)}"))
    return header("comparison", comparison.data, [comparison.description, comparison.protocol], cards)


def _interrupted(comparison: Comparison) -> Html | None:
    if not comparison.interrupted:
        return None
    done, wanted = len(comparison.n_test), comparison.n_splits
    text = f"Interrupted: {done} of {wanted} splits were begun; figures are those of the fits that were finished."
    return el("p", text, class_="banner", role="status")


def _importance(comparison: Comparison) -> Html | None:
    """What each view is worth to the best method and to the average kernel."""
    if not comparison.importance:
        return None
    (_, *titles), *rows = tables.importance_rows(comparison)
    lost = tables.IMPORTANCE.format(tables.score_title(comparison))
    note = (
        f"{lost}, with its standard deviation over such orders. Of views that tell the same, each keeps what the "
        "method gave it. p-values are of permutation tests, corrected for the number of views."
    )
    return _plain_table("Which views matter", ["View", *titles], rows, note)


def _plain_table(title: str, heads: Sequence[str], rows: Iterable[Sequence[str]], note: str) -> Html:
    """A section with a table of text and a note on how to read it."""
    body = [
        row(name, [el("td", text, data_label=head) for head, text in zip(heads[1:], texts)]) for name, *texts in rows
    ]
    return section(title, table(heads, body, scroll=title), el("p", note, class_="note"))


def _kernel_metrics(comparison: Comparison) -> Html | None:
    """Numbers that describe each kernel."""
    if not comparison.kernel_metrics:
        return None
    titles = [name.replace("_", " ").capitalize() for name in comparison.kernel_metrics]
    columns = [[f"{value:.3g}" for value in values] for values in comparison.kernel_metrics.values()]
    rows = list(zip(comparison.kernel_names, *columns))[: figures.MOST_ROWS]
    note = (
        "On the training samples of the first split. The spectral ratio is 0 for a kernel of rank one and 1 for the "
        "identity, in which all samples are alike only to themselves; the centred alignment is the correlation of "
        "its entries with those of the labels' kernel."
    )
    return _plain_table("Kernels in numbers", ["Kernel", *titles], rows, note)


def _notes(comparison: Comparison) -> Html | None:
    notes = [el("li", el("b", method.title), ": ", note) for method in comparison.methods for note in method.notes]
    return section("Warnings", el("ul", notes, class_="notes")) if notes else None


def _results(comparison: Comparison) -> Html:
    """Methods with scores, time, gap, kernels, memory and parameters; the best is marked."""
    titles = [_HEADS[key] for key in tables.columns(comparison)]
    heads = [el("th", title, scope="col", title=note) for title, note in titles]
    rows = [_row(comparison, method) for method in tables.table_rows(comparison)]
    return section(
        "Results",
        table(heads, rows, scroll="Results", class_="results", id="results-table"),
        [el("p", line, class_="note left-out") for line in tables.left_out(comparison)],
        [el("p", sentence(remark), class_="remark") for remark in comparison.remarks],
        el("p", _explanation(comparison), class_="note"),
    )


def _row(comparison: Comparison, method: MethodResult) -> Html:
    if not method.scores:
        width = len(tables.columns(comparison)) - 1
        reason = el("span", method.error or "not run", class_="error")
        failed = el("td", reason, colspan=width, data_label="Failed")
        return row(method.title, failed, class_="failed")
    shown = tables.cells(comparison, method)
    is_best = method is comparison.best()
    name = [shown.pop("method"), el("span", "best", class_="mark") if is_best else None]
    if trouble := method.error or method.left_out:  # some splits were done before
        partial = f"{len(method.scores)} of {comparison.n_splits} splits: {trouble}"
        name.append(el("span", partial, class_="error"))
    others = [
        el("td", text, data_label=_HEADS[key][0], class_="none" if text == "–" else None)
        for key, text in shown.items()
    ]
    kind = "best" if is_best else "baseline" if method is comparison.baseline else None
    return row(name, others, class_=kind)


def _explanation(comparison: Comparison) -> str:
    """How to read the numbers."""
    parts = []
    if len(comparison.n_test) > 1:
        parts.append("± is one standard deviation over the splits.")
    elif comparison.scoring == "accuracy":
        parts.append(f"± is one standard error of a share among {sum(comparison.n_test)} test samples.")
    if comparison.scoring != "accuracy":
        parts.append(f"Methods are ranked, and parameters chosen, by {tables.HEADS[comparison.scoring]}.")
    if comparison.kernel_seconds:
        spent = tables.seconds(mean(comparison.kernel_seconds))
        parts.append(
            f"Kernels are evaluated once for each split ({spent}) and shared; fit times are those of the final fit."
        )
    peaks = [peak for method in comparison.methods for peak in method.peak_bytes]
    if any(map(math.isfinite, peaks)):
        parts.append("Memory is what a fit added to the process at its peak, Gram matrices not counted.")
    elif peaks:
        parts.append("Memory is not measured on this system.")
    return " ".join(parts)
