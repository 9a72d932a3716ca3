"""The table of methods."""

from __future__ import annotations

import math

from multikernel.compare.results import Comparison, MethodResult, mean
from multikernel.compare.table import cells, seconds
from multikernel.report.markup import Html, el

_TITLES = (
    ("Method", None),
    ("Accuracy", "Mean over the test samples; ± one standard deviation over splits"),
    ("Fit time", "Mean time of the final fit, kernels given and parameters chosen"),
    ("Gap", "Largest relative duality gap: how far from the optimum the solution can be"),
    ("Kernels used", "Kernels with a weight above 1e-8 of the largest"),
    ("Peak memory", "Memory that the fit added at its peak, the Gram matrices not counted"),
    ("Chosen", "Parameters, by validation inside the training samples"),
)


def results_table(comparison: Comparison) -> Html:
    """Methods with accuracy, time, gap, kernels, memory and parameters; the best is marked."""
    best = comparison.best()
    head = el("tr", [el("th", title, scope="col", title=note) for title, note in _TITLES])
    rows = [_row(comparison, method, method is best) for method in comparison.methods]
    return el(
        "section",
        el("h2", "Results"),
        el("div", el("table", el("thead", head), el("tbody", rows), class_="results", id="results-table")),
        el("p", _explanation(comparison), class_="note"),
    )


def _row(comparison: Comparison, method: MethodResult, is_best: bool) -> Html:
    if not method.scores:
        reason = method.error or "not run"
        failed = el("td", el("span", reason, class_="error"), colspan=len(_TITLES) - 1, data_label="Failed")
        return el("tr", el("th", method.title, scope="row"), failed, class_="failed")
    first, *others = cells(comparison, method)
    mark = el("span", "best", class_="mark") if is_best else None
    name = el("th", first, mark, scope="row")
    if method.error:  # some splits were done before it failed
        partial = f"{len(method.scores)} of {comparison.n_splits} splits: {method.error}"
        name = el("th", first, mark, el("span", partial, class_="error"), scope="row")
    columns = [el("td", text, data_label=_TITLES[k + 1][0]) for k, text in enumerate(others)]
    return el("tr", name, columns, class_="best" if is_best else None)


def _explanation(comparison: Comparison) -> str:
    """How to read the numbers."""
    parts = [
        "± is one standard deviation over the splits."
        if len(comparison.n_test) > 1
        else f"± is one standard error of a share among {sum(comparison.n_test)} test samples."
    ]
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
    return " ".join(parts)
