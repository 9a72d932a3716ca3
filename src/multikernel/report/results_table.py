"""The table of methods."""

from __future__ import annotations

import math

from multikernel.compare.results import Comparison, MethodResult, mean
from multikernel.compare.table import HEADS, cells, columns, left_out, seconds, table_rows
from multikernel.report.markup import Html, el, sentence

_TITLES = {
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


def results_table(comparison: Comparison) -> Html:
    """Methods with scores, time, gap, kernels, memory and parameters; the best is marked."""
    best = comparison.best()
    titles = [_TITLES[key] for key in columns(comparison)]
    head = el("tr", [el("th", title, scope="col", title=note) for title, note in titles])
    body = [_row(comparison, method, method is best) for method in table_rows(comparison)]
    table = el("table", el("thead", head), el("tbody", body), class_="results", id="results-table")
    return el(
        "section",
        el("h2", "Results"),
        el("div", table, class_="scroll", tabindex="0", role="region", aria_label="Results"),
        [el("p", line, class_="note left-out") for line in left_out(comparison)],
        [el("p", sentence(remark), class_="remark") for remark in comparison.remarks],
        el("p", _explanation(comparison), class_="note"),
    )


def _row(comparison: Comparison, method: MethodResult, is_best: bool) -> Html:
    if not method.scores:
        reason = method.error or "not run"
        width = len(columns(comparison)) - 1
        failed = el("td", el("span", reason, class_="error"), colspan=width, data_label="Failed")
        return el("tr", el("th", method.title, scope="row"), failed, class_="failed")
    shown = cells(comparison, method)
    first = shown.pop("method")
    mark = el("span", "best", class_="mark") if is_best else None
    name = el("th", first, mark, scope="row")
    if trouble := method.error or method.left_out:  # some splits were done before
        partial = f"{len(method.scores)} of {comparison.n_splits} splits: {trouble}"
        name = el("th", first, mark, el("span", partial, class_="error"), scope="row")
    others = [
        el("td", text, data_label=_TITLES[key][0], class_="none" if text == "–" else None)
        for key, text in shown.items()
    ]
    kind = "best" if is_best else "baseline" if method is comparison.baseline else None
    return el("tr", name, others, class_=kind)


def _explanation(comparison: Comparison) -> str:
    """How to read the numbers."""
    parts = [
        "± is one standard deviation over the splits."
        if len(comparison.n_test) > 1
        else ""
        if comparison.scoring != "accuracy"
        else f"± is one standard error of a share among {sum(comparison.n_test)} test samples."
    ]
    if comparison.scoring != "accuracy":
        parts.append(f"Methods are ranked, and parameters chosen, by {HEADS[comparison.scoring]}.")
    if comparison.kernel_seconds:
        parts.append(
            f"Kernels are evaluated once for each split ({seconds(mean(comparison.kernel_seconds))}) and shared; "
            "fit times are those of the final fit alone."
        )
    peaks = [peak for method in comparison.methods for peak in method.peak_bytes]
    if any(math.isfinite(peak) for peak in peaks):
        parts.append("Memory is what a fit added to the process at its peak, Gram matrices not counted.")
    elif peaks:
        parts.append("Memory is not measured on this system.")
    return " ".join(part for part in parts if part)
